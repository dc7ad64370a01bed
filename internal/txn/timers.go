package txn

import (
	"maps"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// AbortTimedOut begins to abort one transaction that is over its time, or writes down one that is complete, where that was refused
// before. It is to be called again until it returns false, and then at the next interval.
func (m *Machine) AbortTimedOut(now time.Time) (Effects, bool) {
	if m.late == nil {
		m.late = m.collect(func(e *entry) bool { return e.late(now) || e.unfinished() })
	}
	for len(m.late) > 0 {
		e := m.ids[m.late[0]]
		m.late = m.late[1:]
		switch {
		case !e.known():
		case e.late(now):
			return m.fence(now, e, kafka.NoProducer, func(kafka.Error) Effects { return Effects{} }), true
		case e.unfinished():
			return m.finish(now, e), true
		}
	}
	m.late = nil
	return Effects{}, false
}

// late tells whether an open transaction is over its time.
func (e *entry) late(now time.Time) bool {
	return !e.pending && e.value.State == Ongoing && e.value.TimeoutMs != twoPhase &&
		e.value.StartMs+int64(e.value.TimeoutMs) < now.UnixMilli()
}

// unfinished tells whether a transaction has all its markers and the log does not say so.
func (e *entry) unfinished() bool { return !e.pending && e.value.State.prepared() && len(e.left) == 0 }

// expiredBytesMax is how large the keys in one batch of tombstones may be together, but for a single one.
const expiredBytesMax = 64 << 10

// Expire removes transactional ids that have not been used for long and have nothing open: some at a time. It is to be called again
// until it returns false, and then at the next interval.
func (m *Machine) Expire(now time.Time) (Effects, bool) {
	if m.old == nil {
		m.old = m.collect(func(e *entry) bool { return m.expired(now, e) })
	}
	var records []*Record
	var gone []*entry
	for bytes := 0; len(m.old) > 0; m.old = m.old[1:] {
		e := m.ids[m.old[0]]
		if !e.known() || !m.expired(now, e) {
			continue
		}
		if bytes += len(e.id); bytes > expiredBytesMax && len(gone) > 0 {
			break
		}
		e.pending = true
		records, gone = append(records, &Record{TransactionalID: e.id}), append(gone, e)
	}
	if len(gone) == 0 {
		m.old = nil
		return Effects{}, false
	}
	return Effects{Records: records, settle: func(time.Time, kafka.Error) Effects {
		for _, e := range gone {
			e.pending = false
		}
		return Effects{}
	}}, true
}

func (m *Machine) expired(now time.Time, e *entry) bool {
	switch e.value.State {
	case Empty, CompleteCommit, CompleteAbort:
		return !e.pending && e.value.UpdatedMs <= now.Add(-m.cfg.IDExpiration).UnixMilli()
	}
	return false
}

// collect returns the ids that the log has and for which a condition holds, by name.
func (m *Machine) collect(holds func(*entry) bool) []string {
	found := map[string]struct{}{}
	for id, e := range m.ids {
		if e.known() && holds(e) {
			found[id] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
