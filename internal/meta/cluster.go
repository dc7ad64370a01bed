package meta

import "github.com/raftsman/raftsman/internal/kafka"

// NoBrokerEpoch means unknown: a broker that was never registered, or an epoch that is not to be compared.
const NoBrokerEpoch kafka.BrokerEpoch = -1

// Registration is what a broker tells about itself when it starts.
type Registration struct {
	ID          kafka.NodeID
	Incarnation kafka.UUID // of this process: another one with the same id is another start, or another broker by mistake
	Rack        *string
	Endpoints   []Endpoint
	Features    []FeatureRange
	LogDirs     []kafka.UUID
	Cordoned    []kafka.UUID // of these, those that take no new replicas
	Migrating   bool         // from ZooKeeper, which is refused

	// PreviousEpoch is the epoch under which the broker was registered before, if it still has all that it acknowledged then;
	// else NoBrokerEpoch: it stopped uncleanly, and is eligible to lead nothing that it may have lost (KIP-966).
	PreviousEpoch kafka.BrokerEpoch

	Unclean bool // the log directories were not closed cleanly: every partition that it leads needs a new leader epoch; DecideStart's alone
}

// Heartbeat is what a broker sends all the time.
type Heartbeat struct {
	Broker         kafka.NodeID
	Epoch          kafka.BrokerEpoch
	MetadataOffset kafka.Offset // of the newest metadata record that it has applied, or -1
	WantFence      bool         // it does not want to serve yet, or any more
	WantShutDown   bool         // it wants to stop as soon as that does no harm
	OfflineDirs    []kafka.UUID // log directories that have failed
	CordonedDirs   []kafka.UUID // log directories that take no new replicas; nil: the same as before
}

// HeartbeatResult is the answer to a Heartbeat.
type HeartbeatResult struct {
	CaughtUp       bool // it has applied its own registration
	Fenced         bool
	ShouldShutDown bool // what it asked for with WantShutDown
}

// AlterPartition is a leader's wish to change the in-sync sets of partitions that it leads.
type AlterPartition struct {
	Broker kafka.NodeID
	Epoch  kafka.BrokerEpoch
	Topics []AlterPartitionTopic
}

// AlterPartitionTopic is AlterPartition's part of one topic.
type AlterPartitionTopic struct {
	ID         kafka.TopicID
	Partitions []PartitionAlteration
}

// PartitionAlteration is what the leader wants of one partition, and the state to which that is a change.
type PartitionAlteration struct {
	Index          int32
	LeaderEpoch    kafka.Epoch
	PartitionEpoch kafka.Epoch
	ISR            []ISRMember
	RecoveryState  int8 // Recovered or Recovering
}

// ISRMember is a replica that is to be in sync, and the epoch under which the leader knows its broker: NoBrokerEpoch is not
// compared (AlterPartition 2).
type ISRMember struct {
	Broker kafka.NodeID
	Epoch  kafka.BrokerEpoch
}

// A partition's leader recovery state (KIP-704), by Kafka's numbers.
const (
	Recovered  int8 = 0
	Recovering int8 = 1 // its leader was elected uncleanly and may have to settle what that left
)

// AlterPartitionResult has a row for each topic and partition of AlterPartition, in order.
type AlterPartitionResult struct {
	Topics []AlterPartitionTopicResult
}

// AlterPartitionTopicResult is the result of one topic.
type AlterPartitionTopicResult struct {
	ID         kafka.TopicID
	Partitions []AlteredPartition
}

// AlteredPartition is the state of a partition after the change. The other fields are set if Err is kafka.None.
type AlteredPartition struct {
	Index          int32
	Err            kafka.Error
	Leader         kafka.NodeID
	LeaderEpoch    kafka.Epoch
	ISR            []kafka.NodeID
	RecoveryState  int8
	PartitionEpoch kafka.Epoch
}

// AssignDirs tells in which log directories of a broker its replicas are (KIP-858).
type AssignDirs struct {
	Broker kafka.NodeID
	Epoch  kafka.BrokerEpoch
	Dirs   []DirAssignment
}

// DirAssignment is AssignDirs' part of one directory.
type DirAssignment struct {
	ID     kafka.UUID
	Topics []TopicIDPartitions
}

// TopicIDPartitions names partitions of a topic.
type TopicIDPartitions struct {
	ID         kafka.TopicID
	Partitions []int32
}

// AssignDirsResult has a row for each directory, topic and partition of AssignDirs, in order.
type AssignDirsResult struct {
	Dirs []DirAssignmentResult
}

// DirAssignmentResult is the result of one directory.
type DirAssignmentResult struct {
	ID     kafka.UUID
	Topics []DirTopicResult
}

// DirTopicResult is the result of one topic.
type DirTopicResult struct {
	ID         kafka.TopicID
	Partitions []DirPartitionResult
}

// DirPartitionResult tells what became of one partition.
type DirPartitionResult struct {
	Index int32
	Err   kafka.Error
}

// RegisterController is what a controller tells about itself.
type RegisterController struct {
	ID          kafka.NodeID
	Incarnation kafka.UUID
	Endpoints   []Endpoint
	Features    []FeatureRange
}
