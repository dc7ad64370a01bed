package commitlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// begun is a closed log of several segments, of which retention may have taken some before, and the base of its second segment.
func begun(t *testing.T, retained, clean bool) (vfs.FS, *Log, kafka.Offset) {
	t.Helper()
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	fill(t, l, 100, 3)
	flush(t, l)
	if retained {
		if err := l.SetStart(l.Segments()[2].Base + 4); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retain(testStart, l.EndOffset()); err != nil {
			t.Fatal(err)
		}
		if err := l.Dir().Sweep(testStart); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Dir().WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	second := l.Segments()[1].Base
	if clean {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Dir().Close(clean, 5); err != nil {
		t.Fatal(err)
	}
	return fs, l, second
}

func removeSegment(t *testing.T, fs vfs.FS, l *Log, base kafka.Offset) {
	t.Helper()
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, snapshotSuffix} {
		if err := fs.Remove(l.folder + "/" + offsetName(base, suffix)); err != nil && !vfs.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// TestALostFirstSegmentIsNotRetention: nor after a start that was not in order, once it was noticed.
func TestALostFirstSegmentIsNotRetention(t *testing.T) {
	for _, retained := range []bool{false, true} {
		fs, l, second := begun(t, retained, true)
		removeSegment(t, fs, l, l.Segments()[0].Base)
		for _, stop := range []string{"in order", "in order, after it was noticed", "killed"} {
			d := openDir(t, fs)
			_, err := d.Open(testTopic, testID, l.Config(), testStart)
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !strings.HasSuffix(corrupt.File, offsetName(second, logSuffix)) || !strings.Contains(corrupt.Reason, "missing") {
				t.Fatalf("retained %v, stopped %s: %v, want offsets before %d missing", retained, stop, err, second)
			}
			if !strings.Contains(corrupt.Advice(), EpochsFile) {
				t.Errorf("no word about how to go on without them: %s", corrupt.Advice())
			}
			if err := d.Close(stop == "in order", 5); err != nil {
				t.Fatal(err)
			}
		}
		if err := fs.Remove(l.epochsFile()); err != nil { // as advised
			t.Fatal(err)
		}
		d := openDir(t, fs)
		opened, err := d.Open(testTopic, testID, l.Config(), testStart)
		if err != nil {
			t.Fatalf("retained %v: as advised: %v", retained, err)
		}
		checkDense(t, opened, second, l.EndOffset())
		if _, err := fs.Stat(l.folder + "/" + DamagedFile); !vfs.IsNotExist(err) {
			t.Errorf("%s is still there: %v", DamagedFile, err)
		}
	}
}

// TestALostFirstSegmentIsToldAfterAKill: it may have been retention, so the log is served.
func TestALostFirstSegmentIsToldAfterAKill(t *testing.T) {
	fs, l, second := begun(t, false, false)
	removeSegment(t, fs, l, 0)
	d := openDir(t, fs)
	opened, err := d.Open(testTopic, testID, l.Config(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	checkDense(t, opened, second, l.EndOffset())
	if notes := strings.Join(d.Notes(), "\n"); !strings.Contains(notes, "offsets 0 to") || !strings.Contains(notes, "missing") {
		t.Errorf("not told: %s", notes)
	}
}

// retained is a log of which retention has just taken segments, since the last checkpoint.
func retained(t *testing.T, until func(*Dir) error) (vfs.FS, *Log) {
	t.Helper()
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	fill(t, l, 100, 0)
	flush(t, l)
	if err := l.Dir().WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	if err := l.SetStart(l.Segments()[2].Base + 4); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Retain(testStart, l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	if err := until(l.Dir()); err != nil {
		t.Fatal(err)
	}
	return fs, l
}

// TestRetentionIsNotDamage, whenever the broker is killed: neither before its files are removed nor before a checkpoint tells of it.
func TestRetentionIsNotDamage(t *testing.T) {
	for stop, until := range []func(*Dir) error{
		func(*Dir) error { return nil },
		func(d *Dir) error { return d.Sweep(testStart) },
		func(d *Dir) error { return errors.Join(d.Sweep(testStart), d.WriteCheckpoints()) },
		func(d *Dir) error { return errors.Join(d.Sweep(testStart), d.Sweep(testStart.Add(1<<40))) },
	} {
		fs, l := retained(t, until)
		for _, clean := range []bool{false, true, true} {
			l = reopen(t, fs, l, clean)
			if told := strings.Join(l.Dir().Notes(), "\n"); strings.Contains(told, "missing") {
				t.Errorf("stop %d: %s", stop, told)
			}
		}

		// Kafka, started after the kill and stopped in order, leaves the leader epochs as they are, and a marker.
		fs, l = retained(t, until)
		if err := l.Dir().Close(false, 5); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(fs, testDir+"/"+CleanShutdownFile, []byte(`{"version":0,"brokerEpoch":7}`)); err != nil {
			t.Fatal(err)
		}
		d := openDir(t, fs)
		if _, err := d.Open(testTopic, testID, l.Config(), testStart); err != nil || !d.WasClean() {
			t.Errorf("stop %d, and Kafka stopped in order: %v, clean %v", stop, err, d.WasClean())
		}
	}
}
