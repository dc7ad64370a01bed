package replica

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// killed is a world whose Manager was left in the middle of everything, as by kill -9, with two records in each of three partitions.
func killed(t *testing.T, settings ...string) *world {
	w := newWorld(t)
	w.topic("t", 3, settings...)
	for i := range int32(3) {
		w.mustProduce("t", i, plain("a"))
		w.mustProduce("t", i, plain("b"))
	}
	w.crash()
	return w
}

// crash ends the Manager without a trace of order.
func (w *world) crash() {
	w.Helper()
	if err := w.m.Close(context.Background()); err != nil {
		w.Fatal(err)
	}
	if err := w.fs.Remove(w.dirs[0] + "/" + commitlog.CleanShutdownFile); err != nil {
		w.Fatal(err)
	}
}

// lack lets the system run out of files for the segments of one partition.
func (w *world) lack(folder string) {
	w.fs.setOpen(func(name string) error {
		if strings.Contains(name, folder) && strings.HasSuffix(name, ".log") {
			return syscall.EMFILE
		}
		return nil
	})
}

func TestRecoveryWaitsForWhatTheSystemLacks(t *testing.T) {
	w := killed(t)
	w.lack("/t-1/")
	w.start()
	for _, i := range []int32{0, 2} {
		if got := w.values("t", i, 0); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("partition %d serves %v while another one waits, want a and b", i, got)
		}
	}
	if code := answer(t, w.send("t", 1, -1, plain("c"))).Err; code != kafka.KafkaStorageError {
		t.Errorf("a produce to the one that waits: %v, want KAFKA_STORAGE_ERROR", code)
	}
	if w.m.dirs[0].recovered.Load() {
		t.Error("the directory counts as recovered, though a log was never opened")
	}
	w.fs.setOpen(nil)
	<-w.m.recovery.done
	if !w.m.dirs[0].recovered.Load() {
		t.Error("the directory is not recovered")
	}
	if got := w.values("t", 1, 0); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("it serves %v, want a and b", got)
	}
}

func TestStopInTheMiddleOfRecoveryIsNotInOrder(t *testing.T) {
	w := killed(t)
	w.lack("/t-1/")
	w.start()
	w.mustProduce("t", 0, plain("c"))
	if err := w.m.Close(context.Background()); err != nil {
		t.Errorf("stop in the middle of recovery: %v", err)
	}
	w.fs.setOpen(nil)
	w.start()
	if w.m.dirs[0].disk.WasClean() {
		t.Fatal("the stop left a clean-shutdown marker, though a log was never opened")
	}
	<-w.m.recovery.done
	for i, want := range [][]string{{"a", "b", "c"}, {"a", "b"}, {"a", "b"}} {
		if got := w.values("t", int32(i), 0); !slices.Equal(got, want) {
			t.Errorf("partition %d has %v, want %v", i, got, want)
		}
	}
	w.restart()
	if !w.m.dirs[0].disk.WasClean() {
		t.Error("no clean-shutdown marker after a stop behind recovery")
	}
}

// TestNothingIsCompactedBeforeRecoveryEnds: the journal may still say what the cleaner would take away.
func TestNothingIsCompactedBeforeRecoveryEnds(t *testing.T) {
	w := killed(t, "cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
	w.lack("/t-1/")
	w.start()
	w.mustProduce("t", 0, plain("c"))
	p, err := w.m.find(kafka.TopicID{}, "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	if p.compacts() {
		t.Error("the cleaner may take a log of a directory that is not recovered")
	}
	w.fs.setOpen(nil)
	<-w.m.recovery.done
	if !p.compacts() {
		t.Error("the cleaner may not take it after recovery either")
	}
}

// TestSettingsChangeBetweenOpeningAndWaking: recovery opens a log some time before the partition wakes.
func TestSettingsChangeBetweenOpeningAndWaking(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	w.mustProduce("t", 0, plain("a"))
	w.restart()
	s := slices.Collect(w.m.slots())[0]
	if s.prepare() == nil || s.awakened() != nil {
		t.Fatal("the log is not open, or the partition is awake")
	}
	w.change(configRecord("t", "retention.ms=12345"))
	p, err := s.replica()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.log.Config().RetentionMs; got != 12345 {
		t.Errorf("the log has retention.ms %d, want the new 12345", got)
	}
}

// TestFullDiskAtTheEndOfRecovery: the directory is not taken offline for it, and recovery ends when there is room.
func TestFullDiskAtTheEndOfRecovery(t *testing.T) {
	w := killed(t)
	name := w.dirs[0] + "/" + commitlog.JournalFile
	if err := vfs.WriteFile(w.fs, name, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	full := &fullOnce{FS: w.fs.FS, name: name}
	full.left.Store(1)
	w.fs.FS = full
	w.start()
	<-w.m.recovery.done
	if n := full.left.Load(); n > 0 {
		t.Fatalf("%d refusals are left", n)
	}
	if got := w.fallen(); len(got) != 0 || !w.m.dirs[0].recovered.Load() {
		t.Errorf("offline: %v, recovered: %v\n%s", got, w.m.dirs[0].recovered.Load(), w.log)
	}
	if base := w.mustProduce("t", 0, plain("c")); base != 2 {
		t.Errorf("offset %d, want 2", base)
	}
	if !strings.Contains(w.log.String(), "recovery waits") {
		t.Errorf("nothing told:\n%s", w.log)
	}
}

// fullOnce refuses to remove one file for want of room, so many times.
type fullOnce struct {
	vfs.FS
	name string
	left atomic.Int32
}

func (f *fullOnce) Remove(name string) error {
	if name == f.name && f.left.Add(-1) >= 0 {
		return syscall.ENOSPC
	}
	return f.FS.Remove(name)
}
