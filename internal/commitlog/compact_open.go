package commitlog

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// finishSwaps brings a compaction to its end that was cut off while a cleaned segment took the place of others, ours or Kafka's:
// if a .cleaned file is left beside the .swap files, that had only begun, and it is undone; else what the new segment stands
// for goes, and it gets its name. It tells whether there was anything to do.
func (o *opening) finishSwaps(entries []vfs.Entry) (bool, error) {
	var swaps []string
	cleaned := kafka.Offset(1<<63 - 1)
	for _, e := range entries {
		if strings.HasSuffix(e.Name, swapSuffix) {
			swaps = append(swaps, e.Name)
		}
		if base, ok := segmentFile(strings.TrimSuffix(e.Name, cleanedSuffix)); ok && strings.HasSuffix(e.Name, cleanedSuffix) {
			cleaned = min(cleaned, base)
		}
	}
	if len(swaps) == 0 {
		return false, nil
	}
	for _, name := range swaps {
		base, ok := segmentFile(strings.TrimSuffix(name, swapSuffix))
		var err error
		if ok && base < cleaned {
			err = o.finishSwap(entries, newSegment(&o.place, base))
		} else {
			err = o.remove(name) // Kafka's too: a segment that it had begun to split
		}
		if err != nil {
			return false, err
		}
	}
	// Before a .cleaned is removed, or another one made: what a .swap means depends on it.
	return true, o.syncFolder("finish compaction of")
}

// finishSwap is called for each of a segment's files; the first call does it.
func (o *opening) finishSwap(entries []vfs.Entry, s *segment) error {
	_, err := o.fs.Stat(s.name(logSuffix) + swapSuffix)
	if err == nil {
		err = o.removeReplaced(entries, s)
	}
	if err != nil && !vfs.IsNotExist(err) {
		return err
	}
	if err := dropSwap(o.fs, s); err != nil {
		return o.dir.failUnlessFull(fmt.Errorf("finish compaction of %s: %w", o.partition, err))
	}
	return nil
}

// removeReplaced removes the segments that a new one stands for.
func (o *opening) removeReplaced(entries []vfs.Entry, s *segment) error {
	next, err := o.swapEnd(s)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if base, ok := segmentFile(e.Name); ok && base >= s.base && base < next {
			if err := o.remove(e.Name); err != nil {
				return err
			}
		}
	}
	return o.syncFolder("finish compaction of")
}

// swapEnd reads where a segment ends whose file is a .swap; an empty one stands for its base alone.
func (o *opening) swapEnd(s *segment) (kafka.Offset, error) {
	name := s.name(logSuffix) + swapSuffix
	next := s.base + 1
	for b, err := range FileBatches(o.fs, name) {
		if err != nil {
			return 0, err
		}
		if err := b.Check(); err != nil {
			return 0, &CorruptError{File: name, At: b.At, Reason: fmt.Sprintf("%v; it is the result of a compaction and was flushed", err)}
		}
		next = max(next, b.NextOffset())
	}
	return next, nil
}

// segmentFile returns the base offset that the name of a segment's file begins with.
func segmentFile(name string) (kafka.Offset, bool) {
	for _, suffix := range segmentSuffixes {
		if base, ok := parseOffsetName(filepath.Base(name), suffix); ok {
			return base, true
		}
	}
	return 0, false
}
