package group

import (
	"errors"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// The versions in which Kafka 4.4 writes values: the newest, but for what only an older one can say.
const (
	generationVersion    = 3
	consumerValueVersion = 0
)

// AppendKey appends the record's key as it stands in __consumer_offsets.
func AppendKey(dst []byte, r Record) []byte {
	switch r := r.(type) {
	case *OffsetRecord:
		return appendOffsetKey(dst, r)
	case *ConsumerRecord:
		return sysrecord.AppendKey(dst, r.Key)
	case *ForeignRecord:
		return sysrecord.AppendKey(dst, foreignKey(r))
	}
	return sysrecord.AppendKey(dst, &sysrecord.GroupMetadataKey{Group: r.(*GroupRecord).Group})
}

// AppendValue appends the record's value as it stands in __consumer_offsets; false when it is null, which removes the key.
func AppendValue(dst []byte, r Record) ([]byte, bool) {
	switch r := r.(type) {
	case *OffsetRecord:
		if r.Value != nil {
			return appendOffset(dst, r.Value), true
		}
	case *GroupRecord:
		if r.Value != nil {
			return appendGeneration(dst, r.Value), true
		}
	case *ConsumerRecord:
		if r.Value != nil {
			return sysrecord.AppendValue(dst, r.Value, consumerValueVersion), true
		}
	case *ForeignRecord:
		invariant.Check(r.Gone, "part %d of a %v group is only ever removed", r.Part, r.Type)
	}
	return dst, false
}

// foreignKey is the key of a record that the machine writes: of a streams group.
func foreignKey(r *ForeignRecord) sysrecord.Record {
	invariant.Check(r.Type == Streams, "records of a %v group are never written", r.Type)
	switch r.Part {
	case WholePart:
		return &sysrecord.StreamsGroupMetadataKey{GroupID: r.Group}
	case TargetPart:
		return &sysrecord.StreamsGroupTargetAssignmentMetadataKey{GroupID: r.Group}
	case TopologyPart:
		return &sysrecord.StreamsGroupTopologyKey{GroupID: r.Group}
	}
	invariant.Check(false, "part %d of a %v group is never written", r.Part, r.Type)
	return nil
}

func appendGeneration(dst []byte, v *Generation) []byte {
	value := &sysrecord.GroupMetadataValue{
		ProtocolType: v.ProtocolType, Generation: v.Generation, Protocol: v.Protocol, Leader: v.Leader,
		CurrentStateTimestamp: v.SinceMs, Members: make([]sysrecord.GroupMetadataValueMemberMetadata, len(v.Members)),
	}
	for i := range v.Members {
		m := &v.Members[i]
		value.Members[i] = sysrecord.GroupMetadataValueMemberMetadata{
			MemberID: m.MemberID, GroupInstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			RebalanceTimeout: m.RebalanceTimeoutMs, SessionTimeout: m.SessionTimeoutMs,
			Subscription: m.Subscription, Assignment: m.Assignment,
		}
	}
	return sysrecord.AppendValue(dst, value, generationVersion)
}

// Decode reads a record of __consumer_offsets; a nil value removes the key. It returns nil for kinds that matter
// only to those who assign partitions in groups of other types: they stay in the log as they are.
func Decode(key, value []byte) (Record, error) {
	k, err := sysrecord.ReadKey(key, sysrecord.NewGroupKey)
	if errors.Is(err, sysrecord.ErrVersion) {
		return nil, nil //nolint:nilnil // a kind that a later Kafka writes
	}
	if err != nil {
		return nil, err
	}
	switch k := k.(type) {
	case *sysrecord.OffsetCommitKey:
		return decodeOffset(k.Group, k.Topic, k.Partition, value)
	case *sysrecord.LegacyOffsetCommitKey:
		return decodeOffset(k.Group, k.Topic, k.Partition, value)
	case *sysrecord.GroupMetadataKey:
		return decodeGeneration(k.Group, value)
	}
	if group, ok := consumerKeyGroup(k); ok {
		return decodeConsumer(group, k, value)
	}
	if r := foreignOf(k); r != nil {
		return r.decode(sysrecord.NewGroupValue(k.RecordKey()), value)
	}
	return nil, nil //nolint:nilnil // see above
}

// foreignOf is what a key tells of a group of another type; nil for what matters only to those who assign partitions.
func foreignOf(key sysrecord.Record) *ForeignRecord {
	switch k := key.(type) {
	case *sysrecord.ShareGroupMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Share, Part: WholePart}
	case *sysrecord.ShareGroupMemberMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Share, Part: MemberPart, Name: k.MemberID}
	case *sysrecord.StreamsGroupMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Streams, Part: WholePart}
	case *sysrecord.StreamsGroupTargetAssignmentMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Streams, Part: TargetPart}
	case *sysrecord.StreamsGroupMemberMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Streams, Part: MemberPart, Name: k.MemberID}
	case *sysrecord.StreamsGroupCurrentMemberAssignmentKey:
		return &ForeignRecord{Group: k.GroupID, Type: Streams, Part: CurrentPart, Name: k.MemberID}
	}
	return nil
}

// streamsMemberStable is the state in which a member of a streams group has nothing left to give back or to wait for.
const streamsMemberStable = 1

// decode adds what the value says. Of a value that a later Kafka wrote, that it is there must do.
func (r *ForeignRecord) decode(v sysrecord.Record, value []byte) (Record, error) {
	if r.Gone = value == nil; r.Gone {
		return r, nil
	}
	if err := sysrecord.ReadValue(value, v); err != nil && !errors.Is(err, sysrecord.ErrVersion) {
		return nil, err
	}
	switch v := v.(type) {
	case *sysrecord.ShareGroupMetadataValue:
		r.Epoch = v.Epoch
	case *sysrecord.ShareGroupMemberMetadataValue:
		r.Topics = v.SubscribedTopicNames
	case *sysrecord.StreamsGroupMetadataValue:
		r.Epoch = v.Epoch
	case *sysrecord.StreamsGroupTargetAssignmentMetadataValue:
		r.Epoch = v.AssignmentEpoch
	case *sysrecord.StreamsGroupCurrentMemberAssignmentValue:
		r.Epoch, r.Settled = v.MemberEpoch, v.State == streamsMemberStable
	}
	return r, nil
}

// decodeConsumer reads a record of a consumer group. Of a value that a later Kafka wrote, that it is there must do.
func decodeConsumer(group string, key sysrecord.Record, value []byte) (Record, error) {
	r := &ConsumerRecord{Group: group, Key: key}
	if value == nil {
		return r, nil
	}
	r.Value = sysrecord.NewGroupValue(key.RecordKey())
	if err := sysrecord.ReadValue(value, r.Value); err != nil && !errors.Is(err, sysrecord.ErrVersion) {
		return nil, err
	}
	if member, ok := r.Value.(*sysrecord.ConsumerGroupMemberMetadataValue); ok {
		if classic := member.ClassicMemberMetadata; classic != nil && len(classic.SupportedProtocols) == 0 {
			return nil, errNoProtocols
		}
	}
	return r, nil
}

// errNoProtocols: who uses the classic protocol has joined with what it supports.
var errNoProtocols = errors.New("a member of the classic protocol supports no protocol")

func decodeOffset(group, topic string, partition int32, value []byte) (Record, error) {
	r := &OffsetRecord{Group: group, Topic: topic, Partition: partition}
	if value == nil {
		return r, nil
	}
	v := sysrecord.NewOffsetCommitValue()
	if err := sysrecord.ReadValue(value, v); err != nil {
		return nil, err
	}
	r.Value = &OffsetValue{
		Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, CommittedMs: v.CommitTimestamp,
		ExpiresMs: v.ExpireTimestamp, TopicID: v.TopicID,
	}
	return r, nil
}

func decodeGeneration(group string, value []byte) (Record, error) {
	r := &GroupRecord{Group: group}
	if value == nil {
		return r, nil
	}
	v := sysrecord.NewGroupMetadataValue()
	if err := sysrecord.ReadValue(value, v); err != nil {
		return nil, err
	}
	r.Value = &Generation{
		ProtocolType: v.ProtocolType, Generation: v.Generation, Protocol: v.Protocol, Leader: v.Leader,
		SinceMs: v.CurrentStateTimestamp, Members: make([]Member, len(v.Members)),
	}
	for i := range v.Members {
		m := &v.Members[i]
		r.Value.Members[i] = Member{
			MemberID: m.MemberID, InstanceID: m.GroupInstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			RebalanceTimeoutMs: m.RebalanceTimeout, SessionTimeoutMs: m.SessionTimeout,
			Subscription: m.Subscription, Assignment: m.Assignment,
		}
	}
	return r, nil
}
