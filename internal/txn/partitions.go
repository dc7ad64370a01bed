package txn

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// addPartitions adds partitions to the open transaction, or opens one with them.
func (m *Machine) addPartitions(now time.Time, ticket Ticket, e *entry, cmd *AddPartitions) Effects {
	if cmd.VerifyOnly {
		return reply(ticket, verify(e, cmd))
	}
	switch {
	case e == nil:
		return reply(ticket, cmd.Fail(kafka.InvalidProducerIdMapping))
	case e.busy():
		return reply(ticket, cmd.Fail(kafka.ConcurrentTransactions))
	}
	if code := e.owner(cmd.ID); code != kafka.None {
		return reply(ticket, cmd.Fail(code))
	}
	all := &AddPartitionsReply{Codes: make([]kafka.Error, len(cmd.Partitions))}
	v := e.next(now, Ongoing)
	if e.value.State == Ongoing {
		v.Partitions = union(e.value.Partitions, cmd.Partitions)
		if len(v.Partitions) == len(e.value.Partitions) {
			return reply(ticket, all)
		}
	} else {
		v.Partitions, v.StartMs = union(nil, cmd.Partitions), v.UpdatedMs
	}
	if cmd.Protocol > 0 && m.protocol == 0 { // the log could not say so
		return reply(ticket, cmd.Fail(kafka.UnsupportedVersion))
	}
	v.Protocol = cmd.Protocol
	return m.write(e, func() Effects { return reply(ticket, all) }, refusal(ticket, cmd), v)
}

// verify tells which partitions are in the open transaction.
func verify(e *entry, cmd *AddPartitions) Reply {
	if !e.known() {
		return cmd.Fail(kafka.InvalidProducerIdMapping)
	}
	if code := e.owner(cmd.ID); code != kafka.None {
		return cmd.Fail(code)
	}
	if e.value.State.prepared() {
		return cmd.Fail(kafka.ConcurrentTransactions)
	}
	r := &AddPartitionsReply{Codes: make([]kafka.Error, len(cmd.Partitions))}
	for i, tp := range cmd.Partitions {
		if _, there := slices.BinarySearchFunc(e.value.Partitions, tp, kafka.TopicPartition.Compare); !there {
			r.Codes[i] = kafka.TransactionAbortable
		}
	}
	return r
}

// owner tells whether it is this producer, in this epoch, that has the id.
func (e *entry) owner(id ID) kafka.Error {
	switch {
	case e.value.ID.Producer != id.Producer:
		return kafka.InvalidProducerIdMapping
	case e.value.ID.Epoch != id.Epoch:
		return kafka.ProducerFenced
	}
	return kafka.None
}

// union is a new list with the partitions of both, sorted, each once.
func union(sorted, more []kafka.TopicPartition) []kafka.TopicPartition {
	all := slices.Concat(sorted, more)
	slices.SortFunc(all, kafka.TopicPartition.Compare)
	return slices.Compact(all)
}
