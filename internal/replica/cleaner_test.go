package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// cleanerBroker looks for dirty logs all the time.
var cleanerBroker = []string{"log.cleaner.backoff.ms=5", "log.cleaner.min.cleanable.ratio=0.01"}

// keyed is a batch of one record.
func keyed(key, value string) []byte {
	var b record.Builder
	var v []byte
	if value != "" {
		v = []byte(value)
	}
	b.Add([]byte(key), v, nil, time.Now().UnixMilli())
	return b.Build()
}

// rounds writes n values of each of four keys, in segments of a few batches.
func (w *world) rounds(topic string, n int) {
	w.Helper()
	for i := range n {
		for key := range 4 {
			w.mustProduce(topic, 0, keyed(fmt.Sprint("k", key), fmt.Sprint("v", i)))
		}
	}
}

func (w *world) isClean(topic string) func() bool {
	return func() bool {
		values := w.values(topic, 0, 0)
		return len(values) < 20 && slices.Contains(values, "last")
	}
}

func TestCleanerCompactsTopics(t *testing.T) {
	w := newWorld(t, cleanerBroker...)
	w.topic("plain", 1, "internal.segment.bytes=500")
	w.topic("compacted", 1, "cleanup.policy=compact", "internal.segment.bytes=500")
	for _, topic := range []string{"plain", "compacted"} {
		w.rounds(topic, 40)
		w.mustProduce(topic, 0, keyed("k0", "last"))
	}
	w.waitFor("compaction", w.isClean("compacted"))
	if got := len(w.values("plain", 0, 0)); got != 161 {
		t.Fatalf("the topic that is not compacted has %d values, want 161", got)
	}
	before := w.values("compacted", 0, 0)
	w.restart()
	after := w.values("compacted", 0, 0)
	left := before
	for _, v := range after { // the cleaner goes on, so there may be less
		i := slices.Index(left, v)
		if i < 0 {
			t.Fatalf("values %v, after a restart %v", before, after)
		}
		left = left[i+1:]
	}
	if want := before[len(before)-4:]; !slices.Equal(after[max(0, len(after)-4):], want) {
		t.Fatalf("values %v, after a restart %v: want the last of each key, %v", before, after, want)
	}
}

func TestCleanerTakesNewSettings(t *testing.T) {
	w := newWorld(t, "log.cleaner.backoff.ms=5", "log.cleaner.threads=3")
	w.topic("changing", 1, "internal.segment.bytes=500")
	w.rounds("changing", 30)
	w.mustProduce("changing", 0, keyed("k0", "last"))
	w.change(configRecord("changing", "cleanup.policy=compact,delete"), configRecord("changing", "min.cleanable.dirty.ratio=0"))
	w.waitFor("compaction", w.isClean("changing"))
}

func TestCleanerPassesOverADamagedLog(t *testing.T) {
	w := newWorld(t, "log.cleaner.backoff.ms=5", "log.cleaner.enable=false")
	for _, topic := range []string{"damaged", "sound"} {
		w.topic(topic, 1, "cleanup.policy=compact", "internal.segment.bytes=500")
		w.rounds(topic, 30)
		w.mustProduce(topic, 0, keyed("k0", "last"))
	}
	w.flipBit("/data0/damaged-0/00000000000000000000.log", 100)
	w.props["log.cleaner.enable"] = "true"
	w.restart()
	w.waitFor("compaction of the sound topic", w.isClean("sound"))
	all := func(kafka.TopicPartition) bool { return true }
	var is condition.Partition
	w.waitFor("the damage", func() bool {
		is = w.m.Conditions(all)[0].Is
		return is.Damage != nil && is.Uncleanable != ""
	})
	if file := "/data0/damaged-0/00000000000000000000.log"; is.Damage.File != file || is.Damage.Remedy == "" || is.Compaction != nil {
		t.Fatalf("the damaged partition tells %+v of %+v, want damage of %s and nothing of compaction", is, is.Damage, file)
	}
	w.waitFor("the sound partition to tell when it was cleaned", func() bool { // which is later than its records are
		told := w.m.Conditions(all)
		return len(told) == 2 && told[1].Topic == "sound" && told[1].Is.Compaction != nil && told[1].Is.Compaction.CleanedMs >= 0
	})
	reason := is.Uncleanable
	if !strings.Contains(reason, "00000000000000000000.log") || !strings.Contains(reason, "crc") {
		t.Fatalf("reason %q names neither file nor damage", reason)
	}
	if n := w.m.CleanerMetrics().UncleanablePartitions.Value(); n != 1 {
		t.Fatalf("%d partitions are uncleanable, want 1", n)
	}
	if n := strings.Count(w.log.String(), "can't be compacted"); n != 1 {
		t.Fatalf("it was said %d times:\n%s", n, w.log)
	}
	if r := w.produce("damaged", 0, keyed("k1", "refused")); r.Err != kafka.KafkaStorageError {
		t.Fatalf("a produce to the damaged partition: %v, want KAFKA_STORAGE_ERROR", r.Err)
	}
	if n := w.m.DamageMetrics().DamagedPartitions.Value(); n != 1 {
		t.Fatalf("%d partitions are damaged, want 1", n)
	}
	w.mustProduce("sound", 0, keyed("k1", "still served"))
}

func (w *world) flipBit(name string, at int64) {
	w.Helper()
	content, err := vfs.ReadFile(w.fs, name)
	if err != nil {
		w.Fatal(err)
	}
	content[at] ^= 1
	if err := vfs.WriteFile(w.fs, name, content); err != nil {
		w.Fatal(err)
	}
}

func TestCleanerGoesOnWhenTheDiskHasRoomAgain(t *testing.T) {
	w := newWorld(t, cleanerBroker...)
	tried := make(chan struct{}, 1)
	w.fs.setOpen(func(name string) error {
		if strings.HasSuffix(name, ".log.cleaned") {
			select {
			case tried <- struct{}{}:
			default:
			}
			return syscall.ENOSPC
		}
		return nil
	})
	w.topic("compacted", 1, "cleanup.policy=compact", "internal.segment.bytes=500")
	w.rounds("compacted", 30)
	w.mustProduce("compacted", 0, keyed("k0", "last"))
	answer(t, tried)
	w.fs.setOpen(nil)
	w.waitFor("compaction", w.isClean("compacted"))
	if fallen := w.fallen(); len(fallen) > 0 {
		t.Fatalf("a full disk took %v offline", fallen)
	}
}

func TestCleanerTakesAFailedDiskOffline(t *testing.T) {
	w := newWorld(t, append([]string{"dirs=2"}, cleanerBroker...)...)
	w.fs.set(func(name string) error {
		if strings.HasSuffix(name, ".cleaned") {
			return errors.New("input/output error")
		}
		return nil
	})
	w.topic("compacted", 1, "cleanup.policy=compact", "internal.segment.bytes=500")
	w.fs.setWrite(nil)
	for range 400 {
		if r := w.produce("compacted", 0, keyed("k", "v")); len(w.fallen()) > 0 || r.Err != 0 {
			break
		}
	}
	w.waitFor("the failure", func() bool { return len(w.fallen()) == 1 })
}

func TestCleanerLeavesADeletedTopic(t *testing.T) {
	w := newWorld(t, append([]string{"log.cleaner.io.max.bytes.per.second=1"}, cleanerBroker...)...)
	id := w.topic("compacted", 1, "cleanup.policy=compact", "internal.segment.bytes=2000")
	w.rounds("compacted", 60)
	w.waitFor("a cleaning that waits for its next byte", func() bool { return w.m.CleanerMetrics().ThrottledMs.Value() > 0 })
	w.deleteTopic(id)
	w.topic("compacted", 1, "cleanup.policy=compact", "internal.segment.bytes=2000")
	w.rounds("compacted", 10)
	if got := len(w.values("compacted", 0, 0)); got != 40 {
		t.Fatalf("the topic that was made anew has %d values, want 40", got)
	}
}
