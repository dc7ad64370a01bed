package raw

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Txn is whom a producer with a transactional id takes itself for.
type Txn struct {
	ID       string // the transactional id
	Producer int64
	Epoch    int16
}

// NewTxn is a producer that was never told its producer id.
func NewTxn(id string) Txn { return Txn{id, -1, -1} }

// Init asks for the producer id, or from version 3 on for the next epoch of the one that the producer has.
func (t Txn) Init(version int16, timeoutMs int32) *kmsg.InitProducerIDRequest {
	req := At(version, kmsg.NewPtrInitProducerIDRequest())
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &t.ID, timeoutMs, t.Producer, t.Epoch
	return req
}

// Add takes partitions into the transaction: as a client up to version 3, as a broker from 4 on.
func (t Txn) Add(version int16, topics ...Partitions) *kmsg.AddPartitionsToTxnRequest {
	req := At(version, kmsg.NewPtrAddPartitionsToTxnRequest())
	if version >= 4 {
		return Batched(version, t.row(false, topics))
	}
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = t.ID, t.Producer, t.Epoch
	for _, topic := range topics {
		row := kmsg.NewAddPartitionsToTxnRequestTopic()
		row.Topic, row.Partitions = topic.Topic, topic.Numbers
		req.Topics = append(req.Topics, row)
	}
	return req
}

// Verify asks, as a broker does, whether partitions are in the transaction.
func (t Txn) Verify(version int16, topics ...Partitions) *kmsg.AddPartitionsToTxnRequest {
	return Batched(version, t.row(true, topics))
}

// Batched puts together what a broker asks of several transactions, each in a request of its own.
func Batched(version int16, rows ...kmsg.AddPartitionsToTxnRequestTransaction) *kmsg.AddPartitionsToTxnRequest {
	req := At(version, kmsg.NewPtrAddPartitionsToTxnRequest())
	req.Transactions = rows
	return req
}

func (t Txn) row(verifyOnly bool, topics []Partitions) kmsg.AddPartitionsToTxnRequestTransaction {
	row := kmsg.NewAddPartitionsToTxnRequestTransaction()
	row.TransactionalID, row.ProducerID, row.ProducerEpoch, row.VerifyOnly = t.ID, t.Producer, t.Epoch, verifyOnly
	for _, topic := range topics {
		of := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		of.Topic, of.Partitions = topic.Topic, topic.Numbers
		row.Topics = append(row.Topics, of)
	}
	return row
}

// AddOffsets takes a group's offsets into the transaction.
func (t Txn) AddOffsets(version int16, group string) *kmsg.AddOffsetsToTxnRequest {
	req := At(version, kmsg.NewPtrAddOffsetsToTxnRequest())
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = t.ID, t.Producer, t.Epoch, group
	return req
}

// End commits or aborts.
func (t Txn) End(version int16, commit bool) *kmsg.EndTxnRequest {
	req := At(version, kmsg.NewPtrEndTxnRequest())
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.ID, t.Producer, t.Epoch, commit
	return req
}

// Batch is one of the transaction's records.
func (t Txn) Batch(base kafka.Sequence, count int) record.Batch {
	b := record.Builder{Transactional: true, Producer: &record.Producer{
		ID: kafka.ProducerID(t.Producer), Epoch: kafka.ProducerEpoch(t.Epoch), BaseSequence: base,
	}}
	for i := range count {
		b.Add([]byte("k"), fmt.Appendf(nil, "%d/%d", base, i), nil, LongAgoMs)
	}
	return b.Build()
}

// Produce sends rows under the transactional id.
func (t Txn) Produce(version int16, rows ...ProduceRow) *kmsg.ProduceRequest {
	req := Produce(version, -1, rows...)
	req.TransactionID = &t.ID
	return req
}

// CommitOffsets stores a group's offsets, to count when the transaction commits; from version 3 on as a member of the group. Rows of
// one topic that follow each other go under one name.
func (t Txn) CommitOffsets(version int16, group, member string, generation int32, rows ...CommitRow) *kmsg.TxnOffsetCommitRequest {
	req := At(version, kmsg.NewPtrTxnOffsetCommitRequest())
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = t.ID, t.Producer, t.Epoch
	req.Group, req.MemberID, req.Generation = group, member, generation
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.Topic || req.Topics[n-1].TopicID != r.ID {
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic, topic.TopicID = r.Topic, r.ID
			req.Topics = append(req.Topics, topic)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = r.Partition, r.Offset, -1
		topic := &req.Topics[len(req.Topics)-1]
		topic.Partitions = append(topic.Partitions, p)
	}
	return req
}

// Marker ends the transaction in partitions, as its coordinator would.
func (t Txn) Marker(commit bool, coordinatorEpoch int32, transactionVersion int8, topics ...Partitions) kmsg.WriteTxnMarkersRequestMarker {
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed = t.Producer, t.Epoch, commit
	m.CoordinatorEpoch, m.TransactionVersion = coordinatorEpoch, transactionVersion
	for _, topic := range topics {
		row := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		row.Topic, row.Partitions = topic.Topic, topic.Numbers
		m.Topics = append(m.Topics, row)
	}
	return m
}

// WriteMarkers is what a coordinator sends to the leaders of partitions.
func WriteMarkers(version int16, markers ...kmsg.WriteTxnMarkersRequestMarker) *kmsg.WriteTxnMarkersRequest {
	req := At(version, kmsg.NewPtrWriteTxnMarkersRequest())
	req.Markers = markers
	return req
}

// DescribeTransactions asks for transactional ids.
func DescribeTransactions(ids ...string) *kmsg.DescribeTransactionsRequest {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	return req
}

// ListTransactions asks for transactional ids in some states, or in all.
func ListTransactions(version int16, states ...string) *kmsg.ListTransactionsRequest {
	req := At(version, kmsg.NewPtrListTransactionsRequest())
	req.StateFilters, req.DurationFilterMillis = states, -1
	return req
}
