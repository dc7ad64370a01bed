package group

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// joinGroup is JoinGroup. A group that is not there, or only through its offsets, is written down first, empty: then the member
// joins it. So whoever has members, or has handed out member ids, is on the log. A group of another type that has no members is
// made a classic one in the same batch: no reader of the log sees a group of two types.
func (m *Machine) joinGroup(now time.Time, ticket Ticket, groupID string, g *group, c *Join) Effects {
	var before []Record
	switch {
	case g != nil && g.consumer != nil && len(g.consumer.members) > 0:
		return m.joinConsumers(now, ticket, g, c)
	case g != nil && g.consumer != nil:
		before = g.consumer.tombstones(groupID)
	case g != nil && g.foreign != nil:
		if why := g.foreign.whyNotClassic(); why != "" {
			m.note(JoinRefused, g, c.MemberID, why)
			return reply(ticket, &JoinReply{Code: kafka.InconsistentGroupProtocol, Generation: -1})
		}
		before = g.foreign.tombstones(groupID)
	}
	if g != nil && g.durable {
		e := Effects{}
		m.admit(now, ticket, g, c, &e)
		return e
	}
	if c.MemberID != "" {
		return reply(ticket, c.Fail(kafka.UnknownMemberId))
	}
	if c.ProtocolType == "" || len(c.Protocols) == 0 {
		return reply(ticket, c.Fail(kafka.InconsistentGroupProtocol))
	}
	kept := c.keep()
	return Effects{
		Records: append(before, &GroupRecord{Group: groupID, Value: &Generation{SinceMs: now.UnixMilli()}}),
		settle: func(now time.Time, refused kafka.Error) Effects {
			if refused != kafka.None {
				return reply(ticket, kept.Fail(refused))
			}
			e := Effects{}
			if len(before) > 0 {
				m.note(Converted, m.groups[groupID], "", "")
			}
			m.admit(now, ticket, m.groups[groupID], kept, &e)
			return e
		},
	}
}

// keep copies a command whose bytes are needed after Handle.
func (c *Join) keep() *Join {
	kept := *c
	kept.Protocols = keepProtocols(c.Protocols)
	return &kept
}

func (m *Machine) admit(now time.Time, ticket Ticket, g *group, c *Join, e *Effects) {
	known := g.byID[c.MemberID]
	switch {
	case !m.hasRoom(g, known):
		if known != nil {
			g.remove(known)
		}
		g.forget(c.MemberID)
		full := c.Fail(kafka.GroupMaxSizeReached).(*JoinReply)
		full.MemberID = ""
		e.send(ticket, full)
		m.completeIfAllJoined(now, g, e)
	case !g.supports(c.ProtocolType, c.Protocols):
		e.send(ticket, c.Fail(kafka.InconsistentGroupProtocol))
	case c.MemberID != "":
		m.joinAgain(now, ticket, g, known, c, e)
	case c.InstanceID != nil && g.static[*c.InstanceID] != nil:
		m.returnStatic(now, ticket, g, g.static[*c.InstanceID], c, e)
	case c.InstanceID == nil && c.MemberIDRequired:
		// KIP-394: the client must show that it has received its id before it counts as a member; else every attempt of a
		// client that times out would leave a member behind.
		id := m.newMemberID(c)
		t := newTimer(sessionTimer, g, id)
		g.handOut(id, t)
		m.timers.start(t, now.Add(millis(c.SessionTimeoutMs)))
		told := c.Fail(kafka.MemberIdRequired).(*JoinReply)
		told.MemberID = id
		e.send(ticket, told)
	default:
		m.addMember(now, ticket, g, m.newMemberID(c), c, e)
	}
}

// hasRoom applies group.max.size. While a round of joins is on, those who have joined are counted: the last to come back to a
// group above its limit are turned away.
func (m *Machine) hasRoom(g *group, known *member) bool {
	switch g.state {
	case PreparingRebalance:
		return known != nil && known.joining != 0 || g.waiting < m.cfg.MembersMax
	case CompletingRebalance, Stable:
		return known != nil || len(g.members) < m.cfg.MembersMax
	}
	return true
}

// joinAgain is a JoinGroup with a member id.
func (m *Machine) joinAgain(now time.Time, ticket Ticket, g *group, known *member, c *Join, e *Effects) {
	if g.pending[c.MemberID] != nil && c.InstanceID == nil {
		g.forget(c.MemberID)
		m.addMember(now, ticket, g, c.MemberID, c, e)
		return
	}
	if code := g.validate(c.MemberID, c.InstanceID); code != kafka.None {
		e.send(ticket, c.Fail(code))
		return
	}
	// A member that joins with what it said before may have missed the answer: it is told the generation again. The leader of
	// a stable group asks for a new round by joining: what it assigns from has changed.
	again := known.matches(c.Protocols)
	switch {
	case g.state == CompletingRebalance && again, g.state == Stable && again && !g.leads(known.id):
		e.send(ticket, g.generationFor(known))
	default:
		if known.joining != 0 {
			e.send(known.joining, c.Fail(kafka.RebalanceInProgress))
		}
		g.update(known, ticket, c)
		m.rebalanceOrComplete(now, g, e)
	}
}

// generationFor is the answer to a member of the present generation.
func (g *group) generationFor(member *member) *JoinReply {
	r := &JoinReply{Generation: g.generation, ProtocolType: g.protocolTypeOrNil(), Protocol: g.protocol, MemberID: member.id}
	if g.leader != nil {
		r.Leader = *g.leader
	}
	if g.leads(member.id) {
		r.Members = g.joined()
	}
	return r
}

func (g *group) protocolTypeOrNil() *string {
	if g.protocolType == "" {
		return nil
	}
	kind := g.protocolType
	return &kind
}

func newMember(g *group, id string, c *Join) *member {
	member := &member{
		id: id, clientID: c.ClientID, clientHost: c.ClientHost,
		rebalanceTimeout: millis(c.RebalanceTimeoutMs), sessionTimeout: millis(c.SessionTimeoutMs),
		protocols: keepProtocols(c.Protocols),
	}
	if c.InstanceID != nil {
		member.instanceID = c.InstanceID
	}
	member.session = newTimer(sessionTimer, g, id)
	return member
}

func (m *Machine) addMember(now time.Time, ticket Ticket, g *group, id string, c *Join, e *Effects) {
	member := newMember(g, id, c)
	member.joining, member.fresh = ticket, true
	if g.state == PreparingRebalance && g.previous == Empty {
		g.initial.extend = true
	}
	if len(g.members) == 0 {
		g.protocolType = c.ProtocolType
	}
	g.add(member)
	m.note(MemberJoined, g, id, c.Reason)
	// A new member cannot heartbeat while its JoinGroup is parked, and its client may give up and come again as another
	// member. So that these do not pile up in a round that takes long, a new member is dropped after a while.
	m.timers.start(member.session, now.Add(m.cfg.NewMemberJoinTimeout))
	m.rebalanceOrComplete(now, g, e)
}

// returnStatic is a JoinGroup of a static member that has forgotten its member id: it gets a new one, and whoever still uses
// the old one is fenced (KIP-345).
func (m *Machine) returnStatic(now time.Time, ticket Ticket, g *group, old *member, c *Join, e *Effects) {
	incarnation := newMember(g, m.newMemberID(c), c)
	if g.state == Stable && g.protocol != nil && g.selectProtocol(old, incarnation.protocols) == *g.protocol {
		m.swapStatic(ticket, g, old, incarnation, c.CanSkipAssignment, e)
		return
	}
	incarnation.clientID, incarnation.clientHost = old.clientID, old.clientHost
	incarnation.assignment, incarnation.joining = old.assignment, ticket
	incarnation.toSync = old.toSync
	if old.joining != 0 {
		e.send(old.joining, &JoinReply{Code: kafka.FencedInstanceId, Generation: -1, MemberID: old.id})
	}
	if old.syncing != 0 {
		e.send(old.syncing, &SyncReply{Code: kafka.FencedInstanceId})
		old.syncing = 0
	}
	g.replace(old, incarnation)
	m.note(MemberJoined, g, incarnation.id, c.Reason)
	m.heard(now, incarnation)
	if g.state == PreparingRebalance {
		m.completeIfAllJoined(now, g, e)
		return
	}
	m.prepareRebalance(now, g, e)
}

// swapStatic gives a static member of a stable group its new id without a rebalance: written down before it is told.
func (m *Machine) swapStatic(ticket Ticket, g *group, old, incarnation *member, canSkip bool, e *Effects) {
	value := g.asRecord()
	leader := ""
	if g.leader != nil {
		leader = *g.leader
	}
	for i := range value.Members {
		if v := &value.Members[i]; v.MemberID == old.id {
			v.MemberID = incarnation.id
			v.RebalanceTimeoutMs, v.SessionTimeoutMs = toMillis(incarnation.rebalanceTimeout), toMillis(incarnation.sessionTimeout)
			v.Subscription = incarnation.metadata(g.protocol)
		}
	}
	if g.leads(old.id) {
		value.Leader = &incarnation.id
	}
	e.Records = append(e.Records, &GroupRecord{Group: g.id, Value: value})
	e.settle = func(now time.Time, refused kafka.Error) Effects {
		if refused != kafka.None {
			return reply(ticket, &JoinReply{
				Code: refused, Generation: g.generation, ProtocolType: g.protocolTypeOrNil(), Protocol: g.protocol, Leader: leader,
			})
		}
		member := g.byID[incarnation.id]
		g.count(member.protocols, -1)
		member.protocols = incarnation.protocols
		g.count(member.protocols, 1)
		m.heard(now, member)
		r := g.generationFor(member)
		switch {
		case canSkip:
			r.SkipAssignment = g.leads(member.id)
		default:
			// The leader's old id: told its own, the member would assign partitions anew (KIP-814).
			r.Leader, r.Members = leader, nil
		}
		return reply(ticket, r)
	}
}
