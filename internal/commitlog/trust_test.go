package commitlog

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/vfs"
)

// indexedLog is a closed log of some segments, with timestamps that sometimes go back.
func indexedLog(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs = 50_000
	l := newLog(t, fs, c)
	for i := range int64(100) {
		appendBatch(t, l, batch(3, testStart.UnixMilli()+i*1000-i%7*900), 0)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Dir().Close(true, 5); err != nil {
		t.Fatal(err)
	}
	return fs
}

// answers are what the log says to all that one finds by an index, and what retention leaves.
func answers(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	c := smallConfig()
	c.Delete, c.RetentionMs = true, 50_000
	l, err := openDir(t, fs).Open(testTopic, testID, c, testStart)
	if err != nil {
		return []string{fmt.Sprintf("open: %v", err)}
	}
	var all []string
	for offset := l.StartOffset(); offset < l.EndOffset(); offset += 2 {
		for _, bytes := range []int{1, 700, math.MaxInt32} {
			chunk, err := l.Read(offset, l.EndOffset(), bytes, true)
			if err != nil {
				return append(all, fmt.Sprintf("read %d: %v", offset, err))
			}
			all = append(all, fmt.Sprintf("read %d, %d bytes: %d at %d, next %d", offset, bytes, chunk.Len, chunk.Pos, chunk.Next))
			chunk.Release()
		}
	}
	for ms := int64(-1000); ms < 101_000; ms += 700 {
		found, ok, err := l.OffsetForTime(testStart.UnixMilli()+ms, l.EndOffset())
		all = append(all, fmt.Sprintf("at %d: %+v, %v, %v", ms, found, ok, err))
	}
	found, ok, err := l.MaxTimestamp(l.EndOffset())
	all = append(all, fmt.Sprintf("largest: %+v, %v, %v", found, ok, err))
	if _, err := l.Retain(testStart.Add(100*time.Second), l.EndOffset()); err != nil {
		all = append(all, fmt.Sprintf("retain: %v", err))
	}
	return append(all, fmt.Sprintf("retention leaves [%d, %d)", l.StartOffset(), l.EndOffset()))
}

// TestADamagedIndexChangesNoAnswer: neither a flipped bit nor missing entries.
func TestADamagedIndexChangesNoAnswer(t *testing.T) {
	seed, r := scrubSeed(t)
	want := answers(t, indexedLog(t))
	if last := want[len(want)-1]; last == fmt.Sprintf("retention leaves [%d, %d)", 0, 300) || len(want) < 400 {
		t.Fatalf("%d answers, %s: retention should leave some", len(want), last)
	}
	for i := range 300 {
		fs := indexedLog(t)
		name, what := damageIndex(t, fs, r)
		got := answers(t, fs)
		for j := range want {
			if j >= len(got) || got[j] != want[j] {
				t.Fatalf("damage %d, %s of %s: got %q, want %q\nrepeat: SCRUB_SEED=%d go test -run %s ./internal/commitlog", i, what, name,
					got[min(j, len(got)-1)], want[j], seed, t.Name())
			}
		}
	}
}

// damageIndex flips a bit of an index, or cuts entries off.
func damageIndex(t *testing.T, fs vfs.FS, r *rand.Rand) (name, what string) {
	t.Helper()
	folder := filepath.Join(testDir, testTopic.String())
	entries, err := fs.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, indexSuffix) || strings.HasSuffix(e.Name, timeIndexSuffix) {
			names = append(names, filepath.Join(folder, e.Name))
		}
	}
	name = names[r.IntN(len(names))]
	content, err := vfs.ReadFile(fs, name)
	if err != nil || len(content) == 0 {
		t.Fatalf("%s has %d bytes, %v", name, len(content), err)
	}
	if r.IntN(4) == 0 {
		keep := r.IntN(len(content))
		content, what = content[:keep], fmt.Sprintf("all but %d bytes", keep)
	} else {
		bit := r.IntN(8 * len(content))
		content[bit/8] ^= 1 << (bit % 8)
		what = fmt.Sprintf("bit %d", bit)
	}
	if err := vfs.WriteFile(fs, name, content); err != nil {
		t.Fatal(err)
	}
	return name, what
}

// TestAnOffsetThatIsNotThereIsNotPassedOver: a reader that comes to a missing segment is told, in a log that was never compacted.
func TestAnOffsetThatIsNotThereIsNotPassedOver(t *testing.T) {
	fs := indexedLog(t)
	d := openDir(t, fs)
	l, err := d.Open(testTopic, testID, smallConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	base := l.Segments()[2].Base
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range segmentSuffixes {
		if err := fs.Remove(filepath.Join(testDir, testTopic.String(), offsetName(base, suffix))); err != nil && !vfs.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, compact := range []bool{false, true} {
		c := smallConfig()
		c.Compact = compact
		if l, err = d.Open(testTopic, testID, c, testStart); err != nil {
			t.Fatal(err)
		}
		chunk, readErr := l.Read(base, l.EndOffset(), 1000, true)
		chunk.Release()
		var batchErr error
		for _, err := range l.Batches(0) {
			batchErr = err
		}
		_, scrubErr := scrubbed(l, 1000)
		for what, err := range map[string]error{"read": readErr, "batches": batchErr, "scrub": scrubErr} {
			if isCorrupt(err) == compact {
				t.Errorf("%s, compacted %v: %v", what, compact, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
