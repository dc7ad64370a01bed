package commitlog

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// What these tests compare with is a directory that Apache Kafka 4.4 wrote.
const kafkaDir = "testdata/kafka"

var fixture = kafka.TopicPartition{Topic: "fixture", Partition: 0}

// kafkaWrote copies the directory into memory.
func kafkaWrote(t testing.TB) *vfs.Memory {
	t.Helper()
	fs := vfs.NewMemory()
	err := filepath.WalkDir(kafkaDir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(kafkaDir, name)
		if err != nil {
			return err
		}
		to := filepath.Join(testDir, rel)
		if e.IsDir() {
			return fs.MkdirAll(to)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return vfs.WriteFile(fs, to, content)
	})
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func fixtureConfig() Config {
	c := DefaultConfig()
	c.SegmentMs, c.IndexIntervalBytes, c.RetentionMs = 200, 100, -1
	return c
}

func topicIDOf(t testing.TB, d *Dir, tp kafka.TopicPartition) kafka.TopicID {
	t.Helper()
	found, err := d.Partitions()
	if err != nil || !slices.Contains(found, tp) {
		t.Fatalf("%s is not among %v (%v)", tp, found, err)
	}
	id, err := d.TopicID(tp)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestOpensADirectoryThatKafkaClosed(t *testing.T) {
	fs := kafkaWrote(t)
	d := openDir(t, fs)
	if !d.WasClean() || d.PreviousBrokerEpoch() != 15 || d.ID().String() != "ej0ZkUB6RyuG_v2cIKNrcA" || d.Meta().NodeID != 1 {
		t.Errorf("clean %v, broker epoch %d, id %s, %+v", d.WasClean(), d.PreviousBrokerEpoch(), d.ID(), d.Meta())
	}
	l, err := d.Open(fixture, topicIDOf(t, d, fixture), fixtureConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	checkDense(t, l, 0, 80)
	if l.HighWatermark() != 80 || l.LatestEpoch() != 0 || l.Producers().Len() != 20 {
		t.Errorf("high watermark %d, epoch %d, %d producers, want 80, 0, 20", l.HighWatermark(), l.LatestEpoch(), l.Producers().Len())
	}
	if notes := d.Notes(); len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestWritesTheBytesThatKafkaWrote appends Kafka's batches to a new log: every file must come out the same.
func TestWritesTheBytesThatKafkaWrote(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	d := openDir(t, fs)
	l, err := d.Create(fixture, topicIDOf(t, openDir(t, kafkaWrote(t)), fixture), fixtureConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"00", "20", "40", "60"} {
		content, err := os.ReadFile(filepath.Join(kafkaDir, "fixture-0", strings.Repeat("0", 18)+base+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for len(content) > 0 {
			var b record.Batch
			if b, content, err = record.Split(content); err != nil {
				t.Fatal(err)
			}
			if _, err := l.AppendAsFollower(b, testStart); err != nil {
				t.Fatal(err)
			}
			l.Producers().Apply(b, testStart)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	compareFolders(t, fs, "fixture-0")
}

func TestRecoversWhatKafkaLeftWhenItWasKilled(t *testing.T) {
	for tp, c := range map[kafka.TopicPartition]Config{fixture: fixtureConfig(), {Topic: "txns", Partition: 0}: DefaultConfig()} {
		t.Run(tp.Topic, func(t *testing.T) {
			fs := kafkaWrote(t)
			folder := filepath.Join(testDir, tp.String())
			entries, err := fs.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries { // all but the batches
				if !strings.HasSuffix(e.Name, ".log") && e.Name != PartitionMetadataFile {
					if err := fs.Remove(filepath.Join(folder, e.Name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, name := range []string{CleanShutdownFile, RecoveryPointFile} {
				if err := fs.Remove(filepath.Join(testDir, name)); err != nil {
					t.Fatal(err)
				}
			}
			d := openDir(t, fs)
			l, err := d.Open(tp, topicIDOf(t, d, tp), c, testStart)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := d.WriteCheckpoints(); err != nil {
				t.Fatal(err)
			}
			compareFolders(t, fs, tp.String())
		})
	}
}

func TestAbortedTransactionsOfARange(t *testing.T) {
	d := openDir(t, kafkaWrote(t))
	tp := kafka.TopicPartition{Topic: "txns"}
	l, err := d.Open(tp, topicIDOf(t, d, tp), DefaultConfig(), testStart)
	if err != nil {
		t.Fatal(err)
	}
	first, second := AbortedTxn{0, 0, 3, 4}, AbortedTxn{0, 8, 11, 12}
	for _, c := range []struct {
		from, to kafka.Offset
		want     []AbortedTxn
	}{{0, 12, []AbortedTxn{first, second}}, {0, 4, []AbortedTxn{first}}, {3, 8, []AbortedTxn{first}}, {4, 8, nil}, {4, 9, []AbortedTxn{second}}} {
		got, err := l.AbortedTxns(c.from, c.to)
		if err != nil || !slices.EqualFunc(got, c.want, func(a, b AbortedTxn) bool {
			return a.FirstOffset == b.FirstOffset && a.LastOffset == b.LastOffset && a.LastStable == b.LastStable
		}) {
			t.Errorf("AbortedTxns(%d, %d) = %v, %v, want %v", c.from, c.to, got, err, c.want)
		}
	}
	if err := l.Truncate(9); err != nil {
		t.Fatal(err)
	}
	if got, err := l.AbortedTxns(0, 100); err != nil || len(got) != 1 {
		t.Errorf("after the second marker was cut off: %v, %v", got, err)
	}
}

// compareFolders wants the files of a partition to be those that Kafka wrote. Snapshots may hold more than Kafka's, and are
// compared by what they say.
func compareFolders(t *testing.T, fs vfs.FS, folder string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(kafkaDir, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want, err := os.ReadFile(filepath.Join(kafkaDir, folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := vfs.ReadFile(fs, filepath.Join(testDir, folder, e.Name()))
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		if strings.HasSuffix(e.Name(), snapshotSuffix) {
			compareSnapshots(t, e.Name(), got, want)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, Kafka wrote\n%x", e.Name(), got, want)
		}
	}
}

func compareSnapshots(t *testing.T, name string, got, want []byte) {
	t.Helper()
	ours, err := producer.Decode(got)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	kafkas, err := producer.Decode(want)
	if err != nil {
		t.Fatalf("%s of Kafka: %v", name, err)
	}
	a, b := ours.Producers(), kafkas.Producers()
	if len(a) != len(b) {
		t.Fatalf("%s: %d producers, Kafka has %d", name, len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("%s: producer %+v, Kafka has %+v", name, a[i], b[i])
		}
	}
}

func TestFilesOfADirectoryRoundTrip(t *testing.T) {
	for _, name := range []string{RecoveryPointFile, LogStartFile, HighWatermarkFile, CleanerFile} {
		content, err := os.ReadFile(filepath.Join(kafkaDir, name))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := ParseOffsets(content)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		offsets := make(map[kafka.TopicPartition]kafka.Offset)
		for _, e := range entries {
			offsets[e.TopicPartition] = e.Offset
		}
		again, err := ParseOffsets(formatOffsets(slices.SortedFunc(maps.Keys(offsets), kafka.TopicPartition.Compare), offsets))
		if err != nil || len(again) != len(entries) {
			t.Errorf("%s: %d entries, written again %d, %v", name, len(entries), len(again), err)
		}
	}
}

func TestDamagedTextFilesAreRefused(t *testing.T) {
	for _, content := range []string{
		"0", "0\n", "1\n0\n", "0\n1\n", "0\n0\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "0\n1\na 0 -1\n", "0\n1\na 0 1", "\x00\x00\x00",
	} {
		if _, err := ParseOffsets([]byte(content)); err == nil {
			t.Errorf("ParseOffsets(%q): no error", content)
		}
	}
	for _, content := range []string{"0\n2\n1 5\n1 6\n", "0\n2\n1 5\n2 5\n", "0\n1\n-1 5\n", "0\n1\n1 5 6\n"} {
		if _, err := ParseEpochs([]byte(content)); err == nil {
			t.Errorf("ParseEpochs(%q): no error", content)
		}
	}
	for _, content := range []string{"", "node.id=1\n", "version=2\nnode.id=1\n", "version=1\nnode.id=x\n", "version=1\nnode.id=1\ndirectory.id=x\n"} {
		if _, err := ParseMetaProperties([]byte(content)); err == nil {
			t.Errorf("ParseMetaProperties(%q): no error", content)
		}
	}
	for _, content := range []string{"", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version: 0\n", "version: 0\ntopic_id: A"} {
		if _, err := ParsePartitionMetadata([]byte(content)); err == nil {
			t.Errorf("ParsePartitionMetadata(%q): no error", content)
		}
	}
}
