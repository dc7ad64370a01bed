package replica

import (
	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
)

// PartitionCondition is how a partition is doing, and in which log directory it is.
type PartitionCondition struct {
	kafka.TopicPartition
	Dir string // path
	Is  condition.Partition
}

// Conditions returns the partitions that have something to tell, of those that are asked for, in the order of their names. It may
// read the disk where a topic has a compaction lag. What sleeps is not damaged as far as anybody knows, and not compacted.
func (m *Manager) Conditions(asked func(kafka.TopicPartition) bool) []PartitionCondition {
	var all []PartitionCondition
	for p := range m.replicas() {
		if !asked(p.tp) {
			continue
		}
		if is := p.condition(); !is.IsZero() {
			all = append(all, PartitionCondition{TopicPartition: p.tp, Dir: p.dir.disk.Path(), Is: is})
		}
	}
	return all
}

func (p *replica) condition() condition.Partition {
	var is condition.Partition
	if reason := p.uncleanable.Load(); reason != nil {
		is.Uncleanable = *reason
	}
	if by := p.damage.Load(); by != nil {
		is.Damage = &condition.Damage{File: by.File, At: by.At, Reason: by.Reason, Remedy: by.Advice()}
	}
	if p.log == nil || p.serves() != nil || !p.settings.Load().topic.CleanupCompact {
		return is
	}
	found, err := p.log.Cleanable(p.m.now(), kafka.Offset(p.lastStable.Load()))
	if err != nil {
		return is // the cleaner meets it too, and says so
	}
	is.Compaction = &condition.Compaction{
		Cleaned: p.log.CleanedOffset(), CleanBytes: found.CleanBytes, DirtyBytes: found.DirtyBytes, OverdueMs: found.OverdueMs, CleanedMs: -1,
	}
	if at := p.cleanedMs.Load(); at > 0 {
		is.Compaction.CleanedMs = at
	}
	return is
}

// condition tells how much room is kept on a file system of so many bytes, or of an unknown size: -1.
func (s *space) condition(total int64) condition.Directory {
	level := shortage(s.level.Load())
	is := condition.Directory{
		ReserveBytes: max(s.reserve, 0), RefusedBatches: s.refused.Load(), RefusesProduces: level >= low, RefusesCommits: level >= lowest,
	}
	if total >= 0 {
		is.ReserveBytes = s.reserveOf(total)
	}
	return is
}
