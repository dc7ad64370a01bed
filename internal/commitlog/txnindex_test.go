package commitlog

import (
	"bytes"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// appendNoted appends a batch and notes what it completes, as a partition does.
func appendNoted(t testing.TB, l *Log, b record.Batch) {
	t.Helper()
	if _, err := l.Append(b, 0, testStart); err != nil {
		t.Fatalf("append: %v", err)
	}
	if done, ok := l.Producers().Apply(b, testStart); ok {
		l.NoteCompleted(done)
	}
}

// transactional has one record with a key.
func transactional(id kafka.ProducerID, sequence kafka.Sequence) record.Batch {
	b := record.Builder{Producer: &record.Producer{ID: id, BaseSequence: sequence}, Transactional: true}
	b.Add([]byte{byte(id)}, make([]byte, 50), nil, testStart.UnixMilli())
	return b.Build()
}

func abortOf(id kafka.ProducerID) record.Batch {
	return record.EndTransaction(id, 0, record.Marker{CoordinatorEpoch: 1}, testStart.UnixMilli())
}

// TestCompactionLeavesOldReadersTheirAbortedTransactions: a reader takes records of a segment, compaction drops the aborted ones
// and what tells of them, and only then the reader asks which are aborted.
func TestCompactionLeavesOldReadersTheirAbortedTransactions(t *testing.T) {
	c := smallConfig()
	c.Compact, c.Delete, c.SegmentBytes, c.DeleteRetentionMs = true, false, 1000, 0
	l := newLog(t, faultfs.NewDisk(1), c)
	for i := range 12 {
		id := kafka.ProducerID(1 + i%2)
		appendNoted(t, l, transactional(id, kafka.Sequence(i/2)))
		appendNoted(t, l, abortOf(id))
	}
	flush(t, l)
	l = reopen(t, l.fs, l, true) // nothing is in memory
	old := *l.segments.Load()
	bound := l.active().base
	compaction := beginCompaction(t, l)
	for done := false; !done; {
		var err error
		if _, done, err = compaction.Step(1 << 20); err != nil {
			t.Fatal(err)
		}
	}
	compaction.Close()
	before, err := l.abortedTxns(old, 0, bound)
	if err != nil || len(before) != int(bound)/2 {
		t.Errorf("of the segments as they were: %+v, %v, want %d", before, err, bound/2)
	}
	chunk, after, err := l.ReadCommitted(0, bound, 1<<20, true)
	if err != nil || len(after) >= len(before) {
		t.Errorf("of what is left: %+v, %v, want fewer than %d", after, err, len(before))
	}
	chunk.Release()
}

func TestDamagedTransactionIndexesAreMadeAnew(t *testing.T) {
	disk := faultfs.NewDisk(1)
	l := newLog(t, disk, smallConfig())
	for i := range 30 {
		appendNoted(t, l, transactional(1, kafka.Sequence(i)))
		appendNoted(t, l, abortOf(1))
	}
	flush(t, l)
	want, err := l.AbortedTxns(0, l.EndOffset())
	if err != nil || len(want) != 30 {
		t.Fatalf("%d aborted transactions, %v, want 30", len(want), err)
	}
	l = reopen(t, disk, l, true)
	name := (*l.segments.Load())[1].name(txnIndexSuffix)
	good, err := vfs.ReadFile(disk, name)
	if err != nil || len(good) < 2*txnEntryBytes {
		t.Fatalf("%d bytes, %v", len(good), err)
	}
	other := AbortedTxn{ProducerID: 1, FirstOffset: 0, LastOffset: 1, LastStable: 2} // of the first segment
	for what, damaged := range map[string][]byte{
		"part of an entry": good[:len(good)-1], "zeros": make([]byte, len(good)), "another version": slices.Concat([]byte{0, 1}, good[2:]),
		"of another segment": slices.Concat(encodeTxnIndex([]AbortedTxn{other}), good), "twice": slices.Concat(good, good), "missing": nil,
	} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if damaged == nil {
			err = disk.Remove(name)
		} else {
			err = vfs.WriteFile(disk, name, damaged)
		}
		if err != nil {
			t.Fatal(err)
		}
		l = reopen(t, disk, l, true)
		got, err := l.AbortedTxns(0, l.EndOffset())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
		if content, err := vfs.ReadFile(disk, name); err != nil || !bytes.Equal(content, good) {
			t.Errorf("%s: the file is %x, %v, was %x", what, content, err, good)
		}
	}
}

// FuzzParseTxnIndex: whatever the bytes are, they are refused or come back as they went.
func FuzzParseTxnIndex(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeTxnIndex([]AbortedTxn{{1, 0, 3, 4}, {2, 1, 5, 1}}))
	f.Add(encodeTxnIndex([]AbortedTxn{{1, 9, 3, 4}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := ParseTxnIndex(content)
		if err == nil && !bytes.Equal(encodeTxnIndex(entries), content) {
			t.Errorf("%x came back as %x", content, encodeTxnIndex(entries))
		}
	})
}

// TestAbortedTransactionsComeAsTheyBegin: the one that begins within another ends first, and is listed behind it.
func TestAbortedTransactionsComeAsTheyBegin(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), smallConfig())
	appendNoted(t, l, transactional(1, 0))
	appendNoted(t, l, transactional(2, 0))
	appendNoted(t, l, abortOf(2))
	appendNoted(t, l, abortOf(1))
	chunk, aborted, err := l.ReadCommitted(0, l.EndOffset(), 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer chunk.Release()
	if len(aborted) != 2 || aborted[0].ProducerID != 1 || aborted[1].ProducerID != 2 || aborted[0].FirstOffset >= aborted[1].FirstOffset {
		t.Fatalf("aborted are %v, want producer 1's, which begins first, and producer 2's", aborted)
	}
}

// TestNoBitOfATransactionIndexHidesAnAbort: each bit of a file is flipped, and who reads what is committed is told of the same
// transactions. One may seem to begin with an earlier one of its producer: that can be told by `raftsman log verify` alone.
func TestNoBitOfATransactionIndexHidesAnAbort(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	for i := range 12 { // two transactions at a time, of which one is aborted first
		appendNoted(t, l, transactional(1, kafka.Sequence(i)))
		appendNoted(t, l, transactional(2, kafka.Sequence(i)))
		appendNoted(t, l, abortOf(kafka.ProducerID(1+i%2)))
		appendNoted(t, l, abortOf(kafka.ProducerID(2-i%2)))
	}
	flush(t, l)
	told := func() (all [][]AbortedTxn) {
		for from := kafka.Offset(0); from < l.EndOffset(); from++ {
			chunk, aborted, err := l.ReadCommitted(from, l.EndOffset(), 300, true)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, aborted)
			chunk.Release()
		}
		return all
	}
	covers := func(got, want AbortedTxn) bool {
		return got.ProducerID == want.ProducerID && got.LastOffset == want.LastOffset && got.FirstOffset <= want.FirstOffset
	}
	want := told()
	l = reopen(t, fs, l, true)
	name := (*l.segments.Load())[1].name(txnIndexSuffix)
	good, err := vfs.ReadFile(fs, name)
	if err != nil || len(good) < 3*txnEntryBytes {
		t.Fatalf("%d bytes, %v", len(good), err)
	}
	for bit := range 8 * len(good) {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		damaged := slices.Clone(good)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := vfs.WriteFile(fs, name, damaged); err != nil {
			t.Fatal(err)
		}
		l = reopen(t, fs, l, true)
		for i, got := range told() {
			for _, a := range want[i] {
				if !slices.ContainsFunc(got, func(g AbortedTxn) bool { return covers(g, a) }) {
					t.Fatalf("bit %d, of byte %d of entry %d: from %d on %v, want %v", bit, bit/8%txnEntryBytes, bit/8/txnEntryBytes, i, got, want[i])
				}
			}
		}
	}
}

func commitOf(id kafka.ProducerID) record.Batch {
	return record.EndTransaction(id, 0, record.Marker{Commit: true, CoordinatorEpoch: 1}, testStart.UnixMilli())
}
