package test

import (
	"context"
	bigendian "encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topic of these tests: transactions over several segments, in every codec. In partition 0 one stays open.
const (
	txnTopic      = "transfers"
	txnPartitions = 2
)

// TestTransactionsMoveBetweenKafkaAndRaftsman: what Apache Kafka 4.4 wrote with transactions committed, aborted and open is served
// by Raftsman as by Kafka, to every kind of reader and down to the fields of the answers; and the other way round, after clean
// stops and kills on both sides, and when the indexes are gone. What each leaves open, or decided and not told to all partitions, the other
// brings to its end.
func TestTransactionsMoveBetweenKafkaAndRaftsman(t *testing.T) {
	t.Parallel()
	k := kafkaHome{root: t.TempDir(), port: freePort(t)}
	data := filepath.Join(k.root, "data")
	k.start(t)
	w := newTxnWriter(t, k.addr())
	w.fill(t)
	view := viewTransactions(t, k.addr(), false)
	records := readAll(t, k.addr())
	w.check(t, "Kafka", records)
	k.stop(t)

	same := func(when string, ours bool) {
		t.Helper()
		if is := viewTransactions(t, k.addr(), ours); is != view {
			t.Errorf("%s: not as before:\n%s", when, difference(view, is))
		}
		if is := readAll(t, k.addr()); is != records {
			t.Errorf("%s: franz-go reads other records than before:\n%s", when, difference(records, is))
		}
	}
	p := k.raftsman(t)
	same("Raftsman after Kafka was stopped", true)
	if told := run(t, atLast, nil, binary(t), "topic", "describe", txnTopic, "-b", k.addr()); !strings.Contains(told, "partition 0 has a transaction open since offset ") ||
		strings.Contains(told, "partition 1 has a transaction open") {
		t.Errorf("topic describe does not tell of the open transaction of partition 0 alone:\n%s", told)
	}
	w.checkReaders(t, k)
	p.terminate()

	k.start(t)
	same("Kafka after Raftsman was stopped", false)
	w.reconnect(t, k.addr())
	w.fill(t)
	view, records = viewTransactions(t, k.addr(), false), readAll(t, k.addr())
	w.check(t, "Kafka", records)
	left := endings{TB: t, k: k}
	left.leave("kafka")
	run(t, atLast, nil, "kafka/kafka", "stop", k.root, "KILL")
	left.prepared()

	p = k.raftsman(t)
	left.check("Raftsman")
	same("Raftsman after Kafka was killed", true)
	w.plain(t)
	view, records = viewTransactions(t, k.addr(), true), readAll(t, k.addr())
	w.check(t, "Raftsman, after more records", records)
	p.kill()
	p = k.raftsman(t)
	same("Raftsman after it was killed", true)
	p.terminate()
	for _, suffix := range []string{".txnindex", ".snapshot"} {
		removeAll(t, data, suffix)
	}
	p = k.raftsman(t)
	same("Raftsman without transaction indexes and producer snapshots", true)
	p.terminate()
	// The one look with Kafka's tool, a JVM for each kind of log: at files that are all Raftsman's, or were kept by it.
	if counts := dumpAll(t, data); counts[".txnindex"] == 0 || counts[".snapshot"] == 0 {
		t.Errorf("dumped %v", counts)
	}
	removeAll(t, data, ".txnindex")
	p = k.raftsman(t)
	same("Raftsman without transaction indexes", true)
	left.leave("raftsman")
	p.kill()
	// A Kafka that starts after a kill believes that it leads until the session of the registration before has passed, and loads its
	// coordinators; then nobody leads, it takes the partitions for deleted and the transactions for complete, without their markers. So it
	// starts once before, and stops in order, which fences it.
	k.start(t)
	k.stop(t)
	if err := os.Remove(filepath.Join(data, ".kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	left.prepared()

	k.start(t)
	left.check("Kafka")
	same("Kafka after Raftsman was killed", false)
	k.stop(t)
}

// removeAll removes the topic's files of a kind.
func removeAll(t testing.TB, data, suffix string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, txnTopic+"-*", "*"+suffix))
	if err != nil || len(names) < 2 {
		t.Fatalf("%s: %v, %v", suffix, names, err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// txnWriter writes transactions and knows what readers must see.
type txnWriter struct {
	addr      string
	random    *rand.Rand
	clients   map[string]*kgo.Client // by transactional id
	n         int                    // of the next record
	committed [txnPartitions][]string
	all       [txnPartitions][]string
	open      bool // in partition 0: what is committed there from now on is not to be seen
}

func newTxnWriter(t testing.TB, addr string) *txnWriter {
	t.Helper()
	w := &txnWriter{addr: addr, random: rand.New(rand.NewPCG(1, 2))}
	segment, interval := "1048576", "4096"
	must(kadm.NewClient(crashClient(t, addr)).CreateTopics(t.Context(), txnPartitions, 1,
		map[string]*string{"segment.bytes": &segment, "index.interval.bytes": &interval}, txnTopic))(t)
	w.reconnect(t, addr)
	return w
}

// reconnect forgets the producers: their transactions stay as they are.
func (w *txnWriter) reconnect(_ testing.TB, addr string) {
	w.addr, w.clients = addr, map[string]*kgo.Client{}
}

var txnCodecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

func (w *txnWriter) client(t testing.TB, id string) *kgo.Client {
	t.Helper()
	if w.clients[id] == nil {
		options := []kgo.Opt{
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(txnCodecs[len(w.clients)%len(txnCodecs)]),
			kgo.ProducerLinger(5 * time.Millisecond),
		}
		if id != "" {
			options = append(options, kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
		}
		w.clients[id] = crashClient(t, w.addr, options...)
	}
	return w.clients[id]
}

// send writes records to a partition. The transaction of the id is begun before, and stays open.
func (w *txnWriter) send(t testing.TB, id string, partition int32, count int) (values []string) {
	t.Helper()
	cl := w.client(t, id)
	records := make([]*kgo.Record, count)
	for i := range records {
		value := fmt.Sprintf("%06d %s", w.n, id)
		w.n++
		filling := make([]byte, 6000)
		for at := 0; at < len(filling); at += 8 { // half of it can't be compressed
			bigendian.BigEndian.PutUint64(filling[at:], w.random.Uint64()&0xffffffff)
		}
		records[i] = &kgo.Record{Topic: txnTopic, Partition: partition, Value: slices.Concat([]byte(value+"\n"), filling)}
		values = append(values, value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	w.all[partition] = append(w.all[partition], values...)
	return values
}

func (w *txnWriter) begin(t testing.TB, id string) {
	t.Helper()
	if err := w.client(t, id).BeginTransaction(); err != nil {
		t.Fatal(err)
	}
}

func (w *txnWriter) end(t testing.TB, id string, how kgo.TransactionEndTry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	if err := w.client(t, id).EndTransaction(ctx, how); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
}

// whole writes a transaction over all partitions.
func (w *txnWriter) whole(t testing.TB, id string, how kgo.TransactionEndTry) {
	t.Helper()
	w.begin(t, id)
	var values [txnPartitions][]string
	for p := range values {
		values[p] = w.send(t, id, int32(p), 12)
	}
	w.end(t, id, how)
	for p := range values {
		if how == kgo.TryCommit {
			w.see(p, values[p])
		}
	}
}

func (w *txnWriter) see(partition int, values []string) {
	if partition != 0 || !w.open {
		w.committed[partition] = append(w.committed[partition], values...)
	}
}

// plain writes records outside of transactions.
func (w *txnWriter) plain(t testing.TB) {
	t.Helper()
	for p := range txnPartitions {
		w.see(p, w.send(t, "", int32(p), 20))
	}
}

// fill writes a long transaction that is aborted and a long one that is committed, around short ones of other producers, and
// leaves one open in partition 0 that began in the middle.
func (w *txnWriter) fill(t testing.TB) {
	t.Helper()
	w.plain(t)
	w.begin(t, "long")
	w.send(t, "long", 0, 3)
	w.send(t, "long", 1, 3)
	for range 5 {
		for n := range len(txnCodecs) {
			w.whole(t, fmt.Sprint("short-", n), []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort}[w.random.IntN(2)])
		}
		w.plain(t)
	}
	w.send(t, "long", 1, 3)
	w.end(t, "long", kgo.TryAbort)
	if !w.open {
		w.plain(t)
		w.begin(t, "open")
		w.send(t, "open", 0, 3)
		w.open = true
	}
	for n := range len(txnCodecs) {
		w.whole(t, fmt.Sprint("short-", n), []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit}[n%2])
	}
	w.plain(t)
	eventually(t, atLast, "all transactions but one have ended", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), atLast)
		defer cancel()
		cl := crashClient(t, w.addr)
		for p := range int32(txnPartitions) {
			told := strings.Join(describeProducers(ctx, t, cl, p), "\n")
			if open := strings.Count(told, "open from ") - strings.Count(told, "open from -1"); open != 1-int(p) {
				return fmt.Errorf("partition %d has %d open", p, open)
			}
		}
		return nil
	})
}

// recordsOf lists values by partition, as readAll does.
func recordsOf(level string, values [txnPartitions][]string) string {
	var b strings.Builder
	for p := range values {
		for _, v := range values[p] {
			fmt.Fprintln(&b, level, p, v)
		}
	}
	return b.String()
}

func (w *txnWriter) check(t testing.TB, who, got string) {
	t.Helper()
	if want := recordsOf("read_committed", w.committed) + recordsOf("read_uncommitted", w.all); got != want {
		t.Fatalf("%s does not give the records that were written:\n%s", who, difference(want, got))
	}
}

// checkReaders reads the topic as the clients of other makers do.
func (w *txnWriter) checkReaders(t testing.TB, k kafkaHome) {
	t.Helper()
	python := must(filepath.Abs(".deps/python/bin/python"))(t)
	for level, values := range map[string][txnPartitions][]string{"read_committed": w.committed, "read_uncommitted": w.all} {
		want := recordsOf(level, values)
		var got [txnPartitions][]string
		out := run(t, atLast, []string{"BOOTSTRAP=" + k.addr()}, python, "clients/python/isolated.py", txnTopic, strconv.Itoa(txnPartitions), level)
		lines(strings.NewReader(out), func(line string) {
			var r report
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("confluent-kafka printed %q: %v", line, err)
			}
			got[r.Partition] = append(got[r.Partition], *r.Value)
		})
		if got := recordsOf(level, got); got != want {
			t.Errorf("confluent-kafka, %s:\n%s", level, difference(want, got))
		}
		got = [txnPartitions][]string{}
		out = k.tool(t, "console-consumer", "--topic", txnTopic, "--from-beginning", "--isolation-level", level, "--max-messages", strconv.Itoa(strings.Count(want, "\n")), "--timeout-ms", "60000",
			"--group", fmt.Sprint("java-", w.random.Uint32()), "--formatter-property", "print.partition=true")
		for _, found := range javaRecord.FindAllStringSubmatch(out, -1) {
			p, _ := strconv.Atoi(found[1])
			got[p] = append(got[p], found[2])
		}
		if got := recordsOf(level, got); got != want {
			t.Errorf("Java's consumer, %s:\n%s", level, difference(want, got))
		}
	}
}

var javaRecord = regexp.MustCompile(`(?m)^.*Partition:(\d+)\t(\d{6} [a-z0-9-]*)$`)

// readAll reads the topic with franz-go to its end at both isolation levels.
func readAll(t testing.TB, addr string) string {
	t.Helper()
	adm := kadm.NewClient(crashClient(t, addr))
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	var told string
	for _, level := range []struct {
		name  string
		level kgo.IsolationLevel
		ends  func(context.Context, ...string) (kadm.ListedOffsets, error)
	}{{"read_committed", kgo.ReadCommitted(), adm.ListCommittedOffsets}, {"read_uncommitted", kgo.ReadUncommitted(), adm.ListEndOffsets}} {
		open, from := map[int32]int64{}, map[int32]kgo.Offset{}
		must(level.ends(ctx, txnTopic))(t).Each(func(o kadm.ListedOffset) {
			open[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().At(0)
		})
		reader := crashClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{txnTopic: from}),
			kgo.FetchIsolationLevel(level.level), kgo.KeepControlRecords())
		var values [txnPartitions][]string
		beyond := 0
		for len(open) > 0 {
			fetches := reader.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("%s: never read up to %v", level.name, open)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset >= open[r.Partition] && open[r.Partition] > 0 {
					beyond++
				}
				if !r.Attrs.IsControl() {
					value, _, _ := strings.Cut(string(r.Value), "\n")
					values[r.Partition] = append(values[r.Partition], value)
				}
			})
			fetches.EachPartition(func(p kgo.FetchTopicPartition) {
				if len(p.Records) > 0 && p.Records[len(p.Records)-1].Offset+1 >= open[p.Partition] {
					delete(open, p.Partition)
				}
			})
		}
		if beyond > 0 {
			t.Errorf("%s: %d records behind the end that ListOffsets told", level.name, beyond)
		}
		reader.Close()
		told += recordsOf(level.name, values)
	}
	return told
}
