package commitlog

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A log that was closed in order, and that nobody has opened since, can wait for who needs it. What must be known of it meanwhile its
// folder tells, without a write and without anything that stays in memory.

// SizeAtRest is what Log.Size would be.
func (d *Dir) SizeAtRest(tp kafka.TopicPartition) (bytes int64, err error) {
	segments, err := d.segmentsAtRest(tp)
	for _, s := range segments {
		bytes += s.size.Load()
	}
	return bytes, err
}

// HighWatermarkAtRest is what Log.HighWatermark would be.
func (d *Dir) HighWatermarkAtRest(tp kafka.TopicPartition) (kafka.Offset, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	high, ok := d.noted.highWatermark[tp]
	return high, ok
}

// RetentionDueMs is until when Log.Retain would have nothing to remove, in milliseconds since 1970: 0 where only the log can tell,
// or it would have now, math.MaxInt64 if it never will have.
func (d *Dir) RetentionDueMs(tp kafka.TopicPartition, c Config) (int64, error) {
	segments, err := d.segmentsAtRest(tp)
	if err != nil || len(segments) == 0 {
		return 0, err
	}
	d.mu.Lock()
	start := d.noted.start[tp]
	d.mu.Unlock()
	bytes := int64(0)
	for _, s := range segments {
		bytes += s.size.Load()
	}
	first := segments[0]
	switch {
	case len(segments) > 1 && segments[1].base <= start:
		return 0, nil
	case len(segments) == 1 && bytes == 0 || !c.Delete:
		return math.MaxInt64, nil
	case c.RetentionBytes >= 0 && bytes-c.RetentionBytes >= first.size.Load():
		return 0, nil
	case c.RetentionMs < 0:
		return math.MaxInt64, nil
	}
	return first.retainedUntilMs(c.RetentionMs)
}

// retainedUntilMs is until when a segment is not old, as the last entry of its time index says.
func (s *segment) retainedUntilMs(retentionMs int64) (int64, error) {
	content, err := s.readSide(timeIndexSuffix)
	if vfs.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read index: %w", err)
	}
	times, damaged := ParseTimeIndex(content, s.base)
	if n := len(times); damaged == nil && n > 0 && times[n-1].TimestampMs <= math.MaxInt64-retentionMs {
		return times[n-1].TimestampMs + retentionMs, nil
	}
	return 0, nil //nolint:nilerr // opening the log makes the index anew
}

// segmentsAtRest lists the segments, and what their sizes are.
func (d *Dir) segmentsAtRest(tp kafka.TopicPartition) ([]*segment, error) {
	folder := filepath.Join(d.path, tp.String())
	entries, err := d.fs.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", tp, err)
	}
	var segments []*segment
	at := &place{d, d.fs, folder}
	for _, e := range entries {
		base, ok := parseOffsetName(e.Name, logSuffix)
		if !ok {
			continue
		}
		info, err := d.fs.Stat(filepath.Join(folder, e.Name))
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", tp, err)
		}
		s := newSegment(at, base)
		s.size.Store(info.Size)
		segments = append(segments, s)
	}
	slices.SortFunc(segments, func(a, b *segment) int { return int(min(max(a.base-b.base, -1), 1)) })
	return segments, nil
}
