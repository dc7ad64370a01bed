package txn

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// describe tells what a transactional id is. Of a transaction that is ending it names the partitions that have no marker yet.
func describe(e *entry) *DescribeReply {
	if !e.known() {
		return &DescribeReply{Code: kafka.TransactionalIdNotFound, ID: NoID, StartMs: -1}
	}
	v := e.value
	r := &DescribeReply{State: v.State, ID: v.ID, TimeoutMs: v.TimeoutMs, StartMs: v.StartMs, Partitions: v.Partitions}
	if v.State.prepared() {
		r.Partitions = slices.SortedFunc(maps.Keys(e.left), kafka.TopicPartition.Compare)
	}
	return r
}

// List returns the transactional ids, by name.
func (m *Machine) List() []Listed {
	list := make([]Listed, 0, len(m.ids))
	for _, id := range slices.Sorted(maps.Keys(m.ids)) {
		if e := m.ids[id]; e.known() {
			list = append(list, Listed{
				TransactionalID: id, Producer: e.value.ID.Producer, State: e.value.State, StartMs: e.value.StartMs, UpdatedMs: e.value.UpdatedMs,
			})
		}
	}
	return list
}

// Len returns how many transactional ids there are.
func (m *Machine) Len() int { return len(m.ids) }
