package replica

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestTransactionsSurvivePowerCuts cuts the power at each operation around the records and the markers of a transaction. After it, a transaction
// whose marker was acknowledged is decided as the marker said, and one whose marker was not ends when it is sent again: the same in every
// partition, and for readers the same as a look at the whole log.
func TestTransactionsSurvivePowerCuts(t *testing.T) {
	eachSeed(t, max(*crashSeeds/8, 1), func(t *testing.T, seed uint64) {
		for cut := 0; ; cut++ {
			if surviveCutInTransaction(t, seed, cut) {
				if cut < 10 {
					t.Errorf("only %d operations were met", cut)
				}
				return
			}
			if t.Failed() {
				t.Fatalf("the power was cut at operation %d", cut)
			}
		}
	})
}

// surviveCutInTransaction tells whether all was over before the power was cut.
func surviveCutInTransaction(t *testing.T, seed uint64, cut int) bool {
	random := rand.New(rand.NewPCG(seed, 5)) // the same for each cut
	disk := faultfs.NewDisk(seed + uint64(cut))
	w := newWorldOn(t, disk)
	id := w.topic("t", crashPartitions, "segment.bytes=1048576")
	before := [...]int{0, 0, 0, 600 << 10}[random.IntN(4)]
	// What was there before: a transaction that was aborted.
	for i := range int32(crashPartitions) {
		w.mustBegin(i, record.Producer{ID: 8}, "old", strings.Repeat("o", before))
		w.mustMark(i, Marker{ProducerID: 8, ProducerEpoch: 1, CoordinatorEpoch: 1, Protocol: 2})
	}
	end := Marker{ProducerID: 7, ProducerEpoch: 1, CoordinatorEpoch: 1, Commit: random.IntN(2) == 0, Protocol: 2}
	// Next to nothing, more than the journal takes, or another segment.
	filling := [...]int{0, 0, 0, 40 << 10, 40 << 10, 500 << 10}[random.IntN(6)]
	disk.CutAt(cut)
	var written, marked [crashPartitions]bool
	for i := range written {
		written[i] = w.begin(int32(i), record.Producer{ID: 7}, "a", strings.Repeat("f", filling)).Err == kafka.None &&
			w.inTransaction(int32(i), record.Producer{ID: 7, BaseSequence: 2}, producer.NoGuard, "b").Err == kafka.None
		end.Commit = end.Commit && written[i]
	}
	done := make([]chan error, crashPartitions)
	for i := range done {
		done[i] = make(chan error, 1)
		w.m.EndTransaction(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, end, func(err error) { done[i] <- err })
	}
	for i := range done {
		marked[i] = answer(w, done[i]) == nil
	}
	over := !disk.Off()
	disk.CutAt(0) // what is not cut by now ends here
	_ = w.m.Close(context.Background())
	disk.Restart()
	if random.IntN(2) == 0 { // and once more while it is recovered
		w.opened = func() { disk.CutAt(random.IntN(25)) }
		w.reopen(id)
		_ = w.m.Close(context.Background())
		disk.Restart()
		w.opened = nil
	}
	w.reopen(id)
	for i := range marked {
		w.checkDecided(int32(i), marked[i])
		w.mustMark(int32(i), end) // as the coordinator does, which has not heard of all
		w.checkDecided(int32(i), true)
		if got := w.committedValues(int32(i)); end.Commit != slices.Contains(got, "a") || end.Commit != slices.Contains(got, "b") || slices.Contains(got, "old") {
			t.Errorf("partition %d, commit %v: %v is read", i, end.Commit, got)
		}
		if written[i] {
			if got := w.values("t", int32(i), 0); !slices.Contains(got, "a") || !slices.Contains(got, "b") {
				t.Errorf("partition %d: records that were acknowledged are gone: %v", i, got)
			}
		}
	}
	return over
}

func (w *world) mustBegin(index int32, p record.Producer, values ...string) {
	w.Helper()
	if r := w.begin(index, p, values...); r.Err != kafka.None {
		w.Fatalf("begin in partition %d: %v %s", index, r.Err, r.Message)
	}
}

func (w *world) mustMark(index int32, m Marker) {
	w.Helper()
	if code := w.mark(index, m); code != kafka.None {
		w.Fatalf("marker in partition %d: %v", index, code)
	}
}

// txnSpan is a transaction as the whole log shows it.
type txnSpan struct {
	id            kafka.ProducerID
	first, marker kafka.Offset
}

// history is what the log of a partition says about transactions when it is read from its start.
type history struct {
	batches []record.Batch
	aborted []txnSpan // by marker
	stable  kafka.Offset
}

func (w *world) history(index int32) history {
	w.Helper()
	var h history
	open := map[kafka.ProducerID]kafka.Offset{}
	for from := kafka.Offset(0); ; {
		got := w.fetch(at("t", index, from))
		if got.Err != kafka.None {
			w.Fatalf("read partition %d from %d: %v", index, from, got.Err)
		}
		if len(got.bytes) == 0 {
			h.stable = from
			for _, first := range open {
				h.stable = min(h.stable, first)
			}
			return h
		}
		for b := got.bytes; len(b) > 0; {
			batch, rest, err := record.Split(b)
			if err != nil {
				w.Fatal(err)
			}
			h.batches, b, from = append(h.batches, batch), rest, batch.NextOffset()
			first, is := open[batch.ProducerID()]
			switch marker, ends, err := batch.Marker(); {
			case err != nil:
				w.Fatal(err)
			case ends && is:
				if !marker.Commit {
					h.aborted = append(h.aborted, txnSpan{batch.ProducerID(), first, batch.BaseOffset()})
				}
				delete(open, batch.ProducerID())
			case batch.IsTransactional() && !ends && !is:
				open[batch.ProducerID()] = batch.BaseOffset()
			}
		}
	}
}

// checkDecided compares what readers of committed records are told, from each offset on and with little and much at a time, with the
// log itself. decided tells that no transaction may be open.
func (w *world) checkDecided(index int32, decided bool) {
	w.Helper()
	h := w.history(index)
	end := kafka.Offset(0)
	if n := len(h.batches); n > 0 {
		end = h.batches[n-1].NextOffset()
	}
	if decided && h.stable != end {
		w.Errorf("partition %d: a transaction is open at %d, and all have ended", index, h.stable)
	}
	for from := kafka.Offset(0); from <= end; from++ {
		for _, most := range []int32{1, 1 << 20} {
			part := at("t", index, from)
			part.MaxBytes = most
			got := answer(w, w.readRequest(FetchRequest{ReplicaID: -1, MaxBytes: 4 << 20, Committed: true, Partitions: []FetchPartition{part}}))[0]
			if got.Err != kafka.None || got.LastStable != h.stable {
				w.Fatalf("partition %d from %d: %v, last stable offset %d, the log says %d", index, from, got.Err, got.LastStable, h.stable)
			}
			if from >= h.stable {
				if len(got.bytes) > 0 {
					w.Errorf("partition %d from %d: %d bytes beyond the last stable offset %d", index, from, len(got.bytes), h.stable)
				}
				continue
			}
			to := from
			if len(got.bytes) > 0 {
				_, to = decodeValues(w, got.bytes, from)
			}
			want := slices.DeleteFunc(slices.Clone(h.aborted), func(s txnSpan) bool { return s.marker < from || s.first >= to })
			is := spansOf(got.Aborted)
			if to <= from || to > h.stable || !slices.Equal(is, want) {
				w.Fatalf("partition %d from %d, at most %d bytes: up to %d, aborted %+v, want %+v", index, from, most, to, is, want)
			}
		}
	}
}

func spansOf(aborted []commitlog.AbortedTxn) (spans []txnSpan) {
	for _, a := range aborted {
		spans = append(spans, txnSpan{a.ProducerID, a.FirstOffset, a.LastOffset})
	}
	return spans
}

// committedValues reads a partition as consumers of committed records do.
func (w *world) committedValues(index int32) (values []string) {
	w.Helper()
	for from := kafka.Offset(0); ; {
		got := answer(w, w.readRequest(FetchRequest{ReplicaID: -1, MaxBytes: 1 << 20, Committed: true, Partitions: []FetchPartition{at("t", index, from)}}))[0]
		if len(got.bytes) == 0 {
			return values
		}
		var read []string
		read, from = visible(w, got, from)
		values = append(values, read...)
	}
}

// visible is what a consumer makes of an answer: it passes over markers, and over the records of the transactions that are listed, each
// until its marker.
func visible(t testing.TB, got fetched, from kafka.Offset) (values []string, next kafka.Offset) {
	t.Helper()
	next = from
	waiting := slices.SortedFunc(slices.Values(got.Aborted), func(a, b commitlog.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	aborting := map[kafka.ProducerID]bool{}
	for b := got.bytes; len(b) > 0; {
		batch, rest, err := record.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		b, next = rest, batch.NextOffset()
		for len(waiting) > 0 && waiting[0].FirstOffset <= batch.LastOffset() {
			aborting[waiting[0].ProducerID] = true
			waiting = waiting[1:]
		}
		if marker, ends, _ := batch.Marker(); ends {
			if !marker.Commit {
				delete(aborting, batch.ProducerID())
			}
			continue
		}
		if batch.IsTransactional() && aborting[batch.ProducerID()] {
			continue
		}
		for r, err := range batch.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Offset >= from {
				values = append(values, string(r.Value))
			}
		}
	}
	return values, next
}
