package group

import (
	"errors"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// The versions in which Kafka 4.4 writes values: the newest, but for what only an older one can say.
const (
	offsetValueVersion        = 4
	offsetValueWithoutTopicID = 3
	offsetValueWithExpiry     = 1 // the only version with an expire timestamp
	generationVersion         = 3
)

// AppendKey appends the record's key as it stands in __consumer_offsets.
func AppendKey(dst []byte, r Record) []byte {
	switch r := r.(type) {
	case *OffsetRecord:
		return sysrecord.AppendKey(dst, &sysrecord.OffsetCommitKey{Group: r.Group, Topic: r.Topic, Partition: r.Partition})
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
	case *ForeignRecord:
		if !r.Gone {
			return appendForeign(dst, r), true
		}
	}
	return dst, false
}

// foreignKey is the key of a record that the machine writes.
func foreignKey(r *ForeignRecord) sysrecord.Record {
	switch r.Part {
	case MemberPart:
		return &sysrecord.ConsumerGroupMemberMetadataKey{GroupID: r.Group, MemberID: r.Name}
	case TargetMemberPart:
		return &sysrecord.ConsumerGroupTargetAssignmentMemberKey{GroupID: r.Group, MemberID: r.Name}
	case CurrentPart:
		return &sysrecord.ConsumerGroupCurrentMemberAssignmentKey{GroupID: r.Group, MemberID: r.Name}
	case WholePart:
		if r.Type == Streams {
			return &sysrecord.StreamsGroupMetadataKey{GroupID: r.Group}
		}
		return &sysrecord.ConsumerGroupMetadataKey{GroupID: r.Group}
	case TargetPart:
		if r.Type == Streams {
			return &sysrecord.StreamsGroupTargetAssignmentMetadataKey{GroupID: r.Group}
		}
		return &sysrecord.ConsumerGroupTargetAssignmentMetadataKey{GroupID: r.Group}
	case PartitionsPart:
		return &sysrecord.ConsumerGroupPartitionMetadataKey{GroupID: r.Group}
	case RegexPart:
		return &sysrecord.ConsumerGroupRegularExpressionKey{GroupID: r.Group, RegularExpression: r.Name}
	case TopologyPart:
		return &sysrecord.StreamsGroupTopologyKey{GroupID: r.Group}
	}
	invariant.Check(false, "part %d of a %v group is never written", r.Part, r.Type)
	return nil
}

// appendForeign appends the value of one of a consumer group's epochs.
func appendForeign(dst []byte, r *ForeignRecord) []byte {
	if r.Part == TargetPart {
		return sysrecord.AppendValue(dst, &sysrecord.ConsumerGroupTargetAssignmentMetadataValue{AssignmentEpoch: r.Epoch}, 0)
	}
	invariant.Check(r.Type == Consumer && r.Part == WholePart, "part %d of a %v group is only ever removed", r.Part, r.Type)
	return sysrecord.AppendValue(dst, &sysrecord.ConsumerGroupMetadataValue{Epoch: r.Epoch}, 0)
}

func appendOffset(dst []byte, v *OffsetValue) []byte {
	version := int16(offsetValueVersion)
	switch {
	case v.ExpiresMs >= 0:
		version = offsetValueWithExpiry
	case v.TopicID.IsZero():
		version = offsetValueWithoutTopicID
	}
	return sysrecord.AppendValue(dst, &sysrecord.OffsetCommitValue{
		Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, CommitTimestamp: v.CommittedMs,
		ExpireTimestamp: v.ExpiresMs, TopicID: v.TopicID,
	}, version)
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
	if r := foreignOf(k); r != nil {
		return r.decode(sysrecord.NewGroupValue(k.RecordKey()), value)
	}
	return nil, nil //nolint:nilnil // see above
}

// foreignOf is what a key tells of a group of another type; nil for what matters only to those who assign partitions.
func foreignOf(key sysrecord.Record) *ForeignRecord {
	switch k := key.(type) {
	case *sysrecord.ConsumerGroupMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Consumer, Part: WholePart}
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Consumer, Part: TargetPart}
	case *sysrecord.ConsumerGroupMemberMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Type: Consumer, Part: MemberPart, Name: k.MemberID}
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentKey:
		return &ForeignRecord{Group: k.GroupID, Type: Consumer, Part: CurrentPart, Name: k.MemberID}
	case *sysrecord.ConsumerGroupRegularExpressionKey:
		return &ForeignRecord{Group: k.GroupID, Type: Consumer, Part: RegexPart, Name: k.RegularExpression}
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

// The states in which a member has nothing left to give back or to wait for: Kafka numbers them anew for each type.
const (
	consumerMemberStable = 0
	streamsMemberStable  = 1
)

// decode adds what the value says. Of a value that a later Kafka wrote, that it is there must do.
func (r *ForeignRecord) decode(v sysrecord.Record, value []byte) (Record, error) {
	if r.Gone = value == nil; r.Gone {
		return r, nil
	}
	if err := sysrecord.ReadValue(value, v); err != nil && !errors.Is(err, sysrecord.ErrVersion) {
		return nil, err
	}
	switch v := v.(type) {
	case *sysrecord.ConsumerGroupMetadataValue:
		r.Epoch = v.Epoch
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataValue:
		r.Epoch = v.AssignmentEpoch
	case *sysrecord.ConsumerGroupMemberMetadataValue:
		r.Topics = v.SubscribedTopicNames
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentValue:
		r.Epoch, r.Settled = v.MemberEpoch, v.State == consumerMemberStable
	case *sysrecord.ConsumerGroupRegularExpressionValue:
		r.Topics = v.Topics
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
