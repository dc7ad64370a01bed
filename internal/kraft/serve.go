package kraft

import (
	"slices"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// parked is a Fetch that waits for something new.
type parked struct {
	ticket  Ticket
	request *FetchRequest
	until   int64
}

// Handle takes a request. It is answered under its ticket, at once or by a later event, once. An answer may come for a ticket whose
// asker is gone.
func (m *Member) Handle(nowMs int64, ticket Ticket, r Request) Effects {
	m.begin(nowMs)
	switch r := r.(type) {
	case *VoteRequest:
		m.answer(ticket, m.vote(r))
	case *BeginQuorumEpochRequest:
		m.answer(ticket, m.beginQuorumEpoch(r))
	case *EndQuorumEpochRequest:
		m.answer(ticket, m.endQuorumEpoch(r))
	case *FetchRequest:
		m.fetch(ticket, r)
	case *FetchSnapshotRequest:
		m.answer(ticket, m.fetchSnapshot(r))
	case *AddVoterRequest:
		m.addVoter(ticket, r)
	case *RemoveVoterRequest:
		m.removeVoter(ticket, r)
	case *UpdateVoterRequest:
		m.answer(ticket, m.updateVoter(r))
	case *UpgradeRequest:
		m.answer(ticket, m.upgrade(r))
	default:
		invariant.Check(false, "a member of the quorum is asked for %T", r)
	}
	return m.end()
}

func (m *Member) answer(ticket Ticket, r Response) {
	m.out.Answers = append(m.out.Answers, Answer{ticket, r})
}

// checkLeaderRequest is asked of every request that only the leader of an epoch answers.
func (m *Member) checkLeaderRequest(epoch kafka.Epoch) kafka.Error {
	switch {
	case m.plantedBugs.acceptStale && m.kind == Leader:
		return kafka.None
	case epoch < m.state.Epoch:
		return kafka.FencedLeaderEpoch
	case epoch > m.state.Epoch:
		return kafka.UnknownLeaderEpoch
	case m.kind != Leader:
		return kafka.NotLeaderOrFollower
	case m.stopping:
		return kafka.BrokerNotAvailable
	}
	return kafka.None
}

func (m *Member) fetch(ticket Ticket, r *FetchRequest) {
	if r.MaxWaitMs < 0 || r.Offset < 0 || r.LastEpoch < 0 || r.LastEpoch > r.Epoch {
		m.answer(ticket, m.refuseFetch(kafka.InvalidRequest))
		return
	}
	if r.Replica.ID == m.cfg.ID && m.kind == Leader {
		m.warn("a replica with this node's id %d fetches the metadata log: another node has the same id", m.cfg.ID)
		m.answer(ticket, m.refuseFetch(kafka.UnknownServerError))
		return
	}
	response := m.verdict(r)
	if response.Error == kafka.None && r.Replica.ID >= 0 {
		m.hears(r.Replica)
		if response.Diverging == nil && response.Snapshot == nil {
			m.fetches(r.Replica, r.Offset)
			response.HighWatermark = m.leadership.highWatermark
		}
	}
	if r.MaxWaitMs == 0 || !response.empty(r) {
		m.answer(ticket, response)
		return
	}
	m.park(ticket, r)
}

// parkedMaxMs bounds how long a Fetch waits, whatever it says.
const parkedMaxMs = 30_000

// park lets a Fetch wait. One that the same replica has waiting is answered: nobody listens to it any more.
func (m *Member) park(ticket Ticket, r *FetchRequest) {
	if i := slices.IndexFunc(m.parked, func(p parked) bool { return p.request.Replica == r.Replica }); i >= 0 && r.Replica.ID >= 0 {
		m.answer(m.parked[i].ticket, m.verdict(m.parked[i].request))
		m.parked = slices.Delete(m.parked, i, i+1)
	}
	until := m.nowMs + min(int64(r.MaxWaitMs), parkedMaxMs)
	m.parked = append(m.parked, parked{ticket, r, until})
	m.shown.until = min(m.shown.until, until)
}

// verdict is what a Fetch is told now.
func (m *Member) verdict(r *FetchRequest) *FetchResponse {
	if code := m.checkLeaderRequest(r.Epoch); code != kafka.None {
		return m.refuseFetch(code)
	}
	response := &FetchResponse{
		Current: m.current(), HighWatermark: m.leadership.highWatermark, LogStart: m.log.StartOffset(), End: m.log.EndOffset(),
	}
	oldest, newest, hasSnapshot := m.log.Snapshots()
	start := m.log.StartOffset()
	switch {
	case r.Offset == 0 && hasSnapshot,
		hasSnapshot && (r.Offset < start || r.Offset == start && start > 0 && r.LastEpoch != oldest.Epoch || r.LastEpoch < oldest.Epoch):
		response.Snapshot = &newest
	case r.Offset == 0 && r.LastEpoch == 0 && start == 0:
	default:
		if own := m.epochEnd(r.LastEpoch); own.Epoch != r.LastEpoch || own.End < r.Offset {
			response.Diverging = &own
		}
	}
	return response
}

// refuseFetch is an answer with a code.
func (m *Member) refuseFetch(code kafka.Error) *FetchResponse {
	return &FetchResponse{Error: code, Current: m.current(), HighWatermark: kafka.NoOffset, LogStart: m.log.StartOffset()}
}

// empty tells whether an answer says nothing that the asker does not know.
func (r *FetchResponse) empty(to *FetchRequest) bool {
	return r.Error == kafka.None && r.Diverging == nil && r.Snapshot == nil && r.End <= to.Offset && r.HighWatermark <= to.HighWatermark
}

// shown is what an answer to a Fetch depends on.
type shown struct {
	kind               RoleKind
	end, highWatermark kafka.Offset
	until              int64 // when the first has waited long enough
}

// answerParked answers the Fetches that there is something for, or that have waited long enough.
func (m *Member) answerParked() {
	if len(m.parked) == 0 {
		return
	}
	now := shown{kind: m.kind, end: m.log.EndOffset(), until: m.shown.until}
	if m.kind == Leader {
		now.highWatermark = m.leadership.highWatermark
	}
	if now == m.shown && !m.due(now.until) {
		return
	}
	m.parked = slices.DeleteFunc(m.parked, func(p parked) bool {
		if m.kind != Leader {
			m.answer(p.ticket, m.refuseFetch(kafka.NotLeaderOrFollower))
			return true
		}
		response := m.verdict(p.request)
		if response.empty(p.request) && !m.due(p.until) {
			return false
		}
		m.answer(p.ticket, response)
		return true
	})
	now.until = never
	for _, p := range m.parked {
		now.until = min(now.until, p.until)
	}
	m.shown = now
}

// fetchSnapshot decides whether a part of a snapshot is given; which bytes, the caller knows.
func (m *Member) fetchSnapshot(r *FetchSnapshotRequest) *FetchSnapshotResponse {
	code := m.checkLeaderRequest(r.Epoch)
	switch {
	case code != kafka.None:
	case r.Snapshot == SnapshotID{}:
		code = kafka.SnapshotNotFound
	case r.Position < 0:
		code = kafka.PositionOutOfRange
	default:
		m.hears(r.Replica)
	}
	return &FetchSnapshotResponse{Error: code, Current: m.current(), Snapshot: r.Snapshot, Position: r.Position}
}
