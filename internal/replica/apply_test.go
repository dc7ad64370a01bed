package replica

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

func TestPartitionsGoWhereFewestAre(t *testing.T) {
	w := newWorld(t, "dirs=3")
	for i := range 4 {
		w.topic(fmt.Sprintf("t%d", i), 3)
	}
	for i, usage := range w.m.Usage() {
		if len(usage.Partitions) != 4 {
			t.Errorf("directory %d holds %d of 12 partitions, want 4", i, len(usage.Partitions))
		}
	}
	where := func() (list []string) {
		for _, u := range w.m.Usage() {
			for _, p := range u.Partitions {
				list = append(list, p.String()+" in "+u.Path)
			}
		}
		return list
	}
	before := where()
	w.restart()
	if after := where(); !slices.Equal(before, after) {
		t.Errorf("after a restart: %v, want %v", after, before)
	}
}

func TestTopicsGrowAndGo(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	w.change(w.partitionRecord(id, 1, 1))
	w.mustProduce("t", 1, plain("b"))
	if got := w.values("t", 0, 0); len(got) != 1 {
		t.Errorf("the first partition holds %v after the topic grew", got)
	}
	w.deleteTopic(id)
	if got := w.fetch(FetchPartition{TopicID: id, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}); got.Err != kafka.UnknownTopicId {
		t.Errorf("fetch by the id of a deleted topic: %v, want UNKNOWN_TOPIC_ID", got.Err)
	}
	if _, err := w.fs.Stat(filepath.Join(w.dirs[0], "t-0")); err == nil {
		t.Error("the folder of the deleted partition is still there")
	}
	w.topic("t", 1)
	if got := w.values("t", 0, 0); len(got) != 0 {
		t.Errorf("the topic created again holds %v", got)
	}
}

func TestTopicMadeAnewWhileTheNodeWasAway(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 1)
	w.mustProduce("t", 0, plain("old"))
	if err := w.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.image = meta.NewImage("test")
	w.start()
	if !strings.Contains(w.log.String(), "belongs to no topic") {
		t.Error("the stray folder was not named in the log")
	}
	if again := w.topic("t", 1); again == id {
		t.Fatal("same id")
	}
	if got := w.values("t", 0, 0); len(got) != 0 {
		t.Errorf("the new topic holds %v of the old one", got)
	}
	w.mustProduce("t", 0, plain("new"))
}

// TestFolderOfATopicThatIsGone: the node was killed between the end of a topic in the metadata and on the disk. The folder is kept
// under another name, and does not keep the node from a clean stop.
func TestFolderOfATopicThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("old"))
	killed, kill := context.WithCancel(context.Background())
	kill()
	if err := w.m.Close(killed); err == nil {
		t.Fatal("the kill was a clean stop")
	}
	w.image = meta.NewImage("test")
	w.start()
	entries, err := w.fs.ReadDir(w.dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	var aside []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "t-0") {
			aside = append(aside, e.Name)
		}
	}
	if len(aside) != 1 || !strings.HasSuffix(aside[0], "-stray") {
		t.Errorf("folders %v, want one that is called stray", aside)
	}
	if err := w.m.Close(context.Background()); err != nil {
		t.Errorf("stop: %v, want a clean one", err)
	}
	w.start()
	w.topic("t", 1)
	if got := w.values("t", 0, 0); len(got) != 0 {
		t.Errorf("the new topic holds %v of the old one", got)
	}
}

func TestTopicMadeAnewInOneStep(t *testing.T) {
	w := newWorld(t)
	old := w.topic("t", 1)
	w.mustProduce("t", 0, plain("old"))
	poll := w.poll(1, at("t", 0, 1))
	removed, created := sysrecord.NewRemoveTopicRecord(), sysrecord.NewTopicRecord()
	removed.TopicID = old
	created.Name, created.TopicID = "t", kafka.NewUUID(randomBytes)
	w.change(removed, created, w.partitionRecord(created.TopicID, 0, 1))
	if got := answer(t, poll)[0].Err; got != kafka.UnknownTopicOrPartition {
		t.Errorf("parked on the old topic: %v, want UNKNOWN_TOPIC_OR_PARTITION", got)
	}
	if base := w.mustProduce("t", 0, plain("new")); base != 0 {
		t.Errorf("first record of the new topic at %d", base)
	}
}

func TestFullDiskRefusesOneProduce(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 0, 0, 1))
	w.fs.setWrite(func(string) error { return syscall.ENOSPC })
	for range 3 {
		if r := w.produce("t", 0, sequenced(7, 0, 1, 1)); r.Err != kafka.KafkaStorageError {
			t.Errorf("full: %v, want KAFKA_STORAGE_ERROR", r.Err)
		}
	}
	if n := strings.Count(w.log.String(), "the system refused something"); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
	w.fs.setWrite(nil)
	if base := w.mustProduce("t", 0, sequenced(7, 0, 1, 1)); base != 1 {
		t.Errorf("with room again: offset %d, want 1", base)
	}
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline for a full disk", w.fallen())
	}
}

func TestFailedWriteTakesTheDirectoryOffline(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.topic("u", 1)
	w.mustProduce("t", 0, plain("a"))
	w.fs.setWrite(func(string) error { return syscall.EIO })
	if r := w.produce("t", 0, plain("b")); r.Err != kafka.KafkaStorageError {
		t.Errorf("%v, want KAFKA_STORAGE_ERROR", r.Err)
	}
	w.fs.setWrite(nil)
	for _, topic := range []string{"t", "u"} {
		if r := w.produce(topic, 0, plain("c")); r.Err != kafka.KafkaStorageError {
			t.Errorf("%s afterwards: %v, want KAFKA_STORAGE_ERROR", topic, r.Err)
		}
	}
	if want := []string{w.dirs[0] + " left=0"}; !slices.Equal(w.fallen(), want) {
		t.Errorf("fallen %v, want %v", w.fallen(), want)
	}
}

func TestSettingsTakeEffectLive(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	large := plain(strings.Repeat("x", 2000))
	w.mustProduce("t", 0, slices.Clone(large))
	w.change(configRecord("t", "max.message.bytes=1000"))
	if r := w.produce("t", 0, slices.Clone(large)); r.Err != kafka.MessageTooLarge {
		t.Errorf("after max.message.bytes=1000: %v, want MESSAGE_TOO_LARGE", r.Err)
	}
	w.change(configRecord("t", "max.message.bytes="))
	w.mustProduce("t", 0, slices.Clone(large))
	// The brokers' own settings stand in for the topics'.
	broker := configRecord("", "message.max.bytes=1000")
	broker.ResourceType = int8(meta.BrokerResource)
	w.change(broker)
	if r := w.produce("t", 0, slices.Clone(large)); r.Err != kafka.MessageTooLarge {
		t.Errorf("after message.max.bytes=1000 for all brokers: %v, want MESSAGE_TOO_LARGE", r.Err)
	}
	w.change(configRecord("t", "max.message.bytes=5000"))
	w.mustProduce("t", 0, slices.Clone(large))
}

func TestMinISRTakesEffectLive(t *testing.T) {
	w := newWorld(t)
	w.lonelyTopic("t", kafka.NewUUID(randomBytes))
	if r := answer(t, w.send("t", 0, 1, plain("a"))); r.Err != kafka.None {
		t.Fatal(r.Err)
	}
	poll := w.poll(1, at("t", 0, 0))
	none(t, poll)
	w.change(configRecord("t", "min.insync.replicas=1"))
	if got := answer(t, poll)[0]; len(got.bytes) == 0 {
		t.Errorf("the parked fetch got nothing: %+v", got.FetchResult)
	}
	w.mustProduce("t", 0, plain("b"))
}

func TestRetentionMovesTheStart(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1, "segment.bytes=1048576", "retention.bytes=1500000", "file.delete.delay.ms=0")
	value := strings.Repeat("x", 100_000)
	for range 40 {
		w.mustProduce("t", 0, plain(value))
	}
	w.m.background.retain(time.Now())
	start, err := w.offset("t", OffsetQuery{TimestampMs: Earliest})
	if err != nil || start.Offset == 0 || start.Offset >= 40 {
		t.Fatalf("start %+v, %v, want it moved", start, err)
	}
	if got := w.values("t", 0, start.Offset); len(got) != 40-int(start.Offset) {
		t.Errorf("%d records from %d on", len(got), start.Offset)
	}
	w.m.background.sweep(time.Now())
	w.m.background.checkpoint(time.Now())
}

func TestCoordinatorsAppendAndLoad(t *testing.T) {
	w := newWorld(t)
	w.topic("__consumer_offsets", 2)
	tp := kafka.TopicPartition{Topic: "__consumer_offsets", Partition: 1}
	type committed struct {
		last kafka.Offset
		err  error
	}
	entered, leave := make(chan string, 10), make(chan struct{})
	w.fs.set(func(name string) error {
		entered <- name
		<-leave
		return nil
	})
	done := make(chan committed, 1)
	w.m.Append(tp, plain("a", "b"), func(last kafka.Offset, err error) { done <- committed{last, err} })
	answer(t, entered)
	none(t, done)
	close(leave)
	if got := answer(t, done); got.last != 1 || got.err != nil {
		t.Errorf("committed up to %d, %v, want 1", got.last, got.err)
	}
	w.fs.set(nil)
	w.m.Append(tp, plain("c"), func(last kafka.Offset, err error) { done <- committed{last, err} })
	if got := answer(t, done); got.last != 2 || got.err != nil {
		t.Errorf("committed up to %d, %v, want 2", got.last, got.err)
	}
	load := func() (values []string) {
		err := w.m.Load(tp, func(b record.Batch) error {
			got, _ := decodeValues(t, b, b.BaseOffset())
			values = append(values, got...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	if got := load(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("loaded %v", got)
	}
	w.restart()
	if got := load(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("loaded after a restart: %v", got)
	}
	if epoch, leads := w.m.Leads(tp); !leads || epoch != 1 {
		t.Errorf("leads %v in epoch %d, want 1", leads, epoch)
	}
	none := kafka.TopicPartition{Topic: "nope"}
	w.m.Append(none, plain("x"), func(last kafka.Offset, err error) { done <- committed{last, err} })
	if got := answer(t, done); got.err != kafka.UnknownTopicOrPartition {
		t.Errorf("append to an unknown topic: %v", got.err)
	}
	if _, leads := w.m.Leads(none); leads {
		t.Error("leads an unknown topic")
	}
}

func TestCloseAnswersWhatWasAppended(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	entered, leave := make(chan string, 10), make(chan struct{})
	w.fs.set(func(name string) error {
		entered <- name
		<-leave
		return nil
	})
	acked := w.send("t", 0, -1, plain("a"))
	answer(t, entered)
	poll := w.poll(1, at("t", 0, 0))
	closed := make(chan error, 1)
	go func() { closed <- w.m.Close(context.Background()) }()
	if got := answer(t, poll)[0]; got.Err != kafka.NotLeaderOrFollower {
		t.Errorf("parked fetch: %v, want NOT_LEADER_OR_FOLLOWER at once", got.Err)
	}
	none(t, acked)
	close(leave)
	if r := answer(t, acked); r.Err != kafka.None {
		t.Errorf("parked produce: %v, want it flushed and acknowledged", r.Err)
	}
	if err := answer(t, closed); err != nil {
		t.Error(err)
	}
	if r := answer(t, w.send("t", 0, -1, plain("b"))); r.Err != kafka.NotLeaderOrFollower {
		t.Errorf("produce after Close: %v", r.Err)
	}
	w.start()
	if !w.m.dirs[0].disk.WasClean() {
		t.Error("no clean-shutdown marker")
	}
	if got := w.values("t", 0, 0); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}

func TestUsageCountsBytes(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	batch := plain("a")
	w.mustProduce("t", 1, batch)
	usage := w.m.Usage()
	if len(usage) != 1 || len(usage[0].Partitions) != 2 || usage[0].Partitions[1].Bytes != int64(len(batch)) || usage[0].Path != w.dirs[0] {
		t.Errorf("%+v, want %d bytes in t-1", usage, len(batch))
	}
}

func TestProducersAreListed(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 2, 0, 3))
	list, err := w.m.Producers(kafka.TopicPartition{Topic: "t"})
	if err != nil || len(list) != 1 || list[0].ID != 7 || list[0].Epoch != 2 || list[0].LastSequence != 2 || list[0].TxnStartOffset != -1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := w.m.Producers(kafka.TopicPartition{Topic: "nope"}); err != kafka.UnknownTopicOrPartition {
		t.Errorf("unknown topic: %v", err)
	}
}
