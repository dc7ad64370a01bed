package group

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// member is one member of a group. What a [Generation] says of it is durable; the rest is what it said since, and what it
// waits for.
type member struct {
	id         string
	instanceID *string
	clientID   string
	clientHost string

	rebalanceTimeout time.Duration
	sessionTimeout   time.Duration
	protocols        []Protocol
	assignment       []byte

	joining Ticket // parked JoinGroup; 0 none
	syncing Ticket // parked SyncGroup; 0 none
	toSync  bool   // has been told its generation, and has not asked for its assignment since
	fresh   bool   // new in this round: its session may end while it waits
	session *timer
}

// group is one consumer group: its generation, its members, and what it has committed.
type group struct {
	id      string
	durable bool // the log has a GroupRecord of it
	// What it is in another protocol; both nil: it is classic, or there only through its offsets.
	consumer *consumerGroup
	foreign  *foreign

	state    State
	previous State
	sinceMs  int64 // when it came into its state; -1 unknown

	generation   int32
	protocolType string // empty: none
	protocol     *string
	leader       *string

	members []*member // in the order in which they came
	byID    map[string]*member
	static  map[string]*member // by instance id
	support map[string]int     // by protocol: how many members have it
	waiting int                // members with a parked JoinGroup
	pending map[string]*timer  // member ids handed out and not yet joined with

	pendingBytes int      // that these take
	handedOut    []string // member ids, the first ones first: those in pending, and some that are so no more

	subscribed map[string]bool // topics that members read; nil when not known

	join    *timer // ends the round of joins
	sync    *timer
	initial struct { // the first round of an empty group is held open for more members
		delay, remaining time.Duration
		extend           bool // a member came during the delay
	}

	offsets  map[string]map[int32]stored  // by topic and partition
	unstable map[kafka.TopicPartition]int // open transactions that have committed an offset of the partition
}

func newGroup(id string) *group {
	g := &group{
		id: id, state: Empty, previous: Dead, sinceMs: -1,
		byID: map[string]*member{}, static: map[string]*member{}, support: map[string]int{}, pending: map[string]*timer{},
		offsets: map[string]map[int32]stored{}, unstable: map[kafka.TopicPartition]int{},
	}
	g.join, g.sync = newTimer(joinTimer, g, ""), newTimer(syncTimer, g, "")
	return g
}

// transitions lists, for each state, from which states a group may come into it.
var transitions = [...][]State{
	Empty:               {PreparingRebalance},
	PreparingRebalance:  {Stable, CompletingRebalance, Empty},
	CompletingRebalance: {PreparingRebalance},
	Stable:              {CompletingRebalance},
}

func (g *group) to(s State, now time.Time) {
	invariant.Check(slices.Contains(transitions[s], g.state), "group %q from %v to %v", g.id, g.state, s)
	g.previous, g.state, g.sinceMs = g.state, s, now.UnixMilli()
}

// validate tells whether the member is one of the group's, and the one that its instance id now stands for.
func (g *group) validate(memberID string, instanceID *string) kafka.Error {
	if instanceID != nil {
		owner := g.static[*instanceID]
		switch {
		case owner == nil:
			return kafka.UnknownMemberId
		case owner.id != memberID:
			return kafka.FencedInstanceId
		}
	}
	if g.byID[memberID] == nil {
		return kafka.UnknownMemberId
	}
	return kafka.None
}

func (g *group) leads(memberID string) bool { return g.leader != nil && *g.leader == memberID }

func (g *group) add(m *member) {
	if len(g.members) == 0 && g.protocolType == "" {
		invariant.Check(len(m.protocols) > 0, "member %q of group %q has no protocol", m.id, g.id)
	}
	if g.leader == nil {
		g.leader = &m.id
	}
	g.members = append(g.members, m)
	g.index(m)
	if m.joining != 0 {
		g.waiting++
	}
}

func (g *group) index(m *member) {
	g.byID[m.id] = m
	if m.instanceID != nil {
		invariant.Check(g.static[*m.instanceID] == nil, "instance %q twice in group %q", *m.instanceID, g.id)
		g.static[*m.instanceID] = m
	}
	g.count(m.protocols, 1)
}

func (g *group) unindex(m *member) {
	delete(g.byID, m.id)
	if m.instanceID != nil {
		delete(g.static, *m.instanceID)
	}
	g.count(m.protocols, -1)
}

// count adds to the number of members that support each protocol.
func (g *group) count(protocols []Protocol, by int) {
	for _, p := range protocols {
		if n := g.support[p.Name] + by; n > 0 {
			g.support[p.Name] = n
		} else {
			delete(g.support, p.Name)
		}
	}
}

// remove takes a member out. Its parked requests must have been answered.
func (g *group) remove(m *member) {
	i := slices.Index(g.members, m)
	invariant.Check(i >= 0, "member %q is not in group %q", m.id, g.id)
	g.members = slices.Delete(g.members, i, i+1)
	g.unindex(m)
	m.session.cancel()
	if m.joining != 0 {
		g.waiting--
	}
	if !g.leads(m.id) {
		return
	}
	g.leader = nil
	if len(g.members) > 0 {
		g.leader = &g.members[0].id
	}
}

// replace puts a static member's new incarnation in the place of the old one.
func (g *group) replace(old, m *member) {
	i := slices.Index(g.members, old)
	invariant.Check(i >= 0, "member %q is not in group %q", old.id, g.id)
	g.unindex(old)
	old.session.cancel()
	if old.joining != 0 {
		g.waiting--
	}
	g.members[i] = m
	g.index(m)
	if m.joining != 0 {
		g.waiting++
	}
	if g.leads(old.id) {
		g.leader = &m.id
	}
}

// update takes over what a member says when it joins again.
func (g *group) update(m *member, ticket Ticket, c *Join) {
	if m.joining == 0 {
		g.waiting++
	}
	g.count(m.protocols, -1)
	m.joining = ticket
	m.protocols = keepProtocols(c.Protocols)
	m.rebalanceTimeout, m.sessionTimeout = millis(c.RebalanceTimeoutMs), millis(c.SessionTimeoutMs)
	g.count(m.protocols, 1)
}

// What member ids that nobody has joined with may take in one group, and what each takes beside itself: about 50,000 ids of usual length, or 500 of
// the longest. Kafka has no such limit, and group.max.size does not count them.
const (
	pendingBytesMax     = 16 << 20
	pendingBytesForEach = 256
)

// handOut notes that a member id was handed out. When there are too many, those are forgotten that were first: their clients ask anew.
func (g *group) handOut(memberID string, t *timer) {
	g.pending[memberID] = t
	g.pendingBytes += len(memberID) + pendingBytesForEach
	if len(g.handedOut) > 2*len(g.pending)+16 {
		g.handedOut = slices.DeleteFunc(g.handedOut, func(id string) bool { return g.pending[id] == nil })
	}
	g.handedOut = append(g.handedOut, memberID)
	for g.pendingBytes > pendingBytesMax {
		g.forget(g.handedOut[0])
		g.handedOut = g.handedOut[1:]
	}
}

// forget drops a member id that was handed out.
func (g *group) forget(memberID string) {
	if t := g.pending[memberID]; t != nil {
		t.cancel()
		delete(g.pending, memberID)
		g.pendingBytes -= len(memberID) + pendingBytesForEach
	}
}

func (g *group) allJoined() bool { return g.waiting == len(g.members) && len(g.pending) == 0 }

// allSynced tells whether every member of the generation has asked for its assignment.
func (g *group) allSynced() bool {
	return !slices.ContainsFunc(g.members, func(m *member) bool { return m.toSync })
}

// elect makes sure that the leader is one who has joined this round. It returns false when nobody has.
func (g *group) elect() bool {
	if g.leader == nil {
		return false
	}
	if g.byID[*g.leader].joining != 0 {
		return true
	}
	for _, m := range g.members {
		if m.joining != 0 {
			g.leader = &m.id
			return true
		}
	}
	return false
}

// rebalanceTimeout is how long a round of joins may take: as long as the most patient member allows.
func (g *group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// supports tells whether somebody with these protocols may join.
func (g *group) supports(protocolType string, protocols []Protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(protocols, func(p Protocol) bool {
		return g.support[p.Name] == len(g.members)
	})
}

// selectProtocol takes the protocol that most members like best of those that all support; the earlier member's vote decides
// between equals. A static member that returns may vote with other protocols than before.
func (g *group) selectProtocol(returning *member, protocols []Protocol) string {
	support := g.support
	if returning != nil {
		support = make(map[string]int, len(g.support))
		for _, m := range g.members {
			for _, p := range ballot(m, returning, protocols) {
				support[p.Name]++
			}
		}
	}
	votes := map[string]int{}
	chosen := ""
	for _, m := range g.members {
		for _, p := range ballot(m, returning, protocols) {
			if support[p.Name] == len(g.members) {
				votes[p.Name]++
				break
			}
		}
	}
	for _, m := range g.members {
		for _, p := range ballot(m, returning, protocols) {
			if votes[p.Name] > votes[chosen] {
				chosen = p.Name
			}
		}
	}
	return chosen
}

func ballot(m, returning *member, protocols []Protocol) []Protocol {
	if m == returning {
		return protocols
	}
	return m.protocols
}

func (m *member) metadata(protocol *string) []byte {
	for _, p := range m.protocols {
		if protocol != nil && p.Name == *protocol {
			return p.Metadata
		}
	}
	return nil
}

// matches tells whether the member said the same before.
func (m *member) matches(protocols []Protocol) bool { return equalProtocols(m.protocols, protocols) }

func equalProtocols(x, y []Protocol) bool {
	return slices.EqualFunc(x, y, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// joined is what the leader is told about the members.
func (g *group) joined() []JoinedMember {
	list := make([]JoinedMember, len(g.members))
	for i, m := range g.members {
		list[i] = JoinedMember{MemberID: m.id, InstanceID: m.instanceID, Metadata: m.metadata(g.protocol)}
	}
	return list
}

// usesConsumerProtocol tells whether the members are consumers, whose metadata begins with the topics that they read.
func (g *group) usesConsumerProtocol() bool { return g.protocolType == "consumer" }

// subscribe works out which topics the members read.
func (g *group) subscribe() {
	g.subscribed = nil
	if !g.usesConsumerProtocol() || (len(g.members) > 0 && g.protocol == nil) {
		return
	}
	topics := map[string]bool{}
	var last []byte
	for _, m := range g.members {
		list, ok := subscribedTopics(m.metadata(g.protocol))
		if !ok {
			return
		}
		if !bytes.Equal(list, last) { // nearly always it is
			addTopics(list, topics)
		}
		last = list
	}
	g.subscribed = topics
}

// reads tells whether a member reads the topic, or may do so.
func (g *group) reads(topic string) bool {
	switch {
	case g.consumer != nil:
		return g.consumer.readsTopic(topic)
	case g.foreign != nil:
		return g.foreign.reads(topic)
	}
	if g.subscribed == nil {
		return g.usesConsumerProtocol()
	}
	return g.subscribed[topic]
}

// subscribedTopics finds the topics in a consumer's metadata: a version, then an array of topics, in all versions. It returns their names,
// with the length in front of each.
func subscribedTopics(b []byte) (list []byte, ok bool) {
	if len(b) < 6 {
		return nil, false
	}
	count := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	end := 0
	for range count {
		if len(b)-end < 2 {
			return nil, false
		}
		n := int(int16(binary.BigEndian.Uint16(b[end:])))
		if n < 0 || n > len(b)-end-2 {
			return nil, false
		}
		end += 2 + n
	}
	return b[:end], true
}

// addTopics adds what subscribedTopics has found.
func addTopics(list []byte, to map[string]bool) {
	for len(list) > 0 {
		n := 2 + int(binary.BigEndian.Uint16(list))
		to[string(list[2:n])] = true
		list = list[n:]
	}
}

// keepProtocols copies what a request said; of two protocols with one name, the first counts.
func keepProtocols(protocols []Protocol) []Protocol {
	kept := make([]Protocol, 0, len(protocols))
	for _, p := range protocols {
		if !slices.ContainsFunc(kept, func(k Protocol) bool { return k.Name == p.Name }) {
			kept = append(kept, Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)})
		}
	}
	return kept
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

func toMillis(d time.Duration) int32 { return int32(d / time.Millisecond) }
