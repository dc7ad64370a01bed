package record

import (
	"bytes"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/record/compress"
)

// retainedFrom is a batch of four records: a value, a tombstone, a value with a header, a value.
func retainedFrom(codec compress.Codec) Batch {
	b := Builder{Compression: compress.Spec{Codec: codec}, Producer: &Producer{ID: 7, Epoch: 2, BaseSequence: 40}}
	b.Add([]byte("a"), []byte("1"), nil, 5000)
	b.Add([]byte("b"), nil, nil, 4000)
	b.Add([]byte("c"), []byte("3"), []Header{{Key: "h", Value: []byte("v")}}, 9000)
	b.Add([]byte("d"), []byte("4"), nil, 6000)
	built := b.Build()
	built.SetBaseOffset(100)
	built.SetLeaderEpoch(3)
	return built
}

func retain(t *testing.T, b Batch, r Retention) (Batch, int) {
	t.Helper()
	kept, n, err := b.Retain(r, 1<<20)
	if err != nil {
		t.Fatalf("retain: %v", err)
	}
	if kept != nil {
		if err := kept.Check(); err != nil {
			t.Fatalf("what is kept: %v", err)
		}
	}
	return kept, n
}

func keepKeys(keys string) func(Record) bool {
	return func(r Record) bool { return bytes.Contains([]byte(keys), r.Key) }
}

func TestRetainKeepsOffsetsAndSequences(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b := retainedFrom(codec)
		kept, n := retain(t, b, Retention{Keep: keepKeys("cd"), HorizonMs: 77})
		if n != 2 || kept.Count() != 2 || kept.BaseOffset() != 100 || kept.LastOffset() != 103 || kept.LastSequence() != b.LastSequence() ||
			kept.LeaderEpoch() != 3 || kept.Codec() != codec || kept.MaxTimestampMs() != 9000 || kept.HasDeleteHorizon() {
			t.Fatalf("codec %s: %d kept, header % x", codec, n, kept[:HeaderBytes])
		}
		var offsets []int64
		for r, err := range kept.Records(1 << 20) {
			if err != nil {
				t.Fatalf("codec %s: %v", codec, err)
			}
			offsets = append(offsets, int64(r.Offset), r.TimestampMs, int64(len(r.Headers)))
		}
		if want := []int64{102, 9000, 1, 103, 6000, 0}; !slices.Equal(offsets, want) {
			t.Fatalf("codec %s: offsets, times and headers %v, want %v", codec, offsets, want)
		}
	}
}

func TestRetainStampsTheDeleteHorizonOnce(t *testing.T) {
	kept, _ := retain(t, retainedFrom(compress.None), Retention{Keep: keepKeys("bd"), HorizonMs: 1_000_000})
	if ms, ok := kept.DeleteHorizonMs(); !ok || ms != 1_000_000 {
		t.Fatalf("delete horizon %d, %v", ms, ok)
	}
	for r := range kept.Records(1 << 20) {
		if want := map[string]int64{"b": 4000, "d": 6000}[string(r.Key)]; r.TimestampMs != want {
			t.Fatalf("record %s has time %d, want %d", r.Key, r.TimestampMs, want)
		}
	}
	again, _ := retain(t, kept, Retention{Keep: keepKeys("b"), HorizonMs: 2_000_000})
	if ms, ok := again.DeleteHorizonMs(); !ok || ms != 1_000_000 {
		t.Fatalf("the horizon moved to %d, %v", ms, ok)
	}
	if same, _ := retain(t, again, Retention{Keep: keepKeys("b"), HorizonMs: 2_000_000}); &same[0] != &again[0] {
		t.Fatal("a batch of which everything stays was written anew")
	}
}

func TestRetainEmptiesABatch(t *testing.T) {
	b := retainedFrom(compress.Zstd)
	if kept, _ := retain(t, b, Retention{}); kept != nil {
		t.Fatalf("%d bytes of a batch that nobody needs", len(kept))
	}
	kept, n := retain(t, b, Retention{KeepEmpty: true})
	if n != 0 || len(kept) != HeaderBytes || kept.Count() != 0 || kept.LastOffset() != 103 || kept.LastSequence() != 43 ||
		kept.Codec() != compress.None || kept.BaseTimestampMs() != -1 || kept.MaxTimestampMs() != 9000 || kept.RecordsMaxTimestampMs() != -1 {
		t.Fatalf("emptied: % x", kept)
	}
}
