package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// deleteTopics deletes topics (key 20): by name up to version 5, by name or id from version 6 on.
func (a *API) deleteTopics(c call) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	if !c.decode(req) {
		return
	}
	mutation := a.Quotas.mutation(c, 5)
	cmd := meta.DeleteTopics{Names: req.TopicNames, Charge: mutation.charge}
	var refused []meta.DeleteResult
	for _, t := range req.Topics {
		switch id := kafka.TopicID(t.TopicID); {
		case t.Topic == nil:
			cmd.IDs = append(cmd.IDs, id)
		case id.IsZero():
			cmd.Names = append(cmd.Names, *t.Topic)
		default:
			refused = append(refused, meta.DeleteResult{
				Name: *t.Topic, ID: id, Err: kafka.Refuse(kafka.InvalidRequest, "give the topic's name or its id, not both"),
			})
		}
	}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	for _, r := range append(a.deleteAll(c.Version, cmd), refused...) {
		row := kmsg.NewDeleteTopicsResponseTopic()
		code, message := answerOf(r.Err)
		row.TopicID, row.ErrorCode, row.ErrorMessage = r.ID, int16(code), message
		if !r.ByID || r.Name != "" {
			row.Topic = &r.Name
		}
		resp.Topics = append(resp.Topics, row)
	}
	c.answerAfter(mutation.waitMs(), resp)
}

func (a *API) deleteAll(version int16, cmd meta.DeleteTopics) []meta.DeleteResult {
	if a.Config.Bool("delete.topic.enable") {
		results, err := a.Quorum.DeleteTopics(context.Background(), cmd)
		if err == nil {
			return results
		}
		return deleteResults(cmd, err)
	}
	if version < 3 {
		return deleteResults(cmd, kafka.InvalidRequest)
	}
	return deleteResults(cmd, kafka.TopicDeletionDisabled)
}

func deleteResults(cmd meta.DeleteTopics, err error) []meta.DeleteResult {
	var results []meta.DeleteResult
	for _, name := range cmd.Names {
		results = append(results, meta.DeleteResult{Name: name, Err: err})
	}
	for _, id := range cmd.IDs {
		results = append(results, meta.DeleteResult{ID: id, ByID: true, Err: err})
	}
	return results
}
