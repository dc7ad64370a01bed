package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestMovesSurvivePowerCuts moves partitions between two log directories under load and cuts the power at a random operation.
// After each cut every acknowledged record is there, in order and once, in one directory or the other.
func TestMovesSurvivePowerCuts(t *testing.T) { eachCrashSeed(t, surviveCutsWhileMoving) }

// newWorldOfTwo is a world with two log directories on a file system, which the test closes.
func newWorldOfTwo(t testing.TB, fs vfs.FS) *world {
	t.Helper()
	w := &world{
		TB: t, fs: &gateFS{FS: fs}, props: map[string]string{"node.id": "1"}, log: &lockedBuffer{},
		dirs: []string{"/data0", "/data1"}, falls: make(chan struct{}, 16),
	}
	for _, dir := range w.dirs {
		w.formatDir(dir)
	}
	w.image = meta.NewImage("test")
	w.start()
	return w
}

// moveAbout moves partitions at random until done is closed.
func (w *world) moveAbout(random *rand.Rand, done <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			tp := kafka.TopicPartition{Topic: "t", Partition: random.Int32N(crashPartitions)}
			_ = w.m.MoveReplica(tp, w.dirs[random.IntN(2)]) // a move that runs is turned round, or goes on
		}
	}
}

func surviveCutsWhileMoving(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	disk := faultfs.NewDisk(seed)
	w := newWorldOfTwo(t, disk)
	id := w.topic("t", crashPartitions, "segment.bytes=1048576")
	var ledgers [crashPartitions]ledger
	for round := range 3 {
		disk.CutAt(random.IntN(500))
		var moving sync.WaitGroup
		done := make(chan struct{})
		moving.Go(func() { w.moveAbout(rand.New(rand.NewPCG(seed, uint64(round))), done) })
		w.produceAndReadUntilCut(&ledgers)
		close(done)
		moving.Wait()
		_ = w.m.Close(context.Background())
		disk.Restart()
		w.epochs++
		w.reopen(id)
		for i := range ledgers {
			w.checkLedger(round, int32(i), &ledgers[i])
		}
	}
	_ = w.m.Close(context.Background())
}

// TestADiskThatFailsUnderAMove: whatever operation fails, for lack of room or altogether, the partition is whole in the directory
// that it left, or in the one that it went to, and serves unless its own directory is offline.
func TestADiskThatFailsUnderAMove(t *testing.T) {
	tp := kafka.TopicPartition{Topic: "t"}
	for _, cause := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		moved, stayed := 0, 0
		for n := 0; moved < 3 && n < 200; n++ {
			injector := faultfs.Inject(vfs.NewMemory())
			w := newWorldOfTwo(t, injector)
			w.topic("t", 1)
			for i := range 5 {
				w.mustProduce("t", 0, plain(fmt.Sprint(i)))
			}
			injector.Add(faultfs.Rule{Op: faultfs.OpChange, Name: "/data1", After: n, Err: cause})
			if err := w.m.MoveReplica(tp, "/data1"); err != nil {
				t.Fatal(err)
			}
			w.waitFor(fmt.Sprintf("the end of a move with %v at change %d", cause, n), func() bool { return len(w.m.moves.list()) == 0 })
			switch here, _ := w.place(tp); here {
			case "/data1":
				moved++
			case "/data0":
				stayed++
			default:
				if len(w.fallen()) == 0 {
					t.Fatalf("%v at change %d: the partition is nowhere\n%s", cause, n, w.log.String())
				}
			}
			serves := w.produce("t", 0, plain("5")).Err == kafka.None
			serves = serves || w.produce("t", 0, plain("5")).Err == kafka.None // where the fault hit the produce itself
			if !serves {                                                       // who is refused may know it before the failure is told
				w.waitFor(fmt.Sprintf("a directory is offline, as nothing is served with %v at change %d", cause, n), func() bool { return len(w.fallen()) > 0 })
			}
			if cause == syscall.EIO && len(w.fallen()) > 1 {
				t.Fatalf("%v at change %d: serves %v, %v offline\n%s", cause, n, serves, w.fallen(), w.log.String())
			}
			_ = w.m.Close(context.Background())
			injector.Reset()
			w.start()
			if got := w.values("t", 0, 0); len(got) < 5 || serves && len(got) != 6 {
				t.Fatalf("%v at change %d: %v after a restart\n%s", cause, n, got, w.log.String())
			}
			_ = w.m.Close(context.Background())
		}
		if moved < 3 || stayed < 3 {
			t.Errorf("%v: %d moves went through and %d did not: the faults come at the wrong time", cause, moved, stayed)
		}
	}
}
