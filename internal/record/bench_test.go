package record

import (
	"fmt"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/record/compress"
)

var benchCodecs = []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd}

// benchBatch is records whose values compress about threefold.
func benchBatch(c compress.Codec, n, size int) Batch {
	b := Builder{Compression: compress.Spec{Codec: c}}
	noise := random(1 << 20)
	value := make([]byte, size)
	for i := range n {
		for at := 0; at < size; at += 16 {
			copy(value[at:], fmt.Sprintf("%016x", i*31+at)[:8])
			copy(value[min(at+8, size):], noise[(i*size+at)%(1<<20-16):][:5])
		}
		b.Add(nil, value, nil, goodMs)
	}
	return b.Build()
}

// BenchmarkAdmit admits one batch of 1 KiB values per step: bytes per second are those of the values.
func BenchmarkAdmit(b *testing.B) {
	for _, shape := range []struct{ n, size int }{{1, 1024}, {16, 1024}, {160, 100}, {900, 1024}} {
		for _, c := range benchCodecs {
			b.Run(fmt.Sprintf("%dx%d/%s", shape.n, shape.size, c), func(b *testing.B) {
				batch := benchBatch(c, shape.n, shape.size)
				rules := kindRules("plain")
				b.SetBytes(int64(shape.n * shape.size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Admit(batch, rules); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(shape.n)/1000, "s/Mrecords")
				b.ReportMetric(float64(len(batch))/float64(shape.n*shape.size), "stored/value")
			})
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	for _, c := range benchCodecs {
		b.Run(c.String(), func(b *testing.B) {
			batch := benchBatch(c, 160, 100)
			b.SetBytes(16000)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range batch.Records(1 << 30) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkBuilder(b *testing.B) {
	for _, c := range benchCodecs {
		b.Run(c.String(), func(b *testing.B) {
			value := slices.Repeat([]byte("0123456789abcdef"), 64)
			builder := Builder{Compression: compress.Spec{Codec: c}}
			b.SetBytes(16 * 1024)
			b.ReportAllocs()
			for b.Loop() {
				for range 16 {
					builder.Add(nil, value, nil, goodMs)
				}
				builder.Build()
			}
		})
	}
}
