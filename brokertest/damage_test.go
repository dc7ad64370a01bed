package brokertest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/broker"
)

// The directories that are damaged hold the partition hurt-0, whose records are known by their offsets, and three partitions of
// the topic well.
const (
	hurtFlushed = 300 // below the recovery point
	hurtRecords = 400
	wellRecords = 20
)

func hurtValue(offset int64) string {
	return fmt.Sprintf("%06d %s", offset, strings.Repeat("x", int(offset%90)))
}

// logged collects a broker's log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// damageBroker is a broker on a directory that may be damaged.
type damageBroker struct {
	testing.TB
	node *broker.Node
	log  *logged
}

func startOn(tb testing.TB, dir string, properties ...string) *damageBroker {
	tb.Helper()
	b := &damageBroker{TB: tb, log: &logged{}}
	p := map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": dir, "log.flush.offset.checkpoint.interval.ms": "3600000",
		"replica.high.watermark.checkpoint.interval.ms": "3600000", "raftsman.config.strict": "true", "auto.create.topics.enable": "false",
	}
	for _, property := range properties {
		name, value, _ := strings.Cut(property, "=")
		p[name] = value
	}
	node, err := broker.Start(tb.Context(), broker.Config{Properties: p, Log: slog.New(slog.NewTextHandler(b.log, nil))})
	if err != nil {
		tb.Fatalf("start on %s: %v", dir, err)
	}
	b.node = node
	return b
}

// stop ends it. A directory with damage is not marked as cleanly closed, which is told as an error.
func (b *damageBroker) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = b.node.Close(ctx)
}

func (b *damageBroker) client(options ...kgo.Opt) *kgo.Client {
	b.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.node.Addrs()[0].String()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.RecordRetries(1), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, options...)...)
	if err != nil {
		b.Fatal(err)
	}
	return cl
}

func (b *damageBroker) produce(topic string, partition int32, from, to int64) error {
	cl := b.client()
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for offset := from; offset < to; offset++ {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(hurtValue(offset))}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// read reads a partition from its first offset on, until it has so many records or is refused. Each record must be the one of its
// offset, and none may be left out.
func (b *damageBroker) read(topic string, partition int32, want int64) (int64, error) {
	b.Helper()
	cl := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}),
		kgo.KeepRetryableFetchErrors(), kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxPartitionBytes(5000))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	next := int64(0)
	for next < want {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next || string(r.Value) != hurtValue(r.Offset) {
				b.Errorf("%s-%d: offset %d has %q, want offset %d with %q", topic, partition, r.Offset, r.Value, next, hurtValue(next))
			}
			next = r.Offset + 1
		})
		if err := fetches.Err(); err != nil {
			return next, err
		}
	}
	return next, nil
}

// damagedDirs makes, once, a directory as after a clean stop, and one as after kill -9 with records that no checkpoint knows.
func damagedDirs(t *testing.T) (clean, killed string) {
	t.Helper()
	dir := t.TempDir()
	killed = t.TempDir()
	b := startOn(t, dir)
	cl := b.client()
	adm := kadm.NewClient(cl)
	small, interval := "3000", "200"
	for topic, partitions := range map[string]int32{"hurt": 1, "well": 3} {
		_, err := adm.CreateTopic(t.Context(), partitions, 1, map[string]*string{"internal.segment.bytes": &small, "index.interval.bytes": &interval}, topic)
		if err != nil {
			t.Fatal(err)
		}
	}
	cl.Close()
	for partition := range int32(3) {
		if err := b.produce("well", partition, 0, wellRecords); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.produce("hurt", 0, 0, hurtFlushed); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = startOn(t, dir)
	if err := b.produce("hurt", 0, hurtFlushed, hurtRecords); err != nil {
		t.Fatal(err)
	}
	copyDir(t, dir, killed)
	b.stop()
	return dir, killed
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case e.Name() == ".lock":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damage is done to the folder hurt-0, of which it knows the files by their ending, in order.
type damage struct {
	*testing.T
	folder string
}

func (d damage) files(suffix string) []string {
	d.Helper()
	found, err := filepath.Glob(filepath.Join(d.folder, "*"+suffix))
	if err != nil || len(found) == 0 {
		d.Fatalf("no %s in %s: %v", suffix, d.folder, err)
	}
	return found
}

// file is the i-th of an ending, from the end if i is negative.
func (d damage) file(suffix string, i int) string {
	d.Helper()
	found := d.files(suffix)
	if i < 0 {
		i += len(found)
	}
	return found[i]
}

func (d damage) change(name string, how func([]byte) []byte) {
	d.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(name, how(content), 0o644); err != nil {
		d.Fatal(err)
	}
}

// flipInPlace is for a file that a broker writes to.
func (d damage) flipInPlace(name string, at func([]byte) int) {
	d.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		d.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		d.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{content[at(content)] ^ 1<<3}, int64(at(content))); err != nil {
		d.Fatal(err)
	}
}

func (d damage) remove(names ...string) {
	d.Helper()
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			d.Fatal(err)
		}
	}
}

// segment is all files of the i-th segment.
func (d damage) segment(i int) []string {
	d.Helper()
	found, err := filepath.Glob(strings.TrimSuffix(d.file(".log", i), ".log") + ".*")
	if err != nil {
		d.Fatal(err)
	}
	return found
}

// batchAt is where the i-th batch of a segment begins.
func batchAt(content []byte, i int) int {
	at := 0
	for range i {
		at += 12 + int(binary.BigEndian.Uint32(content[at+8:]))
	}
	return at
}

func flip(at func([]byte) int) func([]byte) []byte {
	return func(content []byte) []byte {
		content[at(content)] ^= 1 << 3
		return content
	}
}

const anyState = "clean and killed"

// damageCases tell what comes of each kind of damage: the partition serves all its records, or it is refused and the broker's log
// has a line with the file; and when that shows.
var damageCases = []struct {
	name   string
	state  string // of the directory: clean, killed or anyState
	do     func(damage)
	names  string // in the line of the log; empty: the partition serves all
	kept   int64  // records that are served before it is refused; 0: it is refused from the start
	scrubs bool   // nothing but the scrub notices
}{
	{
		name: "a bit of a record in a closed segment", state: anyState, names: "00000000000000000000.log", scrubs: true,
		do: func(d damage) { d.change(d.file(".log", 0), flip(func(c []byte) int { return batchAt(c, 3) + 80 })) },
	},
	{
		name: "a base offset in a closed segment", state: anyState, names: "00000000000000000000.log", scrubs: true,
		do: func(d damage) { d.change(d.file(".log", 0), flip(func(c []byte) int { return batchAt(c, 3) + 6 })) },
	},
	{
		name: "a bit of a record in the active segment", state: "clean", names: ".log", scrubs: true,
		do: func(d damage) { d.change(d.file(".log", -1), flip(func([]byte) int { return 80 })) },
	},
	{
		name: "a bit below the recovery point of a killed broker", state: "killed", names: ".log",
		do: func(d damage) {
			i := slices.IndexFunc(d.files(".log"), func(name string) bool { return filepath.Base(name) > fmt.Sprintf("%020d.log", hurtFlushed) })
			d.change(d.file(".log", i-1), flip(func([]byte) int { return 80 }))
		},
	},
	{
		name: "a torn tail of a killed broker", state: "killed",
		do: func(d damage) { d.change(d.file(".log", -1), func(c []byte) []byte { return c[:len(c)-10] }) },
	},
	{
		name: "a tail of zeros behind the end", state: anyState,
		do: func(d damage) {
			d.change(d.file(".log", -1), func(c []byte) []byte { return append(c, make([]byte, 5000)...) })
		},
	},
	{
		name: "a flushed tail that is zeros", state: "clean", names: ".log",
		do: func(d damage) {
			d.change(d.file(".log", -1), func(c []byte) []byte { clear(c[len(c)-200:]); return c })
		},
	},
	{
		name: "a flushed tail that is cut off in a batch", state: "clean", names: ".log",
		do: func(d damage) { d.change(d.file(".log", -1), func(c []byte) []byte { return c[:len(c)-1] }) },
	},
	{
		name: "a flushed tail that is cut off between batches", state: "clean", names: ".log",
		do: func(d damage) { d.change(d.file(".log", -1), func(c []byte) []byte { return c[:batchAt(c, 1)] }) },
	},
	{
		name: "an active segment that is empty", state: "clean", names: ".log",
		do: func(d damage) { d.change(d.file(".log", -1), func([]byte) []byte { return nil }) },
	},
	{
		name: "a closed segment that is cut off", state: anyState, names: ".log", kept: 1,
		do: func(d damage) { d.change(d.file(".log", 1), func(c []byte) []byte { return c[:batchAt(c, 2)] }) },
	},
	{
		name: "the last segment is missing", state: "clean", names: ".log",
		do: func(d damage) { d.remove(d.segment(-1)...) },
	},
	{
		name: "a segment is missing from the middle", state: anyState, names: ".log", kept: 1,
		do: func(d damage) { d.remove(d.segment(2)...) },
	},
	{
		name: "a .log is missing from the middle", state: anyState, names: ".log",
		do: func(d damage) { d.remove(d.file(".log", 2)) },
	},
	{
		name: "the first segment is missing", state: "clean", names: ".log",
		do: func(d damage) { d.remove(d.segment(0)...) },
	},
	{
		name: "all segments are missing", state: anyState, names: "hurt-0",
		do: func(d damage) { d.remove(d.files(".log")...) },
	},
	{
		name: "strangers beside the segments", state: anyState,
		do: func(d damage) {
			for _, name := range []string{"notes.txt", "0001.log", "core", "00000000000000000007.log.bak", "00000000000000000009.index"} {
				if err := os.WriteFile(filepath.Join(d.folder, name), []byte("a stranger's\n"), 0o644); err != nil {
					d.Fatal(err)
				}
			}
			for _, name := range []string{filepath.Join(d.folder, "folder"), filepath.Join(d.folder, "..", "lost+found"), filepath.Join(d.folder, "..", "backup")} {
				if err := os.Mkdir(name, 0o755); err != nil {
					d.Fatal(err)
				}
			}
		},
	},
	{
		name: "bits of positions in an index", state: anyState,
		do: func(d damage) {
			for _, name := range d.files(".index") {
				d.change(name, func(c []byte) []byte {
					for at := 7; at < len(c); at += 16 {
						c[at] ^= 1 << 5
					}
					return c
				})
			}
		},
	},
	{
		name: "offsets in an index that are too small", state: anyState,
		do: func(d damage) {
			for _, name := range d.files(".index") {
				d.change(name, func(c []byte) []byte {
					for at := 3; at < len(c); at += 8 {
						c[at] = byte(1 + at/8)
					}
					return c
				})
			}
		},
	},
	{
		name: "indexes that are cut off", state: anyState,
		do: func(d damage) {
			for _, name := range append(d.files(".index"), d.files(".timeindex")...) {
				d.change(name, func(c []byte) []byte { return c[:len(c)/2] })
			}
		},
	},
	{
		name: "indexes of garbage and of zeros and none", state: anyState,
		do: func(d damage) {
			d.change(d.file(".index", 0), func(c []byte) []byte { return bytes.Repeat([]byte{0xaa}, len(c)) })
			d.change(d.file(".timeindex", 1), func(c []byte) []byte { return bytes.Repeat([]byte{0xaa}, len(c)) })
			d.change(d.file(".index", 2), func(c []byte) []byte { return make([]byte, len(c)) })
			d.remove(d.file(".timeindex", 3), d.file(".index", 4))
		},
	},
	{
		name: "what is made of records is garbage", state: anyState,
		do: func(d damage) {
			garbage := func(c []byte) []byte { return bytes.Repeat([]byte{0xaa}, len(c)) }
			for _, name := range append(d.files(".snapshot"), d.file("leader-epoch-checkpoint", 0)) {
				d.change(name, garbage)
			}
		},
	},
	{
		name: "the directory's checkpoints are garbage", state: anyState,
		do: func(d damage) {
			for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"} {
				if err := os.WriteFile(filepath.Join(d.folder, "..", name), []byte("garbage"), 0o644); err != nil {
					d.Fatal(err)
				}
			}
		},
	},
	{
		name: "recovery points behind the ends", state: "clean",
		do: func(d damage) {
			d.change(filepath.Join(d.folder, "..", "recovery-point-offset-checkpoint"), func(c []byte) []byte {
				return regexp.MustCompile(`(?m)^(\S+ \d+) (\d+)$`).ReplaceAll(c, []byte("$1 9$2"))
			})
		},
	},
	{
		name: "a log start behind the end", state: "clean", names: "log-start-offset-checkpoint",
		do: func(d damage) {
			if err := os.WriteFile(filepath.Join(d.folder, "..", "log-start-offset-checkpoint"), []byte("0\n1\nhurt 0 100000\n"), 0o644); err != nil {
				d.Fatal(err)
			}
		},
	},
	{
		name: "partition.metadata is garbage", state: anyState,
		do: func(d damage) {
			d.change(filepath.Join(d.folder, "partition.metadata"), func([]byte) []byte { return []byte("garbage") })
		},
	},
	{
		name: "a bit of the topic's id in partition.metadata", state: anyState, names: "partition.metadata",
		do: func(d damage) {
			d.change(filepath.Join(d.folder, "partition.metadata"), func(c []byte) []byte {
				const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
				for i := bytes.Index(c, []byte("topic_id: ")) + len("topic_id: "); ; i++ {
					if strings.IndexByte(digits, c[i]^1) >= 0 { // else it is no id any more, and made anew
						c[i] ^= 1
						return c
					}
				}
			})
		},
	},
}

// TestDamage starts a broker on a directory in which something is wrong. The partition serves exactly its records, or answers
// KAFKA_STORAGE_ERROR and is named in the log; all others serve in any case, and so does it after another start.
func TestDamage(t *testing.T) {
	clean, killed := damagedDirs(t)
	for _, c := range damageCases {
		for state, from := range map[string]string{"clean": clean, "killed": killed} {
			if !strings.Contains(c.state, state) {
				continue
			}
			t.Run(c.name+"/"+state, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				copyDir(t, from, dir)
				c.do(damage{t, filepath.Join(dir, "hurt-0")})
				properties := []string{"raftsman.log.scrub.bytes.per.second=0"}
				if c.scrubs {
					properties = []string{"raftsman.log.scrub.bytes.per.second=1000000000", "raftsman.log.scrub.interval.ms=1"}
				}
				for again := range 2 { // what was done at the first start must not hide it from the second
					if c.scrubs && again > 0 {
						properties = append(properties, "raftsman.log.scrub.bytes.per.second=0") // it knows
					}
					b := startOn(t, dir, properties...)
					b.checkDamage(c.names, c.kept, c.scrubs && again == 0)
					for partition := range int32(3) {
						if n, err := b.read("well", partition, wellRecords); err != nil {
							t.Errorf("well-%d: %d records, %v", partition, n, err)
						}
						if err := b.produce("well", partition, wellRecords, wellRecords+1); err != nil {
							t.Errorf("produce to well-%d: %v", partition, err)
						}
					}
					b.stop()
					if t.Failed() {
						t.Fatalf("the broker's log:\n%s", b.log)
					}
				}
			})
		}
	}
}

// checkDamage reads and writes the damaged partition.
func (b *damageBroker) checkDamage(names string, kept int64, scrubs bool) {
	b.Helper()
	if names == "" {
		if n, err := b.read("hurt", 0, hurtRecords); err != nil {
			b.Errorf("%d records, then %v; want all %d", n, err, hurtRecords)
		}
		return
	}
	if scrubs {
		b.waitFor(func() bool { return b.refusesHurt() })
	}
	n, err := b.read("hurt", 0, hurtRecords)
	switch {
	case !errors.Is(err, kerr.KafkaStorageError):
		b.Errorf("%d records, then %v; want KAFKA_STORAGE_ERROR", n, err)
	case n < kept || kept == 0 && n > 0:
		b.Errorf("%d records before the damage, want %d", n, kept)
	}
	if !b.refusesHurt() {
		b.Error("a produce is taken after the damage was met")
	}
	b.waitFor(func() bool { return b.told("hurt-0") }) // who finds the damage refuses first, and then tells
	lines := 0
	for line := range strings.Lines(b.log.String()) {
		if strings.Contains(line, "a partition is damaged") && strings.Contains(line, "hurt-0") && strings.Contains(line, names) &&
			strings.Contains(line, "byte=") && strings.Contains(line, "remedy=") {
			lines++
		}
	}
	if lines != 1 {
		b.Errorf("%d lines name %s, its byte and a remedy; want 1", lines, names)
	}
}

func (b *damageBroker) refusesHurt() bool {
	return errors.Is(b.produce("hurt", 0, hurtRecords, hurtRecords+1), kerr.KafkaStorageError)
}

// told tells whether the log says that a partition is damaged.
func (b *damageBroker) told(partition string) bool {
	for line := range strings.Lines(b.log.String()) {
		if strings.Contains(line, "a partition is damaged") && strings.Contains(line, "partition="+partition+" ") {
			return true
		}
	}
	return false
}

func (b *damageBroker) waitFor(done func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("in vain; the broker's log:\n%s", b.log)
		}
	}
}

// TestDamageThatIsMendedIsServed: a file that comes back from a backup takes the partition back into use, at the next start.
func TestDamageThatIsMendedIsServed(t *testing.T) {
	_, dir := damagedDirs(t)
	d := damage{t, filepath.Join(dir, "hurt-0")}
	name := d.file(".log", 1)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d.change(name, flip(func(c []byte) int { return batchAt(c, 2) + 70 }))
	b := startOn(t, dir, "raftsman.log.scrub.bytes.per.second=1000000000", "raftsman.log.scrub.interval.ms=1")
	b.waitFor(b.refusesHurt)
	b.stop()
	d.change(name, func([]byte) []byte { return whole })
	b = startOn(t, dir)
	defer b.stop()
	if n, err := b.read("hurt", 0, hurtRecords); err != nil || !strings.Contains(b.log.String(), "is whole again") {
		t.Errorf("%d records, %v; the broker's log:\n%s", n, err, b.log)
	}
	if _, err := os.Stat(filepath.Join(d.folder, "raftsman.damaged")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("raftsman.damaged is still there: %v", err)
	}
}

// TestAFileThatVanishesIsItsPartitionsDamage, while the broker serves: the directory stays in use.
func TestAFileThatVanishesIsItsPartitionsDamage(t *testing.T) {
	dir, _ := damagedDirs(t)
	b := startOn(t, dir, "raftsman.log.scrub.bytes.per.second=0")
	defer b.stop()
	if _, err := kadm.NewClient(b.client()).ListStartOffsets(t.Context(), "hurt"); err != nil { // opens the log
		t.Fatal(err)
	}
	d := damage{t, filepath.Join(dir, "hurt-0")}
	d.remove(d.file(".log", 2))
	b.checkDamage(".log", 1, false)
	for partition := range int32(3) {
		if n, err := b.read("well", partition, wellRecords); err != nil {
			t.Errorf("well-%d: %d records, %v", partition, n, err)
		}
		if err := b.produce("well", partition, wellRecords, wellRecords+1); err != nil {
			t.Errorf("produce to well-%d: %v", partition, err)
		}
	}
}

// TestDamageInTheMetadataLogIsTold: the node serves on, and what it has in memory is in a snapshot, so that the next start can do without
// the segment.
func TestDamageInTheMetadataLogIsTold(t *testing.T) {
	dir, _ := damagedDirs(t)
	d := damage{t, filepath.Join(dir, "__cluster_metadata-0")}
	segment := d.file(".log", 0)
	b := startOn(t, dir, "raftsman.log.scrub.bytes.per.second=1000000000", "raftsman.log.scrub.interval.ms=1")
	d.flipInPlace(segment, func(c []byte) int { return batchAt(c, 2) + 70 })
	b.waitFor(func() bool { return strings.Contains(b.log.String(), "the metadata log is damaged") })
	for line := range strings.Lines(b.log.String()) {
		if strings.Contains(line, "the metadata log is damaged") &&
			(!strings.Contains(line, segment) || !strings.Contains(line, "byte=") || !strings.Contains(line, "move the segment's files away")) {
			t.Errorf("it tells: %s", line)
		}
	}
	cl := b.client()
	if _, err := kadm.NewClient(cl).CreateTopics(t.Context(), 1, 1, nil, "later"); err != nil {
		t.Errorf("create a topic: %v", err)
	}
	cl.Close()
	b.stop()
	if n := strings.Count(b.log.String(), "the metadata log is damaged"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	d.remove(d.segment(0)...)
	b = startOn(t, dir, "raftsman.log.scrub.bytes.per.second=0")
	defer b.stop()
	if err := b.produce("later", 0, 0, 1); err != nil {
		t.Errorf("produce to the later topic: %v", err)
	}
	if n, err := b.read("well", 0, wellRecords); err != nil {
		t.Errorf("%d records, %v; the broker's log:\n%s", n, err, b.log)
	}
}
