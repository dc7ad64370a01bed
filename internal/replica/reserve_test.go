package replica

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestTheReserveIsKept: produces end before the disk is full, commits later, reads never; and all begin again by themselves.
func TestTheReserveIsKept(t *testing.T) {
	w := newWorld(t, "raftsman.log.dir.reserve.bytes=1600")
	w.topic("t", 1)
	const total = 1 << 40
	tp := kafka.TopicPartition{Topic: "t"}
	commit := func() error {
		done := make(chan error, 1)
		w.m.Append(tp, plain("commit"), func(_ kafka.Offset, err error) { done <- err })
		return answer(t, done)
	}
	for _, step := range []struct {
		usable   int64
		produces bool
		commits  bool
	}{
		{5000, true, true},
		{1600, true, true},
		{1599, false, true},
		{1650, false, true}, // a little more than the reserve, so that service does not come and go
		{1700, true, true},
		{400, false, true},
		{399, false, false},
		{410, false, false},
		{425, false, true},
		{1 << 30, true, true},
	} {
		w.fs.setFree(func() (int64, int64, error) { return total, step.usable, nil })
		w.m.background.watchSpace(w.m.now())
		is := w.m.Observe(1, 1).Dirs[0]
		if is.Room.ReserveBytes != 1600 || is.Room.RefusesProduces != !step.produces || is.Room.RefusesCommits != !step.commits || is.Usable != step.usable {
			t.Errorf("%d bytes free: it is observed as %+v", step.usable, is)
		}
		if told := w.m.Usage()[0].Room; told != is.Room {
			t.Errorf("%d bytes free: %+v is told of the directory, and %+v observed", step.usable, told, is.Room)
		}
		got := w.produce("t", 0, plain("a"))
		switch {
		case step.produces && got.Err != kafka.None:
			t.Errorf("%d bytes free: produce: %v %s", step.usable, got.Err, got.Message)
		case !step.produces && (got.Err != kafka.KafkaStorageError || !strings.Contains(got.Message, "/data0 has only its reserve left")):
			t.Errorf("%d bytes free: produce: %v %q, want KAFKA_STORAGE_ERROR and why", step.usable, got.Err, got.Message)
		}
		if err := commit(); step.commits && err != nil || !step.commits && !isCode(err, kafka.KafkaStorageError) {
			t.Errorf("%d bytes free: commit: %v, want one: %v", step.usable, err, step.commits)
		}
		if w.values("t", 0, 0)[0] != "a" {
			t.Errorf("%d bytes free: nothing is read", step.usable)
		}
	}
	for said, want := range map[string]int{
		"has only its reserve left: produces are refused": 2, "has room again": 2, "all but full": 1, "a little room": 1,
	} {
		if n := strings.Count(w.log.String(), said); n != want {
			t.Errorf("%q is said %d times, want %d:\n%s", said, n, want, w.log.String())
		}
	}
	if n := w.m.Observe(1, 1).Dirs[0].Room.RefusedBatches; n < 5 {
		t.Errorf("%d batches are counted as refused, want at least the produces of five steps", n)
	}
	if len(w.fallen()) > 0 {
		t.Errorf("%v went offline", w.fallen())
	}
}

// TestARepeatedBatchIsAcknowledgedWithoutRoom: it was appended already.
func TestARepeatedBatchIsAcknowledgedWithoutRoom(t *testing.T) {
	w := newWorld(t, "raftsman.log.dir.reserve.bytes=1600")
	w.topic("t", 1)
	w.mustProduce("t", 0, sequenced(7, 0, 0, 1))
	w.fs.setFree(func() (int64, int64, error) { return 1 << 40, 0, nil })
	w.m.background.watchSpace(w.m.now())
	if got := w.produce("t", 0, sequenced(7, 0, 1, 1)); got.Err != kafka.KafkaStorageError {
		t.Errorf("a new batch: %v, want KAFKA_STORAGE_ERROR", got.Err)
	}
	if at := w.mustProduce("t", 0, sequenced(7, 0, 0, 1)); at != 0 {
		t.Errorf("the repeated batch is at %d, want 0", at)
	}
	w.fs.setFree(nil)
	w.m.background.watchSpace(w.m.now())
	if at := w.mustProduce("t", 0, sequenced(7, 0, 1, 1)); at != 1 {
		t.Errorf("the batch that was refused is at %d the next time, want 1: its sequence number counts as used", at)
	}
}

// TestTheFileSystemIsNotAskedForEachRequest but again whenever half of what was free may be gone, so that the reserve is found
// touched in time.
func TestTheFileSystemIsNotAskedForEachRequest(t *testing.T) {
	const start, reserve, batches = 64 << 20, 16 << 20, 64 << 10
	w := newWorld(t, "raftsman.log.dir.reserve.bytes=16777216")
	w.topic("t", 1)
	var asked, written atomic.Int64
	w.fs.setFree(func() (int64, int64, error) {
		asked.Add(1)
		return 1 << 40, start - written.Load(), nil
	})
	w.m.background.watchSpace(w.m.now())
	value := strings.Repeat("x", batches)
	produces := 0
	for written.Load() < start {
		batch := plain(value)
		got := w.produce("t", 0, batch)
		if got.Err == kafka.KafkaStorageError {
			break
		}
		produces++
		written.Add(int64(len(batch)))
	}
	left := start - written.Load()
	if left >= reserve || left < reserve-3*batches {
		t.Errorf("refused with %d bytes free, a reserve of %d and batches of %d", left, reserve, batches)
	}
	if n := asked.Load(); n > 40 {
		t.Errorf("the file system was asked %d times for %d produces", n, produces)
	}
	before := asked.Load()
	for range 100 {
		w.produce("t", 0, plain(value))
	}
	if n := asked.Load() - before; n > 0 {
		t.Errorf("the file system was asked %d times for 100 produces that were refused", n)
	}
}
