package wire

import "github.com/raftsman/raftsman/internal/kafka"

// FetchRequest is a decoded Fetch request, version 4 to 18. Decoding into the same value again reuses its slices. Nothing in it
// aliases the body.
type FetchRequest struct {
	ClusterID      *string
	ReplicaID      kafka.NodeID // NoNode for consumers
	ReplicaEpoch   kafka.BrokerEpoch
	MaxWaitMs      int32
	MinBytes       int32
	MaxBytes       int32
	IsolationLevel int8 // 0 reads uncommitted records too, 1 committed ones only
	SessionID      int32
	SessionEpoch   int32 // -1 without a session
	Topics         []FetchTopic
	Forgotten      []ForgottenTopic
	Rack           string

	partitions []FetchPartition // backs the Partitions of all topics
	forgotten  []int32          // backs the Partitions of all forgotten topics
}

// FetchTopic is named by Name up to version 12 and by ID from 13 on.
type FetchTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []FetchPartition
}

// FetchPartition says what to read from one partition. Fields that the version lacks hold the protocol's defaults.
type FetchPartition struct {
	Index              int32
	CurrentLeaderEpoch kafka.Epoch
	FetchOffset        kafka.Offset
	LastFetchedEpoch   kafka.Epoch
	LogStartOffset     kafka.Offset // of a follower
	MaxBytes           int32
	DirectoryID        kafka.UUID   // of a follower
	HighWatermark      kafka.Offset // that a follower knows; math.MaxInt64 when it does not say
}

// ForgottenTopic names partitions that leave a fetch session.
type ForgottenTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []int32
}

// FetchResponse is the answer to a Fetch request, version 4 to 18.
type FetchResponse struct {
	ThrottleMs int32
	Err        kafka.Error
	SessionID  int32
	Topics     []FetchedTopic
	Endpoints  []NodeEndpoint // of the leaders named in CurrentLeader; sent from version 16 on
}

// FetchedTopic echoes Name up to version 12 and ID from 13 on.
type FetchedTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []FetchedPartition
}

// FetchedPartition is what was read from one partition. FailedFetch fills one for an error.
type FetchedPartition struct {
	Index            int32
	Err              kafka.Error
	HighWatermark    kafka.Offset
	LastStableOffset kafka.Offset
	LogStartOffset   kafka.Offset
	Diverging        EpochEnd   // zero value: not sent
	CurrentLeader    Leader     // zero value: not sent
	Snapshot         SnapshotID // zero value: not sent
	Aborted          []AbortedTransaction
	AbortedNull      bool // Aborted is null, as for isolation level 0, not empty
	ReadReplica      ReadReplica
	Records          []Part // whole batches, in order
}

// FailedFetch returns the result of a partition that was not read, with the protocol's defaults.
func FailedFetch(index int32, code kafka.Error) FetchedPartition {
	return FetchedPartition{
		Index: index, Err: code, AbortedNull: true,
		HighWatermark: kafka.NoOffset, LastStableOffset: kafka.NoOffset, LogStartOffset: kafka.NoOffset,
	}
}

// EpochEnd is the largest epoch that reader and leader share, and its end at the leader.
type EpochEnd struct {
	Known     bool
	Epoch     kafka.Epoch
	EndOffset kafka.Offset
}

// SnapshotID names the snapshot to fetch instead of records that are gone.
type SnapshotID struct {
	Known     bool
	EndOffset kafka.Offset
	Epoch     kafka.Epoch
}

// AbortedTransaction tells a consumer whose records to leave out, and from where on.
type AbortedTransaction struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset
}

// ReadReplica sends a consumer to a nearer replica (KIP-392). The zero value is "none".
type ReadReplica struct {
	Preferred bool
	ID        kafka.NodeID
}
