package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// createPartitions grows topics (key 37).
func (a *API) createPartitions(c call) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	if !c.decode(req) {
		return
	}
	mutation := a.Quotas.mutation(c, 3)
	cmd := meta.CreatePartitions{ValidateOnly: req.ValidateOnly, Charge: mutation.charge}
	for _, t := range req.Topics {
		growth := meta.TopicGrowth{Name: t.Topic, Count: t.Count}
		if t.Assignment != nil {
			growth.Assignments = [][]kafka.NodeID{}
		}
		for _, row := range t.Assignment {
			growth.Assignments = append(growth.Assignments, fromNodeIDs(row.Replicas))
		}
		cmd.Topics = append(cmd.Topics, growth)
	}
	results, err := a.Quorum.CreatePartitions(context.Background(), cmd)
	if err != nil {
		results = nil
		for _, t := range cmd.Topics {
			results = append(results, meta.GrowthResult{Name: t.Name, Err: err})
		}
	}
	resp := kmsg.NewPtrCreatePartitionsResponse()
	for _, r := range results {
		row := kmsg.NewCreatePartitionsResponseTopic()
		code, message := answerOf(r.Err)
		row.Topic, row.ErrorCode, row.ErrorMessage = r.Name, int16(code), message
		resp.Topics = append(resp.Topics, row)
	}
	c.answerAfter(mutation.waitMs(), resp)
}
