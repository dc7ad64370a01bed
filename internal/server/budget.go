package server

import (
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/invariant"
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
// waits is called before waiting begins.
func (l *lease) take(n int64, done <-chan struct{}, waits func()) bool {
	b := l.budget
	b.mu.Lock()
	w := &waiter{lease: l, n: n}
	if len(b.waiting) == 0 && b.fits(w) || b.over == l || b.mayGoOver(w) {
		b.grant(w)
		b.mu.Unlock()
		return true
	}
	w.ready = make(chan struct{})
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	waits()
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
	invariant.Check(b.used >= 0, "budget of %d bytes has %d in use", b.capacity, b.used)
	l.held = 0
	if b.over == l {
		b.over = nil
	}
	b.wake()
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *budget) fits(w *waiter) bool { return b.used+w.n <= b.capacity || b.used == w.lease.held }

func (b *budget) mayGoOver(w *waiter) bool { return b.over == nil && w.lease.held > 0 }

func (b *budget) grant(w *waiter) {
	if b.used+w.n > b.capacity {
		b.over = w.lease
	}
	b.used += w.n
	w.lease.held += w.n
	if w.ready != nil {
		close(w.ready)
	}
}

// wake serves those who wait, as far as there is room.
func (b *budget) wake() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0]) {
		b.grant(b.waiting[0])
		b.waiting = slices.Delete(b.waiting, 0, 1)
	}
	for i, w := range b.waiting {
		if b.mayGoOver(w) {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			b.grant(w)
			return
		}
	}
}
