package commitlog

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// fileNames lists the files of the log.
func fileNames(t testing.TB, fs vfs.FS) (found []string) {
	t.Helper()
	entries, err := fs.ReadDir(filepath.Join(testDir, testTopic.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name)
	}
	return found
}

// TestBriefCloseLeavesOutWhatAStartMakesAnew: indexes, and producers where a snapshot tells of some, as the records tell the rest. Without
// any Kafka would begin with no producer, and take what one repeats for new. The next Close writes all.
func TestBriefCloseLeavesOutWhatAStartMakesAnew(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, fs, DefaultConfig())
	appended := func(sequence int) {
		t.Helper()
		b := idempotent(7, kafka.Sequence(sequence), 3, testStart.UnixMilli()+int64(sequence))
		appendBatch(t, l, b, 0)
	}
	appended(0)
	appended(3)
	if err := l.CloseBriefly(); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, fs, l, true)
	if got, want := fileNames(t, fs), []string{"00000000000000000000.log", "00000000000000000006.snapshot", "leader-epoch-checkpoint", "partition.metadata"}; !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if notes := l.Dir().Notes(); len(notes) > 0 {
		t.Errorf("it is told that %q", notes)
	}
	at, ok, err := l.OffsetForTime(testStart.UnixMilli()+3, l.EndOffset())
	if err != nil || !ok || at.Offset != 3 {
		t.Errorf("the record of a time is at %v (%v, %v), want 3", at, ok, err)
	}
	verdict, err := l.Producers().Check(idempotent(7, 0, 3, testStart.UnixMilli()), producer.NoGuard)
	if err != nil || !verdict.Duplicate {
		t.Errorf("a batch that is there: %+v, %v, want that it is a duplicate", verdict, err)
	}
	appended(6)
	l = reopen(t, fs, l, true)
	for _, name := range []string{"00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000009.snapshot"} {
		if !slices.Contains(fileNames(t, fs), name) {
			t.Errorf("%s is missing among %v", name, fileNames(t, fs))
		}
	}
	appended(9)
	if err := l.CloseBriefly(); err != nil {
		t.Fatal(err)
	}
	content, err := vfs.ReadFile(fs, l.active().name(timeIndexSuffix))
	if err != nil {
		t.Fatal(err)
	}
	times, err := ParseTimeIndex(content, 0)
	if n := len(times); err != nil || n == 0 || times[n-1].Offset != 11 {
		t.Errorf("the time index, which is there, has %v (%v), want 11 as the last offset", times, err)
	}
	l = reopen(t, fs, l, true)
	if got := l.Producers().End(); got != 12 {
		t.Errorf("the producers are known up to offset %d, want 12", got)
	}
}

// TestBriefCloseLeavesLittleToRead: a snapshot is written where more than a little was appended since the one before, in the same segment
// and in one of its own.
func TestBriefCloseLeavesLittleToRead(t *testing.T) {
	for _, segmentBytes := range []int{1 << 30, briefBytesMax} {
		fs := vfs.NewMemory()
		c := DefaultConfig()
		c.SegmentBytes = segmentBytes
		l := newLog(t, fs, c)
		sequence := kafka.Sequence(0)
		for _, batches := range []int{1, 2, 200, 2} {
			for range batches {
				appendBatch(t, l, idempotent(7, sequence, 3, testStart.UnixMilli()+int64(sequence)), 0)
				sequence += 3
			}
			if err := l.CloseBriefly(); err != nil {
				t.Fatal(err)
			}
			behind, want := l.bytesBehindSnapshot(l.active()), int64(briefBytesMax)
			if batches == 200 && segmentBytes > briefBytesMax {
				want = 2 * int64(c.IndexIntervalBytes)
			}
			if behind > want {
				t.Errorf("segments of %d bytes, %d more batches: a start reads %d bytes for the producers, want up to %d", segmentBytes, batches, behind, want)
			}
			l = reopen(t, fs, l, true)
			if got := l.Producers().End(); got != kafka.Offset(sequence) {
				t.Errorf("segments of %d bytes, %d more batches: the producers are known up to offset %d, want %d", segmentBytes, batches, got, sequence)
			}
		}
	}
}

// TestBriefCloseLeavesLittleToReadWithoutProducers: a log that only producers without sequences wrote to has no snapshot, and the next start
// would look for others in all of it.
func TestBriefCloseLeavesLittleToReadWithoutProducers(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	l := newLog(t, in, DefaultConfig())
	for l.Size() < 4<<20 {
		appendBatch(t, l, batch(1000, testStart.UnixMilli()), 0)
	}
	if err := l.CloseBriefly(); err != nil {
		t.Fatal(err)
	}
	if err := l.Dir().Close(true, 5); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, in)
	before := in.Count(faultfs.OpRead)
	opened, err := d.Open(testTopic, testID, l.Config(), testStart)
	if err != nil || opened.EndOffset() != l.EndOffset() {
		t.Fatalf("the log ends at %d (%v), want %d", opened.EndOffset(), err, l.EndOffset())
	}
	if n, most := in.Count(faultfs.OpRead)-before, 8; n > most {
		t.Errorf("%d reads of a log of %d bytes, want no more than %d", n, l.Size(), most)
	}
}

// TestBriefCloseLeavesASnapshotBehindTheStart: Kafka looks at none up to where the log begins, and the batches behind do not tell of a
// producer whose last one was deleted.
func TestBriefCloseLeavesASnapshotBehindTheStart(t *testing.T) {
	for name, remove := range map[string]func(*testing.T, *Log){
		"within the segment": func(t *testing.T, l *Log) {
			if err := l.SetStart(l.EndOffset()); err != nil {
				t.Fatal(err)
			}
		},
		"with a segment": func(t *testing.T, l *Log) {
			c := l.Config()
			brief := c
			brief.RetentionMs, brief.SegmentMs = 1, 1
			l.SetConfig(brief)
			defer l.SetConfig(c)
			late := testStart.Add(time.Hour)
			if _, err := l.Append(batch(1, late.UnixMilli()), 0, late); err != nil {
				t.Fatal(err)
			}
			flush(t, l)
			if _, err := l.Retain(late, l.EndOffset()); err != nil {
				t.Fatal(err)
			}
			if err := l.Dir().Sweep(late); err != nil {
				t.Fatal(err)
			}
			if got := l.StartOffset(); got != 6 {
				t.Fatalf("the log begins at %d, want 6", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMemory()
			l := newLog(t, fs, DefaultConfig())
			appendBatch(t, l, idempotent(7, 0, 3, testStart.UnixMilli()), 0)
			l = reopen(t, fs, l, true)
			appendBatch(t, l, idempotent(7, 3, 3, testStart.UnixMilli()), 0)
			remove(t, l)
			appendBatch(t, l, batch(3, testStart.Add(time.Hour).UnixMilli()), 0)
			if err := l.CloseBriefly(); err != nil {
				t.Fatal(err)
			}
			if n := len(l.snapshots); n == 0 || l.snapshots[n-1] <= l.StartOffset() {
				t.Errorf("the log begins at %d and has snapshots at %v, want one behind", l.StartOffset(), l.snapshots)
			}
			content, err := vfs.ReadFile(fs, l.snapshotFile(l.EndOffset()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := producer.Decode(content); err != nil {
				t.Error(err)
			}
			l = reopen(t, fs, l, true)
			verdict, err := l.Producers().Check(idempotent(7, 3, 3, testStart.UnixMilli()), producer.NoGuard)
			if err != nil || !verdict.Duplicate {
				t.Errorf("what was deleted, sent again: %+v, %v, want that it is a duplicate", verdict, err)
			}
		})
	}
}

// TestBriefCloseDoesNothingToFiles but ask for two names.
func TestBriefCloseDoesNothingToFiles(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	l := newLog(t, in, DefaultConfig())
	fill(t, l, 3, 0)
	flush(t, l)
	before := in.Count(faultfs.OpAny)
	if err := l.CloseBriefly(); err != nil {
		t.Fatal(err)
	}
	if n := in.Count(faultfs.OpAny) - before; n > 2 {
		t.Errorf("%d operations, want 2", n)
	}
}

// TestSomeCheckpointsAreWrittenAtATime: where the leader epochs of many logs have changed, the recovery points of the others wait too.
func TestSomeCheckpointsAreWrittenAtATime(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	d := openDir(t, fs)
	const logs, most = 10, 4
	for i := range int32(logs) {
		l, err := d.Create(kafka.TopicPartition{Topic: "t", Partition: i}, testID, DefaultConfig(), testStart)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, l, 1, 5)
		flush(t, l)
	}
	for round := 1; ; round++ {
		more, err := d.writeSome(most)
		if err != nil {
			t.Fatal(err)
		}
		saved := min(round*most, logs)
		if n := len(d.onDisk.recovery.offsets); n != saved || len(d.onDisk.highWatermark.offsets) != logs {
			t.Errorf("round %d: %d recovery points and %d high watermarks, want %d and %d", round, n, len(d.onDisk.highWatermark.offsets), saved, logs)
		}
		for i := range logs {
			_, err := fs.Stat(filepath.Join(testDir, fmt.Sprintf("t-%d", i), EpochsFile))
			if (err == nil) != (i < saved) {
				t.Errorf("round %d: epochs of partition %d: %v", round, i, err)
			}
		}
		if !more {
			if saved != logs {
				t.Errorf("it ends with %d of %d", saved, logs)
			}
			return
		}
	}
}
