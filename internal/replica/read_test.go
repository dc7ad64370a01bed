package replica

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// poll starts a read that waits for up to a minute.
func (w *world) poll(minBytes int32, parts ...FetchPartition) <-chan []fetched {
	return w.readRequest(FetchRequest{ReplicaID: -1, MaxWaitMs: 60_000, MinBytes: minBytes, MaxBytes: 1 << 20, Partitions: parts})
}

func TestFetchRefusals(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1)
	w.mustProduce("t", 0, plain("a", "b"))
	away := w.topic("away", 1)
	w.elect(away, 0, 2)
	for _, c := range []struct {
		name string
		part FetchPartition
		want kafka.Error
	}{
		{"unknown topic", at("nope", 0, 0), kafka.UnknownTopicOrPartition},
		{"unknown partition", at("t", 5, 0), kafka.UnknownTopicOrPartition},
		{"unknown id", FetchPartition{TopicID: kafka.TopicID{1}, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}, kafka.UnknownTopicId},
		{"by id", FetchPartition{TopicID: id, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 100}, kafka.None},
		{"beyond the end", at("t", 0, 3), kafka.OffsetOutOfRange},
		{"negative offset", at("t", 0, -1), kafka.OffsetOutOfRange},
		{"another leads", at("away", 0, 0), kafka.NotLeaderOrFollower},
	} {
		got := w.fetch(c.part)
		if got.Err != c.want {
			t.Errorf("%s: %v, want %v", c.name, got.Err, c.want)
		}
		if c.want != kafka.None && (got.HighWatermark != -1 || got.LastStable != -1 || got.LogStart != -1) {
			t.Errorf("%s: offsets %d, %d, %d, want -1", c.name, got.HighWatermark, got.LastStable, got.LogStart)
		}
	}
}

// TestFetchOfManyPartitionsKeepsFewFilesOpen: what an answer leaves out comes with the next.
func TestFetchOfManyPartitionsKeepsFewFilesOpen(t *testing.T) {
	const partitions, limit = 20, 4
	w := newWorld(t)
	w.m.dirs[0].disk.LimitFiles(limit)
	w.topic("t", partitions)
	parts := make([]FetchPartition, partitions)
	sent := make([]<-chan ProduceResult, partitions)
	for i := range parts {
		parts[i] = at("t", int32(i), 0)
		sent[i] = w.send("t", int32(i), -1, plain("a"))
	}
	for _, s := range sent {
		if r := answer(t, s); r.Err != kafka.None {
			t.Fatal(r.Err)
		}
	}
	for len(parts) > 0 {
		var rest []FetchPartition
		for i, r := range answer(t, w.poll(1, parts...)) {
			if r.Err != kafka.None || r.HighWatermark != 1 {
				t.Errorf("partition %d: %+v", parts[i].Partition, r.FetchResult)
			}
			if len(r.bytes) == 0 {
				rest = append(rest, parts[i])
			}
		}
		if n := len(parts) - len(rest); n == 0 || n > 2*limit {
			t.Fatalf("records of %d partitions, want some, and %d at most", n, 2*limit)
		}
		parts = rest
	}
}

func TestRule71FirstBatchOverTheLimits(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	large := strings.Repeat("x", 500_000)
	for i := range int32(2) {
		w.mustProduce("t", i, plain(large))
		w.mustProduce("t", i, plain(large))
	}
	one := at("t", 0, 0)
	one.MaxBytes = 1
	if got := w.fetch(one); len(got.bytes) < 500_000 || len(got.bytes) > 510_000 {
		t.Errorf("partition_max_bytes=1: %d bytes, want the one batch", len(got.bytes))
	}
	rows := answer(t, w.readRequest(FetchRequest{ReplicaID: -1, MinBytes: 1, MaxBytes: 1, Partitions: []FetchPartition{at("t", 0, 0), at("t", 1, 0)}}))
	if len(rows[0].bytes) == 0 || len(rows[1].bytes) != 0 {
		t.Errorf("max_bytes=1: %d and %d bytes, want one batch of the first alone", len(rows[0].bytes), len(rows[1].bytes))
	}
	if rows[1].HighWatermark != 2 || rows[1].Err != kafka.None {
		t.Errorf("the second: %+v, want its watermark without an error", rows[1].FetchResult)
	}
	// The first partition is empty: the second one may go over.
	rows = answer(t, w.readRequest(FetchRequest{ReplicaID: -1, MinBytes: 1, MaxBytes: 1, Partitions: []FetchPartition{at("t", 0, 2), at("t", 1, 0)}}))
	if len(rows[0].bytes) != 0 || len(rows[1].bytes) == 0 {
		t.Errorf("nothing in the first: %d and %d bytes, want a batch of the second", len(rows[0].bytes), len(rows[1].bytes))
	}
	// Later partitions get what is left of max_bytes.
	rows = answer(t, w.readRequest(FetchRequest{ReplicaID: -1, MinBytes: 1, MaxBytes: 1_100_000, Partitions: []FetchPartition{at("t", 0, 0), at("t", 1, 0)}}))
	if total := len(rows[0].bytes) + len(rows[1].bytes); total > 1_100_000 {
		t.Errorf("max_bytes=1100000: %d bytes", total)
	}
}

func TestRule72FetchWaitsForMinBytesOrTheDeadline(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	start := time.Now()
	rows := answer(t, w.readRequest(FetchRequest{ReplicaID: -1, MaxWaitMs: 100, MinBytes: 1, MaxBytes: 100, Partitions: []FetchPartition{at("t", 0, 0)}}))
	if waited := time.Since(start); waited < 90*time.Millisecond || len(rows[0].bytes) > 0 {
		t.Errorf("idle: %d bytes after %v, want none after 100 ms", len(rows[0].bytes), waited)
	}
	for _, c := range []FetchRequest{
		{ReplicaID: -1, MaxWaitMs: 60_000, MinBytes: 0, MaxBytes: 100, Partitions: []FetchPartition{at("t", 0, 0)}},
		{ReplicaID: -1, MaxWaitMs: 0, MinBytes: 1, MaxBytes: 100, Partitions: []FetchPartition{at("t", 0, 0)}},
		{ReplicaID: -1, MaxWaitMs: 60_000, MinBytes: 1, MaxBytes: 100},
	} {
		answer(t, w.readRequest(c))
	}
	// Two partitions fill the minimum together.
	batch := plain(strings.Repeat("x", 100))
	poll := w.poll(int32(2*len(batch)), at("t", 0, 0), at("t", 1, 0))
	w.mustProduce("t", 0, slices.Clone(batch))
	none(t, poll)
	w.mustProduce("t", 1, slices.Clone(batch))
	rows = answer(t, poll)
	if len(rows[0].bytes) != len(batch) || len(rows[1].bytes) != len(batch) {
		t.Errorf("%d and %d bytes, want %d of each", len(rows[0].bytes), len(rows[1].bytes), len(batch))
	}
	// What was there when the wait began counts too, and no partition for more than its limit.
	first := at("t", 0, 0)
	first.MaxBytes = int32(len(batch))
	poll = w.poll(int32(2*len(batch)), first, at("t", 1, 1))
	w.mustProduce("t", 0, slices.Clone(batch))
	none(t, poll)
	w.mustProduce("t", 1, slices.Clone(batch))
	rows = answer(t, poll)
	if len(rows[0].bytes) != len(batch) || len(rows[1].bytes) != len(batch) {
		t.Errorf("%d and %d bytes, want %d of each", len(rows[0].bytes), len(rows[1].bytes), len(batch))
	}
}

func TestParkedFetchesAreTold(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, id kafka.TopicID)
		want kafka.Error
	}{
		{"topic deleted", func(w *world, id kafka.TopicID) { w.deleteTopic(id) }, kafka.UnknownTopicOrPartition},
		{"another leads", func(w *world, id kafka.TopicID) { w.elect(id, 0, 2) }, kafka.NotLeaderOrFollower},
		{"new epoch", func(w *world, id kafka.TopicID) { w.elect(id, 0, testNode) }, kafka.FencedLeaderEpoch},
		{"stopping", func(w *world, _ kafka.TopicID) { w.m.Stop() }, kafka.NotLeaderOrFollower},
	} {
		w := newWorld(t)
		id := w.topic("t", 2)
		p := at("t", 0, 0)
		p.CurrentLeaderEpoch = 1
		poll := w.poll(1, at("t", 1, 0), p)
		none(t, poll)
		c.do(w, id)
		if got := answer(t, poll)[1].Err; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestParkedProducesAreTold(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, id kafka.TopicID)
		want kafka.Error
	}{
		{"topic deleted", func(w *world, id kafka.TopicID) { w.deleteTopic(id) }, kafka.UnknownTopicOrPartition},
		{"another leads", func(w *world, id kafka.TopicID) { w.elect(id, 0, 2) }, kafka.NotLeaderOrFollower},
		{"rule 46: new epoch", func(w *world, id kafka.TopicID) { w.elect(id, 0, testNode) }, kafka.NotLeaderOrFollower},
	} {
		w := newWorld(t)
		id := kafka.NewUUID(randomBytes)
		// The other replica is in sync and never fetches: nothing is committed.
		w.topicOn("t", id, []kafka.NodeID{testNode, 2}, []kafka.NodeID{testNode, 2})
		acked := w.send("t", 0, -1, plain("x"))
		if r := answer(t, w.send("t", 0, 1, plain("y"))); r.Err != kafka.None {
			t.Errorf("acks=1: %v", r.Err)
		}
		none(t, acked)
		c.do(w, id)
		if r := answer(t, acked); r.Err != c.want {
			t.Errorf("%s: %v, want %v", c.name, r.Err, c.want)
		}
	}
}

func TestRule76LeaderEpochsInFetch(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1)
	w.mustProduce("t", 0, plain("a", "b", "c")) // epoch 1: 0..2
	w.elect(id, 0, testNode)
	w.mustProduce("t", 0, plain("d", "e")) // epoch 2: 3..4
	w.elect(id, 0, testNode)               // epoch 3, empty
	for _, c := range []struct {
		name             string
		current, fetched kafka.Epoch
		offset           kafka.Offset
		want             kafka.Error
		diverges         bool
		epoch            kafka.Epoch
		end              kafka.Offset
	}{
		{name: "none known", current: -1, fetched: -1, offset: 3},
		{name: "current", current: 3, fetched: -1, offset: 3},
		{name: "older", current: 2, fetched: -1, offset: 3, want: kafka.FencedLeaderEpoch},
		{name: "newer", current: 4, fetched: -1, offset: 3, want: kafka.UnknownLeaderEpoch},
		{name: "fetched epoch 1 up to its end", current: -1, fetched: 1, offset: 3},
		{name: "fetched epoch 1 beyond its end", current: -1, fetched: 1, offset: 4, diverges: true, epoch: 1, end: 3},
		{name: "fetched epoch 2", current: -1, fetched: 2, offset: 5},
		{name: "fetched the current epoch", current: -1, fetched: 3, offset: 5},
		{name: "fetched epoch 0, before the first", current: -1, fetched: 0, offset: 2, diverges: true, epoch: 0, end: 0},
		{name: "fetched a newer epoch than the leader's", current: -1, fetched: 9, offset: 2, want: kafka.OffsetOutOfRange},
	} {
		p := at("t", 0, c.offset)
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = c.current, c.fetched
		got := w.fetch(p)
		if got.Err != c.want || got.Diverges != c.diverges || got.SharedEpoch != c.epoch || got.SharedEnd != c.end {
			t.Errorf("%s: %v, diverges %v at epoch %d, offset %d; want %v, %v, %d, %d", c.name,
				got.Err, got.Diverges, got.SharedEpoch, got.SharedEnd, c.want, c.diverges, c.epoch, c.end)
		}
		if c.diverges && len(got.bytes) > 0 {
			t.Errorf("%s: %d bytes with a diverging epoch", c.name, len(got.bytes))
		}
	}
}

func TestRule77OffsetForLeaderEpoch(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1)
	w.mustProduce("t", 0, plain("a", "b", "c")) // epoch 1: 0..2
	w.elect(id, 0, testNode)
	w.elect(id, 0, testNode)
	w.mustProduce("t", 0, plain("d", "e")) // epoch 3: 3..4
	w.elect(id, 0, testNode)
	w.mustProduce("t", 0, plain("f")) // epoch 4: 5
	for _, c := range []struct {
		asked kafka.Epoch
		epoch kafka.Epoch
		end   kafka.Offset
	}{
		{0, 0, 0}, {1, 1, 3}, {2, 1, 3}, {3, 3, 5}, {4, 4, 6}, {5, -1, -1}, {-1, -1, -1},
	} {
		epoch, end, err := w.m.EpochEnd(kafka.TopicPartition{Topic: "t"}, kafka.NoEpoch, c.asked)
		if err != nil || epoch != c.epoch || end != c.end {
			t.Errorf("epoch %d ends (%d, %d), %v; want (%d, %d)", c.asked, epoch, end, err, c.epoch, c.end)
		}
	}
	if _, _, err := w.m.EpochEnd(kafka.TopicPartition{Topic: "t"}, 3, 3); err != kafka.FencedLeaderEpoch {
		t.Errorf("an old leader epoch: %v, want FENCED_LEADER_EPOCH", err)
	}
	if _, _, err := w.m.EpochEnd(kafka.TopicPartition{Topic: "t"}, 5, 3); err != kafka.UnknownLeaderEpoch {
		t.Errorf("a newer leader epoch: %v, want UNKNOWN_LEADER_EPOCH", err)
	}
}

func (w *world) offset(topic string, q OffsetQuery) (FoundOffset, error) {
	q.CurrentLeaderEpoch = kafka.NoEpoch
	return w.m.ListOffset(kafka.TopicPartition{Topic: topic}, q)
}

func TestRule79OffsetsByTime(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1, "message.timestamp.before.max.ms="+fmt.Sprint(int64(math.MaxInt64)))
	var b record.Builder
	for _, ms := range []int64{2, 4, 6, 8} {
		b.Add([]byte("k"), nil, nil, ms)
	}
	w.mustProduce("t", 0, b.Build())
	want := []kafka.Offset{2: 0, 1, 1, 2, 2, 3, 3, -1}
	for ms := int64(2); ms <= 9; ms++ {
		got, err := w.offset("t", OffsetQuery{TimestampMs: ms})
		if err != nil || got.Offset != want[ms] {
			t.Errorf("time %d: offset %d, %v, want %d", ms, got.Offset, err, want[ms])
		}
		if got.Offset < 0 && (got.TimestampMs != -1 || got.Epoch != -1) {
			t.Errorf("time %d: %+v, want -1 in all", ms, got)
		}
	}
}

func TestRule80SpecialOffsets(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1, "message.timestamp.before.max.ms="+fmt.Sprint(int64(math.MaxInt64)))
	b := record.Builder{Compression: compress.Spec{Codec: compress.Gzip}}
	for _, ms := range []int64{5, 9, 7} {
		b.Add([]byte("k"), nil, nil, ms)
	}
	w.mustProduce("t", 0, b.Build())
	check := func(special int64, want FoundOffset) {
		t.Helper()
		for _, committed := range []bool{false, true} {
			if got, err := w.offset("t", OffsetQuery{TimestampMs: special, Committed: committed}); err != nil || got != want {
				t.Errorf("timestamp %d: %+v, %v, want %+v", special, got, err, want)
			}
		}
	}
	check(Latest, FoundOffset{3, -1, 1})
	check(Earliest, FoundOffset{0, -1, 1})
	check(LargestTimestamp, FoundOffset{1, 9, 1})
	check(EarliestLocal, FoundOffset{0, -1, 1})
	check(LatestTiered, FoundOffset{-1, -1, -1})
	check(EarliestPendingUpload, FoundOffset{-1, -1, -1})
	if start, err := w.deleteRecords(kafka.TopicPartition{Topic: "t"}, -1); err != nil || start != 3 {
		t.Fatalf("delete all: start %d, %v", start, err)
	}
	check(Latest, FoundOffset{3, -1, 1})
	check(LargestTimestamp, noOffset)
	if got, err := w.offset("t", OffsetQuery{TimestampMs: Earliest}); err != nil || got.Offset != 3 {
		t.Errorf("earliest after all were deleted: %+v, %v, want 3", got, err)
	}
}

func TestOffsetNotAvailableUntilTheEpochsStartIsCommitted(t *testing.T) {
	w := newWorld(t)
	id := kafka.NewUUID(randomBytes)
	w.topicOn("t", id, []kafka.NodeID{testNode, 2}, []kafka.NodeID{testNode, 2})
	if r := answer(t, w.send("t", 0, 1, plain("a"))); r.Err != kafka.None {
		t.Fatal(r.Err)
	}
	w.elect(id, 0, testNode)
	if _, err := w.offset("t", OffsetQuery{TimestampMs: Latest}); err != kafka.OffsetNotAvailable {
		t.Errorf("latest: %v, want OFFSET_NOT_AVAILABLE", err)
	}
	if _, err := w.offset("t", OffsetQuery{TimestampMs: 1}); err != kafka.OffsetNotAvailable {
		t.Errorf("by time: %v, want OFFSET_NOT_AVAILABLE", err)
	}
	if got, err := w.offset("t", OffsetQuery{TimestampMs: Earliest}); err != nil || got.Offset != 0 {
		t.Errorf("earliest: %+v, %v", got, err)
	}
	if got, err := w.offset("t", OffsetQuery{TimestampMs: Latest, Debug: true}); err != nil || got.Offset != 1 {
		t.Errorf("latest for a tool: %+v, %v, want the log's end", got, err)
	}
}

func TestDeleteRecords(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.topic("compacted", 1, "cleanup.policy=compact")
	w.mustProduce("t", 0, plain("a", "b", "c", "d"))
	tp := kafka.TopicPartition{Topic: "t"}
	for _, c := range []struct {
		tp   kafka.TopicPartition
		to   kafka.Offset
		want kafka.Error
		at   kafka.Offset
	}{
		{tp, 2, kafka.None, 2},
		{tp, 1, kafka.None, 2},
		{tp, 5, kafka.OffsetOutOfRange, -1},
		{tp, -2, kafka.OffsetOutOfRange, -1},
		{kafka.TopicPartition{Topic: "compacted"}, 0, kafka.PolicyViolation, -1},
		{kafka.TopicPartition{Topic: "nope"}, 0, kafka.UnknownTopicOrPartition, -1},
	} {
		got, err := w.deleteRecords(c.tp, c.to)
		if code, _ := kafka.Answer(err); code != c.want || got != c.at {
			t.Errorf("delete %s up to %d: start %d, %v, want %d, %v", c.tp, c.to, got, err, c.at, c.want)
		}
	}
	if got := w.fetch(at("t", 0, 0)); got.Err != kafka.OffsetOutOfRange {
		t.Errorf("read from 0: %v, want OFFSET_OUT_OF_RANGE", got.Err)
	}
	if got := w.values("t", 0, 2); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("read %v from 2", got)
	}
	w.restart()
	if got := w.fetch(at("t", 0, 1)); got.Err != kafka.OffsetOutOfRange {
		t.Errorf("after a restart, read from 1: %v, want OFFSET_OUT_OF_RANGE", got.Err)
	}
}
