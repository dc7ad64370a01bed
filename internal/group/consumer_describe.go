package group

import (
	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// describeConsumer is ConsumerGroupDescribe of one group.
func (m *Machine) describeConsumer(groupID string, g *group) *ConsumerDescribeReply {
	switch {
	case g == nil:
		return &ConsumerDescribeReply{Code: kafka.GroupIdNotFound, Message: "there is no group " + groupID}
	case g.consumer == nil:
		return &ConsumerDescribeReply{Code: kafka.GroupIdNotFound, Message: "group " + groupID + " is not of the consumer protocol"}
	}
	c := g.consumer
	r := &ConsumerDescribeReply{
		State: c.state(), Epoch: c.epoch, AssignmentEpoch: c.targetAt, Assignor: preferred(c.assignors, m.cfg.defaultAssignor()),
	}
	for _, id := range c.ids() {
		member := c.members[id]
		d := DescribedConsumer{
			MemberID: id, InstanceID: member.instanceID, RackID: member.rackID, Epoch: member.epoch, ClientID: member.clientID,
			ClientHost: member.clientHost, Topics: member.topics, Regex: member.regex, Classic: member.classic != nil,
			Target: m.present(c.target[id]),
		}
		d.Assigned = m.present(member.assigned.union(member.revoking).assignment())
		r.Members = append(r.Members, d)
	}
	return r
}

// present names the topics that exist.
func (m *Machine) present(a assign.Assignment) []NamedPartitions {
	var named []NamedPartitions
	for _, t := range a {
		if topic, exists := m.cluster.TopicByID(t.ID); exists {
			named = append(named, NamedPartitions{Topic: topic.Name, ID: t.ID, Partitions: t.Partitions})
		}
	}
	return named
}
