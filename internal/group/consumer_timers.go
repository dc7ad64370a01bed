package group

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// heardConsumer starts the member's session anew.
func (m *Machine) heardConsumer(now time.Time, g *group, member *consumerMember, session time.Duration) {
	if member.session == nil {
		member.session = newTimer(consumerSessionTimer, g, member.id)
	}
	m.timers.start(member.session, now.Add(session))
}

// awaitRevocation starts the time that a member has to give back what it must, or ends it.
func (m *Machine) awaitRevocation(now time.Time, g *group, member *consumerMember) {
	if member.state != memberUnrevoked {
		if member.rebalance != nil {
			member.rebalance.cancel()
		}
		return
	}
	if member.rebalance == nil {
		member.rebalance = newTimer(rebalanceTimer, g, member.id)
	}
	member.rebalanceFrom = member.epoch
	m.timers.start(member.rebalance, now.Add(millis(member.rebalanceTimeoutMs)))
}

// consumerLoaded starts the clocks of a group that was read from the log.
func (m *Machine) consumerLoaded(now time.Time, g *group) {
	session := m.cluster.Consumers(g.id).SessionTimeout
	for _, id := range g.consumer.ids() {
		member := g.consumer.members[id]
		m.heardConsumer(now, g, member, session)
		if member.state == memberUnrevoked {
			m.awaitRevocation(now, g, member)
		}
	}
}

// consumerOver is a clock of a member that has run out: it is fenced.
func (m *Machine) consumerOver(now time.Time, t *timer, e *Effects) {
	g := m.groups[t.group.id]
	if g != t.group || g.consumer == nil {
		return
	}
	member := g.consumer.members[t.member]
	if member == nil || t != member.session && t != member.rebalance && t != member.join && t != member.sync {
		return
	}
	kind := MemberExpired
	if t.kind != consumerSessionTimer {
		kind = MemberSilent
		if t.kind == rebalanceTimer && member.epoch != member.rebalanceFrom {
			return
		}
	}
	*e = m.fence(now, g, []*consumerMember{member}, kind, func(again time.Time, refused kafka.Error) Effects {
		if refused != kafka.None { // tried again: nobody else will
			m.timers.start(t, again.Add(m.cluster.Consumers(g.id).HeartbeatInterval))
		}
		return Effects{}
	})
}
