package commitlog

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A snapshot file holds the producers at an offset: at the base of each segment, and at the end of a log that was closed. It is
// not flushed by itself: its checksum tells whether it can be used, and if not, an older one and the batches behind it serve.

func (l *Log) snapshotFile(at kafka.Offset) string {
	return filepath.Join(l.folder, offsetName(at, snapshotSuffix))
}

// writeSnapshot writes the producers at the log's end, and removes older snapshots that are not at a segment's base.
func (l *Log) writeSnapshot(end kafka.Offset) error {
	if err := vfs.WriteFile(l.fs, l.snapshotFile(end), l.producers.Encode()); err != nil {
		return err
	}
	segments := *l.segments.Load()
	kept := make([]kafka.Offset, 0, len(l.snapshots)+1)
	for _, at := range l.snapshots {
		if at == end {
			continue
		}
		if slices.ContainsFunc(segments, func(s *segment) bool { return s.base == at }) {
			kept = append(kept, at)
			continue
		}
		if err := l.removeSnapshot(at); err != nil {
			return err
		}
	}
	l.snapshots = append(kept, end)
	return nil
}

func (l *Log) removeSnapshot(at kafka.Offset) error {
	if err := l.fs.Remove(l.snapshotFile(at)); err != nil && !vfs.IsNotExist(err) {
		return fmt.Errorf("remove producer snapshot: %w", err)
	}
	return nil
}

// dropSnapshots removes those beyond the log's end. After a recovery only those at the base of a segment are kept: the others
// may be of batches that were cut off.
func (o *opening) dropSnapshots() error {
	var kept []kafka.Offset
	for _, at := range o.snapshots {
		if at <= o.end && (o.trusted || o.isBase(at)) {
			kept = append(kept, at)
			continue
		}
		if err := o.removeSnapshot(at); err != nil {
			return o.dir.failUnlessFull(err)
		}
	}
	o.Log.snapshots = kept
	return nil
}

func (o *opening) isBase(offset kafka.Offset) bool {
	return slices.ContainsFunc(o.list, func(s *segment) bool { return s.base == offset })
}

// loadProducers makes the producers as they are at an offset: those of the newest snapshot at or below limit that can be read,
// and the batches behind it.
func (o *opening) loadProducers(at, limit kafka.Offset) error {
	for _, from := range slices.Backward(o.snapshots) {
		if from > limit || !o.trusted && !o.isBase(from) {
			continue
		}
		content, err := vfs.ReadFile(o.fs, o.snapshotFile(from))
		if vfs.IsNotExist(err) {
			continue // Sweep removed it with its segment
		}
		if err != nil {
			return fmt.Errorf("read producer snapshot: %w", err)
		}
		state, err := producer.Decode(content)
		if err != nil {
			o.dir.note("%s: %v; an older one is used", o.snapshotFile(from), err)
			continue
		}
		state.SetMax(o.config.Load().MaxProducers)
		o.producers = state
		return o.applyBatches(o.list, from, at)
	}
	return o.applyBatches(o.list, 0, at)
}

// keepProducers writes a snapshot of the producers at the base of a segment, in place of one that may be torn.
func (o *opening) keepProducers(base kafka.Offset) error {
	if err := vfs.WriteFile(o.fs, o.snapshotFile(base), o.producers.Encode()); err != nil {
		return o.dir.failUnlessFull(err)
	}
	if i, found := slices.BinarySearch(o.snapshots, base); !found {
		o.snapshots = slices.Insert(o.snapshots, i, base)
	}
	return nil
}

// applyBatches tells the producers about the batches of an offset range. Their CRCs are not checked: they were.
func (o *opening) applyBatches(list []*segment, from, to kafka.Offset) error {
	for i, s := range list {
		if s.base >= to || nextBase(list, i, to) <= from {
			continue
		}
		if err := o.applySegment(s, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (o *opening) applySegment(s *segment, from, to kafka.Offset) error {
	file, err := s.acquire()
	if err != nil {
		return err
	}
	defer file.release()
	w := newWalker(file, s, s.size.Load(), bodyAhead)
	defer w.done()
	for at := int64(0); at < w.limit; {
		head, size, err := w.head(at)
		if err != nil {
			return err
		}
		if head.BaseOffset() >= to {
			return nil
		}
		if head.BaseOffset() >= from && head.ProducerID() != kafka.NoProducer {
			if head.IsControl() {
				if head, err = w.batch(at); err != nil {
					return err
				}
			}
			o.producers.Apply(head, o.now)
		}
		at += size
	}
	return nil
}
