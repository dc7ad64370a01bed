package meta

import (
	"github.com/raftsman/raftsman/internal/kafka"
)

// DecideCreatePartitions judges each topic by itself. There is one result for each distinct name, in the order of the
// request.
func DecideCreatePartitions(im *Image, cmd CreatePartitions, env Env) ([]Entry, []GrowthResult) {
	names := map[string]int{}
	added := int64(0)
	for _, g := range cmd.Topics {
		names[g.Name]++
		if t, exists := im.Topic(g.Name); exists && names[g.Name] == 1 {
			added += max(0, int64(g.Count)-int64(len(t.Partitions)))
		}
	}
	var entries []Entry
	var results []GrowthResult
	for _, g := range cmd.Topics {
		times := names[g.Name]
		if times == 0 {
			continue
		}
		names[g.Name] = 0
		result := GrowthResult{Name: g.Name}
		switch {
		case added > requestPartitionsMax:
			result.Err = tooMany("new partitions")
		case times > 1:
			result.Err = kafka.Refuse(kafka.InvalidRequest, "the topic is named more than once")
		default:
			var grown []Entry
			grown, result.Err = growTopic(im, g, env, cmd.Charge)
			entries = append(entries, grown...)
		}
		results = append(results, result)
	}
	if cmd.ValidateOnly {
		return nil, results
	}
	return entries, results
}

func growTopic(im *Image, g TopicGrowth, env Env, charge Charge) ([]Entry, error) {
	t, exists := im.Topic(g.Name)
	if !exists {
		return nil, kafka.UnknownTopicOrPartition
	}
	have := len(t.Partitions)
	switch {
	case int(g.Count) == have:
		return nil, kafka.Refuse(kafka.InvalidPartitions, "Topic already has %d partition(s).", have)
	case int(g.Count) < have:
		return nil, kafka.Refuse(kafka.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", g.Name, have, g.Count)
	case g.Assignments != nil && len(g.Assignments) != int(g.Count)-have:
		return nil, kafka.Refuse(kafka.InvalidReplicaAssignment,
			"%d partitions are to be added, and %d assignments are given", int(g.Count)-have, len(g.Assignments))
	}
	if err := charge.ask(int(g.Count) - have); err != nil {
		return nil, err
	}
	rows, err := growthAssignment(im, t, g, env)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for i, replicas := range rows {
		entries = append(entries, newPartition(im, t.ID, int32(have+i), replicas))
	}
	return entries, nil
}

func growthAssignment(im *Image, t *Topic, g TopicGrowth, env Env) ([][]kafka.NodeID, error) {
	add := int(g.Count) - len(t.Partitions)
	factor := len(t.Partitions[0].Replicas)
	if g.Assignments == nil {
		return place(im, add, factor, env.Random)
	}
	for i, replicas := range g.Assignments {
		if err := checkManualReplicas(im, int32(len(t.Partitions)+i), replicas, factor); err != nil {
			return nil, err
		}
	}
	return g.Assignments, nil
}
