package replica

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
)

// begin appends the first batch of a producer's transaction to a partition, as a client whose coordinator has agreed.
func (w *world) begin(index int32, p record.Producer, values ...string) ProduceResult {
	w.Helper()
	guard, _, err := w.m.Verification("t", kafka.TopicID{}, index, p, true)
	if err != nil {
		code, _ := kafka.Answer(err)
		return failedProduce(code)
	}
	return w.inTransaction(index, p, guard, values...)
}

func (w *world) inTransaction(index int32, p record.Producer, guard producer.Guard, values ...string) ProduceResult {
	w.Helper()
	b := record.Builder{Producer: &p, Transactional: true}
	for _, v := range values {
		b.Add([]byte("k"), []byte(v), nil, time.Now().UnixMilli())
	}
	result := make(chan ProduceResult, 1)
	w.m.Produce(&ProduceRequest{Acks: -1, TimeoutMs: 60_000, Transactional: true, Partitions: []ProducePartition{
		{Topic: "t", Partition: index, Records: b.Build(), Guard: guard},
	}}, func(r []ProduceResult) { result <- r[0] })
	return answer(w, result)
}

// mark ends a transaction in a partition and returns the code.
func (w *world) mark(index int32, m Marker) kafka.Error {
	w.Helper()
	done := make(chan error, 1)
	w.m.EndTransaction(kafka.TopicPartition{Topic: "t", Partition: index}, m, func(err error) { done <- err })
	code, _ := kafka.Answer(answer(w, done))
	return code
}

func (w *world) want(what string, got, want kafka.Error) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestATransactionInAPartition from its first batch to its marker, for readers and for who describes its producer.
func TestATransactionInAPartition(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	one := record.Producer{ID: 1}
	w.want("without a guard", w.inTransaction(0, one, producer.NoGuard, "a").Err, kafka.InvalidTxnState)
	w.want("with it", w.begin(0, one, "a", "b").Err, kafka.None)
	if guard, needed, err := w.m.Verification("t", kafka.TopicID{}, 0, record.Producer{ID: 1, BaseSequence: 2}, true); needed || guard != producer.NoGuard || err != nil {
		t.Errorf("in the open transaction: guard %d, needed %v, %v", guard, needed, err)
	}
	described := func(want producer.Producer) {
		t.Helper()
		got, err := w.m.Producers(kafka.TopicPartition{Topic: "t"})
		if err != nil || len(got) != 1 {
			t.Fatalf("producers: %+v, %v", got, err)
		}
		got[0].LastTimestampMs = 0
		if got[0] != want {
			t.Errorf("producer %+v, want %+v", got[0], want)
		}
	}
	described(producer.Producer{ID: 1, LastSequence: 1, CoordinatorEpoch: -1, TxnStartOffset: 0})
	w.want("a marker of the epoch of the records, in protocol 2", w.mark(0, Marker{ProducerID: 1, CoordinatorEpoch: 4, Protocol: 2}), kafka.InvalidProducerEpoch)
	waits := w.committed(1, 60_000, 0)
	none(t, waits)
	commit := Marker{ProducerID: 1, ProducerEpoch: 1, CoordinatorEpoch: 4, Commit: true, Protocol: 2}
	w.want("the marker", w.mark(0, commit), kafka.None)
	if got := answer(t, waits)[0]; got.LastStable != 3 || len(got.Aborted) != 0 || len(got.bytes) == 0 {
		t.Errorf("who waited reads %d bytes up to %d, aborted %+v", len(got.bytes), got.LastStable, got.Aborted)
	}
	described(producer.Producer{ID: 1, Epoch: 1, LastSequence: -1, CoordinatorEpoch: 4, TxnStartOffset: -1})
	w.want("the marker again", w.mark(0, commit), kafka.None)
	w.want("one of an older coordinator", w.mark(0, Marker{ProducerID: 1, ProducerEpoch: 1, CoordinatorEpoch: 3, Protocol: 2}), kafka.TransactionCoordinatorFenced)
	w.want("one of the epoch before", w.mark(0, Marker{ProducerID: 1, CoordinatorEpoch: 4, Protocol: 1}), kafka.InvalidProducerEpoch)
	w.want("a batch of the epoch before", w.inTransaction(0, record.Producer{ID: 1, BaseSequence: 2}, producer.NoGuard, "late").Err, kafka.InvalidProducerEpoch)
	w.want("one where there is no partition", w.mark(7, commit), kafka.UnknownTopicOrPartition)
	if got := answer(t, w.committed(0, 0, 0))[0]; got.LastStable != 4 || got.HighWatermark != 4 {
		t.Errorf("last stable offset %d, high watermark %d; want 4, with the marker that was sent twice", got.LastStable, got.HighWatermark)
	}
}

// TestAMarkerIsDoneWhenItIsDurable, and not before.
func TestAMarkerIsDoneWhenItIsDurable(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.begin(0, record.Producer{ID: 1}, "a")
	flushing, hold := make(chan struct{}, 10), make(chan struct{})
	w.fs.set(func(string) error {
		flushing <- struct{}{}
		<-hold
		return nil
	})
	done := make(chan error, 1)
	w.m.EndTransaction(kafka.TopicPartition{Topic: "t"}, Marker{ProducerID: 1, ProducerEpoch: 1, Protocol: 2}, func(err error) { done <- err })
	answer(t, flushing)
	none(t, done)
	if got := answer(t, w.committed(0, 0, 0))[0]; got.LastStable != 0 || len(got.bytes) != 0 {
		t.Errorf("%d bytes are read before the marker is durable", len(got.bytes))
	}
	close(hold)
	if err := answer(t, done); err != nil {
		t.Error(err)
	}
}

// TestMarkersHaveTheReserve: what a client produces is refused on a disk that is nearly full, and its transactions end all the same.
func TestMarkersHaveTheReserve(t *testing.T) {
	w := newWorld(t, "raftsman.log.dir.reserve.bytes=1600")
	w.topic("t", 1)
	w.want("a transaction", w.begin(0, record.Producer{ID: 1}, "a").Err, kafka.None)
	w.change(configRecord("t", "max.message.bytes=70")) // a marker is larger
	for _, step := range []struct {
		usable int64
		want   kafka.Error
	}{{399, kafka.KafkaStorageError}, {430, kafka.None}} {
		w.fs.setFree(func() (int64, int64, error) { return 1 << 40, step.usable, nil })
		w.m.background.watchSpace(w.m.now())
		w.want("the marker", w.mark(0, Marker{ProducerID: 1, ProducerEpoch: 1, Protocol: 2}), step.want)
	}
	if got := answer(t, w.committed(0, 0, 0))[0]; got.LastStable != 2 || len(w.fallen()) > 0 {
		t.Errorf("last stable offset %d, offline %v", got.LastStable, w.fallen())
	}
}

// TestOffsetsInATransactionAreAppendedWithAGuard as a group's coordinator does.
func TestOffsetsInATransactionAreAppendedWithAGuard(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	tp := kafka.TopicPartition{Topic: "t"}
	p := record.Producer{ID: 1, Epoch: 3, BaseSequence: -1}
	send := func(guard producer.Guard) kafka.Error {
		b := record.Builder{Producer: &p, Transactional: true}
		b.Add([]byte("k"), []byte("v"), nil, 1000)
		done := make(chan error, 1)
		w.m.AppendTransactional(tp, b.Build(), guard, func(_ kafka.Offset, err error) { done <- err })
		code, _ := kafka.Answer(answer(t, done))
		return code
	}
	w.want("without a guard", send(producer.NoGuard), kafka.InvalidTxnState)
	guard, needed, err := w.m.Verification("t", kafka.TopicID{}, 0, p, true)
	if !needed || err != nil {
		t.Fatalf("needed %v, %v", needed, err)
	}
	w.want("with it", send(guard), kafka.None)
	w.want("more of the transaction", send(producer.NoGuard), kafka.None)
	w.want("the marker", w.mark(0, Marker{ProducerID: 1, ProducerEpoch: 4, Protocol: 2}), kafka.None)
	w.want("after the marker", send(guard), kafka.InvalidProducerEpoch)
	if got := answer(t, w.committed(0, 0, 0))[0]; len(got.Aborted) != 1 || got.Aborted[0].FirstOffset != 0 || got.LastStable != 3 {
		t.Errorf("aborted %+v, last stable offset %d", got.Aborted, got.LastStable)
	}
}

// TestGuardsAreNotGivenTwice: neither in another partition, nor in another run of the same one.
func TestGuardsAreNotGivenTwice(t *testing.T) {
	w := newWorld(t, "dirs=2")
	w.topic("t", 2)
	p := record.Producer{ID: 1}
	first, _, _ := w.m.Verification("t", kafka.TopicID{}, 0, p, true)
	other, _, _ := w.m.Verification("t", kafka.TopicID{}, 1, p, true)
	if first == other || first == producer.NoGuard || first == producer.Unguarded {
		t.Errorf("guards %d and %d", first, other)
	}
	w.want("another partition's", w.inTransaction(0, p, other, "a").Err, kafka.InvalidTxnState)
	w.move(kafka.TopicPartition{Topic: "t"}, "/data1")
	w.want("in another log directory", w.inTransaction(0, p, first, "a").Err, kafka.None)
	if _, _, err := w.m.Verification("t", kafka.TopicID{}, 9, p, true); !isCode(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("a partition that is not there: %v", err)
	}
}

// TestATransactionIsFlushedInFewRounds: its records for six partitions in one, its markers in another, both in the journal.
func TestATransactionIsFlushedInFewRounds(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 6)
	for i := range int32(6) {
		w.begin(i, record.Producer{ID: 1}, "first") // whatever is made with the first record is there
	}
	var segments atomic.Int32
	w.fs.set(func(name string) error {
		if strings.HasSuffix(name, ".log") {
			segments.Add(1)
		}
		return nil
	})
	flushes := func(what string, act func()) {
		t.Helper()
		before := w.fs.count()
		act()
		if n := w.fs.count() - before; n != 1 || segments.Load() > 0 {
			t.Errorf("%s: %d flushes, %d of segments; want one, of the journal", what, n, segments.Load())
		}
	}
	req := ProduceRequest{Acks: -1, TimeoutMs: 60_000, Transactional: true}
	for i := range int32(6) {
		req.Partitions = append(req.Partitions, ProducePartition{Topic: "t", Partition: i, Records: transaction(1, 1, "a", "b")})
	}
	flushes("the records", func() {
		answered := make(chan []ProduceResult, 1)
		w.m.Produce(&req, func(r []ProduceResult) { answered <- slices.Clone(r) })
		for _, r := range answer(t, answered) {
			w.want("produce", r.Err, kafka.None)
		}
	})
	flushes("the markers", func() {
		done := make(chan error, 6)
		marker := Marker{ProducerID: 1, ProducerEpoch: 1, Commit: true, Protocol: 2}
		w.m.Together(func() {
			for i := range int32(6) {
				w.m.EndTransaction(kafka.TopicPartition{Topic: "t", Partition: i}, marker, func(err error) { done <- err })
			}
		})
		for range 6 {
			if err := answer(t, done); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRule64OffsetsByIsolation: what ListOffsets finds while transactions are open, and when they are decided.
func TestRule64OffsetsByIsolation(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))            // 0
	w.begin(0, record.Producer{ID: 1}, "b", "c") // 1, 2
	w.mustProduce("t", 0, plain("d"))            // 3
	future := time.Now().Add(30 * time.Minute)   // later than all
	open := record.Builder{Producer: &record.Producer{ID: 1, BaseSequence: 2}, Transactional: true}
	open.Add([]byte("k"), []byte("e"), nil, future.UnixMilli()) // 4
	result := make(chan ProduceResult, 1)
	w.m.Produce(&ProduceRequest{Acks: -1, TimeoutMs: 60_000, Transactional: true, Partitions: []ProducePartition{
		{Topic: "t", Records: open.Build()},
	}}, func(r []ProduceResult) { result <- r[0] })
	w.want("the latest", answer(t, result).Err, kafka.None)
	check := func(committed bool, latest, largest, after kafka.Offset) {
		t.Helper()
		for asked, want := range map[int64]kafka.Offset{
			Latest: latest, Earliest: 0, EarliestLocal: 0, LargestTimestamp: largest, future.UnixMilli() - 1: after,
		} {
			if got, err := w.offset("t", OffsetQuery{TimestampMs: asked, Committed: committed}); err != nil || got.Offset != want {
				t.Errorf("committed %v, timestamp %d: %+v, %v; want %d", committed, asked, got, err, want)
			}
		}
	}
	check(false, 5, 4, 4)
	check(true, 1, -1, -1)
	w.want("the marker", w.mark(0, Marker{ProducerID: 1, ProducerEpoch: 1, Protocol: 2}), kafka.None) // 5
	check(false, 6, 4, 4)
	check(true, 6, 4, 4) // it is aborted, and found, as in Kafka
}

// TestReadersAreWokenByEachMarker, whichever way it ends the transaction, and all that wait for the partition.
func TestReadersAreWokenByEachMarker(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	var values []string
	for epoch := range kafka.ProducerEpoch(4) {
		from := answer(t, w.committed(0, 0, 0))[0].LastStable
		w.begin(0, record.Producer{ID: 1, Epoch: epoch}, "x")
		waits := []<-chan []fetched{w.committed(1, 60_000, from), w.committed(1, 60_000, from)}
		for _, c := range waits {
			none(t, c)
		}
		commit := epoch%2 == 0
		w.want("marker", w.mark(0, Marker{ProducerID: 1, ProducerEpoch: epoch + 1, Commit: commit, Protocol: 2}), kafka.None)
		for _, c := range waits {
			got := answer(t, c)[0]
			if got.LastStable != from+2 || len(got.bytes) == 0 || (len(got.Aborted) == 0) != commit {
				t.Errorf("epoch %d: %d bytes up to %d, aborted %+v", epoch, len(got.bytes), got.LastStable, got.Aborted)
			}
		}
		values = append(values, "x")
	}
	read := slices.DeleteFunc(w.values("t", 0, 0), func(v string) bool { return len(v) > 1 })
	if !slices.Equal(read, values) {
		t.Errorf("read_uncommitted reads %v, want %v", read, values)
	}
}
