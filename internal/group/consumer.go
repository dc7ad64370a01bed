package group

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// consumerGroup is a group of the consumer protocol (KIP-848), in which the coordinator assigns: the group's epoch counts what
// has changed, a target assignment is made for an epoch, and each member is led to it by its own epoch. All of it is what the log
// says, and what is counted from that; only what stands last, and the members' timers, are not.
type consumerGroup struct {
	epoch      int32
	hash       int64 // of the topics that it reads: see metadataHash
	target     map[string]assign.Assignment
	targetAt   int32 // the epoch that the target is for
	targetMs   int64 // when it was made; 0: never, or all members have gone since
	oldRecord  bool  // an older Kafka has noted the topics in a record of their own
	members    map[string]*consumerMember
	regexes    map[string]*resolvedRegex
	static     map[string]string                 // member ids by instance id
	owners     map[kafka.TopicID]map[int32]int32 // who has a partition, or has to give it back yet: the epoch of that member
	reads      map[string]readers                // by topic
	regexReads map[string]int                    // members, by regular expression
	assignors  map[string]int                    // members, by the assignor that they want
	classic    int                               // members that use the classic protocol
	supports   map[string]int                    // of these, by the protocol that they support

	seen         uint64      // what Machine.learned was when the group looked at its topics; 0: it has not
	resolving    bool        // regular expressions are being resolved
	refusedMs    int64       // when what they stand for could not be written last; 0: never
	assigning    *assignment // the next target, which is being made aside; nil: none is
	unassignedMs int64       // when such a one could not be written last; 0: never
}

// Kafka begins to count at 1: a member whose topics are not known yet has an epoch to be at.
const firstEpoch = 1

func newConsumerGroup() *consumerGroup {
	return &consumerGroup{
		epoch: firstEpoch, targetAt: firstEpoch, target: map[string]assign.Assignment{}, members: map[string]*consumerMember{},
		regexes: map[string]*resolvedRegex{}, static: map[string]string{}, owners: map[kafka.TopicID]map[int32]int32{},
		reads: map[string]readers{}, regexReads: map[string]int{}, assignors: map[string]int{}, supports: map[string]int{},
	}
}

// readers counts who reads a topic: members that name it, and regular expressions that match it.
type readers struct{ byName, byRegex int }

// resolvedRegex is the topics that a regular expression stands for.
type resolvedRegex struct {
	topics  []string // sorted
	version int64    // of the metadata
	atMs    int64
}

// consumerMember is one member: what it has said of itself, where it stands, and its clocks.
type consumerMember struct {
	id string
	memberSaid
	memberPlace

	session, rebalance, join, sync *timer
	rebalanceFrom                  int32 // the epoch that it has to leave before the rebalance timer fires
}

// memberSaid is ConsumerGroupMemberMetadataValue. It is not changed once made.
type memberSaid struct {
	instanceID         *string
	rackID             *string
	clientID           string
	clientHost         string
	topics             []string // sorted, each once
	regex              string   // empty: none
	assignor           *string  // nil: the group's
	rebalanceTimeoutMs int32
	classic            *classicSaid // it uses the classic protocol; nil: it does not
}

// classicSaid is what a member of the classic protocol has said in its JoinGroup.
type classicSaid struct {
	sessionTimeoutMs int32
	protocols        []Protocol
}

// memberPlace is ConsumerGroupCurrentMemberAssignmentValue. It is not changed once made.
type memberPlace struct {
	epoch    int32
	previous int32 // the epoch before: an answer that gets lost leaves the client there
	state    memberState
	assigned held
	revoking held // what it has to give back
}

// memberState is how far a member is on its way to the target, by Kafka's numbers.
type memberState int8

const (
	memberStable     memberState = 0
	memberUnrevoked  memberState = 1 // it has to give back before it goes on
	memberUnreleased memberState = 2 // what it is to get is not given back by others yet
)

// leftForNow is the epoch of a static member that comes back.
const leftForNow = -2

func newConsumerMember(id string) *consumerMember {
	return &consumerMember{id: id, memberSaid: memberSaid{rebalanceTimeoutMs: -1}, memberPlace: memberPlace{previous: -1}}
}

func (m *consumerMember) reconciledTo(epoch int32) bool {
	return m.state == memberStable && m.epoch == epoch
}

func (s *memberSaid) equal(o *memberSaid) bool {
	return equalStrings(s.instanceID, o.instanceID) && equalStrings(s.rackID, o.rackID) && s.clientID == o.clientID &&
		s.clientHost == o.clientHost && slices.Equal(s.topics, o.topics) && s.regex == o.regex &&
		equalStrings(s.assignor, o.assignor) && s.rebalanceTimeoutMs == o.rebalanceTimeoutMs && s.classic.equal(o.classic)
}

func (c *classicSaid) equal(o *classicSaid) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sessionTimeoutMs == o.sessionTimeoutMs && equalProtocols(c.protocols, o.protocols)
}

func (p *memberPlace) equal(o *memberPlace) bool {
	return p.epoch == o.epoch && p.previous == o.previous && p.state == o.state && p.assigned.equal(o.assigned) && p.revoking.equal(o.revoking)
}

func equalStrings(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// state is what Kafka lists.
func (c *consumerGroup) state() State {
	switch {
	case len(c.members) == 0:
		return Empty
	case c.epoch > c.targetAt:
		return Assigning
	}
	for _, id := range c.ids() {
		if !c.members[id].reconciledTo(c.targetAt) {
			return Reconciling
		}
	}
	return Stable
}

func (c *consumerGroup) ids() []string { return slices.Sorted(maps.Keys(c.members)) }

// staticMember returns the member that the instance id stands for.
func (c *consumerGroup) staticMember(instanceID *string) *consumerMember {
	if instanceID == nil {
		return nil
	}
	return c.members[c.static[*instanceID]]
}

// targetOf is what a member is to have: a static one that has come back under another id, what it was to have before.
func (c *consumerGroup) targetOf(id string, instanceID *string) assign.Assignment {
	if instanceID != nil {
		return c.target[c.static[*instanceID]]
	}
	return c.target[id]
}

// owner is the epoch of the member that has a partition, or has yet to give it back; false when nobody has.
func (c *consumerGroup) owner(id kafka.TopicID, partition int32) (int32, bool) {
	epoch, owned := c.owners[id][partition]
	return epoch, owned
}

// set makes a member what the log says it is now, and counts anew what follows from it.
func (c *consumerGroup) set(m *consumerMember, said memberSaid, place memberPlace) {
	c.count(m, -1)
	m.memberSaid, m.memberPlace = said, place
	c.count(m, 1)
}

// count adds a member to what is counted of all members, or takes it off.
func (c *consumerGroup) count(m *consumerMember, by int) {
	for _, topic := range m.topics {
		r := c.reads[topic]
		r.byName += by
		c.setReaders(topic, r)
	}
	add(c.regexReads, m.regex, by)
	if m.assignor != nil {
		add(c.assignors, *m.assignor, by)
	}
	if m.classic != nil {
		c.classic += by
		for _, p := range m.classic.protocols {
			add(c.supports, p.Name, by)
		}
	}
	if m.instanceID != nil {
		switch {
		case by > 0:
			c.static[*m.instanceID] = m.id
		case c.static[*m.instanceID] == m.id:
			delete(c.static, *m.instanceID)
		}
	}
	for _, h := range [...]held{m.assigned, m.revoking} {
		for _, t := range h {
			for _, p := range t.partitions {
				c.own(t.id, p, m.epoch, by)
			}
		}
	}
}

// own notes that a member at that epoch has a partition, or has it no more.
func (c *consumerGroup) own(id kafka.TopicID, p, epoch int32, by int) {
	partitions := c.owners[id]
	if by > 0 {
		if partitions == nil {
			partitions = map[int32]int32{}
			c.owners[id] = partitions
		}
		if before, owned := partitions[p]; !owned || before < epoch {
			partitions[p] = epoch
		}
		return
	}
	if partitions[p] == epoch {
		delete(partitions, p)
	}
	if len(partitions) == 0 {
		delete(c.owners, id)
	}
}

func (c *consumerGroup) setReaders(topic string, r readers) {
	if r == (readers{}) {
		delete(c.reads, topic)
		return
	}
	c.reads[topic] = r
}

func (c *consumerGroup) setRegex(regex string, resolved *resolvedRegex) {
	if old := c.regexes[regex]; old != nil {
		c.countRegex(c.reads, old, -1)
	}
	delete(c.regexes, regex)
	if resolved != nil {
		c.regexes[regex] = resolved
		c.countRegex(c.reads, resolved, 1)
	}
}

// countRegex adds the topics of a regular expression to what is read, or takes them off.
func (c *consumerGroup) countRegex(reads map[string]readers, regex *resolvedRegex, by int) {
	for _, topic := range regex.topics {
		r := reads[topic]
		r.byRegex += by
		if reads[topic] = r; r == (readers{}) {
			delete(reads, topic)
		}
	}
}

// add adds to a count by name, of which the empty one does not count.
func add(counts map[string]int, name string, by int) {
	if name == "" {
		return
	}
	if counts[name] += by; counts[name] == 0 {
		delete(counts, name)
	}
}

// readsTopic tells whether a member reads the topic.
func (c *consumerGroup) readsTopic(topic string) bool { return c.reads[topic] != readers{} }

// preferred is the assignor that most members want; of two that as many want, Kafka's uniform.
func preferred(counts map[string]int, otherwise string) string {
	chosen := otherwise
	most := 0
	for _, name := range []string{assign.UniformName, assign.RangeName} {
		if counts[name] > most {
			chosen, most = name, counts[name]
		}
	}
	return chosen
}

// alike tells whether all members read the same topics, as Kafka counts it: all by name, or all by the one regular expression.
func alike(regexReads map[string]int, reads map[string]readers, members int) bool {
	switch len(regexReads) {
	case 0:
		for _, topic := range slices.Sorted(maps.Keys(reads)) {
			if reads[topic].byName != members {
				return false
			}
		}
		return true
	case 1:
		for _, regex := range slices.Sorted(maps.Keys(regexReads)) {
			if regexReads[regex] != members {
				return false
			}
		}
		for _, topic := range slices.Sorted(maps.Keys(reads)) {
			if r := reads[topic]; r.byRegex != 1 || r.byName > 0 {
				return false
			}
		}
		return true
	}
	return false
}

// checkCommit tells whether somebody may commit. A member that has moved on since it read may commit what it had at that epoch.
func (c *consumerGroup) checkCommit(by committer) kafka.Error {
	if by.generation < 0 && len(c.members) == 0 || by.unnamedInTransaction() {
		return kafka.None
	}
	m := c.members[by.memberID]
	if m == nil {
		return kafka.UnknownMemberId
	}
	stale := by.staleEpoch
	switch {
	case m.classic != nil:
		stale = kafka.IllegalGeneration
	case by.withoutEpochs:
		return kafka.UnsupportedVersion
	}
	switch {
	case by.generation == m.epoch:
		return kafka.None
	case by.generation > m.epoch:
		return stale
	}
	for i := range by.topics {
		for _, p := range by.topics[i].Partitions {
			if since, has := m.since(by.topics[i].ID, p.Partition); !has || by.generation < since {
				return stale
			}
		}
	}
	return kafka.None
}

// since is the epoch from which on a member has had a partition.
func (m *consumerMember) since(id kafka.TopicID, partition int32) (int32, bool) {
	if epoch, has := m.assigned.since(id, partition); has {
		return epoch, true
	}
	return m.revoking.since(id, partition)
}

// checkFetch tells whether somebody may read offsets as the member that it says it is.
func (c *consumerGroup) checkFetch(as *FetchMember) kafka.Error {
	if as == nil {
		return kafka.None
	}
	m := c.members[as.ID]
	switch {
	case m == nil:
		return kafka.UnknownMemberId
	case m.epoch == as.Epoch:
		return kafka.None
	case m.classic != nil:
		return kafka.IllegalGeneration
	}
	return kafka.StaleMemberEpoch
}

// stop ends the clocks of all members: the group is of another type now, or no more.
func (c *consumerGroup) stop() {
	for _, id := range c.ids() {
		c.members[id].stop()
	}
}

func (m *consumerMember) stop() { cancelAll(m.session, m.rebalance, m.join, m.sync) }

// cancelAll cancels those that there are.
func cancelAll(timers ...*timer) {
	for _, t := range timers {
		if t != nil {
			t.cancel()
		}
	}
}

// targeted lists the members and, where the log is damaged, others that have a target: one left behind would make the group anew when
// the log is read the next time.
func (c *consumerGroup) targeted() []string {
	return inOrder(slices.Concat(slices.Sorted(maps.Keys(c.members)), slices.Sorted(maps.Keys(c.target))))
}

// tombstones removes all that the log has of the group but its offsets, in Kafka's order.
func (c *consumerGroup) tombstones(group string) []Record {
	var gone []Record
	forget := func(key sysrecord.Record) { gone = append(gone, &ConsumerRecord{Group: group, Key: key}) }
	ids := c.ids()
	for _, id := range ids {
		forget(&sysrecord.ConsumerGroupCurrentMemberAssignmentKey{GroupID: group, MemberID: id})
	}
	for _, id := range c.targeted() {
		forget(&sysrecord.ConsumerGroupTargetAssignmentMemberKey{GroupID: group, MemberID: id})
	}
	forget(&sysrecord.ConsumerGroupTargetAssignmentMetadataKey{GroupID: group})
	for _, id := range ids {
		forget(&sysrecord.ConsumerGroupMemberMetadataKey{GroupID: group, MemberID: id})
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		forget(&sysrecord.ConsumerGroupRegularExpressionKey{GroupID: group, RegularExpression: regex})
	}
	forget(&sysrecord.ConsumerGroupPartitionMetadataKey{GroupID: group})
	forget(&sysrecord.ConsumerGroupMetadataKey{GroupID: group})
	return gone
}
