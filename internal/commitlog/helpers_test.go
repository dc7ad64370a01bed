package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

const testDir = "/data"

var (
	testTopic = kafka.TopicPartition{Topic: "orders", Partition: 0}
	testID    = kafka.TopicID{6: 0x40, 8: 0x80, 15: 7}
	testStart = time.UnixMilli(1_700_000_000_000)
)

// smallConfig makes segments and index entries frequent.
func smallConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 2000, 200
	return c
}

// testRandom fills with the same bytes in every run.
func testRandom(seed uint64) func([]byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
}

func format(t testing.TB, fs vfs.FS) {
	t.Helper()
	p := MetaProperties{ClusterID: "Z08mwhDWTseIkIJ4qvFdYg", NodeID: 1, ID: kafka.UUID{6: 0x40, 8: 0x80, 15: 1}}
	if err := FormatDir(fs, testDir, p); err != nil {
		t.Fatalf("format: %v", err)
	}
}

func openDir(t testing.TB, fs vfs.FS) *Dir {
	t.Helper()
	d, err := OpenDir(fs, testDir, testRandom(1))
	if err != nil {
		t.Fatalf("open directory: %v", err)
	}
	return d
}

// newLog is a new log in a new directory.
func newLog(t testing.TB, fs vfs.FS, c Config) *Log {
	t.Helper()
	format(t, fs)
	l, err := openDir(t, fs).Create(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatalf("create log: %v", err)
	}
	return l
}

// reopen closes the log and its directory, in order or as after a kill, and opens them again.
func reopen(t testing.TB, fs vfs.FS, l *Log, clean bool) *Log {
	t.Helper()
	if clean {
		if err := l.Close(); err != nil {
			t.Fatalf("close log: %v", err)
		}
	}
	if err := l.Dir().Close(clean, 5); err != nil {
		t.Fatalf("close directory: %v", err)
	}
	d := openDir(t, fs)
	if d.WasClean() != clean {
		t.Fatalf("WasClean() = %v, want %v", d.WasClean(), clean)
	}
	l, err := d.Open(testTopic, testID, l.Config(), testStart)
	if err != nil {
		t.Fatalf("open log: %v", err)
	}
	return l
}

// batch has n records with the given timestamps, or growing ones, and values that name them.
func batch(n int, firstMs int64) record.Batch {
	var b record.Builder
	for i := range n {
		b.Add(fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte{byte(i)}, 20), nil, firstMs+int64(i))
	}
	return b.Build()
}

// idempotent has n records of a producer.
func idempotent(id kafka.ProducerID, sequence kafka.Sequence, n int, firstMs int64) record.Batch {
	b := record.Builder{Producer: &record.Producer{ID: id, BaseSequence: sequence}}
	for i := range n {
		b.Add(nil, bytes.Repeat([]byte{byte(i)}, 20), nil, firstMs+int64(i))
	}
	return b.Build()
}

func appendBatch(t testing.TB, l *Log, b record.Batch, epoch kafka.Epoch) Appended {
	t.Helper()
	a, err := l.Append(b, epoch, testStart)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	l.Producers().Apply(b, testStart)
	return a
}

// fill appends n batches of three records, all at one epoch.
func fill(t testing.TB, l *Log, n int, epoch kafka.Epoch) {
	t.Helper()
	for range n {
		appendBatch(t, l, batch(3, testStart.UnixMilli()+int64(l.EndOffset())), epoch)
	}
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	end, err := l.Flush()
	if err != nil || end != l.EndOffset() {
		t.Fatalf("Flush() = %d, %v, want %d", end, err, l.EndOffset())
	}
}

// contents reads all batches through Read, chunk by chunk of at most maxBytes.
func contents(t testing.TB, l *Log, maxBytes int) []record.Batch {
	t.Helper()
	var all []record.Batch
	at, bound := l.StartOffset(), l.EndOffset()
	for at < bound {
		chunk, err := l.Read(at, bound, maxBytes, true)
		if err != nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		if chunk.Len == 0 {
			t.Fatalf("read at %d up to %d: nothing", at, bound)
		}
		b := make([]byte, chunk.Len)
		if _, err := chunk.File.ReadAt(b, chunk.Pos); err != nil {
			t.Fatalf("read chunk: %v", err)
		}
		for len(b) > 0 {
			one, rest, err := record.Split(b)
			if err != nil {
				t.Fatalf("chunk at %d is not whole batches: %v", at, err)
			}
			if err := one.Check(); err != nil {
				t.Fatalf("batch at %d: %v", one.BaseOffset(), err)
			}
			all = append(all, one)
			b = rest
		}
		if last := all[len(all)-1]; chunk.Next < last.NextOffset() {
			t.Fatalf("chunk at %d ends with offset %d, Next is %d", at, last.LastOffset(), chunk.Next)
		}
		at = chunk.Next
		chunk.Release()
	}
	return all
}

// checkDense wants the log to hold every offset from start to end.
func checkDense(t testing.TB, l *Log, start, end kafka.Offset) {
	t.Helper()
	if l.StartOffset() != start || l.EndOffset() != end {
		t.Fatalf("the log has [%d, %d), want [%d, %d)", l.StartOffset(), l.EndOffset(), start, end)
	}
	next := kafka.NoOffset
	for _, b := range contents(t, l, 500) {
		if next >= 0 && b.BaseOffset() != next {
			t.Fatalf("offset %d follows %d", b.BaseOffset(), next-1)
		}
		next = b.NextOffset()
	}
	if start < end && next != end {
		t.Fatalf("the last batch ends at %d, want %d", next, end)
	}
	checkIndexes(t, l)
}

// checkIndexes compares what every offset and time finds with what a walk through all records finds.
func checkIndexes(t testing.TB, l *Log) {
	t.Helper()
	start, end := l.StartOffset(), l.EndOffset()
	var records []record.Record
	for b, err := range l.Batches(start) {
		if err != nil {
			t.Fatalf("batches: %v", err)
		}
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				t.Fatalf("records: %v", err)
			}
			if r.Offset >= start {
				records = append(records, record.Record{Offset: r.Offset, TimestampMs: r.TimestampMs})
			}
		}
		chunk, err := l.Read(max(start, b.LastOffset()), end, 1, true)
		if err != nil || chunk.Next != b.NextOffset() {
			t.Fatalf("Read(%d) = next %d, %v, want %d", b.LastOffset(), chunk.Next, err, b.NextOffset())
		}
		chunk.Release()
	}
	var largest record.Record
	for i, r := range records {
		if i == 0 || r.TimestampMs > largest.TimestampMs {
			largest = r
		}
		want := r
		for _, earlier := range records[:i] {
			if earlier.TimestampMs >= r.TimestampMs {
				want = earlier
				break
			}
		}
		got, ok, err := l.OffsetForTime(r.TimestampMs, end)
		if err != nil || !ok || got.Offset != want.Offset || got.TimestampMs != want.TimestampMs {
			t.Fatalf("OffsetForTime(%d) = %v, %v, %v, want offset %d", r.TimestampMs, got, ok, err, want.Offset)
		}
	}
	got, ok, err := l.MaxTimestamp(end)
	if err != nil || ok != (len(records) > 0) || ok && got.Offset != largest.Offset {
		t.Fatalf("MaxTimestamp() = %v, %v, %v, want offset %d", got, ok, err, largest.Offset)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// beginCompaction begins to clean all that is dirty.
func beginCompaction(t testing.TB, l *Log) *Compaction {
	t.Helper()
	found, err := l.Cleanable(testStart, l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Compact(found, CompactOptions{MapBytes: 1 << 20, MapLoadFactor: 0.9, BufferBytes: 1 << 16}, testStart)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
