package commitlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/vfs"
)

// A cleaned segment takes the place of its group in three steps, each durable before the next. (1) Its files, complete, are
// renamed from .cleaned to .swap: with the last of them the new segment is what counts. (2) The files of the old segments are
// renamed to .deleted, the oldest first, so that no power cut brings back a record of which a newer one, or the tombstone, has
// gone. (3) .swap is dropped from the names. Opening a log undoes (1) if a .cleaned is left, and otherwise goes on from there,
// as Kafka does: see finishSwaps.

// replace lets the segment that was written take the place of a group.
func (c *Compaction) replace(group []*segment) error {
	w := c.writer
	last := group[len(group)-1]
	c.stats.OldSegments += len(group)
	for _, s := range group {
		c.stats.OldSegmentBytes += s.size.Load()
	}
	c.stats.NewSegments++
	c.stats.NewBytes += w.size.Load()
	if same, err := c.isSame(group); err != nil || same {
		w.discard()
		c.writer = nil
		return err
	}
	if err := w.seal(c.txns.kept, last.createdMs); err != nil {
		return c.log.writeError(err)
	}
	if err := c.log.swap(c, group, w.segment); err != nil {
		return err
	}
	c.writer = nil
	return nil
}

// isSame tells that nothing would change.
func (c *Compaction) isSame(group []*segment) (bool, error) {
	if len(group) > 1 || c.writer.changed {
		return false, nil
	}
	all := *c.log.segments.Load()
	i := slices.Index(all, group[0])
	if i < 0 {
		return false, nil // swap finds out
	}
	aborted, err := c.log.aborted(all, i)
	return slices.Equal(aborted, c.txns.kept), err
}

// swap puts a segment in place of others that follow each other. Readers keep the old ones until they come back.
func (l *Log) swap(c *Compaction, old []*segment, cleaned *segment) error {
	l.swapMu.Lock()
	defer l.swapMu.Unlock()
	if l.closed.Load() {
		return fmt.Errorf("%s: %w", l.partition, ErrClosed)
	}
	all := *l.segments.Load()
	at := slices.Index(all, old[0])
	if l.cuts.Load() != c.cuts || at < 0 || len(all) <= at+len(old) || !slices.Equal(all[at:at+len(old)], old) {
		return c.stale()
	}
	for i := range old {
		if err := l.pin(all, at+i); err != nil {
			return err
		}
	}
	// The first step either is done or has changed nothing. From then on the disk must have it all.
	name := cleaned.name(logSuffix)
	if err := l.fs.Rename(name+cleanedSuffix, name+swapSuffix); err != nil {
		return l.writeError(fmt.Errorf("compact %s: %w", l.partition, err))
	}
	l.doomedMu.Lock()
	for _, s := range old {
		l.takeDeletedName(s.base)
	}
	l.doomedMu.Unlock()
	if err := l.swapFiles(old, cleaned); err != nil {
		return l.dir.fail(fmt.Errorf("compact %s: %w", l.partition, err))
	}
	l.listMu.Lock()
	all = *l.segments.Load() // it may have grown
	replaced := slices.Replace(slices.Clone(all), at, at+len(old), cleaned)
	l.setSegments(replaced)
	l.listMu.Unlock()
	l.doomedMu.Lock()
	defer l.doomedMu.Unlock()
	removeAt := c.now.Add(time.Duration(l.config.Load().FileDeleteDelayMs) * time.Millisecond)
	for _, s := range old {
		l.doomed = append(l.doomed, doomedSegment{segment: s, renamed: true, removeAt: removeAt})
	}
	return nil
}

// swapFiles goes on when the .log is called .swap.
func (l *Log) swapFiles(old []*segment, cleaned *segment) error {
	// An index called .swap whose .log was lost would be taken for the old segment's.
	if err := l.syncFolder("compact"); err != nil {
		return err
	}
	for _, suffix := range segmentSuffixes[1:] {
		name := cleaned.name(suffix)
		if err := l.fs.Rename(name+cleanedSuffix, name+swapSuffix); err != nil && !vfs.IsNotExist(err) {
			return err
		}
	}
	if err := l.fs.SyncDir(l.folder); err != nil {
		return err
	}
	for _, s := range old {
		if err := s.markDeleted(); err != nil {
			return err
		}
		if err := l.syncFolder("compact"); err != nil {
			return err
		}
	}
	if err := dropSwap(l.fs, cleaned); err != nil {
		return err
	}
	// The .swap must not come back beside the .cleaned of another compaction: it would be taken for one that had only begun.
	return l.syncFolder("compact")
}

// dropSwap gives the files of a segment their names.
func dropSwap(fs vfs.FS, s *segment) error {
	for _, suffix := range segmentSuffixes {
		name := s.name(suffix)
		if err := fs.Rename(name+swapSuffix, name); err != nil && !vfs.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// pin loads the indexes for good: their names are about to be another segment's.
func (l *Log) pin(segments []*segment, i int) error {
	s := segments[i]
	for {
		if err := s.load(nextBase(segments, i, 0)); err != nil {
			return err
		}
		s.index.mu.Lock()
		loaded := s.index.loaded
		s.index.pinned = loaded
		s.index.mu.Unlock()
		if loaded {
			break
		}
	}
	for {
		if _, err := l.aborted(segments, i); err != nil {
			return err
		}
		s.txns.mu.Lock()
		loaded := s.txns.loaded
		s.txns.pinned = loaded
		s.txns.mu.Unlock()
		if loaded {
			return nil
		}
	}
}
