package group

import (
	"cmp"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// ConsumerRecord says one thing of a group of the consumer protocol, in Kafka's own words; a nil Value removes it.
type ConsumerRecord struct {
	Group string
	Key   sysrecord.Record
	Value sysrecord.Record
}

func (*ConsumerRecord) record() {}

// consumerKeyGroup is the group that a key of the consumer protocol names; false for keys of other kinds.
func consumerKeyGroup(key sysrecord.Record) (string, bool) {
	switch k := key.(type) {
	case *sysrecord.ConsumerGroupMetadataKey:
		return k.GroupID, true
	case *sysrecord.ConsumerGroupPartitionMetadataKey:
		return k.GroupID, true
	case *sysrecord.ConsumerGroupMemberMetadataKey:
		return k.GroupID, true
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataKey:
		return k.GroupID, true
	case *sysrecord.ConsumerGroupTargetAssignmentMemberKey:
		return k.GroupID, true
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentKey:
		return k.GroupID, true
	case *sysrecord.ConsumerGroupRegularExpressionKey:
		return k.GroupID, true
	}
	return "", false
}

// applyConsumer changes a group of the consumer protocol by one record. The later record says of what type a group is.
func (m *Machine) applyConsumer(r *ConsumerRecord) {
	g := m.groups[r.Group]
	if r.Value == nil {
		if g != nil && g.consumer != nil {
			m.removeConsumer(g, r.Key)
		}
		return
	}
	if g = m.groupFor(r.Group); g.consumer == nil {
		g.adopt(&Generation{SinceMs: -1})
		g.durable, g.foreign = false, nil
		g.consumer = newConsumerGroup()
	}
	c := g.consumer
	switch v := r.Value.(type) {
	case *sysrecord.ConsumerGroupMetadataValue:
		c.epoch, c.hash = v.Epoch, v.MetadataHash
	case *sysrecord.ConsumerGroupPartitionMetadataValue:
		c.oldRecord = true
	case *sysrecord.ConsumerGroupMemberMetadataValue:
		member := c.memberFor(r.Key.(*sysrecord.ConsumerGroupMemberMetadataKey).MemberID)
		c.set(member, saidFrom(v), member.memberPlace)
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataValue:
		c.targetAt, c.targetMs = v.AssignmentEpoch, v.AssignmentTimestamp
	case *sysrecord.ConsumerGroupTargetAssignmentMemberValue:
		c.target[r.Key.(*sysrecord.ConsumerGroupTargetAssignmentMemberKey).MemberID] = targetFrom(v)
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentValue:
		member := c.memberFor(r.Key.(*sysrecord.ConsumerGroupCurrentMemberAssignmentKey).MemberID)
		c.set(member, member.memberSaid, placeFrom(v))
	case *sysrecord.ConsumerGroupRegularExpressionValue:
		c.setRegex(r.Key.(*sysrecord.ConsumerGroupRegularExpressionKey).RegularExpression, &resolvedRegex{
			topics: inOrder(v.Topics), version: v.Version, atMs: v.Timestamp,
		})
	default:
		invariant.Check(false, "record %s is not of a consumer group", r.Value.RecordName())
	}
}

func (m *Machine) removeConsumer(g *group, key sysrecord.Record) {
	c := g.consumer
	switch k := key.(type) {
	case *sysrecord.ConsumerGroupMetadataKey:
		c.stop()
		g.consumer = nil
		m.forgetIfNothing(g)
	case *sysrecord.ConsumerGroupPartitionMetadataKey:
		c.oldRecord = false
	case *sysrecord.ConsumerGroupMemberMetadataKey:
		if member := c.members[k.MemberID]; member != nil {
			c.count(member, -1)
			member.stop()
			delete(c.members, k.MemberID)
		}
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataKey:
		c.targetAt, c.targetMs = -1, 0
	case *sysrecord.ConsumerGroupTargetAssignmentMemberKey:
		delete(c.target, k.MemberID)
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentKey:
		if member := c.members[k.MemberID]; member != nil {
			c.set(member, member.memberSaid, memberPlace{epoch: -1, previous: -1})
		}
	case *sysrecord.ConsumerGroupRegularExpressionKey:
		c.setRegex(k.RegularExpression, nil)
	}
}

func (c *consumerGroup) memberFor(id string) *consumerMember {
	m := c.members[id]
	if m == nil {
		m = newConsumerMember(id)
		c.members[id] = m
	}
	return m
}

// inOrder returns the strings sorted, each once.
func inOrder(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// inNumber returns the partitions ascending, each once, and none below 0: no topic has one, whatever a client or the log says.
func inNumber(partitions []int32) []int32 {
	sorted := slices.Compact(slices.Sorted(slices.Values(partitions)))
	from, _ := slices.BinarySearch(sorted, 0)
	return sorted[from:]
}

// inNumberAlready tells whether inNumber would change nothing.
func inNumberAlready(partitions []int32) bool {
	return (len(partitions) == 0 || partitions[0] >= 0) && slices.IsSortedFunc(partitions, func(a, b int32) int { return ascending(cmp.Compare(a, b)) })
}

// ascending makes of an order one in which what is equal is not in order.
func ascending(order int) int {
	if order == 0 {
		return 1
	}
	return order
}

func saidFrom(v *sysrecord.ConsumerGroupMemberMetadataValue) memberSaid {
	said := memberSaid{
		instanceID: v.InstanceID, rackID: v.RackID, clientID: v.ClientID, clientHost: v.ClientHost,
		topics: inOrder(v.SubscribedTopicNames), assignor: v.ServerAssignor, rebalanceTimeoutMs: v.RebalanceTimeoutMs,
	}
	if v.SubscribedTopicRegex != nil {
		said.regex = *v.SubscribedTopicRegex
	}
	if classic := v.ClassicMemberMetadata; classic != nil {
		said.classic = &classicSaid{sessionTimeoutMs: classic.SessionTimeoutMs}
		for i := range classic.SupportedProtocols {
			p := &classic.SupportedProtocols[i]
			said.classic.protocols = append(said.classic.protocols, Protocol{Name: p.Name, Metadata: p.Metadata})
		}
	}
	return said
}

func (s *memberSaid) record(group, id string) *ConsumerRecord {
	v := &sysrecord.ConsumerGroupMemberMetadataValue{
		InstanceID: s.instanceID, RackID: s.rackID, ClientID: s.clientID, ClientHost: s.clientHost, SubscribedTopicNames: s.topics,
		SubscribedTopicRegex: &s.regex, ServerAssignor: s.assignor, RebalanceTimeoutMs: s.rebalanceTimeoutMs,
	}
	if s.classic != nil {
		classic := &sysrecord.ConsumerGroupMemberMetadataValueClassicMemberMetadata{SessionTimeoutMs: s.classic.sessionTimeoutMs}
		for _, p := range s.classic.protocols {
			classic.SupportedProtocols = append(classic.SupportedProtocols, sysrecord.ConsumerGroupMemberMetadataValueClassicProtocol{
				Name: p.Name, Metadata: p.Metadata,
			})
		}
		v.ClassicMemberMetadata = classic
	}
	return &ConsumerRecord{Group: group, Key: &sysrecord.ConsumerGroupMemberMetadataKey{GroupID: group, MemberID: id}, Value: v}
}

func placeFrom(v *sysrecord.ConsumerGroupCurrentMemberAssignmentValue) memberPlace {
	return memberPlace{
		epoch: v.MemberEpoch, previous: v.PreviousMemberEpoch, state: memberState(v.State),
		assigned: heldFromRecord(v.AssignedPartitions, v.MemberEpoch), revoking: heldFromRecord(v.PartitionsPendingRevocation, v.MemberEpoch),
	}
}

// heldFromRecord reads what a member has. Kafka before 4.4 did not note since when: since the member's epoch, then.
func heldFromRecord(topics []sysrecord.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, otherwise int32) held {
	if h, ok := heldInOrder(topics); ok {
		return h
	}
	epochs := map[kafka.TopicID]map[int32]int32{}
	for i := range topics {
		t := &topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		of := make(map[int32]int32, len(t.Partitions))
		for j, p := range t.Partitions {
			if p < 0 {
				continue
			}
			if of[p] = max(otherwise, 0); len(t.AssignmentEpochs) == len(t.Partitions) {
				of[p] = t.AssignmentEpochs[j]
			}
		}
		epochs[t.TopicID] = of
	}
	return heldFrom(epochs)
}

// heldInOrder is heldFromRecord of what is in the order that it is kept in, as nearly everything is: we write it so.
func heldInOrder(topics []sysrecord.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions) (h held, ok bool) {
	if len(topics) == 0 {
		return nil, true
	}
	h = make(held, len(topics))
	for i := range topics {
		t := &topics[i]
		unordered := i > 0 && assign.CompareIDs(topics[i-1].TopicID, t.TopicID) >= 0
		if unordered || len(t.Partitions) == 0 || len(t.AssignmentEpochs) != len(t.Partitions) || !inNumberAlready(t.Partitions) {
			return nil, false
		}
		h[i] = heldTopic{id: t.TopicID, partitions: t.Partitions, epochs: t.AssignmentEpochs}
	}
	return h, true
}

func (p *memberPlace) record(group, id string) *ConsumerRecord {
	return &ConsumerRecord{
		Group: group, Key: &sysrecord.ConsumerGroupCurrentMemberAssignmentKey{GroupID: group, MemberID: id},
		Value: &sysrecord.ConsumerGroupCurrentMemberAssignmentValue{
			MemberEpoch: p.epoch, PreviousMemberEpoch: p.previous, State: int8(p.state),
			AssignedPartitions: p.assigned.toRecord(), PartitionsPendingRevocation: p.revoking.toRecord(),
		},
	}
}

func (h held) toRecord() []sysrecord.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions {
	topics := make([]sysrecord.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, len(h))
	for i, t := range h {
		topics[i].TopicID, topics[i].Partitions, topics[i].AssignmentEpochs = t.id, t.partitions, t.epochs
	}
	return topics
}

// targetFrom reads a target. Nearly all are in the order that it is kept in: we write them so.
func targetFrom(v *sysrecord.ConsumerGroupTargetAssignmentMemberValue) assign.Assignment {
	if slices.IsSortedFunc(v.TopicPartitions, func(a, b sysrecord.ConsumerGroupTargetAssignmentMemberValueTopicPartition) int {
		return ascending(assign.CompareIDs(a.TopicID, b.TopicID))
	}) && !slices.ContainsFunc(v.TopicPartitions, func(t sysrecord.ConsumerGroupTargetAssignmentMemberValueTopicPartition) bool {
		return len(t.Partitions) == 0 || !inNumberAlready(t.Partitions)
	}) {
		a := make(assign.Assignment, len(v.TopicPartitions))
		for i := range v.TopicPartitions {
			a[i] = assign.Topic{ID: v.TopicPartitions[i].TopicID, Partitions: v.TopicPartitions[i].Partitions}
		}
		return a
	}
	topics := make(map[kafka.TopicID][]int32, len(v.TopicPartitions))
	for i := range v.TopicPartitions {
		t := &v.TopicPartitions[i]
		if partitions := inNumber(t.Partitions); len(partitions) > 0 {
			topics[t.TopicID] = partitions
		}
	}
	var a assign.Assignment
	for _, id := range slices.SortedFunc(maps.Keys(topics), assign.CompareIDs) {
		a = append(a, assign.Topic{ID: id, Partitions: topics[id]})
	}
	return a
}

func targetRecord(group, id string, a assign.Assignment) *ConsumerRecord {
	v := &sysrecord.ConsumerGroupTargetAssignmentMemberValue{
		TopicPartitions: make([]sysrecord.ConsumerGroupTargetAssignmentMemberValueTopicPartition, len(a)),
	}
	for i, t := range a {
		v.TopicPartitions[i].TopicID, v.TopicPartitions[i].Partitions = t.ID, t.Partitions
	}
	return &ConsumerRecord{Group: group, Key: &sysrecord.ConsumerGroupTargetAssignmentMemberKey{GroupID: group, MemberID: id}, Value: v}
}

func targetEpochRecord(group string, epoch int32, ms int64) *ConsumerRecord {
	return &ConsumerRecord{
		Group: group, Key: &sysrecord.ConsumerGroupTargetAssignmentMetadataKey{GroupID: group},
		Value: &sysrecord.ConsumerGroupTargetAssignmentMetadataValue{AssignmentEpoch: epoch, AssignmentTimestamp: ms},
	}
}

func epochRecord(group string, epoch int32, hash int64) *ConsumerRecord {
	return &ConsumerRecord{
		Group: group, Key: &sysrecord.ConsumerGroupMetadataKey{GroupID: group},
		Value: &sysrecord.ConsumerGroupMetadataValue{Epoch: epoch, MetadataHash: hash},
	}
}

func regexRecord(group, regex string, r *resolvedRegex) *ConsumerRecord {
	record := &ConsumerRecord{Group: group, Key: &sysrecord.ConsumerGroupRegularExpressionKey{GroupID: group, RegularExpression: regex}}
	if r != nil {
		record.Value = &sysrecord.ConsumerGroupRegularExpressionValue{Topics: r.topics, Version: r.version, Timestamp: r.atMs}
	}
	return record
}

// removeMemberRecords takes a member off the log, in Kafka's order.
func removeMemberRecords(group, id string) []Record {
	return []Record{
		&ConsumerRecord{Group: group, Key: &sysrecord.ConsumerGroupCurrentMemberAssignmentKey{GroupID: group, MemberID: id}},
		&ConsumerRecord{Group: group, Key: &sysrecord.ConsumerGroupTargetAssignmentMemberKey{GroupID: group, MemberID: id}},
		&ConsumerRecord{Group: group, Key: &sysrecord.ConsumerGroupMemberMetadataKey{GroupID: group, MemberID: id}},
	}
}
