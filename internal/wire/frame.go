package wire

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/invariant"
)

// Frame is a reference-counted buffer from a pool. Whoever holds a reference may read Bytes; the last Release gives the
// memory back. The server holds one reference as long as the request's Body is lent to the handler; a cache that keeps
// records beyond that retains its own.
type Frame struct {
	buf  []byte
	refs atomic.Int32
}

const (
	frameBytesMin = 1 << 10
	frameBytesMax = 8 << 20 // larger buffers are left to the garbage collector: a pool would keep them alive for long
	frameClasses  = 4*(23-10) + 1
)

// framePools holds free frames by size class: four sizes per power of two, so that at most a fifth of a buffer is unused.
var framePools [frameClasses]sync.Pool

// frameClass returns the smallest class of at least n bytes, and its size.
func frameClass(n int) (class, size int) {
	if n <= frameBytesMin {
		return 0, frameBytesMin
	}
	power := bits.Len(uint(n-1)) - 1 // 2^power < n <= 2^(power+1)
	quarter := 1 << (power - 2)
	step := (n - 1 - 1<<power) / quarter // 0..3
	return 4*(power-10) + step + 1, 1<<power + (step+1)*quarter
}

// NewFrame returns a frame with one reference, whose capacity is at least n bytes and whose length is 0.
func NewFrame(n int) *Frame {
	if n > frameBytesMax {
		f := &Frame{buf: make([]byte, 0, n)}
		f.refs.Store(1)
		return f
	}
	class, size := frameClass(n)
	f, _ := framePools[class].Get().(*Frame)
	if f == nil {
		f = &Frame{buf: make([]byte, 0, size)}
	}
	f.refs.Store(1)
	return f
}

// Bytes returns the content.
func (f *Frame) Bytes() []byte { return f.buf }

// Cap returns how many bytes the frame occupies in memory.
func (f *Frame) Cap() int { return cap(f.buf) }

// Room returns the unused part of the buffer: fill its front, then call Extend.
func (f *Frame) Room() []byte { return f.buf[len(f.buf):cap(f.buf)] }

// Extend makes the first n bytes of Room part of the content. Only for the one who fills the frame.
func (f *Frame) Extend(n int) { f.buf = f.buf[:len(f.buf)+n] }

// Retain adds a reference.
func (f *Frame) Retain() {
	invariant.Check(f.refs.Add(1) > 1, "frame retained after its last release")
}

// Release drops a reference; nobody may use what the caller held afterwards.
func (f *Frame) Release() {
	left := f.refs.Add(-1)
	invariant.Check(left >= 0, "frame released too often")
	if left > 0 || cap(f.buf) > frameBytesMax {
		return
	}
	f.buf = f.buf[:0]
	class, _ := frameClass(cap(f.buf))
	framePools[class].Put(f)
}
