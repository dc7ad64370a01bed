package commitlog

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// manyLogs are new logs of a directory that keeps a few files open.
func manyLogs(t *testing.T, fs vfs.FS, path string, logs, limit int) (*Dir, []*Log) {
	t.Helper()
	err := FormatDir(fs, path, MetaProperties{ClusterID: "Z08mwhDWTseIkIJ4qvFdYg", NodeID: 1, ID: kafka.UUID{6: 0x40, 8: 0x80, 15: 1}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(fs, path, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	d.LimitFiles(limit)
	all := make([]*Log, logs)
	for i := range all {
		l, err := d.Create(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, testID, smallConfig(), testStart)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = l
	}
	return d, all
}

func checkOpen(t *testing.T, d *Dir, limit int) {
	t.Helper()
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if open := len(d.files.open); open > limit {
		t.Fatalf("%d files are open, want %d at most", open, limit)
	}
}

// TestFewFilesServeManyLogs: files are closed to open others, also such as hold what is not flushed, and nothing of it is lost.
func TestFewFilesServeManyLogs(t *testing.T) {
	const logs, limit = 40, 3
	disk := faultfs.NewDisk(1)
	d, all := manyLogs(t, disk, testDir, logs, limit)
	for range 5 {
		for _, l := range all {
			appendBatch(t, l, batch(2, 1000), 0)
		}
		checkOpen(t, d, limit)
	}
	for _, l := range all {
		flush(t, l)
	}
	disk.Restart()
	d = openDir(t, disk)
	d.LimitFiles(limit)
	for _, l := range all {
		again, err := d.Open(l.Partition(), testID, smallConfig(), testStart)
		if err != nil {
			t.Fatal(err)
		}
		checkDense(t, again, 0, 10)
	}
	checkOpen(t, d, limit)
}

// TestFilesAreClosedBesideTheirUse: appends, flushes, reads and sweeps of logs that take each other's files away.
func TestFilesAreClosedBesideTheirUse(t *testing.T) {
	const logs, rounds, limit = 12, 60, 2
	d, all := manyLogs(t, vfs.OS(), t.TempDir(), logs, limit)
	var running sync.WaitGroup
	failed := make(chan error, 3*logs)
	for _, l := range all {
		running.Go(func() {
			for range rounds {
				b := batch(2, 1000)
				if _, err := l.Append(b, 0, testStart); err != nil {
					failed <- err
					return
				}
				if _, err := l.Flush(); err != nil {
					failed <- err
					return
				}
			}
		})
		running.Go(func() {
			for at := kafka.Offset(0); at < 2*rounds; {
				chunk, err := l.Read(at, l.EndOffset(), 300, true)
				if err != nil {
					failed <- err
					return
				}
				if b := make([]byte, chunk.Len); chunk.Len > 0 {
					if _, err := chunk.File.ReadAt(b, chunk.Pos); err != nil {
						failed <- fmt.Errorf("a chunk at %d: %w", at, err)
					}
				}
				chunk.Release()
				at = chunk.Next
			}
		})
	}
	running.Go(func() {
		for range rounds {
			if err := d.Sweep(testStart); err != nil {
				failed <- err
				return
			}
		}
	})
	running.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	for _, l := range all {
		checkDense(t, l, 0, 2*rounds)
	}
	checkOpen(t, d, limit)
}

// TestFlushOfAFileThatWasClosed: the disk refused to take what was written when the file was closed already. The flush must not miss
// that, though a descriptor that is opened afterwards may not be told.
func TestFlushOfAFileThatWasClosed(t *testing.T) {
	in := faultfs.Inject(faultfs.NewDisk(1))
	d, all := manyLogs(t, in, testDir, 2, 1)
	for _, l := range all {
		fill(t, l, 1, 0)
		flush(t, l)
	}
	fill(t, all[0], 1, 0)
	fill(t, all[1], 1, 0) // takes the file away
	before := in.Count(faultfs.OpSyncFS)
	flush(t, all[0])
	if n := in.Count(faultfs.OpSyncFS) - before; n != 1 {
		t.Errorf("the flush made %d calls of SyncFS, want 1", n)
	}
	flush(t, all[0])
	fill(t, all[0], 1, 0)
	flush(t, all[0])
	if n := in.Count(faultfs.OpSyncFS) - before; n != 1 {
		t.Errorf("flushes of a file that stayed open made %d calls of SyncFS, want none", n-1)
	}
	fill(t, all[0], 1, 0)
	fill(t, all[1], 1, 0)
	in.Add(faultfs.Rule{Op: faultfs.OpSyncFS, Err: syscall.EIO})
	if _, err := all[0].Flush(); !errors.Is(err, ErrDiskFailed) || d.Failed() == nil {
		t.Errorf("flush: %v, want ErrDiskFailed", err)
	}
}

// TestTooManyOpenFilesInTheProcess: sockets have taken the rest. A file that nobody uses gives its descriptor.
func TestTooManyOpenFilesInTheProcess(t *testing.T) {
	in := faultfs.Inject(faultfs.NewDisk(1))
	d, all := manyLogs(t, in, testDir, 8, 4)
	for _, l := range all {
		fill(t, l, 1, 0)
	}
	in.Add(faultfs.Rule{Op: faultfs.OpOpen, Name: "t-0", Err: syscall.EMFILE})
	fill(t, all[0], 1, 0)
	checkDense(t, all[0], 0, 6)
	if err := d.Failed(); err != nil {
		t.Error(err)
	}
}

// TestReaderOfADeletedLogNeverFindsItsSuccessor: another topic got the name before the reader came back.
func TestReaderOfADeletedLogNeverFindsItsSuccessor(t *testing.T) {
	disk := faultfs.NewDisk(1)
	old := newLog(t, disk, smallConfig())
	fill(t, old, 3, 0)
	d := old.Dir()
	if err := d.Delete(testTopic); err != nil {
		t.Fatal(err)
	}
	again, err := d.Create(testTopic, kafka.TopicID{1}, smallConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, again, 3, 0)
	if chunk, err := old.Read(0, 9, 1000, true); !errors.Is(err, ErrClosed) {
		t.Errorf("read %+v, %v; want ErrClosed", chunk, err)
	}
	if _, err := old.Append(batch(1, 0), 0, time.Time{}); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v, want ErrClosed", err)
	}
}
