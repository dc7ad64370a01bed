package commitlog

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/record"
)

// segmentReader walks through a segment, and checks its batches.
type segmentReader struct {
	segment *segment
	file    *openFile
	walker  *walker
	at      int64
}

func (r *segmentReader) open(s *segment, aheadBytes int) error {
	file, err := s.acquire()
	if err != nil {
		return err
	}
	r.segment, r.file, r.at = s, file, 0
	r.walker = newWalker(file, s, s.size.Load(), aheadBytes)
	return nil
}

func (r *segmentReader) close() {
	if r.file == nil {
		return
	}
	r.walker.done()
	r.file.release()
	*r = segmentReader{}
}

func (r *segmentReader) end() bool { return r.at >= r.walker.limit }

// batch returns the next batch, valid until the next call.
func (r *segmentReader) batch() (record.Batch, error) {
	b, err := r.walker.batch(r.at)
	if err != nil {
		return nil, err
	}
	if err := b.Check(); err != nil {
		return nil, r.walker.corrupt(r.at, "%v", err)
	}
	if b.BaseOffset() < r.segment.base {
		return nil, r.walker.corrupt(r.at, "offset %d in the segment that begins with %d", b.BaseOffset(), r.segment.base)
	}
	r.at += int64(len(b))
	return b, nil
}

// senseless says that the batch that was read last is as some broker wrote it, but its records make no sense.
func (r *segmentReader) senseless(b record.Batch, err error) error {
	return fmt.Errorf("%s, batch at byte %d: %w", r.segment, r.at-int64(len(b)), err)
}
