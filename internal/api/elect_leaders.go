package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// electLeaders elects leaders of the partitions that are named, or of all (key 43).
func (a *API) electLeaders(c call) {
	req := kmsg.NewPtrElectLeadersRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrElectLeadersResponse()
	if req.Topics != nil && len(req.Topics) == 0 {
		c.answer(resp)
		return
	}
	cmd := meta.ElectLeaders{Type: meta.PreferredElection}
	if c.Version >= 1 {
		cmd.Type = meta.ElectionType(req.ElectionType)
	}
	for _, t := range req.Topics {
		cmd.Topics = append(cmd.Topics, meta.TopicPartitions{Topic: t.Topic, Partitions: t.Partitions})
	}
	results, err := a.Quorum.ElectLeaders(context.Background(), cmd)
	if err != nil {
		code, _ := kafka.Answer(err)
		resp.ErrorCode = int16(code)
		results = nil
		for _, t := range cmd.Topics {
			row := meta.ElectionResult{Topic: t.Topic}
			for _, n := range t.Partitions {
				row.Partitions = append(row.Partitions, meta.PartitionResult{Partition: n, Err: err})
			}
			results = append(results, row)
		}
	}
	for _, r := range results {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = r.Topic
		for _, p := range r.Partitions {
			row := kmsg.NewElectLeadersResponseTopicPartition()
			code, message := answerOf(p.Err)
			row.Partition, row.ErrorCode, row.ErrorMessage = p.Partition, int16(code), message
			topic.Partitions = append(topic.Partitions, row)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	c.answer(resp)
}
