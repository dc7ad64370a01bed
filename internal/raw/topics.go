package raw

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// NewTopic is one topic of a CreateTopics, with settings as name, value, name, value.
func NewTopic(name string, partitions int32, factor int16, settings ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, factor
	for i := 0; i < len(settings); i += 2 {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = settings[i], &settings[i+1]
		topic.Configs = append(topic.Configs, entry)
	}
	return topic
}

// CreateTopics waits for the topics for as long as a busy machine may need.
func CreateTopics(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := At(version, kmsg.NewPtrCreateTopicsRequest())
	req.TimeoutMillis, req.Topics = 20_000, topics
	return req
}

// Create makes a topic that must come to be, and returns its id.
func (l *Conn) Create(name string, partitions int32, settings ...string) [16]byte {
	l.Helper()
	row := l.Ask(CreateTopics(7, NewTopic(name, partitions, 1, settings...))).(*kmsg.CreateTopicsResponse).Topics[0]
	if row.ErrorCode != 0 {
		l.Fatalf("create %s: %v", name, kafka.Error(row.ErrorCode))
	}
	return row.TopicID
}

// Metadata names topics; nil means null.
func Metadata(version int16, names []string) *kmsg.MetadataRequest {
	req := At(version, kmsg.NewPtrMetadataRequest())
	req.AllowAutoTopicCreation = false
	if names != nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// TopicsOf asks for topics by name.
func (l *Conn) TopicsOf(version int16, names ...string) []kmsg.MetadataResponseTopic {
	l.Helper()
	if names == nil {
		names = []string{}
	}
	return l.Ask(Metadata(version, names)).(*kmsg.MetadataResponse).Topics
}

// LongName is the longest name that a topic may have.
var LongName = strings.Repeat("n", 249)

// StrangeID is no topic's.
var StrangeID = [16]byte{0: 9, 6: 0x49, 8: 0x89, 15: 9}

// Assigned says on which nodes each partition of a new topic is to be.
func Assigned(topic kmsg.CreateTopicsRequestTopic, rows ...[]int32) kmsg.CreateTopicsRequestTopic {
	for i, replicas := range rows {
		row := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		row.Partition, row.Replicas = int32(i), replicas
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, row)
	}
	return topic
}

// Numbered gives the assigned partitions of a new topic other numbers than 0, 1, 2 and so on.
func Numbered(topic kmsg.CreateTopicsRequestTopic, numbers ...int32) kmsg.CreateTopicsRequestTopic {
	for i, n := range numbers {
		topic.ReplicaAssignment[i].Partition = n
	}
	return topic
}

// CreatePartitions wants a topic to have so many partitions, and may say where the new ones are to be.
func CreatePartitions(version int16, name string, count int32, assignment ...[]int32) *kmsg.CreatePartitionsRequest {
	req := At(version, kmsg.NewPtrCreatePartitionsRequest())
	req.TimeoutMillis = 20_000
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, count
	for _, replicas := range assignment {
		row := kmsg.NewCreatePartitionsRequestTopicAssignment()
		row.Replicas = replicas
		topic.Assignment = append(topic.Assignment, row)
	}
	req.Topics = append(req.Topics, topic)
	return req
}
