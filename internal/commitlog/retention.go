package commitlog

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// SetStart moves the log's start up: records below it are gone for readers at once, their segments with the next Retain. It
// lasts from the next WriteCheckpoints on. Going back does nothing.
func (l *Log) SetStart(to kafka.Offset) error {
	if to > l.EndOffset() {
		return kafka.OffsetOutOfRange
	}
	if to > l.StartOffset() {
		l.start.Store(int64(to))
		l.epochs.truncateStart(to)
	}
	return nil
}

// Retain takes the segments out of the log that lie below its start, or are over retention.bytes or retention.ms with all they
// hold below the high watermark. If that is all of them, a new segment is begun first. Their files are left to Sweep. It
// tells how many bytes went.
func (l *Log) Retain(now time.Time, highWatermark kafka.Offset) (removedBytes int64, err error) {
	if err := l.writable(); err != nil {
		return 0, err
	}
	if !l.swapMu.TryLock() {
		return 0, nil // compaction is about to replace some of them: the next Retain sees which
	}
	defer l.swapMu.Unlock()
	l.seenMs = now.UnixMilli()
	n, err := l.expired(now, highWatermark)
	if err != nil || n == 0 {
		return 0, err
	}
	segments := *l.segments.Load()
	if n == len(segments) {
		switch err := l.roll(l.EndOffset(), now); {
		case err == nil:
			segments = *l.segments.Load()
		case vfs.IsFull(err) && n > 1:
			n-- // no room to begin another one: the active segment stays until there is
		default:
			return 0, err
		}
	}
	for _, s := range segments[:n] {
		removedBytes += s.size.Load()
	}
	if start := segments[n].base; start > l.StartOffset() {
		l.start.Store(int64(start))
		l.epochs.truncateStart(start)
	}
	l.setSegments(append([]*segment(nil), segments[n:]...))
	l.doom(segments[:n])
	return removedBytes, nil
}

// expired counts the segments at the begin that may go.
func (l *Log) expired(now time.Time, highWatermark kafka.Offset) (int, error) {
	c, end, segments := l.config.Load(), l.EndOffset(), *l.segments.Load()
	excess := int64(-1)
	if c.Delete && c.RetentionBytes >= 0 {
		excess = l.Size() - c.RetentionBytes
	}
	for i, s := range segments {
		next, size := nextBase(segments, i, end), s.size.Load()
		last := i+1 == len(segments)
		if next > highWatermark || last && size == 0 || l.inJournal(s.base, next) {
			return i, nil
		}
		if !last && next <= l.StartOffset() {
			excess -= size
			continue
		}
		if excess >= size {
			excess -= size
			continue
		}
		old, err := l.isOld(s, next, now)
		if err != nil || !old {
			return i, err
		}
		excess -= size
	}
	return len(segments), nil
}

// inJournal tells whether some of what lies between is durable in the journal only. A segment of which that is so must stay in
// the log until it is flushed: its file may outlive a power cut, torn, in front of others.
func (l *Log) inJournal(from, to kafka.Offset) bool {
	return to > kafka.Offset(l.settled.Load()) && from < l.FlushedOffset()
}

// isOld tells whether all of a segment is older than retention.ms.
func (l *Log) isOld(s *segment, next kafka.Offset, now time.Time) (bool, error) {
	c := l.config.Load()
	if !c.Delete || c.RetentionMs < 0 {
		return false, nil
	}
	maxTime, err := s.maxTimestamp(next)
	if err != nil {
		return false, err
	}
	if maxTime.TimestampMs < 0 {
		return now.UnixMilli()-s.createdMs > c.RetentionMs, nil
	}
	return now.UnixMilli()-maxTime.TimestampMs > c.RetentionMs, nil
}

// doom leaves segments to sweep.
func (l *Log) doom(segments []*segment) {
	l.doomedMu.Lock()
	defer l.doomedMu.Unlock()
	for _, s := range segments {
		l.doomed = append(l.doomed, doomedSegment{segment: s})
	}
}

// sweep renames the files of doomed segments and removes them when it is time; it closes what is idle. One segment after the
// other goes, durably: a power cut must not leave an older one without a newer one.
func (l *Log) sweep(now time.Time) error {
	if err := l.sweepDoomed(now); err != nil {
		return err
	}
	segments := *l.segments.Load()
	for i, s := range segments {
		s.idle(i+1 == len(segments))
		if s.mended.Swap(false) {
			l.dir.note("an index of %s was missing or did not fit its records: it is made anew from them", s)
		}
	}
	return nil
}

// cutUnsaved tells whether retention took segments and leader-epoch-checkpoint does not say so yet. It must before their files go: Kafka
// leaves the file as it is when it opens the log after a kill, and what is missing in front would look lost after it stopped in order.
func (l *Log) cutUnsaved() bool {
	l.doomedMu.Lock()
	defer l.doomedMu.Unlock()
	return slices.ContainsFunc(l.doomed, func(s doomedSegment) bool { return !s.renamed }) && l.epochs.dirty()
}

// atRest tells whether there is nothing to sweep.
func (l *Log) atRest() bool {
	l.doomedMu.Lock()
	doomed := len(l.doomed)
	l.doomedMu.Unlock()
	segments := *l.segments.Load()
	for i, s := range segments {
		if !s.atRest(i+1 == len(segments)) {
			return false
		}
	}
	return doomed == 0
}

func (s *segment) atRest(active bool) bool {
	s.mu.Lock()
	used := s.used || s.file != nil
	s.mu.Unlock()
	s.index.mu.Lock()
	loaded := s.index.loaded
	s.index.mu.Unlock()
	return !used && !s.mended.Load() && (active || !loaded)
}

func (l *Log) sweepDoomed(now time.Time) error {
	l.doomedMu.Lock()
	defer l.doomedMu.Unlock()
	kept := l.doomed[:0]
	for i := range l.doomed {
		stays, err := l.sweepOne(i, now)
		if err != nil {
			l.doomed = append(kept, l.doomed[i:]...)
			return err
		}
		if stays {
			kept = append(kept, l.doomed[i])
		}
	}
	l.doomed = kept
	return nil
}

// sweepOne tells whether the i-th of the doomed segments still has files. It needs doomedMu.
func (l *Log) sweepOne(i int, now time.Time) (stays bool, err error) {
	s := &l.doomed[i]
	if s.replaced {
		return false, nil
	}
	if !s.renamed {
		if err := l.writeSnapshotAtBegin(l.doomed[i:]); err != nil {
			return true, err
		}
		if err := l.renameDoomed(s, now); err != nil {
			return true, err
		}
	}
	if now.Before(s.removeAt) {
		return true, nil
	}
	return false, s.removeDeleted()
}

func (l *Log) renameDoomed(s *doomedSegment, now time.Time) error {
	if l.closed.Load() {
		return nil
	}
	l.takeDeletedName(s.base)
	if err := s.markDeleted(); err != nil {
		return err
	}
	if err := l.syncFolder("delete a segment of"); err != nil {
		return err
	}
	s.renamed = true
	s.removeAt = now.Add(time.Duration(l.config.Load().FileDeleteDelayMs) * time.Millisecond)
	return l.removeSnapshot(s.base)
}

// takeDeletedName ends the use of a doomed segment whose .deleted files another one of its base is about to replace: a reader with
// an old list of segments would find the other's bytes under the name. It needs doomedMu.
func (l *Log) takeDeletedName(base kafka.Offset) {
	for i := range l.doomed {
		if d := &l.doomed[i]; d.renamed && !d.replaced && d.base == base {
			d.retire()
			d.replaced = true
		}
	}
}
