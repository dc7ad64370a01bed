package coord

import (
	"log/slog"

	"github.com/raftsman/raftsman/internal/group"
)

// reasonBytesMax is how much of a client's reason is logged.
const reasonBytesMax = 255

// report logs and counts what has happened to groups.
func (s *groupShard) report() {
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

// sayings is how events are logged: a line for each member that comes or goes, and what follows from that for who looks closer.
var sayings = [...]struct {
	level slog.Level
	text  string
}{
	group.Rebalancing:   {slog.LevelDebug, "group rebalances"},
	group.NewGeneration: {slog.LevelDebug, "group has a new generation"},
	group.NowEmpty:      {slog.LevelDebug, "group is empty"},
	group.MemberJoined:  {slog.LevelInfo, "member joined group"},
	group.MemberLeft:    {slog.LevelInfo, "member left group"},
	group.MemberExpired: {slog.LevelInfo, "member was removed from group: its session ended"},
	group.Converted:     {slog.LevelInfo, "group was of another type and had no members: it is a classic group now"},
	group.Upgraded:      {slog.LevelInfo, "group was a classic group and is a consumer group now"},
	group.Downgraded:    {slog.LevelInfo, "group was a consumer group and is a classic group now: all members use that protocol"},
	group.JoinRefused:   {slog.LevelWarn, "a member of the classic protocol cannot join group"},
	group.RegexRefused:  {slog.LevelWarn, "the topics that the regular expressions of group match cannot be written: its members get no others"},
	group.TargetRefused: {slog.LevelWarn, "the next assignment of group cannot be written: its members go on with the one before"},
	group.MemberSilent:  {slog.LevelInfo, "member was removed from group: it did not follow the rebalance in time"},
}
