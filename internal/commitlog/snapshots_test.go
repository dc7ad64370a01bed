package commitlog

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// endAtABase makes the log end where a segment begins, which is empty: what was in it is cut off.
func endAtABase(t *testing.T, l *Log) kafka.Offset {
	t.Helper()
	for len(l.Segments()) < 2 {
		fill(t, l, 1, 0)
	}
	base := l.active().base
	if err := l.Truncate(base); err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	return base
}

// TestTheOnlySnapshotOutlivesAStopThatIsCutOff: of an empty log that retention has emptied, the snapshot alone tells that a transaction
// is open, and the stop writes snapshots.
func TestTheOnlySnapshotOutlivesAStopThatIsCutOff(t *testing.T) {
	cuts := 0
	for seed := range uint64(60) {
		disk := faultfs.NewDisk(seed)
		l := newLog(t, disk, smallConfig())
		b := record.Builder{Producer: &record.Producer{ID: 7}, Transactional: true}
		b.Add(nil, []byte("undecided"), nil, testStart.UnixMilli())
		first := l.EndOffset()
		appendBatch(t, l, b.Build(), 0)
		end := endAtABase(t, l)
		if err := l.SetStart(end); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retain(testStart, end); err != nil {
			t.Fatal(err)
		}
		for _, later := range []time.Duration{0, time.Hour} {
			if err := l.Dir().Sweep(testStart.Add(later)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(l.Segments()); n != 1 {
			t.Fatalf("%d segments are left, want the empty one", n)
		}
		disk.CutAt(int(seed % 20))
		if l.Close() == nil {
			_ = l.Dir().Close(true, 5)
		}
		if disk.Off() {
			cuts++
		}
		disk.Restart()
		l, err := openDir(t, disk).Open(testTopic, testID, smallConfig(), testStart)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Producers().LastStable(l.EndOffset()); got != first {
			t.Fatalf("seed %d: the last stable offset is %d, want that of the open transaction, %d; notes %q", seed, got, first, l.Dir().Notes())
		}
	}
	if cuts < 10 {
		t.Errorf("the power was cut in %d stops only", cuts)
	}
}

// TestSnapshotCountsUpToTheRecoveryPoint: one at the base of a segment tells of what compaction has taken away, if nothing before it was
// lost. Behind the recovery point it may tell of what was.
func TestSnapshotCountsUpToTheRecoveryPoint(t *testing.T) {
	for _, below := range []kafka.Offset{0, 1} {
		t.Run(fmt.Sprintf("recovery point %d below", below), func(t *testing.T) {
			fs := vfs.NewMemory()
			l := newLog(t, fs, smallConfig())
			base := endAtABase(t, l)
			gone := idempotent(99, 0, 1, testStart.UnixMilli())
			gone.SetBaseOffset(base - 1)
			state := producer.New(10)
			state.Apply(gone, testStart)
			if err := vfs.WriteFile(fs, l.snapshotFile(base), state.Encode()); err != nil {
				t.Fatal(err)
			}
			point := formatOffsets([]kafka.TopicPartition{testTopic}, map[kafka.TopicPartition]kafka.Offset{testTopic: base - below})
			if err := vfs.WriteFile(fs, filepath.Join(testDir, RecoveryPointFile), point); err != nil {
				t.Fatal(err)
			}
			l = reopen(t, fs, l, false)
			if l.EndOffset() != base {
				t.Fatalf("the log ends at %d, want %d", l.EndOffset(), base)
			}
			verdict, err := l.Producers().Check(gone, producer.NoGuard)
			if want := below == 0; err != nil || verdict.Duplicate != want {
				t.Errorf("the batch that only the snapshot tells of: %+v, %v, want a duplicate: %v", verdict, err, want)
			}
		})
	}
}
