package group

import (
	"container/heap"
	"time"
)

// timerKind says what happens when a timer is due.
type timerKind uint8

const (
	sessionTimer timerKind = iota // a member, or a member id handed out, was not heard of
	joinTimer                     // the round of joins ends
	syncTimer                     // members that have joined but not synced are removed

	// Of members of consumer groups:
	consumerSessionTimer // it was not heard of
	rebalanceTimer       // it has not given back what it must
	consumerJoinTimer    // in the classic protocol, it has not joined again
	consumerSyncTimer    // in the classic protocol, it has not asked for what it was given
)

// timer is one deadline of a group or a member. It is moved far more often than it fires (every heartbeat), so putting it off
// only notes the new time: the queue looks again when the old one comes.
type timer struct {
	kind   timerKind
	group  *group
	member string // of timers of one member

	due    time.Time // zero: cancelled
	queued time.Time // its place in the queue
	index  int       // -1: not in the queue
	seq    uint64    // breaks ties: first started, first fired
}

func newTimer(kind timerKind, g *group, member string) *timer {
	return &timer{kind: kind, group: g, member: member, index: -1}
}

func (t *timer) cancel() { t.due = time.Time{} }

func (t *timer) active() bool { return !t.due.IsZero() }

// timerQueue orders timers by time. The zero value is empty.
type timerQueue struct {
	heap timerHeap
	seq  uint64
	kept int // timers that were left when those that had been cancelled were taken out last
}

// fewTimers are not worth looking through.
const fewTimers = 1024

// start sets the timer, started before or not, to fire at due.
func (q *timerQueue) start(t *timer, due time.Time) {
	t.due = due
	switch {
	case t.index < 0:
		if len(q.heap) >= 2*max(q.kept, fewTimers) {
			q.dropAll()
		}
		q.seq++
		t.queued, t.seq = due, q.seq
		heap.Push(&q.heap, t)
	case due.Before(t.queued):
		t.queued = due
		heap.Fix(&q.heap, t.index)
	}
}

// next returns when to look again: not later than the first timer is due.
func (q *timerQueue) next() (time.Time, bool) {
	q.drop()
	if len(q.heap) == 0 {
		return time.Time{}, false
	}
	return q.heap[0].queued, true
}

// pop takes out the first timer that is due, or returns nil.
func (q *timerQueue) pop(now time.Time) *timer {
	for q.drop(); len(q.heap) > 0 && !q.heap[0].queued.After(now); q.drop() {
		t := q.heap[0]
		if t.due.After(now) {
			t.queued = t.due
			heap.Fix(&q.heap, 0)
			continue
		}
		heap.Pop(&q.heap)
		t.cancel()
		return t
	}
	return nil
}

// drop removes cancelled timers from the front.
func (q *timerQueue) drop() {
	for len(q.heap) > 0 && !q.heap[0].active() {
		heap.Pop(&q.heap)
	}
}

// dropAll removes cancelled timers. Members that come and go would leave theirs behind for as long as a session is.
func (q *timerQueue) dropAll() {
	kept := q.heap[:0]
	for _, t := range q.heap {
		if t.active() {
			t.index = len(kept)
			kept = append(kept, t)
		} else {
			t.index = -1
		}
	}
	clear(q.heap[len(kept):])
	q.heap, q.kept = kept, len(kept)
	heap.Init(&q.heap)
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if !h[i].queued.Equal(h[j].queued) {
		return h[i].queued.Before(h[j].queued)
	}
	return h[i].seq < h[j].seq
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	last := len(old) - 1
	t := old[last]
	old[last] = nil
	*h = old[:last]
	t.index = -1
	return t
}
