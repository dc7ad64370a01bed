package producer

import (
	"math"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Guard stands between a question to the transaction coordinator and the append that waits for its answer (KIP-890). The first batch
// of a transaction in a partition is taken with the guard that State.Verify gave before the question was asked. A marker that comes
// between them takes the guard away, so that no batch begins a transaction that has ended.
type Guard uint64

const (
	// NoGuard begins no transaction.
	NoGuard Guard = 0
	// Unguarded begins a transaction that nobody was asked about: transaction.partition.verification.enable is false.
	Unguarded Guard = 1<<64 - 1
)

// verification is a question that a producer's append waits for, or one whose answer was no.
type verification struct {
	id    kafka.ProducerID
	guard Guard
	epoch kafka.ProducerEpoch
	// lowest is the lowest sequence that was to be appended. A higher one does not go first: the lower, sent again, would find a gap.
	lowest  kafka.Sequence
	adds    bool  // the question adds the partition to the transaction: of protocol 2, whose epochs each begin at sequence 0
	sinceMs int64 // for Expire
}

// verifyingMax is how many verifications are remembered: beyond it the oldest goes, and what waits for it is refused.
const verifyingMax = 1000

// Verify tells how a batch of a transaction gets into the log: with the guard that is returned, once the coordinator has agreed to it,
// or, in a transaction that is open already, with NoGuard and no question. fresh is a guard that no State of this process was given
// before. adds tells that the question adds the partition to the transaction. The error is kafka.InvalidProducerEpoch for a fenced
// producer.
func (s *State) Verify(p record.Producer, adds bool, fresh Guard, now time.Time) (Guard, error) {
	e := s.find(p.ID)
	if err := e.fences(p.ID, p.Epoch); err != nil {
		return NoGuard, err
	}
	if e.inTransaction(p.Epoch) {
		return NoGuard, nil
	}
	if p.BaseSequence < 0 { // offsets, which have none, or what will be refused
		p.BaseSequence = math.MaxInt32
	}
	v := s.verification(p.ID)
	if v == nil {
		if len(s.verifying) == verifyingMax {
			s.verifying = slices.Delete(s.verifying, 0, 1)
		}
		s.verifying = append(s.verifying, verification{
			id: p.ID, guard: fresh, epoch: p.Epoch, lowest: p.BaseSequence, adds: adds, sinceMs: now.UnixMilli(),
		})
		return fresh, nil
	}
	switch {
	case p.Epoch > v.epoch:
		v.epoch, v.lowest = p.Epoch, p.BaseSequence
	case p.Epoch == v.epoch:
		v.lowest = min(v.lowest, p.BaseSequence)
	}
	return v.guard, nil
}

// TakeGuards takes over the guards of a state whose partition goes on with this one.
func (s *State) TakeGuards(from *State) { s.verifying, from.verifying = from.verifying, nil }

// verification returns what is remembered of a producer's question, or nil.
func (s *State) verification(id kafka.ProducerID) *verification {
	for i := range s.verifying {
		if s.verifying[i].id == id {
			return &s.verifying[i]
		}
	}
	return nil
}

// verified takes the guards of a producer away: it has begun its transaction, or a marker has ended it.
func (s *State) verified(id kafka.ProducerID) {
	s.verifying = slices.DeleteFunc(s.verifying, func(v verification) bool { return v.id == id })
	if len(s.verifying) == 0 {
		s.verifying = nil
	}
}

// expireGuards forgets the questions that are older than that: nobody waits for them any more.
func (s *State) expireGuards(nowMs int64, after time.Duration) {
	s.verifying = slices.DeleteFunc(s.verifying, func(v verification) bool { return nowMs-v.sinceMs >= after.Milliseconds() })
	if len(s.verifying) == 0 {
		s.verifying = nil
	}
}

// checkGuard refuses a batch that would begin a transaction which the coordinator does not know to have this partition, or knows no more.
func (s *State) checkGuard(e *entry, b record.Batch, guard Guard) error {
	id, epoch := b.ProducerID(), b.ProducerEpoch()
	if !b.IsTransactional() || e.inTransaction(epoch) {
		return nil
	}
	if guard != Unguarded {
		if v := s.verification(id); v == nil || guard == NoGuard || v.guard != guard {
			return kafka.Refuse(kafka.InvalidTxnState, "producer %d has no transaction open in epoch %d that the partition was added to", id, epoch)
		}
	}
	if e == nil {
		return s.checkRoom()
	}
	return nil
}

// checkTurn keeps a client's batch from being the first of its producer while one with a lower sequence was to be.
func (s *State) checkTurn(e *entry, id kafka.ProducerID, first kafka.Sequence) error {
	v := s.verification(id)
	if v == nil {
		return nil
	}
	if v.adds && first != 0 && (e == nil || len(e.batches) == 0) {
		return kafka.Refuse(kafka.OutOfOrderSequenceNumber, "producer %d begins with sequence %d, not 0", id, first)
	}
	if first > v.lowest {
		return kafka.Refuse(kafka.OutOfOrderSequenceNumber, "producer %d sends sequence %d while %d waits for the transaction coordinator", id, first, v.lowest)
	}
	return nil
}
