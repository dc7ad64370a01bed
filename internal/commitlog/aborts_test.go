package commitlog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// abortedLog is a log of several segments with transactions that are aborted, each second one, some of them in a later segment than
// they begin in. Its high watermark is the end.
func abortedLog(t *testing.T, c Config) *Log {
	t.Helper()
	l := newLog(t, vfs.NewMemory(), c)
	appendNoted(t, l, transactional(9, 0)) // open until the end
	for i := range 20 {
		b := record.Builder{Producer: &record.Producer{ID: 1, BaseSequence: kafka.Sequence(i)}, Transactional: true}
		b.Add([]byte{1, byte(i)}, make([]byte, 50), nil, testStart.UnixMilli())
		appendNoted(t, l, b.Build())
		appendNoted(t, l, abortOf(1))
		appendNoted(t, l, transactional(2, kafka.Sequence(i)))
		appendNoted(t, l, commitOf(2))
		appendNoted(t, l, abortOf(3)) // of a transaction that has no batch here
	}
	appendNoted(t, l, abortOf(9))
	flush(t, l)
	l.NoteHighWatermark(l.EndOffset())
	return l
}

// TestTheScrubMakesATransactionIndexAnewThatLostEntries: whole ones, so that it looks whole.
func TestTheScrubMakesATransactionIndexAnewThatLostEntries(t *testing.T) {
	for _, compact := range []bool{false, true} {
		c := smallConfig()
		c.SegmentBytes, c.Compact = 1500, compact
		l := abortedLog(t, c)
		want, err := l.AbortedTxns(0, l.EndOffset())
		if err != nil || len(want) != 21 || len(l.Segments()) < 4 {
			t.Fatalf("%d aborted transactions, %v, in %d segments", len(want), err, len(l.Segments()))
		}
		for i := range l.Segments() {
			l = reopen(t, l.fs, l, true)
			name := (*l.segments.Load())[i].name(txnIndexSuffix)
			good, err := vfs.ReadFile(l.fs, name)
			if err != nil || len(good) == 0 {
				t.Fatalf("%s: %d bytes, %v", name, len(good), err)
			}
			for kept := 0; kept < len(good); kept += txnEntryBytes {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if err := vfs.WriteFile(l.fs, name, good[:kept]); err != nil {
					t.Fatal(err)
				}
				l = reopen(t, l.fs, l, true)
				if _, err := scrubbed(l, 700); err != nil {
					t.Fatal(err)
				}
				got, err := l.AbortedTxns(0, l.EndOffset())
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("compact %v, segment %d with %d bytes of %d: %+v, %v, want %+v", compact, i, kept, len(good), got, err, want)
				}
				if notes := strings.Join(l.dir.Notes(), "\n"); !strings.Contains(notes, name) {
					t.Errorf("not told: %s", notes)
				}
				l = reopen(t, l.fs, l, true)
				if now, err := vfs.ReadFile(l.fs, name); err != nil || !slices.Equal(now, good) {
					t.Errorf("segment %d: the file is %x, %v, want %x", i, now, err, good)
				}
			}
		}
		if _, err := scrubbed(l, 1<<20); err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(l.dir.Notes(), "\n"); strings.Contains(notes, "transaction") {
			t.Errorf("of a log that is whole: %s", notes)
		}
	}
}

// TestCompactionKeepsNoAbortedRecordForWantOfAnEntry: records whose abort no entry told of were taken for committed, and their marker
// went.
func TestCompactionKeepsNoAbortedRecordForWantOfAnEntry(t *testing.T) {
	c := smallConfig()
	c.SegmentBytes, c.Compact, c.Delete, c.DeleteRetentionMs = 1500, true, false, 0
	l := abortedLog(t, c)
	name := (*l.segments.Load())[1].name(txnIndexSuffix)
	l = reopen(t, l.fs, l, true)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(l.fs, name, nil); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l.fs, l, true)
	stale := 0
	for done := false; !done; {
		compaction := beginCompaction(t, l)
		var err error
		for err == nil && !done {
			_, done, err = compaction.Step(1 << 20)
		}
		compaction.Close()
		if stale++; err != nil && (!errors.Is(err, ErrCompactionStale) || stale > 2) {
			t.Fatal(err)
		}
	}
	last := (*l.segments.Load())[len(l.Segments())-1].base
	for b, err := range l.Batches(0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.ProducerID() == 1 && !b.IsControl() && b.Count() > 0 && b.LastOffset() < last {
			t.Errorf("offset %d was aborted and is there", b.BaseOffset())
		}
	}
}

// openHook does something once, when a file is opened whose name ends like that.
type openHook struct {
	vfs.FS
	suffix string
	do     func()
}

func (h *openHook) Open(name string, flag int) (vfs.File, error) {
	if do := h.do; do != nil && strings.HasSuffix(name, h.suffix) {
		h.do = nil
		do()
	}
	return h.FS.Open(name, flag)
}

// TestTheScrubPassesOverASegmentThatIsCutWhileItsIndexIsRead: its file is another's then, which is neither damage nor a disk that failed.
func TestTheScrubPassesOverASegmentThatIsCutWhileItsIndexIsRead(t *testing.T) {
	c := smallConfig()
	c.SegmentBytes = 1500
	for i := range 3 {
		l := abortedLog(t, c)
		l = reopen(t, l.fs, l, true)
		s := (*l.segments.Load())[i]
		hook := &openHook{FS: l.fs, suffix: s.name(txnIndexSuffix), do: func() {
			if err := l.Truncate(s.base); err != nil {
				t.Errorf("truncate to %d: %v", s.base, err)
			}
		}}
		l.fs, s.fs = hook, hook
		if _, err := scrubbed(l, 700); err != nil {
			t.Errorf("segment %d: %v", i, err)
		}
		if hook.do != nil {
			t.Errorf("segment %d: its transaction index was not read", i)
		}
	}
}
