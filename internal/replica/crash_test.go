package replica

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

var (
	crashSeed  = flag.Uint64("crash-seed", 0, "run the power-cut test with this seed alone")
	crashSeeds = flag.Int("crash-seeds", 40, "how many seeds the power-cut test runs")
)

// TestAcknowledgedRecordsSurvivePowerCuts produces, reads and cuts the power at a random operation, again and again. After each
// cut every acknowledged record is there, in order and once, and so is everything that a reader has seen.
func TestAcknowledgedRecordsSurvivePowerCuts(t *testing.T) { eachCrashSeed(t, survivePowerCuts) }

// eachCrashSeed runs a test with one seed after the other, until one fails.
func eachCrashSeed(t *testing.T, survive func(t *testing.T, seed uint64)) {
	eachSeed(t, *crashSeeds, survive)
}

func eachSeed(t *testing.T, seeds int, survive func(t *testing.T, seed uint64)) {
	first := rand.Uint64()
	if *crashSeed != 0 {
		first, seeds = *crashSeed, 1
	}
	for i := range seeds {
		seed := first + uint64(i)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { survive(t, seed) }) {
			t.Logf("to repeat: go test ./internal/replica -run '^%s$' -crash-seed %d", t.Name(), seed)
			return
		}
	}
}

// ledger is what producers and readers of one partition know.
type ledger struct {
	mu    sync.Mutex // guards the rest
	acked int        // records of its one producer that were acknowledged, from 0 on
	seen  int        // records that a reader has got
}

const crashPartitions = 3

func survivePowerCuts(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	disk := faultfs.NewDisk(seed)
	w := newWorldOn(t, disk)
	id := w.topic("t", crashPartitions, "segment.bytes=1048576")
	var ledgers [crashPartitions]ledger
	for round := range 3 {
		disk.CutAt(random.IntN(150))
		w.produceAndReadUntilCut(&ledgers)
		_ = w.m.Close(context.Background())
		disk.Restart()
		w.epochs++
		w.reopen(id)
		for i := range ledgers {
			w.checkLedger(round, int32(i), &ledgers[i])
		}
	}
}

// TestRecoverySurvivesPowerCuts cuts the power while partitions are recovered, in use by then or not, again and again before anybody
// looks whether all is there.
func TestRecoverySurvivesPowerCuts(t *testing.T) { eachCrashSeed(t, surviveCutsInRecovery) }

func surviveCutsInRecovery(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	disk := faultfs.NewDisk(seed)
	w := newWorldOn(t, disk)
	id := w.topic("t", crashPartitions, "segment.bytes=1048576")
	var ledgers [crashPartitions]ledger
	for round := range 8 {
		disk.CutAt(random.IntN(150))
		w.produceAndReadUntilCut(&ledgers)
		_ = w.m.Close(context.Background())
		disk.Restart()
		for range random.IntN(3) { // recoveries of which nothing comes but what they have done to the disk
			cut := random.IntN(25)
			w.opened = func() { disk.CutAt(cut) }
			w.epochs++
			w.reopen(id)
			if random.IntN(2) == 0 {
				<-w.m.recovery.done
			}
			_ = w.m.Close(context.Background())
			disk.Restart()
		}
		w.opened = nil
		w.epochs++
		w.reopen(id)
		for i := range ledgers {
			w.checkLedger(round, int32(i), &ledgers[i])
		}
	}
}

func (w *world) produceAndReadUntilCut(ledgers *[crashPartitions]ledger) {
	var running sync.WaitGroup
	for i := range ledgers {
		running.Go(func() { w.produceUntilCut(int32(i), &ledgers[i]) })
		running.Go(func() { w.readUntilCut(int32(i), &ledgers[i]) })
	}
	running.Wait()
}

// newWorldOn is newWorld on another file system.
func newWorldOn(t testing.TB, fs vfs.FS) *world {
	t.Helper()
	w := &world{TB: t, fs: &gateFS{FS: fs}, props: map[string]string{"node.id": "1"}, log: &lockedBuffer{}, dirs: []string{"/data0"}}
	w.formatDir(w.dirs[0])
	w.image = meta.NewImage("test")
	w.start()
	t.Cleanup(func() { _ = w.m.Close(context.Background()) })
	return w
}

// reopen starts again after a crash: the metadata gives every partition a new leader epoch before.
func (w *world) reopen(id kafka.TopicID) {
	w.Helper()
	u := w.image.Update()
	for i := range int32(crashPartitions) {
		r := sysrecord.NewPartitionChangeRecord()
		r.TopicID, r.PartitionID, r.Leader = id, i, testNode
		if err := u.Apply(meta.Entry{Record: r}); err != nil {
			w.Fatal(err)
		}
	}
	w.image = u.Image(w.image.Offset()+1, 1, 0)
	w.start()
}

// produceUntilCut sends batches of an idempotent producer, several at a time, until one fails. What is sent again after a restart
// begins after the last acknowledged record, as a client does.
func (w *world) produceUntilCut(index int32, l *ledger) {
	l.mu.Lock()
	next := l.acked
	l.mu.Unlock()
	var failed atomic.Bool
	for !failed.Load() && next < 5000 {
		var inFlight [3]<-chan ProduceResult
		for i := range inFlight {
			inFlight[i] = w.send("t", index, -1, w.numbered(index, next))
			next += 2
		}
		for i := range inFlight {
			r := answer(w, inFlight[i])
			if r.Err != kafka.None {
				failed.Store(true)
				continue
			}
			if failed.Load() {
				w.Errorf("partition %d: a batch was acknowledged behind one that failed", index)
			}
			l.mu.Lock()
			l.acked = next - 2*(len(inFlight)-i-1)
			l.mu.Unlock()
		}
	}
}

// readUntilCut reads the partition with a long poll until it fails.
func (w *world) readUntilCut(index int32, l *ledger) {
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	for {
		got := answer(w, w.readRequest(FetchRequest{
			ReplicaID: -1, MaxWaitMs: 10_000, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", index, kafka.Offset(seen))},
		}))[0]
		if got.Err != kafka.None || len(got.bytes) == 0 {
			return
		}
		values, next := decodeValues(w, got.bytes, kafka.Offset(seen))
		if next != kafka.Offset(seen+len(values)) {
			w.Errorf("partition %d: %d records from %d to %d", index, len(values), seen, next)
		}
		seen = int(next)
		l.mu.Lock()
		l.seen = seen
		l.mu.Unlock()
	}
}

// checkLedger reads the whole partition after a restart.
func (w *world) checkLedger(round int, index int32, l *ledger) {
	w.Helper()
	got := w.values("t", index, 0)
	if len(got) < l.acked || len(got) < l.seen {
		w.Fatalf("round %d, partition %d: %d records, of which %d were acknowledged and %d were read\n%s", round, index, len(got), l.acked, l.seen, w.log)
	}
	for i, v := range got {
		if v != strconv.Itoa(i) {
			w.Fatalf("round %d, partition %d, offset %d: record %s", round, index, i, v)
		}
	}
	// The producer begins a new epoch behind what is there.
	w.base[index], l.acked, l.seen = len(got), len(got), len(got)
}

// numbered is a batch of two records whose values are their offsets.
func (w *world) numbered(index int32, offset int) []byte {
	b := record.Builder{Producer: &record.Producer{
		ID: kafka.ProducerID(index), Epoch: kafka.ProducerEpoch(w.epochs), BaseSequence: kafka.Sequence(offset - w.base[index]),
	}}
	for i := range 2 {
		b.Add([]byte("k"), []byte(strconv.Itoa(offset+i)), nil, time.Now().UnixMilli())
	}
	return b.Build()
}
