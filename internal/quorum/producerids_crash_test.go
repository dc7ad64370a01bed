package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// crashesOfOneDirectory is how many power cuts a directory goes through before the next one is begun.
const crashesOfOneDirectory = 1000

// TestPowerCutsHandNoProducerIDOutTwice lets several take producer ids at once while the power is cut at a random operation, also of the
// start and of the first format: no id is ever handed out a second time. CRASH_SEEDS=1000 cuts it so often; CRASH_SEED=n begins
// with that seed.
func TestPowerCutsHandNoProducerIDOutTwice(t *testing.T) {
	seed, crashes := uint64(time.Now().UnixNano())%1_000_000, 1000
	if text := os.Getenv("CRASH_SEEDS"); text != "" {
		crashes, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("CRASH_SEED"); text != "" {
		n, _ := strconv.Atoi(text)
		seed = uint64(n)
	}
	ids, cuts := 0, 0
	for ; crashes > 0; crashes -= crashesOfOneDirectory {
		disk := faultfs.NewDisk(seed)
		taker := &idTaker{host: newHost(t, disk, seed), disk: disk, next: -1}
		taker.options = func(o *Options) { o.SegmentBytes, o.RetentionBytes = 4000, 10_000 }
		for crash := range min(crashes, crashesOfOneDirectory) {
			if err := taker.live(); err != nil {
				t.Fatalf("seed %d, life %d: %v\nagain: CRASH_SEED=%d CRASH_SEEDS=%d go test -run HandNoProducerID ./internal/quorum",
					seed, crash, err, seed, crash+1)
			}
			if disk.Off() {
				cuts++
			}
			disk.Restart()
		}
		ids += taker.taken
		seed++
	}
	t.Logf("%d ids, %d power cuts", ids, cuts)
	if ids == 0 || cuts == 0 {
		t.Errorf("%d ids and %d power cuts show nothing", ids, cuts)
	}
}

// idTaker takes ids over the lives of a directory.
type idTaker struct {
	*host
	disk      *faultfs.Disk
	formatted bool
	next      kafka.ProducerID // ids up to here were handed out, or belong to blocks of lives before
	taken     int
}

func (k *idTaker) live() error {
	k.now = k.now.Add(time.Minute)
	k.disk.CutAt(k.random.IntN([]int{12, 40, 100}[k.random.IntN(3)]))
	err := k.start()
	if err == nil {
		err = k.takeSome()
	}
	if err == nil && k.random.IntN(3) == 0 {
		err = errors.Join(k.node.Snapshot(), k.dir.WriteCheckpoints(), k.dir.Sweep(k.now.Add(time.Hour)))
	}
	if err != nil && !errors.Is(err, faultfs.ErrPowerCut) {
		return err
	}
	return nil
}

func (k *idTaker) start() error {
	if !k.formatted {
		if _, err := commitlog.ReadMetaProperties(k.disk, hostDir); errors.Is(err, commitlog.ErrNotFormatted) {
			if err := k.format(); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		k.formatted = true
	}
	return k.open()
}

// takeSome takes ids of a few blocks, three at a time. What was handed out counts, also when the power went meanwhile.
func (k *idTaker) takeSome() error {
	var (
		mu     sync.Mutex // guards what follows
		all    []kafka.ProducerID
		failed error
		takers sync.WaitGroup
	)
	each := k.random.IntN(meta.ProducerIDBlock)
	for range 3 {
		takers.Go(func() {
			for range each {
				id, err := k.node.NextProducerID(context.Background())
				mu.Lock()
				if err != nil {
					failed = err
					mu.Unlock()
					return
				}
				all = append(all, id)
				mu.Unlock()
			}
		})
	}
	takers.Wait()
	slices.Sort(all)
	for _, id := range all {
		if id <= k.next {
			return fmt.Errorf("producer id %d was handed out twice, or after %d in a life before", id, k.next)
		}
		k.next = id
	}
	k.taken += len(all)
	return failed
}
