package kraft

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// election is what a Prospective or Candidate has heard from the voters.
type election struct {
	votes map[kafka.NodeID]bool // granted or refused
	gone  map[kafka.NodeID]bool // whose processes were not there when asked
	over  bool                  // lost, and being waited out
}

func (m *Member) warn(format string, args ...any) { m.out.Warn = fmt.Sprintf(format, args...) }

// resume takes up what the quorum-state file and the log say. Who led or stood for election does not go on with that: what it had not
// flushed is lost, so its log may not be the one that it was elected with, or asked to be.
func (m *Member) resume() {
	if last := m.lastEpoch(); m.state.Epoch < last {
		m.state = State{Epoch: last, Leader: kafka.NoNode, Voted: kafka.NoNode}
	}
	saved := m.state
	m.enter(Unattached)
	m.timer = m.electionTimer()
	switch {
	case m.onlyVoter():
		m.toCandidate()
	case saved.Leader == m.cfg.ID:
		m.toResigned(nil)
	case saved.Leader != kafka.NoNode && len(m.endpointsOf(saved.Leader)) > 0:
		m.toFollower(saved.Epoch, saved.Leader, m.endpointsOf(saved.Leader))
	}
}

// electionTimer is when a voter without a leader stands for election; an observer never does.
func (m *Member) electionTimer() int64 {
	if !m.mayLead() {
		return never
	}
	return m.nowMs + m.randomElectionMs()
}

// enter changes the role and drops what belonged to the one before.
func (m *Member) enter(kind RoleKind) {
	if m.leadership != nil {
		m.abandonChange()
	}
	m.kind = kind
	m.election, m.leadership, m.following, m.successors, m.ended = nil, nil, nil, nil, nil
	m.calls.forget()
}

// toUnattached goes on without a leader, or with one of which only the id is known. In its own epoch a vote stays.
func (m *Member) toUnattached(epoch kafka.Epoch, leader kafka.NodeID) {
	invariant.Check(epoch >= m.state.Epoch, "epoch %d comes after %d", epoch, m.state.Epoch)
	timer := m.timer
	if m.kind == Leader || m.kind == Follower || timer == never || m.election != nil && m.election.over || !m.mayLead() {
		timer = m.electionTimer()
	}
	if epoch > m.state.Epoch {
		m.state = State{Epoch: epoch, Voted: kafka.NoNode}
	}
	m.state.Leader = leader
	m.enter(Unattached)
	m.leaderEndpoints, m.timer = nil, timer
}

// toProspective asks whether the others would vote for this one, without raising the epoch (KIP-996): who was cut off, or is removed,
// disturbs nobody when it comes back.
func (m *Member) toProspective() {
	m.enter(Prospective)
	m.stand()
}

func (m *Member) toCandidate() {
	m.state = State{Epoch: m.state.Epoch + 1, Leader: kafka.NoNode, Voted: m.cfg.ID, VotedDirectory: m.cfg.Directory}
	m.enter(Candidate)
	m.leaderEndpoints = nil
	m.stand()
}

func (m *Member) stand() {
	m.timer = m.nowMs + m.randomElectionMs()
	m.election = &election{votes: map[kafka.NodeID]bool{m.cfg.ID: true}, gone: map[kafka.NodeID]bool{}}
	m.countVotes()
}

// countVotes goes on as soon as an election is decided.
func (m *Member) countVotes() {
	granted, open, total := 0, 0, 0
	for _, v := range m.voters() {
		total++
		vote, heard := m.election.votes[v.ID]
		switch {
		case heard && vote:
			granted++
		case !heard && !m.election.gone[v.ID]:
			open++
		}
	}
	majority := total/2 + 1
	switch {
	case granted >= majority && m.kind == Prospective:
		m.toCandidate()
	case granted >= majority:
		m.toLeader()
	case granted+open < majority && m.kind == Prospective:
		m.standDown()
	case granted+open < majority && !m.election.over:
		m.losses++
		m.election.over = true
		m.timer = m.nowMs + m.backoffMs()
	}
}

// backoffMs spreads candidates that were in each other's way.
func (m *Member) backoffMs() int64 {
	const baseMs = 100
	return min(baseMs*(1+m.cfg.Rand.Int64N(2<<min(m.losses, 20))), m.cfg.ElectionBackoffMaxMs)
}

// standDown ends a Prospective's attempt: back to the leader, if there is one.
func (m *Member) standDown() {
	m.losses++
	if m.state.Leader != kafka.NoNode && len(m.leaderEndpoints) > 0 {
		m.toFollower(m.state.Epoch, m.state.Leader, m.leaderEndpoints)
		return
	}
	m.election.over = true
	m.toUnattached(m.state.Epoch, m.state.Leader)
}

func (m *Member) stepUnattached() {
	if m.mayLead() && !m.stopping && m.due(m.timer) {
		m.toProspective()
		return
	}
	m.fetchFromBootstrap()
}

func (m *Member) stepElection() {
	if m.due(m.timer) && !m.stopping {
		if m.kind == Prospective {
			m.standDown()
			return
		}
		if !m.election.over {
			m.losses++
		}
		m.toProspective()
		return
	}
	if m.election.over {
		return
	}
	for _, v := range m.voters() {
		to, ok := m.peer(v)
		if _, heard := m.election.votes[v.ID]; ok && !heard {
			m.send(to, voteCall, &VoteRequest{
				Epoch: m.state.Epoch, Candidate: m.key(), Voter: v.key(),
				LastEpoch: m.lastEpoch(), End: m.log.EndOffset(), PreVote: m.kind == Prospective,
			})
		}
	}
}

// vote answers a candidate.
func (m *Member) vote(r *VoteRequest) *VoteResponse {
	refuse := func(code kafka.Error) *VoteResponse { return &VoteResponse{Error: code, Current: m.current()} }
	if r.LastEpoch < 0 || r.End < 0 || r.LastEpoch > r.Epoch || r.LastEpoch == r.Epoch && !r.PreVote {
		return refuse(kafka.InvalidRequest)
	}
	if code := m.checkVoterRequest(r.Candidate.ID, r.Epoch); code != kafka.None {
		return refuse(code)
	}
	if r.Epoch > m.state.Epoch {
		m.toUnattached(r.Epoch, kafka.NoNode)
	}
	if !m.meant(r.Voter) {
		return refuse(kafka.InvalidVoterKey)
	}
	granted := m.wouldGrant(r)
	if granted && !r.PreVote && m.state.Voted == kafka.NoNode {
		m.state.Voted, m.state.VotedDirectory = r.Candidate.ID, r.Candidate.Directory
		m.enter(Unattached)
		m.timer = m.electionTimer() // the candidate has as good a chance as this one
	}
	return &VoteResponse{Current: m.current(), Granted: granted}
}

// wouldGrant decides by what is known of the epoch and by the logs: a leader must have all that is committed.
func (m *Member) wouldGrant(r *VoteRequest) bool {
	upToDate := r.LastEpoch > m.lastEpoch() || r.LastEpoch == m.lastEpoch() && r.End >= m.log.EndOffset()
	if m.plantedBugs.voteForShorter {
		upToDate = true
	}
	switch m.kind {
	case Unattached, Prospective:
		if r.PreVote {
			return upToDate
		}
		if m.state.Voted != kafka.NoNode {
			return upToDate && m.votedFor(r.Candidate)
		}
		return upToDate && m.state.Leader == kafka.NoNode
	case Follower:
		return r.PreVote && upToDate && !m.following.heard
	case Candidate, Resigned:
		return r.PreVote && upToDate
	}
	return false
}

// votedFor tells whether the vote of this epoch is a candidate's. The file of kraft.version 0 does not keep directories.
func (m *Member) votedFor(candidate ReplicaKey) bool {
	return m.state.Voted == candidate.ID && (m.state.VotedDirectory.IsZero() || m.state.VotedDirectory == candidate.Directory)
}

func (m *Member) voteAnswered(c call, r *VoteResponse) {
	if r.Error == kafka.UnsupportedVersion && m.kind == Prospective {
		m.toCandidate() // a voter that knows nothing of KIP-996
		return
	}
	if !m.learn(c, r.Error, r.Current) || m.election == nil {
		return
	}
	m.election.votes[c.message.To.ID] = r.Granted
	m.countVotes()
}

// checkVoterRequest is asked of every request among voters.
func (m *Member) checkVoterRequest(from kafka.NodeID, epoch kafka.Epoch) kafka.Error {
	switch {
	case epoch < m.state.Epoch && !m.plantedBugs.acceptStale:
		return kafka.FencedLeaderEpoch
	case from < 0:
		return kafka.InvalidRequest
	}
	return kafka.None
}

// meant tells whether a request is for this replica, as far as it says.
func (m *Member) meant(voter ReplicaKey) bool {
	return voter.ID < 0 || voter.ID == m.cfg.ID && (voter.Directory.IsZero() || voter.Directory == m.cfg.Directory)
}

func (m *Member) beginQuorumEpoch(r *BeginQuorumEpochRequest) *BeginQuorumEpochResponse {
	code := m.checkVoterRequest(r.Leader, r.Epoch)
	switch {
	case code != kafka.None:
	case !m.observe(Current{r.Leader, r.Epoch, r.Endpoints}):
		code = kafka.InvalidRequest
	case !m.meant(r.Voter):
		code = kafka.InvalidVoterKey
	}
	return &BeginQuorumEpochResponse{Error: code, Current: m.current()}
}

func (m *Member) endQuorumEpoch(r *EndQuorumEpochRequest) *EndQuorumEpochResponse {
	code := m.checkVoterRequest(r.Leader, r.Epoch)
	switch {
	case code != kafka.None:
	case !m.observe(Current{r.Leader, r.Epoch, r.Endpoints}):
		code = kafka.InvalidRequest
	case m.state.Leader == r.Leader:
		m.over = r.Epoch
		if m.kind == Follower {
			m.following.heard = false // others may be elected
			m.timer = m.nowMs + m.successionMs(r.Preferred)
		}
	}
	return &EndQuorumEpochResponse{Error: code, Current: m.current()}
}

// successionMs is how long to wait with an election when the leader goes: the best successor not at all, the others so long that it
// may have been elected.
func (m *Member) successionMs(preferred []ReplicaKey) int64 {
	if len(preferred) == 0 {
		return m.cfg.Rand.Int64N(m.patienceMs())
	}
	for i, r := range preferred {
		switch {
		case r.ID != m.cfg.ID || !r.Directory.IsZero() && r.Directory != m.cfg.Directory:
		case i == 0:
			return 0
		default:
			base := m.cfg.ElectionBackoffMaxMs >> min(len(preferred)-1, 62)
			return min(base<<min(i-1, 30), m.cfg.ElectionBackoffMaxMs)
		}
	}
	return m.cfg.ElectionBackoffMaxMs
}

// toResigned leads no more in an epoch that it led, and votes for nobody else in it.
func (m *Member) toResigned(successors []ReplicaKey) {
	m.enter(Resigned)
	m.timer = m.nowMs + m.randomElectionMs()
	m.leaderEndpoints = m.cfg.Endpoints
	m.successors, m.ended = successors, map[kafka.NodeID]bool{}
}

func (m *Member) stepResigned() {
	if m.due(m.timer) && !m.stopping {
		m.toUnattached(m.state.Epoch+1, kafka.NoNode)
		return
	}
	for _, v := range m.voters() {
		if to, ok := m.peer(v); ok && !m.ended[v.ID] {
			m.send(to, endCall, &EndQuorumEpochRequest{Leader: m.cfg.ID, Epoch: m.state.Epoch, Preferred: m.successors, Endpoints: m.cfg.Endpoints})
		}
	}
}

func (m *Member) endAnswered(c call, r *EndQuorumEpochResponse) {
	if m.learn(c, r.Error, r.Current) && m.ended != nil {
		m.ended[c.message.To.ID] = true
	}
}
