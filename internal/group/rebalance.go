package group

import (
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// heard starts the member's session anew.
func (m *Machine) heard(now time.Time, member *member) {
	m.timers.start(member.session, now.Add(member.sessionTimeout))
}

// rebalanceOrComplete begins a round of joins, or ends the one that is on when nobody is missing.
func (m *Machine) rebalanceOrComplete(now time.Time, g *group, e *Effects) {
	if g.state == PreparingRebalance {
		m.completeIfAllJoined(now, g, e)
		return
	}
	m.prepareRebalance(now, g, e)
}

// completeIfAllJoined ends the round of joins early. The first round of an empty group lasts its time, for more members.
func (m *Machine) completeIfAllJoined(now time.Time, g *group, e *Effects) {
	if g.state == PreparingRebalance && g.previous != Empty && g.allJoined() {
		m.completeJoins(now, g, e)
	}
}

// prepareRebalance begins a round of joins.
func (m *Machine) prepareRebalance(now time.Time, g *group, e *Effects) {
	if g.state == CompletingRebalance {
		m.dropAssignments(now, g, kafka.RebalanceInProgress, e)
	}
	for _, member := range g.members {
		member.toSync = false
	}
	g.sync.cancel()
	m.note(Rebalancing, g, "", "")
	first := g.state == Empty
	g.to(PreparingRebalance, now)
	switch {
	case first:
		g.initial.delay, g.initial.extend = m.cfg.InitialRebalanceDelay, false
		g.initial.remaining = max(g.rebalanceTimeout()-g.initial.delay, 0)
		m.timers.start(g.join, now.Add(g.initial.delay))
	case g.allJoined():
		m.completeJoins(now, g, e)
	default:
		m.timers.start(g.join, now.Add(g.rebalanceTimeout()))
	}
}

// joinsOver is the end of the time for joins.
func (m *Machine) joinsOver(now time.Time, g *group, e *Effects) {
	if g.state != PreparingRebalance {
		return
	}
	if g.previous == Empty && g.initial.extend && g.initial.remaining > 0 {
		delay := min(m.cfg.InitialRebalanceDelay, g.initial.remaining)
		g.initial.extend = false
		g.initial.remaining = max(g.initial.remaining-g.initial.delay, 0)
		g.initial.delay = delay
		m.timers.start(g.join, now.Add(delay))
		return
	}
	m.completeJoins(now, g, e)
}

// completeJoins ends the round of joins: who has not come is out, except static members, and the next generation begins.
func (m *Machine) completeJoins(now time.Time, g *group, e *Effects) {
	g.join.cancel()
	for _, member := range slices.Clone(g.members) {
		if member.joining == 0 && member.instanceID == nil {
			g.remove(member)
			m.note(MemberSilent, g, member.id, "")
		}
	}
	if len(g.members) == 0 {
		m.becomeEmpty(g, now, e)
		return
	}
	if !g.elect() {
		// Only static members are left, and none has come: they have until their sessions end.
		m.timers.start(g.join, now.Add(g.rebalanceTimeout()))
		return
	}
	g.generation++
	protocol := g.selectProtocol(nil, nil)
	g.protocol = &protocol
	g.to(CompletingRebalance, now)
	g.subscribe()
	m.note(NewGeneration, g, "", "")
	for _, member := range g.members {
		if member.joining != 0 {
			e.send(member.joining, g.generationFor(member))
			member.joining = 0
			g.waiting--
		}
		m.heard(now, member)
		member.fresh, member.toSync = false, true
	}
	m.timers.start(g.sync, now.Add(g.rebalanceTimeout()))
}

// becomeEmpty writes down that the last member has gone. If that cannot be written it holds all the same: should the shard be
// loaded again, the members that the log still has end with their sessions.
func (m *Machine) becomeEmpty(g *group, now time.Time, e *Effects) {
	m.note(NowEmpty, g, "", "")
	value := &Generation{ProtocolType: g.protocolType, Generation: g.generation + 1, SinceMs: now.UnixMilli()}
	e.Records = append(e.Records, &GroupRecord{Group: g.id, Value: value})
	invariant.Check(e.settle == nil, "group %q becomes empty amid another change", g.id)
	e.settle = func(_ time.Time, refused kafka.Error) Effects {
		if refused != kafka.None {
			g.adopt(value)
		}
		return Effects{}
	}
}

// syncGroup is SyncGroup: the leader brings the assignment, the others wait for it.
func (m *Machine) syncGroup(now time.Time, ticket Ticket, g *group, c *Sync) Effects {
	if g != nil && g.consumer != nil {
		return reply(ticket, m.syncConsumer(now, g, c))
	}
	if code := g.checkSync(c); code != kafka.None {
		return reply(ticket, c.Fail(code))
	}
	member := g.byID[c.MemberID]
	member.toSync = false
	if g.allSynced() {
		g.sync.cancel()
	}
	if g.state == Stable {
		return reply(ticket, g.assignmentFor(member))
	}
	e := Effects{}
	if member.syncing != 0 {
		e.send(member.syncing, c.Fail(kafka.RebalanceInProgress)) // sent again: nobody waits for the first any more
	}
	member.syncing = ticket
	if g.leads(member.id) {
		m.assign(g, c, &e)
	}
	return e
}

func (g *group) checkSync(c *Sync) kafka.Error {
	if g == nil {
		return kafka.UnknownMemberId
	}
	if code := g.validate(c.MemberID, c.InstanceID); code != kafka.None {
		return code
	}
	switch {
	case c.Generation != g.generation:
		return kafka.IllegalGeneration
	case c.ProtocolType != nil && g.protocolType != "" && *c.ProtocolType != g.protocolType,
		c.Protocol != nil && g.protocol != nil && *c.Protocol != *g.protocol:
		return kafka.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

// assign writes down the generation with what the leader gives each member.
func (m *Machine) assign(g *group, c *Sync, e *Effects) {
	given := make(map[string][]byte, len(c.Assignments))
	for _, a := range c.Assignments {
		given[a.MemberID] = a.Bytes
	}
	value := g.asRecord()
	for i := range value.Members {
		value.Members[i].Assignment = slices.Clone(given[value.Members[i].MemberID])
	}
	e.Records = append(e.Records, &GroupRecord{Group: g.id, Value: value})
	e.settle = func(now time.Time, refused kafka.Error) Effects {
		after := Effects{}
		if refused != kafka.None {
			m.dropAssignments(now, g, refused, &after)
			m.prepareRebalance(now, g, &after)
			return after
		}
		for _, member := range g.members {
			if member.syncing != 0 {
				after.send(member.syncing, g.assignmentFor(member))
				member.syncing = 0
				m.heard(now, member)
			}
		}
		return after
	}
}

func (g *group) assignmentFor(member *member) *SyncReply {
	return &SyncReply{ProtocolType: g.protocolTypeOrNil(), Protocol: g.protocol, Assignment: member.assignment}
}

// dropAssignments takes back what the present round has given, and tells those who wait for it.
func (m *Machine) dropAssignments(now time.Time, g *group, code kafka.Error, e *Effects) {
	for _, member := range g.members {
		member.assignment = nil
		if member.syncing != 0 {
			e.send(member.syncing, &SyncReply{Code: code})
			member.syncing = 0
			m.heard(now, member)
		}
	}
}

// syncsOver removes members that were told their generation but did not ask for their assignment in time.
func (m *Machine) syncsOver(now time.Time, g *group, e *Effects) {
	if g.state != CompletingRebalance && g.state != Stable {
		return
	}
	silent := false
	for _, member := range slices.Clone(g.members) {
		if member.toSync {
			silent = true
			g.remove(member)
			m.note(MemberSilent, g, member.id, "")
		}
	}
	if silent {
		m.prepareRebalance(now, g, e)
	}
}

func (m *Machine) heartbeat(now time.Time, g *group, c *Heartbeat) kafka.Error {
	switch {
	case g == nil:
		return kafka.UnknownMemberId
	case g.consumer != nil:
		return m.heartbeatConsumer(now, g, c)
	}
	if code := g.validate(c.MemberID, c.InstanceID); code != kafka.None {
		return code
	}
	if c.Generation != g.generation {
		return kafka.IllegalGeneration
	}
	m.heard(now, g.byID[c.MemberID])
	if g.state == PreparingRebalance {
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

// sessionOver is the end of a member's session, or of the time to join with a member id that was handed out.
func (m *Machine) sessionOver(now time.Time, t *timer, e *Effects) {
	g := t.group
	if g.pending[t.member] == t {
		g.forget(t.member)
		m.completeIfRoundIsFull(now, g, e)
		return
	}
	member := g.byID[t.member]
	if member == nil || member.session != t {
		return
	}
	if !member.fresh && (member.joining != 0 || member.syncing != 0) {
		return // it waits for us
	}
	m.expel(g, member, e)
	m.note(MemberExpired, g, member.id, "")
	m.afterLoss(now, g, e)
}

// completeIfRoundIsFull ends the round of joins, also the first of a group, when the one that was waited for has gone.
func (m *Machine) completeIfRoundIsFull(now time.Time, g *group, e *Effects) {
	if g.state == PreparingRebalance && g.allJoined() {
		m.completeJoins(now, g, e)
	}
}

// expel removes a member. If it waits in a round of joins it is told to come again as a new one.
func (m *Machine) expel(g *group, member *member, e *Effects) {
	if member.joining != 0 {
		e.send(member.joining, &JoinReply{Code: kafka.UnknownMemberId, Generation: -1})
		g.waiting--
		member.joining = 0
	}
	if member.syncing != 0 {
		e.send(member.syncing, &SyncReply{Code: kafka.UnknownMemberId})
		member.syncing = 0
	}
	g.remove(member)
}

// afterLoss begins a rebalance after a member's session has ended, or ends the round of joins that waited for it.
func (m *Machine) afterLoss(now time.Time, g *group, e *Effects) {
	switch g.state {
	case Stable, CompletingRebalance:
		m.prepareRebalance(now, g, e)
	case PreparingRebalance:
		m.completeIfRoundIsFull(now, g, e)
	}
}

// leave is LeaveGroup.
func (m *Machine) leave(now time.Time, ticket Ticket, g *group, c *Leave) Effects {
	if g != nil && g.consumer != nil {
		return m.leaveConsumers(now, ticket, g, c)
	}
	answer := &LeaveReply{Members: make([]Left, len(c.Members))}
	e, gone := Effects{}, false
	for i, l := range c.Members {
		answer.Members[i] = Left{MemberID: l.MemberID, InstanceID: l.InstanceID, Code: m.leaveOne(g, l, &e)}
		gone = gone || answer.Members[i].Code == kafka.None
	}
	if gone {
		switch g.state {
		case Stable, CompletingRebalance:
			m.prepareRebalance(now, g, &e)
		case PreparingRebalance:
			m.completeIfAllJoined(now, g, &e)
		}
	}
	e.send(ticket, answer)
	return e
}

func (m *Machine) leaveOne(g *group, l Leaving, e *Effects) kafka.Error {
	if g == nil {
		return kafka.UnknownMemberId
	}
	if l.MemberID == "" { // an administrator removes a static member
		if l.InstanceID == nil || g.static[*l.InstanceID] == nil {
			return kafka.UnknownMemberId
		}
		m.leaver(g, g.static[*l.InstanceID], l, e)
		return kafka.None
	}
	if g.pending[l.MemberID] != nil {
		g.forget(l.MemberID)
		return kafka.None
	}
	if code := g.validate(l.MemberID, l.InstanceID); code != kafka.None {
		return code
	}
	m.leaver(g, g.byID[l.MemberID], l, e)
	return kafka.None
}

func (m *Machine) leaver(g *group, member *member, l Leaving, e *Effects) {
	m.expel(g, member, e)
	m.note(MemberLeft, g, member.id, l.Reason)
}
