package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// opens counts what is opened in partitions' folders of the topic.
func (w *world) opens(topic string) *atomic.Int64 {
	var count atomic.Int64
	w.fs.setOpen(func(name string) error {
		if strings.Contains(name, "/"+topic+"-") {
			count.Add(1)
		}
		return nil
	})
	return &count
}

// sleeping counts the partitions that sleep.
func (w *world) sleeping() (n int) {
	for s := range w.m.slots() {
		if s.awakened() == nil {
			n++
		}
	}
	return n
}

func TestPartitionsSleepUntilTheyAreAskedFor(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 3)
	w.mustProduce("t", 0, plain("a", "b"))
	w.mustProduce("t", 1, plain("c"))
	bytes := w.m.Usage()[0].Partitions
	w.restart()
	opened := w.opens("t")
	if err := w.m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 0 {
		t.Errorf("the stop opened %d files of partitions that nobody had asked for", n)
	}
	w.start()
	if got := w.m.Usage()[0].Partitions; !slices.Equal(got, bytes) {
		t.Errorf("usage in sleep: %v, want %v", got, bytes)
	}
	if n := w.sleeping(); n != 3 {
		t.Errorf("%d partitions sleep, want all 3", n)
	}
	if got := w.values("t", 0, 0); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("partition 0 holds %v after it woke", got)
	}
	if base := w.mustProduce("t", 1, plain("d")); base != 1 {
		t.Errorf("the first append after sleep got offset %d, want 1", base)
	}
	if n := w.sleeping(); n != 1 {
		t.Errorf("%d partitions sleep, want the one that nobody asked for", n)
	}
	w.restart()
	if got := w.values("t", 1, 0); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("partition 1 holds %v", got)
	}
}

// TestIdempotentProducerGoesOnAfterSleep: what the producers did is known when the partition wakes, not only from then on.
func TestIdempotentProducerGoesOnAfterSleep(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 0, 0, 2))
	w.restart()
	if base := w.mustProduce("t", 0, sequenced(7, 0, 0, 2)); base != 0 {
		t.Errorf("a batch that was sent again got offset %d, want 0", base)
	}
	if r := w.produce("t", 0, sequenced(7, 0, 5, 1)); r.Err != kafka.OutOfOrderSequenceNumber {
		t.Errorf("a batch behind a gap was answered %v", r.Err)
	}
	if base := w.mustProduce("t", 0, sequenced(7, 0, 2, 1)); base != 2 {
		t.Errorf("the next batch got offset %d, want 2", base)
	}
}

// TestEverybodyWakesAPartition: many that come at once find one log; a deletion, a stop and a failing directory among them end it.
func TestEverybodyWakesAPartition(t *testing.T) {
	const partitions = 20
	w := newWorld(t)
	id := w.topic("t", partitions)
	w.restart()
	var all sync.WaitGroup
	for i := range 5 * partitions {
		all.Go(func() { answer(t, w.send("t", int32(i%partitions), -1, plain("x"))) })
	}
	all.Go(func() { w.m.Usage() })
	all.Go(func() { w.m.background.retain(time.Now().Add(time.Hour)) })
	all.Go(func() { w.m.background.expireProducers(time.Now()) })
	all.Go(func() { w.change(configRecord("t", "max.message.bytes=2000")) })
	all.Wait()
	for i := range int32(partitions) {
		if got := w.values("t", i, 0); len(got) != 5 {
			t.Errorf("partition %d holds %d records, want 5", i, len(got))
		}
	}
	produceBeside := func(disturb func(), allowed ...kafka.Error) {
		w.restart()
		all.Go(disturb)
		for i := range partitions {
			all.Go(func() {
				if code := answer(t, w.send("t", int32(i), -1, plain("x"))).Err; code != kafka.None && !slices.Contains(allowed, code) {
					t.Errorf("a produce was answered %v, want %v", code, allowed)
				}
			})
		}
		all.Wait()
	}
	produceBeside(func() { w.m.Stop() }, kafka.NotLeaderOrFollower)
	produceBeside(func() { w.deleteTopic(id) }, kafka.UnknownTopicOrPartition, kafka.NotLeaderOrFollower)
	if names, err := w.m.dirs[0].disk.Partitions(); err != nil || len(names) != 0 {
		t.Errorf("the directory holds %v (%v) after the topic was deleted", names, err)
	}
	w.topic("t", partitions)
	produceBeside(func() { w.m.dirs[0].fail("test", errors.New("a disk broke")) }, kafka.KafkaStorageError)
	if n := w.sleeping(); n != 0 {
		t.Errorf("%d partitions sleep in a directory that is offline", n)
	}
}

func TestLeadershipAndSettingsChangeInSleep(t *testing.T) {
	w := newWorld(t)
	id := w.topic("t", 2)
	w.restart()
	w.elect(id, 0, 7)
	w.elect(id, 1, testNode)
	w.change(configRecord("t", "max.message.bytes=100"))
	if n := w.sleeping(); n != 2 {
		t.Fatalf("%d partitions sleep, want 2", n)
	}
	if code := answer(t, w.send("t", 0, -1, plain("x"))).Err; code != kafka.NotLeaderOrFollower {
		t.Errorf("a partition that another node leads answered %v", code)
	}
	if code := answer(t, w.send("t", 1, -1, plain(strings.Repeat("x", 200)))).Err; code != kafka.MessageTooLarge {
		t.Errorf("the limit that was set in sleep: answer %v", code)
	}
	if epoch, ok := w.m.Leads(kafka.TopicPartition{Topic: "t", Partition: 1}); !ok || epoch != 2 {
		t.Errorf("it leads in epoch %d (%v), want 2, which began in sleep", epoch, ok)
	}
	w.restart()
	w.change(configRecord("t", "cleanup.policy=compact"))
	if n := w.sleeping(); n != 0 {
		t.Errorf("%d partitions sleep that are to be compacted", n)
	}
}

func TestRetentionLooksAtSleepers(t *testing.T) {
	w := newWorld(t)
	w.topic("old", 1, "retention.ms=3600000")
	w.topic("kept", 1, "retention.ms=-1")
	w.mustProduce("old", 0, plain("a"))
	w.mustProduce("kept", 0, plain("b"))
	w.restart()
	opened := w.opens("old")
	w.m.background.retain(time.Now())
	if n := opened.Load(); n == 0 || w.sleeping() != 2 {
		t.Fatalf("%d files were opened and %d partitions sleep; want some, and both", n, w.sleeping())
	}
	opened.Store(0)
	w.m.background.retain(time.Now())
	if n := opened.Load(); n != 0 {
		t.Errorf("%d files were opened although nothing could be due yet", n)
	}
	w.m.background.retain(time.Now().Add(2 * time.Hour))
	if n := w.sleeping(); n != 1 {
		t.Errorf("%d partitions sleep, want the one without retention", n)
	}
	found, err := w.m.ListOffset(kafka.TopicPartition{Topic: "old"}, OffsetQuery{TimestampMs: Earliest, CurrentLeaderEpoch: kafka.NoEpoch})
	if err != nil || found.Offset != 1 {
		t.Errorf("the old topic begins at %d (%v), want 1", found.Offset, err)
	}
	w.change(configRecord("kept", "retention.ms=1000"))
	w.m.background.retain(time.Now().Add(time.Hour))
	if n := w.sleeping(); n != 0 {
		t.Error("a shorter retention was not seen")
	}
}

// TestSystemRunsOutWhilePartitionWakes: it sleeps on, and wakes when there is room again.
func TestSystemRunsOutWhilePartitionWakes(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	w.restart()
	w.fs.setOpen(func(name string) error {
		if strings.Contains(name, "/t-0") {
			return syscall.EMFILE
		}
		return nil
	})
	if code := answer(t, w.send("t", 0, -1, plain("b"))).Err; code != kafka.KafkaStorageError {
		t.Errorf("without file descriptors: %v, want KAFKA_STORAGE_ERROR", code)
	}
	w.fs.setOpen(nil)
	if base := w.mustProduce("t", 0, plain("b")); base != 1 {
		t.Errorf("offset %d, want 1", base)
	}
	w.restart()
	if got := w.values("t", 0, 0); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("it holds %v", got)
	}
}

// TestSleepersSurvivePowerCuts stops in order and starts, lets some partitions wake and cuts the power: beside their use, in the
// stop, or in the start. Those that slept have lost nothing either.
func TestSleepersSurvivePowerCuts(t *testing.T) { eachCrashSeed(t, surviveInSleep) }

func surviveInSleep(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	disk := faultfs.NewDisk(seed)
	w := newWorldOn(t, disk)
	id := w.topic("t", crashPartitions, "segment.bytes=1048576")
	var ledgers [crashPartitions]ledger
	const never = 1 << 30
	for round := range 6 {
		<-w.m.recovery.done
		if random.IntN(3) == 0 {
			disk.CutAt(random.IntN(200)) // in the stop
		}
		_ = w.m.Close(context.Background())
		if !disk.Off() {
			disk.CutAt(never)
			w.start()
			if n := w.sleeping(); n != crashPartitions {
				t.Errorf("round %d: %d partitions sleep, want all", round, n)
			}
			disk.CutAt(random.IntN(150))
			var running sync.WaitGroup
			for i := range ledgers {
				if random.IntN(2) == 0 {
					running.Go(func() { w.produceUntilCut(int32(i), &ledgers[i]) })
					running.Go(func() { w.readUntilCut(int32(i), &ledgers[i]) })
				}
			}
			running.Wait()
			_ = w.m.Close(context.Background())
		}
		disk.Restart()
		w.epochs++
		w.reopen(id)
		for i := range ledgers {
			w.checkLedger(round, int32(i), &ledgers[i])
		}
	}
}
