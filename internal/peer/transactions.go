package peer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Marker ends a producer's transaction in partitions that another broker leads.
type Marker struct {
	ProducerID       kafka.ProducerID
	ProducerEpoch    kafka.ProducerEpoch
	CoordinatorEpoch int32
	Commit           bool
	Protocol         int16 // transaction.version of the transaction
	Partitions       []kafka.TopicPartition
}

// WriteMarkers has a broker write markers, each of another producer. For each there is one code for each of its partitions.
func (b *Brokers) WriteMarkers(ctx context.Context, to kafka.NodeID, markers []Marker) ([][]kafka.Error, error) {
	client, err := b.client(to, markerLine)
	if err != nil {
		return nil, err
	}
	request := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, m := range markers {
		row := kmsg.NewWriteTxnMarkersRequestMarker()
		row.ProducerID, row.ProducerEpoch, row.Committed = int64(m.ProducerID), int16(m.ProducerEpoch), m.Commit
		row.CoordinatorEpoch, row.TransactionVersion = m.CoordinatorEpoch, int8(m.Protocol)
		for _, t := range byTopic(m.Partitions) {
			topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			topic.Topic, topic.Partitions = t.name, t.partitions
			row.Topics = append(row.Topics, topic)
		}
		request.Markers = append(request.Markers, row)
	}
	decoded, err := client.Do(ctx, request, 1)
	if err != nil {
		return nil, err
	}
	type place struct {
		producer int64
		tp       kafka.TopicPartition
	}
	said := map[place]kafka.Error{}
	for _, m := range decoded.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				said[place{m.ProducerID, kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}}] = kafka.Error(p.ErrorCode)
			}
		}
	}
	codes := make([][]kafka.Error, len(markers))
	for i, m := range markers {
		for _, tp := range m.Partitions {
			code, answered := said[place{int64(m.ProducerID), tp}]
			if !answered {
				code = kafka.UnknownServerError
			}
			codes[i] = append(codes[i], code)
		}
	}
	return codes, nil
}

// AddPartitions asks the coordinator of a transactional id, another broker, about partitions that a producer is about to write to: to add them
// to its transaction, or with verifyOnly whether they are in it. There is one code for each.
func (b *Brokers) AddPartitions(ctx context.Context, to kafka.NodeID, transactionalID string, producer kafka.ProducerID, epoch kafka.ProducerEpoch,
	verifyOnly bool, partitions []kafka.TopicPartition,
) ([]kafka.Error, error) {
	client, err := b.client(to, callLine)
	if err != nil {
		return nil, err
	}
	row := kmsg.NewAddPartitionsToTxnRequestTransaction()
	row.TransactionalID, row.ProducerID, row.ProducerEpoch, row.VerifyOnly = transactionalID, int64(producer), int16(epoch), verifyOnly
	for _, t := range byTopic(partitions) {
		topic := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		topic.Topic, topic.Partitions = t.name, t.partitions
		row.Topics = append(row.Topics, topic)
	}
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	request.Transactions = append(request.Transactions, row)
	decoded, err := client.Do(ctx, request, 4)
	if err != nil {
		return nil, err
	}
	response := decoded.(*kmsg.AddPartitionsToTxnResponse)
	if response.ErrorCode != 0 {
		return nil, kafka.Error(response.ErrorCode)
	}
	said := map[kafka.TopicPartition]kafka.Error{}
	for _, answer := range response.Transactions {
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				said[kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = kafka.Error(p.ErrorCode)
			}
		}
	}
	codes := make([]kafka.Error, len(partitions))
	for i, tp := range partitions {
		code, answered := said[tp]
		if !answered {
			code = kafka.UnknownServerError
		}
		codes[i] = code
	}
	return codes, nil
}

type topicPartitions struct {
	name       string
	partitions []int32
}

// byTopic gathers partitions by topic, in the order in which topics come.
func byTopic(partitions []kafka.TopicPartition) (topics []topicPartitions) {
	at := map[string]int{}
	for _, tp := range partitions {
		i, known := at[tp.Topic]
		if !known {
			i = len(topics)
			at[tp.Topic] = i
			topics = append(topics, topicPartitions{name: tp.Topic})
		}
		topics[i].partitions = append(topics[i].partitions, tp.Partition)
	}
	return topics
}
