package coord

import (
	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/metric"
)

// Metrics are the coordinators' numbers.
type Metrics struct {
	Commits       metric.Counter // OffsetCommit requests whose records were appended
	CommitBatches metric.Counter // batches that they went in
	Rebalances    metric.Counter // rounds of joins that began
	Generations   metric.Counter // rounds of joins that ended well

	MembersJoined  metric.Counter
	MembersLeft    metric.Counter
	MembersExpired metric.Counter // their sessions ended, or they did not follow a rebalance in time

	Groups, Transactions ShardMetrics

	Markers        metric.Counter // that were written, and are committed
	MarkersWaiting metric.Gauge   // that their partitions do not take now
	TimedOut       metric.Counter // transactions that were aborted for it
}

// ShardMetrics are the numbers of the shards of one topic.
type ShardMetrics struct {
	Loads      metric.Counter   // partitions that were read
	LoadMicros metric.Histogram // how long each took
	Reloads    metric.Counter   // shards that failed and were given up
}

// Metrics returns the coordinators' numbers, which keep changing.
func (c *Coordinator) Metrics() *Metrics { return &c.metrics }

// count counts what has happened to a group.
func (m *Metrics) count(kind group.EventKind) {
	switch kind {
	case group.Rebalancing:
		m.Rebalances.Inc()
	case group.NewGeneration:
		m.Generations.Inc()
	case group.MemberJoined:
		m.MembersJoined.Inc()
	case group.MemberLeft:
		m.MembersLeft.Inc()
	case group.MemberExpired, group.MemberSilent:
		m.MembersExpired.Inc()
	}
}
