package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestAReaderOfOldSegmentsNeverFindsOthers: who looked at the log before compactions, and opens a file only now, finds the bytes
// that it looked for, or is told to look again. Two segments of one base, gone one after the other, have one name.
func TestAReaderOfOldSegmentsNeverFindsOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	c := smallConfig()
	c.SegmentBytes, c.Compact, c.Delete, c.FileDeleteDelayMs = 500, true, false, 60_000
	l := newLog(t, vfs.NewMemory(), c)
	old := map[*segment][]byte{}
	note := func() {
		for _, s := range (*l.segments.Load())[:len(*l.segments.Load())-1] {
			if old[s] == nil {
				content, err := vfs.ReadFile(l.fs, s.name(logSuffix))
				if err != nil {
					t.Fatal(err)
				}
				old[s] = content
			}
		}
	}
	refused := 0
	for round := range 30 {
		for range 20 {
			var b record.Builder
			b.Add(fmt.Appendf(nil, "key %d", r.IntN(30)), make([]byte, r.IntN(60)), nil, testStart.UnixMilli())
			appendBatch(t, l, b.Build(), 0)
		}
		flush(t, l)
		note()
		c.SegmentBytes = 500 + 100*round // ever more segments become one
		l.SetConfig(c)
		found, err := l.Cleanable(testStart, l.EndOffset())
		if err != nil {
			t.Fatal(err)
		}
		if found.DirtyBytes == 0 {
			continue
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
		note()
		if round%4 == 3 {
			if err := l.sweep(testStart.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		for s, want := range old {
			file, err := s.acquire()
			if errors.Is(err, errRetired) || vfs.IsNotExist(err) {
				refused++
				delete(old, s)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, s.size.Load())
			if _, err := file.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("round %d: the segment at %d had %d bytes, a reader finds others: %v", round, s.base, len(want), err)
			}
			s.mu.Lock()
			s.file = nil // as after a while without readers; the file is memory
			file.users--
			s.mu.Unlock()
		}
	}
	if refused == 0 {
		t.Fatal("no reader was ever told to look again: the test is not about what it says")
	}
}
