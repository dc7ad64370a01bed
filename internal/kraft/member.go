package kraft

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Config is what a member is told once. ID, Directory and Rand have no defaults.
type Config struct {
	ID        kafka.NodeID
	Directory kafka.UUID // of the metadata log
	// Endpoints are this controller's listeners as they are now, the one that other controllers should use first. Empty on a node
	// that is a broker only: it never votes.
	Endpoints []Endpoint
	// Bootstrap are controller.quorum.bootstrap.servers, or the addresses of controller.quorum.voters.
	Bootstrap []Endpoint
	// StaticVoters are controller.quorum.voters: the voters as long as the log is at kraft.version 0 and does not say them itself.
	StaticVoters []Voter
	MaxVersion   int16 // of kraft.version, which this build supports from 0 on
	AutoJoin     bool  // controller.quorum.auto.join.enable

	ElectionTimeoutMs    int64 // controller.quorum.election.timeout.ms; 1,000 by default
	ElectionBackoffMaxMs int64 // controller.quorum.election.backoff.max.ms; 1,000 by default
	FetchTimeoutMs       int64 // controller.quorum.fetch.timeout.ms; 2,000 by default
	RequestTimeoutMs     int64 // controller.quorum.request.timeout.ms; 2,000 by default
	RetryBackoffMs       int64 // controller.quorum.retry.backoff.ms; 20 by default
	FetchMaxWaitMs       int32 // how long a Fetch waits at the leader for something new; 500 by default, as Kafka's
	FetchMaxBytes        int32 // controller.quorum.fetch.max.bytes; 1 MiB by default
	SnapshotMaxBytes     int32 // controller.quorum.fetch.snapshot.max.bytes; 1 MiB by default

	Rand *rand.Rand
}

func (c Config) withDefaults() Config {
	orDefault := func(v *int64, otherwise int64) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	orDefault(&c.ElectionTimeoutMs, 1000)
	orDefault(&c.ElectionBackoffMaxMs, 1000)
	orDefault(&c.FetchTimeoutMs, 2000)
	orDefault(&c.RequestTimeoutMs, 2000)
	orDefault(&c.RetryBackoffMs, 20)
	const mebibyte = 1 << 20
	for _, bytes := range []*int32{&c.FetchMaxBytes, &c.SnapshotMaxBytes} {
		if *bytes <= 0 {
			*bytes = mebibyte
		}
	}
	if c.FetchMaxWaitMs <= 0 {
		c.FetchMaxWaitMs = 500
	}
	return c
}

// LogView is what a member looks up in its copy of the metadata log. The answers come from memory and show all that was appended,
// truncated and restored by the effects before.
type LogView interface {
	StartOffset() kafka.Offset
	EndOffset() kafka.Offset
	FlushedOffset() kafka.Offset // what lies below survives a crash
	// LatestEpoch is the last batch's, or kafka.NoEpoch when there is none.
	LatestEpoch() kafka.Epoch
	// EpochEnd returns the largest epoch in the log that is not above the asked one, and where its records end: the asked one and the
	// log's start when all are above, and (kafka.NoEpoch, kafka.NoOffset) when the asked one is above all.
	EpochEnd(kafka.Epoch) (kafka.Epoch, kafka.Offset)
	// Snapshots returns the oldest and the newest whole snapshot, without the one at offset 0; false when there is none.
	Snapshots() (oldest, newest SnapshotID, ok bool)
}

// Member is one replica of the metadata log: a voter or an observer (KIP-595, 630, 853, 996). It is not safe for concurrent use and keeps
// no clock: nowMs is a monotonic time in milliseconds, the same for all methods.
//
// Every method that returns [Effects] is an event, and they must be done before the next event. An append, a truncation and a restored
// snapshot that effects want are told at once, by events of their own inside.
type Member struct {
	cfg     Config
	log     LogView
	history History

	state           State
	kind            RoleKind
	leaderEndpoints []Endpoint
	// highWatermark never goes down, nor beyond what this replica has for good. A leader has one of its own beside it, which begins
	// unknown in each epoch.
	highWatermark kafka.Offset
	// timer is when the present role has lasted too long: a voter's election, or a follower's wait for its leader.
	timer  int64
	losses int         // elections that came to nothing since there was a leader
	over   kafka.Epoch // the newest epoch of which the leader has said that it goes; it does not come back in it

	election   *election   // of a Prospective or Candidate
	leadership *leadership // of a Leader
	following  *following  // of a Follower
	successors []ReplicaKey
	ended      map[kafka.NodeID]bool // who has taken note that this leader resigned
	absent     map[kafka.NodeID]bool // whose process was not there when it was last called, since a leader was heard of

	calls    calls
	parked   []parked
	shown    shown // to those that are parked
	stopping bool
	stopBy   int64
	// settling: effects change the log, and it is not told yet that they did. Nothing that depends on the log is decided.
	settling bool

	nowMs    int64
	deadline int64
	out      Effects
	// What was told last.
	persisted   State
	role        Role
	toldHW      kafka.Offset
	plantedBugs plantedBugs
}

// plantedBugs are for tests that show that the simulation finds them.
type plantedBugs struct {
	voteUnpersisted, commitByCount, truncateToHighWatermark, acceptStale, changeTwice, voteForShorter, reportUnflushed bool
}

const never = math.MaxInt64

// NewMember returns a member as it was when its process ended. Everything that the log holds must be in history, and flushed.
func NewMember(cfg Config, saved State, history History, log LogView) *Member {
	m := &Member{
		cfg: cfg.withDefaults(), log: log, history: history,
		state: saved, persisted: saved, highWatermark: kafka.NoOffset, toldHW: kafka.NoOffset, timer: never, stopBy: never, over: kafka.NoEpoch,
		role: Role{Kind: -1}, calls: calls{wait: map[slot]int64{}}, absent: map[kafka.NodeID]bool{},
	}
	if _, newest, ok := log.Snapshots(); ok {
		m.highWatermark = newest.End // what is in a snapshot is committed
	}
	return m
}

// Start is the first event. A quorum of one leads at once.
func (m *Member) Start(nowMs int64) Effects {
	m.nowMs = nowMs
	m.resume()
	return m.end()
}

// Deadline is when the next Tick is due, math.MaxInt64 for never. Any event may change it.
func (m *Member) Deadline() int64 { return m.deadline }

// Tick tells that time has passed.
func (m *Member) Tick(nowMs int64) Effects {
	m.begin(nowMs)
	return m.end()
}

// Answered takes the response to a message. Of a FetchResponse the caller has checked the batches: CRC and shape, that they follow on
// each other from the request's Offset on, and that no epoch goes down or is above the response's; else it says Failed.
func (m *Member) Answered(nowMs int64, id uint64, r Response) Effects {
	m.begin(nowMs)
	if c, ok := m.calls.take(id); ok {
		delete(m.absent, c.message.To.ID)
		m.answered(c, r)
	}
	return m.end()
}

// Failed tells that a message will have no response: timed out, not understood, or what came can't be used.
func (m *Member) Failed(nowMs int64, id uint64) Effects {
	m.begin(nowMs)
	if c, ok := m.calls.take(id); ok {
		m.failed(c)
	}
	return m.end()
}

// Gone is Failed, and that the node's process is not there: its connection was refused or reset, and so was the one that was tried next.
// A follower whose leader is gone asks for an election before the fetch timeout.
func (m *Member) Gone(nowMs int64, id uint64) Effects {
	m.begin(nowMs)
	if c, ok := m.calls.take(id); ok {
		m.failed(c)
		m.absent[c.message.To.ID] = true
		m.gone(c)
	}
	return m.end()
}

// Truncated tells that the log was cut as effects wanted.
func (m *Member) Truncated(nowMs int64) Effects {
	m.begin(nowMs)
	m.settling = false
	return m.end()
}

// Appended tells of batches that are in the log now, whoever wanted them: a leader's caller (only while [Member.Role] is Leader, in its
// epoch), or effects. Without batches it tells that what effects wanted appended was refused and the log is as it was.
func (m *Member) Appended(nowMs int64, batches ...Batch) Effects {
	m.begin(nowMs)
	m.settling = false
	switch {
	case len(batches) == 0 && m.kind == Leader:
		m.resign()
	case len(batches) == 0 && m.following != nil:
		m.calls.backOff(slotOf(m.leaderNode(), fetchCall), m.nowMs+m.patienceMs())
	}
	for _, b := range batches {
		if b.Controls == nil {
			continue
		}
		m.history.Add(b)
		if m.leadership != nil {
			m.noteVoters(b)
		}
		m.votersMayHaveChanged()
	}
	return m.end()
}

// Flushed tells that the log's flushed end has moved.
func (m *Member) Flushed(nowMs int64) Effects {
	m.begin(nowMs)
	switch m.kind {
	case Leader:
		m.advance()
	case Follower:
		m.followHighWatermark()
	}
	return m.end()
}

// Restored tells that the log is a downloaded snapshot and nothing more, durably.
func (m *Member) Restored(nowMs int64, id SnapshotID, membership Membership) Effects {
	m.begin(nowMs)
	m.settling = false
	m.history.Restore(id, membership)
	m.raiseHighWatermark(id.End)
	m.votersMayHaveChanged()
	return m.end()
}

// SnapshotRefused tells that a downloaded snapshot can't be used: the member asks for it again.
func (m *Member) SnapshotRefused(nowMs int64, _ SnapshotID) Effects {
	m.begin(nowMs)
	m.settling = false
	m.calls.backOff(slotOf(m.leaderNode(), fetchCall), m.nowMs+m.patienceMs())
	return m.end()
}

// Snapshotted tells that the log's start or its snapshots have changed: a snapshot was written, or old ones were removed.
func (m *Member) Snapshotted() { m.history.trim(m.log.StartOffset()) }

// Resign makes a leader of the epoch give up: it can't do its work. Others elect the next; alone it tries again after an election timeout.
func (m *Member) Resign(nowMs int64, epoch kafka.Epoch) Effects {
	m.begin(nowMs)
	if m.kind == Leader && m.state.Epoch == epoch {
		m.resign()
	}
	return m.end()
}

// Shutdown begins the end: a leader hands over. The member goes on, and must be driven, until [Member.Done].
func (m *Member) Shutdown(nowMs int64) Effects {
	m.begin(nowMs)
	m.stopping, m.stopBy = true, m.nowMs+m.cfg.RequestTimeoutMs
	if m.kind == Leader && !m.onlyVoter() {
		m.resign()
	}
	return m.end()
}

// Done tells that nothing more is to be waited for after Shutdown: there is another leader, nobody who could be, or the time is over.
func (m *Member) Done() bool {
	return m.stopping && (m.nowMs >= m.stopBy || !m.isVoter() || m.Stranded() || m.state.Leader != kafka.NoNode && m.state.Leader != m.cfg.ID)
}

// Stranded tells that nobody else can lead, or be elected: of the voters no majority is left beside those whose processes are not there. A
// quorum of one always is.
func (m *Member) Stranded() bool {
	there, total := 0, 0
	for _, v := range m.voters() {
		total++
		if !m.absent[v.ID] {
			there++
		}
	}
	return m.onlyVoter() || there < total/2+1
}

// Role returns what the member is.
func (m *Member) Role() Role {
	r := Role{Kind: m.kind, Epoch: m.state.Epoch, Leader: m.state.Leader, Endpoints: m.leaderEndpoints, Voter: m.isVoter()}
	if m.leadership != nil {
		r.EpochStart = m.leadership.start
	}
	return r
}

func (r Role) same(other Role) bool {
	return r.Kind == other.Kind && r.Epoch == other.Epoch && r.Leader == other.Leader && r.EpochStart == other.EpochStart &&
		r.Voter == other.Voter && slices.Equal(r.Endpoints, other.Endpoints)
}

// State returns what the quorum-state file should say.
func (m *Member) State() State { return m.state }

// HighWatermark returns the end of what is committed and flushed here, kafka.NoOffset while it is not known. It never goes down.
func (m *Member) HighWatermark() kafka.Offset { return m.highWatermark }

// Membership returns the newest voters, committed or not.
func (m *Member) Membership() Membership { return m.orStatic(m.history.Last()) }

// MembershipBefore returns the voters as of all records below an offset, for a snapshot that ends there.
func (m *Member) MembershipBefore(end kafka.Offset) Membership {
	return m.orStatic(m.history.Before(end))
}

// orStatic fills in the voters that kraft.version 0 does not write down.
func (m *Member) orStatic(membership Membership) Membership {
	if membership.Version == 0 {
		membership.Voters = m.cfg.StaticVoters
	}
	return membership
}

func (m *Member) voters() []Voter { return m.Membership().Voters }

// key is the member's own.
func (m *Member) key() ReplicaKey { return ReplicaKey{m.cfg.ID, m.cfg.Directory} }

// is tells whether a voter is a replica: under kraft.version 0 the directories of voters are not known.
func (v Voter) is(r ReplicaKey) bool {
	return v.ID == r.ID && (v.Directory.IsZero() || v.Directory == r.Directory)
}

func (v Voter) key() ReplicaKey { return ReplicaKey{v.ID, v.Directory} }

func compareKeys(a, b ReplicaKey) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), slices.Compare(a.Directory[:], b.Directory[:]))
}

func (m *Member) isVoter() bool {
	return slices.ContainsFunc(m.voters(), func(v Voter) bool { return v.is(m.key()) })
}

// mayLead tells whether the member stands for election: as a voter, and as one that is being removed as long as it does not know that
// the removal is committed. It may be the only one that has the record, and the voters that are left may need its vote until they have it.
func (m *Member) mayLead() bool {
	return m.isVoter() || slices.ContainsFunc(m.history.before(m.highWatermark), func(v Voter) bool { return v.is(m.key()) })
}

func (m *Member) onlyVoter() bool {
	voters := m.voters()
	return len(voters) == 1 && voters[0].is(m.key())
}

// begin lets the time pass that an event comes after, as a Tick would. A log that has changed is told of before anything is decided, however
// long the disk has taken: an election goes by the voters in it.
func (m *Member) begin(nowMs int64) {
	m.nowMs = max(m.nowMs, nowMs)
	for _, c := range m.calls.expire(m.nowMs) {
		m.failed(c)
	}
	if m.nowMs >= m.deadline && !m.settling {
		m.steps()
	}
}

// end does what is due in the present role, and returns what has come of the event.
func (m *Member) end() Effects {
	m.steps()
	m.answerParked()
	m.wakeAt(m.calls.deadline())
	if m.stopping {
		m.wakeAt(m.stopBy)
	}
	if m.state != m.persisted {
		m.persist()
	}
	if !m.Role().same(m.role) {
		m.role = m.Role()
		m.out.Role = new(m.role)
	}
	if m.highWatermark != m.toldHW {
		m.toldHW, m.out.HighWatermark = m.highWatermark, new(m.highWatermark)
	}
	out := m.out
	m.out = Effects{}
	return out
}

func (m *Member) persist() {
	if m.plantedBugs.voteUnpersisted && m.state.Epoch == m.persisted.Epoch && m.state.Voted != m.persisted.Voted {
		return
	}
	invariant.Check(m.state.Epoch >= m.persisted.Epoch, "the quorum's epoch went from %d to %d", m.persisted.Epoch, m.state.Epoch)
	m.persisted, m.out.Persist = m.state, new(m.state)
}

// steps does what is due until nothing more is.
func (m *Member) steps() {
	for again := true; again; {
		m.deadline = never
		again = m.step()
	}
}

// step does what is due, and tells whether the role has changed, so that more may be due.
func (m *Member) step() (again bool) {
	before := m.kind
	epoch := m.state.Epoch
	switch m.kind {
	case Unattached:
		m.stepUnattached()
	case Prospective, Candidate:
		m.stepElection()
	case Leader:
		m.stepLeader()
	case Follower:
		m.stepFollower()
	case Resigned:
		m.stepResigned()
	}
	return m.kind != before || m.state.Epoch != epoch
}

// wakeAt asks for a Tick.
func (m *Member) wakeAt(ms int64) {
	m.deadline = min(m.deadline, max(ms, m.nowMs+1))
}

// due tells whether a time has come, and else asks for a Tick then.
func (m *Member) due(ms int64) bool {
	if m.nowMs >= ms {
		return true
	}
	m.wakeAt(ms)
	return false
}

func (m *Member) raiseHighWatermark(to kafka.Offset) { m.highWatermark = max(m.highWatermark, to) }

// patienceMs is how long to leave a node alone that has answered, and not with what was wanted.
func (m *Member) patienceMs() int64 { return max(m.cfg.RetryBackoffMs, m.cfg.ElectionTimeoutMs/10) }

func (m *Member) randomElectionMs() int64 {
	return m.cfg.ElectionTimeoutMs + m.cfg.Rand.Int64N(m.cfg.ElectionTimeoutMs)
}

// current is what responses say of the leader.
func (m *Member) current() Current {
	return Current{Leader: m.state.Leader, Epoch: m.state.Epoch, Endpoints: m.leaderEndpoints}
}

// lastEpoch is the epoch of the log's last record, wherever that stands; 0 of an empty log.
func (m *Member) lastEpoch() kafka.Epoch {
	if epoch := m.log.LatestEpoch(); epoch != kafka.NoEpoch {
		return epoch
	}
	if _, newest, ok := m.log.Snapshots(); ok && newest.End == m.log.EndOffset() {
		return newest.Epoch
	}
	return 0
}

// epochEnd is where the records of the largest epoch up to one end.
func (m *Member) epochEnd(epoch kafka.Epoch) EpochEnd {
	found, end := m.log.EpochEnd(epoch)
	if found == kafka.NoEpoch {
		return EpochEnd{m.lastEpoch(), m.log.EndOffset()}
	}
	if oldest, _, ok := m.log.Snapshots(); ok && found == epoch && end == oldest.End {
		return EpochEnd{oldest.Epoch, oldest.End}
	}
	return EpochEnd{found, end}
}
