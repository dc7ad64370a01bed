package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/wire"
)

// createTopics creates topics (key 19) and from version 5 on answers with what each of them got.
func (a *API) createTopics(c call) {
	req := kmsg.NewPtrCreateTopicsRequest()
	if !c.decode(req) {
		return
	}
	mutation := a.Quotas.mutation(c, 6)
	cmd := meta.CreateTopics{ValidateOnly: req.ValidateOnly, Charge: mutation.charge}
	doubled := map[string]error{} // topics with two assignments for one partition
	named := map[string]bool{}
	for i := range req.Topics {
		topic, err := newTopic(&req.Topics[i])
		switch {
		case named[topic.Name]: // which is the graver fault, and is told of instead
			delete(doubled, topic.Name)
		case err != nil:
			doubled[topic.Name] = err
		}
		named[topic.Name] = true
		cmd.Topics = append(cmd.Topics, topic)
	}
	results, err := a.Quorum.CreateTopics(context.Background(), withoutDoubled(cmd, doubled))
	if err != nil {
		results = nil
		for _, t := range cmd.Topics {
			results = append(results, meta.TopicResult{Name: t.Name, Err: err})
		}
	}
	results = append(results, a.refuseDoubled(cmd, doubled)...)
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(results))
	for i := range results {
		resp.Topics[i] = a.createdRow(&results[i])
	}
	c.answerAfter(mutation.waitMs(), resp)
}

// CreateTopics creates topics of this node's own accord, wherever the active controller is.
func (a *API) CreateTopics(ctx context.Context, cmd meta.CreateTopics) ([]meta.TopicResult, error) {
	return a.createAtController(ctx, &wire.Peer{Principal: "User:ANONYMOUS"}, nil, cmd)
}

// createAtController has the active controller create topics for a client, as far as its quota goes.
func (a *API) createAtController(ctx context.Context, client *wire.Peer, clientID *string, cmd meta.CreateTopics) (results []meta.TopicResult, err error) {
	if a.Forward == nil {
		return a.Quorum.CreateTopics(ctx, cmd)
	}
	answer, failed := a.askController(ctx, client, clientID, createRequest(cmd), func() bool {
		results, err = a.Quorum.CreateTopics(ctx, cmd)
		return !errors.Is(err, kafka.NotController)
	})
	switch {
	case failed != nil:
		return nil, failed
	case answer == nil:
		return results, err
	}
	for _, row := range answer.(*kmsg.CreateTopicsResponse).Topics {
		results = append(results, meta.TopicResult{Name: row.Topic, ID: row.TopicID, Err: toldError(row.ErrorCode, row.ErrorMessage)})
	}
	return results, nil
}

func createRequest(cmd meta.CreateTopics) *kmsg.CreateTopicsRequest {
	m := kmsg.NewPtrCreateTopicsRequest()
	m.Version, m.ValidateOnly, m.TimeoutMillis = 7, cmd.ValidateOnly, int32(forwardMax.Milliseconds())
	for i := range cmd.Topics {
		t := &cmd.Topics[i]
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
		for _, entry := range t.Configs {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = entry.Name, entry.Value
			topic.Configs = append(topic.Configs, config)
		}
		m.Topics = append(m.Topics, topic)
	}
	return m
}

// newTopic returns the topic that a client asks for. The error is about two assignments for one partition.
func newTopic(t *kmsg.CreateTopicsRequestTopic) (topic meta.NewTopic, doubled error) {
	topic = meta.NewTopic{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
	for _, row := range t.ReplicaAssignment {
		if _, twice := topic.Assignments[row.Partition]; twice && doubled == nil {
			doubled = kafka.Refuse(kafka.InvalidReplicaAssignment, "partition %d is assigned more than once", row.Partition)
		}
		if topic.Assignments == nil {
			topic.Assignments = map[int32][]kafka.NodeID{}
		}
		topic.Assignments[row.Partition] = fromNodeIDs(row.Replicas)
	}
	for _, entry := range t.Configs {
		topic.Configs = append(topic.Configs, meta.ConfigValue{Name: entry.Name, Value: entry.Value})
	}
	return topic, doubled
}

func withoutDoubled(cmd meta.CreateTopics, doubled map[string]error) meta.CreateTopics {
	if len(doubled) == 0 {
		return cmd
	}
	rest := meta.CreateTopics{ValidateOnly: cmd.ValidateOnly}
	for _, t := range cmd.Topics {
		if doubled[t.Name] == nil {
			rest.Topics = append(rest.Topics, t)
		}
	}
	return rest
}

// refuseDoubled tells of the topics with two assignments for one partition: that, or what is looked at before.
func (a *API) refuseDoubled(cmd meta.CreateTopics, doubled map[string]error) []meta.TopicResult {
	if len(doubled) == 0 {
		return nil
	}
	try := meta.CreateTopics{ValidateOnly: true}
	for _, t := range cmd.Topics {
		if doubled[t.Name] != nil {
			try.Topics = append(try.Topics, t)
		}
	}
	results, err := a.Quorum.CreateTopics(context.Background(), try)
	if err != nil {
		results = nil
		for _, t := range try.Topics {
			results = append(results, meta.TopicResult{Name: t.Name, Err: err})
		}
	}
	for i := range results {
		r := &results[i]
		switch code, _ := kafka.Answer(r.Err); code {
		case kafka.InvalidTopicException, kafka.TopicAlreadyExists, kafka.InvalidConfig, kafka.InvalidRequest:
			*r = meta.TopicResult{Name: r.Name, Err: r.Err}
		default:
			*r = meta.TopicResult{Name: r.Name, Err: doubled[r.Name]}
		}
	}
	return results
}

func (a *API) createdRow(r *meta.TopicResult) kmsg.CreateTopicsResponseTopic {
	row := kmsg.NewCreateTopicsResponseTopic()
	code, message := answerOf(r.Err)
	row.Topic, row.ErrorCode, row.ErrorMessage = r.Name, int16(code), message
	row.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	if code != kafka.None {
		return row
	}
	row.TopicID, row.NumPartitions, row.ReplicationFactor = r.ID, r.Partitions, r.ReplicationFactor
	for _, e := range a.Config.DescribeTopic(dynamicOf(a.Quorum.Image(), a.NodeID), r.Configs) {
		entry := kmsg.NewCreateTopicsResponseTopicConfig()
		entry.Name, entry.Value, entry.ReadOnly, entry.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
		entry.Source = int8(e.Source)
		row.Configs = append(row.Configs, entry)
	}
	return row
}

func fromNodeIDs(numbers []int32) []kafka.NodeID {
	ids := make([]kafka.NodeID, len(numbers))
	for i, n := range numbers {
		ids[i] = kafka.NodeID(n)
	}
	return ids
}
