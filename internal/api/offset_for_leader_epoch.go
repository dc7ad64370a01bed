package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// offsetForLeaderEpoch tells where leader epochs end (key 23), so that a client finds out whether what it has read is still
// there (KIP-320). Consumers ask with replica id -1 or -2; a current leader epoch of -1 is not checked.
func (a *API) offsetForLeaderEpoch(c call) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewOffsetForLeaderEpochResponseTopic()
		answer.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			epoch, end, err := a.Replicas.EpochEnd(tp, kafka.Epoch(p.CurrentLeaderEpoch), kafka.Epoch(p.LeaderEpoch))
			code, _ := kafka.Answer(err)
			row := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			row.Partition, row.ErrorCode = p.Partition, int16(code)
			row.LeaderEpoch, row.EndOffset = int32(epoch), int64(end)
			answer.Partitions = append(answer.Partitions, row)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	c.answer(resp)
}
