package group

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkLargeConsumerGroup has 1,000 members that read 1,000 partitions join, and then beat. longest is what the one command
// that took longest held up all other groups of the coordinator's partition for; aside is the longest assignment, which holds up nobody.
func BenchmarkLargeConsumerGroup(b *testing.B) {
	for _, topics := range []int{1, 100} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			for b.Loop() {
				largeGroup(b, topics)
			}
		})
	}
}

func largeGroup(b *testing.B, topics int) {
	cluster := newTestCluster()
	cluster.settings.AssignmentInterval, cluster.settings.AssignorOffload = time.Second, true
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("t%03d", i))
		cluster.set(names[i], int32(1000/topics))
	}
	m := New(testConfig(), func([]byte) {})
	m.Learn(cluster, names, true)
	now, records, bytes := scenarioStart, 0, 0
	var longest, longestAside, total time.Duration
	var scratch []byte
	command := func(decide func() Effects) ([]Sent, []Aside) {
		begun := time.Now()
		e := decide()
		for _, r := range e.Records {
			scratch, _ = AppendValue(AppendKey(scratch[:0], r), r)
			bytes += len(scratch)
			m.Apply(r)
		}
		records += len(e.Records)
		after := Effects{}
		if len(e.Records) > 0 {
			after = m.Settle(now, e, 0)
		}
		took := time.Since(begun)
		longest, total = max(longest, took), total+took
		return append(e.Replies, after.Replies...), append(e.Aside, after.Aside...)
	}
	handle := func(c *ConsumerHeartbeat) *ConsumerHeartbeatReply {
		replies, asides := command(func() Effects { return m.Handle(now, 1, "g", c) })
		for _, a := range asides {
			begun := time.Now()
			result := a.Work(always)
			longestAside = max(longestAside, time.Since(begun))
			command(func() Effects { return m.Finish(now, a.Group, result) })
		}
		return replies[0].Reply.(*ConsumerHeartbeatReply)
	}
	epochs := make([]int32, 1000)
	beat := func(i int) {
		c := &ConsumerHeartbeat{MemberID: fmt.Sprintf("member-%04d", i), Epoch: epochs[i], RebalanceTimeoutMs: -1, ClientID: "c", HasKnown: true}
		if epochs[i] == 0 {
			c.RebalanceTimeoutMs, c.Topics = 60_000, names
		}
		epochs[i] = handle(c).Epoch
		now = now.Add(2 * time.Millisecond)
	}
	for i := range epochs {
		beat(i)
	}
	for range 5 {
		for i := range epochs {
			beat(i)
		}
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
	b.ReportMetric(float64(longestAside.Microseconds()), "aside-µs")
	b.ReportMetric(float64(total.Microseconds())/6000, "mean-µs")
	b.ReportMetric(float64(records), "records")
	b.ReportMetric(float64(bytes), "bytes")
	if state := m.groups["g"].consumer.state(); state != Stable {
		b.Fatalf("the group is %v", state)
	}
}
