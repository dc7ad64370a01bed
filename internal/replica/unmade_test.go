package replica

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestPartitionsAreMadeWhenThereIsRoomAgain: a topic is created on a full disk, or without file descriptors. Its partitions come up by
// themselves, or when somebody asks for them, whatever of them was made before.
func TestPartitionsAreMadeWhenThereIsRoomAgain(t *testing.T) {
	for _, lacks := range []faultfs.Rule{
		{Op: faultfs.OpMkdir, Name: "/t-", Err: syscall.ENOSPC},
		{Op: faultfs.OpOpen, Name: "partition.metadata", Err: syscall.EMFILE},
		{Op: faultfs.OpWrite, Name: "partition.metadata", Err: syscall.ENOSPC},
		{Op: faultfs.OpReadDir, Name: "/t-", Err: syscall.ENFILE},
		{Op: faultfs.OpOpen, Name: ".log", Err: syscall.EDQUOT},
	} {
		for _, bySelf := range []bool{true, false} {
			in := faultfs.Inject(vfs.NewMemory())
			w := newWorldOn(t, in)
			lacks.Times = -1
			in.Add(lacks)
			w.topic("t", 3)
			if code := answer(t, w.send("t", 0, -1, plain("x"))).Err; code != kafka.KafkaStorageError {
				t.Errorf("%v: a produce was answered %v, want KAFKA_STORAGE_ERROR", lacks, code)
			}
			if n := w.m.Observe(0, 0).Offline; n != 3 {
				t.Errorf("%v: %d partitions count as offline, want 3", lacks, n)
			}
			if !strings.Contains(w.log.String(), "create t-") {
				t.Errorf("%v: nothing was said:\n%s", lacks, w.log.String())
			}
			if !bySelf {
				w.restart() // a stop is in order, though nothing was made
				if dir := w.m.dirs[0]; dir.failed() || !dir.disk.WasClean() {
					t.Errorf("%v: failed: %v, closed in order: %v", lacks, dir.failed(), dir.disk.WasClean())
				}
			}
			in.Reset()
			if bySelf {
				w.m.background.make(time.Now())
				if n := w.m.Observe(0, 0).Offline; n != 0 || w.sleeping() != 0 || !strings.Contains(w.log.String(), "are there now") {
					t.Errorf("%v: %d partitions are offline, want none, and a line about it:\n%s", lacks, n, w.log.String())
				}
			}
			for i := range int32(3) {
				if base := w.mustProduce("t", i, plain("x")); base != 0 {
					t.Errorf("%v: the first record has offset %d", lacks, base)
				}
			}
			w.restart()
			if got := w.values("t", 2, 0); !slices.Equal(got, []string{"x"}) {
				t.Errorf("%v: after a restart it holds %v", lacks, got)
			}
		}
	}
}

// TestStartWithoutFileDescriptors: nothing is wrong with the disk, whatever could not be opened; after a crash as well as after a stop in
// order.
func TestStartWithoutFileDescriptors(t *testing.T) {
	for _, inOrder := range []bool{true, false} {
		in := faultfs.Inject(vfs.NewMemory())
		w := newWorldOn(t, in)
		w.topic("t", 3)
		w.topic("compacted", 1, "cleanup.policy=compact")
		w.mustProduce("t", 2, plain("a"))
		stopped := context.Background()
		if !inOrder {
			ended, end := context.WithCancel(stopped)
			end()
			stopped = ended
		}
		_ = w.m.Close(stopped)
		w.opened = func() {
			in.Add(faultfs.Rule{Op: faultfs.OpOpen | faultfs.OpReadDir | faultfs.OpSyncDir | faultfs.OpSyncFS, Times: -1, Err: syscall.EMFILE})
		}
		w.start()
		w.opened = nil
		if code := answer(t, w.send("t", 2, -1, plain("b"))).Err; code != kafka.KafkaStorageError {
			t.Errorf("a produce was answered %v, want KAFKA_STORAGE_ERROR", code)
		}
		if w.m.dirs[0].failed() || w.m.dirs[0].disk.Failed() != nil {
			t.Fatalf("the directory went offline:\n%s", w.log.String())
		}
		if !strings.Contains(w.log.String(), "ulimit -n") {
			t.Errorf("the log does not name the limit:\n%s", w.log.String())
		}
		in.Reset()
		w.m.background.make(time.Now())
		for _, topic := range []string{"t", "compacted"} {
			if seen := w.m.Observe(9, 9); seen.Offline > 0 || answer(t, w.send(topic, 0, -1, keyed("k", "v"))).Err != kafka.None {
				t.Errorf("%s does not serve; %d partitions are offline", topic, seen.Offline)
			}
		}
		if base := w.mustProduce("t", 2, plain("b")); base != 1 {
			t.Errorf("the record after the crash has offset %d, want 1", base)
		}
	}
}
