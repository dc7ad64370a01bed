package api

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

func TestRule23CreateTopicsAnswersWhatWasMade(t *testing.T) {
	n := newNode(t)
	for version := int16(2); version <= 7; version++ {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = version
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("t%d", version), 2, 1
		if version >= 4 {
			topic.NumPartitions, topic.ReplicationFactor = -1, -1
		}
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = "retention.ms", new("604800000") // equal to the default, and set all the same
		topic.Configs = append(topic.Configs, entry)
		bad := kmsg.NewCreateTopicsRequestTopic()
		bad.Topic, bad.NumPartitions, bad.ReplicationFactor = "bad", 0, 1
		req.Topics = append(req.Topics, topic, bad)
		rows := n.call(req).(*kmsg.CreateTopicsResponse).Topics
		made, ok := n.api.Quorum.Image().Topic(topic.Topic)
		if !ok || len(rows) != 2 || rows[0].ErrorCode != 0 || rows[1].ErrorCode != int16(kafka.InvalidPartitions) || rows[1].ErrorMessage == nil {
			t.Fatalf("v%d: got %+v", version, rows)
		}
		if version >= 7 && kafka.TopicID(rows[0].TopicID) != made.ID {
			t.Errorf("v%d: topic id %v, want %v", version, rows[0].TopicID, made.ID)
		}
		if version < 5 {
			continue
		}
		sources := map[int8]int{}
		for _, c := range rows[0].Configs {
			sources[c.Source]++
		}
		if rows[0].NumPartitions != 1 || rows[0].ReplicationFactor != 1 || sources[1] != 1 || len(rows[0].Configs) < 30 {
			t.Errorf("v%d: got %d partitions, factor %d, configurations by source %v", version, rows[0].NumPartitions, rows[0].ReplicationFactor, sources)
		}
		if rows[1].NumPartitions != -1 || rows[1].ReplicationFactor != -1 {
			t.Errorf("v%d: the refused one got %+v", version, rows[1])
		}
	}
}

func TestTwoAssignmentsForOnePartitionAreRefused(t *testing.T) {
	n := newNode(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "a", -1, -1
	row := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	row.Replicas = []int32{1}
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, row, row)
	good := kmsg.NewCreateTopicsRequestTopic()
	good.Topic, good.NumPartitions, good.ReplicationFactor = "b", 1, 1
	req.Topics = append(req.Topics, topic, good)
	for _, r := range n.call(req).(*kmsg.CreateTopicsResponse).Topics {
		if want := map[string]kafka.Error{"a": kafka.InvalidReplicaAssignment, "b": kafka.None}[r.Topic]; r.ErrorCode != int16(want) {
			t.Errorf("topic %s: got %d, want %v", r.Topic, r.ErrorCode, want)
		}
	}
}

func TestDeleteTopicsByNameAndByID(t *testing.T) {
	n := newNode(t)
	id := n.topic("by-id", 1)
	n.topic("by-name", 1)
	old := kmsg.NewPtrDeleteTopicsRequest()
	old.Version, old.TopicNames = 3, []string{"nope"}
	if r := n.call(old).(*kmsg.DeleteTopicsResponse).Topics[0]; r.ErrorCode != int16(kafka.UnknownTopicOrPartition) || *r.Topic != "nope" {
		t.Errorf("v3: got %+v", r)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	for _, name := range []*string{new("by-name"), nil, new("both")} {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = name
		if name == nil || *name == "both" {
			topic.TopicID = id
		}
		req.Topics = append(req.Topics, topic)
	}
	codes := map[string]int16{}
	for _, r := range n.call(req).(*kmsg.DeleteTopicsResponse).Topics {
		name := "null"
		if r.Topic != nil {
			name = *r.Topic
		}
		codes[name] = r.ErrorCode
	}
	if codes["by-name"] != 0 || codes["null"] != 0 || codes["both"] != int16(kafka.InvalidRequest) || n.api.Quorum.Image().TopicCount() != 0 {
		t.Errorf("got %v, %d topics left", codes, n.api.Quorum.Image().TopicCount())
	}
}

func TestDeletionCanBeForbidden(t *testing.T) {
	n := newNode(t)
	n.topic("a", 1)
	n.settings(map[string]string{"delete.topic.enable": "false"})
	for version, want := range map[int16]kafka.Error{2: kafka.InvalidRequest, 3: kafka.TopicDeletionDisabled, 5: kafka.TopicDeletionDisabled} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TopicNames = version, []string{"a"}
		if r := n.call(req).(*kmsg.DeleteTopicsResponse).Topics[0]; r.ErrorCode != int16(want) {
			t.Errorf("v%d: got %d, want %v", version, r.ErrorCode, want)
		}
	}
	if n.api.Quorum.Image().TopicCount() != 1 {
		t.Error("the topic is gone")
	}
}

func TestRule24CreatePartitionsGrows(t *testing.T) {
	n := newNode(t)
	n.topic("a", 5)
	for version := range int16(4) {
		for count, want := range map[int32]kafka.Error{5: kafka.InvalidPartitions, 3: kafka.InvalidPartitions} {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.Version = version
			topic := kmsg.NewCreatePartitionsRequestTopic()
			topic.Topic, topic.Count = "a", count
			req.Topics = append(req.Topics, topic)
			if r := n.call(req).(*kmsg.CreatePartitionsResponse).Topics[0]; r.ErrorCode != int16(want) || r.ErrorMessage == nil {
				t.Errorf("v%d: %d partitions: got %+v, want %v", version, count, r, want)
			}
		}
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "a", 6
	req.Topics = append(req.Topics, topic)
	if r := n.call(req).(*kmsg.CreatePartitionsResponse).Topics[0]; r.ErrorCode != 0 {
		t.Errorf("6 partitions: got %+v", r)
	}
	if made, _ := n.api.Quorum.Image().Topic("a"); len(made.Partitions) != 6 {
		t.Errorf("got %d partitions, want 6", len(made.Partitions))
	}
}
