package group

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// stored is an offset that a group has committed.
type stored struct {
	OffsetValue
	seq uint64 // its place in the log's order
}

// openKey names a partition of a group within a transaction.
type openKey struct {
	group string
	tp    kafka.TopicPartition
}

// Apply changes durable state by one record of the log: live, when the record has been appended, and on recovery.
func (m *Machine) Apply(r Record) {
	switch r := r.(type) {
	case *OffsetRecord:
		m.applyOffset(r)
	case *GroupRecord:
		m.applyGroup(r)
	case *ConsumerRecord:
		m.applyConsumer(r)
	case *ForeignRecord:
		m.applyForeign(r)
	}
}

// ApplyOpen is Apply for a record of a transaction that has not ended: it counts when the transaction commits.
func (m *Machine) ApplyOpen(producer kafka.ProducerID, r Record) {
	offset, ok := r.(*OffsetRecord)
	if !ok || offset.Value == nil {
		m.Apply(r)
		return
	}
	if m.open[producer] == nil {
		m.open[producer] = map[openKey]stored{}
	}
	g := m.groupFor(offset.Group)
	key := openKey{group: offset.Group, tp: kafka.TopicPartition{Topic: offset.Topic, Partition: offset.Partition}}
	if _, again := m.open[producer][key]; !again {
		g.unstable[key.tp]++
	}
	m.seq++
	m.open[producer][key] = stored{OffsetValue: *offset.Value, seq: m.seq}
}

// EndTransaction takes in or drops what a transaction has committed, as its marker says. Of an offset in the transaction and
// one beside it, the later record counts.
func (m *Machine) EndTransaction(producer kafka.ProducerID, commit bool) {
	open := m.open[producer]
	delete(m.open, producer)
	for _, key := range slices.SortedFunc(maps.Keys(open), openKey.compare) {
		g := m.groups[key.group]
		g.stabilise(key.tp)
		last, there := g.offsets[key.tp.Topic][key.tp.Partition]
		if commit && (!there || last.seq < open[key].seq) {
			g.store(key.tp, open[key])
		}
	}
}

func (m *Machine) applyOffset(r *OffsetRecord) {
	tp := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	m.seq++
	if r.Value != nil {
		m.groupFor(r.Group).store(tp, stored{OffsetValue: *r.Value, seq: m.seq})
		return
	}
	g := m.groups[r.Group]
	if g == nil {
		return
	}
	if partitions := g.offsets[r.Topic]; partitions != nil {
		delete(partitions, r.Partition)
		if len(partitions) == 0 {
			delete(g.offsets, r.Topic)
		}
	}
	if g.unstable[tp] > 0 {
		m.dropOpen(openKey{group: r.Group, tp: tp})
	}
}

// dropOpen forgets an offset in all open transactions: it was deleted.
func (m *Machine) dropOpen(key openKey) {
	for _, producer := range slices.Sorted(maps.Keys(m.open)) {
		if _, ok := m.open[producer][key]; ok {
			delete(m.open[producer], key)
			m.groups[key.group].stabilise(key.tp)
		}
	}
}

func (m *Machine) applyGroup(r *GroupRecord) {
	if r.Value != nil {
		g := m.groupFor(r.Group)
		g.leaveConsumerProtocol()
		g.durable, g.foreign = true, nil
		g.adopt(r.Value)
		return
	}
	g := m.groups[r.Group]
	if g == nil {
		return
	}
	g.durable = false
	g.adopt(&Generation{SinceMs: -1})
	for _, id := range slices.Sorted(maps.Keys(g.pending)) {
		g.forget(id)
	}
	g.sync.cancel()
	m.forgetIfNothing(g)
}

// forgetIfNothing drops a group of which nothing is left: a group that has offsets stays.
func (m *Machine) forgetIfNothing(g *group) {
	if !g.durable && g.foreign == nil && g.consumer == nil && len(g.offsets) == 0 && len(g.unstable) == 0 {
		delete(m.groups, g.id)
	}
}

// groupFor returns the group, new if need be: one that has committed from outside is there without a GroupRecord, until it
// expires.
func (m *Machine) groupFor(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = newGroup(id)
		m.groups[id] = g
	}
	return g
}

func (g *group) store(tp kafka.TopicPartition, s stored) {
	partitions := g.offsets[tp.Topic]
	if partitions == nil {
		partitions = map[int32]stored{}
		g.offsets[tp.Topic] = partitions
	}
	partitions[tp.Partition] = s
}

// stabilise counts one open transaction less.
func (g *group) stabilise(tp kafka.TopicPartition) {
	if g.unstable[tp]--; g.unstable[tp] <= 0 {
		delete(g.unstable, tp)
	}
}

// adopt makes the group what the log says it is. Members that it has already keep what only they know: what else they support,
// and their timers.
func (g *group) adopt(v *Generation) {
	g.previous, g.state = g.state, Empty
	if len(v.Members) > 0 {
		g.state = Stable
	}
	g.generation, g.protocolType, g.protocol, g.leader, g.sinceMs = v.Generation, v.ProtocolType, v.Protocol, v.Leader, v.SinceMs
	g.join.cancel()

	before := g.byID
	g.members = make([]*member, 0, len(v.Members))
	g.byID, g.static, g.support, g.waiting = map[string]*member{}, map[string]*member{}, map[string]int{}, 0
	for i := range v.Members {
		said := &v.Members[i]
		member := before[said.MemberID]
		if member == nil {
			member = g.memberFrom(v, said)
		}
		delete(before, said.MemberID)
		member.assignment = said.Assignment
		g.members = append(g.members, member)
		g.index(member)
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		before[id].session.cancel()
	}
	g.subscribe()
}

// memberFrom makes a member of what the log says. Of its protocols only the chosen one is known until it joins again.
func (g *group) memberFrom(v *Generation, said *Member) *member {
	member := &member{
		id: said.MemberID, instanceID: said.InstanceID, clientID: said.ClientID, clientHost: said.ClientHost,
		rebalanceTimeout: millis(said.RebalanceTimeoutMs), sessionTimeout: millis(said.SessionTimeoutMs),
	}
	if said.RebalanceTimeoutMs == -1 {
		member.rebalanceTimeout = member.sessionTimeout
	}
	if v.Protocol != nil {
		member.protocols = []Protocol{{Name: *v.Protocol, Metadata: said.Subscription}}
	}
	member.session = newTimer(sessionTimer, g, said.MemberID)
	return member
}

// asRecord is the generation as it is written down.
func (g *group) asRecord() *Generation {
	v := &Generation{
		ProtocolType: g.protocolType, Generation: g.generation, Protocol: g.protocol, Leader: g.leader, SinceMs: g.sinceMs,
		Members: make([]Member, len(g.members)),
	}
	for i, m := range g.members {
		v.Members[i] = Member{
			MemberID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMs: toMillis(m.rebalanceTimeout), SessionTimeoutMs: toMillis(m.sessionTimeout),
			Subscription: m.metadata(g.protocol), Assignment: m.assignment,
		}
	}
	return v
}

// leaveConsumerProtocol ends what a group was in the consumer protocol.
func (g *group) leaveConsumerProtocol() {
	if g.consumer != nil {
		g.consumer.stop()
		g.consumer = nil
	}
}
