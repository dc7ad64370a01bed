package commitlog

import (
	"path/filepath"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// BenchmarkOpen opens many logs of 300 KB, in order and after a kill.
func BenchmarkOpen(b *testing.B) {
	const partitions = 1000
	for name, clean := range map[string]bool{"clean": true, "killed": false} {
		b.Run(name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "data")
			if err := FormatDir(vfs.OS(), dir, MetaProperties{ClusterID: "c", NodeID: 1, ID: kafka.UUID{1: 1}}); err != nil {
				b.Fatal(err)
			}
			d, err := OpenDir(vfs.OS(), dir, testRandom(1))
			if err != nil {
				b.Fatal(err)
			}
			big := batch(100, testStart.UnixMilli())
			for i := range partitions {
				l, err := d.Create(kafka.TopicPartition{Topic: "bench", Partition: int32(i)}, testID, DefaultConfig(), testStart)
				if err != nil {
					b.Fatal(err)
				}
				for range 80 {
					if _, err := l.Append(big, 0, testStart); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := d.SyncRecovered(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				closeAll(b, d, clean)
				b.StartTimer()
				if d, err = OpenDir(vfs.OS(), dir, testRandom(1)); err != nil {
					b.Fatal(err)
				}
				found, err := d.Partitions()
				if err != nil || len(found) != partitions {
					b.Fatal(len(found), err)
				}
				for _, tp := range found {
					id, err := d.TopicID(tp)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := d.Open(tp, id, DefaultConfig(), testStart); err != nil {
						b.Fatal(err)
					}
				}
				if err := d.SyncRecovered(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/partitions, "µs/partition")
		})
	}
}

func closeAll(b *testing.B, d *Dir, clean bool) {
	b.Helper()
	for _, l := range d.openLogs() {
		if clean {
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			continue
		}
		for _, s := range *l.segments.Load() {
			s.abandon()
		}
	}
	if err := d.Close(clean, 1); err != nil {
		b.Fatal(err)
	}
}
