package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// deleteRecords moves the start of logs (key 21): everything before an offset is gone, -1 being everything that is committed.
// Internal topics and topics that are only compacted refuse it.
func (a *API) deleteRecords(c call) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDeleteRecordsResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewDeleteRecordsResponseTopic()
		answer.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			start, err := kafka.NoOffset, error(kafka.InvalidTopicException)
			if !meta.IsInternalTopic(t.Topic) {
				start, err = a.Replicas.DeleteRecords(kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}, kafka.Offset(p.Offset))
			}
			code, _ := kafka.Answer(err)
			row := kmsg.NewDeleteRecordsResponseTopicPartition()
			row.Partition, row.ErrorCode, row.LowWatermark = p.Partition, int16(code), int64(start)
			answer.Partitions = append(answer.Partitions, row)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	c.answer(resp)
}
