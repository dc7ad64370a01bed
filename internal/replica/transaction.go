package replica

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
)

// Marker ends a producer's transaction in a partition.
type Marker struct {
	ProducerID       kafka.ProducerID
	ProducerEpoch    kafka.ProducerEpoch // in protocol 2 one above the transaction's
	CoordinatorEpoch int32
	Commit           bool  // false: abort
	Protocol         int16 // transaction.version of the transaction
}

// Verification tells whether a transactional batch that a producer is about to append is the first one of its transaction in the partition. Then
// the transaction's coordinator is to be asked before it is appended, and the guard handed back with it; in a transaction that is
// open already nobody is. A topic id that is not zero decides, else the name does. adds tells that the question adds the partition to
// the transaction. The error is what the client is answered instead.
func (m *Manager) Verification(
	topic string, id kafka.TopicID, partition int32, by record.Producer, adds bool,
) (guard producer.Guard, needed bool, err error) {
	p, err := m.find(id, topic, partition)
	if err != nil {
		return producer.NoGuard, false, err
	}
	guard, err = p.verify(by, adds)
	for next := p.successor(err); next != nil; next = p.successor(err) {
		p = next
		guard, err = p.verify(by, adds)
	}
	return guard, guard != producer.NoGuard, err
}

func (p *replica) verify(by record.Producer, adds bool) (producer.Guard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.serves(); err != nil {
		return producer.NoGuard, err
	}
	if p.core == nil {
		return producer.NoGuard, kafka.NotLeaderOrFollower
	}
	return p.log.Producers().Verify(by, adds, producer.Guard(p.m.guards.Add(1)), p.m.now())
}

// EndTransaction writes the marker that ends a producer's transaction in a partition, and calls done, exactly once, when it is committed or
// has failed: with kafka.InvalidProducerEpoch or kafka.TransactionCoordinatorFenced for a marker that came too late, with
// kafka.UnknownTopicOrPartition where there is no such partition; what else it is may pass. A marker that is there already is written
// again. done may be called before EndTransaction returns, or later from any goroutine, and must not block.
func (m *Manager) EndTransaction(tp kafka.TopicPartition, marker Marker, done func(error)) {
	b := record.EndTransaction(marker.ProducerID, marker.ProducerEpoch,
		record.Marker{Commit: marker.Commit, CoordinatorEpoch: marker.CoordinatorEpoch}, m.now().UnixMilli())
	by := writer{kind: byMarker, coordinatorEpoch: marker.CoordinatorEpoch, protocol: marker.Protocol}
	m.commit(tp, b, by, func(_ kafka.Offset, err error) { done(err) })
}

// AppendTransactional is Append for the offsets that a producer commits in its transaction. Where they begin it in the partition they
// need the guard that Verification gave. The errors of its own are kafka.InvalidProducerEpoch and kafka.InvalidTxnState.
func (m *Manager) AppendTransactional(
	tp kafka.TopicPartition, batch record.Batch, guard producer.Guard, done func(last kafka.Offset, err error),
) {
	m.commit(tp, batch, writer{kind: byTxnOffsets, guard: guard}, done)
}
