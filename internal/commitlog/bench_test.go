package commitlog

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// diskLog is a log on the real disk.
func diskLog(tb testing.TB, c Config) *Log {
	tb.Helper()
	p := MetaProperties{ClusterID: "c", NodeID: 1, ID: kafka.UUID{1: 1}}
	dir := filepath.Join(tb.TempDir(), "data")
	if err := FormatDir(vfs.OS(), dir, p); err != nil {
		tb.Fatal(err)
	}
	d, err := OpenDir(vfs.OS(), dir, testRandom(1))
	if err != nil {
		tb.Fatal(err)
	}
	l, err := d.Create(testTopic, testID, c, testStart)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
		if err := d.Close(true, 1); err != nil {
			tb.Error(err)
		}
	})
	return l
}

func TestAppendAndReadDoNotAllocate(t *testing.T) {
	l := diskLog(t, DefaultConfig())
	b := batch(10, testStart.UnixMilli())
	add := func() {
		if _, err := l.Append(b, 0, testStart); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 { // what is kept in memory has grown
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n >= 1 {
		t.Errorf("%v allocations per append", n)
	}
	at := kafka.Offset(0)
	read := func() {
		chunk, err := l.Read(at, l.EndOffset(), 4096, true)
		if err != nil {
			t.Fatal(err)
		}
		at = chunk.Next
		chunk.Release()
	}
	if n := testing.AllocsPerRun(100, read); n >= 1 {
		t.Errorf("%v allocations per read", n)
	}
}

// TestReadersAndFlushesBesideAppends is for the race detector.
func TestReadersAndFlushesBesideAppends(t *testing.T) {
	c := smallConfig()
	c.RetentionBytes, c.FileDeleteDelayMs = 20_000, 0
	l := newLog(t, vfs.NewMemory(), c)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	beside := func(f func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beside(func() error { _, err := l.Flush(); return err })
	beside(func() error { return l.Dir().SyncRecovered() })
	beside(func() error { return l.Dir().FlushAll([]*Log{l}) })
	beside(l.Dir().WriteCheckpoints)
	beside(func() error { return l.Dir().Sweep(testStart.Add(time.Hour)) })
	beside(func() error { _, _, err := l.OffsetForTime(testStart.UnixMilli()+500, l.FlushedOffset()); return err })
	beside(func() error { _, _, err := l.MaxTimestamp(l.FlushedOffset()); return err })
	for range 2 {
		beside(func() error { return readAll(l) })
	}
	for i := range 1500 {
		fill(t, l, 1, kafka.Epoch(i/500))
		if i%50 == 0 {
			if _, err := l.Retain(testStart.Add(time.Hour), l.FlushedOffset()); err != nil {
				t.Fatal(err)
			}
		}
		if i%400 == 399 {
			if err := l.Truncate(l.EndOffset() - 20); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	checkDense(t, l, l.StartOffset(), l.EndOffset())
}

// readAll reads up to the flushed end. Retention may overtake it, and truncation.
func readAll(l *Log) error {
	at, bound := l.StartOffset(), l.FlushedOffset()
	buf := make([]byte, 4096)
	for at < bound {
		chunk, err := l.Read(at, bound, len(buf), false)
		if err == kafka.OffsetOutOfRange { //nolint:errorlint // returned as it is
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %d: %w", at, err)
		}
		if chunk.Len == 0 {
			return nil
		}
		n, _ := chunk.File.ReadAt(buf[:chunk.Len], chunk.Pos)
		if n == chunk.Len {
			b, _, err := record.Split(buf[:n])
			if err == nil {
				err = b.Check()
			}
			if err != nil {
				return fmt.Errorf("read %d: %w", at, err)
			}
		}
		at = chunk.Next
		chunk.Release()
	}
	return nil
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l := diskLog(b, DefaultConfig())
			var builder record.Builder
			builder.Add(nil, make([]byte, size), nil, testStart.UnixMilli())
			batch := builder.Build()
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(batch, 0, testStart); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadTail(b *testing.B) {
	l := diskLog(b, DefaultConfig())
	one := batch(10, testStart.UnixMilli())
	for range 5000 {
		if _, err := l.Append(one, 0, testStart); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		chunk, err := l.Read(l.EndOffset()-10, l.EndOffset(), 1<<20, true)
		if err != nil {
			b.Fatal(err)
		}
		chunk.Release()
	}
}

func BenchmarkReadMiddle(b *testing.B) {
	l := diskLog(b, DefaultConfig())
	one := batch(10, testStart.UnixMilli())
	for range 5000 {
		if _, err := l.Append(one, 0, testStart); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	at := kafka.Offset(0)
	for b.Loop() {
		chunk, err := l.Read(at, l.EndOffset(), 64<<10, true)
		if err != nil {
			b.Fatal(err)
		}
		chunk.Release()
		if at = chunk.Next; at == l.EndOffset() {
			at = 0
		}
	}
}

func BenchmarkFlush(b *testing.B) {
	l := diskLog(b, DefaultConfig())
	one := batch(1, testStart.UnixMilli())
	for b.Loop() {
		if _, err := l.Append(one, 0, testStart); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}
