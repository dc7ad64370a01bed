package commitlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// walkBatches reads the whole log, and calls beside when it has the first batch.
func walkBatches(l *Log, beside func()) (found []kafka.Offset, err error) {
	for b, err := range l.Batches(l.StartOffset()) {
		if err != nil {
			return found, err
		}
		if found = append(found, b.BaseOffset()); len(found) == 1 {
			beside()
		}
	}
	return found, nil
}

// TestBatchesWhereRetentionIsFaster: segments of which a reader has the list are gone when it comes to them.
func TestBatchesWhereRetentionIsFaster(t *testing.T) {
	c := smallConfig()
	c.RetentionMs, c.FileDeleteDelayMs = -1, 0
	l := tenSegments(t, vfs.NewMemory(), c)
	found, err := walkBatches(l, func() {
		if err := l.SetStart(120); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retain(testStart, l.EndOffset()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Dir().Sweep(testStart); err != nil {
				t.Fatal(err)
			}
		}
	})
	if wantError(t, err, kafka.OffsetOutOfRange); len(found) == 0 {
		t.Error("nothing was read before")
	}
}

// TestBatchesWhereTheLogIsDeleted: its topic goes while a coordinator loads it.
func TestBatchesWhereTheLogIsDeleted(t *testing.T) {
	l := tenSegments(t, vfs.NewMemory(), smallConfig())
	_, err := walkBatches(l, func() {
		if err := l.Dir().Delete(testTopic); err != nil {
			t.Fatal(err)
		}
	})
	wantError(t, err, ErrClosed)
}

// TestBatchesBesideCompaction: what a reader comes to after two compactions, whose old files are removed already, is what they have left.
func TestBatchesBesideCompaction(t *testing.T) {
	c := smallConfig()
	c.SegmentBytes, c.Compact, c.Delete, c.FileDeleteDelayMs = 500, true, false, 0
	l := newLog(t, vfs.NewMemory(), c)
	more := func() {
		for i := range 30 {
			var b record.Builder
			b.Add(fmt.Appendf(nil, "key %d", i%7), nil, nil, testStart.UnixMilli())
			appendBatch(t, l, b.Build(), 0)
		}
		flush(t, l)
	}
	more()
	end := l.EndOffset()
	var after []kafka.Offset
	found, err := walkBatches(l, func() {
		for range 2 {
			more()
			found, err := l.Cleanable(testStart, l.EndOffset())
			if err != nil || found.DirtyBytes == 0 {
				t.Fatalf("%+v, %v: nothing is dirty", found, err)
			}
			compaction, err := l.Compact(found, CompactOptions{MapBytes: 1 << 16, MapLoadFactor: 0.9, BufferBytes: 1000}, testStart)
			if err != nil {
				t.Fatal(err)
			}
			for done := false; !done; {
				if _, done, err = compaction.Step(1 << 20); err != nil {
					t.Fatal(err)
				}
			}
			compaction.Close()
			if err := l.Dir().Sweep(testStart.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		for b, err := range l.Batches(0) {
			if err != nil {
				t.Fatal(err)
			}
			if b.BaseOffset() < end {
				after = append(after, b.BaseOffset())
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[kafka.Offset]bool)
	for i, offset := range found {
		if seen[offset] = true; i > 0 && offset <= found[i-1] || offset >= end {
			t.Errorf("offset %d after %d, the end was %d", offset, found[max(i-1, 0)], end)
		}
	}
	for _, offset := range after {
		if !seen[offset] {
			t.Errorf("offset %d is in the log and was passed over", offset)
		}
	}
	if len(found) >= 30 {
		t.Errorf("%d batches: the reader did not come to compacted segments", len(found))
	}
}
