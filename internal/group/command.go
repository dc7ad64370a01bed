package group

import (
	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Ticket names one request that waits for an answer. The caller of [Machine.Handle] picks it; the machine hands it back in a
// [Sent], from this Handle or from a later one: a JoinGroup is answered when its round completes.
type Ticket uint64

// Command is a request to one group. Byte slices are borrowed until Handle returns: what the machine keeps, it copies. Strings
// may be kept.
type Command interface {
	// Fail is the reply that says only that the request ended with a code.
	Fail(code kafka.Error) Reply
}

// Reply answers a Command. Each command has one reply type: *Join is answered by *JoinReply, and so on; both kinds of commit by *CommitReply.
type Reply interface{ reply() }

// Protocol is one way to assign partitions that a member supports, with what it says to the leader in it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Join is JoinGroup.
type Join struct {
	MemberID           string // empty: a new member
	InstanceID         *string
	ClientID           string
	ClientHost         string // as Kafka writes it: /127.0.0.1
	SessionTimeoutMs   int32
	RebalanceTimeoutMs int32 // version 0 has none: the session timeout
	ProtocolType       string
	Protocols          []Protocol
	Reason             string
	// MemberIDRequired: version 4 and above; a dynamic member without an id is told one, and joins again with it (KIP-394).
	MemberIDRequired bool
	// CanSkipAssignment: version 9 and above; a static leader that returns is told everything but to assign anew (KIP-814).
	CanSkipAssignment bool
}

// JoinReply answers a Join. Protocol is nil and Generation -1 beside an error.
type JoinReply struct {
	Code           kafka.Error
	Generation     int32
	ProtocolType   *string
	Protocol       *string
	Leader         string
	SkipAssignment bool
	MemberID       string
	Members        []JoinedMember // for the leader only
}

// JoinedMember is what the leader learns about a member: its metadata in the chosen protocol.
type JoinedMember struct {
	MemberID   string
	InstanceID *string
	Metadata   []byte
}

// Sync is SyncGroup.
type Sync struct {
	Generation   int32
	MemberID     string
	InstanceID   *string
	ProtocolType *string
	Protocol     *string
	Assignments  []Assignment // from the leader
}

// Assignment is what the leader gives to one member; opaque to the broker.
type Assignment struct {
	MemberID string
	Bytes    []byte
}

// SyncReply answers a Sync.
type SyncReply struct {
	Code         kafka.Error
	ProtocolType *string
	Protocol     *string
	Assignment   []byte
}

// Heartbeat is Heartbeat: its reply never waits for the disk.
type Heartbeat struct {
	Generation int32
	MemberID   string
	InstanceID *string
}

// HeartbeatReply answers a Heartbeat.
type HeartbeatReply struct{ Code kafka.Error }

// Leave is LeaveGroup, of one member or of many.
type Leave struct{ Members []Leaving }

// Leaving names a member that leaves: by member id, by instance id, or by both.
type Leaving struct {
	MemberID   string
	InstanceID *string
	Reason     string
}

// LeaveReply answers a Leave: a code for all, or one for each member in request order.
type LeaveReply struct {
	Code    kafka.Error
	Members []Left
}

// Left is the outcome for one member.
type Left struct {
	MemberID   string
	InstanceID *string
	Code       kafka.Error
}

// Commit is OffsetCommit, and only of partitions that exist: the caller has answered for the others. It is the most frequent command: what
// comes of it is kept in itself, to be used again after Reset, so the caller must not touch it between Handle and its answer.
type Commit struct {
	Generation int32 // -1: not a member
	MemberID   string
	InstanceID *string
	// UnknownGroup is the code for a commit with a generation to a group that is not there: it depends on the version.
	UnknownGroup kafka.Error
	// WithoutEpochs: version 8 and below, with which members that have epochs cannot commit.
	WithoutEpochs bool
	RetentionMs   int64 // -1: by offsets.retention.minutes; set by versions 2 to 4
	Topics        []CommitTopic

	ticket  Ticket
	answer  CommitReply
	sent    [1]Sent
	records []Record
	writes  []offsetWrite // back the records
}

type offsetWrite struct {
	record OffsetRecord
	value  OffsetValue
}

// Reset makes the Commit ready for another. Nobody may use it any more, nor the records and the answer that came of it.
func (c *Commit) Reset() {
	clear(c.Topics)
	clear(c.writes)
	*c = Commit{Topics: c.Topics[:0], answer: CommitReply{Codes: c.answer.Codes[:0]}, records: c.records[:0], writes: c.writes[:0]}
}

// TxnCommit is TxnOffsetCommit: a Commit that counts when a transaction commits, and never when it aborts. Only partitions that exist are
// in it. It is answered by a CommitReply.
type TxnCommit struct {
	ProducerID    kafka.ProducerID
	ProducerEpoch kafka.ProducerEpoch
	Guard         uint64 // of the log, which gave it to the caller: nothing here looks at it
	Generation    int32  // -1: not a member, or a client that does not say
	MemberID      string
	InstanceID    *string
	// The codes for a commit with a generation to a group that is not there, and for an epoch that is not the member's: they depend
	// on the version.
	UnknownGroup, StaleEpoch kafka.Error
	Topics                   []CommitTopic
}

// CommitTopic is one topic of a Commit.
type CommitTopic struct {
	Topic      string
	ID         kafka.TopicID // the topic's present id
	Partitions []CommitPartition
}

// CommitPartition is what is to be stored for one partition.
type CommitPartition struct {
	Partition   int32
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch
	Metadata    *string
}

// CommitReply answers a Commit or a TxnCommit: a code for all partitions, or one for each, in request order through all topics.
type CommitReply struct {
	Code  kafka.Error
	Codes []kafka.Error
}

// Fetch is OffsetFetch of one group. Topics nil means all that the group has stored.
type Fetch struct {
	Member        *FetchMember // who asks; nil: it does not say
	Topics        []FetchTopic
	RequireStable bool
}

// FetchMember is who asks for offsets: version 9 and above. Classic groups do not look at it.
type FetchMember struct {
	ID    string
	Epoch int32
}

// FetchTopic asks for partitions of one topic. ID, when not zero, is the topic's present id: what was committed under another
// id counts no more.
type FetchTopic struct {
	Topic      string
	ID         kafka.TopicID
	Partitions []int32
}

// FetchReply answers a Fetch, in request order; all offsets of a group come sorted.
type FetchReply struct {
	Code   kafka.Error
	Topics []FetchedTopic
}

// FetchedTopic is one topic of a FetchReply.
type FetchedTopic struct {
	Topic      string
	Partitions []FetchedPartition
}

// FetchedPartition is a committed offset; NoOffset, NoEpoch and an empty Metadata where none is stored.
type FetchedPartition struct {
	Partition   int32
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch
	Metadata    string
	TopicID     kafka.TopicID // of the topic in which it was committed; zero unknown
	Code        kafka.Error
}

// Describe is DescribeGroups of one group.
type Describe struct{}

// DescribeReply answers a Describe. A group that is not there has State Dead; Found tells it apart.
type DescribeReply struct {
	Code         kafka.Error
	Found        bool
	NotClassic   bool // it is there, but of another type
	State        State
	ProtocolType string
	Protocol     string // while Stable
	Members      []DescribedMember
}

// DescribedMember is one member of a DescribeReply. Metadata and Assignment are empty unless the group is Stable.
type DescribedMember struct {
	MemberID   string
	InstanceID *string
	ClientID   string
	ClientHost string
	Metadata   []byte
	Assignment []byte
}

// Delete is DeleteGroups of one group.
type Delete struct{}

// DeleteReply answers a Delete.
type DeleteReply struct {
	Code   kafka.Error
	Reason string // of a refusal; mostly empty: the code says it
}

// DeleteOffsets is OffsetDelete.
type DeleteOffsets struct{ Topics []FetchTopic }

// DeleteOffsetsReply answers a DeleteOffsets: a code for all, or one for each partition in request order.
type DeleteOffsetsReply struct {
	Code  kafka.Error
	Codes []kafka.Error
}

// ConsumerHeartbeat is ConsumerGroupHeartbeat. What is nil has not changed since the member said it last.
type ConsumerHeartbeat struct {
	MemberID           string
	Epoch              int32 // 0 joins, -1 leaves, -2 leaves for now
	InstanceID         *string
	RackID             *string
	RebalanceTimeoutMs int32 // -1: not said
	Topics             []string
	Regex              *string
	Assignor           *string
	Has                assign.Assignment // what the client has now
	HasKnown           bool              // it says so
	ClientID           string
	ClientHost         string
	OwnMemberID        bool // version 1 and above: the client makes its member id
}

// ConsumerHeartbeatReply answers a ConsumerHeartbeat.
type ConsumerHeartbeatReply struct {
	Code                kafka.Error
	Message             string
	MemberID            string
	Epoch               int32
	HeartbeatIntervalMs int32
	Assignment          assign.Assignment
	Assigned            bool // Assignment is told
	// Steady: it tells nothing that the client does not know. It never waits for the disk.
	Steady bool
}

// ConsumerDescribe is ConsumerGroupDescribe of one group.
type ConsumerDescribe struct{}

// ConsumerDescribeReply answers a ConsumerDescribe.
type ConsumerDescribeReply struct {
	Code            kafka.Error
	Message         string
	State           State
	Epoch           int32
	AssignmentEpoch int32
	Assignor        string
	Members         []DescribedConsumer
}

// DescribedConsumer is one member of a ConsumerDescribeReply.
type DescribedConsumer struct {
	MemberID   string
	InstanceID *string
	RackID     *string
	Epoch      int32
	ClientID   string
	ClientHost string
	Topics     []string
	Regex      string
	Classic    bool // it uses the classic protocol
	Assigned   []NamedPartitions
	Target     []NamedPartitions
}

// NamedPartitions is partitions of a topic that exists.
type NamedPartitions struct {
	Topic      string
	ID         kafka.TopicID
	Partitions []int32
}

// Listed is one group of ListGroups.
type Listed struct {
	Group        string
	Type         Type
	ProtocolType string
	State        State
	Members      int
}

func (*JoinReply) reply()          {}
func (*SyncReply) reply()          {}
func (*HeartbeatReply) reply()     {}
func (*LeaveReply) reply()         {}
func (*CommitReply) reply()        {}
func (*FetchReply) reply()         {}
func (*DescribeReply) reply()      {}
func (*DeleteReply) reply()        {}
func (*DeleteOffsetsReply) reply() {}

func (*ConsumerHeartbeatReply) reply() {}
func (*ConsumerDescribeReply) reply()  {}

// Fail implements [Command].
func (*ConsumerHeartbeat) Fail(code kafka.Error) Reply { return &ConsumerHeartbeatReply{Code: code} }

// Fail implements [Command].
func (*ConsumerDescribe) Fail(code kafka.Error) Reply { return &ConsumerDescribeReply{Code: code} }

// Fail implements [Command].
func (c *Join) Fail(code kafka.Error) Reply {
	return &JoinReply{Code: code, Generation: -1, MemberID: c.MemberID}
}

// Fail implements [Command].
func (*Sync) Fail(code kafka.Error) Reply { return &SyncReply{Code: code} }

// Fail implements [Command].
func (*Heartbeat) Fail(code kafka.Error) Reply { return &HeartbeatReply{Code: code} }

// Fail implements [Command].
func (*Leave) Fail(code kafka.Error) Reply { return &LeaveReply{Code: code} }

// Fail implements [Command].
func (*Commit) Fail(code kafka.Error) Reply { return &CommitReply{Code: code} }

// Fail implements [Command].
func (*TxnCommit) Fail(code kafka.Error) Reply { return &CommitReply{Code: code} }

// Fail implements [Command].
func (*Fetch) Fail(code kafka.Error) Reply { return &FetchReply{Code: code} }

// Fail implements [Command].
func (*Describe) Fail(code kafka.Error) Reply { return &DescribeReply{Code: code, State: Dead} }

// Fail implements [Command].
func (*Delete) Fail(code kafka.Error) Reply { return &DeleteReply{Code: code} }

// Fail implements [Command].
func (*DeleteOffsets) Fail(code kafka.Error) Reply { return &DeleteOffsetsReply{Code: code} }
