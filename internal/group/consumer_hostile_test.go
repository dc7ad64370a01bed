package group

import (
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/sysrecord"
)

// TestMemberWithoutProtocolsIsDamaged: what is asked of a member of the classic protocol needs one that it supports.
func TestMemberWithoutProtocolsIsDamaged(t *testing.T) {
	r := &ConsumerRecord{
		Group: "g", Key: &sysrecord.ConsumerGroupMemberMetadataKey{GroupID: "g", MemberID: "m"},
		Value: &sysrecord.ConsumerGroupMemberMetadataValue{ClassicMemberMetadata: &sysrecord.ConsumerGroupMemberMetadataValueClassicMemberMetadata{}},
	}
	value, _ := AppendValue(nil, r)
	if got, err := Decode(AppendKey(nil, r), value); err == nil {
		t.Errorf("read as %+v", got)
	}
}

// TestNoPartitionsBelowZero: the log may say so, but nobody is led to them, and no assignor is told of them.
func TestNoPartitionsBelowZero(t *testing.T) {
	s := newScenario(t)
	s.cluster.set("t", 2)
	s.machine.Learn(s.cluster, []string{"t"}, true)
	id := s.cluster.ids["t"]
	odd := []int32{-1, 0, -2_000_000_000}
	for _, r := range []Record{
		epochRecord("g", 4, 1),
		(&memberSaid{topics: []string{"t"}}).record("g", "m"),
		&ConsumerRecord{
			Group: "g", Key: &sysrecord.ConsumerGroupTargetAssignmentMemberKey{GroupID: "g", MemberID: "m"},
			Value: &sysrecord.ConsumerGroupTargetAssignmentMemberValue{
				TopicPartitions: []sysrecord.ConsumerGroupTargetAssignmentMemberValueTopicPartition{{TopicID: id, Partitions: odd}},
			},
		},
		&ConsumerRecord{
			Group: "g", Key: &sysrecord.ConsumerGroupCurrentMemberAssignmentKey{GroupID: "g", MemberID: "m"},
			Value: &sysrecord.ConsumerGroupCurrentMemberAssignmentValue{
				MemberEpoch: 4, AssignedPartitions: []sysrecord.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions{{TopicID: id, Partitions: odd}},
			},
		},
	} {
		s.machine.Apply(r)
	}
	s.run("hb n id=N topics=t")
	for _, want := range []string{"target of N [t:1]", "reply n: N epoch 5"} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, s.out.String())
		}
	}
	if m := s.machine.groups["g"].consumer.members["m"]; m.assigned.has(id, -1) || !m.assigned.has(id, 0) {
		t.Errorf("m has %v", m.assigned)
	}
}

// TestNothingOfADeletedGroupStays: also a target whose member is not on the log goes, or the group would be there again after a restart.
func TestNothingOfADeletedGroupStays(t *testing.T) {
	s := newScenario(t)
	for _, r := range []Record{epochRecord("g", 4, 1), targetRecord("g", "lost", nil)} {
		s.machine.Apply(r)
	}
	s.run("delete d")
	if !strings.Contains(s.out.String(), "forget target of lost") || s.machine.Groups() != 0 {
		t.Errorf("%d groups are left after:\n%s", s.machine.Groups(), s.out.String())
	}
}
