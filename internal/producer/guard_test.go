package producer

import (
	"errors"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// guarded is a partition whose guards are numbered.
type guarded struct {
	*partitionOf
	last Guard
}

func newGuarded(t *testing.T) *guarded { return &guarded{partitionOf: newPartition(t)} }

func (g *guarded) verify(p record.Producer, adds bool) Guard {
	g.t.Helper()
	g.last++
	guard, err := g.state.Verify(p, adds, g.last, g.now)
	if err != nil {
		g.t.Fatalf("verification of %+v: %v", p, err)
	}
	return guard
}

// send appends a batch of one transactional record if it may be, and returns the code.
func (g *guarded) send(p record.Producer, guard Guard) kafka.Error {
	b := batchOf(p, 1, true, g.now)
	verdict, err := g.state.Check(b, guard)
	if err == nil && !verdict.Duplicate {
		g.append(b)
	}
	code, _ := kafka.Answer(err)
	return code
}

func (g *guarded) want(what string, got, want kafka.Error) {
	g.t.Helper()
	if got != want {
		g.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (g *guarded) mark(id kafka.ProducerID, epoch kafka.ProducerEpoch, commit bool) {
	g.append(record.EndTransaction(id, epoch, record.Marker{Commit: commit, CoordinatorEpoch: 1}, g.now.UnixMilli()))
}

// TestRule67OnlyAGuardBeginsATransaction: KIP-890.
func TestRule67OnlyAGuardBeginsATransaction(t *testing.T) {
	g := newGuarded(t)
	first := record.Producer{ID: 1}
	g.want("without a guard", g.send(first, NoGuard), kafka.InvalidTxnState)
	guard := g.verify(first, false)
	if again := g.verify(first, false); again != guard {
		t.Errorf("the same question has guards %d and %d", guard, again)
	}
	g.want("with another guard", g.send(first, guard+100), kafka.InvalidTxnState)
	g.want("with another producer's", g.send(record.Producer{ID: 2}, guard), kafka.InvalidTxnState)
	g.want("with its guard", g.send(first, guard), kafka.None)
	g.want("sent again, a duplicate", g.send(first, NoGuard), kafka.None)
	if needs := g.verify(record.Producer{ID: 1, BaseSequence: 1}, false); needs != NoGuard {
		t.Errorf("in an open transaction a batch needs guard %d", needs)
	}
	g.want("in the open transaction", g.send(record.Producer{ID: 1, BaseSequence: 1}, NoGuard), kafka.None)
	g.mark(1, 0, true)
	g.want("after the marker", g.send(record.Producer{ID: 1, BaseSequence: 2}, NoGuard), kafka.InvalidTxnState)
	g.want("with the guard of the last transaction", g.send(record.Producer{ID: 1, BaseSequence: 2}, guard), kafka.InvalidTxnState)
	if first, open := g.state.FirstUnstable(); open {
		t.Errorf("a transaction is open since offset %d", first)
	}
	g.want("where nobody is asked", g.send(record.Producer{ID: 1, BaseSequence: 2}, Unguarded), kafka.None)
}

// TestAMarkerBetweenQuestionAndAppendTakesTheGuard: the coordinator said yes, ended the transaction, and perhaps began another of which
// this partition is no part. The batch must not hang in the log.
func TestAMarkerBetweenQuestionAndAppendTakesTheGuard(t *testing.T) {
	g := newGuarded(t)
	p := record.Producer{ID: 1, BaseSequence: 5}
	stale := g.verify(p, false)
	g.mark(1, 0, false)
	g.want("after the marker", g.send(p, stale), kafka.InvalidTxnState)
	if fresh := g.verify(p, false); fresh == stale || fresh == NoGuard {
		t.Errorf("the next transaction's guard is %d, the last one's was %d", fresh, stale)
	}
	g.want("with the guard before last", g.send(p, stale), kafka.InvalidTxnState)
}

// TestSequencesOfATransactionThatEnded: what a transaction sends with the sequences of one before it, in the same epoch as before
// protocol 2, are other records. An answer that they are in the log would lose them.
func TestSequencesOfATransactionThatEnded(t *testing.T) {
	for _, commits := range []bool{false, true} {
		g := newGuarded(t)
		zero, one, two := record.Producer{ID: 1}, record.Producer{ID: 1, BaseSequence: 1}, record.Producer{ID: 1, BaseSequence: 2}
		g.want("the first batch", g.send(zero, g.verify(zero, false)), kafka.None)
		g.want("the second", g.send(one, NoGuard), kafka.None)
		g.want("the second again", g.send(one, NoGuard), kafka.None)
		g.mark(1, 0, commits)
		g.want("the second in the next transaction", g.send(one, g.verify(one, false)), kafka.OutOfOrderSequenceNumber)
		g.mark(1, 0, false)
		g.want("what comes next, in the one after", g.send(two, g.verify(two, false)), kafka.None)
		g.want("the second in the open transaction", g.send(one, NoGuard), kafka.OutOfOrderSequenceNumber)
		g.want("what came next again", g.send(two, NoGuard), kafka.None)
		if end, want := g.end, kafka.Offset(5); end != want { // two records, two markers, one record
			t.Errorf("the log ends at %d, want %d", end, want)
		}
	}
}

// TestADelayedBatchOfTheEpochBefore: in protocol 2 each marker raises the epoch.
func TestADelayedBatchOfTheEpochBefore(t *testing.T) {
	g := newGuarded(t)
	p := record.Producer{ID: 1, Epoch: 3}
	g.want("the transaction", g.send(p, g.verify(p, true)), kafka.None)
	late := record.Producer{ID: 1, Epoch: 3, BaseSequence: 1}
	g.mark(1, 4, true)
	g.want("a batch that comes after the marker", g.send(late, NoGuard), kafka.InvalidProducerEpoch)
	g.want("the batch before it once more", g.send(p, NoGuard), kafka.InvalidProducerEpoch)
	if _, err := g.state.Verify(late, true, 99, g.now); !errors.Is(err, kafka.InvalidProducerEpoch) {
		t.Errorf("a question about it: %v, want %v", err, kafka.InvalidProducerEpoch)
	}
	next := record.Producer{ID: 1, Epoch: 4}
	g.want("the next transaction", g.send(next, g.verify(next, true)), kafka.None)
	g.want("offsets of the epoch before", codeOf(g.state.CheckOffsets(batchOf(record.Producer{ID: 1, Epoch: 3, BaseSequence: -1}, 1, true, g.now), NoGuard)),
		kafka.InvalidProducerEpoch)
}

func codeOf(err error) kafka.Error {
	code, _ := kafka.Answer(err)
	return code
}

// TestALaterBatchDoesNotBeginTheTransaction: of two that were sent, the coordinator could not be asked about the first. It is sent again,
// and would find a gap if the second had been appended.
func TestALaterBatchDoesNotBeginTheTransaction(t *testing.T) {
	g := newGuarded(t)
	low, high := record.Producer{ID: 1, BaseSequence: 10}, record.Producer{ID: 1, BaseSequence: 11}
	g.verify(low, false)
	guard := g.verify(high, false)
	g.want("the second first", g.send(high, guard), kafka.OutOfOrderSequenceNumber)
	g.want("the first", g.send(low, guard), kafka.None)
	g.want("the second after it", g.send(high, NoGuard), kafka.None)

	g = newGuarded(t)
	g.verify(high, false)
	guard = g.verify(low, false)
	g.want("the one with the higher sequence asked first", g.send(high, guard), kafka.OutOfOrderSequenceNumber)

	g = newGuarded(t)
	g.verify(record.Producer{ID: 1, BaseSequence: -1}, false)
	g.want("a batch without a sequence holds none up", g.send(high, g.verify(high, false)), kafka.None)

	g = newGuarded(t)
	g.verify(record.Producer{ID: 1, BaseSequence: 0}, false)
	next := record.Producer{ID: 1, Epoch: 1, BaseSequence: 7}
	g.want("a new epoch begins anew", g.send(next, g.verify(next, false)), kafka.None)
}

// TestProtocol2BeginsAtSequence0: where the producer is not known its epoch is new, as each transaction has its own.
func TestProtocol2BeginsAtSequence0(t *testing.T) {
	g := newGuarded(t)
	p := record.Producer{ID: 1, Epoch: 4, BaseSequence: 3}
	g.want("sequence 3 of an unknown producer", g.send(p, g.verify(p, true)), kafka.OutOfOrderSequenceNumber)
	p = record.Producer{ID: 2, Epoch: 4, BaseSequence: 3}
	g.want("before protocol 2", g.send(p, g.verify(p, false)), kafka.None)
	g.mark(3, 5, true)
	p = record.Producer{ID: 3, Epoch: 5, BaseSequence: 3}
	g.want("sequence 3 after a marker", g.send(p, g.verify(p, true)), kafka.OutOfOrderSequenceNumber)
	p.BaseSequence = 0
	g.want("sequence 0 after a marker", g.send(p, g.verify(p, true)), kafka.None)
}

// TestOffsetsInATransactionHaveAGuardToo: a group's coordinator appends them, without a sequence.
func TestOffsetsInATransactionHaveAGuardToo(t *testing.T) {
	g := newGuarded(t)
	p := record.Producer{ID: 1, Epoch: 2, BaseSequence: -1}
	offsets := batchOf(p, 1, true, g.now)
	g.want("without a guard", codeOf(g.state.CheckOffsets(offsets, NoGuard)), kafka.InvalidTxnState)
	g.want("with one", codeOf(g.state.CheckOffsets(offsets, g.verify(p, true))), kafka.None)
	g.append(offsets)
	g.want("once the transaction is open", codeOf(g.state.CheckOffsets(batchOf(p, 1, true, g.now), NoGuard)), kafka.None)
	g.mark(1, 3, true)
	g.want("after its end", codeOf(g.state.CheckOffsets(batchOf(p, 1, true, g.now), NoGuard)), kafka.InvalidProducerEpoch)
}

func TestGuardsAreBoundedAndGrowOld(t *testing.T) {
	g := newGuarded(t)
	var guards []Guard
	for i := range verifyingMax + 1 {
		guards = append(guards, g.verify(record.Producer{ID: kafka.ProducerID(i)}, false))
	}
	if n := len(g.state.verifying); n != verifyingMax {
		t.Errorf("%d guards are remembered, want %d", n, verifyingMax)
	}
	g.want("the oldest", g.send(record.Producer{ID: 0}, guards[0]), kafka.InvalidTxnState)
	g.want("the one after it", g.send(record.Producer{ID: 1}, guards[1]), kafka.None)
	g.now = g.now.Add(time.Minute)
	g.verify(record.Producer{ID: 7777}, false)
	g.state.Expire(g.now.Add(30*time.Second), time.Minute)
	if n := len(g.state.verifying); n != 1 {
		t.Errorf("%d guards are younger than a minute, want 1", n)
	}
	g.want("an old one", g.send(record.Producer{ID: 2}, guards[2]), kafka.InvalidTxnState)

	moved := New(0)
	moved.TakeGuards(g.state)
	if len(moved.verifying) != 1 || len(g.state.verifying) != 0 {
		t.Errorf("%d guards went along, %d stayed", len(moved.verifying), len(g.state.verifying))
	}
	moved.Expire(g.now.Add(time.Hour), time.Minute)
	if moved.verifying != nil {
		t.Error("the memory of guards is kept when the last is gone")
	}
}
