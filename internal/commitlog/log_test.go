package commitlog

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

func TestAppendStampsAndReadReturnsTheSameBytes(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), smallConfig())
	var want [][]byte
	for i := range 100 {
		b := batch(3, testStart.UnixMilli()+int64(i))
		a := appendBatch(t, l, b, 4)
		if a.Base != kafka.Offset(3*i) || a.Last != a.Base+2 || b.BaseOffset() != a.Base || b.LeaderEpoch() != 4 {
			t.Fatalf("append %d: %+v, stamped %d at epoch %d", i, a, b.BaseOffset(), b.LeaderEpoch())
		}
		want = append(want, bytes.Clone(b))
	}
	for _, maxBytes := range []int{0, 1, 130, 131, 500, 1 << 20} {
		got := contents(t, l, maxBytes)
		if len(got) != len(want) {
			t.Fatalf("max %d: %d batches, want %d", maxBytes, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("max %d: batch %d differs", maxBytes, i)
			}
		}
	}
	if n := len(l.Segments()); n < 5 {
		t.Fatalf("%d segments: the test wants several", n)
	}
	checkDense(t, l, 0, 300)
}

func TestReadBounds(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), smallConfig())
	fill(t, l, 200, 0) // more than the tail remembers
	one := len(batch(3, 0))
	for _, c := range []struct {
		name        string
		from, bound kafka.Offset
		max         int
		atLeastOne  bool
		wantBytes   int
		wantNext    kafka.Offset
		wantErr     error
	}{
		{name: "whole batch that holds the offset", from: 1, bound: 3, max: 1 << 20, wantBytes: one, wantNext: 3},
		{name: "bound inside a batch leaves it out", from: 0, bound: 5, max: 1 << 20, wantBytes: one, wantNext: 5},
		{name: "old bound in an old segment", from: 3, bound: 9, max: 1 << 20, wantBytes: 2 * one, wantNext: 9},
		{name: "too small", from: 0, bound: 600, max: one - 1, wantNext: 0},
		{name: "too small but at least one", from: 0, bound: 600, max: one - 1, atLeastOne: true, wantBytes: one, wantNext: 3},
		{name: "exactly two", from: 6, bound: 600, max: 2 * one, wantBytes: 2 * one, wantNext: 12},
		{name: "nearly three", from: 6, bound: 600, max: 3*one - 1, wantBytes: 2 * one, wantNext: 12},
		{name: "at the end", from: 600, bound: 600, max: 100, wantNext: 600},
		{name: "bound below offset", from: 90, bound: 30, max: 100, wantNext: 90},
		{name: "bound beyond the end", from: 597, bound: math.MaxInt64, max: 1000, wantBytes: one, wantNext: 600},
		{name: "beyond the end", from: 601, bound: 700, max: 100, wantErr: kafka.OffsetOutOfRange},
		{name: "negative", from: -1, bound: 700, max: 100, wantErr: kafka.OffsetOutOfRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			chunk, err := l.Read(c.from, c.bound, c.max, c.atLeastOne)
			if c.wantErr != nil {
				wantError(t, err, c.wantErr)
				return
			}
			if err != nil || chunk.Len != c.wantBytes || chunk.Next != c.wantNext {
				t.Fatalf("Read(%d, %d, %d) = %d bytes, next %d, %v, want %d, %d",
					c.from, c.bound, c.max, chunk.Len, chunk.Next, err, c.wantBytes, c.wantNext)
			}
			chunk.Release()
		})
	}
	if err := l.SetStart(10); err != nil {
		t.Fatal(err)
	}
	_, err := l.Read(9, 600, 100, true)
	wantError(t, err, kafka.OffsetOutOfRange)
}

func TestChunkKnowsWhatItsReaderReadsNext(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), smallConfig())
	fill(t, l, 200, 0)
	one := len(batch(3, 0))
	for _, c := range []struct{ max, more int }{{one, 2 * one}, {2 * one, one}, {3 * one, 0}, {1 << 20, 0}} {
		chunk, err := l.Read(0, 9, c.max, true)
		if err != nil || chunk.more != int64(c.more) {
			t.Errorf("%d bytes of three batches of %d: %d are behind the chunk, %v, want %d", c.max, one, chunk.more, err, c.more)
		}
		chunk.Release()
	}
}

func TestRollsByTimeFromTheFirstTimestamp(t *testing.T) {
	c := DefaultConfig()
	c.SegmentMs = 1000
	l := newLog(t, vfs.NewMemory(), c)
	at := testStart.UnixMilli()
	for _, b := range []struct {
		ms   int64
		roll bool
	}{{at, false}, {at + 1000, false}, {at + 1001, true}, {at + 5, false}, {at + 2002, true}} {
		if a := appendBatch(t, l, batch(1, b.ms), 0); a.Rolled != b.roll {
			t.Fatalf("batch at +%d ms: rolled %v, want %v", b.ms-at, a.Rolled, b.roll)
		}
	}
}

func TestJitterRollsEarlierAndTheSameWayAgain(t *testing.T) {
	fs := vfs.NewMemory()
	c := DefaultConfig()
	c.SegmentMs, c.SegmentJitterMs = 1000, 900
	l := newLog(t, fs, c)
	jitter := l.active().jitterMs
	if jitter < 0 || jitter >= 900 {
		t.Fatalf("jitter %d", jitter)
	}
	appendBatch(t, l, batch(1, testStart.UnixMilli()), 0)
	l = reopen(t, fs, l, true)
	if again := l.active().jitterMs; again != jitter {
		t.Fatalf("jitter %d after it was %d", again, jitter)
	}
	a := appendBatch(t, l, batch(1, testStart.UnixMilli()+1000-jitter), 0)
	b := appendBatch(t, l, batch(1, testStart.UnixMilli()+1001-jitter), 0)
	if a.Rolled || !b.Rolled {
		t.Fatalf("rolled %v, %v, want false, true", a.Rolled, b.Rolled)
	}
}

func TestRollsWhenAnIndexIsFull(t *testing.T) {
	c := DefaultConfig()
	c.IndexIntervalBytes, c.IndexBytes = 1, 12*5
	l := newLog(t, vfs.NewMemory(), c)
	for range 40 {
		appendBatch(t, l, batch(1, testStart.UnixMilli()), 0)
	}
	for _, s := range l.Segments()[:3] {
		if n := int(s.Next - s.Base); n != 8 { // 7 entries of 8 bytes: the first batch has none
			t.Fatalf("a segment of %d batches, want 8: %v", n, l.Segments())
		}
	}
}

func TestRollsBeforeOffsetsOverflowTheIndex(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, DefaultConfig())
	appendBatch(t, l, batch(1, 1), 0)
	b := batch(3, 1)
	b.SetBaseOffset(math.MaxInt32 - 1) // its last offset is one too many
	a, err := l.AppendAsFollower(b, testStart)
	if err != nil || !a.Rolled {
		t.Fatalf("append: %+v, %v, want a roll", a, err)
	}
	chunk, err := l.Read(1, l.EndOffset(), 1000, true)
	if err != nil || chunk.Next != math.MaxInt32+2 {
		t.Fatalf("read in the gap: next %d, %v", chunk.Next, err)
	}
	chunk.Release()
}

func TestFollowerRefusesOffsetsThatGoBack(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), DefaultConfig())
	fill(t, l, 2, 0)
	b := batch(1, 1)
	b.SetBaseOffset(5)
	if _, err := l.AppendAsFollower(b, testStart); err == nil || l.EndOffset() != 6 {
		t.Fatalf("append of offset 5 to a log that ends at 6: %v, end %d", err, l.EndOffset())
	}
	b.SetBaseOffset(8)
	b.SetLeaderEpoch(3)
	if _, err := l.AppendAsFollower(b, testStart); err != nil || l.EndOffset() != 9 || l.LatestEpoch() != 3 {
		t.Fatalf("append of offset 8: %v, end %d, epoch %d", err, l.EndOffset(), l.LatestEpoch())
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) { // rule 77
	l := newLog(t, vfs.NewMemory(), smallConfig())
	fill(t, l, 10, 2)
	fill(t, l, 10, 5)
	fill(t, l, 10, 6)
	l.AssignEpoch(9, l.EndOffset())
	for _, c := range []struct {
		ask, epoch kafka.Epoch
		end        kafka.Offset
	}{
		{-1, -1, -1}, {0, 0, 0}, {1, 1, 0}, {2, 2, 30}, {3, 2, 30}, {4, 2, 30}, {5, 5, 60}, {6, 6, 90}, {8, 6, 90}, {9, 9, 90}, {10, -1, -1},
	} {
		if epoch, end := l.EpochEnd(c.ask); epoch != c.epoch || end != c.end {
			t.Errorf("EpochEnd(%d) = (%d, %d), want (%d, %d)", c.ask, epoch, end, c.epoch, c.end)
		}
	}
	if err := l.SetStart(45); err != nil {
		t.Fatal(err)
	}
	if epoch, end := l.EpochEnd(3); epoch != 3 || end != 45 {
		t.Errorf("after the start moved to 45, EpochEnd(3) = (%d, %d), want (3, 45)", epoch, end)
	}
}

func TestCleanReopenKeepsEverything(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	for i := range 50 {
		appendBatch(t, l, idempotent(7, kafka.Sequence(3*i), 3, testStart.UnixMilli()+int64(i)), 1)
	}
	if err := l.SetStart(20); err != nil {
		t.Fatal(err)
	}
	l.NoteHighWatermark(140)
	l.AssignEpoch(2, l.EndOffset())
	l = reopen(t, fs, l, true)
	if l.Dir().PreviousBrokerEpoch() != 5 {
		t.Errorf("broker epoch %d, want 5", l.Dir().PreviousBrokerEpoch())
	}
	checkDense(t, l, 20, 150)
	if l.FlushedOffset() != 150 || l.HighWatermark() != 140 || l.LatestEpoch() != 1 {
		t.Errorf("flushed %d, high watermark %d, epoch %d", l.FlushedOffset(), l.HighWatermark(), l.LatestEpoch())
	}
	verdict, err := l.Producers().Check(idempotent(7, 147, 3, 0), producer.NoGuard)
	if err != nil || !verdict.Duplicate || verdict.BaseOffset != 147 {
		t.Errorf("the last batch again: %+v, %v, want a duplicate of 147", verdict, err)
	}
	fill(t, l, 20, 3)
	checkDense(t, l, 20, 210)
	if notes := l.Dir().Notes(); len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
}

func TestCleanOpenReadsOnlyTheEnd(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, DefaultConfig())
	for range 5000 {
		appendBatch(t, l, batch(10, testStart.UnixMilli()), 0)
	}
	l = reopen(t, fs, l, true)
	if n := l.active().sinceIndex; n > 2*4096 {
		t.Errorf("%d bytes were read of the end, want about an index interval", n)
	}
	if l.EndOffset() != 50_000 {
		t.Errorf("end %d", l.EndOffset())
	}
}

func TestKilledLogIsRecovered(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, fs vfs.FS, active string)
		lost   kafka.Offset
		note   string
	}{
		{name: "nothing torn", damage: func(*testing.T, vfs.FS, string) {}},
		{name: "zeros at the end", damage: extend(make([]byte, 5000)), note: "bytes cut off"},
		{name: "part of a header", damage: extend([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), note: "bytes cut off"},
		{name: "short last batch", damage: shorten(1), lost: 3, note: "bytes cut off"},
		{name: "bad crc in the last batch", damage: flip(-5), lost: 3, note: "crc"},
		{name: "indexes gone", damage: func(t *testing.T, fs vfs.FS, active string) {
			for _, suffix := range []string{".index", ".timeindex"} {
				for _, base := range []string{"00000000000000000000", active} {
					_ = fs.Remove(filepath.Join(testDir, "orders-0", base+suffix))
				}
			}
		}},
		{name: "index full of nonsense", damage: func(t *testing.T, fs vfs.FS, _ string) {
			for _, suffix := range []string{".index", ".timeindex"} {
				name := filepath.Join(testDir, "orders-0", "00000000000000000000"+suffix)
				if err := vfs.WriteFile(fs, name, bytes.Repeat([]byte{1, 2, 3, 4, 5, 250, 7}, 24)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{name: "snapshots gone", damage: func(t *testing.T, fs vfs.FS, _ string) { removeAll(t, fs, ".snapshot") }},
		{name: "epochs gone", damage: func(t *testing.T, fs vfs.FS, _ string) { removeAll(t, fs, EpochsFile) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMemory()
			l := newLog(t, fs, smallConfig())
			for i := range 50 {
				appendBatch(t, l, idempotent(7, kafka.Sequence(3*i), 3, testStart.UnixMilli()+int64(i)), kafka.Epoch(i/20))
			}
			active := offsetName(l.active().base, "")
			c.damage(t, fs, active)
			l = reopen(t, fs, l, false)
			if err := l.Dir().SyncRecovered(); err != nil {
				t.Fatal(err)
			}
			checkDense(t, l, 0, 150-c.lost)
			if l.FlushedOffset() != l.EndOffset() {
				t.Errorf("flushed %d of %d after SyncRecovered", l.FlushedOffset(), l.EndOffset())
			}
			if epoch, end := l.EpochEnd(0); epoch != 0 || end != 60 {
				t.Errorf("EpochEnd(0) = (%d, %d), want (0, 60)", epoch, end)
			}
			last := l.EndOffset() - 3
			verdict, err := l.Producers().Check(idempotent(7, kafka.Sequence(last), 3, 0), producer.NoGuard)
			if err != nil || !verdict.Duplicate || verdict.BaseOffset != last {
				t.Errorf("the last batch again: %+v, %v, want a duplicate of %d", verdict, err, last)
			}
			notes := strings.Join(l.Dir().Notes(), "\n")
			if !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes %q, want one with %q", notes, c.note)
			}
			fill(t, l, 30, 7)
			l = reopen(t, fs, l, true)
			checkDense(t, l, 0, 240-c.lost)
		})
	}
}

// TestATornEndStaysCutOff cuts the power after a recovery whose next record began a new segment: what was torn off the segment before
// it, just behind the recovery point, must not come back and take away what was flushed since.
func TestATornEndStaysCutOff(t *testing.T) {
	for seed := range uint64(30) {
		disk := faultfs.NewDisk(seed)
		l := newLog(t, disk, smallConfig())
		fill(t, l, smallConfig().SegmentBytes/len(batch(3, testStart.UnixMilli())), 3) // one more makes the segment too large
		flush(t, l)
		if err := l.Dir().WriteCheckpoints(); err != nil {
			t.Fatal(err)
		}
		flushed := l.EndOffset()
		name := l.active().name(logSuffix)
		torn, err := vfs.ReadFile(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(disk, name, append(torn, make([]byte, 300)...)); err != nil {
			t.Fatal(err)
		}
		if err := disk.SyncFS(testDir); err != nil {
			t.Fatal(err)
		}
		l = reopen(t, disk, l, false)
		if l.EndOffset() != flushed {
			t.Fatalf("recovery found the end at %d, want %d", l.EndOffset(), flushed)
		}
		fill(t, l, 40, 3)
		if len(*l.segments.Load()) < 2 || (*l.segments.Load())[1].base != flushed {
			t.Fatalf("the second segment does not begin at %d", flushed)
		}
		flush(t, l)
		want := l.EndOffset()
		disk.CutAt(0)
		_ = disk.MkdirAll("/elsewhere")
		disk.Restart()
		l, err = openDir(t, disk).Open(testTopic, testID, smallConfig(), testStart)
		if err != nil {
			t.Fatal(err)
		}
		if l.EndOffset() != want {
			t.Fatalf("seed %d: the log ends at %d, and %d was flushed; notes %q", seed, l.EndOffset(), want, l.Dir().Notes())
		}
	}
}

func extend(b []byte) func(*testing.T, vfs.FS, string) {
	return func(t *testing.T, fs vfs.FS, active string) {
		change(t, fs, active, func(content []byte) []byte { return append(content, b...) })
	}
}

func shorten(n int) func(*testing.T, vfs.FS, string) {
	return func(t *testing.T, fs vfs.FS, active string) {
		change(t, fs, active, func(content []byte) []byte { return content[:len(content)-n] })
	}
}

func flip(at int) func(*testing.T, vfs.FS, string) {
	return func(t *testing.T, fs vfs.FS, active string) {
		change(t, fs, active, func(content []byte) []byte {
			content[(at+len(content))%len(content)] ^= 1
			return content
		})
	}
}

func change(t *testing.T, fs vfs.FS, base string, f func([]byte) []byte) {
	t.Helper()
	name := filepath.Join(testDir, "orders-0", base+".log")
	content, err := vfs.ReadFile(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fs, name, f(content)); err != nil {
		t.Fatal(err)
	}
}

func removeAll(t *testing.T, fs vfs.FS, suffix string) {
	t.Helper()
	folder := filepath.Join(testDir, "orders-0")
	entries, err := fs.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, suffix) {
			if err := fs.Remove(filepath.Join(folder, e.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDamageBelowTheRecoveryPointIsNotCutOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*testing.T, vfs.FS, string)
	}{{"flipped bit", flip(70)}, {"shorter file", shorten(200)}} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMemory()
			l := newLog(t, fs, smallConfig())
			fill(t, l, 50, 0)
			flush(t, l)
			if err := l.Dir().WriteCheckpoints(); err != nil {
				t.Fatal(err)
			}
			active, size := offsetName(l.active().base, ""), l.Size()
			c.damage(t, fs, active)
			if err := l.Dir().Close(false, 0); err != nil {
				t.Fatal(err)
			}
			_, err := openDir(t, fs).Open(testTopic, testID, smallConfig(), testStart)
			corrupt := new(CorruptError)
			if !errors.As(err, &corrupt) || !strings.HasSuffix(corrupt.File, active+".log") {
				t.Fatalf("open: %v, want a CorruptError in %s.log", err, active)
			}
			info, err := fs.Stat(filepath.Join(testDir, "orders-0", active+".log"))
			if err != nil || info.Size < size%2000/2 {
				t.Errorf("the damaged file has %d bytes now, %v", info.Size, err)
			}
		})
	}
}

func TestDirectoryWithALogThatDidNotOpenIsNotLeftClean(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	fill(t, l, 50, 0)
	flush(t, l)
	if err := l.Dir().WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	flip(70)(t, fs, offsetName(l.active().base, ""))
	if err := l.Dir().Close(false, 0); err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{true, false} {
		d := openDir(t, fs)
		if open {
			if _, err := d.Open(testTopic, testID, smallConfig(), testStart); err == nil {
				t.Fatal("the damaged log opened")
			}
		}
		if err := d.Close(true, 1); err == nil || !strings.Contains(err.Error(), "orders-0") {
			t.Errorf("close: %v", err)
		}
	}
	if d := openDir(t, fs); d.WasClean() {
		t.Error("the damaged log would be trusted")
	}
}

func TestWhatIsMissingDoesNotFailTheDirectory(t *testing.T) {
	fs := vfs.NewMemory()
	d := newLog(t, fs, smallConfig()).Dir()
	other := kafka.TopicPartition{Topic: "missing"}
	_, err := d.Open(other, testID, smallConfig(), testStart)
	if !vfs.IsNotExist(err) {
		t.Errorf("open: %v", err)
	}
	if err := d.Delete(other); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := d.Failed(); err != nil {
		t.Error(err)
	}
}

func TestSetAside(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	d := l.Dir()
	if _, err := d.SetAside(testTopic); err == nil {
		t.Error("a log that is open was set aside")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	folder, err := d.SetAside(testTopic)
	if err != nil || !strings.HasPrefix(folder, testTopic.String()+".") || !strings.HasSuffix(folder, "-stray") {
		t.Errorf("set aside as %q, %v", folder, err)
	}
	if found, err := d.Partitions(); err != nil || len(found) != 0 {
		t.Errorf("partitions %v, %v, want none", found, err)
	}
	if err := d.Close(true, 1); err != nil {
		t.Errorf("close: %v", err)
	}
	again := openDir(t, fs)
	if notes := again.Notes(); len(notes) != 0 {
		t.Errorf("notes %q, want none", notes)
	}
	if _, err := fs.Stat(filepath.Join(testDir, folder)); err != nil {
		t.Errorf("what was set aside is gone: %v", err)
	}
}

func TestEveryLogIsLockedOnce(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, DefaultConfig())
	_, err := OpenDir(fs, testDir, testRandom(1))
	wantError(t, err, vfs.ErrLocked)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Dir().Close(true, 1); err != nil {
		t.Fatal(err)
	}
	openDir(t, fs)
}

func TestOpenDirWantsAFormattedDirectory(t *testing.T) {
	fs := vfs.NewMemory()
	if err := fs.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	_, err := OpenDir(fs, testDir, testRandom(1))
	wantError(t, err, ErrNotFormatted)
	if entries, err := fs.ReadDir(testDir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

func TestOtherTopicsFolderIsRefused(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, DefaultConfig())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other := kafka.TopicID{15: 9}
	if _, err := l.Dir().Open(testTopic, other, DefaultConfig(), testStart); err == nil || !strings.Contains(err.Error(), testID.String()) {
		t.Fatalf("open with another topic id: %v", err)
	}
}

func TestClosedLogRefusesAppends(t *testing.T) {
	l := newLog(t, vfs.NewMemory(), DefaultConfig())
	fill(t, l, 2, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Append(batch(1, 1), 0, time.Time{})
	wantError(t, err, ErrClosed)
	_, err = l.Flush()
	wantError(t, err, ErrClosed)
}
