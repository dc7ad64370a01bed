package replica

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// place is the directory in which DescribeLogDirs would show a partition, without futures.
func (w *world) place(tp kafka.TopicPartition) (path string, bytes int64) {
	w.Helper()
	for _, u := range w.m.Usage() {
		for _, p := range u.Partitions {
			if p.TopicPartition == tp && !p.Future {
				if path != "" {
					w.Fatalf("%s is in %s and in %s", tp, path, u.Path)
				}
				path, bytes = u.Path, p.Bytes
			}
		}
	}
	return path, bytes
}

// move moves a partition and waits until it has.
func (w *world) move(tp kafka.TopicPartition, to string) {
	w.Helper()
	if err := w.m.MoveReplica(tp, to); err != nil {
		w.Fatalf("move %s to %s: %v", tp, to, err)
	}
	w.awaitPlace(tp, to)
}

func (w *world) awaitPlace(tp kafka.TopicPartition, want string) {
	w.Helper()
	w.waitFor(fmt.Sprintf("%s in %s", tp, want), func() bool {
		is, _ := w.place(tp)
		return is == want
	})
}

// folders lists what is in the directories of a partition.
func (w *world) folders(topic string) (found []string) {
	w.Helper()
	for _, dir := range w.dirs {
		entries, err := w.fs.ReadDir(dir)
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name, topic+"-") && !strings.HasSuffix(e.Name, "-delete") {
				found = append(found, dir+"/"+e.Name)
			}
		}
	}
	return found
}

// TestAPartitionMovesUnderLoad from one log directory to the other and back, again and again, while records are written and
// read. Nothing is lost, doubled or reordered, also after a restart.
func TestAPartitionMovesUnderLoad(t *testing.T) {
	w := newWorld(t, "dirs=2")
	w.topic("t", 1, "segment.bytes=1048576")
	tp := kafka.TopicPartition{Topic: "t"}
	if here, _ := w.place(tp); here != "/data0" {
		t.Fatalf("the partition is in %s", here)
	}
	var stop atomic.Bool
	var load sync.WaitGroup
	var acked atomic.Int64
	load.Go(func() {
		for i := 0; !stop.Load() && i < 20_000; {
			got := <-w.send("t", 0, -1, plain(fmt.Sprint(i), strings.Repeat("x", 2000)))
			switch got.Err {
			case kafka.None:
				if got.BaseOffset != kafka.Offset(2*i) {
					t.Errorf("record %d is at %d", i, got.BaseOffset)
				}
				i++
				acked.Store(int64(i))
			default:
				t.Errorf("produce: %v %s", got.Err, got.Message)
				stop.Store(true)
			}
		}
	})
	load.Go(func() {
		for next := kafka.Offset(0); !stop.Load(); {
			got := (<-w.readRequest(FetchRequest{
				ReplicaID: -1, MaxWaitMs: 100, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", 0, next)},
			}))[0]
			switch {
			case got.Err != kafka.None:
				t.Errorf("read at %d: %v", next, got.Err)
				stop.Store(true)
			case len(got.bytes) > 0:
				_, next = decodeValues(t, got.bytes, next)
			}
		}
	})
	for round := range 20 {
		w.move(tp, w.dirs[1-round%2])
	}
	stop.Store(true)
	load.Wait()
	check := func(when string) {
		t.Helper()
		values := w.values("t", 0, 0)
		if len(values) != int(2*acked.Load()) {
			t.Fatalf("%s: %d values, want %d", when, len(values), 2*acked.Load())
		}
		for i := range int(acked.Load()) {
			if values[2*i] != fmt.Sprint(i) {
				t.Fatalf("%s: value %d is %q", when, i, values[2*i])
			}
		}
	}
	t.Logf("%d records", acked.Load())
	check("before a restart")
	w.restart()
	check("after a restart")
	if found := w.folders("t"); len(found) != 1 || found[0] != "/data0/t-0" {
		t.Errorf("folders %v, want /data0/t-0", found)
	}
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline", w.fallen())
	}
}

// TestWhatMovesWithAPartition: its start, its epochs, the sequence numbers of its producers.
func TestWhatMovesWithAPartition(t *testing.T) {
	w := newWorld(t, "dirs=2")
	id := w.topic("t", 1)
	tp := kafka.TopicPartition{Topic: "t"}
	for i := range kafka.Sequence(3) {
		w.mustProduce("t", 0, sequenced(7, 0, i, 1))
	}
	w.elect(id, 0, testNode)
	w.mustProduce("t", 0, sequenced(7, 0, 3, 1))
	w.elect(id, 0, testNode)
	if _, err := w.deleteRecords(tp, 2); err != nil {
		t.Fatal(err)
	}
	for i, dir := range []string{"/data1", "/data0"} {
		w.move(tp, dir)
		if at := w.mustProduce("t", 0, sequenced(7, 0, 3, 1)); at != 3 {
			t.Errorf("the repeated batch is at %d, want 3", at)
		}
		if start, err := w.offset("t", OffsetQuery{TimestampMs: Earliest}); err != nil || start.Offset != 2 {
			t.Errorf("the log begins at %v, %v, want 2", start, err)
		}
		for epoch, want := range map[kafka.Epoch]kafka.Offset{1: 3, 2: 4, 3: 4 + kafka.Offset(i)} {
			if _, end, err := w.m.EpochEnd(tp, kafka.NoEpoch, epoch); err != nil || end != want {
				t.Errorf("epoch %d ends at %d, %v, want %d", epoch, end, err, want)
			}
		}
		w.mustProduce("t", 0, plain("more"))
	}
}

// TestMovesThatAreRefused, with Kafka's codes.
func TestMovesThatAreRefused(t *testing.T) {
	w := newWorld(t, "dirs=2", "cordoned.log.dirs=")
	w.topic("t", 1)
	long := strings.Repeat("x", 249)
	for _, c := range []struct {
		topic, dir string
		want       kafka.Error
	}{
		{"t", "/nowhere", kafka.LogDirNotFound},
		{"nope", "/nowhere", kafka.LogDirNotFound},
		{"nope", "/data1", kafka.UnknownTopicOrPartition},
		{long, "/data1", kafka.InvalidTopicException},
		{"t", "/data0", kafka.None},
	} {
		if code, _ := kafka.Answer(w.m.MoveReplica(kafka.TopicPartition{Topic: c.topic}, c.dir)); code != c.want {
			t.Errorf("move %s to %s: %v, want %v", c.topic, c.dir, code, c.want)
		}
	}
	w.m.cordon([]string{"/data1"})
	if code, _ := kafka.Answer(w.m.MoveReplica(kafka.TopicPartition{Topic: "t"}, "/data1")); code != kafka.InvalidReplicaAssignment {
		t.Errorf("move to a cordoned directory: %v, want INVALID_REPLICA_ASSIGNMENT", code)
	}
}

// TestAMoveIsShownAndLimited: the future replica with what it lacks, at the rate that is set; a restart begins anew, and the
// deletion of the topic ends it.
func TestAMoveIsShownAndLimited(t *testing.T) {
	w := newWorld(t, "dirs=2")
	id := w.topic("t", 1)
	tp := kafka.TopicPartition{Topic: "t"}
	for range 5 {
		w.mustProduce("t", 0, plain(strings.Repeat("x", 1<<20-200)))
	}
	w.m.moves.rate.Store(1)
	if err := w.m.MoveReplica(tp, "/data1"); err != nil {
		t.Fatal(err)
	}
	future := func() (p PartitionUsage) {
		for _, u := range w.m.Usage() {
			for _, p := range u.Partitions {
				if p.Future && u.Path == "/data1" {
					return p
				}
			}
		}
		return p
	}
	w.waitFor("a piece of the copy", func() bool { return future().Bytes > 0 })
	if f := future(); f.Lag < 3 || f.Lag > 4 || f.Bytes > 2<<20 {
		t.Errorf("a future replica of %d bytes and lag %d, want one piece of five", f.Bytes, f.Lag)
	}
	if here, _ := w.place(tp); here != "/data0" {
		t.Errorf("the partition is in %s, want /data0 until it has caught up", here)
	}
	w.restart()
	w.awaitPlace(tp, "/data1")
	if n := len(w.values("t", 0, 0)); n != 5 {
		t.Errorf("%d values, want 5", n)
	}
	w.m.moves.rate.Store(1)
	if err := w.m.MoveReplica(tp, "/data0"); err != nil {
		t.Fatal(err)
	}
	w.deleteTopic(id)
	if found := w.folders("t"); len(found) > 0 {
		t.Errorf("folders %v of a deleted topic", found)
	}
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("new"))
}

// TestAPartitionMovesIntoADirectoryThatFails just when it is there: it is offline with it.
func TestAPartitionMovesIntoADirectoryThatFails(t *testing.T) {
	w := newWorld(t, "dirs=2")
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	tp := kafka.TopicPartition{Topic: "t"}
	var once sync.Once
	w.fs.setOpen(func(name string) error {
		if strings.HasPrefix(name, w.dirs[1]+"/t-0/") { // it has its name, and nobody knows of it
			once.Do(func() { w.m.dirs[1].fail("read something else", syscall.EIO) })
		}
		return nil
	})
	if err := w.m.MoveReplica(tp, w.dirs[1]); err != nil {
		t.Fatal(err)
	}
	w.waitFor("the end of the move", func() bool { return len(w.m.moves.list()) == 0 })
	if got := answer(t, w.sendWithin("t", 0, -1, 500, plain("b"))); got.Err != kafka.KafkaStorageError {
		t.Errorf("produce: %v, want KAFKA_STORAGE_ERROR", got.Err)
	}
	if got := w.fetch(at("t", 0, 0)); got.Err != kafka.KafkaStorageError {
		t.Errorf("fetch: %v, want KAFKA_STORAGE_ERROR", got.Err)
	}
}

// TestAMoveThatIsDoneWhenTheNodeStops goes on after the start.
func TestAMoveThatIsDoneWhenTheNodeStops(t *testing.T) {
	w := newWorld(t, "dirs=2")
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	tp := kafka.TopicPartition{Topic: "t"}
	stopped := make(chan struct{})
	var once sync.Once
	w.m.onDirReport = func() { // all is copied, and the metadata is told
		once.Do(func() {
			p, err := w.m.find(kafka.TopicID{}, "t", 0)
			if err != nil {
				t.Error(err)
				return
			}
			id := w.m.dirs[1].disk.ID()
			p.assigned.Store(&id)
			w.m.Stop()
			close(stopped)
		})
	}
	if err := w.m.MoveReplica(tp, w.dirs[1]); err != nil {
		t.Fatal(err)
	}
	<-stopped
	w.restart()
	w.awaitPlace(tp, w.dirs[1])
	if got := w.values("t", 0, 0); len(got) != 1 {
		t.Errorf("read %v, want one record", got)
	}
}

// TestAMoveIntoAFullDirectory waits for room, is given up when it is asked to, by a move back or by the topic's deletion, and goes on
// after a restart; where the disk itself has no room it ends. Nothing is left of it, and the partition serves all the while.
func TestAMoveIntoAFullDirectory(t *testing.T) {
	w := newWorld(t, "dirs=2")
	id := w.topic("t", 1)
	tp := kafka.TopicPartition{Topic: "t"}
	begin := func(to string, full shortage) {
		t.Helper()
		for _, d := range w.m.dirs {
			if d.disk.Path() == to {
				d.space.level.Store(int32(full))
			}
		}
		if err := w.m.MoveReplica(tp, to); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(when string, from string) {
		t.Helper()
		w.waitFor(when+": a future replica", func() bool { return len(w.folders("t")) == 2 })
		w.mustProduce("t", 0, plain(when))
		if here, _ := w.place(tp); here != from {
			t.Errorf("%s: the partition is in %s, want %s", when, here, from)
		}
	}
	only := func(when, want string) {
		t.Helper()
		w.waitFor(when+": an end of the move", func() bool { return len(w.m.moves.list()) == 0 })
		if found := w.folders("t"); len(found) != 1 || found[0] != want {
			t.Errorf("%s: folders %v, want %s", when, found, want)
		}
		w.mustProduce("t", 0, plain(when))
	}
	w.mustProduce("t", 0, plain("first"))
	for range 3 {
		begin("/data1", low)
		waits("on the way", "/data0")
		begin("/data0", roomy)
		only("turned back", "/data0/t-0")
	}
	begin("/data1", lowest)
	waits("before the restart", "/data0")
	w.restart() // and there is room
	w.awaitPlace(tp, "/data1")
	only("after the restart", "/data1/t-0")

	w.fs.setWrite(func(name string) error {
		if strings.HasPrefix(name, "/data0/") {
			return syscall.ENOSPC
		}
		return nil
	})
	begin("/data0", roomy)
	only("without a byte", "/data1/t-0")
	w.fs.setWrite(nil)
	w.waitFor("a word in the log that the move has ended", func() bool { return strings.Contains(w.log.String(), "a partition stays in its log directory") })
	begin("/data0", low)
	waits("before it is deleted", "/data1")
	w.deleteTopic(id)
	w.waitFor("an end of the move", func() bool { return len(w.m.moves.list()) == 0 })
	if found := w.folders("t"); len(found) > 0 {
		t.Errorf("folders %v of a deleted topic", found)
	}
	if fallen := w.fallen(); len(fallen) > 0 {
		t.Errorf("%v went offline", fallen)
	}
}
