package kraft

import (
	"cmp"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// leadership is what a leader knows of its epoch.
type leadership struct {
	start kafka.Offset // of the epoch's own records
	// highWatermark is unknown until a record of the epoch is committed: before that nobody knows whether there was a higher one.
	highWatermark kafka.Offset
	replicas      map[ReplicaKey]*progress // without the leader; under kraft.version 0 voters have no directory
	expireAt      int64                    // when to look for observers that are gone

	heard   map[kafka.NodeID]bool // voters that have fetched since checkBy was set
	checkBy int64                 // until when a majority has to have fetched

	leaveAt    int64 // when a leader that is committed not to be a voter resigns; 0 of others
	change     *voterChange
	volunteers map[kafka.NodeID]Voter // under kraft.version 0: what voters said of themselves
}

// progress is a replica as its leader sees it.
type progress struct {
	end       kafka.Offset // of what it has for good; NoOffset while not known
	fetchMs   int64        // when it last fetched; -1 for never
	caughtMs  int64        // when it last had all that the leader had; -1 for never
	leaderEnd kafka.Offset // the leader's end when it last fetched
}

const observerExpiryMs = 5 * 60 * 1000

func (m *Member) toLeader() {
	granting := m.election.votes
	m.state.Leader = m.cfg.ID
	m.enter(Leader)
	m.leaderEndpoints, m.timer, m.losses = m.cfg.Endpoints, never, 0
	m.leadership = &leadership{
		start: m.log.EndOffset(), highWatermark: kafka.NoOffset, replicas: map[ReplicaKey]*progress{},
		heard: map[kafka.NodeID]bool{}, checkBy: m.nowMs + m.checkQuorumMs(), volunteers: map[kafka.NodeID]Voter{m.cfg.ID: m.self()},
	}
	change := LeaderChange{Leader: m.cfg.ID}
	for _, v := range m.voters() {
		change.Voters = append(change.Voters, v.key())
		if granting[v.ID] {
			change.Granting = append(change.Granting, v.key())
		}
	}
	m.appendControls(append([]Control{change}, m.votersAtStart()...)...)
	m.votersMayHaveChanged()
}

// votersAtStart are the voters' records of a new epoch: where the log does not have them yet, as they come from the format command, and
// when this leader's own entry is not true any more.
func (m *Member) votersAtStart() []Control {
	last := m.history.Last()
	if last.Version == 0 || m.history.lastAt() >= 0 && !m.needsUpdate() {
		return nil
	}
	voters := slices.Clone(last.Voters)
	for i, v := range voters {
		if v.is(m.key()) {
			voters[i] = m.self()
		}
	}
	return []Control{VersionChange{last.Version}, VotersChange{voters}}
}

// appendControls wants control records appended. There is one batch in an event.
func (m *Member) appendControls(controls ...Control) {
	m.out.Controls = append(m.out.Controls, controls...)
	m.settling = true
}

// checkQuorumMs is how long a leader leads without hearing of a majority: longer than they wait for it, for requests under way.
func (m *Member) checkQuorumMs() int64 { return m.cfg.FetchTimeoutMs * 3 / 2 }

func (m *Member) stepLeader() {
	l := m.leadership
	if l.leaveAt == 0 && m.removed() {
		l.leaveAt = m.nowMs + 1 // the followers that wait are told of the commit before
	}
	if l.leaveAt > 0 && m.due(l.leaveAt) {
		m.resign()
		return
	}
	if !m.onlyVoter() && m.due(l.checkBy) {
		m.resign()
		return
	}
	if c := l.change; c != nil && m.due(c.until) {
		m.endChange(kafka.RequestTimedOut, "")
	}
	m.expireObservers()
	for _, v := range m.voters() {
		to, ok := m.peer(v)
		if !ok {
			continue
		}
		// Who fetches knows its leader.
		if p := l.replicas[v.key()]; p == nil || m.due(p.fetchMs+m.cfg.FetchTimeoutMs/2) {
			m.send(to, beginCall, &BeginQuorumEpochRequest{Leader: m.cfg.ID, Epoch: m.state.Epoch, Voter: v.key(), Endpoints: m.cfg.Endpoints})
		}
	}
}

func (m *Member) beginAnswered(c call, r *BeginQuorumEpochResponse) {
	if m.learn(c, r.Error, r.Current) && m.kind == Leader {
		m.calls.backOff(c.slot, m.nowMs+m.cfg.FetchTimeoutMs/2)
	}
}

// resign gives the epoch up. Those who have most are asked first to follow.
func (m *Member) resign() {
	var successors []ReplicaKey
	for _, v := range m.byProgress() {
		if !v.is(m.key()) {
			successors = append(successors, v.key())
		}
	}
	m.toResigned(successors)
}

// removed tells whether a leader is committed not to be a voter.
func (m *Member) removed() bool {
	return !m.isVoter() && m.history.lastAt() < m.leadership.highWatermark
}

// endOf is what a voter has for good.
func (m *Member) endOf(v Voter) kafka.Offset {
	if v.is(m.key()) {
		return m.log.FlushedOffset()
	}
	if p := m.leadership.replicas[v.key()]; p != nil {
		return p.end
	}
	return kafka.NoOffset
}

// byProgress are the voters, those with most first.
func (m *Member) byProgress() []Voter {
	voters := slices.Clone(m.voters())
	slices.SortStableFunc(voters, func(a, b Voter) int { return cmp.Compare(m.endOf(b), m.endOf(a)) })
	return voters
}

// advance moves the high watermark to what a majority has for good, if that reaches into the leader's own epoch: what earlier epochs
// left could be undone even if a majority has it, and is safe with the first record of this one.
func (m *Member) advance() {
	ends := make([]kafka.Offset, 0, 8)
	for _, v := range m.voters() {
		ends = append(ends, m.endOf(v))
	}
	if len(ends) == 0 {
		return
	}
	slices.Sort(ends)
	committed := ends[(len(ends)-1)/2]
	if committed > m.leadership.start || m.plantedBugs.commitByCount {
		m.leadership.highWatermark = max(m.leadership.highWatermark, committed)
	}
	m.raiseHighWatermark(min(m.leadership.highWatermark, m.log.FlushedOffset()))
	if c := m.leadership.change; c != nil && c.at != kafka.NoOffset && c.at < m.leadership.highWatermark {
		m.endChange(kafka.None, "")
	}
}

// replicaKey is under what a leader knows a replica: a voter without a directory is any replica of its node.
func (m *Member) replicaKey(r ReplicaKey) ReplicaKey {
	for _, v := range m.voters() {
		if v.is(r) {
			return v.key()
		}
	}
	return r
}

// hears notes that a replica is there.
func (m *Member) hears(r ReplicaKey) {
	l := m.leadership
	voters := m.voters()
	if slices.ContainsFunc(voters, func(v Voter) bool { return v.is(r) }) {
		l.heard[r.ID] = true
		delete(m.absent, r.ID)
	}
	majority := len(voters)/2 + 1
	if m.isVoter() {
		majority--
	}
	if len(l.heard) >= majority {
		clear(l.heard)
		l.checkBy = m.nowMs + m.checkQuorumMs()
	}
}

// fetches notes up to where a replica has the leader's log.
func (m *Member) fetches(r ReplicaKey, end kafka.Offset) {
	key := m.replicaKey(r)
	p := m.leadership.replicas[key]
	if p == nil {
		p = &progress{end: kafka.NoOffset, fetchMs: -1, caughtMs: -1, leaderEnd: kafka.NoOffset}
		m.leadership.replicas[key] = p
	}
	leaderEnd := m.log.EndOffset()
	switch {
	case end >= leaderEnd:
		p.caughtMs = m.nowMs
	case p.leaderEnd > 0 && end >= p.leaderEnd:
		p.caughtMs = max(p.caughtMs, p.fetchMs)
	}
	p.end, p.fetchMs, p.leaderEnd = end, m.nowMs, leaderEnd
	m.advance()
}

func (m *Member) expireObservers() {
	l := m.leadership
	if !m.due(l.expireAt) {
		return
	}
	l.expireAt = m.nowMs + observerExpiryMs/5
	for _, key := range m.observers() {
		if m.nowMs >= l.replicas[key].fetchMs+observerExpiryMs {
			delete(l.replicas, key)
		}
	}
}

// observers are the replicas that are not voters.
func (m *Member) observers() (keys []ReplicaKey) {
	voters := m.voters()
	for _, key := range slices.SortedFunc(maps.Keys(m.leadership.replicas), compareKeys) {
		if !slices.ContainsFunc(voters, func(v Voter) bool { return v.is(key) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// votersMayHaveChanged takes over the newest voters.
func (m *Member) votersMayHaveChanged() {
	switch m.kind {
	case Leader:
		for _, key := range slices.SortedFunc(maps.Keys(m.leadership.replicas), compareKeys) {
			i := slices.IndexFunc(m.voters(), func(v Voter) bool { return v.ID == key.ID })
			if i >= 0 && key.Directory.IsZero() && key != m.voters()[i].key() { // kraft.version 1 has told which replica it is
				m.leadership.replicas[m.voters()[i].key()] = m.leadership.replicas[key]
				delete(m.leadership.replicas, key)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(m.leadership.heard)) {
			if !slices.ContainsFunc(m.voters(), func(v Voter) bool { return v.ID == id }) {
				delete(m.leadership.heard, id)
			}
		}
		m.advance()
	case Unattached:
		if m.timer == never {
			m.timer = m.electionTimer()
		}
	}
}

// Describe returns the quorum as its leader sees it, false on others.
func (m *Member) Describe(nowMs int64) (Status, bool) {
	if m.kind != Leader {
		return Status{}, false
	}
	l := m.leadership
	status := Status{Leader: m.cfg.ID, Epoch: m.state.Epoch, HighWatermark: l.highWatermark, Membership: m.Membership()}
	for _, v := range m.voters() {
		if v.is(m.key()) {
			status.Voters = append(status.Voters, m.ownStatus(nowMs))
			continue
		}
		status.Voters = append(status.Voters, l.statusOf(v.key()))
	}
	if !m.isVoter() {
		status.Observers = append(status.Observers, m.ownStatus(nowMs))
	}
	for _, key := range m.observers() {
		status.Observers = append(status.Observers, l.statusOf(key))
	}
	return status, true
}

func (m *Member) ownStatus(nowMs int64) ReplicaStatus {
	return ReplicaStatus{Replica: m.key(), End: m.log.EndOffset(), LastFetchMs: nowMs, LastCaughtMs: nowMs}
}

func (l *leadership) statusOf(key ReplicaKey) ReplicaStatus {
	p := l.replicas[key]
	if p == nil {
		return ReplicaStatus{Replica: key, End: kafka.NoOffset, LastFetchMs: -1, LastCaughtMs: -1}
	}
	return ReplicaStatus{Replica: key, End: p.end, LastFetchMs: p.fetchMs, LastCaughtMs: p.caughtMs}
}

// Status is what DescribeQuorum answers.
type Status struct {
	Leader            kafka.NodeID
	Epoch             kafka.Epoch
	HighWatermark     kafka.Offset // NoOffset until a record of the epoch is committed
	Voters, Observers []ReplicaStatus
	Membership        Membership
}

// ReplicaStatus is what a leader knows of a replica. The leader itself is always caught up.
type ReplicaStatus struct {
	Replica      ReplicaKey
	End          kafka.Offset // NoOffset while not known
	LastFetchMs  int64        // by the member's clock; -1 for never
	LastCaughtMs int64        // when it last had all that the leader had; -1 for never
}
