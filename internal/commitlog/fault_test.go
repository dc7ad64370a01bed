package commitlog

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

var errIO = fmt.Errorf("injected: %w", syscall.EIO)

// story runs one of everything and stops at the first error. It returns how far the log was acknowledged.
func story(t *testing.T, fs vfs.FS) (acked kafka.Offset, l *Log, err error) {
	t.Helper()
	p := MetaProperties{ClusterID: "c", NodeID: 1, ID: kafka.UUID{1: 1}}
	if err := FormatDir(fs, testDir, p); err != nil {
		return 0, nil, err
	}
	d, err := OpenDir(fs, testDir, testRandom(1))
	if err != nil {
		return 0, nil, err
	}
	l, err = d.Create(testTopic, testID, smallConfig(), testStart)
	if err != nil {
		return 0, nil, errors.Join(err, d.Close(false, 0))
	}
	steps := []func() error{
		func() error {
			for range 40 {
				b := batch(3, testStart.UnixMilli()+int64(l.EndOffset()))
				if _, err := l.Append(b, 0, testStart); err != nil {
					return err
				}
				l.Producers().Apply(b, testStart)
			}
			return nil
		},
		func() error {
			end, err := l.Flush()
			acked = max(acked, end)
			if err == nil && end != l.EndOffset() {
				t.Errorf("Flush() = %d, want %d", end, l.EndOffset())
			}
			return err
		},
		func() error { return l.SetStart(20) },
		func() error {
			_, err := l.Retain(testStart, 50)
			return err
		},
		func() error { return d.Sweep(testStart) },
		func() error { return d.WriteCheckpoints() },
	}
	for range 2 {
		for _, step := range steps {
			if err := step(); err != nil {
				return acked, l, err
			}
		}
	}
	if err := l.Close(); err != nil {
		return acked, l, err
	}
	return acked, l, d.Close(true, 1)
}

// TestErrorAtEveryOperation fails one operation after the other. The error comes out, no flush is reported after one that
// failed, and when the disk works again, all that was acknowledged is there.
func TestErrorAtEveryOperation(t *testing.T) {
	clean := faultfs.Inject(vfs.NewMemory())
	if _, _, err := story(t, clean); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []error{errIO, fmt.Errorf("injected: %w", syscall.ENOSPC)} {
		for n := range clean.Count(faultfs.OpChange) {
			fs := faultfs.Inject(vfs.NewMemory())
			fs.Add(faultfs.Rule{Op: faultfs.OpChange, After: n, Err: kind, Written: 7})
			acked, l, err := story(t, fs)
			if !errors.Is(err, kind) {
				t.Fatalf("%v at operation %d: %v", kind, n, err)
			}
			checkAfterError(t, fs, l, acked, fmt.Sprintf("%v at operation %d", kind, n))
		}
	}
}

// checkAfterError opens the directory as after a kill.
func checkAfterError(t *testing.T, fs vfs.FS, l *Log, acked kafka.Offset, what string) {
	t.Helper()
	if l == nil {
		return
	}
	if failed := l.Dir().Failed(); failed != nil {
		wantError(t, failed, ErrDiskFailed)
		if _, err := l.Append(batch(1, 1), 0, testStart); err == nil {
			t.Errorf("%s: a failed directory takes an append", what)
		}
		if _, err := l.Flush(); err == nil {
			t.Errorf("%s: a failed directory flushes", what)
		}
		if l.FlushedOffset() > acked {
			t.Errorf("%s: flushed %d, told %d", what, l.FlushedOffset(), acked)
		}
	}
	l.Dir().lock.Close()
	d := openDir(t, fs)
	l, err := d.Open(testTopic, testID, smallConfig(), testStart)
	if vfs.IsNotExist(err) && acked == 0 {
		return
	}
	if err != nil {
		t.Fatalf("%s: open again: %v", what, err)
	}
	if l.EndOffset() < acked || l.StartOffset() > acked {
		t.Fatalf("%s: the log has [%d, %d), acknowledged was up to %d", what, l.StartOffset(), l.EndOffset(), acked)
	}
	checkDense(t, l, l.StartOffset(), l.EndOffset())
}

func TestFullDiskRefusesAndRecoversByItself(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.OpWrite, faultfs.OpOpen} {
		fs := faultfs.Inject(vfs.NewMemory())
		l := newLog(t, fs, smallConfig())
		fill(t, l, 10, 0)
		fs.Add(faultfs.Rule{Op: op, Name: "orders-0", Times: -1, Err: syscall.ENOSPC, Written: 50})
		for l.Segments()[0].Base == 0 { // until a write or, in a roll, an open is refused
			b := batch(3, testStart.UnixMilli())
			if _, err := l.Append(b, 0, testStart); err != nil {
				if !vfs.IsFull(err) {
					t.Fatalf("append to a full disk: %v", err)
				}
				break
			}
			l.Producers().Apply(b, testStart)
		}
		end := l.EndOffset()
		if err := l.Dir().Failed(); err != nil {
			t.Fatalf("a full disk is no failure: %v", err)
		}
		checkDense(t, l, 0, end)
		fs.Reset()
		fill(t, l, 30, 0)
		flush(t, l)
		checkDense(t, l, 0, end+90)
		l = reopen(t, fs, l, true)
		checkDense(t, l, 0, end+90)
	}
}

func TestWriteThatCannotBeTakenBackFailsTheDirectory(t *testing.T) {
	for _, cut := range []error{errIO, syscall.ENOSPC} {
		fs := faultfs.Inject(vfs.NewMemory())
		l := newLog(t, fs, smallConfig())
		fill(t, l, 2, 0)
		fs.Add(faultfs.Rule{Op: faultfs.OpWrite, Err: syscall.ENOSPC, Written: 50})
		fs.Add(faultfs.Rule{Op: faultfs.OpTruncate, Err: cut})
		_, err := l.Append(batch(1, 1), 0, testStart)
		wantError(t, err, ErrDiskFailed)
		checkDense(t, l, 0, 6)
	}
}

func TestFailedFlushIsNotRetried(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	l := newLog(t, fs, smallConfig())
	fill(t, l, 1, 0)
	flush(t, l)
	fill(t, l, 1, 0)
	fs.Add(faultfs.Rule{Op: faultfs.OpSync, Err: errIO})
	_, err := l.Flush()
	wantError(t, err, ErrDiskFailed)
	wantError(t, err, syscall.EIO)
	before := fs.Count(faultfs.OpAnySync)
	for range 3 {
		if end, err := l.Flush(); err == nil || end != 3 || l.FlushedOffset() != 3 {
			t.Fatalf("Flush() = %d, %v, flushed %d, want 3 and an error", end, err, l.FlushedOffset())
		}
	}
	if after := fs.Count(faultfs.OpAnySync); after != before {
		t.Errorf("%d more syncs after one that failed", after-before)
	}
	if err := l.Dir().Close(true, 1); err == nil {
		t.Error("a failed directory was left clean")
	}
	if _, err := fs.Stat(testDir + "/" + CleanShutdownFile); !vfs.IsNotExist(err) {
		t.Errorf("clean-shutdown marker: %v", err)
	}
	checkDense(t, l, 0, 6) // reads go on
}

func TestAppendGoesOnBesideASlowFlush(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	l := newLog(t, fs, smallConfig())
	fill(t, l, 1, 0)
	started, finish := make(chan struct{}), make(chan struct{})
	fs.Add(faultfs.Rule{Op: faultfs.OpSync, Before: func(string) {
		close(started)
		<-finish
	}})
	flushed := make(chan kafka.Offset)
	go func() {
		end, err := l.Flush()
		if err != nil {
			t.Errorf("flush: %v", err)
		}
		flushed <- end
	}()
	<-started
	fill(t, l, 30, 0) // also rolls
	checkDense(t, l, 0, 93)
	close(finish)
	if end := <-flushed; end != 3 || l.FlushedOffset() != 3 {
		t.Errorf("Flush() = %d, flushed %d, want 3: what was appended since may not be durable", end, l.FlushedOffset())
	}
	flush(t, l)
}

func TestFlippedBitIsFoundByRecoveryAndByBatches(t *testing.T) {
	mem := vfs.NewMemory()
	fs := faultfs.Inject(mem)
	l := newLog(t, fs, smallConfig())
	fill(t, l, 3, 0)
	fs.Add(faultfs.Rule{Op: faultfs.OpWrite, Name: ".log", Flip: 8 * 70})
	fill(t, l, 3, 0)
	var err error
	for _, err = range l.Batches(0) {
		if err != nil {
			break
		}
	}
	corrupt := new(CorruptError)
	if !errors.As(err, &corrupt) || corrupt.At != int64(3*len(batch(3, 0))) {
		t.Fatalf("Batches: %v, want damage in the fourth batch", err)
	}
	l = reopen(t, mem, l, false)
	checkDense(t, l, 0, 9)
}

func TestUnreadableFileIsAnErrorAndNotAnEnd(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	l := newLog(t, fs, smallConfig())
	fill(t, l, 20, 0)
	flush(t, l)
	if err := l.Dir().Close(false, 0); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, fs)
	fs.Add(faultfs.Rule{Op: faultfs.OpRead, Name: ".log", After: 1, Err: errIO})
	_, err := d.Open(testTopic, testID, smallConfig(), testStart)
	wantError(t, err, syscall.EIO)
	l, err = d.Open(testTopic, testID, smallConfig(), testStart.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 0, 60)
}
