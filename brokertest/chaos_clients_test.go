package brokertest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/record"
)

// franz writes with franz-go: what it sends again, and when, is its own business.
func (k *worker) franz(topics []*topic, acks kgo.Acks, opts ...kgo.Opt) {
	idempotent := len(opts) == 0
	answered := acks != kgo.NoAck()
	cl, err := kgo.NewClient(k.options(append(opts, kgo.RequiredAcks(acks), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(codecs[k.r.IntN(len(codecs))]))...)...)
	if err != nil {
		k.Error(err)
		return
	}
	defer cl.Close()
	numbers := map[place]int{}
	for k.running() {
		for range k.r.IntN(20) {
			t := topics[k.r.IntN(len(topics))]
			at := t.place(k.r.Int32N(min(3, t.partitions.Load()))) // it learns late of new ones
			id := fmt.Sprintf("%s/%s/%d/%d", k.name, t.name, at.index, numbers[at])
			made := k.makeRecord(id)
			r := &kgo.Record{Topic: t.name, Partition: at.index, Key: made.key, Value: made.value}
			for _, h := range made.headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			k.ledger.sending(id, sent{producer: k.name, number: numbers[at], hash: recordHash(r.Key, r.Value, made.headers), repeats: !idempotent})
			numbers[at]++
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
				if err == nil && answered {
					k.ledger.acked(at, r.Offset, id)
				}
			})
		}
		k.pause(15 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.Flush(ctx); err != nil {
		k.fault("%s: %d records could not be delivered in %v", k.name, cl.BufferedProduceRecords(), patience)
	}
}

var codecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}

// consume is a member of a group with franz-go, for a while, over and over.
func (k *worker) consume(group string, topics []*topic) {
	for k.running() {
		k.consumeFor(group, topics, time.Duration(300+k.r.IntN(1500))*time.Millisecond)
	}
}

func (k *worker) consumeFor(group string, topics []*topic, d time.Duration) {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.RebalanceTimeout(2 * time.Second),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	names := map[string]*topic{}
	for _, t := range topics {
		names[t.name] = t
		opts = append(opts, kgo.ConsumeTopics(t.name))
	}
	cl, err := kgo.NewClient(k.options(opts...)...)
	if err != nil {
		k.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, d)
	defer cancel()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			var headers []record.Header
			for _, h := range r.Headers {
				headers = append(headers, record.Header{Key: h.Key, Value: h.Value})
			}
			t := names[r.Topic]
			k.ledger.read(k.name, t.place(r.Partition), r.Offset, fact{nameOf(r.Value), recordHash(r.Key, r.Value, headers), r.LeaderEpoch, r.Timestamp.UnixMilli()})
		})
		_ = cl.CommitUncommittedOffsets(ctx)
		cl.AllowRebalance()
	}
	if k.r.IntN(3) == 0 { // abandoned: its session times out
		cl.CloseAllowingRebalance()
		return
	}
	cl.CloseAllowingRebalance()
}
