package coord

import (
	"log/slog"

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

	Loads      metric.Counter   // partitions of __consumer_offsets that were read
	LoadMicros metric.Histogram // how long each took
	Reloads    metric.Counter   // shards that failed and were given up
}

// Metrics returns the coordinators' numbers, which keep changing.
func (c *Coordinator) Metrics() *Metrics { return &c.metrics }

// reasonBytesMax is how much of a client's reason is logged.
const reasonBytesMax = 255

// report logs and counts what has happened to groups.
func (s *shard) report() {
	if s.machine == nil {
		return
	}
	for _, e := range s.machine.TakeEvents() {
		s.c.metrics.count(e.Kind)
		args := []any{"group", e.Group, "generation", e.Generation, "members", e.Members}
		if e.Member != "" {
			args = append(args, "member", e.Member)
		}
		if e.Reason != "" {
			args = append(args, "reason", e.Reason[:min(len(e.Reason), reasonBytesMax)])
		}
		said := sayings[e.Kind]
		s.c.opts.Log.Log(s.c.stop, said.level, said.text, args...)
	}
}

// sayings is how events are logged.
var sayings = [...]struct {
	level slog.Level
	text  string
}{
	group.Rebalancing:   {slog.LevelInfo, "group rebalances"},
	group.NewGeneration: {slog.LevelInfo, "group has a new generation"},
	group.NowEmpty:      {slog.LevelInfo, "group is empty"},
	group.MemberJoined:  {slog.LevelInfo, "member joined group"},
	group.MemberLeft:    {slog.LevelInfo, "member left group"},
	group.MemberExpired: {slog.LevelInfo, "member was removed from group: its session ended"},
	group.MemberSilent:  {slog.LevelInfo, "member was removed from group: it did not follow the rebalance in time"},
}

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
