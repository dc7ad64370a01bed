package commitlog

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestAtRestRetentionIsNotMissed: whatever a log holds, its folder tells of retention no later than the log itself does.
func TestAtRestRetentionIsNotMissed(t *testing.T) {
	early := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		disk := faultfs.NewDisk(seed)
		c := smallConfig()
		c.RetentionMs, c.RetentionBytes = int64(r.IntN(3000)-500), int64(r.IntN(8000)-2000)
		c.RetentionMs, c.RetentionBytes = max(c.RetentionMs, -1), max(c.RetentionBytes, -1)
		c.Delete = r.IntN(8) > 0
		l := newLog(t, disk, c)
		base := testStart.UnixMilli()
		for range r.IntN(40) {
			appendBatch(t, l, batch(1+r.IntN(3), base+int64(r.IntN(5000))), 0)
		}
		if r.IntN(3) == 0 {
			if err := l.SetStart(kafka.Offset(r.Int64N(int64(l.EndOffset()) + 1))); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Dir().Close(true, 1); err != nil {
			t.Fatal(err)
		}
		d := openDir(t, disk)
		if r.IntN(10) == 0 {
			_ = disk.Remove(l.active().name(timeIndexSuffix))
		}
		before := disk.Ops()
		due, err := d.RetentionDueMs(testTopic, c)
		if err != nil {
			t.Fatal(err)
		}
		size, err := d.SizeAtRest(testTopic)
		if err != nil || size != l.Size() {
			t.Errorf("seed %d: %d bytes at rest (%v), want %d", seed, size, err, l.Size())
		}
		if n := disk.Ops(); n != before {
			t.Fatalf("seed %d: a look changed something", seed)
		}
		now := base + r.Int64N(9000)
		again, err := d.Open(testTopic, testID, c, testStart)
		if err != nil {
			t.Fatal(err)
		}
		segments := len(again.Segments())
		if _, err := again.Retain(time.UnixMilli(now), again.EndOffset()); err != nil {
			t.Fatal(err)
		}
		gone := len(again.Segments()) < segments || again.Segments()[0].Base != l.Segments()[0].Base
		if gone && now <= due {
			t.Errorf("seed %d: retention removed something at %d, want nothing before %d", seed, now-base, due-base)
		}
		if !gone && now > due && due != 0 {
			t.Errorf("seed %d: retention removed nothing at %d, and was said to after %d", seed, now-base, due-base)
		}
		if !gone && due > 0 && due < math.MaxInt64 {
			early++
		}
	}
	if early == 0 {
		t.Error("no log waited for its time")
	}
}

func TestAtRestWithoutAFolder(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	if _, err := openDir(t, fs).RetentionDueMs(testTopic, DefaultConfig()); !vfs.IsNotExist(err) {
		t.Errorf("error %v, want one that says that there is none", err)
	}
}
