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
		over := time.Now().Add(time.Duration(300+k.r.IntN(1500)) * time.Millisecond)
		k.consumeUntil(group, topics, func() bool { return time.Now().After(over) })
	}
}

// catchUpFranz reads the rest of the group's topics. It fails if the group does not let it.
func (k *worker) catchUpFranz(group string, topics []*topic) {
	late := time.Now().Add(patience)
	k.consumeUntil(group, topics, func() bool {
		found, ok := k.committed(group, topics)
		if !ok {
			return false
		}
		behind := 0
		for _, t := range topics {
			for index := range t.partitions.Load() {
				if at := t.place(index); found[at] < k.ledger.marks(at).high {
					behind++
				}
			}
		}
		if behind > 0 && time.Now().After(late) {
			k.fault("%s: group %s does not move: %d partitions are behind, committed %v", k.name, group, behind, found)
			return true
		}
		return behind == 0
	})
}

// consumeUntil reads and commits until it is told that it is enough.
func (k *worker) consumeUntil(group string, topics []*topic, enough func() bool) {
	byName := map[string]*topic{}
	var names []string
	for _, t := range topics {
		byName[t.name] = t
		names = append(names, t.name)
	}
	opts := []kgo.Opt{
		kgo.ConsumeTopics(names...), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.RebalanceTimeout(2 * time.Second),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	cl, err := kgo.NewClient(k.options(opts...)...)
	if err != nil {
		k.Error(err)
		return
	}
	for k.ctx.Err() == nil && !enough() {
		ctx, cancel := context.WithTimeout(k.ctx, 200*time.Millisecond)
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			var headers []record.Header
			for _, h := range r.Headers {
				headers = append(headers, record.Header{Key: h.Key, Value: h.Value})
			}
			t := byName[r.Topic]
			k.ledger.read(k.name, t.place(r.Partition), r.Offset, fact{nameOf(r.Value), recordHash(r.Key, r.Value, headers), r.LeaderEpoch, r.Timestamp.UnixMilli()})
		})
		_ = cl.CommitUncommittedOffsets(ctx)
		cl.AllowRebalance()
		cancel()
	}
	cl.CloseAllowingRebalance()
}
