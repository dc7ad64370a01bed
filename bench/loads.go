package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// row is one line of the table: a load, and the figures that a turn of it gives.
type row struct {
	name    string
	title   string
	figures []figure
	nodes   int  // how many each broker has; 0: one
	cold    bool // the load starts the broker itself
	alone   bool // only Raftsman has it: bounds are those of its medians
	asked   bool // it runs only where its name is asked for: it takes hours beside Kafka
	turn    func(ctx context.Context, b *broker, scale float64) (map[string]float64, error)
}

// figure is one number of a row. Less is better unless more is set; bound is what the ratio to Kafka's must reach, or
// the median of a row that only Raftsman has.
type figure struct {
	name, unit string
	more       bool
	bound      float64 // 0: none
}

const (
	cpu     = "broker CPU"
	machine = "machine CPU"
	loadCPU = "load's CPU"
	written = "device bytes"
)

var rows = []row{
	{
		name: "produce-1k", title: "produce, 1 KiB values, acks=all, 6 partitions",
		figures: []figure{{"throughput", "MB/s", true, 1}, {cpu, "s/GB", false, 0.5}, {machine, "s/GB", false, 0}, {written, "per byte", false, 0}},
		turn:    produceRow(1024, 1<<30, nil),
	},
	{
		name: "produce-100b", title: "produce, 100 B values, acks=all, 6 partitions",
		figures: []figure{{"throughput", "records/s", true, 1}, {cpu, "s/million", false, 0.5}, {machine, "s/million", false, 0}},
		turn:    produceRow(100, 400<<20, nil),
	},
	{
		name: "produce-zstd", title: "produce, 1 KiB values, zstd",
		figures: []figure{{"throughput", "MB/s", true, 1}, {cpu, "s/GB", false, 0}, {machine, "s/GB", false, 0}},
		turn:    produceRow(1024, 400<<20, []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression())}),
	},
	{
		name: "consume-1k", title: "consume, 1 KiB values, 6 partitions",
		figures: []figure{{"throughput", "MB/s", true, 1}, {cpu, "s/GB", false, 1}, {machine, "s/GB", false, 0}},
		turn:    consumeRow(1024, 1<<30),
	},
	{
		name: "unbatched", title: "produce to consume, 2,000 records/s, each alone in its requests",
		figures: []figure{
			{cpu, "µs/record", false, 1.0 / 3},
			{machine, "µs/record", false, 0},
			{"p50", "ms", false, 0},
			{"p99", "ms", false, 0},
			{"rate", "records/s", true, 0},
			{"fetches", "per record", false, 0},
		},
		turn: unbatched,
	},
	{
		name: "tail", title: "four tailing readers of 20 MB/s, 1 KiB values",
		figures: []figure{{cpu, "s/GB read", false, 0.7}, {machine, "s/GB read", false, 0}},
		turn:    tailed,
	},
	{
		name: "mixed", title: "4,000 records/s, followed, read again, compacted and retained",
		figures: []figure{{"p50", "ms", false, 0}, {"p99", "ms", false, 0}, {"p99.9", "ms", false, 0}, {cpu, "of a processor", false, 0}},
		turn:    mixed,
	},
	{
		name: "flush", title: "every acknowledgement flushed to disk, 60 partitions",
		figures: []figure{{"throughput", "records/s", true, 10}, {cpu, "µs/record", false, 0}},
		turn:    flushedRow(60),
	},
	{
		name: "flush-1000", title: "every acknowledgement flushed to disk, 1,000 partitions",
		figures: []figure{{"throughput", "records/s", true, 10}, {cpu, "µs/record", false, 0}},
		turn:    flushedRow(1000),
	},
	{
		name: "commits-16", title: "offset commits of 16 groups, each on its connection and one at a time",
		figures: commitFigures(0, 0),
		turn:    commitRow(commitLoad{groups: 16, connections: 16, inFlight: 1, partitions: 1, requests: 16_000}),
	},
	{
		name: "commits-256", title: "offset commits of 256 groups, each on its connection and one at a time",
		figures: commitFigures(0, 0),
		turn:    commitRow(commitLoad{groups: 256, connections: 256, inFlight: 1, partitions: 1, requests: 64_000}),
	},
	{
		name: "commits-piped", title: "offset commits of 256 groups on 16 connections, 16 in flight on each",
		figures: commitFigures(5, 0.2),
		turn:    commitRow(commitLoad{groups: 256, connections: 16, inFlight: 16, partitions: 1, requests: 100_000}),
	},
	{
		name: "commits-wide", title: "the same with 10 partitions in each commit",
		figures: commitFigures(5, 0.2),
		turn:    commitRow(commitLoad{groups: 256, connections: 16, inFlight: 16, partitions: 10, requests: 60_000}),
	},
	{
		name: "transactions", title: "transactions of 100 records over 6 partitions, 16 producers, all flushed to disk",
		figures: transactionFigures(),
		turn:    transactionRow(transactionLoad{producers: 16, transactions: 4000, records: 100, size: 100}),
	},
	{
		name: "transactions-alone", title: "the same, one producer",
		figures: transactionFigures(),
		turn:    transactionRow(transactionLoad{producers: 1, transactions: 500, records: 100, size: 100}),
	},
	{
		name: "consume-committed", title: "consume committed records, 1 KiB values, 8,700 transactions, one of ten aborted",
		figures: []figure{{"throughput", "MB/s", true, 1}, {cpu, "s/GB", false, 1}, {machine, "s/GB", false, 0}},
		turn:    committedRow(transactionLoad{producers: 16, transactions: 8700, records: 120, size: 1024, abortEvery: 10}),
	},
	{
		name: "groups-classic", title: "a group on 1,000 partitions, classic protocol", figures: groupFigures, turn: groupRow("classic"),
	},
	{
		name: "groups-consumer", title: "a group on 1,000 partitions, consumer protocol", figures: groupFigures, turn: groupRow("consumer"),
	},
	{
		name: "connections", title: "new connections",
		figures: []figure{{cpu, "ms/connection", false, 0}},
		turn:    connections,
	},
	{
		name: "start", title: "empty start to the first acknowledged record; then idle", cold: true,
		figures: []figure{{"start", "s", false, 0}, {"idle memory", "MB", false, 0}},
		turn:    start,
	},
	{
		name: "scrape", title: "a scrape of /metrics, 5,000 open partitions and 200 groups", cold: true, alone: true,
		figures: scrapeFigures,
		turn:    scrapeRow,
	},
	{
		name: "restart", title: "restart with 5,000 partitions and 2 GB", cold: true,
		figures: restartFigures,
		turn:    restartRow(5000, 2<<30),
	},
	{
		name: "many", title: "restart with 100,000 partitions", cold: true, asked: true,
		figures: restartFigures,
		turn:    restartRow(100_000, 100<<20),
	},
	{
		name: "cluster-produce", title: "three nodes, three replicas: produce, 1 KiB values, acks=all; then 2,000 records/s", nodes: 3,
		figures: []figure{
			{"throughput", "MB/s", true, 1},
			{cpu, "s/GB", false, 0.4},
			{machine, "s/GB", false, 0},
			{"p50", "ms", false, 0},
			{"p99", "ms", false, 1},
			{"memory", "MB", false, 0},
		},
		turn: clusterRow(1024, 200<<20),
	},
	{
		name: "cluster-failover", title: "three nodes: longest time without an acknowledgement in a partition when a node ends", nodes: 3, cold: true,
		figures: []figure{{"leader, kill -9", "s", false, 0.2}, {"controller, kill -9", "s", false, 0.2}, {"leader, in order", "s", false, 0}},
		turn:    failover,
	},
	{
		name: "cluster-catch-up", title: "three nodes: one that was away gets 2 GB", nodes: 3, cold: true,
		figures: []figure{{"speed", "MB/s", true, 1}, {"in sync again", "s", false, 0}, {"served again", "s", false, 0}},
		turn:    catchUp(2 << 30),
	},
	{
		name: "cluster-many", title: "three nodes: 10,000 partitions with three replicas each", nodes: 3, cold: true,
		figures: []figure{{"created", "s", false, 0}, {"all led", "s", false, 0}, {"memory", "MB", false, 0}, {"all led after kill -9", "s", false, 0}},
		turn:    manyReplicas(10_000),
	},
}

const partitions = 6

// values returns different values of a size, which zstd makes about three times smaller.
func values(size int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 512)
	for i := range words {
		words[i] = strconv.FormatUint(random.Uint64()>>(random.Uint64()%30), 36)
	}
	all := make([][]byte, 4096)
	for i := range all {
		value := make([]byte, 0, size+16)
		for len(value) < size {
			value = append(value, `,"`...)
			value = append(value, words[random.IntN(len(words))]...)
			value = append(value, `":`...)
			value = strconv.AppendUint(value, random.Uint64N(1_000_000), 10)
		}
		all[i] = value[:size]
	}
	return all
}

var topicCount atomic.Int64

// newTopic creates a topic and returns what deletes it.
func newTopic(ctx context.Context, b *broker, count int32, configs map[string]*string) (string, func(), error) {
	name := fmt.Sprintf("bench-%d", topicCount.Add(1))
	cl, err := b.client()
	if err != nil {
		return "", nil, err
	}
	admin := kadm.NewClient(cl)
	all := map[string]*string{"file.delete.delay.ms": new("100")} // its files are gone before the next turn
	maps.Copy(all, configs)
	if _, err := admin.CreateTopic(ctx, count, int16(len(b.nodes)), all, name); err != nil {
		cl.Close()
		return "", nil, err
	}
	if err := led(ctx, admin, name); err != nil {
		cl.Close()
		return "", nil, err
	}
	return name, func() {
		_, _ = admin.DeleteTopic(ctx, name)
		cl.Close()
	}, nil
}

// led waits until every partition of a topic has a leader that knows of it: Kafka answers before that when it makes one.
func led(ctx context.Context, admin *kadm.Client, topic string) error {
	for {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err = cmp.Or(err, ends.Error()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has no leaders: %w", topic, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// fill produces count values, cycling through all, and returns when they are acknowledged.
func fill(ctx context.Context, b *broker, topic string, all [][]byte, count int, opts ...kgo.Opt) error {
	cl, err := b.client(append([]kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(5 * time.Millisecond), kgo.MaxBufferedRecords(50_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
	}, opts...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	records := make([]kgo.Record, 0, 4096)
	for i := range count {
		if len(records) == cap(records) {
			records = make([]kgo.Record, 0, 4096)
		}
		records = append(records, kgo.Record{Value: all[i%len(all)]})
		cl.Produce(ctx, &records[len(records)-1], func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	return flushAll(ctx, cl, &failed)
}

// flushAll waits until all is acknowledged, and returns what failed.
func flushAll(ctx context.Context, cl *kgo.Client, failed *atomic.Pointer[error]) error {
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// metered runs work and returns its length and what was used meanwhile.
func metered(b *broker, work func() error) (elapsed time.Duration, used usage, err error) {
	before, err := b.usage()
	if err != nil {
		return 0, usage{}, err
	}
	if err := work(); err != nil {
		return 0, usage{}, err
	}
	after, err := b.usage()
	if err != nil {
		return 0, usage{}, err
	}
	return after.at.Sub(before.at), usage{cpu: after.cpu - before.cpu, machine: after.machine - before.machine, written: after.written - before.written}, nil
}

func produceRow(size, bytes int, opts []kgo.Opt) func(context.Context, *broker, float64) (map[string]float64, error) {
	all := values(size)
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, partitions, nil)
		if err != nil {
			return nil, err
		}
		defer drop()
		count := max(int(scale*float64(bytes))/size, 1000)
		elapsed, used, err := metered(b, func() error { return fill(ctx, b, topic, all, count, opts...) })
		if err != nil {
			return nil, err
		}
		if size < 1000 {
			millions := float64(count) / 1e6
			return map[string]float64{
				"throughput": float64(count) / elapsed.Seconds(), cpu: used.cpu.Seconds() / millions, machine: used.machine.Seconds() / millions,
			}, nil
		}
		gigabytes := float64(count*size) / 1e9
		return map[string]float64{
			"throughput": gigabytes * 1000 / elapsed.Seconds(), cpu: used.cpu.Seconds() / gigabytes,
			machine: used.machine.Seconds() / gigabytes, written: float64(used.written) / float64(count*size),
		}, nil
	}
}

func consumeRow(size, bytes int) func(context.Context, *broker, float64) (map[string]float64, error) {
	all := values(size)
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, partitions, nil)
		if err != nil {
			return nil, err
		}
		defer drop()
		count := max(int(scale*float64(bytes))/size, 1000)
		if err := fill(ctx, b, topic, all, count); err != nil {
			return nil, err
		}
		elapsed, used, err := metered(b, func() error { return drain(ctx, b, topic, count) })
		if err != nil {
			return nil, err
		}
		gigabytes := float64(count*size) / 1e9
		return map[string]float64{
			"throughput": gigabytes * 1000 / elapsed.Seconds(), cpu: used.cpu.Seconds() / gigabytes, machine: used.machine.Seconds() / gigabytes,
		}, nil
	}
}

// drain reads count records from the start.
func drain(ctx context.Context, b *broker, topic string, count int, opts ...kgo.Opt) error {
	cl, err := b.client(append([]kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(50 << 20), kgo.FetchMaxPartitionBytes(4 << 20),
	}, opts...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for seen := 0; seen < count; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		seen += fetches.NumRecords()
	}
	return nil
}

// flushedRow asks both brokers for records on stable storage before the acknowledgement: Kafka by flush.messages=1.
func flushedRow(count int32) func(context.Context, *broker, float64) (map[string]float64, error) {
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, count, map[string]*string{"flush.messages": new("1")})
		if err != nil {
			return nil, err
		}
		defer drop()
		records := max(int(scale*100_000), 1000)
		elapsed, used, err := metered(b, func() error { return fill(ctx, b, topic, values(100), records) })
		if err != nil {
			return nil, err
		}
		return map[string]float64{"throughput": float64(records) / elapsed.Seconds(), cpu: float64(used.cpu.Microseconds()) / float64(records)}, nil
	}
}

func connections(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
	ctx, cancel := ctxFor(ctx)
	defer cancel()
	count := max(int(scale*500), 50)
	_, used, err := metered(b, func() error {
		for range count {
			cl, err := b.client()
			if err != nil {
				return err
			}
			if err := cl.Ping(ctx); err != nil {
				cl.Close()
				return err
			}
			cl.Close()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return map[string]float64{cpu: float64(used.cpu.Microseconds()) / 1000 / float64(count)}, nil
}

// start measures from the start of the process on an empty directory until a record is acknowledged, and its memory when idle.
func start(ctx context.Context, b *broker, _ float64) (map[string]float64, error) {
	ctx, cancel := ctxFor(ctx)
	defer cancel()
	if b.script != "" {
		// Kafka's directory is formatted before the clock runs.
		if err := os.RemoveAll(b.dir); err != nil {
			return nil, err
		}
		if err := b.start(); err != nil {
			return nil, err
		}
		b.stop()
	} else if err := os.RemoveAll(b.dir); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.start(); err != nil {
		return nil, err
	}
	cl, err := b.client(kgo.DefaultProduceTopic("first"), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, kgo.StringRecord("first")).FirstErr(); err != nil {
		return nil, err
	}
	elapsed := time.Since(began)
	time.Sleep(3 * time.Second) // idle means that nothing happens for a while
	memory, err := b.memory()
	if err != nil {
		return nil, err
	}
	return map[string]float64{"start": elapsed.Seconds(), "idle memory": float64(memory) / 1e6}, nil
}
