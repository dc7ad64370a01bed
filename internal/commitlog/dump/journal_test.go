package dump

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestTheJournalIsShown: what a killed broker has left in it, entry by entry.
func TestTheJournalIsShown(t *testing.T) {
	fs, now := vfs.NewMemory(), time.UnixMilli(1_700_000_000_000)
	if err := commitlog.FormatDir(fs, "/data", commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.UUID{6: 0x40, 8: 0x80, 15: 1}}); err != nil {
		t.Fatal(err)
	}
	d, err := commitlog.OpenDir(fs, "/data", func(b []byte) { clear(b) })
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SyncRecovered(); err != nil {
		t.Fatal(err)
	}
	var logs []*commitlog.Log
	for i := range int32(4) {
		l, err := d.Create(kafka.TopicPartition{Topic: "orders", Partition: i}, kafka.TopicID{6: 0x40, 8: 0x80, 15: 7}, commitlog.DefaultConfig(), now)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	// The journal is made when it has proved worth it.
	for range 100 {
		for _, l := range logs {
			var b record.Builder
			b.Add([]byte("k"), []byte("v"), nil, now.UnixMilli())
			if _, err := l.Append(b.Build(), 0, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.FlushSmall(logs); err != nil {
			t.Fatal(err)
		}
		for _, l := range logs {
			if l.FlushedOffset() < l.EndOffset() {
				if _, err := l.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := logs[2].Truncate(99); err != nil {
		t.Fatal(err)
	}
	name := "/data/" + commitlog.JournalFile
	var out bytes.Buffer
	if err := Text(&out, fs, name, Options{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 10 || !strings.HasPrefix(lines[0], name+" (journal)") || !strings.HasPrefix(lines[1], "at 0  lap ") {
		t.Fatalf("%d lines, the first\n%s", len(lines), lines[0])
	}
	for part, want := range map[string]int{
		"partition 3  durable before up to 99  offsets 99 to 99  batches 1  bytes 70": 1,
		"partition 2  cut: earlier entries do not count":                              1,
	} {
		if got := strings.Count(out.String(), part); got != want {
			t.Errorf("%q is there %d times, want %d; the last lines\n%s", part, got, want, strings.Join(lines[len(lines)-5:], "\n"))
		}
	}
}
