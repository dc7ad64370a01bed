package commitlog

import (
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestTheLargestTimestampIsOfARecord: compaction leaves the header of a producer's last batch, with its timestamp, when the record
// is superseded. Nobody may be sent to it, also not where the log begins in the middle of the segment.
func TestTheLargestTimestampIsOfARecord(t *testing.T) {
	c := smallConfig()
	c.SegmentBytes, c.Compact, c.Delete = 300, true, false
	l := newLog(t, vfs.NewMemory(), c)
	for i, r := range []struct {
		key string
		ms  int64
	}{{"first", 10}, {"again", 9000}, {"again", 50}, {"in a new segment", 1}} {
		b := record.Builder{Producer: &record.Producer{ID: kafka.ProducerID(i)}}
		b.Add([]byte(r.key), make([]byte, 20), nil, r.ms)
		appendBatch(t, l, b.Build(), 0)
	}
	flush(t, l)
	found, err := l.Cleanable(testStart, l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	compaction, err := l.Compact(found, CompactOptions{MapBytes: 1 << 16, MapLoadFactor: 0.9, BufferBytes: 1000, Producers: l.Producers().Lasts()}, testStart)
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if _, done, err = compaction.Step(1 << 20); err != nil {
			t.Fatal(err)
		}
	}
	compaction.Close()
	if kept := contents(t, l, 1<<20); len(kept) != 4 || kept[1].Count() != 0 || kept[1].MaxTimestampMs() != 9000 {
		t.Fatalf("compaction left other batches than this test is about: %d", len(kept))
	}
	for _, start := range []kafka.Offset{0, 1} {
		if err := l.SetStart(start); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := l.MaxTimestamp(l.EndOffset()); err != nil || !ok || got.Offset != 2 || got.TimestampMs != 50 {
			t.Errorf("from %d on: MaxTimestamp() = %+v, %v, %v, want offset 2 at 50", start, got, ok, err)
		}
	}
}
