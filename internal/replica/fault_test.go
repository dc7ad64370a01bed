package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestAcknowledgedRecordsSurviveAFaultyDisk lets random operations fail, with an I/O error or for want of room, after some of their
// bytes or late, under producers, readers and the broker's own work, and cuts the power in the end. Producers repeat what was
// refused. What was acknowledged or read is there, in order and once, and nothing is acknowledged in a partition after a flush of it
// has failed.
func TestAcknowledgedRecordsSurviveAFaultyDisk(t *testing.T) { eachCrashSeed(t, surviveFaults) }

// faultyDisk adds random rules, and remembers in which partitions a flush has failed.
type faultyDisk struct {
	*faultfs.Injector
	unflushed [crashPartitions]atomic.Bool
	rules     []string // as they are told when the test fails
}

func surviveFaults(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	disk := faultfs.NewDisk(seed)
	faulty := &faultyDisk{Injector: faultfs.Inject(disk)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(faulty.rules, "\n"))
		}
	})
	w := newWorldOn(t, faulty)
	id := w.topic("t", crashPartitions, "segment.ms=5")
	var ledgers [crashPartitions]ledger
	for round := range 3 {
		for range 1 + random.IntN(4) {
			faulty.add(random)
		}
		for i := range faulty.unflushed {
			faulty.unflushed[i].Store(false)
		}
		var producers, others sync.WaitGroup
		over := make(chan struct{})
		for i := range ledgers {
			producers.Go(func() { w.produceDespiteFaults(int32(i), &ledgers[i], faulty) })
			others.Go(func() { w.readDespiteFaults(int32(i), &ledgers[i], over) })
		}
		others.Go(func() {
			for tick := time.NewTicker(2 * time.Millisecond); ; {
				select {
				case <-tick.C:
					w.m.background.sweep(w.m.now())
					w.m.background.checkpoint(w.m.now())
				case <-over:
					tick.Stop()
					return
				}
			}
		})
		producers.Wait()
		close(over)
		others.Wait()
		disk.CutAt(random.IntN(20)) // some of it is written when the broker stops in order
		_ = w.m.Close(context.Background())
		faulty.Reset()
		disk.Restart()
		w.epochs++
		w.reopen(id)
		for i := range ledgers {
			w.checkLedger(round, int32(i), &ledgers[i])
		}
	}
}

// add makes one kind of operation fail or wait, for a time or for good.
func (f *faultyDisk) add(random *rand.Rand) {
	ops := []faultfs.Op{
		faultfs.OpWrite, faultfs.OpWrite, faultfs.OpSync, faultfs.OpSync, faultfs.OpSyncDir, faultfs.OpSyncFS, faultfs.OpOpen,
		faultfs.OpRename, faultfs.OpRemove, faultfs.OpTruncate, faultfs.OpRead, faultfs.OpChange,
	}
	names := []string{"", "", ".log", "t-1/", "raftsman.journal", "checkpoint", ".index", ".snapshot"}
	r := faultfs.Rule{
		Op: ops[random.IntN(len(ops))], Name: names[random.IntN(len(names))], After: random.IntN(200), Times: 1 + random.IntN(4),
		Written: random.IntN(150),
	}
	if r.Op == faultfs.OpRead {
		r.Name = "index" // an answer that can't be read is the connection's matter
	}
	if random.IntN(5) == 0 {
		r.Times = -1
	}
	switch random.IntN(5) {
	case 0:
		r.Before = func(string) { time.Sleep(time.Millisecond) } // a slow disk
	case 1, 2:
		r.Err = fmt.Errorf("injected: %w", syscall.EIO)
	default:
		r.Err = fmt.Errorf("injected: %w", syscall.ENOSPC)
	}
	if r.Err != nil && r.Op == faultfs.OpSync {
		r.Before = func(name string) {
			for i := range f.unflushed {
				if strings.Contains(name, fmt.Sprintf("/t-%d/", i)) && strings.HasSuffix(name, ".log") {
					f.unflushed[i].Store(true)
				}
			}
		}
	}
	f.Add(r)
	what := "waits"
	if r.Err != nil {
		what = r.Err.Error()
	}
	f.rules = append(f.rules, fmt.Sprintf("operation %#x of %q, the %d. and %d more: %s, %d bytes written", r.Op, r.Name, r.After+1, r.Times-1, what, r.Written))
}

// produceDespiteFaults sends batches, up to three at a time, until many were acknowledged or the disk stays broken.
func (w *world) produceDespiteFaults(index int32, l *ledger, disk *faultyDisk) {
	l.mu.Lock()
	acked := l.acked
	l.mu.Unlock()
	end := acked + 120
	for refused := 0; acked < end && refused < 10; {
		hopeless := disk.unflushed[index].Load()
		inFlight := make([]<-chan ProduceResult, 3)
		if acked == w.base[index] { // from a producer that it does not know a broker takes any sequence, as Kafka does
			inFlight = inFlight[:1]
		}
		for i := range inFlight {
			inFlight[i] = w.send("t", index, -1, w.numbered(index, acked+2*i))
		}
		failed := false
		for i := range inFlight {
			r := answer(w, inFlight[i])
			switch {
			case r.Err != kafka.None:
				failed = true
				continue
			case failed:
				w.Errorf("partition %d: a batch was acknowledged behind one that failed", index)
			case hopeless:
				w.Errorf("partition %d: acknowledged at %d after a flush had failed", index, r.BaseOffset)
			case r.BaseOffset != kafka.Offset(acked):
				w.Errorf("partition %d: acknowledged at %d, expected at %d", index, r.BaseOffset, acked)
			}
			acked += 2
			l.mu.Lock()
			l.acked = acked
			l.mu.Unlock()
		}
		if refused++; !failed {
			refused = 0
		}
	}
}

// readDespiteFaults reads on until the round is over, also after errors.
func (w *world) readDespiteFaults(index int32, l *ledger, over <-chan struct{}) {
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	for {
		select {
		case <-over:
			return
		default:
		}
		got := answer(w, w.readRequest(FetchRequest{
			ReplicaID: -1, MaxWaitMs: 5, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", index, kafka.Offset(seen))},
		}))[0]
		if got.Err != kafka.None || len(got.bytes) == 0 {
			continue
		}
		values, next := decodeValues(w, got.bytes, kafka.Offset(seen))
		for i, v := range values {
			if v != fmt.Sprint(seen+i) {
				w.Errorf("partition %d: read %s at %d", index, v, seen+i)
			}
		}
		seen = int(next)
		l.mu.Lock()
		l.seen = max(l.seen, seen)
		l.mu.Unlock()
	}
}
