package commitlog

import (
	"errors"
	"fmt"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// recover recovers the segments, and goes on with what the journal has.
func (o *opening) recover() error {
	o.takeFound()
	if err := o.recoverSegments(); err != nil {
		return err
	}
	return o.replay()
}

// recoverSegments reads every batch from the segment on that holds or ends at the recovery point, or of that one from the place on where
// it can go on (resume). What does not check is the torn
// end: it and all behind it go. Nothing acknowledged is among it, as a flush makes all before its end durable, unless the journal has
// it; but where it lies below the recovery point, it is damage, and stays.
func (o *opening) recoverSegments() error {
	// A segment that ends at the recovery point may have been rolled after that was written: its indexes are not durable.
	first := 0
	for first+1 < len(o.list) && o.list[first+1].base < o.scanFrom {
		first++
	}
	for _, s := range o.list[:first] {
		s.synced.Store(s.size.Load())
		s.createdMs = o.now.UnixMilli()
	}
	o.epochs.truncateEnd(max(o.scanFrom, o.list[first].base))
	at, err := o.beginAt(o.list[first], nextBase(o.list, first, 1<<63-1))
	if err != nil {
		return err
	}
	for i := first; i < len(o.list); i++ {
		s := o.list[i]
		if i > first {
			gap := s.base != o.end && !o.mayHaveGap(s.base)
			if gap || o.inFoundJournal(o.end, s.base) {
				return o.dropFrom(i, fmt.Sprintf("offsets %d to %d are missing before", o.end, s.base))
			}
			o.end = s.base
			if err := o.passBase(s.base); err != nil {
				return err
			}
			s.begin(o.now.UnixMilli())
			at = 0
		}
		torn, err := o.scan(s, at, nextBase(o.list, i, 1<<63-1))
		if err != nil {
			return err
		}
		if err := o.finishScan(s, i+1 == len(o.list) || torn != ""); err != nil {
			return err
		}
		if torn != "" {
			return o.dropFrom(i+1, torn)
		}
	}
	return o.checkFloor()
}

// beginAt makes ready to scan the first segment that is, and tells from where on.
func (o *opening) beginAt(s *segment, next kafka.Offset) (at int64, err error) {
	if at, err = o.resume(s, next); at > 0 || err != nil {
		o.addBases()
		return at, err
	}
	o.end = s.base
	s.begin(o.now.UnixMilli())
	return 0, o.loadProducers(s.base, s.base)
}

// passBase goes on with the producers at the base of a segment, and sees to their snapshot. Up to the recovery point the one that is
// there counts: nothing before it was lost, and compaction may have taken batches away that only it still tells of.
func (o *opening) passBase(base kafka.Offset) error {
	if base <= o.floor {
		state, err := o.readSnapshot(base)
		if err != nil {
			return err
		}
		if state != nil {
			o.producers = state
			if state.Transactional() {
				o.transactional.Store(true)
			}
			return nil
		}
	}
	return o.writeSnapshotAtBase(base)
}

// mayHaveGap tells whether compaction can have left out offsets before a segment. What is torn off at a segment's end and not in
// the next one looks the same: nobody was promised it.
func (o *opening) mayHaveGap(base kafka.Offset) bool {
	return o.config.Load().Compact || base <= o.dir.cleanedOffset(o.partition)
}

// checkClosedAt is checkFloor for a log that was closed in order. Then there is a snapshot at its end, unless it was closed briefly, which
// tells whether the log or the recovery point is wrong.
func (o *opening) checkClosedAt() error {
	if n := len(o.snapshots); o.end < o.floor && n > 0 && o.snapshots[n-1] == o.end {
		o.dir.note("%s: %s has recovery point %d, but it was closed at its end, %d", o.partition, RecoveryPointFile, o.floor, o.end)
		return nil
	}
	return o.checkFloor()
}

// checkFloor refuses a log that lacks what had been flushed.
func (o *opening) checkFloor() error {
	if o.end >= o.floor {
		return nil
	}
	s := o.list[len(o.list)-1]
	return &CorruptError{
		File: s.name(logSuffix), At: s.size.Load(),
		Reason: fmt.Sprintf("the log ends at offset %d, but had been flushed up to %d (%s)", o.end, o.floor, RecoveryPointFile),
		Remedy: RemedyRecords + "; if `raftsman log verify` finds nothing wrong but the recovery point, stop the broker, remove " + RecoveryPointFile + ", start it",
	}
}

// dropFrom removes the segments behind a torn end.
func (o *opening) dropFrom(i int, reason string) error {
	if err := o.checkFloor(); err != nil {
		return err
	}
	o.dir.note("%s: the end was torn, it is %d now: %s", o.partition, o.end, reason)
	for len(o.list) > i {
		s := o.list[len(o.list)-1]
		o.list = o.list[:len(o.list)-1]
		if err := s.remove(); err != nil {
			return o.dir.failUnlessFull(err)
		}
	}
	return nil
}

// remove closes and removes the segment's files.
func (s *segment) remove() error {
	s.mu.Lock()
	s.closeFile()
	s.mu.Unlock()
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix, logSuffix} {
		if err := s.fs.Remove(s.name(suffix)); err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("remove torn segment: %w", err)
		}
	}
	return nil
}

// scan checks a segment's batches from a position up to the base of the next segment and notes them in the indexes, epochs and
// producers. If the end is torn it cuts it off and says how.
func (o *opening) scan(s *segment, at int64, next kafka.Offset) (torn string, err error) {
	w, err := s.walk(bodyAhead)
	if err != nil {
		return "", err
	}
	defer w.done()
	for at < w.limit {
		b, err := w.batch(at)
		if err == nil {
			err = o.checkBatch(s, b, next)
		}
		var corrupt *CorruptError
		var malformed *record.Malformed
		switch {
		case err == nil:
			o.noteBatch(s, b, at)
			at += int64(len(b))
		case errors.As(err, &corrupt) || errors.As(err, &malformed):
			return o.cutTorn(s, w.file, at, err)
		default:
			return "", err
		}
	}
	return "", nil
}

func (o *opening) checkBatch(s *segment, b record.Batch, next kafka.Offset) error {
	if err := b.Check(); err != nil {
		return err
	}
	if b.BaseOffset() < o.end || b.LastOffset() >= next || b.LastOffset()-s.base > 1<<31-1 {
		return &CorruptError{Reason: fmt.Sprintf("offsets %d to %d where %d is next", b.BaseOffset(), b.LastOffset(), o.end)}
	}
	return nil
}

func (o *opening) noteBatch(s *segment, b record.Batch, at int64) {
	s.noteBatch(b.RecordsMaxTimestampMs(), b.LastOffset())
	s.noteIndex(b.LastOffset(), at, len(b), o.config.Load().IndexIntervalBytes)
	if b.BaseOffset() >= o.scanFrom {
		o.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
	}
	if done, ok := o.producers.Apply(b, o.now); ok {
		o.transactional.Store(true)
		if done.Aborted {
			s.txns.add(done)
		}
	}
	o.end = b.NextOffset()
}

// cutTorn ends the segment at a position, unless that would cut off what had been flushed.
func (o *opening) cutTorn(s *segment, file vfs.File, at int64, why error) (torn string, err error) {
	if o.end < o.floor {
		return "", &CorruptError{File: s.name(logSuffix), At: at, Reason: fmt.Sprintf(
			"%v; offset %d had been flushed (recovery point %d)", why, o.end, o.floor)}
	}
	torn = fmt.Sprintf("%d bytes cut off %s: %v", s.size.Load()-at, s.name(logSuffix), why)
	if err := file.Truncate(at); err != nil {
		return "", o.dir.fail(fmt.Errorf("cut off torn end: %w", err))
	}
	s.size.Store(at)
	return torn, nil
}

// begin forgets what is known of the segment's batches: they are about to be read.
func (s *segment) begin(nowMs int64) {
	s.index.reset()
	s.txns.reset()
	s.sinceIndex = 0
	s.synced.Store(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxKnown, s.maxTime, s.firstMs, s.createdMs = true, TimeEntry{-1, s.base}, -1, nowMs
}

// finishScan writes the indexes of a segment that will not be appended to.
func (o *opening) finishScan(s *segment, active bool) error {
	if active {
		return nil
	}
	return o.dir.failUnlessFull(o.finishIndex(s))
}

// rebuildIndexes makes the indexes of a segment new from its batches, as their files are missing or damaged.
func (s *segment) rebuildIndexes() error {
	w, err := s.walk(bodyAhead)
	if err != nil {
		return err
	}
	defer w.done()
	fresh := newSegment(s.place, s.base)
	for at := int64(0); at < w.limit; {
		head, size, err := w.head(at)
		if err != nil {
			return err
		}
		fresh.noteBatch(head.RecordsMaxTimestampMs(), head.LastOffset())
		fresh.noteIndex(head.LastOffset(), at, int(size), DefaultConfig().IndexIntervalBytes)
		at += size
	}
	fresh.index.addTime(fresh.maxTime.TimestampMs, fresh.maxTime.Offset)
	return s.replaceIndexes(&fresh.index)
}

// replaceIndexes takes over rebuilt indexes, and makes their files such that a power cut leaves none that looks right and is
// not.
func (s *segment) replaceIndexes(fresh *index) error {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if s.index.loaded {
		return nil
	}
	s.index.loaded, s.index.offsets, s.index.times = true, fresh.offsets, fresh.times
	s.index.written.offsets, s.index.written.times = 0, 0
	s.mu.Lock()
	deleted := s.deleted
	s.mu.Unlock()
	if deleted || s.index.pinned {
		return nil
	}
	if err := vfs.Replace(s.fs, s.name(timeIndexSuffix), encodeTimeIndex(fresh.times, s.base)); err != nil {
		return fmt.Errorf("write rebuilt index: %w", err)
	}
	if err := vfs.Replace(s.fs, s.name(indexSuffix), encodeIndex(fresh.offsets, s.base)); err != nil {
		return fmt.Errorf("write rebuilt index: %w", err)
	}
	s.index.written.offsets, s.index.written.times = len(fresh.offsets), len(fresh.times)
	return nil
}
