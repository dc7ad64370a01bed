package commitlog

import (
	"fmt"
	"hash/crc32"
	"os"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Scrub reads a log from its first segment to what its end is when it comes there, and checks all batches: their headers, their
// CRCs, and that their offsets follow each other and their leader epochs do not go back; and that the transaction indexes have their
// abort markers. It is used by one goroutine; appends, reads, retention, truncation, compaction and the deletion of the log go on
// beside it: what they take away is passed over.
type Scrub struct {
	log  *Log
	from kafka.Offset // segments with a lower base were read

	segment *segment // nil between segments
	file    vfs.File // of its own: the segment's may be closed, and is read ahead
	walker  *walker
	at      int64        // where the next batch begins
	reached kafka.Offset // which offset it should begin with
	gaps    bool         // or a later one
	epoch   kafka.Epoch  // of the batch before, NoEpoch at first
	aborts  abortMarkers
}

const (
	// scrubSegmentBytes is what opening a segment is counted as.
	scrubSegmentBytes = 4 << 10
	// scrubWholeMax is the largest batch that is read in one piece: the length of a larger one may be what is damaged.
	scrubWholeMax = 1 << 20
)

// Scrub begins a reading of the log. The caller ends it with Close.
func (l *Log) Scrub() *Scrub { return &Scrub{log: l, from: -1, epoch: kafka.NoEpoch} }

// Close gives back what the reading holds. It may be called again.
func (s *Scrub) Close() {
	if s.segment == nil {
		return
	}
	s.walker.done()
	s.file.Close() // read only
	s.segment, s.file, s.walker = nil, nil, nil
}

// Step goes on until about so many bytes were read, and tells how many it was, and whether the log's end is reached. After an error
// the reading is over: a *CorruptError names what is damaged, ErrClosed tells that the log was closed or deleted.
func (s *Scrub) Step(budgetBytes int64) (usedBytes int64, done bool, err error) {
	for usedBytes < budgetBytes {
		if s.log.closed.Load() {
			return usedBytes, false, fmt.Errorf("%s: %w", s.log.partition, ErrClosed)
		}
		n := int64(scrubSegmentBytes)
		switch {
		case s.segment == nil:
			done, err = s.next()
		case s.at >= s.walker.limit:
			err = s.finish()
		default:
			n, err = s.batch()
		}
		if err != nil && s.isGone() {
			s.Close()
			s.aborts.forget()
			err = nil
		}
		if err != nil || done {
			return usedBytes, done, s.log.readError(err)
		}
		usedBytes += n
	}
	return usedBytes, false, nil
}

// isGone tells whether the segment that is being read is no longer the log's.
func (s *Scrub) isGone() bool {
	return s.segment != nil && !slices.Contains(*s.log.segments.Load(), s.segment)
}

// nextToScrub returns the first segment with that base or a later one that holds anything.
func nextToScrub(segments []*segment, from kafka.Offset) *segment {
	for _, s := range segments {
		if s.base >= from && s.size.Load() > 0 {
			return s
		}
	}
	return nil
}

// next opens the next segment. It is done if there is none.
func (s *Scrub) next() (done bool, err error) {
	next := nextToScrub(*s.log.segments.Load(), s.from)
	if next == nil {
		return true, nil
	}
	s.from = next.base + 1
	file, err := next.openCold()
	if err != nil {
		if slices.Contains(*s.log.segments.Load(), next) {
			return false, err
		}
		s.aborts.forget()
		return false, nil
	}
	s.segment, s.file = next, file
	s.walker = newWalker(coldFile{file}, next, next.size.Load(), bodyAhead)
	s.at, s.reached, s.gaps = 0, next.base, s.log.mayHaveGaps()
	return false, nil
}

// openCold opens the segment's file for one who reads all of it.
func (s *segment) openCold() (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return nil, errRetired
	}
	name := s.name(logSuffix)
	if s.deleted {
		name += deletedSuffix
	}
	return s.fs.Open(name, os.O_RDONLY)
}

// coldFile is a file that is read without a claim to the page cache.
type coldFile struct{ vfs.File }

func (f coldFile) ReadAt(p []byte, at int64) (int, error) { return vfs.ReadCold(f.File, p, at) }

// finish compares where a segment ends with where the next one begins, and its abort markers with its transaction index. After an
// error the segment stays: Step asks whether it is the log's.
func (s *Scrub) finish() error {
	segments := *s.log.segments.Load()
	i := slices.Index(segments, s.segment)
	if i < 0 || s.segment.size.Load() != s.walker.limit {
		s.aborts.forget() // it is gone, or written to
	} else if err := s.checkEnd(segments, i); err != nil {
		return err
	}
	s.Close()
	return nil
}

func (s *Scrub) checkEnd(segments []*segment, i int) error {
	if err := s.checkAborted(); err != nil || i+1 == len(segments) {
		return err
	}
	next := segments[i+1]
	switch {
	case s.reached > next.base:
		return s.walker.corrupt(0, "it ends with offset %d, but the next segment begins with %d", s.reached-1, next.base)
	case s.reached < next.base && next.base > s.log.StartOffset() && !s.gaps && !s.log.mayHaveGaps():
		return missingBefore(next, s.reached)
	}
	return nil
}

// batch checks the next batch.
func (s *Scrub) batch() (int64, error) {
	head, size, err := s.walker.head(s.at)
	if err != nil {
		return 0, err
	}
	base, end, epoch := head.BaseOffset(), head.NextOffset(), head.LeaderEpoch()
	switch {
	case base < s.reached:
		return 0, s.walker.corrupt(s.at, "offset %d where %d is next", base, s.reached)
	case base > s.reached && !s.gaps:
		return 0, s.walker.corrupt(s.at, "offset %d where %d is next, of a log that is not compacted", base, s.reached)
	case epoch < s.epoch || epoch > s.log.LatestEpoch() && s.log.LatestEpoch() != kafka.NoEpoch:
		return 0, s.walker.corrupt(s.at, "leader epoch %d of offset %d, behind %d and before %d", epoch, base, s.epoch, s.log.LatestEpoch())
	}
	if size > scrubWholeMax {
		err = s.checkLarge(head, size)
	} else {
		err = s.checkWhole()
	}
	if err != nil {
		return 0, err
	}
	if err := s.seeAborts(); err != nil {
		return 0, err
	}
	s.at += size
	s.reached, s.epoch = end, epoch
	return size, nil
}

// seeAborts follows the transactions of the batch that was checked.
func (s *Scrub) seeAborts() error {
	b, _, err := s.walker.head(s.at)
	if err == nil && b.IsControl() {
		b, err = s.walker.batch(s.at)
	}
	if err != nil {
		return err
	}
	s.aborts.see(b, s.log.config.Load().MaxProducers)
	return nil
}

func (s *Scrub) checkWhole() error {
	b, err := s.walker.batch(s.at)
	if err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return s.walker.corrupt(s.at, "offsets %d to %d: %v", b.BaseOffset(), b.LastOffset(), err)
	}
	return nil
}

// checkLarge compares the CRC of a batch with its bytes, piece by piece.
func (s *Scrub) checkLarge(head record.Batch, size int64) error {
	const afterCRC = 21 // the CRC covers all behind itself
	stored, crc := head.CRC(), uint32(0)
	for at, end := s.at+afterCRC, s.at+size; at < end; {
		piece, err := s.walker.need(at, int(min(bodyAhead, end-at)))
		if err != nil {
			return err
		}
		piece = piece[:min(int64(len(piece)), end-at)]
		crc = crc32.Update(crc, castagnoli, piece)
		at += int64(len(piece))
	}
	if crc != stored {
		return s.walker.corrupt(s.at, "malformed batch of %d bytes: crc is %08x, the bytes have %08x", size, stored, crc)
	}
	return nil
}
