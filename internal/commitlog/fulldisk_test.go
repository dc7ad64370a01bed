package commitlog

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

var errNoSpace = fmt.Errorf("injected: %w", syscall.ENOSPC)

// TestSweepOfAFullDiskGoesOn: one log needs room before its segments can go. What others can give back goes all the same, deleted
// topics above all: or nothing would ever make room.
func TestSweepOfAFullDiskGoesOn(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	c := smallConfig()
	c.FileDeleteDelayMs = 0
	d, all := manyLogs(t, in, testDir, 3, 10)
	for _, l := range all {
		l.SetConfig(c)
		fill(t, l, 60, 0)
		flush(t, l)
	}
	short, other, gone := all[0], all[1], all[2]
	for _, l := range []*Log{short, other} {
		if err := l.SetStart(l.EndOffset() - 10); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Retain(testStart, l.EndOffset()); err != nil || n == 0 {
			t.Fatalf("%d bytes removed, %v", n, err)
		}
	}
	if err := d.Delete(gone.Partition()); err != nil {
		t.Fatal(err)
	}
	in.Add(faultfs.Rule{Op: faultfs.OpWrite | faultfs.OpOpen, Name: short.folder + "/", Times: -1, Err: errNoSpace})
	if err := d.Sweep(testStart); !vfs.IsFull(err) {
		t.Errorf("sweep: %v, want that the disk is full", err)
	}
	if err := d.Failed(); err != nil {
		t.Error(err)
	}
	if n := len(other.doomed); n > 0 {
		t.Errorf("%d segments of another log are still there", n)
	}
	if n := len(d.doomed); n > 0 {
		t.Errorf("%d folders of deleted topics are still there", n)
	}
	in.Reset()
	if err := d.Sweep(testStart); err != nil || len(short.doomed) > 0 {
		t.Errorf("with room again: %v, %d segments are still there", err, len(short.doomed))
	}
}

// TestSweepThatEndsEarlyForgetsAndDoublesNothing of what still waits.
func TestSweepThatEndsEarlyForgetsAndDoublesNothing(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	c := smallConfig()
	c.RetentionMs, c.FileDeleteDelayMs = -1, 60_000
	l := tenSegments(t, in, c)
	flush(t, l)
	for i, at := range []time.Duration{0, 30 * time.Second, 61 * time.Second} { // the first is removed in the third sweep
		if err := l.SetStart(kafka.Offset(30 * (i + 1))); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Retain(testStart, l.EndOffset()); err != nil || n == 0 {
			t.Fatalf("%d bytes removed, %v", n, err)
		}
		if i == 2 {
			in.Add(faultfs.Rule{Op: faultfs.OpWrite | faultfs.OpOpen, Name: snapshotSuffix, Times: -1, Err: errNoSpace})
		}
		if err := l.Dir().Sweep(testStart.Add(at)); vfs.IsFull(err) != (i == 2) {
			t.Errorf("sweep %d: %v", i, err)
		}
	}
	if len(l.doomed) != 2 || l.doomed[0].base != 30 || l.doomed[1].base != 60 {
		t.Errorf("%d segments wait, want those from 30 and from 60 on", len(l.doomed))
	}
}

// TestAFolderThatWasNotRemovedIsTriedAgain: RemoveAll opens what it empties, and there may be no descriptor.
func TestAFolderThatWasNotRemovedIsTriedAgain(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	d, all := manyLogs(t, in, testDir, 3, 10)
	for _, l := range all {
		if err := d.Delete(l.Partition()); err != nil {
			t.Fatal(err)
		}
	}
	late := testStart.Add(time.Hour)
	if err := d.Sweep(testStart); err != nil {
		t.Fatal(err)
	}
	in.Add(faultfs.Rule{Op: faultfs.OpRemove, After: 1, Err: errNoFiles})
	if err := d.Sweep(late); !vfs.IsOutOfFiles(err) || len(d.doomed) != 2 {
		t.Errorf("sweep: %v, %d folders left, want 2", err, len(d.doomed))
	}
	if err := d.Sweep(late); err != nil || len(d.doomed) > 0 {
		t.Errorf("sweep again: %v, %d folders left", err, len(d.doomed))
	}
}

// TestRetentionOfEverythingOnAFullDisk: there is no room for the segment that would follow. All but the last go.
func TestRetentionOfEverythingOnAFullDisk(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	c := smallConfig()
	c.RetentionMs = 1
	l := tenSegments(t, in, c)
	flush(t, l)
	in.Add(faultfs.Rule{Op: faultfs.OpOpen, Times: -1, Name: offsetName(l.EndOffset(), ""), Err: errNoSpace})
	late := testStart.Add(time.Hour)
	if n, err := l.Retain(late, l.EndOffset()); err != nil || n == 0 {
		t.Errorf("%d bytes removed, %v", n, err)
	}
	checkDense(t, l, 270, 300)
	if n, err := l.Retain(late, l.EndOffset()); !vfs.IsFull(err) || n != 0 {
		t.Errorf("again: %d bytes removed, %v, want that the disk is full", n, err)
	}
	in.Reset()
	if n, err := l.Retain(late, l.EndOffset()); err != nil || n == 0 {
		t.Errorf("with room again: %d bytes removed, %v", n, err)
	}
	checkDense(t, l, 300, 300)
}

// TestRetentionNeedsNoRoom: not a byte can be written, and segments go all the same: what tells of the producers behind them is there, and
// is flushed before.
func TestRetentionNeedsNoRoom(t *testing.T) {
	disk := faultfs.NewDisk(1)
	in := faultfs.Inject(disk)
	c := smallConfig()
	c.RetentionMs, c.FileDeleteDelayMs = -1, 0
	l := newLog(t, in, c)
	for i := range kafka.Sequence(60) {
		b := idempotent(7, i, 1, testStart.UnixMilli())
		appendBatch(t, l, b, 0)
		l.Producers().Apply(b, testStart)
	}
	flush(t, l)
	if err := l.SetStart(55); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Retain(testStart, l.EndOffset()); err != nil || n == 0 {
		t.Fatalf("%d bytes removed, %v", n, err)
	}
	in.Add(faultfs.Rule{Op: faultfs.OpWrite, Times: -1, Err: errNoSpace})
	if err := l.Dir().Sweep(testStart); err != nil || len(l.doomed) > 0 {
		t.Errorf("sweep: %v, %d segments are still there", err, len(l.doomed))
	}
	first := l.Segments()[0].Base
	in.Reset()
	disk.Restart()
	again, err := openDir(t, disk).Open(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Segments()[0].Base; got != first || again.EndOffset() != 60 {
		t.Errorf("after a power cut the log has [%d, %d), want [%d, 60)", got, again.EndOffset(), first)
	}
	if err := func() error { _, err := again.Producers().Check(idempotent(7, 60, 1, 0), producer.NoGuard); return err }(); err != nil {
		t.Errorf("the producer's next batch: %v", err)
	}
}

// TestCompactionThatCannotBegin to put its result in place, as the folder has no room for another name, changes nothing.
func TestCompactionThatCannotBegin(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	c := smallConfig()
	c.SegmentBytes, c.Compact, c.Delete = 500, true, false
	l := newLog(t, in, c)
	for i := range 40 {
		var b record.Builder
		b.Add(fmt.Appendf(nil, "key %d", i%7), nil, nil, testStart.UnixMilli())
		appendBatch(t, l, b.Build(), 0)
	}
	flush(t, l)
	clean := func() error {
		found, err := l.Cleanable(testStart, l.EndOffset())
		if err != nil {
			t.Fatal(err)
		}
		compaction, err := l.Compact(found, CompactOptions{MapBytes: 1 << 16, MapLoadFactor: 0.9, BufferBytes: 1000}, testStart)
		if err != nil {
			t.Fatal(err)
		}
		defer compaction.Close()
		for done := false; !done && err == nil; {
			_, done, err = compaction.Step(1 << 20)
		}
		return err
	}
	before := l.Size()
	in.Add(faultfs.Rule{Op: faultfs.OpRename, Name: logSuffix + cleanedSuffix, Err: errNoSpace})
	if err := clean(); !vfs.IsFull(err) || l.Dir().Failed() != nil || l.Size() != before {
		t.Errorf("compaction: %v, the directory: %v, %d of %d bytes", err, l.Dir().Failed(), l.Size(), before)
	}
	if left := names(t, in, cleanedSuffix); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if err := clean(); err != nil || l.Size() >= before {
		t.Errorf("with room again: %v, %d of %d bytes", err, l.Size(), before)
	}
}
