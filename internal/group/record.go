package group

import "github.com/raftsman/raftsman/internal/kafka"

// Record is one record of __consumer_offsets that the machine reads: an [OffsetRecord], a [GroupRecord] or a [ForeignRecord].
// It writes the first two.
type Record interface{ record() }

// OffsetRecord says which offset a group has committed in a partition; a nil Value removes it.
type OffsetRecord struct {
	Group     string
	Topic     string
	Partition int32
	Value     *OffsetValue
}

// OffsetValue is OffsetCommitValue.
type OffsetValue struct {
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch
	Metadata    string
	CommittedMs int64
	ExpiresMs   int64 // -1: by offsets.retention.minutes
	TopicID     kafka.TopicID
}

// GroupRecord says what a group is after a generation has begun; a nil Value removes the group.
type GroupRecord struct {
	Group string
	Value *Generation
}

// Generation is GroupMetadataValue.
type Generation struct {
	ProtocolType string // empty: none
	Generation   int32
	Protocol     *string
	Leader       *string
	SinceMs      int64 // when the group came into its state; -1 unknown
	Members      []Member
}

// Member is MemberMetadata: what a member said and what it was given.
type Member struct {
	MemberID           string
	InstanceID         *string
	ClientID           string
	ClientHost         string
	RebalanceTimeoutMs int32
	SessionTimeoutMs   int32
	Subscription       []byte
	Assignment         []byte
}

// ForeignRecord says that a group uses another protocol than the classic one, or does so no more: Kafka refuses to load a
// partition in which one group is of two kinds.
type ForeignRecord struct {
	Group string
	Gone  bool
}

func (*OffsetRecord) record()  {}
func (*GroupRecord) record()   {}
func (*ForeignRecord) record() {}
