package compress

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// source is one codec's decoder. next returns more of what the payload holds, valid until the next call, and io.EOF at the
// end. It must return at most max+1 bytes where it can tell the size beforehand, and must not allocate by a claimed size that
// exceeds max.
type source interface {
	reset(payload []byte, limit int64) error
	next(max int64) ([]byte, error)
	release() // forgets the payload; what it keeps may be used again
	keep() bool
	memory() int64 // the largest buffer that reading the payload takes, where it may take a large one
}

// Reader streams what a compressed payload holds, in pieces of the decoder's own size and in memory that does not grow with
// the payload: a zstd frame's window, where it needs one, is the only large thing. It is not safe for concurrent use.
type Reader struct {
	codec  Codec
	source source
	left   int64 // what the limit still allows
	limit  int64
	err    error  // sticky
	rest   []byte // of the last piece, for Read
	held   int64  // of what large readers may hold; 0 for a small one

	// Carry is scratch space that travels with a pooled reader: whoever holds the reader may use it.
	Carry []byte
}

// carryKept bounds the scratch space that goes back to the pool.
const carryKept = 256 << 10

var readers = [Zstd + 1]sync.Pool{}

// NewReader returns a pooled reader of a payload, which it borrows until Close. It gives at most limit bytes; if there are
// more, the last call returns a *LimitError. Corrupt input is an error that wraps [ErrCorrupt].
func NewReader(c Codec, payload []byte, limit int64) (*Reader, error) {
	if !c.Known() {
		return nil, fmt.Errorf("%w: codec %d", ErrCorrupt, c)
	}
	r, _ := readers[c].Get().(*Reader)
	if r == nil {
		r = &Reader{codec: c, source: newSource(c)}
	}
	r, err := r.begin(payload, limit)
	if err != nil {
		return nil, err
	}
	if memory := r.source.memory(); memory >= largeBytes {
		r.Close()
		return newLarge(c, payload, limit, memory)
	}
	return r, nil
}

// begin makes the reader one of the payload, or closes it.
func (r *Reader) begin(payload []byte, limit int64) (*Reader, error) {
	r.limit, r.left, r.err, r.rest = limit, limit, nil, nil
	if err := r.source.reset(payload, limit); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // not even a header
		}
		defer r.Close()
		return nil, r.wrap(err)
	}
	return r, nil
}

func newSource(c Codec) source {
	switch c {
	case Gzip:
		return new(gzipSource)
	case Snappy:
		return new(snappySource)
	case LZ4:
		return new(lz4Source)
	case Zstd:
		return new(zstdSource)
	}
	return new(plainSource)
}

// Next returns the next piece, never empty, valid until the next call of Next or Close. At the end it returns io.EOF.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	for {
		piece, err := r.source.next(r.left)
		if int64(len(piece)) > r.left {
			r.err = &LimitError{Limit: r.limit}
			return nil, r.err
		}
		r.left -= int64(len(piece))
		if err != nil {
			r.err = r.wrap(err)
		}
		if len(piece) > 0 {
			return piece, nil
		}
		if err != nil {
			return nil, r.err
		}
	}
}

// Read makes the reader an io.Reader; Next spares the copy.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		piece, err := r.Next()
		if err != nil {
			return 0, err
		}
		r.rest = piece
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// wrap makes every decoder's error one of io.EOF, *LimitError or a wrapped ErrCorrupt.
func (r *Reader) wrap(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, ErrCorrupt) {
		return err
	}
	if _, ok := errors.AsType[*LimitError](err); ok {
		return &LimitError{Limit: r.limit} // the source knows only what was left of it
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, r.codec, err)
}

// Close gives the reader back to the pool. The reader and what it returned must not be used afterwards.
func (r *Reader) Close() {
	r.source.release()
	r.rest = nil
	if cap(r.Carry) > carryKept {
		r.Carry = nil
	}
	if r.held > 0 {
		held := r.held
		r.held = 0
		large.put(r)
		large.leave(held)
		return
	}
	if r.source.keep() {
		readers[r.codec].Put(r)
	}
}

// Decompress appends what the payload holds to dst.
func Decompress(dst []byte, c Codec, payload []byte, limit int64) ([]byte, error) {
	r, err := NewReader(c, payload, limit)
	if err != nil {
		return dst, err
	}
	defer r.Close()
	for {
		piece, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, piece...)
	}
}

// plainSource is no codec at all: the payload is one piece.
type plainSource struct{ payload []byte }

func (s *plainSource) reset(payload []byte, _ int64) error { s.payload = payload; return nil }

func (s *plainSource) next(int64) ([]byte, error) {
	piece := s.payload
	s.payload = nil
	return piece, io.EOF
}

func (s *plainSource) release()   { s.payload = nil }
func (s *plainSource) keep() bool { return true }

func (s *plainSource) memory() int64 { return 0 }
