package commitlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestCompactionLeavesWhatKafkaLeft compacts a log that Apache Kafka 4.4 wrote, and compares it with what Kafka's own cleaner made of
// it: keys in every codec, tombstones, idempotent producers, transactions committed and aborted.
func TestCompactionLeavesWhatKafkaLeft(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	folder := filepath.Join(testDir, testTopic.String())
	if err := fs.MkdirAll(folder); err != nil {
		t.Fatal(err)
	}
	for name, content := range recorded(t, "before") {
		if err := vfs.WriteFile(fs, filepath.Join(folder, name), content); err != nil {
			t.Fatal(err)
		}
	}
	c := DefaultConfig()
	c.SegmentBytes, c.Compact, c.Delete, c.DeleteRetentionMs = 4000, true, false, 0
	l, err := openDir(t, fs).Open(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	found, err := l.Cleanable(testStart, l.Producers().LastStable(l.EndOffset()))
	if err != nil {
		t.Fatal(err)
	}
	cleaning, err := l.Compact(found, CompactOptions{MapBytes: 1 << 20, MapLoadFactor: 0.9, BufferBytes: 10_000, Producers: l.Producers().Lasts()}, testStart)
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if _, done, err = cleaning.Step(1 << 20); err != nil {
			t.Fatal(err)
		}
	}
	var got, want []string
	for _, b := range contents(t, l, 1000) {
		got = append(got, told(t, b)...)
	}
	files := recorded(t, "after")
	var names []string
	for name := range files {
		if strings.HasSuffix(name, logSuffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for rest := files[name]; len(rest) > 0; {
			b, after, err := record.Split(rest)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want = append(want, told(t, b)...)
			rest = after
		}
	}
	if len(want) < 100 {
		t.Fatalf("only %d lines to compare with", len(want))
	}
	for i := range max(len(got), len(want)) {
		if lineAt(got, i) != lineAt(want, i) {
			t.Fatalf("line %d of %d and %d:\ngot  %s\nwant %s", i, len(got), len(want), lineAt(got, i), lineAt(want, i))
		}
	}
}

func recorded(t *testing.T, when string) map[string][]byte {
	t.Helper()
	dir := filepath.Join("testdata/compacted", when)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// told is a batch and its records, but for when they were cleaned.
func told(t *testing.T, b record.Batch) []string {
	t.Helper()
	lines := []string{fmt.Sprintf("%d-%d of producer %d/%d/%d, attributes %x, %d records, up to time %d", b.BaseOffset(), b.LastOffset(),
		b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Attributes(), b.Count(), b.MaxTimestampMs())}
	for r, err := range b.Records(1 << 20) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%d at %d: %q %q %v %v", r.Offset, r.TimestampMs, r.Key, r.Value, r.Value == nil, r.Headers))
	}
	return lines
}
