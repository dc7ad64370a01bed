package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

func TestProducedRecordsAreReadBack(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 3)
	if base := w.mustProduce("t", 1, plain("a", "b")); base != 0 {
		t.Errorf("base offset %d, want 0", base)
	}
	if base := w.mustProduce("t", 1, plain("c")); base != 2 {
		t.Errorf("base offset %d, want 2", base)
	}
	if got, want := w.values("t", 1, 0), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if got := w.values("t", 0, 0); len(got) != 0 {
		t.Errorf("the other partition holds %v", got)
	}
}

func TestProduceRefusals(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1, "max.message.bytes=200")
	w.topic("compacted", 1, "cleanup.policy=compact")
	var keyless record.Builder
	keyless.Add(nil, []byte("v"), nil, time.Now().UnixMilli())
	broken := plain("x")
	broken[len(broken)-1] ^= 1
	for _, c := range []struct {
		name  string
		part  ProducePartition
		acks  int16
		want  kafka.Error
		start kafka.Offset
	}{
		{"unknown topic", ProducePartition{Topic: "nope", Records: plain("a")}, 1, kafka.UnknownTopicOrPartition, -1},
		{"unknown partition", ProducePartition{Topic: "t", Partition: 7, Records: plain("a")}, 1, kafka.UnknownTopicOrPartition, -1},
		{"negative partition", ProducePartition{Topic: "t", Partition: -1, Records: plain("a")}, 1, kafka.UnknownTopicOrPartition, -1},
		{"unknown id", ProducePartition{TopicID: kafka.TopicID{9}, Records: plain("a")}, 1, kafka.UnknownTopicId, -1},
		{"by id", ProducePartition{TopicID: id, Records: plain("a")}, 1, kafka.None, 0},
		{"acks", ProducePartition{Topic: "t", Records: plain("a")}, 2, kafka.InvalidRequiredAcks, -1},
		{"rule 38: size", ProducePartition{Topic: "t", Records: plain(strings.Repeat("x", 300))}, 1, kafka.MessageTooLarge, -1},
		{"rule 41: CRC", ProducePartition{Topic: "t", Records: broken}, 1, kafka.CorruptMessage, -1},
		{"rule 40: null key", ProducePartition{Topic: "compacted", Records: keyless.Build()}, 1, kafka.InvalidRecord, 0},
		{"no records", ProducePartition{Topic: "t"}, 1, kafka.InvalidRecord, -1},
	} {
		result := make(chan ProduceResult, 1)
		w.m.Produce(&ProduceRequest{Acks: c.acks, TimeoutMs: 1000, Partitions: []ProducePartition{c.part}}, func(r []ProduceResult) {
			result <- r[0]
		})
		got := answer(t, result)
		if got.Err != c.want || got.LogStart != c.start {
			t.Errorf("%s: %v with log start %d, want %v with %d", c.name, got.Err, got.LogStart, c.want, c.start)
		}
		if c.want != kafka.None && got.BaseOffset != -1 {
			t.Errorf("%s: base offset %d, want -1", c.name, got.BaseOffset)
		}
	}
	if got := w.values("t", 0, 0); len(got) != 1 {
		t.Errorf("stored %v, want the one record that was taken", got)
	}
}

func TestRule38OneTooLargeLeavesTheOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2, "max.message.bytes=1000")
	large := strings.Repeat("x", 1100)
	packed := record.Builder{Compression: compress.Spec{Codec: compress.Gzip}}
	packed.Add([]byte("k"), []byte(large), nil, time.Now().UnixMilli())
	result := make(chan []kafka.Error, 1)
	w.m.Produce(&ProduceRequest{Acks: -1, TimeoutMs: 1000, Partitions: []ProducePartition{
		{Topic: "t", Partition: 0, Records: plain(large)},
		{Topic: "t", Partition: 1, Records: packed.Build()},
	}}, func(r []ProduceResult) { result <- []kafka.Error{r[0].Err, r[1].Err} })
	if got := answer(t, result); got[0] != kafka.MessageTooLarge || got[1] != kafka.None {
		t.Errorf("%v, want MESSAGE_TOO_LARGE for the batch of 1100 bytes and nothing for the same, packed", got)
	}
}

func TestRule44And45LogAppendTime(t *testing.T) {
	w := newWorld(t)
	w.topic("created", 1)
	w.topic("appended", 1, "message.timestamp.type=LogAppendTime")
	if r := w.produce("created", 0, plain("a")); r.AppendTimeMs != -1 {
		t.Errorf("CreateTime: append time %d, want -1", r.AppendTimeMs)
	}
	var old record.Builder
	old.Add([]byte("k"), []byte("v"), nil, 2)
	before := time.Now().UnixMilli()
	r := w.produce("appended", 0, old.Build())
	if r.AppendTimeMs < before {
		t.Errorf("LogAppendTime: append time %d, want now, %d", r.AppendTimeMs, before)
	}
	batch := record.Batch(w.fetch(at("appended", 0, 0)).bytes)
	if !batch.LogAppendTime() || batch.MaxTimestampMs() != r.AppendTimeMs || batch.CheckCRC() != nil {
		t.Errorf("stored: append time %v, max timestamp %d, CRC %v; want the answer's %d",
			batch.LogAppendTime(), batch.MaxTimestampMs(), batch.CheckCRC(), r.AppendTimeMs)
	}
}

func TestRule48AcksAndMinISR(t *testing.T) {
	w := newWorld(t)
	// One replica: min.insync.replicas of 2 counts as 1.
	w.topic("t", 1, "min.insync.replicas=2")
	if r := w.produce("t", 0, plain("a")); r.Err != kafka.None {
		t.Errorf("one replica: %v, want none", r.Err)
	}
	// Two replicas, one in sync.
	id := kafka.NewUUID(randomBytes)
	w.lonelyTopic("u", id)
	if r := w.produce("u", 0, plain("a")); r.Err != kafka.NotEnoughReplicas {
		t.Errorf("acks=all: %v, want NOT_ENOUGH_REPLICAS", r.Err)
	}
	if r := answer(t, w.send("u", 0, 1, plain("b"))); r.Err != kafka.None || r.BaseOffset != 0 {
		t.Errorf("acks=1: %v at %d, want none at 0: nothing of acks=all was written", r.Err, r.BaseOffset)
	}
	if r := answer(t, w.send("u", 0, 2, plain("b"))); r.Err != kafka.InvalidRequiredAcks {
		t.Errorf("acks=2: %v, want INVALID_REQUIRED_ACKS", r.Err)
	}
}

func TestRule49DuplicatesOfTheLastFiveBatches(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	for i := range 5 {
		w.mustProduce("t", 0, sequenced(7, 0, kafka.Sequence(i*2), 2))
	}
	for round := range 3 {
		for i := range 5 {
			if base := w.mustProduce("t", 0, sequenced(7, 0, kafka.Sequence(i*2), 2)); base != kafka.Offset(i*2) {
				t.Errorf("round %d, batch %d again: offset %d, want %d", round, i, base, i*2)
			}
		}
		if round == 0 {
			w.restart()
		}
	}
	if got := w.values("t", 0, 0); len(got) != 10 {
		t.Errorf("the log holds %d records, want 10", len(got))
	}
}

func TestRule50OnlyATrueGapIsOutOfOrder(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	// Five in flight, one of which is refused for another reason: the later ones fail, the earlier ones do not.
	broken := sequenced(7, 0, 2, 1)
	broken[len(broken)-1] ^= 1
	var answers []<-chan ProduceResult
	for i := range 5 {
		batch := sequenced(7, 0, kafka.Sequence(i), 1)
		if i == 2 {
			batch = broken
		}
		answers = append(answers, w.send("t", 0, -1, batch))
	}
	want := []kafka.Error{0, 0, kafka.CorruptMessage, kafka.OutOfOrderSequenceNumber, kafka.OutOfOrderSequenceNumber}
	for i, a := range answers {
		if r := answer(t, a); r.Err != want[i] {
			t.Errorf("batch %d: %v, want %v", i, r.Err, want[i])
		}
	}
	for i := 2; i < 5; i++ {
		w.mustProduce("t", 0, sequenced(7, 0, kafka.Sequence(i), 1))
	}
}

func TestRule51SequencesWrap(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 0, 2147483640, 20))
	w.mustProduce("t", 0, sequenced(7, 0, 12, 3))
	w.restart()
	w.mustProduce("t", 0, sequenced(7, 0, 15, 1))
}

func TestRule52NegativeSequence(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	if r := w.produce("t", 0, sequenced(7, 0, -5, 1)); r.Err != kafka.InvalidRecord {
		t.Errorf("%v, want INVALID_RECORD", r.Err)
	}
}

func TestRule53ProducerEpochs(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 1, 0, 1))
	if r := w.produce("t", 0, sequenced(7, 2, 7, 1)); r.Err != kafka.OutOfOrderSequenceNumber {
		t.Errorf("a new epoch from 7: %v, want OUT_OF_ORDER_SEQUENCE_NUMBER", r.Err)
	}
	if r := w.produce("t", 0, sequenced(7, 0, 1, 1)); r.Err != kafka.InvalidProducerEpoch {
		t.Errorf("an old epoch: %v, want INVALID_PRODUCER_EPOCH", r.Err)
	}
	w.mustProduce("t", 0, sequenced(7, 2, 0, 1))
}

func TestRule54SequencesDieWithTheTopic(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 0, 0, 3))
	w.deleteTopic(id)
	if r := w.produce("t", 0, sequenced(7, 0, 3, 1)); r.Err != kafka.UnknownTopicOrPartition {
		t.Errorf("deleted: %v, want UNKNOWN_TOPIC_OR_PARTITION", r.Err)
	}
	w.topic("t", 1)
	if base := w.mustProduce("t", 0, sequenced(7, 0, 0, 1)); base != 0 {
		t.Errorf("created again: offset %d, want 0", base)
	}
}

func TestRule55ProducersSurviveRestarts(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	for i := range 30 {
		w.mustProduce("t", 0, sequenced(7, 0, kafka.Sequence(i), 1))
		if i%7 == 3 {
			w.restart()
		}
		if base := w.mustProduce("t", 0, sequenced(7, 0, kafka.Sequence(i), 1)); base != kafka.Offset(i) {
			t.Fatalf("batch %d sent again: offset %d", i, base)
		}
	}
	if got := w.values("t", 0, 0); len(got) != 30 {
		t.Errorf("the log holds %d records, want 30", len(got))
	}
}

// lonelyTopic creates a topic with two replicas of which only this node's is in sync, and which wants two.
func (w *world) lonelyTopic(name string, id kafka.TopicID) {
	w.Helper()
	w.topicOn(name, id, []kafka.NodeID{testNode, 2}, []kafka.NodeID{testNode}, "min.insync.replicas=2")
}

func TestNothingIsAcknowledgedOrDeliveredBeforeItIsFlushed(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("first"))
	entered, leave := make(chan string, 10), make(chan struct{})
	w.fs.set(func(name string) error {
		entered <- name
		<-leave
		return nil
	})
	acked := w.send("t", 0, -1, plain("second"))
	ackedOne := w.send("t", 0, 1, plain("third"))
	ackedNone := answer(t, w.send("t", 0, 0, plain("fourth")))
	if ackedNone.Err != kafka.None {
		t.Errorf("acks=0: %v", ackedNone.Err)
	}
	poll := w.readRequest(FetchRequest{ReplicaID: -1, MaxWaitMs: 60_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", 0, 1)}})
	answer(t, entered)
	none(t, acked)
	none(t, ackedOne)
	none(t, poll)
	if got := w.fetch(at("t", 0, 0)); got.HighWatermark != 1 {
		t.Errorf("high watermark %d while the flush runs, want 1", got.HighWatermark)
	}
	close(leave)
	if r := answer(t, acked); r.Err != kafka.None || r.BaseOffset != 1 {
		t.Errorf("acks=all: %v at %d", r.Err, r.BaseOffset)
	}
	if r := answer(t, ackedOne); r.Err != kafka.None || r.BaseOffset != 2 {
		t.Errorf("acks=1: %v at %d", r.Err, r.BaseOffset)
	}
	got := answer(t, poll)[0]
	if values, _ := decodeValues(t, got.bytes, 1); len(values) == 0 || values[0] != "second" {
		t.Errorf("the parked fetch got %v", values)
	}
}

func TestOneFlushServesAllThatWait(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("first"))
	entered, leave := make(chan string, 100), make(chan struct{})
	w.fs.set(func(name string) error {
		entered <- name
		<-leave
		return nil
	})
	var answers []<-chan ProduceResult
	answers = append(answers, w.send("t", 0, -1, plain("x")))
	answer(t, entered)
	for range 50 {
		answers = append(answers, w.send("t", 0, -1, plain("x")))
	}
	before := w.fs.count()
	close(leave)
	for _, a := range answers {
		answer(t, a)
	}
	if n := w.fs.count() - before; n != 1 {
		t.Errorf("%d flushes for 50 produces that waited together, want 1", n)
	}
}

func TestFailedFlushTakesTheDirectoryOffline(t *testing.T) {
	for _, partitions := range []int32{1, 5, 40} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			w := newWorld(t, "dirs=2")
			w.topic("t", 2*partitions)
			w.topic("other", 1)
			bad := w.dirs[0]
			var failures atomic.Int32
			w.fs.set(func(name string) error {
				if strings.HasPrefix(name, bad) {
					failures.Add(1)
					return errors.New("input/output error")
				}
				return nil
			})
			var polls []<-chan []fetched
			for i := range 2 * partitions {
				polls = append(polls, w.readRequest(FetchRequest{
					ReplicaID: -1, MaxWaitMs: 60_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", i, 0)},
				}))
			}
			var parts []ProducePartition
			for i := range 2 * partitions {
				parts = append(parts, ProducePartition{Topic: "t", Partition: i, Records: plain("lost?")})
			}
			result := make(chan []ProduceResult, 1)
			w.m.Produce(&ProduceRequest{Acks: -1, TimeoutMs: 60_000, Partitions: parts}, func(r []ProduceResult) {
				result <- slices.Clone(r)
			})
			offline := 0
			for i, r := range answer(t, result) {
				p, _ := w.m.find(kafka.TopicID{}, "t", int32(i))
				if p.dir.disk.Path() != bad {
					if r.Err != kafka.None {
						t.Errorf("partition %d in the good directory: %v", i, r.Err)
					}
					continue
				}
				offline++
				if r.Err != kafka.KafkaStorageError {
					t.Errorf("partition %d in the bad directory: %v, want KAFKA_STORAGE_ERROR", i, r.Err)
				}
				got := answer(t, polls[i])[0]
				if got.Err != kafka.KafkaStorageError || len(got.bytes) > 0 {
					t.Errorf("partition %d: the parked fetch got %v and %d bytes", i, got.Err, len(got.bytes))
				}
				if again := w.produce("t", int32(i), plain("x")); again.Err != kafka.KafkaStorageError {
					t.Errorf("partition %d afterwards: %v", i, again.Err)
				}
			}
			if offline == 0 || offline == len(parts) {
				t.Fatalf("%d of %d partitions were in the bad directory, want some", offline, len(parts))
			}
			answer(t, w.falls) // told when all partitions have been
			tried := failures.Load()
			w.fs.set(nil)
			w.m.dirs[0].flusher.add(mustFind(t, w, "t", 0))
			if failures.Load() != tried || len(w.fallen()) != 1 || w.fallen()[0] != bad+" left=1" {
				t.Errorf("fallen %v", w.fallen())
			}
			if text := w.log.String(); strings.Count(text, "log directory is offline") != 1 || !strings.Contains(text, bad) {
				t.Errorf("log: %s, want one line that names %s", text, bad)
			}
			if usage := w.m.Usage(); usage[0].Err == nil || usage[1].Err != nil {
				t.Errorf("usage: %v, %v, want the first offline", usage[0].Err, usage[1].Err)
			}
		})
	}
}

func mustFind(t testing.TB, w *world, topic string, index int32) *replica {
	t.Helper()
	p, err := w.m.find(kafka.TopicID{}, topic, index)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTimeoutOnlyWhereTheFlushDoesNotCome(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("first"))
	leave := make(chan struct{})
	w.fs.set(func(string) error {
		<-leave
		return nil
	})
	r := answer(t, w.sendWithin("t", 0, -1, 1, plain("late")))
	if r.Err != kafka.RequestTimedOut {
		t.Errorf("%v, want REQUEST_TIMED_OUT", r.Err)
	}
	close(leave)
	if base := w.mustProduce("t", 0, plain("next")); base != 2 {
		t.Errorf("the next record has offset %d, want 2: the late one stays", base)
	}
}

func TestADuplicateWaitsAsItsOriginal(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	entered, leave := make(chan string, 10), make(chan struct{})
	w.fs.set(func(name string) error {
		entered <- name
		<-leave
		return nil
	})
	first := w.send("t", 0, -1, sequenced(7, 0, 0, 1))
	answer(t, entered)
	second := w.send("t", 0, -1, sequenced(7, 0, 0, 1))
	none(t, second)
	close(leave)
	if a, b := answer(t, first), answer(t, second); a.Err != kafka.None || b.Err != kafka.None || a.BaseOffset != b.BaseOffset {
		t.Errorf("%+v and %+v, want the same offset", a, b)
	}
}

func TestDurabilityOfTheOperatingSystemDoesNotWait(t *testing.T) {
	w := newWorld(t, "raftsman.durability=os", "log.flush.interval.messages=3")
	w.topic("t", 1)
	leave := make(chan struct{})
	w.fs.set(func(string) error {
		<-leave
		return nil
	})
	poll := w.readRequest(FetchRequest{ReplicaID: -1, MaxWaitMs: 60_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", 0, 0)}})
	for i := range 4 {
		if base := w.mustProduce("t", 0, plain("x")); base != kafka.Offset(i) {
			t.Errorf("offset %d, want %d", base, i)
		}
	}
	answer(t, poll)
	close(leave)
}

// TestPanicInsideTheLockIsNotContained: the server contains what one request brings about, but must not go on with a log that is half
// changed and locked for good.
func TestPanicInsideTheLockIsNotContained(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	w.fs.setWrite(func(string) error { panic("out of luck") })
	defer func() {
		if reason, is := recover().(invariant.Violation); !is || !strings.Contains(string(reason), "out of luck") {
			t.Errorf("the panic was %q, want a Violation", reason)
		}
		w.m = nil // its partition is locked
	}()
	w.send("t", 0, -1, plain("b"))
}
