// Package txn is the transaction coordinator as a pure machine: one for each partition of __transaction_state. Time and fresh
// producer ids are arguments.
//
// The caller does, for every command: Handle; append the records of its effects; when they are appended, Apply each and then
// Settle; when they were refused, Settle with the code and nothing applied. Between Handle and Settle other commands may come, for
// the same transactional id too: they are answered with CONCURRENT_TRANSACTIONS.
package txn

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Config is what the broker's configuration says about transactions.
type Config struct {
	TimeoutMax     time.Duration // transaction.max.timeout.ms
	IDExpiration   time.Duration // transactional.id.expiration.ms
	TwoPhaseCommit bool          // transaction.two.phase.commit.enable
}

// Machine decides about all transactional ids of one partition of __transaction_state.
type Machine struct {
	cfg              Config
	coordinatorEpoch int32
	protocol         int16
}

// New returns a machine that has read nothing. Apply the log's records, then call Loaded. The coordinator's epoch is the leader
// epoch of the partition.
func New(cfg Config, coordinatorEpoch int32) *Machine {
	return &Machine{cfg: cfg, coordinatorEpoch: coordinatorEpoch}
}

// SetProtocol tells the finalised level of transaction.version, before the next command.
func (m *Machine) SetProtocol(level int16) { m.protocol = level }

// Handle decides a command.
func (m *Machine) Handle(now time.Time, ticket Ticket, transactionalID string, cmd Command) Effects {
	return Effects{Replies: []Sent{{ticket, cmd.Fail(kafka.CoordinatorNotAvailable)}}}
}

// Apply changes durable state by one record of the log: live, when the record has been appended, and on recovery.
func (m *Machine) Apply(r *Record) {}

// Settle ends what effects with records began: refused is None when the records are applied, and else why they were not appended.
func (m *Machine) Settle(now time.Time, e Effects, refused kafka.Error) Effects {
	if e.settle == nil {
		return Effects{}
	}
	return e.settle(now, refused)
}

// Marked tells that partitions have a marker, or are no more.
func (m *Machine) Marked(now time.Time, transactionalID string, attempt uint64, done []kafka.TopicPartition) Effects {
	return Effects{}
}

// AbortTimedOut begins to abort one transaction that is over its time; false when there is none.
func (m *Machine) AbortTimedOut(now time.Time) (Effects, bool) { return Effects{}, false }

// Expire removes transactional ids that have not been used for long; false when there are none.
func (m *Machine) Expire(now time.Time) (Effects, bool) { return Effects{}, false }

// Loaded goes on with what was prepared when the log ended.
func (m *Machine) Loaded(now time.Time) Effects { return Effects{} }

// List returns the transactional ids, by name.
func (m *Machine) List() []Listed { return nil }
