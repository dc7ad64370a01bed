package commitlog

import (
	"math"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Cleanable is what compaction finds to do in a log: the dirty range [First, End) lies behind what was cleaned before and before
// the first segment that has to stay as it is.
type Cleanable struct {
	First, End kafka.Offset
	CleanBytes int64 // of the segments before the range
	DirtyBytes int64 // of the segments in the range
	OverdueMs  int64 // by how much the oldest dirty segment is beyond max.compaction.lag.ms
}

// Ratio is the dirty part of what would be cleaned.
func (c Cleanable) Ratio() float64 {
	if c.CleanBytes+c.DirtyBytes == 0 {
		return 0
	}
	return float64(c.DirtyBytes) / float64(c.CleanBytes+c.DirtyBytes)
}

// Due tells whether the log is to be cleaned: it is dirty enough, or some of it is overdue.
func (c Cleanable) Due(ratioMin float64) bool {
	return c.DirtyBytes > 0 && (c.OverdueMs > 0 || c.Ratio() > ratioMin)
}

// cleanSegment is what decides about a segment. The times are -1 where they are not known.
type cleanSegment struct {
	base    kafka.Offset
	bytes   int64
	maxMs   int64 // largest timestamp; only for min.compaction.lag.ms
	firstMs int64 // of the first batch; only for max.compaction.lag.ms
}

// decideCleaning finds the dirty range of a log that was cleaned up to an offset. The last segment is the active one. stable is
// the last stable offset.
func decideCleaning(segments []cleanSegment, cleaned, start, end, stable kafka.Offset, c *Config, nowMs int64) Cleanable {
	if cleaned < start || cleaned > end {
		cleaned = start
	}
	active := segments[len(segments)-1].base
	bound := min(stable, active)
	dirty := segments[floorSegment(segments, cleaned) : len(segments)-1]
	for _, s := range dirty {
		if c.CompactionLagMinMs > 0 && s.maxMs > nowMs-c.CompactionLagMinMs {
			bound = min(bound, s.base)
			break
		}
	}
	found := Cleanable{First: cleaned, End: max(cleaned, bound)}
	if last := floorSegment(segments, found.End); last < len(segments) && found.End < active {
		found.End = segments[last].base // a segment is cleaned whole or not at all
	}
	oldest := int64(math.MaxInt64)
	for _, s := range dirty {
		if s.firstMs > 0 {
			oldest = min(oldest, s.firstMs)
		}
		if s.base < found.End {
			found.DirtyBytes += s.bytes
		}
	}
	for _, s := range segments {
		if s.base < cleaned {
			found.CleanBytes += s.bytes
		}
	}
	if limit := nowMs - min(max(c.CompactionLagMaxMs, 0), nowMs); oldest < limit {
		found.OverdueMs = limit - oldest
	}
	return found
}

// floorSegment is the segment that an offset lies in, or the first one.
func floorSegment(segments []cleanSegment, offset kafka.Offset) int {
	n := 0
	for n+1 < len(segments) && segments[n+1].base <= offset {
		n++
	}
	return n
}

// CleanedOffset is up to where the log was compacted, or kafka.NoOffset.
func (l *Log) CleanedOffset() kafka.Offset { return l.dir.cleanedOffset(l.partition) }

// Cleanable looks for what there is to clean, below the last stable offset. It reads the disk only where the topic has a
// compaction lag.
func (l *Log) Cleanable(now time.Time, stable kafka.Offset) (Cleanable, error) {
	cleaned := l.CleanedOffset()
	start := l.StartOffset()
	if cleaned < 0 {
		cleaned = start
	}
	var found Cleanable
	err := l.look(func(segments []*segment, end kafka.Offset) error {
		c := l.config.Load()
		list := make([]cleanSegment, len(segments))
		for i, s := range segments {
			list[i] = cleanSegment{base: s.base, bytes: s.size.Load(), maxMs: -1, firstMs: -1}
			next := nextBase(segments, i, end)
			if next <= cleaned || i+1 == len(segments) {
				continue
			}
			if err := s.times(&list[i], next, c); err != nil {
				return err
			}
		}
		found = decideCleaning(list, cleaned, start, end, stable, c, now.UnixMilli())
		return nil
	})
	return found, err
}

// times fills in the timestamps that a compaction lag asks for.
func (s *segment) times(into *cleanSegment, next kafka.Offset, c *Config) error {
	if c.CompactionLagMinMs > 0 {
		maxTime, err := s.maxTimestamp(next)
		if err != nil {
			return err
		}
		into.maxMs = maxTime.TimestampMs
	}
	if c.CompactionLagMaxMs == math.MaxInt64 || s.size.Load() == 0 {
		return nil
	}
	return s.headers(s.base, next, func(_ *walker, head record.Batch, _ int64) error {
		into.firstMs = head.MaxTimestampMs()
		return errStop
	})
}
