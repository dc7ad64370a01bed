// Package producer remembers, for one partition, what its idempotent and transactional producers wrote last: it tells a batch
// sent again from a gap, an old producer from its successor, and where the first open transaction begins.
package producer

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Window is how many batches of a producer are remembered: so many may a client have in flight.
const Window = 5

// noSequence is what batches without a sequence have: a transaction's offset commits, and control batches.
const noSequence kafka.Sequence = -1

// State is the producers of one partition. The zero value is not usable: see New. It is not safe for concurrent use.
//
// Check looks at a batch before it is appended and changes nothing; Apply takes it in once its offset is known. Recovery calls
// Apply only, with the same batches, and comes to the same state.
type State struct {
	max   int
	count int
	idle  list                        // producers without an open transaction, the longest idle first
	open  list                        // producers with one, by its first offset
	index map[kafka.ProducerID]*entry // nil while there are few: most partitions have one or two, and there are very many partitions

	// completed are transactions that ended at markers which may not have been replicated yet, by marker.
	completed []completedTxn

	verifying []verification // in the order in which they were asked about; nil for almost every partition
}

// few is up to how many producers the lists are walked to find one.
const few = 8

// entry is one producer.
type entry struct {
	id               kafka.ProducerID
	epoch            kafka.ProducerEpoch
	coordinatorEpoch int32
	lastMs           int64 // the last batch's largest timestamp
	touchedMs        int64 // when the broker last heard of it; 0 after Decode, until the first Expire
	txnStart         kafka.Offset
	batches          []batchMeta // the last ones, at most Window, oldest first

	previous, next *entry
}

// batchMeta is what is remembered of one batch.
type batchMeta struct {
	lastSequence kafka.Sequence
	delta        int32
	lastOffset   kafka.Offset
	timestampMs  int64
}

func (m batchMeta) firstOffset() kafka.Offset { return m.lastOffset - kafka.Offset(m.delta) }

// firstSequence counts back across the wrap from 0 to 2147483647.
func (m batchMeta) firstSequence() kafka.Sequence {
	if m.lastSequence < 0 {
		return m.lastSequence
	}
	return kafka.Sequence((uint32(m.lastSequence) - uint32(m.delta)) & (1<<31 - 1))
}

type completedTxn struct {
	first, marker kafka.Offset
}

// completedMax bounds the finished transactions that wait for their replication: beyond it the oldest two count as one, which
// only makes the last stable offset wait longer.
const completedMax = 1024

// New returns the state of an empty partition. At most maxProducers are remembered, 0 meaning any number: then the one that has
// been idle for longest is forgotten for a new one.
func New(maxProducers int) *State { return &State{max: maxProducers} }

// SetMax changes the cap; what is over it goes at once.
func (s *State) SetMax(maxProducers int) {
	s.max = maxProducers
	s.trim()
}

// Verdict is what Check finds about a batch that may be taken.
type Verdict struct {
	Duplicate bool
	// The rest is set for a duplicate: where its original lies, and its time.
	BaseOffset, LastOffset kafka.Offset
	AppendTimeMs           int64
}

// Check decides about a client's batch. A batch of the window sent again is a duplicate, whose answer is the original's. The
// error is kafka.InvalidProducerEpoch for a fenced producer, kafka.OutOfOrderSequenceNumber for a gap, kafka.InvalidTxnState for
// a batch outside the transaction that its producer has open, or that begins one without its guard, each with a message. A producer
// that is not known, or was forgotten, may begin with any sequence.
//
// What is sent in a transaction is no duplicate of what was sent before it. librdkafka gives the sequence numbers of an aborted
// transaction to the records of the next one where the abort was quicker than an answer: told that they are in the log, it would
// commit without them, as it does with Kafka.
func (s *State) Check(b record.Batch, guard Guard) (Verdict, error) {
	id := b.ProducerID()
	if id < 0 {
		return Verdict{}, nil
	}
	e := s.find(id)
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	if err := e.fences(id, epoch); err != nil {
		return Verdict{}, err
	}
	if e != nil && epoch == e.epoch {
		if original, ok := e.find(first, b.LastSequence()); ok {
			if b.IsTransactional() && !e.holds(original) {
				return Verdict{}, kafka.Refuse(kafka.OutOfOrderSequenceNumber,
					"producer %d sends sequence %d, which it sent before its transaction, at offset %d", id, first, original.firstOffset())
			}
			return Verdict{
				Duplicate: true, BaseOffset: original.firstOffset(), LastOffset: original.lastOffset,
				AppendTimeMs: original.timestampMs,
			}, nil
		}
	}
	if err := s.checkGuard(e, b, guard); err != nil {
		return Verdict{}, err
	}
	if err := s.checkTurn(e, id, first); err != nil || e == nil {
		return Verdict{}, err
	}
	if err := e.checkSequence(epoch, first); err != nil {
		return Verdict{}, err
	}
	if e.txnStart >= 0 && !b.IsTransactional() {
		return Verdict{}, kafka.Refuse(kafka.InvalidTxnState, "producer %d has a transaction open since offset %d", id, e.txnStart)
	}
	return Verdict{}, nil
}

// holds tells whether a batch of the producer is in the transaction that it has open.
func (e *entry) holds(m batchMeta) bool { return e.txnStart >= 0 && m.firstOffset() >= e.txnStart }

// CheckOffsets decides about the offsets that a producer commits in its transaction: a batch without a sequence, which a group's
// coordinator appends. The errors are those of Check.
func (s *State) CheckOffsets(b record.Batch, guard Guard) error {
	e := s.find(b.ProducerID())
	if err := e.fences(b.ProducerID(), b.ProducerEpoch()); err != nil {
		return err
	}
	return s.checkGuard(e, b, guard)
}

// fences refuses an epoch before the one that the producer is known to have. Of a producer that is not known, which is nil, any will do.
func (e *entry) fences(id kafka.ProducerID, epoch kafka.ProducerEpoch) error {
	if e == nil || epoch >= e.epoch {
		return nil
	}
	return kafka.Refuse(kafka.InvalidProducerEpoch, "producer %d has epoch %d: it was fenced by epoch %d", id, epoch, e.epoch)
}

// inTransaction tells whether the producer has begun its transaction of that epoch. nil has not.
func (e *entry) inTransaction(epoch kafka.ProducerEpoch) bool {
	return e != nil && e.txnStart >= 0 && e.epoch == epoch
}

// checkRoom refuses a new transaction where every producer that is remembered has one open: none of them may be forgotten.
func (s *State) checkRoom() error {
	if s.max > 0 && s.count >= s.max && s.idle.first == nil {
		return kafka.Refuse(kafka.PolicyViolation, "all of the %d producers that the partition remembers have transactions open", s.max)
	}
	return nil
}

func (e *entry) checkSequence(epoch kafka.ProducerEpoch, first kafka.Sequence) error {
	if epoch != e.epoch {
		if first != 0 && e.epoch >= 0 {
			return kafka.Refuse(kafka.OutOfOrderSequenceNumber, "producer %d begins epoch %d with sequence %d, not 0", e.id, epoch, first)
		}
		return nil
	}
	if e.epoch < 0 {
		return nil
	}
	last := e.lastSequence()
	if last >= 0 && first == record.AddSequence(last, 1) || last < 0 && first == 0 {
		return nil
	}
	return kafka.Refuse(kafka.OutOfOrderSequenceNumber, "producer %d sends sequence %d after %d", e.id, first, last)
}

func (e *entry) lastSequence() kafka.Sequence {
	if last, ok := e.last(); ok {
		return last.lastSequence
	}
	return noSequence
}

// last returns the batch that is remembered last, if there is one.
func (e *entry) last() (batchMeta, bool) {
	if len(e.batches) == 0 {
		return batchMeta{}, false
	}
	return e.batches[len(e.batches)-1], true
}

// find returns the remembered batch that has exactly these sequences.
func (e *entry) find(first, last kafka.Sequence) (batchMeta, bool) {
	for _, m := range e.batches {
		if m.firstSequence() == first && m.lastSequence == last {
			return m, true
		}
	}
	return batchMeta{}, false
}

// CheckMarker decides about a marker that ends a transaction, in the version of the transaction protocol that its coordinator
// runs: from 2 on the marker's epoch is one above the transaction's, and the marker sent again is taken again.
func (s *State) CheckMarker(id kafka.ProducerID, epoch kafka.ProducerEpoch, coordinatorEpoch int32, protocol int16) error {
	e := s.find(id)
	if e == nil {
		return nil
	}
	stale := epoch < e.epoch
	if protocol >= 2 && epoch == e.epoch && e.txnStart >= 0 {
		stale = true
	}
	if stale {
		return kafka.Refuse(kafka.InvalidProducerEpoch, "a marker of producer %d has epoch %d, the producer %d", id, epoch, e.epoch)
	}
	if coordinatorEpoch < e.coordinatorEpoch {
		return kafka.Refuse(kafka.TransactionCoordinatorFenced, "a marker of coordinator epoch %d after one of epoch %d",
			coordinatorEpoch, e.coordinatorEpoch)
	}
	return nil
}

// Completed is a transaction that a marker has ended, as the partition's index of aborted transactions wants it.
type Completed struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset
	Marker      kafka.Offset
	Aborted     bool
	LastStable  kafka.Offset // the last stable offset that the marker leaves
}

// Apply takes in a batch that has its place in the log: appended, replicated or recovered. The transaction that it ended is
// returned, if it is such a marker and the partition had the transaction's records.
func (s *State) Apply(b record.Batch, now time.Time) (Completed, bool) {
	id := b.ProducerID()
	if id < 0 {
		return Completed{}, false
	}
	if b.IsControl() {
		marker, ok, err := b.Marker()
		if err != nil || !ok {
			return Completed{}, false // of a batch that compaction emptied nothing is to be learnt
		}
		return s.end(b, marker, now)
	}
	if b.IsTransactional() {
		s.verified(id)
	}
	e := s.touch(id, now)
	e.setEpoch(b.ProducerEpoch())
	e.remember(batchMeta{
		lastSequence: b.LastSequence(), lastOffset: b.LastOffset(), delta: b.LastOffsetDelta(), timestampMs: b.MaxTimestampMs(),
	})
	e.lastMs = b.MaxTimestampMs()
	if b.IsTransactional() && e.txnStart < 0 {
		e.txnStart = b.BaseOffset()
		s.idle.remove(e)
		s.open.pushBack(e)
	}
	s.trim()
	return Completed{}, false
}

// end applies a marker.
func (s *State) end(b record.Batch, marker record.Marker, now time.Time) (Completed, bool) {
	s.verified(b.ProducerID())
	e := s.touch(b.ProducerID(), now)
	e.setEpoch(b.ProducerEpoch())
	e.coordinatorEpoch = marker.CoordinatorEpoch
	e.lastMs = b.MaxTimestampMs()
	first := e.txnStart
	if first < 0 {
		s.trim()
		return Completed{}, false
	}
	e.txnStart = kafka.NoOffset
	s.open.remove(e)
	s.idle.pushBack(e)
	s.complete(completedTxn{first: first, marker: b.LastOffset()})
	s.trim()
	done := Completed{ProducerID: e.id, FirstOffset: first, Marker: b.LastOffset(), Aborted: !marker.Commit, LastStable: b.NextOffset()}
	if s.open.first != nil {
		done.LastStable = s.open.first.txnStart
	}
	return done, true
}

func (s *State) complete(txn completedTxn) {
	if len(s.completed) == completedMax {
		s.completed[1].first = min(s.completed[0].first, s.completed[1].first)
		s.completed = slices.Delete(s.completed, 0, 1)
	}
	s.completed = append(s.completed, txn)
}

// touch returns the producer's entry, made new if it must be, as the last of its list that one heard of.
func (s *State) touch(id kafka.ProducerID, now time.Time) *entry {
	e := s.find(id)
	if e == nil {
		e = newEntry(id)
		s.insert(e)
	} else if e.txnStart < 0 {
		s.idle.remove(e)
		s.idle.pushBack(e)
	}
	e.touchedMs = now.UnixMilli()
	return e
}

func newEntry(id kafka.ProducerID) *entry {
	return &entry{id: id, epoch: -1, coordinatorEpoch: -1, lastMs: -1, txnStart: kafka.NoOffset}
}

// find returns the producer's entry, or nil.
func (s *State) find(id kafka.ProducerID) *entry {
	if s.index != nil {
		return s.index[id]
	}
	for e := range s.all() {
		if e.id == id {
			return e
		}
	}
	return nil
}

// all goes through the producers, in the order of the lists.
func (s *State) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, l := range [...]list{s.idle, s.open} {
			for e := l.first; e != nil; e = e.next {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func (s *State) insert(e *entry) {
	if e.txnStart >= 0 {
		s.open.pushBack(e)
	} else {
		s.idle.pushBack(e)
	}
	s.count++
	switch {
	case s.index != nil:
		s.index[e.id] = e
	case s.count > few:
		s.index = make(map[kafka.ProducerID]*entry, 2*few)
		for e := range s.all() {
			s.index[e.id] = e
		}
	}
}

// trim forgets the longest idle producers beyond the cap, but the one last heard of.
func (s *State) trim() {
	for s.max > 0 && s.count > s.max && s.idle.first != nil && s.idle.first != s.idle.last {
		s.forget(s.idle.first)
	}
}

func (s *State) forget(e *entry) {
	s.idle.remove(e)
	delete(s.index, e.id)
	s.count--
}

func (e *entry) setEpoch(epoch kafka.ProducerEpoch) {
	if e.epoch != epoch {
		e.epoch, e.batches = epoch, e.batches[:0]
	}
}

func (e *entry) remember(m batchMeta) {
	if len(e.batches) == Window {
		copy(e.batches, e.batches[1:])
		e.batches[Window-1] = m
		return
	}
	if n := len(e.batches); n == cap(e.batches) { // to 1, 3, 5: many a producer sends a partition no more than one
		e.batches = append(make([]batchMeta, 0, min(2*n+1, Window)), e.batches...)
	}
	e.batches = append(e.batches, m)
}

// Expire forgets the producers that were idle for that long. A producer with an open transaction stays. Those that came from a
// snapshot count as heard of when Expire is first called: their own timestamps may be any. Guards of that age go as well.
func (s *State) Expire(now time.Time, after time.Duration) {
	nowMs := now.UnixMilli()
	s.expireGuards(nowMs, after)
	for e := s.idle.first; e != nil; {
		next := e.next
		if e.touchedMs == 0 {
			e.touchedMs = nowMs
		}
		if nowMs-e.touchedMs >= after.Milliseconds() {
			s.forget(e)
		}
		e = next
	}
}

// Len is how many producers are remembered.
func (s *State) Len() int { return s.count }

// End is one past the last offset that the state knows of.
func (s *State) End() kafka.Offset {
	end := kafka.Offset(0)
	for e := range s.all() {
		end = max(end, e.txnStart+1)
		if last, ok := e.last(); ok {
			end = max(end, last.lastOffset+1)
		}
	}
	return end
}

// Transactional tells whether one of the producers has begun or ended a transaction.
func (s *State) Transactional() bool {
	if s.open.first != nil {
		return true
	}
	for e := s.idle.first; e != nil; e = e.next {
		if e.coordinatorEpoch >= 0 {
			return true
		}
	}
	return false
}

// FirstUnstable returns where the oldest open transaction begins.
func (s *State) FirstUnstable() (kafka.Offset, bool) {
	if s.open.first == nil {
		return kafka.NoOffset, false
	}
	return s.open.first.txnStart, true
}

// LastStable returns the offset below which every transaction is decided and its marker replicated: the high watermark, or the
// first offset of a transaction that is open or whose marker is not below the high watermark. It forgets the finished
// transactions below, so the high watermark must not go back.
func (s *State) LastStable(highWatermark kafka.Offset) kafka.Offset {
	n := 0
	for n < len(s.completed) && s.completed[n].marker < highWatermark {
		n++
	}
	s.completed = slices.Delete(s.completed, 0, n)
	stable := highWatermark
	if s.open.first != nil {
		stable = min(stable, s.open.first.txnStart)
	}
	for _, txn := range s.completed {
		stable = min(stable, txn.first)
	}
	return stable
}

// Producer is a view of one producer, as DescribeProducers shows it.
type Producer struct {
	ID               kafka.ProducerID
	Epoch            kafka.ProducerEpoch
	LastSequence     kafka.Sequence // -1: none
	LastTimestampMs  int64
	CoordinatorEpoch int32        // -1: no transaction has ended
	TxnStartOffset   kafka.Offset // -1: no transaction is open
}

// Producers returns every producer, by id.
func (s *State) Producers() []Producer {
	views := make([]Producer, 0, s.count)
	for _, e := range s.byID() {
		views = append(views, Producer{
			ID: e.id, Epoch: e.epoch, LastSequence: e.lastSequence(), LastTimestampMs: e.lastMs,
			CoordinatorEpoch: e.coordinatorEpoch, TxnStartOffset: e.txnStart,
		})
	}
	return views
}

func (s *State) byID() []*entry {
	return slices.SortedFunc(s.all(), func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
}

// list is a doubly linked list of entries.
type list struct {
	first, last *entry
}

func (l *list) pushBack(e *entry) {
	e.previous, e.next = l.last, nil
	if l.last != nil {
		l.last.next = e
	} else {
		l.first = e
	}
	l.last = e
}

func (l *list) remove(e *entry) {
	if e.previous != nil {
		e.previous.next = e.next
	} else {
		l.first = e.next
	}
	if e.next != nil {
		e.next.previous = e.previous
	} else {
		l.last = e.previous
	}
	e.previous, e.next = nil, nil
}
