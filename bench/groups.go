package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// groupFigures: how long it takes until every partition has its owner and all members have equally many, and what the broker has used
// from the first member to the last.
var groupFigures = []figure{
	{"come up, 100", "s", false, 0},
	{"grow to 200", "s", false, 0},
	{"shrink to 150", "s", false, 0},
	{"roll all 150", "s", false, 0},
	{cpu, "s", false, 0},
}

const (
	groupPartitions = 1000
	groupPatience   = 2 * time.Minute
	groupCalm       = time.Second // that an assignment must hold to count
)

func groupRow(protocol string) func(context.Context, *broker, float64) (map[string]float64, error) {
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		topic, drop, err := newTopic(ctx, b, groupPartitions, nil)
		if err != nil {
			return nil, err
		}
		defer drop()
		m := &members{b: b, topic: topic, group: topic + "-" + protocol, next: protocol == "consumer", owned: map[*kgo.Client]int{}}
		defer func() { m.shrink(0) }()
		figures := map[string]float64{}
		_, used, err := metered(b, func() error {
			for _, step := range []struct {
				name string
				do   func() error
			}{
				{"come up, 100", func() error { return m.grow(int(100 * scale)) }},
				{"grow to 200", func() error { return m.grow(int(200 * scale)) }},
				{"shrink to 150", func() error { m.shrink(int(150 * scale)); return nil }},
				{"roll all 150", m.roll},
			} {
				begun := time.Now()
				if err := step.do(); err != nil {
					return err
				}
				at, err := m.stable()
				if err != nil {
					return fmt.Errorf("%s: %w", step.name, err)
				}
				figures[step.name] = at.Sub(begun).Seconds()
			}
			return nil
		})
		figures[cpu] = used.cpu.Seconds()
		return figures, err
	}
}

// members are the consumers of one group, in this process. They fetch nothing: what is measured is the group.
type members struct {
	b            *broker
	topic, group string
	next         bool // the consumer protocol (KIP-848)

	mu      sync.Mutex // guards what follows
	clients []*kgo.Client
	owned   map[*kgo.Client]int
	changed time.Time
}

func (m *members) count(cl *kgo.Client, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned[cl] += by
	m.changed = time.Now()
}

func (m *members) join() error {
	ctx := context.Background()
	if m.next {
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck // the client's own name for it
	}
	tell := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, cl *kgo.Client, all map[string][]int32) { m.count(cl, sign*len(all[m.topic])) }
	}
	cl, err := m.b.client(
		kgo.WithContext(ctx), kgo.ConsumerGroup(m.group), kgo.ConsumeTopics(m.topic), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(tell(1)), kgo.OnPartitionsRevoked(tell(-1)), kgo.OnPartitionsLost(tell(-1)),
	)
	if err != nil {
		return err
	}
	cl.PauseFetchTopics(m.topic)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients = append(m.clients, cl)
	if _, told := m.owned[cl]; !told {
		m.owned[cl] = 0
	}
	return nil
}

func (m *members) grow(to int) error {
	for len(m.clients) < to {
		if err := m.join(); err != nil {
			return err
		}
	}
	return nil
}

// leave lets the oldest n go.
func (m *members) leave(n int) {
	var left sync.WaitGroup
	for _, cl := range m.clients[:n] {
		left.Go(func() {
			cl.Close()
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.owned, cl)
			m.changed = time.Now()
		})
	}
	left.Wait()
	m.clients = m.clients[n:]
}

func (m *members) shrink(to int) { m.leave(len(m.clients) - to) }

// roll replaces all members, ten at a time.
func (m *members) roll() error {
	all := len(m.clients)
	for done := 0; done < all; done += 10 {
		n := min(10, all-done)
		m.leave(n)
		if err := m.grow(all); err != nil {
			return err
		}
	}
	return nil
}

// stable waits until each partition has an owner and no member has more than one above another, and returns since when.
func (m *members) stable() (since time.Time, err error) {
	var sum, least, most int
	for until := time.Now().Add(groupPatience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		m.mu.Lock()
		sum, least, most, since = 0, groupPartitions, 0, m.changed
		for _, n := range m.owned {
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		m.mu.Unlock()
		if sum == groupPartitions && most-least <= 1 && time.Since(since) > groupCalm {
			return since, nil
		}
	}
	return time.Time{}, fmt.Errorf("no stable assignment of %s in %s: %d partitions have owners, members have %d to %d", m.group, groupPatience, sum, least, most)
}
