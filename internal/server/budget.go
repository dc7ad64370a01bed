package server

import (
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/metric"
)

// budget bounds the bytes that requests and responses hold at one time. Who finds it used up waits, first come first served,
// and does not read its socket meanwhile. Two things keep that from standing still: who comes to an empty budget is served
// whatever it asks for, as a frame may be larger than the budget; and one lease at a time that already holds bytes may go
// over it, or many half-read frames would wait for each other for ever. So the most in use is the capacity and one request.
type budget struct {
	mu       sync.Mutex // guards what follows
	capacity int64
	used     int64
	waiting  []*waiter // in order of arrival
	over     *lease    // the one that may go over the capacity

	waits metric.Counter // times that one had to wait
}

type waiter struct {
	lease *lease
	n     int64
	ready chan struct{}
}

// lease is what one request holds of a budget. It is used by one goroutine at a time.
type lease struct {
	budget *budget
	held   int64
}

func newBudget(capacity int64) *budget { return &budget{capacity: capacity} }

// take adds n bytes to the lease, waiting for them if need be. It returns false, without them, when done is closed first.
func (l *lease) take(n int64, done <-chan struct{}) bool {
	b := l.budget
	b.mu.Lock()
	if len(b.waiting) == 0 && b.fits(l, n) || b.over == l || b.mayGoOver(l) {
		b.grant(l, n)
		b.mu.Unlock()
		return true
	}
	w := &waiter{lease: l, n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	b.waits.Inc()
	select {
	case <-w.ready:
		return true
	case <-done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		b.wake()
		return false
	}
	return true // granted meanwhile
}

// charge adds n bytes that are in use already, whatever the capacity.
func (l *lease) charge(n int64) {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.budget.used += n
	l.held += n
}

// giveBack returns all that the lease holds.
func (l *lease) giveBack() {
	b := l.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= l.held
	invariant.Check(b.used >= 0, "a budget has less than nothing in use")
	l.held = 0
	if b.over == l {
		b.over = nil
	}
	b.wake()
}

// settle gives back what an answered request held: its answer may wait long for the client to take the ones before it.
func (l *lease) settle() {
	if l.held > 0 {
		l.giveBack()
	}
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *budget) fits(l *lease, n int64) bool { return b.used+n <= b.capacity || b.used == l.held }

func (b *budget) mayGoOver(l *lease) bool { return b.over == nil && l.held > 0 }

func (b *budget) grant(l *lease, n int64) {
	if b.used+n > b.capacity {
		b.over = l
	}
	b.used += n
	l.held += n
}

// wake serves those who wait, as far as there is room.
func (b *budget) wake() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].lease, b.waiting[0].n) {
		b.serve(0)
	}
	for i, w := range b.waiting {
		if b.mayGoOver(w.lease) {
			b.serve(i)
			return
		}
	}
}

func (b *budget) serve(i int) {
	w := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.grant(w.lease, w.n)
	close(w.ready)
}
