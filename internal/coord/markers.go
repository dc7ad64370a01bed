package coord

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/txn"
)

// How long a partition that takes no markers is left alone: at first, and at most.
const (
	markerRetryFirst = 50 * time.Millisecond
	markerRetryMost  = 2 * time.Second
)

// markers writes the markers of all transactions. Those of one partition are written one after the other, in the order in which they
// came: the marker of an attempt that was given up cannot come after the one of the attempt that followed. A partition
// that takes none now is tried again for ever, by one of those that wait for it; there are never more than the transactions that are
// prepared have partitions.
type markers struct {
	c *Coordinator

	mu     sync.Mutex // guards what follows and the queues; held for memory only
	closed bool
	queues map[kafka.TopicPartition]*markerQueue // of partitions that something is to be written to
	asked  map[*markerRequest]struct{}           // WriteMarkers that are not answered
}

// markerQueue is what is to be written to one partition. markers.mu guards it.
type markerQueue struct {
	of      *markers
	tp      kafka.TopicPartition
	due     []*pendingMarker
	later   []*pendingMarker // when the timer says so
	busy    bool             // somebody writes what is due
	timer   *time.Timer      // nil: the partition takes markers, as far as is known
	backoff time.Duration
}

// pendingMarker is a marker on its way to one partition.
type pendingMarker struct {
	replica.Marker
	tp      kafka.TopicPartition
	topicID kafka.TopicID // the topic that it is for: another one of the same name has nothing to end
	sender  sender
	index   int // of the partition, to the sender
	// anywhere says that the marker is also written where another broker leads the partition. Who asks this node for a marker asks for one here.
	anywhere bool
}

func newPending(im *meta.Image, m replica.Marker, tp kafka.TopicPartition, by sender, index int) *pendingMarker {
	p := &pendingMarker{Marker: m, tp: tp, sender: by, index: index}
	if t := topicIn(im, tp.Topic); t != nil {
		p.topicID = t.ID
	}
	return p
}

// sender wants a marker written to some partitions. It is called from any goroutine.
type sender interface {
	// goesOn tells whether the sender still wants it.
	goesOn() bool
	// written tells that the marker is committed in a partition, or that the partition is no more.
	written(index int, gone bool)
	// failed tells that a marker was not written. It returns true when that is to be tried again.
	failed(index int, err error) bool
}

func (w *markers) open(c *Coordinator) {
	w.c, w.queues, w.asked = c, map[kafka.TopicPartition]*markerQueue{}, map[*markerRequest]struct{}{}
}

// write begins to write a marker to partitions.
func (w *markers) write(m replica.Marker, partitions []kafka.TopicPartition, by sender) {
	image := w.c.newest()
	w.mu.Lock()
	var wake []*markerQueue
	for i, tp := range partitions {
		p := newPending(image, m, tp, by, i)
		p.anywhere = true
		if q := w.queue(tp); q.push(p) {
			wake = append(wake, q)
		}
	}
	w.mu.Unlock()
	w.wake(wake)
}

// wake sees to it that what is due is written: to all partitions but those of groups, whose shards do it, in one go, so that it is flushed
// in one round.
func (w *markers) wake(queues []*markerQueue) {
	var round markerRound
	for _, q := range queues {
		if q.tp.Topic == meta.OffsetsTopic {
			w.c.wakes.add(q)
		} else {
			round = append(round, q)
		}
	}
	if len(round) > 0 {
		w.c.wakes.add(round)
	}
}

// markerRound is queues of several partitions, worked off one after the other.
type markerRound []*markerQueue

func (r markerRound) work(turn int) {
	partitions := r[0].of.c.opts.Partitions
	for _, q := range r { // one that sleeps wakes before others are held up
		_, _ = partitions.Leads(q.tp)
	}
	partitions.Together(func() {
		for _, q := range r {
			q.work(turn)
		}
	})
}

// queue returns the queue of a partition. The caller holds mu.
func (w *markers) queue(tp kafka.TopicPartition) *markerQueue {
	q := w.queues[tp]
	if q == nil {
		q = &markerQueue{of: w, tp: tp}
		w.queues[tp] = q
	}
	return q
}

// push leaves markers. It returns true when the caller must see to it that somebody works. markers.mu is held.
func (q *markerQueue) push(some ...*pendingMarker) (wake bool) {
	if q.timer != nil {
		q.putOff(some...)
		return false
	}
	q.due = append(q.due, some...)
	return !q.busy
}

// work writes what is due.
func (q *markerQueue) work(int) {
	if !q.begin() {
		return
	}
	for due := q.take(); len(due) > 0; due = q.take() {
		for i, p := range due {
			if !q.ready(due[i:]) {
				break
			}
			q.of.writeOne(p)
		}
	}
}

// begin makes the caller the one who works, unless somebody else does.
func (q *markerQueue) begin() bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if q.busy {
		return false
	}
	q.busy = true
	return true
}

// take returns what is to be written now. When that is nothing, nobody works any more.
func (q *markerQueue) take() []*pendingMarker {
	w := q.of
	w.mu.Lock()
	defer w.mu.Unlock()
	due := q.due
	q.due = nil
	if q.timer != nil {
		q.putOff(due...)
		due = nil
	}
	if len(due) == 0 {
		q.busy = false
		w.forget(q)
	}
	return due
}

// ready tells whether the next marker may be written. If not, the rest is put off: it would fare like the one before.
func (q *markerQueue) ready(rest []*pendingMarker) bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if q.timer == nil {
		return true
	}
	q.putOff(rest...)
	return false
}

// putOff keeps markers until the timer says so. markers.mu is held.
func (q *markerQueue) putOff(some ...*pendingMarker) {
	if !q.of.closed {
		q.later = append(q.later, some...)
		q.of.c.metrics.MarkersWaiting.Add(int64(len(some)))
	}
}

// forget lets go of a queue that nobody needs. The caller holds mu.
func (w *markers) forget(q *markerQueue) {
	if w.queues[q.tp] == q && len(q.due)+len(q.later) == 0 && q.timer == nil {
		delete(w.queues, q.tp)
	}
}

func (w *markers) writeOne(p *pendingMarker) {
	done := func(err error) { w.settle(p, err) }
	image := w.c.newest()
	if !p.sender.goesOn() {
		return
	}
	if p.gone(image) {
		p.sender.written(p.index, true)
		return
	}
	leader, elsewhere := w.c.leaderElsewhere(p, image)
	switch {
	case elsewhere:
		w.c.remote.send(leader, &remoteMarker{p, done})
	case p.tp.Topic == meta.OffsetsTopic:
		w.c.endInGroups(p, done)
	default:
		w.c.opts.Partitions.EndTransaction(p.tp, p.Marker, done)
	}
}

// gone tells whether the partition is no more.
func (p *pendingMarker) gone(im *meta.Image) bool {
	t := topicIn(im, p.tp.Topic)
	return t == nil || t.ID != p.topicID || p.tp.Partition < 0 || int(p.tp.Partition) >= len(t.Partitions)
}

// endInGroups lets the shard of a partition of __consumer_offsets write the marker: the groups must learn of it.
func (c *Coordinator) endInGroups(p *pendingMarker, done func(error)) {
	s := c.groups.at(p.tp.Partition)
	e := groupEvent{kind: taskEvent, refused: func(code kafka.Error) { done(code) }, task: func() {
		if p.sender.goesOn() {
			s.endTransaction(p.Marker, done)
		}
	}}
	if s == nil || !s.post(e) {
		done(kafka.NotCoordinator)
	}
}

// settle takes note of what came of a marker.
func (w *markers) settle(p *pendingMarker, err error) {
	if err == nil {
		w.c.metrics.Markers.Inc()
		w.mu.Lock()
		if q := w.queues[p.tp]; q != nil {
			q.backoff = 0
		}
		w.mu.Unlock()
		p.sender.written(p.index, false)
		return
	}
	if !p.sender.failed(p.index, err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	q := w.queue(p.tp)
	q.putOff(p)
	if q.timer != nil {
		return
	}
	if q.backoff < markerRetryMost && 2*q.backoff >= markerRetryMost {
		w.c.opts.Log.Warn("transactions cannot end in a partition that takes no markers; trying again until it does",
			"partition", q.tp, "error", err)
	}
	q.backoff = min(max(2*q.backoff, markerRetryFirst), markerRetryMost)
	q.timer = time.AfterFunc(q.backoff, func() { w.retry(q) })
}

// retry lets the markers that had to wait be written again.
func (w *markers) retry(queues ...*markerQueue) {
	var wake []*markerQueue
	w.mu.Lock()
	for _, q := range queues {
		if q.timer == nil || w.closed {
			continue
		}
		q.timer.Stop()
		q.timer = nil
		if q.push(q.taken()...) {
			wake = append(wake, q)
		}
	}
	w.mu.Unlock()
	w.wake(wake)
}

// taken takes what was put off. markers.mu is held.
func (q *markerQueue) taken() []*pendingMarker {
	later := q.later
	q.later = nil
	q.of.c.metrics.MarkersWaiting.Add(-int64(len(later)))
	return later
}

// retryAll does not wait for the timers: the metadata has changed, and so may have what is in the way.
func (w *markers) retryAll() {
	w.mu.Lock()
	var queues []*markerQueue
	for _, q := range w.queues {
		queues = append(queues, q)
	}
	w.mu.Unlock()
	w.retry(queues...)
}

// close ends what waits, and answers those who asked.
func (w *markers) close() {
	w.mu.Lock()
	w.closed = true
	for _, q := range w.queues {
		if q.timer != nil {
			q.timer.Stop()
		}
		q.due = nil
		q.taken()
	}
	asked := w.asked
	w.asked = nil
	w.mu.Unlock()
	for r := range asked {
		r.giveUp()
	}
}

// attempt is the marker of one transaction on its way to all its partitions.
type attempt struct {
	shard     *txnShard
	marker    txn.Marker
	cancelled atomic.Bool

	mu     sync.Mutex // guards what follows; held for memory only
	tried  []bool     // by partition
	trying int        // how many were not
	done   []kafka.TopicPartition
}

// writeMarkers begins to write a transaction's markers.
func (s *txnShard) writeMarkers(m txn.Marker) {
	a := &attempt{shard: s, marker: m, tried: make([]bool, len(m.Partitions)), trying: len(m.Partitions)}
	if len(m.Partitions) == 0 {
		s.marked(m, nil)
		return
	}
	s.c.markers.write(replica.Marker{
		ProducerID: m.ID.Producer, ProducerEpoch: m.ID.Epoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit, Protocol: m.Protocol,
	}, m.Partitions, a)
}

// marked tells the machine that partitions have their markers.
func (s *txnShard) marked(m txn.Marker, done []kafka.TopicPartition) {
	s.task(func() {
		s.learn()
		s.carryOut(s.machine.Marked(s.c.opts.Now(), m.TransactionalID, m.Attempt, done))
		s.askAgain(func(p patient) bool { return p.id == m.TransactionalID })
	})
}

// goesOn implements [sender]. A shard that is loaded again begins a new attempt, which must not be followed by this one.
func (a *attempt) goesOn() bool {
	return !a.cancelled.Load() && !a.shard.failed.Load() && a.shard.goesOn()
}

// written implements [sender].
func (a *attempt) written(index int, _ bool) { a.note(index, true) }

// failed implements [sender]. KIP-98: the partition knows a newer epoch of the producer or of the coordinator, so this transaction is none of
// ours any more. It stays prepared until whoever is newer, or the next load, ends it.
func (a *attempt) failed(index int, err error) (again bool) {
	if errors.Is(err, kafka.InvalidProducerEpoch) || errors.Is(err, kafka.TransactionCoordinatorFenced) {
		a.cancelled.Store(true)
		a.shard.c.opts.Log.Warn("a transaction cannot be ended: a partition knows a newer producer or coordinator",
			"transactionalId", a.marker.TransactionalID, "producerId", a.marker.ID.Producer, "producerEpoch", a.marker.ID.Epoch,
			"partition", a.marker.Partitions[index], "error", err)
		return false
	}
	a.note(index, false)
	return a.goesOn()
}

// note takes note of a try. The machine is told when all partitions have been tried, and then of each that follows.
func (a *attempt) note(index int, done bool) {
	a.mu.Lock()
	if !a.tried[index] {
		a.tried[index] = true
		a.trying--
	}
	if done {
		a.done = append(a.done, a.marker.Partitions[index])
	}
	var tell []kafka.TopicPartition
	if a.trying == 0 {
		tell, a.done = a.done, nil
	}
	a.mu.Unlock()
	if len(tell) > 0 {
		a.shard.marked(a.marker, tell)
	}
}

// markerRequest is a WriteTxnMarkers.
type markerRequest struct {
	of   *markers
	done func([]kafka.Error)

	partitions []kafka.TopicPartition

	mu    sync.Mutex // guards what follows; held for memory only
	codes []kafka.Error
	left  int // 0: answered
}

// WriteMarkers writes a marker that an operator, or another node's coordinator, asks for: each partition once. done is called exactly
// once, from any goroutine, perhaps before WriteMarkers returns, with a code for each partition, and must not block.
func (c *Coordinator) WriteMarkers(m replica.Marker, partitions []kafka.TopicPartition, done func(codes []kafka.Error)) {
	r := &markerRequest{
		of: &c.markers, done: done, partitions: slices.Clone(partitions), codes: make([]kafka.Error, len(partitions)), left: len(partitions),
	}
	for i := range r.codes {
		r.codes[i] = kafka.NotLeaderOrFollower // to those who are not answered before the end
	}
	if r.left == 0 || !c.markers.expect(r) {
		done(r.codes)
		return
	}
	image := c.newest()
	for i, tp := range partitions {
		c.markers.writeOne(newPending(image, m, tp, r, i)) // not behind those that must be written: who asks wants to know how it is now
	}
}

// expect remembers a request, so that it is answered when the coordinator closes. It returns false when that was before.
func (w *markers) expect(r *markerRequest) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.asked[r] = struct{}{}
	}
	return !w.closed
}

// goesOn implements [sender].
func (r *markerRequest) goesOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left > 0
}

// written implements [sender].
func (r *markerRequest) written(index int, gone bool) {
	code := kafka.None
	if gone {
		code = kafka.UnknownTopicOrPartition
	}
	r.answer(index, code)
}

// failed implements [sender].
func (r *markerRequest) failed(index int, err error) (again bool) {
	code, _ := kafka.Answer(err)
	switch code {
	case kafka.NotCoordinator, kafka.CoordinatorNotAvailable, kafka.CoordinatorLoadInProgress:
		code = kafka.NotLeaderOrFollower // who sends markers expects no codes of groups
	case kafka.KafkaStorageError:
		if _, leads := r.of.c.opts.Partitions.Leads(r.partitions[index]); !leads {
			code = kafka.UnknownTopicOrPartition // its log directory is offline
		}
	}
	r.answer(index, code)
	return false
}

func (r *markerRequest) answer(index int, code kafka.Error) {
	r.mu.Lock()
	if r.left == 0 {
		r.mu.Unlock()
		return
	}
	r.codes[index] = code
	r.left--
	done := r.left == 0
	r.mu.Unlock()
	if done {
		r.of.mu.Lock()
		delete(r.of.asked, r)
		r.of.mu.Unlock()
		r.done(r.codes)
	}
}

// giveUp answers a request whose markers will not all be written.
func (r *markerRequest) giveUp() {
	r.mu.Lock()
	waits := r.left > 0
	r.left = 0
	r.mu.Unlock()
	if waits {
		r.done(r.codes)
	}
}
