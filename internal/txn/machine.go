// Package txn is the transaction coordinator as a pure machine: one for each partition of __transaction_state. Time and fresh
// producer ids are arguments.
//
// The caller does, for every command: Handle; append the records of its effects as one batch; when they are appended, Apply each
// and then Settle; when they were refused, Settle with the code and nothing applied. Between Handle and Settle other commands may
// come, for the same transactional id too: they are answered with CONCURRENT_TRANSACTIONS. What an id is changes only in Apply, live
// and on recovery alike; which markers are still to be written, and who may have missed an answer, is volatile.
package txn

import (
	"math"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
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
	protocol         int16 // the finalised level of transaction.version
	ids              map[string]*entry
	attempts         uint64 // how many Markers there were

	late, old []string // what AbortTimedOut and Expire still have to look at in this round
}

// entry is one transactional id.
type entry struct {
	id    string
	value *Value // what the log says; nil while the first record is being appended
	// pending: a record of it is being appended, and nothing is decided about it until that has ended.
	pending bool
	// last is the epoch before value.ID.Epoch when one client has both, else -1: it may have missed an answer. A reload forgets it.
	last kafka.ProducerEpoch
	// attempt names the Marker that is being written, and left are the partitions that do not have it; of transactions that are
	// prepared.
	attempt uint64
	left    map[kafka.TopicPartition]struct{}
}

// epochMax is the last epoch that fences a producer. No client has it, so that there is always one above what a client has.
const epochMax kafka.ProducerEpoch = math.MaxInt16

// idBytesMax is how long a transactional id may be: the record's key has no room for more.
const idBytesMax = math.MaxInt16

// twoPhase is the timeout of transactions that never time out.
const twoPhase = math.MaxInt32

// New returns a machine that has read nothing. Apply the log's records, then call Loaded. The coordinator's epoch is the leader
// epoch of the partition.
func New(cfg Config, coordinatorEpoch int32) *Machine {
	return &Machine{cfg: cfg, coordinatorEpoch: coordinatorEpoch, ids: map[string]*entry{}}
}

// SetProtocol tells the finalised level of transaction.version, before the next command.
func (m *Machine) SetProtocol(level int16) { m.protocol = level }

// Handle decides a command.
func (m *Machine) Handle(now time.Time, ticket Ticket, transactionalID string, cmd Command) Effects {
	if transactionalID == "" || len(transactionalID) > idBytesMax {
		return reply(ticket, cmd.Fail(kafka.InvalidRequest))
	}
	e := m.ids[transactionalID]
	switch cmd := cmd.(type) {
	case *InitProducer:
		return m.initProducer(now, ticket, transactionalID, e, cmd)
	case *AddPartitions:
		return m.addPartitions(now, ticket, e, cmd)
	case *End:
		return m.end(now, ticket, e, cmd)
	case *Describe:
		return reply(ticket, describe(e))
	}
	invariant.Check(false, "unknown command %T", cmd)
	return Effects{}
}

// Apply changes durable state by one record of the log: live, when the record has been appended, and on recovery.
func (m *Machine) Apply(r *Record) {
	if r.Value == nil {
		delete(m.ids, r.TransactionalID)
		return
	}
	e := m.ids[r.TransactionalID]
	if e == nil {
		e = &entry{id: r.TransactionalID, last: NoID.Epoch}
		m.ids[r.TransactionalID] = e
	}
	e.value = r.Value
}

// Settle ends what effects with records began: refused is None when the records are applied, and else why they were not appended.
// It must be called for every effects with records. Its own effects have no records.
func (m *Machine) Settle(now time.Time, e Effects, refused kafka.Error) Effects {
	if e.settle == nil {
		return Effects{}
	}
	after := e.settle(now, refused)
	invariant.Check(len(after.Records) == 0, "settling wants %d records appended", len(after.Records))
	return after
}

// write wants records of one id appended. Then done says what comes of it, when they are applied; and refused, when they could not
// be appended: then nothing has changed.
func (m *Machine) write(e *entry, done func() Effects, refused func(kafka.Error) Effects, values ...*Value) Effects {
	e.pending = true
	records := make([]*Record, len(values))
	for i, v := range values {
		if v.Version = min(m.protocol, 1); v.Version == 0 {
			v.Protocol = 0 // there is no room for it
		}
		records[i] = &Record{TransactionalID: e.id, Value: v}
	}
	return Effects{Records: records, settle: func(_ time.Time, code kafka.Error) Effects {
		e.pending = false
		if code == kafka.None {
			return done()
		}
		if e.value == nil {
			delete(m.ids, e.id)
		}
		return refused(code)
	}}
}

// next is the value after a change: a copy, that remembers the producer id before it.
func (e *entry) next(now time.Time, state State) *Value {
	v := *e.value
	v.Previous, v.State, v.UpdatedMs = v.ID.Producer, state, now.UnixMilli()
	return &v
}

// known tells whether the log has the id.
func (e *entry) known() bool { return e != nil && e.value != nil }

// busy tells whether nothing can be decided about an id now: a record of it is being appended, or the markers of its transaction
// are being written.
func (e *entry) busy() bool { return e.pending || e.value.State.prepared() }

// prepared tells whether a transaction is decided and has not all its markers.
func (s State) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

// used tells whether no epoch is left to hand out after this one.
func (id ID) used() bool { return id.Epoch >= epochMax-1 }

func reply(ticket Ticket, r Reply) Effects { return Effects{Replies: []Sent{{ticket, r}}} }
