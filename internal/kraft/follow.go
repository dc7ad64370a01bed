package kraft

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// following is what a follower, voter or observer, knows of its leader.
type following struct {
	heard         bool         // whether the leader has answered a Fetch: then there is one, and nobody else is to be elected
	highWatermark kafka.Offset // the leader's
	download      *download
	elsewhere     bool  // the leader did not answer: a bootstrap server is asked next whether there is another
	membershipDue int64 // when to look again at what the voters' record says of this member
	updated       bool  // under kraft.version 0: the leader was told of this voter
}

// download is a snapshot that is being fetched.
type download struct {
	id       SnapshotID
	position int64
}

// toFollower follows a leader; while nobody knows where that is, it waits to hear.
func (m *Member) toFollower(epoch kafka.Epoch, leader kafka.NodeID, endpoints []Endpoint) {
	if len(endpoints) == 0 {
		m.toUnattached(epoch, leader)
		return
	}
	if epoch != m.state.Epoch {
		m.state = State{Epoch: epoch, Voted: kafka.NoNode}
	}
	m.state.Leader = leader
	m.enter(Follower)
	m.leaderEndpoints = endpoints
	m.following = &following{highWatermark: kafka.NoOffset, membershipDue: m.nowMs + m.cfg.FetchTimeoutMs}
	m.timer = m.nowMs + m.cfg.FetchTimeoutMs
	if m.over == epoch {
		m.timer = m.nowMs + m.backoffMs()
	}
	if m.plantedBugs.truncateToHighWatermark && !m.settling {
		if hw := max(m.highWatermark, m.log.StartOffset()); hw < m.log.EndOffset() {
			m.truncate(hw)
		}
	}
}

func (m *Member) stepFollower() {
	if m.mayLead() && !m.stopping && m.due(m.timer) {
		m.toProspective()
		return
	}
	if !m.stopping && m.due(m.following.membershipDue) && m.tellLeader() {
		m.following.membershipDue = m.nowMs + m.cfg.FetchTimeoutMs
	}
	if !m.mayFetch() {
		return
	}
	lost := !m.mayLead() && m.nowMs >= m.timer
	if (m.following.elsewhere || lost) && m.fetchFromBootstrap() {
		m.following.elsewhere = false
		return
	}
	if d := m.following.download; d != nil {
		m.send(m.leaderNode(), fetchCall, &FetchSnapshotRequest{
			Replica: m.key(), Epoch: m.state.Epoch, Snapshot: d.id, Position: d.position, MaxBytes: m.cfg.SnapshotMaxBytes,
		})
		return
	}
	m.send(m.leaderNode(), fetchCall, m.fetchRequest())
}

func (m *Member) fetchRequest() *FetchRequest {
	return &FetchRequest{
		Replica: m.key(), Epoch: m.state.Epoch, Offset: m.log.EndOffset(), LastEpoch: m.lastEpoch(),
		MaxWaitMs: m.cfg.FetchMaxWaitMs, MaxBytes: m.cfg.FetchMaxBytes, HighWatermark: m.highWatermark,
	}
}

// mayFetch tells whether a Fetch can be sent. Its offset tells the leader what this replica has for good: it waits for the flush.
func (m *Member) mayFetch() bool {
	flushed := m.log.FlushedOffset() == m.log.EndOffset() || m.plantedBugs.reportUnflushed
	return flushed && !m.settling && !m.calls.underWay(fetchCall)
}

// fetchFromBootstrap asks one of those who may know the leader. It tells whether one was asked.
func (m *Member) fetchFromBootstrap() bool {
	servers := m.bootstrap()
	if len(servers) == 0 || !m.mayFetch() {
		return false
	}
	first := m.cfg.Rand.IntN(len(servers))
	for i := range servers {
		if m.send(servers[(first+i)%len(servers)], fetchCall, m.fetchRequest()) {
			return true
		}
	}
	return false
}

// bootstrap are the servers to ask for the leader: the configured ones, or the other voters.
func (m *Member) bootstrap() []Node {
	var servers []Node
	for _, e := range m.cfg.Bootstrap {
		own := slices.ContainsFunc(m.cfg.Endpoints, func(mine Endpoint) bool { return mine.Host == e.Host && mine.Port == e.Port })
		if !own {
			servers = append(servers, Node{kafka.NoNode, e})
		}
	}
	if len(servers) > 0 {
		return servers
	}
	for _, v := range m.voters() {
		if to, ok := m.peer(v); ok {
			servers = append(servers, to)
		}
	}
	return servers
}

func (m *Member) fetchAnswered(c call, r *FetchResponse) {
	f, isFetch := c.message.Request.(*FetchRequest)
	if !isFetch || !m.learn(c, r.Error, r.Current) || m.following == nil {
		return
	}
	m.leaderAnswered()
	switch {
	case f.Offset != m.log.EndOffset() || m.settling:
	case r.Diverging != nil:
		m.diverged(c, *r.Diverging)
	case r.Snapshot != nil:
		m.beginDownload(c, *r.Snapshot)
	default:
		m.following.highWatermark = max(m.following.highWatermark, r.HighWatermark)
		if len(r.Records) > 0 {
			m.out.Append, m.settling = r.Records, true
			return
		}
		m.followHighWatermark()
	}
}

// leaderAnswered puts an election off, unless the leader has said since that it goes: what it has said last need not come in order.
func (m *Member) leaderAnswered() {
	clear(m.absent) // what was known of the others is old
	if m.over == m.state.Epoch {
		return
	}
	m.following.heard, m.following.elsewhere, m.losses = true, false, 0
	m.timer = m.nowMs + m.cfg.FetchTimeoutMs
}

// leaderGone makes an election due soon: not at once, so that not all stand at the same time, and later each time that it came to
// nothing, as with too many voters gone.
func (m *Member) leaderGone() {
	m.following.heard = false
	if !m.mayLead() {
		return
	}
	spread := min(m.patienceMs()<<min(m.losses, 10), m.cfg.ElectionTimeoutMs)
	m.timer = min(m.timer, m.nowMs+m.cfg.Rand.Int64N(spread))
}

// followHighWatermark commits what the leader has committed and this replica has for good.
func (m *Member) followHighWatermark() {
	if m.following.highWatermark != kafka.NoOffset {
		m.raiseHighWatermark(min(m.following.highWatermark, m.log.FlushedOffset()))
	}
}

// diverged cuts the log back to where it can agree with the leader's. The next Fetch may be told to go back further.
func (m *Member) diverged(c call, leader EpochEnd) {
	own := m.epochEnd(leader.Epoch)
	end := own.End
	if own.Epoch == leader.Epoch || leader.Epoch == 0 {
		end = min(end, leader.End)
	}
	switch {
	case end < m.highWatermark || end < m.log.StartOffset():
		m.warn("leader %d of epoch %d of the quorum wants the metadata log truncated to offset %d, below the high watermark %d: it has lost what was committed",
			m.state.Leader, m.state.Epoch, end, m.highWatermark)
		m.calls.backOff(c.slot, m.nowMs+m.cfg.ElectionTimeoutMs)
	case end >= m.log.EndOffset():
		m.calls.backOff(c.slot, m.nowMs+m.patienceMs())
	default:
		m.truncate(end)
	}
}

func (m *Member) truncate(end kafka.Offset) {
	m.history.truncate(end)
	m.out.Truncate, m.settling = &end, true
	m.votersMayHaveChanged()
}

// beginDownload replaces the log by a snapshot of the leader's, if that has more.
func (m *Member) beginDownload(c call, id SnapshotID) {
	more := id.Epoch > m.lastEpoch() || id.Epoch == m.lastEpoch() && id.End > m.log.EndOffset()
	if id.Epoch < 0 || id.End <= 0 || !more || id.End < m.highWatermark {
		m.warn("leader %d of epoch %d of the quorum offers snapshot %d-%d, which does not go on from offset %d of epoch %d",
			m.state.Leader, m.state.Epoch, id.End, id.Epoch, m.log.EndOffset(), m.lastEpoch())
		m.calls.backOff(c.slot, m.nowMs+m.cfg.ElectionTimeoutMs)
		return
	}
	m.following.download = &download{id: id}
}

func (m *Member) snapshotAnswered(c call, r *FetchSnapshotResponse) {
	answered := m.learn(c, r.Error, r.Current)
	if m.following == nil || m.following.download == nil {
		return
	}
	d := m.following.download
	if !answered { // the leader may have removed it by now: a Fetch tells of another. Kafka 4.4 says UNKNOWN_SERVER_ERROR then.
		m.following.download = nil
		return
	}
	m.leaderAnswered()
	if r.Snapshot != d.id || r.Position != d.position || len(r.Bytes) == 0 {
		m.following.download = nil
		m.calls.backOff(c.slot, m.nowMs+m.patienceMs())
		return
	}
	d.position += int64(len(r.Bytes))
	chunk := &Chunk{Snapshot: d.id, Position: r.Position, Bytes: r.Bytes, Last: d.position >= r.Size}
	if chunk.Last {
		m.following.download, m.settling = nil, true
	}
	m.out.Chunk = chunk
}
