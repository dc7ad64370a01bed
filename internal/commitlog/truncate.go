package commitlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Truncate cuts the log such that it ends at an offset, or before it where that lies inside a batch, durably. What follows goes
// to a new segment, so readers of the old bytes never see others in their place. Below the log's start it is Reset. It waits for
// the disk; a follower does it before it fetches, so nobody waits for it.
func (l *Log) Truncate(to kafka.Offset) error {
	if err := l.writable(); err != nil {
		return err
	}
	if to >= l.EndOffset() {
		l.epochs.truncateEnd(to)
		return nil
	}
	if to < l.StartOffset() {
		return l.Reset(to)
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.leaveJournal(); err != nil {
		return err
	}
	l.swapMu.Lock()
	defer l.swapMu.Unlock()
	segments := *l.segments.Load()
	i := find(segments, to)
	cut, end, err := l.cutAt(segments[i], to, nextBase(segments, i, l.EndOffset()))
	if err != nil {
		return err
	}
	t := truncation{Log: l, old: segments, kept: slices.Clone(segments[:i]), start: min(l.StartOffset(), end), end: end, now: time.UnixMilli(l.seenMs)}
	if cut != nil {
		t.kept, t.cut = append(t.kept, cut), cut
	}
	return t.run()
}

// Reset empties the log and lets it begin at an offset, durably.
func (l *Log) Reset(start kafka.Offset) error {
	if err := l.writable(); err != nil {
		return err
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.leaveJournal(); err != nil {
		return err
	}
	l.swapMu.Lock()
	defer l.swapMu.Unlock()
	t := truncation{Log: l, old: *l.segments.Load(), start: start, end: start, reset: true, now: time.UnixMilli(l.seenMs)}
	return t.run()
}

// cutAt returns a segment that ends before an offset, in the same file, or nil if nothing is left of it; and where it ends.
func (l *Log) cutAt(s *segment, to, next kafka.Offset) (*segment, kafka.Offset, error) {
	if to <= s.base {
		return nil, s.base, nil
	}
	if err := s.load(next); err != nil {
		return nil, 0, err
	}
	w, err := s.walk(bodyAhead)
	if err != nil {
		return nil, 0, err
	}
	defer w.done()
	limit, err := s.position(w, to)
	if err != nil || limit == 0 {
		return nil, s.base, err
	}
	cut := newSegment(s.place, s.base)
	cut.begin(s.createdMs)
	end := s.base
	for at := int64(0); at < limit; {
		head, size, err := w.head(at)
		if err != nil {
			return nil, 0, err
		}
		cut.noteBatch(head.RecordsMaxTimestampMs(), head.LastOffset())
		cut.noteIndex(head.LastOffset(), at, int(size), l.config.Load().IndexIntervalBytes)
		end = head.NextOffset()
		at += size
	}
	cut.size.Store(limit)
	return cut, end, l.takeAborted(cut, end)
}

// takeAborted takes over what the segment of the same file says about transactions, up to an offset.
func (l *Log) takeAborted(cut *segment, end kafka.Offset) error {
	segments := *l.segments.Load()
	entries, err := l.aborted(segments, find(segments, cut.base))
	if err != nil {
		return err
	}
	n := len(entries)
	for n > 0 && entries[n-1].LastOffset >= end {
		n--
	}
	cut.txns.entries = slices.Clone(entries[:n])
	return nil
}

// truncation makes a log consist of kept segments and a new, empty one. It is run with flushMu held.
type truncation struct {
	*Log
	old, kept  []*segment
	cut        *segment // the last of kept, if it is a shorter one in the file of an old one
	start, end kafka.Offset
	reset      bool // nothing of the log stays
	now        time.Time
}

// run lets readers see the new log first; then the disk follows, the newest segment first and one step after the other, so that
// a power cut leaves a log that was cut less.
func (t *truncation) run() error {
	t.cuts.Add(1)
	flushed := t.FlushedOffset()
	safe := kafka.Offset(0) // there may be older segments than those in old, which retention took
	if n := len(t.kept); n > 0 {
		safe = t.kept[n-1].base // recovery reads it again: its indexes are not flushed
	}
	t.setFlushed(min(flushed, safe))
	if err := t.dir.lower(t.partition, safe, t.start, t.end); err != nil {
		return err
	}
	active := newSegment(&t.place, t.end)
	t.show(active)
	if err := t.change(active); err != nil {
		return t.dir.fail(fmt.Errorf("truncate %s: %w", t.partition, err))
	}
	if len(t.kept) == 0 {
		flushed = t.end
	}
	t.setFlushed(min(flushed, t.end))
	return nil
}

// show publishes the new log. Its active segment has no file yet.
func (t *truncation) show(active *segment) {
	t.Log.end.Store(int64(t.end))
	t.Log.start.Store(int64(t.start))
	t.highWatermark.Store(min(t.highWatermark.Load(), int64(t.end)))
	t.setSegments(append(slices.Clone(t.kept), active))
	t.epochs.truncateEnd(t.end)
	if len(t.kept) == 0 {
		t.epochs.truncateEnd(0)
	}
}

// change does on the disk what show did in memory.
func (t *truncation) change(active *segment) error {
	if len(t.kept) == 0 {
		if err := vfs.Replace(t.fs, t.epochsFile(), formatEpochs(nil)); err != nil {
			return err
		}
	}
	gone := t.old[len(t.kept):]
	var replaced *segment // it has the name of the new one: there must be one of them at any time, or the end is forgotten
	if len(gone) > 0 && gone[0].base == t.end {
		replaced, gone = gone[0], gone[1:]
	}
	for _, s := range slices.Backward(gone) {
		if err := t.discard(s); err != nil {
			return err
		}
	}
	if t.reset {
		if err := t.renameAllDoomed(); err != nil {
			return err
		}
	}
	if t.cut != nil {
		if err := t.shorten(t.old[len(t.kept)-1]); err != nil {
			return err
		}
	}
	if err := t.cutSnapshots(); err != nil {
		return err
	}
	if err := t.replace(replaced, active); err != nil {
		return err
	}
	if err := t.syncNames(); err != nil {
		return err
	}
	return t.reloadProducers()
}

// replace makes the file of the new active segment. Readers of a replaced segment keep its file.
func (t *truncation) replace(old, active *segment) error {
	if old == nil {
		return t.create(active, t.now)
	}
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if err := t.fs.Remove(old.name(suffix)); err != nil && !vfs.IsNotExist(err) {
			return err
		}
	}
	old.retire()
	name := active.name(logSuffix)
	if err := vfs.WriteFile(t.fs, name+tmpSuffix, nil); err != nil {
		return err
	}
	if err := t.fs.Rename(name+tmpSuffix, name); err != nil {
		return err
	}
	return t.create(active, t.now)
}

// discard takes a segment away, durably, and leaves its renamed files to Sweep.
func (t *truncation) discard(s *segment) error {
	t.doomedMu.Lock()
	defer t.doomedMu.Unlock()
	t.takeDeletedName(s.base)
	if err := s.markDeleted(); err != nil {
		return err
	}
	if err := t.fs.SyncDir(t.folder); err != nil {
		return err
	}
	t.doomed = append(t.doomed, doomedSegment{segment: s, renamed: true, removeAt: t.now})
	return nil
}

// renameAllDoomed does at once what Sweep would do later: were the segments that retention took still there after a power cut,
// the log would seem to have a gap behind them.
func (t *truncation) renameAllDoomed() error {
	t.doomedMu.Lock()
	defer t.doomedMu.Unlock()
	for i := range slices.Backward(t.doomed) {
		if s := &t.doomed[i]; !s.renamed {
			if err := t.renameDoomed(s, t.now); err != nil {
				return err
			}
		}
	}
	return nil
}

// shorten cuts the file of an old segment to the length of the one that takes its place.
func (t *truncation) shorten(old *segment) error {
	file, err := t.cut.acquire()
	if err != nil {
		return err
	}
	defer file.release()
	size := t.cut.size.Load()
	if err := file.Truncate(size); err != nil {
		return err
	}
	t.cut.setUnseen(old.takeUnseen())
	if err := t.cut.sync(); err != nil {
		return err
	}
	t.cut.synced.Store(size)
	old.retire()
	return t.finishIndex(t.cut)
}

// retire ends the use of a segment whose file is another's now, or will be.
func (s *segment) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.closeFile()
}

// abandon closes the segment's file as soon as no reader has it.
func (s *segment) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeFile()
}

// cutSnapshots removes those beyond the log's end.
func (t *truncation) cutSnapshots() error {
	var kept []kafka.Offset
	for _, at := range t.snapshots {
		if at <= t.end && !t.reset {
			kept = append(kept, at)
			continue
		}
		if err := t.removeSnapshot(at); err != nil {
			return err
		}
	}
	t.snapshots = kept
	for _, s := range t.old[len(t.kept):] { // of the first one it may not be known
		if s.base == t.end && !t.reset {
			continue
		}
		if err := t.removeSnapshot(s.base); err != nil {
			return err
		}
	}
	return nil
}

// reloadProducers makes the producers as they are at the new end.
func (t *truncation) reloadProducers() error {
	t.producers = producer.New(t.config.Load().MaxProducers)
	o := opening{Log: t.Log, now: t.now, trusted: true, list: *t.segments.Load(), snapshots: t.snapshots}
	if err := o.loadProducers(t.end, t.end); err != nil {
		return err
	}
	t.snapshots = o.snapshots
	return nil
}
