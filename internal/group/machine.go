// Package group decides everything about consumer groups of the classic protocol and about committed offsets: who is in a
// group, which generation it is in, who leads, what is stored. It is a pure machine: time, chance and order are arguments.
//
// The caller does, for every command: Handle; append the records of its effects; when they are appended, Apply each and then
// Settle; when they were refused, Settle with the code and nothing applied. Between Handle and Settle no other command may
// touch the same group, except Commit and Heartbeat. Durable state (offsets, generations) changes only in Apply, live and on
// recovery alike; who is joining, and every timer, is volatile and begins anew after Loaded.
package group

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// State is what a group is doing.
type State uint8

// The states of the classic protocol.
const (
	Dead State = iota
	Empty
	PreparingRebalance
	CompletingRebalance
	Stable
)

var stateNames = [...]string{"Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}

// String returns Kafka's name of the state.
func (s State) String() string { return stateNames[s] }

// Config is what the broker's configuration says about groups.
type Config struct {
	SessionTimeoutMin     time.Duration // group.min.session.timeout.ms
	SessionTimeoutMax     time.Duration // group.max.session.timeout.ms
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MembersMax            int           // group.max.size
	OffsetMetadataMax     int           // offset.metadata.max.bytes
	OffsetsRetention      time.Duration // offsets.retention.minutes
	// NewMemberJoinTimeout ends a JoinGroup of a new member that is parked for longer: its client has long given up. Kafka
	// has 5 minutes and no setting.
	NewMemberJoinTimeout time.Duration
}

// Sent is an answer to a request.
type Sent struct {
	Ticket Ticket
	Reply  Reply
}

// Effects is what a Handle, a Tick or a Settle wants done.
type Effects struct {
	Records []Record // to append, in this order
	// Separable records may be appended in several batches: each of them is true alone.
	Separable bool
	// Replies may leave at once where Records is empty; else when the records are applied. The caller holds back those that
	// show durable state until what they show is committed.
	Replies []Sent

	settle func(now time.Time, refused kafka.Error) Effects
}
