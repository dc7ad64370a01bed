package txn

import (
	"maps"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// preparation is how a transaction is to end.
type preparation struct {
	state    State // PrepareCommit or PrepareAbort
	protocol int16 // 2: the epoch goes up with the end
	fence    bool  // it is not the producer that ends it: its epoch is over in any protocol
	next     kafka.ProducerID
}

// prepare decides a transaction: from the record on it ends so, and no other way. settled says what to answer when the record is
// written, or was refused.
func (m *Machine) prepare(now time.Time, e *entry, p preparation, settled func(kafka.Error) Effects) Effects {
	v, last := e.next(now, p.state), e.last
	v.Protocol, v.Next = p.protocol, kafka.NoProducer
	switch {
	case p.protocol >= 2: // KIP-890: what comes late finds itself in an epoch that is over
		last = v.ID.Epoch
		if v.ID.used() {
			v.Next = p.next
		}
		v.ID.Epoch = min(v.ID.Epoch, epochMax-1) + 1
	case p.fence:
		last = NoID.Epoch
		v.ID.Epoch = min(v.ID.Epoch, epochMax-1) + 1
	}
	if e.value.State != Ongoing {
		v.StartMs, v.Partitions = v.UpdatedMs, nil
	}
	values := []*Value{v}
	if len(v.Partitions) == 0 { // no markers: it is complete at once
		values = append(values, v.complete(now))
	}
	return m.write(e, func() Effects {
		e.last = last
		after := settled(kafka.None)
		if e.value.State.prepared() {
			after.Markers = append(after.Markers, m.mark(e))
		}
		return after
	}, settled, values...)
}

// complete is the value when all partitions have their markers.
func (v *Value) complete(now time.Time) *Value {
	c := *v
	c.Previous, c.UpdatedMs, c.ID, c.Next, c.Partitions = v.ID.Producer, now.UnixMilli(), v.after(), kafka.NoProducer, nil
	c.State = outcome(v.State == PrepareCommit)
	return &c
}

// after is whom the producer goes on as when the transaction is complete.
func (v *Value) after() ID {
	if v.Protocol >= 2 && v.Next != kafka.NoProducer {
		return ID{Producer: v.Next}
	}
	return v.ID
}

// mark wants the markers of a prepared transaction written.
func (m *Machine) mark(e *entry) Marker {
	m.attempts++
	e.attempt, e.left = m.attempts, make(map[kafka.TopicPartition]struct{}, len(e.value.Partitions))
	for _, tp := range e.value.Partitions {
		e.left[tp] = struct{}{}
	}
	return Marker{
		TransactionalID: e.id, Attempt: e.attempt, ID: e.value.ID, CoordinatorEpoch: m.coordinatorEpoch,
		Commit: e.value.State == PrepareCommit, Protocol: e.value.Protocol, Partitions: e.value.Partitions,
	}
}

// Marked tells that partitions have a marker, or are no more. With the last of them the transaction is complete. What comes late or
// again does no harm.
func (m *Machine) Marked(now time.Time, transactionalID string, attempt uint64, done []kafka.TopicPartition) Effects {
	e := m.ids[transactionalID]
	if !e.known() || !e.value.State.prepared() || e.attempt != attempt {
		return Effects{}
	}
	for _, tp := range done {
		delete(e.left, tp)
	}
	if len(e.left) > 0 || e.pending {
		return Effects{}
	}
	return m.finish(now, e)
}

// finish writes down that a transaction has all its markers. When that is refused, AbortTimedOut tries again.
func (m *Machine) finish(now time.Time, e *entry) Effects {
	return m.write(e, func() Effects {
		e.left = nil
		return Effects{}
	}, func(kafka.Error) Effects { return Effects{} }, e.value.complete(now))
}

// Loaded goes on with what was prepared when the log ended: its markers are written again, where they are already too.
func (m *Machine) Loaded(time.Time) Effects {
	var after Effects
	for _, id := range slices.Sorted(maps.Keys(m.ids)) {
		e := m.ids[id]
		invariant.Check(!e.pending, "%s: a record is being appended while the log is read", id)
		if e.value.State.prepared() {
			after.Markers = append(after.Markers, m.mark(e))
		}
	}
	return after
}
