package group

import (
	"maps"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// consumerLeave is a heartbeat with epoch -1, or -2 of a static member that will be back.
func (m *Machine) consumerLeave(now time.Time, ticket Ticket, g *group, groupID string, beat *ConsumerHeartbeat) Effects {
	switch {
	case g == nil:
		return reply(ticket, refusedBeat(kafka.Refuse(kafka.GroupIdNotFound, "there is no group %s", groupID)))
	case g.consumer == nil:
		return reply(ticket, refusedBeat(kafka.Refuse(kafka.GroupIdNotFound, "group %s is not of the consumer protocol", groupID)))
	}
	member, refused := g.consumer.leaving(groupID, beat.MemberID, beat.InstanceID)
	if refused != nil {
		return reply(ticket, refusedBeat(refused))
	}
	answered := func(_ time.Time, code kafka.Error) Effects {
		if code != kafka.None {
			return reply(ticket, &ConsumerHeartbeatReply{Code: code})
		}
		return reply(ticket, &ConsumerHeartbeatReply{MemberID: beat.MemberID, Epoch: beat.Epoch})
	}
	if beat.Epoch == leftForNow && beat.InstanceID != nil {
		place := member.memberPlace
		place.epoch, place.revoking, place.assigned = leftForNow, nil, place.assigned.at(0)
		return Effects{Records: []Record{place.record(groupID, member.id)}, settle: answered}
	}
	return m.fence(now, g, []*consumerMember{member}, MemberLeft, answered)
}

// leaving finds the member that wants to leave, or is to.
func (c *consumerGroup) leaving(groupID, id string, instanceID *string) (*consumerMember, *kafka.Refusal) {
	if instanceID == nil {
		if member := c.members[id]; member != nil {
			return member, nil
		}
		return nil, kafka.Refuse(kafka.UnknownMemberId, "%s is not a member of group %s", id, groupID)
	}
	member := c.staticMember(instanceID)
	switch {
	case member == nil:
		return nil, kafka.Refuse(kafka.UnknownMemberId, "no member is instance %s", *instanceID)
	case member.id != id:
		return nil, fencedInstance(id, *instanceID, member)
	}
	return member, nil
}

// fence takes members out of the group. What they had is assigned to others when one of these is heard of next.
func (m *Machine) fence(now time.Time, g *group, members []*consumerMember, kind EventKind, settle func(time.Time, kafka.Error) Effects) Effects {
	if e, ok := m.downgrade(now, g, members, kind, settle); ok {
		return e
	}
	c := g.consumer
	var records []Record
	reads, regexReads := map[string]readers{}, map[string]int{}
	for topic, r := range c.reads {
		reads[topic] = r
	}
	for _, member := range members {
		records = append(records, removeMemberRecords(g.id, member.id)...)
		countNames(reads, member.topics, -1)
		add(regexReads, member.regex, 1)
	}
	for _, regex := range slices.Sorted(maps.Keys(regexReads)) {
		if c.regexReads[regex] != regexReads[regex] {
			continue
		}
		records = append(records, regexRecord(g.id, regex, nil))
		if resolved := c.regexes[regex]; resolved != nil {
			c.countRegex(reads, resolved, -1)
		}
	}
	epoch := c.epoch + 1
	records = append(records, epochRecord(g.id, epoch, m.metadataHash(reads)))
	if len(c.members) == len(members) {
		records = append(records, targetEpochRecord(g.id, epoch, 0))
	}
	return Effects{
		Records: records,
		settle: func(now time.Time, refused kafka.Error) Effects {
			if refused == kafka.None {
				for _, member := range members {
					m.note(kind, g, member.id, "")
				}
				if len(c.members) == 0 {
					m.note(NowEmpty, g, "", "")
				}
			}
			return settle(now, refused)
		},
	}
}
