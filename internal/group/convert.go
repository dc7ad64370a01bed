package group

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// upgrade makes a classic group with members a consumer group, in the same batch as what the first member of the new protocol does
// there. Its members stay, with what they have, and go on in the classic protocol.
func (ch *change) upgrade(g *group) *kafka.Refusal {
	cannot := func(why string) *kafka.Refusal {
		return kafka.Refuse(kafka.GroupIdNotFound, "group %s has members of the classic protocol and cannot change to the consumer protocol: %s", ch.id, why)
	}
	switch {
	case !ch.m.cfg.Migration.Upgrade:
		return cannot("group.consumer.migration.policy forbids it")
	case !g.usesConsumerProtocol():
		return cannot("they are not consumers")
	case len(g.members) > ch.m.cfg.ConsumersMax:
		return cannot("they are more than group.consumer.max.size allows")
	case g.protocol == nil || len(g.members) == 0:
		// Its first round of joins is on: there is nothing to take over yet. Clients come again on this code.
		return kafka.Refuse(kafka.CoordinatorLoadInProgress, "the classic group %s has no generation yet: try again", ch.id)
	}
	c := newConsumerGroup()
	c.epoch, c.targetAt = g.generation, g.generation
	for _, classic := range g.members {
		member, why := ch.m.consumerFrom(g, classic)
		if why != "" {
			return cannot(why)
		}
		c.members[member.id] = member
		c.count(member, 1)
		c.target[member.id] = member.assigned.assignment()
	}
	c.hash = ch.m.metadataHash(c.reads)
	ch.c, ch.converted = c, g
	ch.from = c.epoch
	ch.records = append(ch.records, &GroupRecord{Group: ch.id})
	ch.records = append(ch.records, c.asRecords(ch.id)...)
	return nil
}

// consumerFrom makes a member of a consumer group of one of a classic group; why tells that it cannot be done.
func (m *Machine) consumerFrom(g *group, classic *member) (member *consumerMember, why string) {
	given, foreign, err := readConsumerAssignment(classic.assignment)
	said, badly := readConsumerSubscription(classic.metadata(g.protocol))
	switch {
	case err != nil || badly != nil:
		return nil, "what they say of themselves cannot be read"
	case foreign:
		return nil, "an assignor of their own has given them more than partitions"
	}
	member = newConsumerMember(classic.id)
	member.memberSaid = memberSaid{
		instanceID: classic.instanceID, rackID: said.rack, clientID: classic.clientID, clientHost: classic.clientHost,
		topics: inOrder(said.topics), rebalanceTimeoutMs: toMillis(classic.rebalanceTimeout),
		classic: &classicSaid{sessionTimeoutMs: toMillis(classic.sessionTimeout), protocols: classic.protocols},
	}
	member.memberPlace = memberPlace{epoch: g.generation, previous: g.generation}
	for _, t := range m.byID(given) {
		for _, p := range t.Partitions {
			member.assigned.add(t.ID, p, g.generation)
		}
	}
	return member, ""
}

// asRecords writes down a whole group, in Kafka's order.
func (c *consumerGroup) asRecords(group string) []Record {
	var records []Record
	ids := c.ids()
	for _, id := range ids {
		records = append(records, c.members[id].memberSaid.record(group, id))
	}
	records = append(records, epochRecord(group, c.epoch, c.hash))
	for _, id := range ids {
		records = append(records, targetRecord(group, id, c.target[id]))
	}
	records = append(records, targetEpochRecord(group, c.targetAt, c.targetMs))
	for _, id := range ids {
		records = append(records, c.members[id].memberPlace.record(group, id))
	}
	return records
}

// parkedIn lists who waits in a round of a classic group.
func (g *group) parkedIn() []Sent {
	var parked []Sent
	for _, member := range g.members {
		if member.joining != 0 {
			parked = append(parked, Sent{member.joining, &JoinReply{Code: kafka.RebalanceInProgress, Generation: -1, MemberID: member.id}})
		}
		if member.syncing != 0 {
			parked = append(parked, Sent{member.syncing, &SyncReply{Code: kafka.RebalanceInProgress}})
		}
	}
	return parked
}

// mayDowngrade tells whether a consumer group becomes a classic one when these members have gone: if all that are left use the
// classic protocol, and the policy allows it. instead is how many come in their place.
func (m *Machine) mayDowngrade(g *group, gone []*consumerMember, instead int) bool {
	c := g.consumer
	classic, left := c.classic, len(c.members)-len(gone)
	for _, member := range gone {
		if member.classic != nil {
			classic--
		}
	}
	if instead > 0 && slices.ContainsFunc(gone, func(m *consumerMember) bool { return m.classic != nil }) {
		return false
	}
	return classic == left && left+instead > 0 && m.cfg.Migration.Downgrade && left+instead <= m.cfg.MembersMax
}

// downgrade makes the group a classic one as the last member of the new protocol goes. The others come together in a new round.
func (m *Machine) downgrade(now time.Time, g *group, gone []*consumerMember, kind EventKind, settle func(time.Time, kafka.Error) Effects) (Effects, bool) {
	if !m.mayDowngrade(g, gone, 0) {
		return Effects{}, false
	}
	c := g.consumer
	var stay []*consumerMember
	for _, id := range c.ids() {
		if !slices.Contains(gone, c.members[id]) {
			stay = append(stay, c.members[id])
		}
	}
	// What they work on, not what they were to have: somebody of the new protocol may come before they have joined again, and would be given
	// what they do not know that they have to give back.
	value := m.classicFrom(now, c, c.epoch, stay, func(member *consumerMember) assign.Assignment {
		return member.assigned.union(member.revoking).assignment()
	})
	return Effects{
		Records: append(c.tombstones(g.id), &GroupRecord{Group: g.id, Value: value}),
		settle: func(now time.Time, refused kafka.Error) Effects {
			if refused != kafka.None {
				return settle(now, refused)
			}
			g := m.groups[g.id]
			for _, member := range gone {
				m.note(kind, g, member.id, "")
			}
			m.becameClassic(now, g, stay)
			after := settle(now, refused)
			m.prepareRebalance(now, g, &after)
			return after
		},
	}, true
}

// becameClassic gives the members of a group that the log has just made a classic one what the log does not say of them.
func (m *Machine) becameClassic(now time.Time, g *group, from []*consumerMember) {
	m.note(Downgraded, g, "", "")
	for _, consumer := range from {
		member := g.byID[consumer.id]
		g.count(member.protocols, -1)
		member.protocols = consumer.classic.protocols
		g.count(member.protocols, 1)
		m.heard(now, member)
	}
}

// joinDowngraded is a static member that comes back in the classic protocol, where it was the last of the new one.
func (m *Machine) joinDowngraded(ticket Ticket, g *group, c *Join, ch *change, owned assign.Assignment) Effects {
	stale := g.consumer.targetAt < ch.epoch
	if ch.place = ch.member.memberPlace; !stale {
		ch.reconcile(g.consumer.targetAt, g.consumer.target[ch.replaced.id], owned, true)
	}
	var stay []*consumerMember
	for _, id := range g.consumer.ids() {
		if member := g.consumer.members[id]; member != ch.replaced {
			stay = append(stay, member)
		}
	}
	comes := newConsumerMember(ch.member.id)
	comes.memberSaid, comes.memberPlace = ch.said, ch.place
	stay = append(stay, comes)
	value := m.classicFrom(ch.now, g.consumer, g.consumer.epoch, stay, func(member *consumerMember) assign.Assignment {
		if member == comes {
			return g.consumer.target[ch.replaced.id]
		}
		return g.consumer.target[member.id]
	})
	gone := newConsumerGroup()
	for _, member := range stay {
		gone.members[member.id] = member
	}
	gone.regexes = g.consumer.regexes
	answer := ch.joinReply()
	return Effects{
		Records: append(append(ch.records, gone.tombstones(g.id)...), &GroupRecord{Group: g.id, Value: value}),
		settle: func(now time.Time, refused kafka.Error) Effects {
			if refused != kafka.None {
				return reply(ticket, c.Fail(refused))
			}
			g := m.groups[g.id]
			m.becameClassic(now, g, stay)
			after := reply(ticket, answer)
			if stale {
				m.prepareRebalance(now, g, &after)
			}
			return after
		},
	}
}

// classicFrom is the generation of a classic group with these members.
func (m *Machine) classicFrom(now time.Time, c *consumerGroup, epoch int32, members []*consumerMember, target func(*consumerMember) assign.Assignment) *Generation {
	scratch := newGroup("")
	for _, consumer := range members {
		scratch.members = append(scratch.members, &member{id: consumer.id, protocols: consumer.classic.protocols})
		scratch.count(consumer.classic.protocols, 1)
	}
	protocol := scratch.selectProtocol(nil, nil)
	v := &Generation{ProtocolType: "consumer", Generation: epoch, Protocol: &protocol, Leader: &members[0].id, SinceMs: now.UnixMilli()}
	for i, consumer := range members {
		metadata := scratch.members[i].metadata(&protocol)
		said, _ := readConsumerSubscription(metadata)
		v.Members = append(v.Members, Member{
			MemberID: consumer.id, InstanceID: consumer.instanceID, ClientID: consumer.clientID, ClientHost: consumer.clientHost,
			RebalanceTimeoutMs: consumer.rebalanceTimeoutMs, SessionTimeoutMs: consumer.classic.sessionTimeoutMs, Subscription: metadata,
			Assignment: appendConsumerAssignment(said.version, m.present(target(consumer))),
		})
	}
	return v
}
