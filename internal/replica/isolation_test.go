package replica

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// transaction is a batch of a producer's open transaction.
func transaction(id kafka.ProducerID, base kafka.Sequence, values ...string) record.Batch {
	b := record.Builder{Producer: &record.Producer{ID: id, BaseSequence: base}, Transactional: true}
	for _, v := range values {
		b.Add([]byte("k"), []byte(v), nil, 1000)
	}
	return b.Build()
}

// own appends a batch as a coordinator does, and waits until it is committed.
func (w *world) own(topic string, b record.Batch) {
	w.Helper()
	done := make(chan error, 1)
	w.m.Append(kafka.TopicPartition{Topic: topic}, b, func(_ kafka.Offset, err error) { done <- err })
	if err := answer(w, done); err != nil {
		w.Fatalf("append to %s: %v", topic, err)
	}
}

func (w *world) end(topic string, id kafka.ProducerID, commit bool) {
	w.Helper()
	w.own(topic, record.EndTransaction(id, 0, record.Marker{Commit: commit, CoordinatorEpoch: 1}, 1000))
}

// committed reads one partition as far as all is decided.
func (w *world) committed(minBytes, maxWaitMs int32, from kafka.Offset) <-chan []fetched {
	return w.readRequest(FetchRequest{
		ReplicaID: -1, MaxWaitMs: maxWaitMs, MinBytes: minBytes, MaxBytes: 1 << 20, Committed: true,
		Partitions: []FetchPartition{at("t", 0, from)},
	})
}

func TestRule64NoReadingPastTheLastStableOffset(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))  // 0
	w.own("t", transaction(1, 0, "b")) // 1
	w.mustProduce("t", 0, plain("c"))  // 2
	w.own("t", transaction(2, 0, "d")) // 3
	check := func(from, highWatermark, lastStable kafka.Offset, values string, aborted ...kafka.ProducerID) {
		t.Helper()
		got := answer(t, w.committed(0, 0, from))[0]
		var read []string
		if len(got.bytes) > 0 {
			read, _ = decodeValues(t, got.bytes, from)
			read = slices.DeleteFunc(read, func(v string) bool { return len(v) > 1 }) // markers
		}
		if got.HighWatermark != highWatermark || got.LastStable != lastStable || strings.Join(read, "") != values || len(got.Aborted) != len(aborted) {
			t.Errorf("from %d: %v up to %d, high watermark %d, aborted %+v; want %s up to %d, %d, %v", from, read, got.LastStable, got.HighWatermark,
				got.Aborted, values, lastStable, highWatermark, aborted)
			return
		}
		for i, id := range aborted {
			if got.Aborted[i].ProducerID != id {
				t.Errorf("from %d: aborted %+v, want those of producers %v", from, got.Aborted, aborted)
			}
		}
	}
	check(0, 4, 1, "a")
	check(1, 4, 1, "")
	if got, err := w.offset("t", OffsetQuery{TimestampMs: Latest, Committed: true}); err != nil || got.Offset != 1 {
		t.Errorf("latest for read_committed: %+v, %v, want 1", got, err)
	}
	w.end("t", 2, false) // 4: aborted behind an open transaction
	check(0, 5, 1, "a")
	w.restart()
	check(0, 5, 1, "a")
	w.end("t", 1, true) // 5
	check(0, 6, 6, "abcd", 2)
	check(0, 6, 6, "abcd", 2)
	check(3, 6, 6, "d", 2)
	check(5, 6, 6, "")
	if got := w.fetch(at("t", 0, 0)); len(got.Aborted) != 0 || got.LastStable != 6 {
		t.Errorf("read_uncommitted: last stable offset %d, aborted %+v", got.LastStable, got.Aborted)
	}
	w.restart()
	check(0, 6, 6, "abcd", 2)
}

// TestRule65AbortedListOfTheReturnedBytes: a transaction that spans segments is listed with whatever of it is returned, and none
// is that lies behind the returned bytes.
func TestRule65AbortedListOfTheReturnedBytes(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1, "segment.bytes=1048576")
	filling := strings.Repeat("x", 300_000)
	type span struct {
		id            kafka.ProducerID
		first, marker kafka.Offset
	}
	var aborted []span
	var ends []kafka.Offset // of all batches
	next := kafka.Offset(0)
	add := func(b record.Batch) kafka.Offset {
		w.own("t", b)
		first := next
		next = b.NextOffset()
		ends = append(ends, next)
		return first
	}
	abort := func(id kafka.ProducerID, first kafka.Offset) {
		marker := add(record.EndTransaction(id, 0, record.Marker{CoordinatorEpoch: 1}, 1000))
		aborted = append(aborted, span{id, first, marker})
	}
	add(transaction(9, 0, filling))
	long := add(transaction(1, 0, filling, "y")) // up to the third segment
	for i := range 10 {
		short := add(transaction(2, kafka.Sequence(i), filling))
		if i%2 == 0 {
			abort(2, short)
		} else {
			add(record.EndTransaction(2, 0, record.Marker{Commit: true, CoordinatorEpoch: 1}, 1000))
		}
	}
	abort(1, long)
	abort(2, add(transaction(2, 10, filling)))
	add(record.EndTransaction(9, 0, record.Marker{Commit: true, CoordinatorEpoch: 1}, 1000))

	check := func() {
		t.Helper()
		for from := kafka.Offset(0); from < next; from++ {
			for _, most := range []int32{1, 350_000, 700_000, 2 << 20} {
				part := at("t", 0, from)
				part.MaxBytes = most
				got := answer(t, w.readRequest(FetchRequest{ReplicaID: -1, MaxBytes: 4 << 20, Committed: true, Partitions: []FetchPartition{part}}))[0]
				_, to := decodeValues(t, got.bytes, from)
				var want, is []span
				for _, s := range aborted {
					if s.marker >= from && s.first < to {
						want = append(want, s)
					}
				}
				slices.SortFunc(want, func(a, b span) int { return cmp.Compare(a.first, b.first) })
				for _, a := range got.Aborted {
					is = append(is, span{a.ProducerID, a.FirstOffset, a.LastOffset})
				}
				if len(got.bytes) == 0 || !slices.Contains(ends, to) || !slices.Equal(is, want) {
					t.Fatalf("from %d, at most %d bytes: up to %d, aborted %+v, want %+v", from, most, to, is, want)
				}
			}
		}
	}
	check()
	w.restart()
	check()
}

func TestCommittedReadersAreWokenWhenATransactionEnds(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	first := transaction(1, 0, strings.Repeat("x", 3000))
	w.own("t", first)
	came := w.committed(2000, 60_000, 0) // while the transaction is open
	none(t, came)
	w.own("t", transaction(1, 1, "y"))
	none(t, came)
	w.end("t", 1, true)
	if got := answer(t, came)[0]; len(got.bytes) < 3000 {
		t.Errorf("%d bytes after the commit, want all", len(got.bytes))
	}
	was := w.committed(2000, 60_000, 3) // before the next transaction began
	none(t, was)
	w.own("t", transaction(1, 2, strings.Repeat("x", 3000)))
	none(t, was)
	w.own("t", transaction(2, 0, "z"))
	none(t, was)
	w.end("t", 1, true)
	if got := answer(t, was)[0]; got.LastStable != 4 || len(got.bytes) < 3000 {
		t.Errorf("%d bytes up to %d after the first commit, want what is before the other transaction", len(got.bytes), got.LastStable)
	}
}

// The start of a log may move into a transaction that is open: nothing before it can be asked for.
func TestLastStableOffsetIsNotBelowTheLogStart(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.own("t", transaction(1, 0, "a", "b", "c"))
	w.mustProduce("t", 0, plain("d", "e"))
	if _, err := w.deleteRecords(kafka.TopicPartition{Topic: "t"}, 4); err != nil {
		t.Fatal(err)
	}
	if got, err := w.offset("t", OffsetQuery{TimestampMs: Latest, Committed: true}); err != nil || got.Offset != 4 {
		t.Errorf("latest for read_committed: %+v, %v, want 4", got, err)
	}
	if got := answer(t, w.committed(0, 0, 4))[0]; got.Err != kafka.None || got.LastStable != 4 || len(got.bytes) != 0 {
		t.Errorf("%v, last stable offset %d, %d bytes; want 4 and none", got.Err, got.LastStable, len(got.bytes))
	}
}
