package main

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	tailRate    = 20_000_000 // bytes a second that are produced
	tailReaders = 4
	tailSeconds = 5
)

// tailed measures what it costs that readers follow a producer: it produces at a steady rate, with readers at the end of the log and
// with nobody reading, before and after, and takes the difference.
func tailed(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
	ctx, cancel := ctxFor(ctx)
	defer cancel()
	topic, drop, err := newTopic(ctx, b, partitions, nil)
	if err != nil {
		return nil, err
	}
	defer drop()
	cl, err := b.client(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(50_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	length := time.Duration(max(scale*tailSeconds, 1) * float64(time.Second))
	alone := func() (usage, error) {
		_, used, err := metered(b, func() error { return produceSteadily(ctx, cl, length) })
		return used, err
	}
	before, err := alone()
	if err != nil {
		return nil, err
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err := cmp.Or(err, ends.Error()); err != nil {
		return nil, err
	}
	readers := make([]*kgo.Client, tailReaders)
	for i := range readers {
		if readers[i], err = b.client(kgo.ConsumePartitions(ends.Offsets().KOffsets())); err != nil {
			return nil, err
		}
		defer readers[i].Close()
	}
	var read atomic.Int64
	_, used, err := metered(b, func() error {
		ended := make(chan error, len(readers))
		for _, r := range readers {
			go func() {
				n, err := readValues(ctx, r, steadyRecords(length))
				read.Add(n)
				ended <- err
			}()
		}
		err := produceSteadily(ctx, cl, length)
		if err != nil {
			cancel()
		}
		for range readers {
			err = cmp.Or(err, <-ended)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := alone()
	if err != nil {
		return nil, err
	}
	gigabytes := float64(read.Load()) / 1e9
	return map[string]float64{
		cpu:     (used.cpu - (before.cpu+after.cpu)/2).Seconds() / gigabytes,
		machine: (used.machine - (before.machine+after.machine)/2).Seconds() / gigabytes,
	}, nil
}

// steadyRecords is how many records are produced in a time.
func steadyRecords(length time.Duration) int { return int(length.Seconds() * tailRate / 1024) }

// produceSteadily sends records of 1 KiB at tailRate, and returns when the last one is acknowledged.
func produceSteadily(ctx context.Context, cl *kgo.Client, length time.Duration) error {
	all := values(1024)
	var failed atomic.Pointer[error]
	began := time.Now()
	for i := range steadyRecords(length) {
		if i%16 == 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i*1024) * time.Second / tailRate)))
		}
		cl.Produce(ctx, &kgo.Record{Value: all[i%len(all)]}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	return flushAll(ctx, cl, &failed)
}

// readValues reads so many records and returns how many bytes their values have.
func readValues(ctx context.Context, cl *kgo.Client, records int) (bytes int64, err error) {
	for records > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return bytes, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records--
			bytes += int64(len(r.Value))
		})
	}
	return bytes, nil
}
