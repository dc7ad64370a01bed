package group

import (
	"errors"

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
	if r, ok := r.(*OffsetRecord); ok {
		return sysrecord.AppendKey(dst, &sysrecord.OffsetCommitKey{Group: r.Group, Topic: r.Topic, Partition: r.Partition})
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
	}
	return dst, false
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

// Decode reads a record of __consumer_offsets; a nil value removes the key. It returns nil for kinds that say
// nothing to the classic protocol: they stay in the log as they are.
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
	case *sysrecord.ConsumerGroupMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Gone: value == nil}, nil
	case *sysrecord.ShareGroupMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Gone: value == nil}, nil
	case *sysrecord.StreamsGroupMetadataKey:
		return &ForeignRecord{Group: k.GroupID, Gone: value == nil}, nil
	}
	return nil, nil //nolint:nilnil // see above
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
