package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestObservingWaitsForNobody: a scrape looks at everything while every lock of the data path is held, as it is while a disk stalls.
func TestObservingWaitsForNobody(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 3)
	for i := range int32(3) {
		w.mustProduce("t", i, plain("a", "b"))
	}
	for p := range w.m.replicas() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waitMu.Lock()
		defer p.waitMu.Unlock()
	}
	for s := range w.m.slots() {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	w.m.applyMu.Lock()
	defer w.m.applyMu.Unlock()
	w.m.expiry.mu.Lock()
	defer w.m.expiry.mu.Unlock()
	type seen struct {
		all   Observation
		times int
	}
	done := make(chan seen, 1)
	go func() {
		is := seen{all: w.m.Observe(9, 9)}
		for i := range int32(3) {
			tp := kafka.TopicPartition{Topic: "t", Partition: i}
			_, high, known := w.m.Readable(tp)
			if ms, ok := w.m.FirstUnread(tp, high-1); ok && known && ms >= 0 {
				is.times++
			}
		}
		w.m.OfflineDirs()
		done <- is
	}()
	is := answer(t, done)
	if len(is.all.Partitions) != 3 || is.all.All.MessagesIn != 6 || is.times != 3 {
		t.Errorf("%d partitions, %+v, %d times", len(is.all.Partitions), is.all.All, is.times)
	}
}

// TestObservingCostsNoMoreThanItShows: what a scrape allocates grows with the partitions that are shown, by some bytes each, and not with
// those that sleep or have nothing to tell.
func TestObservingCostsNoMoreThanItShows(t *testing.T) {
	cost := func(partitions int32) float64 {
		w := newWorld(t)
		w.topic("t", partitions)
		w.mustProduce("t", 0, plain("a"))
		return testing.AllocsPerRun(10, func() { w.m.Observe(10_000, 10_000) })
	}
	if few, many := cost(10), cost(500); many > few+20 {
		t.Errorf("%v allocations with 10 partitions, %v with 500", few, many)
	}
}

// TestTrafficIsCountedByTopic, moves, growth and deletion included.
func TestTrafficIsCountedByTopic(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 2)
	w.topic("u", 1)
	for i := range int32(2) {
		w.mustProduce("t", i, plain("a", "b", "c"))
	}
	w.mustProduce("u", 0, plain("x"))
	if code := w.produce("u", 0, make([]byte, 3)).Err; code == kafka.None {
		t.Error("nonsense is taken")
	}
	w.values("t", 0, 0)
	is := w.m.Observe(9, 9)
	if len(is.Topics) != 2 || is.Topics[0].Name != "t" || is.Topics[0].MessagesIn != 6 || is.Topics[0].ProduceRequests != 2 ||
		is.Topics[0].FetchRequests == 0 || is.Topics[0].BytesIn == 0 || is.Topics[1].MessagesIn != 1 || is.Topics[1].ProduceRequests != 2 {
		t.Errorf("topics: %+v", is.Topics)
	}
	if is.All.MessagesIn != 7 || is.WaitingProduces != 0 {
		t.Errorf("all: %+v, %d wait", is.All, is.WaitingProduces)
	}
	w.change(w.partitionRecord(id, 2, 0))
	w.mustProduce("t", 2, plain("d"))
	if is := w.m.Observe(9, 9); is.Topics[0].MessagesIn != 7 {
		t.Errorf("after growth: %+v", is.Topics)
	}
	w.deleteTopic(id)
	if is := w.m.Observe(9, 9); len(is.Topics) != 1 || is.All.MessagesIn != 8 {
		t.Errorf("after a deletion: %+v, all %+v", is.Topics, is.All)
	}
}

// TestFirstUnread is the time of the record that comes next, whatever batch it is in.
func TestFirstUnread(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	before := time.Now().UnixMilli()
	for i := range 3 {
		w.mustProduce("t", 0, plain(fmt.Sprint(i), "second"))
	}
	tp := kafka.TopicPartition{Topic: "t"}
	for _, c := range []struct {
		offset kafka.Offset
		known  bool
	}{{0, true}, {1, true}, {5, true}, {6, false}, {7, false}, {-1, true}} {
		ms, known := w.m.FirstUnread(tp, c.offset)
		if known != c.known || known && (ms < before-60_000 || ms > time.Now().UnixMilli()) {
			t.Errorf("from %d on: %d (known: %v), want known: %v", c.offset, ms, known, c.known)
		}
	}
	if _, known := w.m.FirstUnread(kafka.TopicPartition{Topic: "t", Partition: 4}, 0); known {
		t.Error("a partition that is not there has a record")
	}
	w.restart()
	if _, known := w.m.FirstUnread(tp, 0); known || w.sleeping() != 1 {
		t.Errorf("a partition that sleeps: known %v, %d sleep", known, w.sleeping())
	}
}
