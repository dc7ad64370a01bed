package brokertest_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestChaos lets producers, readers, groups and administrators of every kind at one broker, which is restarted under them. What
// was acknowledged must hold: the ledger knows. Three disks: memory, files, and a simulated one whose power is cut.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	for _, disk := range []string{"memory", "files", "power"} {
		t.Run(disk, func(t *testing.T) {
			d := *chaosFor
			switch {
			case d > 0:
			case soaking():
				d = 5 * time.Minute
			case disk == "power":
				d = 2500 * time.Millisecond
			default:
				d = time.Second
			}
			t.Logf("to repeat: go test ./brokertest -run 'TestChaos/%s' -chaos-seed %d -chaos-for %v", disk, seed, d)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			before := usage()
			var fs vfs.FS
			dir := "/data"
			switch disk {
			case "memory":
				fs = vfs.NewMemory()
			case "files":
				fs, dir = vfs.OS(), filepath.Join(t.TempDir(), "data")
			case "power":
				fs = faultfs.NewDisk(seed)
			}
			w := newWorld(t, fs, dir, ctx, seed)
			w.start()
			w.chaos(d, cancel)
			w.calm(before, math.MaxInt64)
		})
	}
}

// chaos runs the workload for some time and then checks everything.
func (w *world) chaos(d time.Duration, over func()) {
	w.Helper()
	stays := w.createTopic("stays", 3)
	trims := w.createTopic("trims", 2, "segment.ms", "100")
	trims.trims = true
	expires := w.createTopic("expires", 2, "segment.ms", "50", "retention.ms", "400", "retention.bytes", "20000", "file.delete.delay.ms", "50")
	expires.expires = true
	for i := range int32(2) {
		w.ledger.expiring(expires.place(i))
	}
	all := []*topic{stays, trims, expires}
	lasting := []*topic{stays, trims}

	w.work("idempotent", func(k *worker) { k.produce(all, -1, true) })
	w.work("leader-only", func(k *worker) { k.produce(all, 1, true) })
	w.work("plain", func(k *worker) { k.produce(all, -1, false) })
	w.work("silent", func(k *worker) { k.produce(all, 0, false) })
	w.work("franz", func(k *worker) { k.franz(lasting, kgo.AllISRAcks()) })
	w.work("franz-plain", func(k *worker) { k.franz(lasting, kgo.LeaderAck(), kgo.DisableIdempotentWrite()) })
	w.work("franz-silent", func(k *worker) { k.franz(lasting, kgo.NoAck(), kgo.DisableIdempotentWrite()) })
	for i := range 2 {
		w.work(fmt.Sprint("reader", i), func(k *worker) { k.read(all) })
	}
	for i, instance := range []*string{nil, nil, kmsg.StringPtr("one")} {
		w.work(fmt.Sprint("member", i), func(k *worker) { k.belong("raw", lasting, instance) })
	}
	for i := range 2 {
		w.work(fmt.Sprint("consumer", i), func(k *worker) { k.consume("franz", lasting) })
		w.work(fmt.Sprint("churn", i), func(k *worker) { k.churn(fmt.Sprint("churn", i)) })
		w.work(fmt.Sprint("keeper", i), func(k *worker) { k.keepOffsets(fmt.Sprint("kept", i), stays) })
	}
	for _, t := range all {
		w.work("admin-"+t.name, func(k *worker) { k.administer(t) })
	}
	w.disturb(d)
	over()
	w.workers.Wait()
	w.settle(all, lasting)
}

// settle checks what is left when nobody writes any more.
func (w *world) settle(all, lasting []*topic) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.ctx = ctx
	w.stop()
	w.start()
	k := w.newWorker("settle", ctx)
	defer k.hangUp()
	for _, group := range []string{"raw", "franz"} {
		k.describes(group, lasting)
	}
	k.catchUp("raw", lasting)
	k.catchUpFranz("franz", lasting)
	records := 0
	for _, t := range all {
		k.alter(t.name, "segment.ms", "604800000") // nothing is to expire while it is read
		for index := range t.partitions.Load() {
			at := t.place(index)
			start, end := k.readAll(t, at)
			records += w.ledger.finish(at, start, end)
		}
	}
	acked, sent := w.ledger.acknowledged()
	w.Logf("%d starts, %d cut short, %d kills, %d power cuts; %d records sent, %d acknowledged, %d known of in the end", w.lives, w.stumbles, w.kills, w.cuts, sent, acked, records)
	k.hangUp()
	w.stop()
}
