package compress

import (
	"sync"
	"weak"
)

const (
	// largeBytes is from when on a reader counts as large: Java's producer declares such windows from zstd's level 20 on.
	largeBytes = zstdKeptWindow + 1
	// largeBytesMax is what all large readers hold at one time: one window of the largest kind.
	largeBytesMax = WindowMax
)

// large bounds the memory of large readers. Batches that need one are honest and rare, and cheap to send: what would be a
// gigabyte on a few connections waits in line.
var large = newGate(largeBytesMax)

// gate lets readers in as long as there is room for what they hold.
type gate struct {
	mu   sync.Mutex // guards used and idle
	room sync.Cond  // signalled when used shrinks
	used int64
	max  int64

	// idle is the last reader that left, if it still exists: whoever comes soon takes over its buffers, and the collector has
	// them otherwise. A pool of each processor's own would keep several.
	idle [Zstd + 1]weak.Pointer[Reader]
}

func newGate(capacity int64) *gate {
	g := &gate{max: capacity}
	g.room.L = &g.mu
	return g
}

// enter waits until there is room for n bytes, or nobody else is there.
func (g *gate) enter(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.used > 0 && g.used+n > g.max {
		g.room.Wait()
	}
	g.used += n
}

func (g *gate) leave(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= n
	g.room.Broadcast()
}

// take returns the idle reader, or nil.
func (g *gate) take(c Codec) *Reader {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.idle[c].Value()
	g.idle[c] = weak.Pointer[Reader]{}
	return r
}

// put makes a reader the idle one.
func (g *gate) put(r *Reader) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle[r.codec] = weak.Make(r)
}

// newLarge is NewReader for a payload whose reader is large. It waits until it may be, so one that is open must not wait for
// another.
func newLarge(c Codec, payload []byte, limit, memory int64) (*Reader, error) {
	large.enter(memory)
	r := large.take(c)
	if r == nil {
		r = &Reader{codec: c, source: newSource(c)}
	}
	r.held = memory
	return r.begin(payload, limit)
}
