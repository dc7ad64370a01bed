package wire

import "github.com/raftsman/raftsman/internal/kafka"

// ProduceRequest is a decoded Produce request, version 3 to 13. Decoding into the same value again reuses its slices. Records
// alias the body; everything else may be kept.
type ProduceRequest struct {
	TransactionalID *string
	Acks            int16
	TimeoutMs       int32
	Topics          []ProduceTopic

	partitions []ProducePartition // backs the Partitions of all topics
}

// ProduceTopic is named by Name up to version 12 and by ID from 13 on.
type ProduceTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ProducePartition
}

// ProducePartition is what a Produce request brings to one partition.
type ProducePartition struct {
	Index   int32
	Records []byte // nil when the client sent null
}

// ProduceResponse is the answer to a Produce request, version 3 to 13.
type ProduceResponse struct {
	Topics     []ProducedTopic
	ThrottleMs int32
	Endpoints  []NodeEndpoint // of the leaders named in CurrentLeader; sent from version 10 on
}

// ProducedTopic echoes Name up to version 12 and ID from 13 on.
type ProducedTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []ProducedPartition
}

// ProducedPartition is one partition's result. FailedProduce fills one for an error.
type ProducedPartition struct {
	Index           int32
	Err             kafka.Error
	BaseOffset      kafka.Offset
	LogAppendTimeMs int64 // -1 unless the topic's timestamps are LogAppendTime
	LogStartOffset  kafka.Offset
	RecordErrors    []RecordError
	ErrorMessage    *string
	CurrentLeader   Leader
}

// RecordError names one record of a refused batch.
type RecordError struct {
	BatchIndex int32
	Message    *string
}

// FailedProduce returns the result of a partition to which nothing was appended, with the protocol's defaults.
func FailedProduce(index int32, code kafka.Error) ProducedPartition {
	return ProducedPartition{
		Index: index, Err: code,
		BaseOffset: kafka.NoOffset, LogAppendTimeMs: -1, LogStartOffset: kafka.NoOffset,
	}
}

// Leader tells a client where to turn instead (KIP-951). The zero value is not sent; fill it only for NotLeaderOrFollower and
// FencedLeaderEpoch.
type Leader struct {
	Known bool
	ID    kafka.NodeID
	Epoch kafka.Epoch
}

// NodeEndpoint is the address of a leader that a response names.
type NodeEndpoint struct {
	ID   kafka.NodeID
	Host string
	Port int32
	Rack *string
}
