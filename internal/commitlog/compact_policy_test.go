package commitlog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestCompactionThatEndsWithItsPolicy: the broker is killed in the middle of a cleaning, and the topic's policy is delete by then.
// Offsets that the cleaning took away between segments are no sign of a torn end.
func TestCompactionThatEndsWithItsPolicy(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.Compact, c.Delete = true, false
	l := newLog(t, fs, c)
	for i := range 200 {
		var b record.Builder
		b.Add(fmt.Appendf(nil, "k%d", i%7), make([]byte, 100), nil, testStart.UnixMilli()+int64(i))
		appendBatch(t, l, b.Build(), 0)
	}
	flush(t, l)
	found, err := l.Cleanable(testStart, l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	cleaning, err := l.Compact(found, CompactOptions{MapBytes: 1 << 20, MapLoadFactor: 0.9, BufferBytes: 1000}, testStart)
	if err != nil {
		t.Fatal(err)
	}
	defer cleaning.Close()
	for steps := 0; cleaning.Stats().NewSegments < 3; steps++ {
		if _, done, err := cleaning.Step(1); err != nil || done || steps > 10_000 {
			t.Fatalf("done %v, %v after %d steps", done, err, steps)
		}
	}
	end, segments := l.EndOffset(), len(l.Segments())
	if err := l.Dir().Close(false, 0); err != nil {
		t.Fatal(err)
	}
	c.Compact, c.Delete = false, true
	l, err = openDir(t, fs).Open(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatal(err)
	}
	if l.EndOffset() != end || len(l.Segments()) != segments {
		t.Errorf("the log ends at %d in %d segments, want %d in %d", l.EndOffset(), len(l.Segments()), end, segments)
	}
	var last kafka.Offset
	for b, err := range l.Batches(l.StartOffset()) {
		if err != nil {
			t.Fatal(err)
		}
		last = b.NextOffset()
	}
	if last != end {
		t.Errorf("the last batch ends at %d, want %d", last, end)
	}
}

// TestWhatIsGoneIsNotCompacted: a power cut in the middle of a reset left an empty log. Records that took the offsets of those that
// had been compacted passed for compacted, so a later cleaning dropped their tombstones and kept what those had deleted.
func TestWhatIsGoneIsNotCompacted(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	fill(t, l, 10, 0)
	flush(t, l)
	d := l.Dir()
	if err := errors.Join(d.WriteCheckpoints(), d.saveCleaned(l, 9, l.cuts.Load())); err != nil {
		t.Fatal(err)
	}
	if err := d.lower(l.partition, 0, 0, 100); err != nil { // a reset to 100 begins
		t.Fatal(err)
	}
	for _, s := range l.Segments() {
		removeSegment(t, fs, l, s.Base)
	}
	for range 2 {
		l = reopen(t, fs, l, false)
		if got := l.CleanedOffset(); got != 0 {
			t.Errorf("compacted up to %d, want 0: all that was compacted is gone", got)
		}
		fill(t, l, 10, 0)
		flush(t, l)
	}
}
