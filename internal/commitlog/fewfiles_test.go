package commitlog

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

var errNoFiles = fmt.Errorf("injected: %w", syscall.EMFILE)

// TestFlushWithoutADescriptorIsTriedAgain: the process has too many files open when a directory or a file is to be flushed. Nothing was
// tried, so nothing is known to have failed: the next flush is one like any other.
func TestFlushWithoutADescriptorIsTriedAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		op    faultfs.Op
		flush func(d *Dir, l *Log) error
	}{
		{"the new folder's name", faultfs.OpSyncDir, func(_ *Dir, l *Log) error { _, err := l.Flush(); return err }},
		{"partition.metadata", faultfs.OpOpen, func(_ *Dir, l *Log) error { _, err := l.Flush(); return err }},
		{"all files", faultfs.OpSyncFS, func(d *Dir, l *Log) error { return d.FlushAll([]*Log{l}) }},
		{"a checkpoint", faultfs.OpSyncFS, func(d *Dir, l *Log) error {
			if _, err := l.Flush(); err != nil {
				return err
			}
			return d.WriteCheckpoints()
		}},
	} {
		in := faultfs.Inject(faultfs.NewDisk(1))
		l := newLog(t, in, DefaultConfig())
		fill(t, l, 3, 0)
		in.Add(faultfs.Rule{Op: tc.op, Err: errNoFiles})
		if err := tc.flush(l.Dir(), l); !vfs.IsOutOfFiles(err) {
			t.Errorf("%s: %v, want that there is no descriptor", tc.name, err)
		}
		if err := l.Dir().Failed(); err != nil {
			t.Fatalf("%s: the directory went offline: %v", tc.name, err)
		}
		if err := tc.flush(l.Dir(), l); err != nil || l.FlushedOffset() != l.EndOffset() {
			t.Errorf("%s, again: %v, flushed up to %d of %d", tc.name, err, l.FlushedOffset(), l.EndOffset())
		}
	}
}

// TestUntriedFlushForgetsNoErrorThatIsOwed: of a file that was closed before it was flushed only SyncFS tells of all errors. That stays
// so when there was no descriptor to call it with.
func TestUntriedFlushForgetsNoErrorThatIsOwed(t *testing.T) {
	for name, flush := range map[string]func(d *Dir, l *Log) error{
		"one log":  func(_ *Dir, l *Log) error { _, err := l.Flush(); return err },
		"all logs": func(d *Dir, l *Log) error { return d.FlushAll([]*Log{l}) },
	} {
		in := faultfs.Inject(faultfs.NewDisk(1))
		d, all := manyLogs(t, in, testDir, 2, 1)
		l := all[0]
		fill(t, l, 1, 0)
		if err := flush(d, l); err != nil {
			t.Fatal(err)
		}
		fill(t, l, 1, 0)
		fill(t, all[1], 1, 0) // closes the file of the other
		in.Add(faultfs.Rule{Op: faultfs.OpSyncFS, Err: errNoFiles})
		if err := flush(d, l); !vfs.IsOutOfFiles(err) {
			t.Fatalf("%s: %v, want that there is no descriptor", name, err)
		}
		in.Add(faultfs.Rule{Op: faultfs.OpSyncFS, Err: errIO}) // what the kernel found when it wrote by itself
		_, err := l.Flush()
		wantError(t, err, ErrDiskFailed)
	}
}

// TestLogsOfOneNameAreLockedInOneOrder: a deleted log and the one that has its name now may be flushed together, from two sides at once.
func TestLogsOfOneNameAreLockedInOneOrder(t *testing.T) {
	gone, there := &Log{partition: testTopic, topicID: kafka.TopicID{1}}, &Log{partition: testTopic, topicID: kafka.TopicID{2}}
	if a, b := sortedByName([]*Log{gone, there}), sortedByName([]*Log{there, gone}); a[0] != b[0] || a[1] != b[1] {
		t.Error("the order depends on who asks")
	}
}

// TestDeleteWithoutADescriptor: a folder that is renamed already is removed like any.
func TestDeleteWithoutADescriptor(t *testing.T) {
	in := faultfs.Inject(vfs.NewMemory())
	l := newLog(t, in, DefaultConfig())
	fill(t, l, 3, 0)
	in.Add(faultfs.Rule{Op: faultfs.OpSyncDir, Err: errNoFiles})
	if err := l.Dir().Delete(testTopic); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := l.Dir().Sweep(testStart); err != nil {
		t.Error(err)
	}
	if err := l.Dir().Sweep(testStart.Add(1 << 40)); err != nil {
		t.Error(err)
	}
	found, err := l.Dir().Partitions()
	if err != nil || len(found) > 0 || len(l.Dir().doomed) > 0 {
		t.Errorf("left are %v, %v, %v", found, l.Dir().doomed, err)
	}
}
