package group

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// A consumer group may have members that still speak the classic protocol: their JoinGroup is a heartbeat of the new protocol, their
// generation the member's epoch, and their Heartbeat tells them to join again when there is a step to take.

// joinConsumers is JoinGroup to a consumer group that has members.
func (m *Machine) joinConsumers(now time.Time, ticket Ticket, g *group, c *Join) Effects {
	fail := func(code kafka.Error) Effects { return reply(ticket, c.Fail(code)) }
	if !m.cfg.Migration.Upgrade && !m.cfg.Migration.Downgrade {
		m.note(JoinRefused, g, c.MemberID, "it is a consumer group, and group.consumer.migration.policy lets no member of the classic protocol in")
		return fail(kafka.InconsistentGroupProtocol)
	}
	ch := &change{m: m, now: now, id: g.id, c: g.consumer, from: g.consumer.epoch}
	id := c.MemberID
	if id == "" {
		id = m.randomID()
	}
	if refused := ch.roomFor(id, c.InstanceID); refused != nil {
		return fail(refused.Code)
	}
	if !g.consumer.supportsClassic(c.ProtocolType, c.Protocols) {
		return fail(kafka.InconsistentGroupProtocol)
	}
	if c.MemberID == "" && c.InstanceID == nil && c.MemberIDRequired {
		told := c.Fail(kafka.MemberIdRequired).(*JoinReply)
		told.MemberID = id
		return reply(ticket, told)
	}
	said, err := readConsumerSubscription(c.Protocols[0].Metadata)
	if err != nil {
		return fail(kafka.InconsistentGroupProtocol)
	}
	if code := ch.findClassic(id, c); code != kafka.None {
		return fail(code)
	}
	down := ch.replaced != nil && m.mayDowngrade(g, []*consumerMember{ch.replaced}, 1)
	ch.said = ch.member.memberSaid
	ch.said.hearClassic(c, &said)
	topicsChanged := ch.say()
	regex, refused := ch.regexSaid()
	if refused != nil {
		return fail(refused.Code)
	}
	ch.changed = topicsChanged || regex != regexSame
	ch.look(ch.changed)
	owned := m.byID(said.owned)
	if down {
		return m.joinDowngraded(ticket, g, c, ch, owned)
	}
	targetEpoch, target := ch.makeTarget()
	ch.reconcile(targetEpoch, target, owned, true)
	e := ch.effects(ticket, ch.joinReply(), func(code kafka.Error) Reply { return c.Fail(code) }, millis(c.SessionTimeoutMs))
	return ch.then(e, func(now time.Time, member *consumerMember) {
		if member.join != nil {
			member.join.cancel()
		}
		if member.sync == nil {
			member.sync = newTimer(consumerSyncTimer, m.groups[ch.id], member.id)
		}
		m.timers.start(member.sync, now.Add(millis(c.RebalanceTimeoutMs)))
	})
}

// then does more for the member when the change is settled.
func (ch *change) then(e Effects, more func(time.Time, *consumerMember)) Effects {
	run := func(now time.Time) {
		if g := ch.m.groups[ch.id]; g != nil && g.consumer != nil && g.consumer.members[ch.member.id] != nil {
			more(now, g.consumer.members[ch.member.id])
		}
	}
	settle := e.settle
	if settle == nil {
		run(ch.now)
		return e
	}
	e.settle = func(now time.Time, refused kafka.Error) Effects {
		after := settle(now, refused)
		if refused == kafka.None {
			run(now)
		}
		return after
	}
	return e
}

func (ch *change) joinReply() *JoinReply {
	kind := "consumer"
	return &JoinReply{
		Generation: ch.place.epoch, ProtocolType: &kind, Protocol: &ch.said.classic.protocols[0].Name, MemberID: ch.member.id,
	}
}

// findClassic finds the member, or makes one of who joins.
func (ch *change) findClassic(id string, c *Join) kafka.Error {
	owner := ch.c.staticMember(c.InstanceID)
	switch {
	case c.InstanceID == nil:
		if ch.member = ch.c.members[id]; ch.member == nil {
			ch.member, ch.joined = newConsumerMember(id), true
		}
	case c.MemberID == "" && owner == nil:
		ch.member, ch.joined = newConsumerMember(id), true
	case c.MemberID == "":
		ch.replace(owner, id)
	case owner == nil:
		return kafka.UnknownMemberId
	case owner.id != id:
		return kafka.FencedInstanceId
	default:
		ch.member = owner
	}
	return kafka.None
}

// hearClassic takes over what a JoinGroup says.
func (s *memberSaid) hearClassic(c *Join, said *consumerSubscription) {
	s.clientID, s.clientHost, s.regex = c.ClientID, c.ClientHost, ""
	if c.InstanceID != nil {
		s.instanceID = c.InstanceID
	}
	if said.rack != nil {
		s.rackID = said.rack
	}
	if c.RebalanceTimeoutMs != -1 {
		s.rebalanceTimeoutMs = c.RebalanceTimeoutMs
	}
	s.topics = inOrder(said.topics)
	s.classic = &classicSaid{sessionTimeoutMs: c.SessionTimeoutMs, protocols: keepProtocols(c.Protocols)}
}

// supportsClassic tells whether somebody with these protocols may join: one of them must be every classic member's.
func (c *consumerGroup) supportsClassic(protocolType string, protocols []Protocol) bool {
	return protocolType == "consumer" && slices.ContainsFunc(protocols, func(p Protocol) bool { return c.supports[p.Name] == c.classic })
}

// classicMember finds a member of the classic protocol that speaks of itself.
func (c *consumerGroup) classicMember(id string, instanceID *string) (*consumerMember, kafka.Error) {
	member := c.members[id]
	if instanceID != nil {
		member = c.staticMember(instanceID)
	}
	switch {
	case member == nil:
		return nil, kafka.UnknownMemberId
	case member.id != id:
		return nil, kafka.FencedInstanceId
	case member.classic == nil:
		return nil, kafka.UnknownMemberId
	}
	return member, kafka.None
}

// syncConsumer is SyncGroup of a classic member: it is told what it has.
func (m *Machine) syncConsumer(now time.Time, g *group, c *Sync) *SyncReply {
	fail := func(code kafka.Error) *SyncReply { return &SyncReply{Code: code} }
	member, code := g.consumer.classicMember(c.MemberID, c.InstanceID)
	if code != kafka.None {
		return fail(code)
	}
	protocol := &member.classic.protocols[0]
	switch {
	case member.epoch != c.Generation:
		return fail(kafka.IllegalGeneration)
	case c.ProtocolType != nil && *c.ProtocolType != "consumer", c.Protocol != nil && *c.Protocol != protocol.Name:
		return fail(kafka.InconsistentGroupProtocol)
	case g.consumer.targetAt > member.epoch && member.state != memberUnrevoked:
		m.awaitJoin(now, g, member)
		return fail(kafka.RebalanceInProgress)
	}
	if member.sync != nil {
		member.sync.cancel()
	}
	m.heardConsumer(now, g, member, millis(member.classic.sessionTimeoutMs))
	said, _ := readConsumerSubscription(protocol.Metadata)
	given := m.present(member.assigned.assignment())
	return &SyncReply{ProtocolType: c.ProtocolType, Protocol: c.Protocol, Assignment: appendConsumerAssignment(said.version, given)}
}

// heartbeatConsumer is Heartbeat of a classic member.
func (m *Machine) heartbeatConsumer(now time.Time, g *group, c *Heartbeat) kafka.Error {
	member, code := g.consumer.classicMember(c.MemberID, c.InstanceID)
	switch {
	case code != kafka.None:
		return code
	case member.epoch != c.Generation:
		return kafka.IllegalGeneration
	}
	m.heardConsumer(now, g, member, millis(member.classic.sessionTimeoutMs))
	if m.onlyJoinsHelp(g.consumer) || member.epoch < g.consumer.targetAt || member.state == memberUnrevoked ||
		member.state == memberUnreleased && !g.consumer.waitsForOthers(member) {
		m.awaitJoin(now, g, member)
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

// onlyJoinsHelp tells whether there is a target to make, and nobody who speaks the new protocol: no heartbeat makes it then, nor the epoch
// that changed topics need. Unlike in Kafka, members are asked to join for it.
func (m *Machine) onlyJoinsHelp(c *consumerGroup) bool {
	return c.classic == len(c.members) && c.assigning == nil && (c.epoch > c.targetAt || m.topicsChanged(c))
}

// topicsChanged tells whether the topics that a group reads are not as they were when it had its last epoch.
func (m *Machine) topicsChanged(c *consumerGroup) bool {
	if c.seen == m.learned {
		return false
	}
	if m.metadataHash(c.reads) != c.hash {
		return true
	}
	c.seen = m.learned
	return false
}

// waitsForOthers tells whether something that the member is to get has not been given back yet.
func (c *consumerGroup) waitsForOthers(member *consumerMember) bool {
	for _, t := range c.target[member.id] {
		for _, p := range t.Partitions {
			if _, owned := c.owner(t.ID, p); owned && !member.assigned.has(t.ID, p) {
				return true
			}
		}
	}
	return false
}

// awaitJoin starts the time in which a classic member has to join again, if it does not run yet.
func (m *Machine) awaitJoin(now time.Time, g *group, member *consumerMember) {
	if member.join == nil {
		member.join = newTimer(consumerJoinTimer, g, member.id)
	}
	if !member.join.active() {
		m.timers.start(member.join, now.Add(millis(member.rebalanceTimeoutMs)))
	}
}

// leaveConsumers is LeaveGroup to a consumer group: also an administrator takes members out with it, of either protocol.
func (m *Machine) leaveConsumers(now time.Time, ticket Ticket, g *group, c *Leave) Effects {
	answer := &LeaveReply{Members: make([]Left, len(c.Members))}
	var gone []*consumerMember
	for i, l := range c.Members {
		id := l.MemberID
		if owner := g.consumer.staticMember(l.InstanceID); owner != nil && id == "" {
			id = owner.id
		}
		member, refused := g.consumer.leaving(g.id, id, l.InstanceID)
		answer.Members[i] = Left{MemberID: l.MemberID, InstanceID: l.InstanceID}
		switch {
		case refused != nil:
			answer.Members[i].Code = refused.Code
		case !slices.Contains(gone, member):
			gone = append(gone, member)
		}
	}
	if len(gone) == 0 {
		return reply(ticket, answer)
	}
	return m.fence(now, g, gone, MemberLeft, func(_ time.Time, refused kafka.Error) Effects {
		if refused != kafka.None {
			return reply(ticket, c.Fail(refused))
		}
		return reply(ticket, answer)
	})
}
