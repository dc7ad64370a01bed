package api

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// deleteRecords moves the start of logs (key 21): everything before an offset is gone, -1 being everything that is committed. The answer comes
// when it is so on all live replicas, or the request's time is over. Internal topics and topics that are only compacted refuse it.
func (a *API) deleteRecords(c call) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDeleteRecordsResponse()
	var open atomic.Int32
	open.Store(1) // so that the answer does not leave before all are asked
	settled := func() {
		if open.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewDeleteRecordsResponseTopic()
		answer.Topic = t.Topic
		answer.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(t.Partitions))
		resp.Topics = append(resp.Topics, answer)
		for j := range t.Partitions {
			p, row := &t.Partitions[j], &answer.Partitions[j]
			*row = kmsg.NewDeleteRecordsResponseTopicPartition()
			row.Partition, row.LowWatermark = p.Partition, int64(kafka.NoOffset)
			if meta.IsInternalTopic(t.Topic) {
				row.ErrorCode = int16(kafka.InvalidTopicException)
				continue
			}
			open.Add(1)
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			a.Replicas.DeleteRecords(tp, kafka.Offset(p.Offset), req.TimeoutMillis, func(low kafka.Offset, err error) {
				code, _ := kafka.Answer(err)
				row.ErrorCode, row.LowWatermark = int16(code), int64(low)
				settled()
			})
		}
	}
	settled()
}
