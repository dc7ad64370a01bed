package commitlog

import (
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestFewFilesServeManyLogs: files are closed to open others, also such as hold what is not flushed, and nothing of it is lost.
func TestFewFilesServeManyLogs(t *testing.T) {
	disk := faultfs.NewDisk(1)
	format(t, disk)
	d := openDir(t, disk)
	const logs, limit = 40, 3
	d.LimitFiles(limit)
	all := make([]*Log, logs)
	for i := range all {
		tp := kafka.TopicPartition{Topic: "t", Partition: int32(i)}
		l, err := d.Create(tp, kafka.TopicID{1}, smallConfig(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		all[i] = l
	}
	for range 5 {
		for _, l := range all {
			appendBatch(t, l, batch(2, 1000), 0)
		}
		if open := len(d.files.open); open > limit {
			t.Fatalf("%d files are open, want %d at most", open, limit)
		}
	}
	for _, l := range all {
		flush(t, l)
	}
	disk.Restart()
	d = openDir(t, disk)
	d.LimitFiles(limit)
	for _, l := range all {
		again, err := d.Open(l.Partition(), kafka.TopicID{1}, smallConfig(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		checkDense(t, again, 0, 10)
	}
	if open := len(d.files.open); open > limit {
		t.Errorf("%d files are open after the start, want %d at most", open, limit)
	}
}
