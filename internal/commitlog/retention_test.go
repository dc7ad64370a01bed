package commitlog

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

func names(t testing.TB, fs vfs.FS, suffix string) []string {
	t.Helper()
	entries, err := fs.ReadDir(filepath.Join(testDir, "orders-0"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, suffix) {
			found = append(found, e.Name)
		}
	}
	return found
}

// tenSegments has segments of 10 batches of 3 records, whose times are a second apart from record to record.
func tenSegments(t testing.TB, fs vfs.FS, c Config) *Log {
	t.Helper()
	c.SegmentBytes = 10 * len(batch(3, 0))
	l := newLog(t, fs, c)
	for range 100 {
		appendBatch(t, l, batch(3, testStart.UnixMilli()+1000*int64(l.EndOffset())), 0)
	}
	if n := len(l.Segments()); n != 10 {
		t.Fatalf("%d segments", n)
	}
	return l
}

func TestRetentionBySize(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs = -1
	l := tenSegments(t, fs, c)
	size := l.Size()
	c = l.Config()
	c.RetentionBytes = size/2 + 1 // segments go only as long as that much stays
	l.SetConfig(c)
	removed, err := l.Retain(testStart, l.EndOffset())
	if err != nil || removed != size/10*4 {
		t.Fatalf("Retain() = %d, %v, want 4 segments of %d bytes", removed, err, size/10)
	}
	checkDense(t, l, 120, 300)
	if l.Size() != size-removed {
		t.Errorf("size %d, want %d", l.Size(), size-removed)
	}
}

func TestRetentionByTimeStopsAtTheFirstSegmentThatIsYoung(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs = 60_000
	l := tenSegments(t, fs, c)
	now := testStart.Add(60*time.Second + 59_002*time.Millisecond + time.Millisecond) // offsets up to 59 are over
	if removed, err := l.Retain(now, l.EndOffset()); err != nil || removed == 0 {
		t.Fatalf("Retain() = %d, %v", removed, err)
	}
	checkDense(t, l, 60, 300)
	l = reopen(t, fs, l, true) // now the timestamps come from the time indexes
	if _, err := l.Retain(now.Add(30*time.Second), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 90, 300)
}

func TestRetentionStopsAtTheHighWatermark(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs = 1
	l := tenSegments(t, fs, c)
	if _, err := l.Retain(testStart.Add(time.Hour), 100); err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 90, 300)
}

func TestRetentionOfEverythingRollsTheActiveSegment(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs = 1
	l := tenSegments(t, fs, c)
	if _, err := l.Retain(testStart.Add(time.Hour), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 300, 300)
	if again, err := l.Retain(testStart.Add(2*time.Hour), l.EndOffset()); err != nil || again != 0 || len(l.Segments()) != 1 {
		t.Errorf("Retain() of an empty log = %d, %v, segments %v", again, err, l.Segments())
	}
	fill(t, l, 1, 0)
	checkDense(t, l, 300, 303)
	if err := l.Dir().Sweep(testStart.Add(2 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, fs, l, false)
	checkDense(t, l, 300, 303)
}

func TestDeletedRecordsGoWithTheirSegments(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.Delete, c.Compact = false, true // the start counts for compacted topics too
	l := tenSegments(t, fs, c)
	if err := l.SetStart(95); err != nil {
		t.Fatal(err)
	}
	if err := l.SetStart(50); err != nil || l.StartOffset() != 95 {
		t.Fatalf("the start went back to %d, %v", l.StartOffset(), err)
	}
	wantError(t, l.SetStart(301), kafka.OffsetOutOfRange)
	if _, err := l.Retain(testStart.Add(time.Hour), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 95, 300)
	if first := l.Segments()[0].Base; first != 90 {
		t.Errorf("the first segment begins at %d, want 90", first)
	}
	if err := l.SetStart(300); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Retain(testStart.Add(time.Hour), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 300, 300)
	if err := l.Dir().WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, fs, l, false)
	checkDense(t, l, 300, 300)
}

func TestSweepRenamesAndRemovesAfterTheDelay(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs, c.FileDeleteDelayMs = 1, 10_000
	l := tenSegments(t, fs, c)
	now := testStart.Add(time.Hour)
	if _, err := l.Retain(now, 60); err != nil {
		t.Fatal(err)
	}
	if logs := names(t, fs, ".log"); len(logs) != 10 {
		t.Fatalf("before Sweep: %v", logs)
	}
	sweep := func(at time.Time, deleted, kept int) {
		t.Helper()
		if err := l.Dir().Sweep(at); err != nil {
			t.Fatal(err)
		}
		gone, logs := names(t, fs, ".log.deleted"), names(t, fs, ".log")
		if len(gone) != deleted || len(logs) != kept {
			t.Fatalf("deleted %v, logs %v, want %d and %d", gone, logs, deleted, kept)
		}
	}
	sweep(now, 2, 8)
	sweep(now.Add(9*time.Second), 2, 8)
	sweep(now.Add(10*time.Second), 0, 8)
	if snapshots := names(t, fs, ".snapshot"); slices.Contains(snapshots, offsetName(30, ".snapshot")) {
		t.Errorf("the snapshot of a removed segment is still there: %v", snapshots)
	}
	if left := names(t, fs, ".deleted"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestReaderKeepsASegmentThatRetentionDeletes(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs, c.FileDeleteDelayMs = 1, 0
	l := tenSegments(t, fs, c)
	want := contents(t, l, 1<<20)[0]
	chunk, err := l.Read(0, l.EndOffset(), len(want), true)
	if err != nil {
		t.Fatal(err)
	}
	now := testStart.Add(time.Hour)
	if _, err := l.Retain(now, l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := l.Dir().Sweep(now.Add(time.Duration(i) * time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if left := names(t, fs, offsetName(0, ".log.deleted")); len(left) > 0 {
		t.Fatalf("still there: %v", left)
	}
	got := make([]byte, chunk.Len)
	if _, err := chunk.File.ReadAt(got, chunk.Pos); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read of the chunk after its segment was removed: %v", err)
	}
	chunk.Release()
}

func TestSweepClosesFilesThatNobodyUsed(t *testing.T) {
	fs := vfs.NewMemory()
	l := tenSegments(t, fs, smallConfig())
	open := func() (files int) {
		for _, s := range *l.segments.Load() {
			if s.file != nil {
				files++
			}
		}
		return files
	}
	if open() != 10 {
		t.Fatalf("%d files are open", open())
	}
	for i, want := range []int{10, 10, 10, 10} { // nothing is flushed
		if err := l.Dir().Sweep(testStart); err != nil || open() != want {
			t.Fatalf("sweep %d: %d files are open, want %d, %v", i, open(), want, err)
		}
	}
	flush(t, l)
	for i, want := range []int{10, 0} { // used by the flush, and then not
		if err := l.Dir().Sweep(testStart); err != nil || open() != want {
			t.Fatalf("sweep %d after the flush: %d files are open, want %d, %v", i, open(), want, err)
		}
	}
	checkDense(t, l, 0, 300)
}

func TestTruncate(t *testing.T) {
	for _, to := range []kafka.Offset{0, 3, 30, 89, 90, 91, 92, 93, 299, 300, 400} {
		fs := vfs.NewMemory()
		l := tenSegments(t, fs, smallConfig())
		flush(t, l)
		want := to - to%3
		if to >= 300 {
			want = 300
		}
		if err := l.Truncate(to); err != nil {
			t.Fatalf("truncate to %d: %v", to, err)
		}
		checkDense(t, l, 0, want)
		if l.FlushedOffset() != want {
			t.Errorf("truncated to %d: flushed %d, want %d", to, l.FlushedOffset(), want)
		}
		fill(t, l, 20, 1)
		checkDense(t, l, 0, want+60)
		if epoch, end := l.EpochEnd(0); want > 0 && (epoch != 0 || end != want) {
			t.Errorf("truncated to %d: epoch 0 ends at (%d, %d)", to, epoch, end)
		}
		for _, clean := range []bool{false, true} {
			l = reopen(t, fs, l, clean)
			checkDense(t, l, 0, want+60)
		}
	}
}

func TestTruncateBringsProducersBack(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	for i := range 60 {
		appendBatch(t, l, idempotent(7, kafka.Sequence(i), 1, testStart.UnixMilli()), 0)
	}
	if err := l.Truncate(33); err != nil {
		t.Fatal(err)
	}
	if v, err := l.Producers().Check(idempotent(7, 32, 1, 0), producer.NoGuard); err != nil || !v.Duplicate || v.BaseOffset != 32 {
		t.Errorf("sequence 32 again: %+v, %v", v, err)
	}
	if v, err := l.Producers().Check(idempotent(7, 33, 1, 0), producer.NoGuard); err != nil || v.Duplicate {
		t.Errorf("sequence 33, which was cut off: %+v, %v", v, err)
	}
}

func TestReaderOfTruncatedBytesNeverSeesOthers(t *testing.T) {
	for _, to := range []kafka.Offset{0, 45} {
		l := tenSegments(t, vfs.NewMemory(), smallConfig())
		var chunks []Chunk
		var want [][]byte
		for at := l.StartOffset(); at < l.EndOffset(); {
			chunk, err := l.Read(at, l.EndOffset(), 1<<20, true)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, chunk.Len)
			if _, err := chunk.File.ReadAt(b, chunk.Pos); err != nil {
				t.Fatal(err)
			}
			chunks, want, at = append(chunks, chunk), append(want, b), chunk.Next
		}
		if err := l.Truncate(to); err != nil {
			t.Fatal(err)
		}
		fill(t, l, 100, 9)
		for i := range chunks {
			got := make([]byte, chunks[i].Len)
			n, _ := chunks[i].File.ReadAt(got, chunks[i].Pos)
			if !bytes.Equal(got[:n], want[i][:n]) {
				t.Errorf("truncated to %d: chunk %d has other bytes", to, i)
			}
			chunks[i].Release()
		}
	}
}

func TestResetBeginsAnew(t *testing.T) {
	for _, start := range []kafka.Offset{0, 90, 150, 300, 5000} {
		fs := vfs.NewMemory()
		l := tenSegments(t, fs, smallConfig())
		flush(t, l)
		if err := l.SetStart(200); err != nil {
			t.Fatal(err)
		}
		if err := l.Dir().WriteCheckpoints(); err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(start); err != nil {
			t.Fatal(err)
		}
		checkDense(t, l, start, start)
		if l.LatestEpoch() != kafka.NoEpoch || l.Producers().Len() != 0 || l.FlushedOffset() != start {
			t.Errorf("after Reset(%d): epoch %d, %d producers, flushed %d", start, l.LatestEpoch(), l.Producers().Len(), l.FlushedOffset())
		}
		fill(t, l, 5, 3)
		l = reopen(t, fs, l, false)
		checkDense(t, l, start, start+15)
	}
}

func TestTimeSearchHonoursBoundsAndStart(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), smallConfig())
	at := testStart.UnixMilli()
	for i := range 40 {
		ms := at + int64(i)
		if i == 20 {
			ms += 10_000 // one record from the future
		}
		appendBatch(t, l, batch(1, ms), 2)
	}
	for _, c := range []struct {
		ms    int64
		bound kafka.Offset
		want  kafka.Offset
	}{
		{at, 40, 0},
		{at + 5, 40, 5},
		{at + 20, 40, 20},
		{at + 30, 40, 20},
		{at + 30, 20, -1},
		{at + 10_020, 40, 20},
		{at + 10_021, 40, -1},
		{at + 15, 16, 15},
		{at + 15, 15, -1},
		{math.MinInt64, 40, 0},
	} {
		got, ok, err := l.OffsetForTime(c.ms, c.bound)
		if err != nil || ok != (c.want >= 0) || ok && (got.Offset != c.want || got.Epoch != 2) {
			t.Errorf("OffsetForTime(+%d, %d) = %+v, %v, %v, want %d", c.ms-at, c.bound, got, ok, err, c.want)
		}
	}
	for _, c := range []struct{ bound, want kafka.Offset }{{40, 20}, {21, 20}, {20, 19}, {5, 4}, {0, -1}} {
		got, ok, err := l.MaxTimestamp(c.bound)
		if err != nil || ok != (c.want >= 0) || ok && got.Offset != c.want {
			t.Errorf("MaxTimestamp(%d) = %+v, %v, %v, want %d", c.bound, got, ok, err, c.want)
		}
	}
	if err := l.SetStart(21); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := l.OffsetForTime(at+30, 40); err != nil || !ok || got.Offset != 30 {
		t.Errorf("after the future record was deleted: %+v, %v, %v", got, ok, err)
	}
	if got, ok, err := l.MaxTimestamp(40); err != nil || !ok || got.Offset != 39 {
		t.Errorf("largest after the future record was deleted: %+v, %v, %v", got, ok, err)
	}
}

func TestDeletedPartitionGoesAndMayComeBackUnderItsName(t *testing.T) {
	fs := vfs.NewMemory()
	l := tenSegments(t, fs, smallConfig())
	flush(t, l)
	d := l.Dir()
	if err := d.WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	chunk, err := l.Read(0, 300, 100, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(testTopic); err != nil {
		t.Fatal(err)
	}
	if _, err := chunk.File.ReadAt(make([]byte, chunk.Len), chunk.Pos); err != nil {
		t.Errorf("a reader in the middle: %v", err)
	}
	chunk.Release()
	_, err = l.Read(0, 300, 100, true)
	wantError(t, err, ErrClosed)
	if found, err := d.Partitions(); err != nil || len(found) > 0 {
		t.Errorf("partitions %v, %v", found, err)
	}
	other := kafka.TopicID{1: 1}
	again, err := d.Create(testTopic, other, smallConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, again, 2, 0)
	if _, err := d.Create(testTopic, other, smallConfig(), testStart); err == nil {
		t.Error("created twice")
	}
	for i := range 2 {
		if err := d.Sweep(testStart.Add(time.Duration(i) * time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := fs.ReadDir(testDir)
	if err != nil || slices.ContainsFunc(entries, func(e vfs.Entry) bool { return strings.HasSuffix(e.Name, "-delete") }) {
		t.Errorf("after the delay: %v, %v", entries, err)
	}
	if err := d.Close(false, 0); err != nil {
		t.Fatal(err)
	}
	d = openDir(t, fs)
	again, err = d.Open(testTopic, other, smallConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	checkDense(t, again, 0, 6)
}

func TestPartitionDeletedBesideSweepDoesNotFailTheDirectory(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	c := smallConfig()
	c.RetentionMs = 1
	l := tenSegments(t, fs, c)
	if _, err := l.Retain(testStart.Add(time.Hour), 150); err != nil {
		t.Fatal(err)
	}
	fs.Add(faultfs.Rule{Op: faultfs.OpRename, Name: ".log", Before: func(string) {
		if err := l.Dir().Delete(testTopic); err != nil {
			t.Errorf("delete: %v", err)
		}
	}})
	if err := l.Dir().Sweep(testStart); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if err := l.Dir().Failed(); err != nil {
		t.Error(err)
	}
}

func TestTruncateWithoutAUsableSnapshot(t *testing.T) {
	fs := vfs.NewMemory()
	c := smallConfig()
	c.RetentionMs = 1
	l := tenSegments(t, fs, c)
	if _, err := l.Retain(testStart.Add(time.Hour), 150); err != nil {
		t.Fatal(err)
	}
	if err := l.Dir().Sweep(testStart); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fs, l.snapshotFile(150), []byte("torn")); err != nil {
		t.Fatal(err)
	}
	if err := l.Truncate(160); err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 150, 159)
}
