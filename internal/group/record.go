package group

import "github.com/raftsman/raftsman/internal/kafka"

// Record is one record of __consumer_offsets that the machine reads: an [OffsetRecord], a [GroupRecord], a [ConsumerRecord] or a
// [ForeignRecord]. Of the last kind it writes only what removes groups.
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

// ForeignRecord says one thing of a group of a type that is not served here.
type ForeignRecord struct {
	Group   string
	Type    Type
	Part    Part
	Name    string   // the member
	Epoch   int32    // of the group, its assignment or the member, as the Part says
	Settled bool     // CurrentPart: the member has what its epoch gives it
	Topics  []string // MemberPart: what is read
	Gone    bool     // it is so no more: the value is null
}

// Part is what of a group a ForeignRecord tells. Only tombstones are written, and what else Kafka writes of such groups stays in
// the log as it is.
type Part uint8

// The parts of groups of other types.
const (
	WholePart  Part = iota // the group and its epoch
	TargetPart             // the epoch of the assignment that the members are to have
	MemberPart
	CurrentPart  // which epoch a member has come to
	TopologyPart // of a streams group; a tombstone only
)

func (*OffsetRecord) record()  {}
func (*GroupRecord) record()   {}
func (*ForeignRecord) record() {}
