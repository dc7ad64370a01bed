package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// describeProducers lists the idempotent and transactional producers that partitions remember (key 61), so that an operator
// finds a transaction that hangs. Only the leader answers.
func (a *API) describeProducers(c call) {
	req := kmsg.NewPtrDescribeProducersRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeProducersResponse()
	count := 0
	for i := range req.Topics {
		count += len(req.Topics[i].Partitions)
	}
	named := newRepeats[kafka.TopicPartition](count)
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewDescribeProducersResponseTopic()
		answer.Topic = t.Topic
		for _, index := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: index}
			answer.Partitions = append(answer.Partitions, a.producersOf(tp, named.tooMany(tp)))
		}
		resp.Topics = append(resp.Topics, answer)
	}
	c.answer(resp)
}

func (a *API) producersOf(tp kafka.TopicPartition, tooMany bool) kmsg.DescribeProducersResponseTopicPartition {
	row := kmsg.NewDescribeProducersResponseTopicPartition()
	row.Partition = tp.Partition
	if tooMany {
		row.ErrorCode = int16(kafka.InvalidRequest)
		return row
	}
	producers, err := a.Replicas.Producers(tp)
	if meta.CheckTopicName(tp.Topic) != nil {
		err = kafka.InvalidTopicException
	}
	code, message := answerOf(err)
	if message == nil && code != kafka.None {
		_, message = answerOf(kafka.Refuse(code, "%s", code.Error())) // the row says of what: the name may be long, and of many partitions
	}
	row.ErrorCode, row.ErrorMessage = int16(code), message
	for _, p := range producers {
		active := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		active.ProducerID, active.ProducerEpoch = int64(p.ID), int32(p.Epoch)
		active.LastSequence, active.LastTimestamp = int32(p.LastSequence), p.LastTimestampMs
		active.CoordinatorEpoch, active.CurrentTxnStartOffset = p.CoordinatorEpoch, int64(p.TxnStartOffset)
		row.ActiveProducers = append(row.ActiveProducers, active)
	}
	return row
}
