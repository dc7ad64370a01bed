package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mixedRate    = 2000 // records a second of each producer
	mixedSeconds = 10
	mixedKeys    = 5000 // of the compacted topic
)

// mixed measures how long acknowledgements take while all goes on at once: one producer of a topic that is followed by a reader and
// read from its begin again and again by another, one of a topic that is compacted, and retention.
func mixed(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
	ctx, cancel := ctxFor(ctx)
	defer cancel()
	events, dropEvents, err := newTopic(ctx, b, partitions, map[string]*string{"segment.bytes": new("4194304"), "retention.bytes": new("8388608")})
	if err != nil {
		return nil, err
	}
	defer dropEvents()
	table, dropTable, err := newTopic(ctx, b, partitions, map[string]*string{
		"segment.bytes": new("4194304"), "cleanup.policy": new("compact"), "min.cleanable.dirty.ratio": new("0.2"),
	})
	if err != nil {
		return nil, err
	}
	defer dropTable()
	length := time.Duration(max(scale*mixedSeconds, 1) * float64(time.Second))
	loads := []*paced{{topic: events, size: 1024}, {topic: table, size: 200, keys: mixedKeys}}
	_, used, err := metered(b, func() error {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 4)
		go func() { ended <- followed(reading, b, events) }()
		go func() { ended <- readAgain(reading, b, events) }()
		for _, l := range loads {
			go func() { ended <- l.run(ctx, b, length) }()
		}
		var failed error
		for i := range 4 {
			failed = errors.Join(failed, <-ended)
			if i+1 == len(loads) || failed != nil { // the readers go on until they are stopped
				stop()
			}
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	both := paced{took: slices.Concat(loads[0].took, loads[1].took)}
	return map[string]float64{"p50": both.at(0.5), "p99": both.at(0.99), "p99.9": both.at(0.999), cpu: used.cpu.Seconds() / length.Seconds()}, nil
}

// paced is a producer of so many records a second, and how long each took to be acknowledged.
type paced struct {
	topic string
	size  int
	keys  int // 0: records have none

	mu   sync.Mutex // guards the rest
	took []time.Duration
	err  error
}

func (p *paced) run(ctx context.Context, b *broker, length time.Duration) error {
	cl, err := b.client(kgo.DefaultProduceTopic(p.topic), kgo.ProducerLinger(time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	all := values(p.size)
	began := time.Now()
	for i := range int(length.Seconds() * mixedRate) {
		due := began.Add(time.Duration(i) * time.Second / mixedRate)
		time.Sleep(time.Until(due))
		record := &kgo.Record{Value: all[i%len(all)]}
		if p.keys > 0 {
			record.Key = fmt.Append(nil, i%p.keys)
		}
		cl.Produce(ctx, record, func(_ *kgo.Record, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.took, p.err = append(p.took, time.Since(due)), cmp.Or(p.err, err)
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// followed reads a topic from its end on until ctx ends.
func followed(ctx context.Context, b *broker, topic string) error {
	cl, err := b.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if err != nil {
		return err
	}
	defer cl.Close()
	return readUntil(ctx, cl, func() bool { return false })
}

// readAgain reads a topic from its begin to where it ends by then, and again, until ctx ends.
func readAgain(ctx context.Context, b *broker, topic string) error {
	for ctx.Err() == nil {
		if err := readOnce(ctx, b, topic); err != nil {
			return err
		}
	}
	return nil
}

func readOnce(ctx context.Context, b *broker, topic string) error {
	cl, err := b.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err := cmp.Or(err, ends.Error()); err != nil {
		return unlessOver(ctx, err)
	}
	left := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	if len(left) == 0 {
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	return readUntil(ctx, cl, func() bool { return len(left) == 0 }, func(r *kgo.Record) {
		if r.Offset+1 >= left[r.Partition] {
			delete(left, r.Partition)
		}
	})
}

// unlessOver is the error, or nil once it is because ctx has ended.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readUntil polls until all is there that was wanted, or ctx ends.
func readUntil(ctx context.Context, cl *kgo.Client, enough func() bool, each ...func(*kgo.Record)) error {
	for !enough() {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return unlessOver(ctx, err)
		}
		for _, f := range each {
			fetches.EachRecord(f)
		}
	}
	return nil
}

// at returns how long that part of the acknowledgements took at most, in milliseconds.
func (p *paced) at(q float64) float64 {
	slices.Sort(p.took)
	return float64(p.took[int(q*float64(len(p.took)-1))].Microseconds()) / 1000
}
