package commitlog

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// An index is a hint: what it says is compared with the batch that it points at, whose header is read anyway. Where they are at
// odds the index is made anew from the batches: a wrong one must not hide records, let one begin in the middle of a batch, or
// have retention delete what is not old yet.

// indexed returns where the batch begins that an entry of the offset index points at: 0 for the begin of the segment.
func (s *segment) indexed(w *walker, find func(*index) IndexEntry) (int64, error) {
	e := find(&s.index)
	if e.Position == 0 || e.Position >= w.limit {
		return e.Position, nil
	}
	head, _, err := w.head(e.Position)
	if err == nil && head.BaseOffset() <= e.Offset {
		return e.Position, nil
	}
	if err := s.distrust(err); err != nil {
		return 0, err
	}
	return find(&s.index).Position, nil
}

// distrust makes the indexes anew. why is nil, or what was met where an index pointed to: other errors than damage are returned.
func (s *segment) distrust(why error) error {
	if why != nil && !isCorrupt(why) {
		return why
	}
	s.index.forget()
	s.mended.Store(true)
	return s.rebuildIndexes()
}

func isCorrupt(err error) bool {
	var corrupt *CorruptError
	return errors.As(err, &corrupt)
}

// checkTime compares an entry of the time index with its batch, and makes the indexes anew if that has a later timestamp.
func (s *segment) checkTime(w *walker, e TimeEntry) (sound bool, err error) {
	at, err := s.position(w, e.Offset)
	if err != nil || at >= w.limit {
		return err == nil, err
	}
	head, _, err := w.head(at)
	if err == nil && head.RecordsMaxTimestampMs() <= e.TimestampMs {
		return true, nil
	}
	return false, s.distrust(err)
}

// checkLastTime looks whether the last entry of the time index can be the segment's largest timestamp: it is that of its batch, and
// no batch behind the last entry of the offset index has a larger one.
func (s *segment) checkLastTime() error {
	last, ok := s.index.lastTime()
	if !ok {
		return nil
	}
	w, err := s.walk(headAhead)
	if err != nil {
		return err
	}
	defer w.done()
	at, err := s.position(w, last.Offset)
	if err != nil {
		return err
	}
	sound := at < w.limit
	if sound {
		head, _, err := w.head(at)
		if err != nil {
			return err
		}
		sound = head.RecordsMaxTimestampMs() == last.TimestampMs
	}
	if at, err = s.indexed(w, func(x *index) IndexEntry { return x.beforePosition(1<<63 - 1) }); err != nil {
		return err
	}
	for sound && at < w.limit {
		head, size, err := w.head(at)
		if err != nil {
			return err
		}
		sound = head.RecordsMaxTimestampMs() <= last.TimestampMs
		at += size
	}
	if sound {
		return nil
	}
	return s.distrust(nil)
}

// checkMarkers compares entries of a transaction index with the markers, and with the batches that the transactions begin with where
// they are in the same segment. None that ends later begins below what was stable after a marker.
func (s *segment) checkMarkers(entries []AbortedTxn, next kafka.Offset) error {
	if len(entries) == 0 {
		return nil
	}
	if err := s.load(next); err != nil {
		return err
	}
	w, err := s.walk(headAhead)
	if err != nil {
		return err
	}
	defer w.done()
	first := kafka.Offset(math.MaxInt64) // of those that end later
	for i, e := range slices.Backward(entries) {
		sound, err := s.isMarker(w, e)
		if err != nil {
			return err
		}
		if !sound || e.LastStable > first {
			return &CorruptError{At: int64(i) * txnEntryBytes, Reason: fmt.Sprintf("entry %+v does not fit the records", e)}
		}
		first = min(first, e.FirstOffset)
	}
	return nil
}

// isMarker tells whether the offsets of an aborted transaction are those of its marker and of its first batch. Compaction may have
// taken that one.
func (s *segment) isMarker(w *walker, e AbortedTxn) (bool, error) {
	at, err := s.position(w, e.LastOffset)
	if err != nil || at >= w.limit {
		return false, err
	}
	head, _, err := w.head(at)
	if err != nil || !head.IsControl() || head.ProducerID() != e.ProducerID || head.LastOffset() != e.LastOffset {
		return false, err
	}
	if e.FirstOffset < s.base {
		return true, nil
	}
	if at, err = s.position(w, e.FirstOffset); err != nil {
		return false, err
	}
	if head, _, err = w.head(at); err != nil {
		return false, err
	}
	return head.BaseOffset() > e.FirstOffset || head.BaseOffset() == e.FirstOffset && head.ProducerID() == e.ProducerID && !head.IsControl(), nil
}

// mayHaveGaps tells whether offsets may be missing in the log: because it is compacted, or was, or is a copy of such a one.
func (l *Log) mayHaveGaps() bool {
	return l.config.Load().Compact || l.dir.cleanedOffset(l.partition) != kafka.NoOffset
}

// noteGaps makes it last that offsets may be missing in the log, before the first one is.
func (l *Log) noteGaps() error {
	d := l.dir
	if d.cleanedOffset(l.partition) != kafka.NoOffset {
		return nil
	}
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	d.mu.Lock()
	cleaned := d.noted.cleaned[l.partition]
	d.noted.cleaned[l.partition] = cleaned
	d.mu.Unlock()
	return d.failUnlessFull(d.change(&d.onDisk.cleaned, []PartitionOffset{{l.partition, cleaned}}))
}

// missingBefore says that a segment should be there that would hold the offsets from one on up to the base of s.
func missingBefore(s *segment, from kafka.Offset) error {
	return &CorruptError{
		File:   s.name(logSuffix),
		Reason: fmt.Sprintf("offsets %d to %d are missing before it", from, s.base-1),
		Remedy: RemedyRecords + "; if nothing is lost, as another broker compacted the topic at a time, set its cleanup.policy to compact,delete and start the broker again",
	}
}
