package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCompactionLeavesWhatKafkasDoes gives one log to Apache Kafka's cleaner and to Raftsman's: keys written over and over, in
// every codec, tombstones, idempotent producers, transactions that were committed and aborted. After each of two rounds both must
// have the same batches with the same records, and Kafka must find no fault with what Raftsman wrote.
//
// RECORD_COMPACTION=DIR keeps the log as it was before the first round, and as Kafka left it: what is in
// internal/commitlog/testdata/compacted.
func TestCompactionLeavesWhatKafkasDoes(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := compacted{TB: t, rand: rand.New(rand.NewPCG(seed, 1))}
	theirs := kafkaHome{root: t.TempDir(), port: freePort(t), settings: []string{
		"log.cleaner.backoff.ms=100", "log.segment.delete.delay.ms=100", "log.initial.task.delay.ms=100",
	}}
	ours := kafkaHome{root: t.TempDir(), port: theirs.port}
	theirs.start(t)
	c.create(theirs.addr())
	c.fill(theirs.addr())
	c.late(theirs.addr())
	theirs.stop(t)
	c.record(theirs, "before")
	run(t, atLast, nil, "cp", "-a", theirs.root+"/.", ours.root)
	properties := filepath.Join(ours.root, "server.properties")
	content := string(must(os.ReadFile(properties))(t))
	write(t, properties, strings.ReplaceAll(content, theirs.root, ours.root))

	for round := 1; round <= 2; round++ {
		theirs.start(t)
		end := c.clean(theirs, round)
		theirs.stop(t)
		if round == 1 {
			c.record(theirs, "after")
		}
		p := ours.raftsman(t)
		if is := c.clean(ours, round); is != end {
			t.Fatalf("round %d: Raftsman's log ends at %d, Kafka's at %d", round, is, end)
		}
		p.terminate()
		kafkas, raftsmans := c.dump(theirs), c.dump(ours)
		if kafkas != raftsmans {
			t.Fatalf("round %d: Raftsman has not what Kafka has:\n%s", round, difference(kafkas, raftsmans))
		}
		t.Logf("round %d: %d lines of batches and records up to offset %d", round, strings.Count(kafkas, "\n"), end)
	}
	dumpAll(t, filepath.Join(ours.root, "data"))
	ours.start(t)
	records := committedRecords(t, ours.addr(), "compacted", contentOf)
	ours.stop(t)
	theirs.start(t)
	if want := committedRecords(t, theirs.addr(), "compacted", contentOf); records != want {
		t.Errorf("Kafka reads %.500s in what Raftsman left, %.500s in its own", records, want)
	}
	theirs.stop(t)
}

// compacted is the topic.
type compacted struct {
	testing.TB
	rand  *rand.Rand
	count int
}

// create makes the topic such that nothing is cleaned before it is asked for.
func (c *compacted) create(addr string) {
	c.Helper()
	settings := map[string]*string{}
	for name, value := range map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "delete.retention.ms": "0", "internal.segment.bytes": "4000",
		"file.delete.delay.ms": "100",
	} {
		settings[name] = &value
	}
	must(kadm.NewClient(crashClient(c, addr)).CreateTopics(c.Context(), 1, 1, settings, "compacted"))(c)
}

// fill writes with every kind of producer.
func (c *compacted) fill(addr string) {
	c.Helper()
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for i, codec := range codecs {
		options := []kgo.Opt{kgo.DefaultProduceTopic("compacted"), kgo.ProducerBatchCompression(codec)}
		plain := crashClient(c, addr, append(options, kgo.DisableIdempotentWrite())...)
		idempotent := crashClient(c, addr, options...)
		txn := crashClient(c, addr, append(options, kgo.TransactionalID(fmt.Sprint("writer ", i)))...)
		for range 6 {
			c.write(plain)
			c.write(idempotent)
			if err := txn.BeginTransaction(); err != nil {
				c.Fatal(err)
			}
			for range 1 + c.rand.IntN(3) {
				c.write(txn)
				c.write(plain)
			}
			if err := txn.EndTransaction(c.Context(), kgo.TransactionEndTry(c.rand.IntN(2) == 0)); err != nil {
				c.Fatal(err)
			}
		}
		plain.Close()
		idempotent.Close()
		txn.Close()
	}
}

// write sends a batch of a few records.
func (c *compacted) write(cl *kgo.Client) {
	c.Helper()
	var records []*kgo.Record
	for range 1 + c.rand.IntN(6) {
		c.count++
		r := kgo.KeyStringRecord(fmt.Sprint("key ", c.rand.IntN(60)), fmt.Sprintf("value %d %s", c.count, strings.Repeat("x", c.rand.IntN(100))))
		if c.rand.IntN(5) == 0 {
			r.Value = nil
		}
		if c.rand.IntN(3) == 0 {
			r.Headers = []kgo.RecordHeader{{Key: "n", Value: []byte(fmt.Sprint(c.count))}}
		}
		records = append(records, r)
	}
	if err := cl.ProduceSync(c.Context(), records...).FirstErr(); err != nil {
		c.Fatal(err)
	}
}

// late writes enough to begin a new segment.
func (c *compacted) late(addr string) {
	c.Helper()
	plain := crashClient(c, addr, kgo.DefaultProduceTopic("compacted"), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 60 {
		if err := plain.ProduceSync(c.Context(), kgo.KeyStringRecord(fmt.Sprint("late ", i%7), strings.Repeat("y", 200))).FirstErr(); err != nil {
			c.Fatal(err)
		}
	}
}

// record keeps the log of a broker that is stopped.
func (c *compacted) record(k kafkaHome, as string) {
	c.Helper()
	if dir := os.Getenv("RECORD_COMPACTION"); dir != "" {
		run(c, atLast, nil, "cp", "-r", filepath.Join(k.root, "data", "compacted-0"), filepath.Join(dir, as))
	}
}

// clean lets the broker that serves the address compact all but the active segment, once, and returns the log's end. The
// second round begins with some records more, which are the same for both brokers but for their time.
func (c *compacted) clean(k kafkaHome, round int) int64 {
	c.Helper()
	if round > 1 {
		c.late(k.addr())
	}
	adm := kadm.NewClient(crashClient(c, k.addr()))
	before := c.cleaned(k)
	c.setRatio(adm, "0")
	var last string
	eventually(c, atLast, "the log is clean", func() error {
		is := c.cleaned(k)
		if is == "" || is == before || is != last {
			defer func() { last = is }()
			return fmt.Errorf("cleaner-offset-checkpoint has %q, before %q", is, before)
		}
		return nil
	})
	c.setRatio(adm, "1")
	ends := must(adm.ListEndOffsets(c.Context(), "compacted"))(c)
	end, _ := ends.Lookup("compacted", 0)
	return end.Offset
}

// cleaned is the topic's line of cleaner-offset-checkpoint.
func (c *compacted) cleaned(k kafkaHome) string {
	content, _ := os.ReadFile(filepath.Join(k.root, "data", "cleaner-offset-checkpoint"))
	for line := range strings.SplitSeq(string(content), "\n") {
		if strings.HasPrefix(line, "compacted ") {
			return line
		}
	}
	return ""
}

func (c *compacted) setRatio(adm *kadm.Client, ratio string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), atLast)
	defer cancel()
	for _, r := range must(adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "min.cleanable.dirty.ratio", Value: &ratio}}, "compacted"))(c) {
		if r.Err != nil {
			c.Fatal(r.Err)
		}
	}
}

// differs is what may differ between two logs with the same records: where the bytes are, and when it was.
var differs = regexp.MustCompile(` position: \d+| (CreateTime|LogAppendTime): -?\d+| size: \d+| crc: \d+| partitionLeaderEpoch: \d+|deleteHorizonMs: OptionalLong\[\d+\]`)

// dump is every batch and record of a stopped broker's log, as Kafka's tool shows it.
func (c *compacted) dump(k kafkaHome) string {
	c.Helper()
	logs := must(filepath.Glob(filepath.Join(k.root, "data", "compacted-0", "*.log")))(c)
	out := run(c, atLast, nil, "kafka/kafka", "tool", "dump-log", "--print-data-log", "--files", strings.Join(logs, ","))
	var lines []string
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, "baseOffset:") || strings.HasPrefix(line, "|") {
			lines = append(lines, differs.ReplaceAllStringFunc(line, func(found string) string {
				if strings.HasPrefix(found, "deleteHorizonMs") {
					return "deleteHorizonMs: set"
				}
				return ""
			}))
		}
	}
	return strings.Join(lines, "\n")
}
