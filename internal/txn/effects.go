package txn

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// State is where a transactional id stands. Its number is the one in the log.
type State int8

// The states, with Kafka's numbers.
const (
	Empty State = iota
	Ongoing
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
	Dead
	PrepareEpochFence
)

var stateNames = [...]string{
	"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
}

// String returns Kafka's name of the state.
func (s State) String() string { return stateNames[s] }

// ParseState finds a state by Kafka's name.
func ParseState(name string) (State, bool) {
	at := slices.Index(stateNames[:], name)
	return State(at), at >= 0
}

// Sent is an answer to a request.
type Sent struct {
	Ticket Ticket
	Reply  Reply
}

// Effects is what a call of the machine wants done. Those with records have no replies and no markers: these come from Settle.
type Effects struct {
	Records []*Record // to append, in this order, as one batch
	// Replies are held back by the caller until all that was appended before is committed.
	Replies []Sent
	// Markers are to be written when all that was appended before is committed: not earlier, as a marker cannot be taken back.
	Markers []Marker
	// NeedsID tells that the command is to be handed in again, with a fresh producer id. Nothing else is in such effects.
	NeedsID bool

	settle func(now time.Time, refused kafka.Error) Effects
}

// Marker is to be written to each of the partitions, and each again until it is there or the partition is no more. The caller
// tells of each with [Machine.Marked]; at once, where there are no partitions.
type Marker struct {
	TransactionalID  string
	Attempt          uint64 // names this Marker in Marked
	ID               ID     // the epoch is the marker's, in protocol 2 one above the records'
	CoordinatorEpoch int32
	Commit           bool
	Protocol         int16
	Partitions       []kafka.TopicPartition
}
