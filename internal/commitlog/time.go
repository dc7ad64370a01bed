package commitlog

import (
	"errors"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Timestamped is a record that a search by time found.
type Timestamped struct {
	Offset      kafka.Offset
	TimestampMs int64
	Epoch       kafka.Epoch
}

// decompressedMax bounds what a search inside a compressed batch unpacks. It is far above the broker's limit on produced batches
// (raftsman.batch.decompressed.bytes.max): that one may have been higher when the batch was taken, or Kafka wrote it.
const decompressedMax = 2 << 30

// OffsetForTime returns the first record below a bound whose timestamp is at least ms, looking inside batches. It is false if
// there is none.
func (l *Log) OffsetForTime(ms int64, bound kafka.Offset) (found Timestamped, ok bool, err error) {
	err = l.look(func(segments []*segment, end kafka.Offset) (err error) {
		found, ok, err = l.firstAtTime(segments, ms, min(bound, end), end)
		return err
	})
	return found, ok, err
}

func (l *Log) firstAtTime(segments []*segment, ms int64, bound, end kafka.Offset) (Timestamped, bool, error) {
	start := l.StartOffset()
	for i := find(segments, start); i < len(segments); i++ {
		s, next := segments[i], nextBase(segments, i, end)
		if s.base >= bound {
			break
		}
		maxTime, err := s.maxTimestamp(next)
		if err != nil {
			return Timestamped{}, false, err
		}
		if maxTime.TimestampMs < ms {
			continue
		}
		found, ok, err := s.firstAtTime(ms, start, bound, next)
		if ok || err != nil {
			return found, ok, err
		}
	}
	return Timestamped{}, false, nil
}

// firstAtTime is OffsetForTime in one segment.
func (s *segment) firstAtTime(ms int64, start, bound, next kafka.Offset) (found Timestamped, ok bool, err error) {
	if err := s.load(next); err != nil {
		return Timestamped{}, false, err
	}
	w, err := s.walk(headAhead)
	if err != nil {
		return Timestamped{}, false, err
	}
	defer w.done()
	from := start
	if before, ok := s.index.beforeTime(ms); ok && before.Offset > from {
		sound, err := s.checkTime(w, before)
		if err != nil {
			return Timestamped{}, false, err
		}
		if !sound {
			before, _ = s.index.beforeTime(ms)
		}
		from = max(from, before.Offset)
	}
	at, err := s.position(w, from)
	for err == nil && at < w.limit {
		head, size, err := w.head(at)
		if err != nil {
			return Timestamped{}, false, err
		}
		if head.BaseOffset() >= bound {
			return Timestamped{}, false, nil
		}
		if head.MaxTimestampMs() >= ms {
			found, ok, err := s.firstInBatch(w, at, ms, start, bound)
			if ok || err != nil {
				return found, ok, err
			}
		}
		at += size
	}
	return Timestamped{}, false, err
}

// firstInBatch looks at the records of one batch.
func (s *segment) firstInBatch(w *walker, at, ms int64, start, bound kafka.Offset) (found Timestamped, ok bool, err error) {
	b, err := w.batch(at)
	if err != nil {
		return Timestamped{}, false, err
	}
	for r, err := range b.Records(decompressedMax) {
		if err != nil {
			return Timestamped{}, false, w.corrupt(at, "%v", err)
		}
		if r.Offset >= bound {
			break
		}
		if r.Offset >= start && r.TimestampMs >= ms {
			return Timestamped{r.Offset, r.TimestampMs, b.LeaderEpoch()}, true, nil
		}
	}
	return Timestamped{}, false, nil
}

// MaxTimestamp returns the first record below a bound that has the largest timestamp there. It is false in an empty log.
func (l *Log) MaxTimestamp(bound kafka.Offset) (found Timestamped, ok bool, err error) {
	err = l.look(func(segments []*segment, end kafka.Offset) (err error) {
		found, ok, err = l.maxTimestamp(segments, min(bound, end), end)
		return err
	})
	return found, ok, err
}

// maxTimestamp looks at the newest segment first: in most logs it has the largest timestamp, and the others only the header of one.
func (l *Log) maxTimestamp(segments []*segment, bound, end kafka.Offset) (largest Timestamped, ok bool, err error) {
	start := l.StartOffset()
	for i, first := len(segments)-1, find(segments, start); i >= first; i-- {
		s, next := segments[i], nextBase(segments, i, end)
		if s.base >= bound {
			continue
		}
		maxTime, err := s.maxTimestamp(next)
		if err != nil {
			return Timestamped{}, false, err
		}
		if ok && maxTime.TimestampMs < largest.TimestampMs {
			continue
		}
		found, inSegment, err := s.largestBelow(maxTime.TimestampMs, start, bound, next)
		if err != nil {
			return Timestamped{}, false, err
		}
		if inSegment && found.TimestampMs >= 0 && (!ok || found.TimestampMs >= largest.TimestampMs) {
			largest, ok = found, true
		}
	}
	return largest, ok, nil
}

// largestBelow returns the first record of the largest timestamp among a segment's records in [start, bound). None of them is
// behind most; that none has it is possible too: compaction leaves the headers of batches whose records it took.
func (s *segment) largestBelow(most int64, start, bound, next kafka.Offset) (Timestamped, bool, error) {
	if start <= s.base && next <= bound {
		if found, ok, err := s.firstAtTime(most, start, bound, next); ok || err != nil {
			return found, ok, err
		}
	}
	largest, any := int64(0), false
	err := s.headers(max(start, s.base), next, func(w *walker, head record.Batch, at int64) error {
		switch {
		case head.BaseOffset() >= bound:
			return errStop
		case head.Count() == 0 || any && head.MaxTimestampMs() <= largest:
			return nil
		case head.BaseOffset() >= start && head.LastOffset() < bound:
			largest, any = head.MaxTimestampMs(), true
			return nil
		}
		ms, ok, err := largestInBatch(w, at, start, bound)
		if ok && (!any || ms > largest) {
			largest, any = ms, true
		}
		return err
	})
	if !any || err != nil {
		return Timestamped{}, false, err
	}
	return s.firstAtTime(largest, start, bound, next)
}

// largestInBatch is for a batch of which only some records count. It is false if none does.
func largestInBatch(w *walker, at int64, start, bound kafka.Offset) (largest int64, ok bool, err error) {
	b, err := w.batch(at)
	if err != nil {
		return 0, false, err
	}
	for r, err := range b.Records(decompressedMax) {
		if err != nil {
			return 0, false, w.corrupt(at, "%v", err)
		}
		if r.Offset >= start && r.Offset < bound && (!ok || r.TimestampMs > largest) {
			largest, ok = r.TimestampMs, true
		}
	}
	return largest, ok, nil
}

// headers calls each with the headers of the batches from an offset on. errStop ends it.
func (s *segment) headers(from, next kafka.Offset, each func(w *walker, head record.Batch, at int64) error) error {
	if err := s.load(next); err != nil {
		return err
	}
	w, err := s.walk(headAhead)
	if err != nil {
		return err
	}
	defer w.done()
	at, err := s.position(w, from)
	for err == nil && at < w.limit {
		var head record.Batch
		var size int64
		if head, size, err = w.head(at); err != nil {
			return err
		}
		if err = each(w, head, at); errors.Is(err, errStop) {
			return nil
		}
		at += size
	}
	return err
}
