package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// walker reads the batches of a segment's file, mostly one after the other, through a buffer.
type walker struct {
	file  vfs.File
	name  fmt.Stringer // names the file in errors
	limit int64        // bytes of the file that may be read
	ahead int          // how much to read at once
	buf   []byte
	at    int64     // position of buf in the file
	held  *openFile // what done gives back; nil if the file is another's
}

const (
	headAhead = 8 << 10   // about one index interval
	bodyAhead = 256 << 10 // for reading everything
)

var walkers = sync.Pool{New: func() any { return new(walker) }}

// newWalker takes a walker from the pool; done gives it back.
func newWalker(f vfs.File, name fmt.Stringer, limit int64, ahead int) *walker {
	w := walkers.Get().(*walker)
	*w = walker{file: f, name: name, limit: limit, ahead: ahead, buf: w.buf[:0]}
	return w
}

// walk begins to read the segment's batches, as far as there are some by now; done ends it.
func (s *segment) walk(ahead int) (*walker, error) {
	file, err := s.acquire()
	if err != nil {
		return nil, err
	}
	w := newWalker(file, s, s.size.Load(), ahead)
	w.held = file
	return w, nil
}

func (w *walker) done() {
	if w.held != nil {
		w.held.release()
	}
	const keep = 1 << 20
	if cap(w.buf) > keep {
		w.buf = nil
	}
	w.file, w.name, w.held = nil, nil, nil
	walkers.Put(w)
}

func (w *walker) corrupt(at int64, format string, args ...any) error {
	return &CorruptError{File: w.name.String(), At: at, Reason: fmt.Sprintf(format, args...)}
}

// need makes bytes [at, at+n) of the file available. They lie below limit.
func (w *walker) need(at int64, n int) ([]byte, error) {
	if at >= w.at && at+int64(n) <= w.at+int64(len(w.buf)) {
		return w.buf[at-w.at:], nil
	}
	want := int(min(int64(max(n, w.ahead)), w.limit-at))
	if cap(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.buf, w.at = w.buf[:want], at
	got, err := w.file.ReadAt(w.buf, at)
	w.buf = w.buf[:got]
	switch {
	case got >= n:
		return w.buf, nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, w.corrupt(at, "the file ends after %d bytes, want %d", got, n)
	default:
		return nil, fmt.Errorf("read %s: %w", w.name, err)
	}
}

// head returns the header of the batch at a position, valid until the next call, and the batch's size.
func (w *walker) head(at int64) (record.Batch, int64, error) {
	if w.limit-at < record.HeaderBytes {
		return nil, 0, w.corrupt(at, "%d bytes left are less than a batch's header", w.limit-at)
	}
	b, err := w.need(at, record.HeaderBytes)
	if err != nil {
		return nil, 0, err
	}
	const lengthAt, lengthBytes = 8, 4
	head := record.Batch(b[:record.HeaderBytes])
	size := int64(int32(binary.BigEndian.Uint32(head[lengthAt:]))) + lengthAt + lengthBytes
	switch {
	case head.Magic() != record.Magic:
		return nil, 0, w.corrupt(at, "magic %d", head.Magic())
	case size < record.HeaderBytes:
		return nil, 0, w.corrupt(at, "a batch of %d bytes", size)
	case size > w.limit-at:
		return nil, 0, w.corrupt(at, "a batch of %d bytes where %d are left", size, w.limit-at)
	case head.LastOffsetDelta() < 0 || head.BaseOffset() < 0:
		return nil, 0, w.corrupt(at, "base offset %d, last offset delta %d", head.BaseOffset(), head.LastOffsetDelta())
	}
	return head, size, nil
}

// batch returns the whole batch at a position, valid until the next call. Its CRC is not checked.
func (w *walker) batch(at int64) (record.Batch, error) {
	_, size, err := w.head(at)
	if err != nil {
		return nil, err
	}
	b, err := w.need(at, int(size))
	if err != nil {
		return nil, err
	}
	return record.Batch(b[:size:size]), nil
}

// fileName is the name of a file that is no segment's.
type fileName string

func (n fileName) String() string { return string(n) }
