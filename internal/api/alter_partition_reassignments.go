package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/meta"
)

// alterPartitionReassignments says on which brokers partitions are to be, or cancels that (key 45).
func (a *API) alterPartitionReassignments(c call) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	if len(req.Topics) == 0 {
		resp.ErrorMessage = new("")
		c.answer(resp)
		return
	}
	cmd := meta.Reassign{FixedFactors: c.Version >= 1 && !req.AllowReplicationFactorChange}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			cmd.Partitions = append(cmd.Partitions, meta.Reassignment{
				Topic: t.Topic, Partition: p.Partition, Replicas: fromNodeIDs(p.Replicas), Cancel: p.Replicas == nil,
			})
		}
	}
	results, err := a.Quorum.Reassign(context.Background(), cmd)
	resp.AllowReplicationFactorChange = !cmd.FixedFactors
	at := 0
	for _, t := range req.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			outcome := err
			if err == nil {
				outcome = results[at]
			}
			at++
			row := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			code, message := answerOf(outcome)
			row.Partition, row.ErrorCode, row.ErrorMessage = p.Partition, int16(code), message
			topic.Partitions = append(topic.Partitions, row)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	c.answer(resp)
}
