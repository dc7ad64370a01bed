package commitlog

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A segment may be large, and little of it lie behind the recovery point. So that recovery need not read it from its begin, what
// belongs to a segment's end is written now and then while it grows: the indexes and a snapshot of the producers. Recovery goes on from
// the newest snapshot below the recovery point. It was written before the append that lies between, and so before the flush of the file
// system that came before the recovery point was written.
//
// That is not so for what was written later, which may be there in part. So no more is believed of the indexes than what goes for every
// part of them that is a beginning, and the batches tell the rest. Logs with transactions, and such with gaps, are read from the
// segment's begin: nothing tells whether a transaction index is whole.

// resumeBytes is how far apart such places are.
const resumeBytes = 64 << 20

// leaveMark makes the active segment's end a place from which recovery can go on, if it has grown enough. It goes before an append.
func (l *Log) leaveMark(s *segment) error {
	size := s.size.Load()
	if size-s.marked < l.dir.resumeBytes {
		return nil
	}
	s.marked = size
	if l.transactional.Load() || l.mayHaveGaps() {
		return nil
	}
	if err := l.finish(s, l.EndOffset()); !vfs.IsFull(err) { // with a full disk recovery reads more
		return err
	}
	return nil
}

// resume looks for the place in the segment from which recovery goes on: a batch, at which it is then, with the producers, indexes and
// end as they are there. It is 0 where recovery begins with the segment.
func (o *opening) resume(s *segment, next kafka.Offset) (at int64, err error) {
	if o.transactional.Load() || o.mayHaveGaps() {
		return 0, nil
	}
	for _, from := range slices.Backward(o.snapshots) {
		if from <= s.base || from >= min(o.scanFrom, next) {
			continue
		}
		state, err := o.readSnapshot(from)
		if err != nil || state != nil && state.Transactional() {
			return 0, err
		}
		if state == nil {
			continue
		}
		return o.resumeAt(s, from, next, state)
	}
	return 0, nil
}

// resumeAt goes on with the producers from an offset, if that is sound.
func (o *opening) resumeAt(s *segment, from, next kafka.Offset, state *producer.State) (at int64, err error) {
	offsets, times, ok, err := s.readIndexes(next)
	if err != nil || !ok {
		return 0, err
	}
	offsets = slices.DeleteFunc(offsets, func(e IndexEntry) bool { return e.Offset >= from })
	times = slices.DeleteFunc(times, func(e TimeEntry) bool { return e.Offset >= from })
	if len(times) == 0 {
		return 0, nil
	}
	offsets = slices.DeleteFunc(offsets, func(e IndexEntry) bool { return e.Offset > times[len(times)-1].Offset })
	if len(offsets) == 0 {
		return 0, nil
	}
	at, err = s.resumeFrom(offsets, times, from, o.config.Load().IndexIntervalBytes, o.now)
	if isCorrupt(err) || err == nil && at == 0 {
		return 0, nil //nolint:nilerr // reading all of the segment tells
	}
	if err != nil {
		return 0, err
	}
	o.producers, o.end, o.resumed = state, from, from
	return at, nil
}

// resumeFrom takes the beginnings of the indexes, and notes the batches behind their last entries up to an offset. It returns where the
// batch with that offset begins, or 0 if there is none.
func (s *segment) resumeFrom(offsets []IndexEntry, times []TimeEntry, to kafka.Offset, interval int, now time.Time) (at int64, err error) {
	w, err := s.walk(headAhead)
	if err != nil {
		return 0, err
	}
	defer w.done()
	head, _, err := w.head(0)
	if err != nil {
		return 0, err
	}
	w.ahead = bodyAhead
	s.begin(now.UnixMilli())
	s.index.takeBeginning(offsets, times)
	s.mu.Lock()
	s.firstMs = head.MaxTimestampMs()
	s.maxTime = times[len(times)-1]
	s.mu.Unlock()
	at, reached := offsets[len(offsets)-1].Position, kafka.NoOffset
	for at < w.limit && reached != to {
		b, err := w.batch(at)
		if err != nil {
			return 0, err
		}
		first := reached == kafka.NoOffset
		if b.Check() != nil || first && b.LastOffset() != offsets[len(offsets)-1].Offset || !first && b.BaseOffset() != reached || b.LastOffset() >= to {
			return 0, nil
		}
		s.noteBatch(b.RecordsMaxTimestampMs(), b.LastOffset())
		s.noteIndex(b.LastOffset(), at, len(b), interval)
		reached = b.NextOffset()
		at += int64(len(b))
	}
	if reached != to {
		return 0, nil
	}
	return at, nil
}

// takeBeginning takes over entries of files that are then made new.
func (x *index) takeBeginning(offsets []IndexEntry, times []TimeEntry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded, x.offsets, x.times = true, offsets, times
	x.written.offsets, x.written.times = 0, 0
}
