package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterRow produces to three nodes as fast as they take it, and then at a rate that none of them is at its end with.
func clusterRow(size, bytes int) func(context.Context, *broker, float64) (map[string]float64, error) {
	all := values(size)
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, partitions, map[string]*string{"min.insync.replicas": new("2")})
		if err != nil {
			return nil, err
		}
		defer drop()
		count := max(int(scale*float64(bytes))/size, 1000)
		elapsed, used, err := metered(b, func() error { return fill(ctx, b, topic, all, count) })
		if err != nil {
			return nil, err
		}
		load := paced{topic: topic, size: size}
		if err := load.run(ctx, b, time.Duration(max(scale*10, 1)*float64(time.Second))); err != nil {
			return nil, err
		}
		memory, err := b.memory()
		if err != nil {
			return nil, err
		}
		gigabytes := float64(count*size) / 1e9
		return map[string]float64{
			"throughput": gigabytes * 1000 / elapsed.Seconds(), cpu: used.cpu.Seconds() / gigabytes, machine: used.machine.Seconds() / gigabytes,
			"p50": load.at(0.5), "p99": load.at(0.99), "memory": float64(memory) / 1e6,
		}, nil
	}
}

// failoverTopic is written to while nodes end. It is kept from turn to turn.
const failoverTopic = "failover"

// failover measures the longest time without an acknowledgement in a partition, of any that the node led or follows, around the end of a node.
func failover(ctx context.Context, b *broker, _ float64) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := b.start(); err != nil {
		return nil, err
	}
	defer b.stop()
	c, err := askedOf(b)
	if err != nil {
		return nil, err
	}
	defer c.client.Close()
	if err := c.create(ctx, failoverTopic, partitions, "2"); err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	for _, fault := range []struct {
		figure       string
		signal       syscall.Signal
		isController bool
	}{{"leader, kill -9", syscall.SIGKILL, false}, {"controller, kill -9", syscall.SIGKILL, true}, {"leader, in order", syscall.SIGTERM, false}} {
		if err := c.whole(ctx, failoverTopic); err != nil {
			return nil, fmt.Errorf("before %s: %w", fault.figure, err)
		}
		controller, err := c.controller(ctx)
		if err != nil {
			return nil, err
		}
		n := b.nodes[controller]
		if !fault.isController {
			n = b.nodes[(controller+1)%len(b.nodes)] // each node leads two partitions
		}
		gap, err := gapAround(ctx, b, func() {
			n.signal(fault.signal)
			n.wait()
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fault.figure, err)
		}
		figures[fault.figure] = gap.Seconds()
		if err := errors.Join(n.spawn(), n.await()); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// impatient makes a client look for a new leader as soon as the Java client does.
func impatient() []kgo.Opt {
	return []kgo.Opt{
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.RecordRetries(1 << 30),
	}
}

// gapAround runs the fault under producers of all partitions of the topic, each of a record at a time, and returns the longest gap.
func gapAround(ctx context.Context, b *broker, fault func()) (time.Duration, error) {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	writers := make([]writer, partitions)
	var running sync.WaitGroup
	for i := range writers {
		running.Go(func() { writers[i].run(writing, b, int32(i)) })
	}
	began := time.Now()
	time.Sleep(2 * time.Second)
	fault()
	gone := time.Now()
	failed := func() error {
		for {
			time.Sleep(100 * time.Millisecond)
			late := 0
			for i := range writers {
				if last, err := writers[i].last(); err != nil {
					return err
				} else if last.Before(gone) {
					late++
				}
			}
			if late == 0 && time.Since(gone) > 2*time.Second {
				return nil
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%d partitions are not written to after %v: %w", late, time.Since(gone), ctx.Err())
			}
		}
	}()
	stop()
	running.Wait()
	var longest time.Duration
	for i := range writers {
		longest = max(longest, writers[i].longest(began.Add(time.Second)))
	}
	return longest, failed
}

// writer is a producer of one partition.
type writer struct {
	mu    sync.Mutex // guards the rest
	acked []time.Time
	err   error
}

func (w *writer) run(ctx context.Context, b *broker, partition int32) {
	cl, err := b.client(impatient()...)
	if err != nil {
		w.err = err
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		err := cl.ProduceSync(ctx, &kgo.Record{Topic: failoverTopic, Partition: partition, Value: []byte("a record")}).FirstErr()
		w.mu.Lock()
		if err == nil {
			w.acked = append(w.acked, time.Now())
		} else {
			w.err = cmp.Or(w.err, unlessOver(ctx, err))
		}
		w.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

// last returns when the last record was acknowledged.
func (w *writer) last() (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.acked) == 0 {
		return time.Time{}, w.err
	}
	return w.acked[len(w.acked)-1], w.err
}

// longest returns the longest time between two acknowledgements since then.
func (w *writer) longest(since time.Time) (longest time.Duration) {
	for i := 1; i < len(w.acked); i++ {
		if w.acked[i-1].After(since) {
			longest = max(longest, w.acked[i].Sub(w.acked[i-1]))
		}
	}
	return longest
}

// clusterOf asks a broker of three nodes how it is.
type clusterOf struct {
	*broker
	client *kgo.Client
	admin  *kadm.Client
}

func askedOf(b *broker) (*clusterOf, error) {
	cl, err := b.client(impatient()...)
	if err != nil {
		return nil, err
	}
	return &clusterOf{b, cl, kadm.NewClient(cl)}, nil
}

// create makes a topic with a replica on each node, unless it is there.
func (c *clusterOf) create(ctx context.Context, topic string, count int32, minISR string) error {
	if err := c.voting(ctx); err != nil {
		return err
	}
	err := createMany(ctx, c.admin, topic, count, len(c.nodes), map[string]*string{"min.insync.replicas": &minISR})
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// voting waits until all nodes vote in the metadata quorum and serve.
func (c *clusterOf) voting(ctx context.Context) error {
	return c.until(ctx, func() error {
		q, err := c.quorum(ctx)
		if err != nil {
			return err
		}
		if len(q.CurrentVoters) != len(c.nodes) {
			return fmt.Errorf("%d nodes vote", len(q.CurrentVoters))
		}
		brokers, err := c.admin.ListBrokers(ctx)
		if err == nil && len(brokers) != len(c.nodes) {
			err = fmt.Errorf("%d nodes serve", len(brokers))
		}
		return err
	})
}

// whole waits until all is in sync, and each partition of the topic is led by the node that should lead it.
func (c *clusterOf) whole(ctx context.Context, topic string) error {
	if err := c.voting(ctx); err != nil {
		return err
	}
	err := c.until(ctx, func() error {
		topics, err := c.admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		for _, p := range topics[topic].Partitions {
			if len(p.ISR) != len(c.nodes) {
				return fmt.Errorf("partition %d has %v in sync: %w", p.Partition, p.ISR, cmp.Or(p.Err, errors.New("not all")))
			}
		}
		return cmp.Or(topics[topic].Err, topics.Error())
	})
	if err != nil {
		return err
	}
	_, err = c.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // what the election has moved is at rest
	return nil
}

// until tries until it works, or ctx ends.
func (c *clusterOf) until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// controller returns the index of the node whose controller is active.
func (c *clusterOf) controller(ctx context.Context) (int, error) {
	q, err := c.quorum(ctx)
	if err == nil && q.LeaderID < 1 {
		err = errors.New("nobody leads the quorum")
	}
	return int(q.LeaderID) - 1, err
}

func (c *clusterOf) quorum(ctx context.Context) (q kmsg.DescribeQuorumResponseTopicPartition, err error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return q, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return q, err
	}
	q = resp.Topics[0].Partitions[0]
	return q, kerr.ErrorForCode(q.ErrorCode)
}

// catchUp measures how long a node that was away needs for so many bytes that the others took meanwhile.
func catchUp(bytes int) func(context.Context, *broker, float64) (map[string]float64, error) {
	const topic = "catch-up"
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if err := b.start(); err != nil {
			return nil, err
		}
		defer b.stop()
		c, err := askedOf(b)
		if err != nil {
			return nil, err
		}
		defer c.client.Close()
		if err := c.create(ctx, topic, partitions, "1"); err != nil {
			return nil, err
		}
		defer func() { _, _ = c.admin.DeleteTopic(context.WithoutCancel(ctx), topic) }()
		if err := c.whole(ctx, topic); err != nil {
			return nil, err
		}
		controller, err := c.controller(ctx)
		if err != nil {
			return nil, err
		}
		n := b.nodes[(controller+1)%len(b.nodes)]
		n.signal(syscall.SIGTERM)
		n.wait()
		count := int(scale*float64(bytes)) / 1024
		if err := fill(ctx, b, topic, values(1024), count); err != nil {
			return nil, err
		}
		if err := settle(); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := errors.Join(n.spawn(), n.await()); err != nil {
			return nil, err
		}
		serves := time.Since(began)
		if err := c.whole(ctx, topic); err != nil {
			return nil, err
		}
		took := (time.Since(began) - 2*time.Second).Seconds()
		return map[string]float64{"in sync again": took, "served again": serves.Seconds(), "speed": float64(count*1024) / 1e6 / took}, nil
	}
}

// manyReplicas makes so many partitions with a replica on each of three nodes, kills a leader of a third of them, and waits until each is led.
func manyReplicas(count int32) func(context.Context, *broker, float64) (map[string]float64, error) {
	const topic = "many"
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
		defer cancel()
		if err := errors.Join(os.RemoveAll(b.dir), b.start()); err != nil {
			return nil, err
		}
		defer b.stop()
		c, err := askedOf(b)
		if err != nil {
			return nil, err
		}
		defer c.client.Close()
		if err := c.voting(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := c.create(ctx, topic, max(int32(scale*float64(count)), 3), "2"); err != nil {
			return nil, err
		}
		created := time.Since(began)
		if err := led(ctx, c.admin, topic); err != nil {
			return nil, err
		}
		ready := time.Since(began)
		if err := c.whole(ctx, topic); err != nil {
			return nil, err
		}
		memory, err := b.memory()
		if err != nil {
			return nil, err
		}
		controller, err := c.controller(ctx)
		if err != nil {
			return nil, err
		}
		began = time.Now()
		n := b.nodes[(controller+1)%len(b.nodes)]
		n.signal(syscall.SIGKILL)
		n.wait()
		if err := led(ctx, c.admin, topic); err != nil {
			return nil, err
		}
		return map[string]float64{
			"created": created.Seconds(), "all led": ready.Seconds(), "memory": float64(memory) / 1e6, "all led after kill -9": time.Since(began).Seconds(),
		}, nil
	}
}
