package kraft

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// callKind keeps apart what may be under way to one node at the same time. Fetch and FetchSnapshot are one: a follower does one of both.
type callKind int8

const (
	voteCall callKind = iota
	beginCall
	endCall
	fetchCall
	voterCall    // UpdateVoter, AddVoter, RemoveVoter
	versionsCall // ApiVersions
)

// slot is room for one request: what kind, to whom.
type slot struct {
	node     kafka.NodeID
	host     string // of bootstrap servers
	port     uint16
	callKind callKind
}

// call is a request that has no answer yet.
type call struct {
	message Message
	slot    slot
	until   int64 // when it counts as failed
}

// calls are the requests under way, and when the next may be sent.
type calls struct {
	lastID uint64
	open   []call         // by id
	wait   map[slot]int64 // until when nothing is sent there
}

func slotOf(to Node, kind callKind) slot {
	if to.ID != kafka.NoNode {
		return slot{node: to.ID, callKind: kind}
	}
	return slot{node: kafka.NoNode, host: to.Endpoint.Host, port: to.Endpoint.Port, callKind: kind}
}

// take ends a call, if it is still waited for.
func (c *calls) take(id uint64) (call, bool) {
	i := slices.IndexFunc(c.open, func(one call) bool { return one.message.ID == id })
	if i < 0 {
		return call{}, false
	}
	found := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	return found, true
}

// expire ends the calls that took too long.
func (c *calls) expire(nowMs int64) (expired []call) {
	c.open = slices.DeleteFunc(c.open, func(one call) bool {
		if nowMs < one.until {
			return false
		}
		expired = append(expired, one)
		return true
	})
	return expired
}

func (c *calls) deadline() int64 {
	first := int64(never)
	for _, one := range c.open {
		first = min(first, one.until)
	}
	return first
}

// forget drops all that is under way: answers to it mean nothing in a new role.
func (c *calls) forget() {
	c.open = nil
	clear(c.wait)
}

func (c *calls) backOff(s slot, until int64) { c.wait[s] = until }

// underWay tells whether a call of a kind has no answer yet, to anybody.
func (c *calls) underWay(kind callKind) bool {
	return slices.ContainsFunc(c.open, func(one call) bool { return one.slot.callKind == kind })
}

// send sends a request, unless one of the kind is under way to the node or it is to be left alone for a while.
func (m *Member) send(to Node, kind callKind, r Request) bool {
	s := slotOf(to, kind)
	busy := slices.ContainsFunc(m.calls.open, func(one call) bool { return one.slot == s })
	if busy || !m.due(m.calls.wait[s]) {
		return false
	}
	m.calls.lastID++
	message := Message{ID: m.calls.lastID, To: to, Request: r}
	m.calls.open = append(m.calls.open, call{message: message, slot: s, until: m.nowMs + m.cfg.RequestTimeoutMs})
	m.out.Send = append(m.out.Send, message)
	return true
}

// endpointOf is where to reach a node: at its endpoint of the name that this one's first has, or at its first.
func (m *Member) endpointOf(endpoints []Endpoint) (Endpoint, bool) {
	if len(endpoints) == 0 {
		return Endpoint{}, false
	}
	if len(m.cfg.Endpoints) > 0 {
		for _, e := range endpoints {
			if e.Name == m.cfg.Endpoints[0].Name {
				return e, true
			}
		}
	}
	return endpoints[0], true
}

// peer is where to reach another voter, if that is known.
func (m *Member) peer(v Voter) (Node, bool) {
	e, ok := m.endpointOf(v.Endpoints)
	return Node{v.ID, e}, ok && v.ID != m.cfg.ID
}

func (m *Member) leaderNode() Node {
	e, _ := m.endpointOf(m.leaderEndpoints)
	return Node{m.state.Leader, e}
}

// failed is what any call that came to nothing ends with.
func (m *Member) failed(c call) {
	m.calls.backOff(c.slot, m.nowMs+m.cfg.RetryBackoffMs)
	switch c.slot.callKind {
	case fetchCall:
		if f := m.following; f != nil && c.message.To.ID == m.state.Leader {
			f.elsewhere = true
		}
	case versionsCall:
		m.versionsUnknown(kafka.BrokerNotAvailable)
	}
}

// gone is what becomes of a call to a process that is not there.
func (m *Member) gone(c call) {
	switch {
	case c.slot.callKind == fetchCall && m.following != nil && c.message.To.ID == m.state.Leader:
		m.leaderGone()
	case c.slot.callKind == voteCall && m.election != nil:
		m.election.gone[c.message.To.ID] = true
		m.countVotes()
	}
}

// answered goes to what a response means. What AddVoter and RemoveVoter have changed is read from the log.
func (m *Member) answered(c call, r Response) {
	switch r := r.(type) {
	case *VoteResponse:
		m.voteAnswered(c, r)
	case *BeginQuorumEpochResponse:
		m.beginAnswered(c, r)
	case *EndQuorumEpochResponse:
		m.endAnswered(c, r)
	case *FetchResponse:
		m.fetchAnswered(c, r)
	case *FetchSnapshotResponse:
		m.snapshotAnswered(c, r)
	case *UpdateVoterResponse:
		m.updateVoterAnswered(c, r)
	case *VersionsResponse:
		m.versionsAnswered(r)
	}
}

// learn takes what a response says of the leader, and tells whether the rest of the response is to be looked at. If not, the node is
// left alone for a while.
func (m *Member) learn(c call, code kafka.Error, current Current) bool {
	proceed := m.learned(code, current)
	if !proceed && m.calls.wait[c.slot] <= m.nowMs {
		m.calls.backOff(c.slot, m.nowMs+m.patienceMs())
	}
	return proceed
}

func (m *Member) learned(code kafka.Error, current Current) bool {
	stale := current.Epoch < m.state.Epoch && !m.plantedBugs.acceptStale
	switch {
	case stale || code == kafka.UnknownLeaderEpoch:
		return false
	case current.Epoch > m.state.Epoch || code == kafka.FencedLeaderEpoch || code == kafka.NotLeaderOrFollower:
		m.observe(current)
		return false
	}
	return m.observe(current) && code == kafka.None
}

// observe follows what somebody says of the leader, if that is news.
func (m *Member) observe(current Current) (consistent bool) {
	if current.Epoch < m.state.Epoch && !m.plantedBugs.acceptStale {
		return true
	}
	endpoints := current.Endpoints
	if current.Leader != kafka.NoNode && len(endpoints) == 0 {
		endpoints = m.endpointsOf(current.Leader)
	}
	sameEpoch := current.Epoch == m.state.Epoch
	switch {
	case current.Leader == m.cfg.ID && (!sameEpoch || m.state.Leader != m.cfg.ID):
		m.warn("node %d is said to lead epoch %d of the quorum, and has not: another node has the same id, or this one had another disk", m.cfg.ID, current.Epoch)
		return false
	case sameEpoch && current.Leader != kafka.NoNode && m.state.Leader != kafka.NoNode && current.Leader != m.state.Leader:
		m.warn("node %d is said to lead epoch %d of the quorum, and this node knows of leader %d in epoch %d",
			current.Leader, current.Epoch, m.state.Leader, m.state.Epoch)
		return false
	case current.Leader == m.cfg.ID:
	case current.Leader == kafka.NoNode && !sameEpoch:
		m.toUnattached(current.Epoch, kafka.NoNode)
	case current.Leader == kafka.NoNode:
	case !sameEpoch || m.state.Leader == kafka.NoNode || m.kind == Unattached && len(endpoints) > 0:
		m.toFollower(current.Epoch, current.Leader, endpoints)
	case len(endpoints) > len(m.leaderEndpoints), m.isElsewhere(current.Endpoints):
		m.leaderEndpoints = endpoints
	}
	return true
}

// isElsewhere tells whether the leader is said to be at another address than the one that is known here, at which it has not answered:
// who starts takes the address from its copy of the voters' record, which may be an old one.
func (m *Member) isElsewhere(endpoints []Endpoint) bool {
	told, ok := m.endpointOf(endpoints)
	known := m.leaderNode().Endpoint
	answers := m.following != nil && m.following.heard
	return ok && !answers && (told.Host != known.Host || told.Port != known.Port)
}

func (m *Member) endpointsOf(id kafka.NodeID) []Endpoint {
	for _, v := range m.voters() {
		if v.ID == id {
			return v.Endpoints
		}
	}
	return nil
}
