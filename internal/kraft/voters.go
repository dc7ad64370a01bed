package kraft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// voterChange is an AddVoter or RemoveVoter that waits: there is one at a time, so that the majorities before and after it overlap.
type voterChange struct {
	ticket Ticket
	add    *AddVoterRequest // nil when a voter is removed
	at     kafka.Offset     // of the voters' record; NoOffset until it is appended
	until  int64
}

// caughtUpMs is how recently a new voter has to have fetched.
const caughtUpMs = 60 * 60 * 1000

// self is this member as its entry in the voters' record should be.
func (m *Member) self() Voter {
	return Voter{ID: m.cfg.ID, Directory: m.cfg.Directory, Endpoints: m.cfg.Endpoints, MaxVersion: m.cfg.MaxVersion}
}

// needsUpdate tells whether the voters' record says something else of this voter.
func (m *Member) needsUpdate() bool {
	self := m.self()
	return slices.ContainsFunc(m.voters(), func(v Voter) bool { return v.is(m.key()) && !v.same(self) })
}

// same tells whether two entries say the same; the order of endpoints says nothing.
func (v Voter) same(other Voter) bool {
	sorted := func(endpoints []Endpoint) []Endpoint {
		return slices.SortedFunc(slices.Values(endpoints), func(a, b Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	}
	return v.key() == other.key() && v.MinVersion == other.MinVersion && v.MaxVersion == other.MaxVersion &&
		slices.Equal(sorted(v.Endpoints), sorted(other.Endpoints))
}

// tellLeader makes what the leader knows of this replica true: an observer that is to vote asks to (KIP-1186), after its former
// directory was removed; a voter tells its endpoints. It tells whether that has to be looked at again only after a while.
func (m *Member) tellLeader() bool {
	membership := m.Membership()
	switch {
	case m.isVoter() && membership.Version > 0 && !m.needsUpdate(), m.isVoter() && membership.Version == 0 && m.following.updated,
		len(m.cfg.Endpoints) == 0:
		return true
	case m.isVoter():
		return m.send(m.leaderNode(), voterCall, &UpdateVoterRequest{Epoch: m.state.Epoch, Voter: m.self()})
	case membership.Version == 0 || !m.cfg.AutoJoin:
		return true
	}
	for _, v := range membership.Voters {
		if v.ID == m.cfg.ID {
			return m.send(m.leaderNode(), voterCall, &RemoveVoterRequest{Voter: v.key()})
		}
	}
	return m.send(m.leaderNode(), voterCall, &AddVoterRequest{TimeoutMs: int32(m.cfg.RequestTimeoutMs), Voter: m.self()})
}

func (m *Member) updateVoterAnswered(c call, r *UpdateVoterResponse) {
	proceed := r.Error == kafka.UnsupportedVersion || m.learn(c, r.Error, r.Current)
	if proceed && m.following != nil {
		m.following.updated = true // or the leader knows nothing of it under kraft.version 0
	}
}

// noteVoters takes note of where a change was appended, which some wait for.
func (m *Member) noteVoters(b Batch) {
	change := m.leadership.change
	for i, c := range b.Controls {
		if _, is := c.(VotersChange); !is || change == nil || change.at != kafka.NoOffset {
			continue
		}
		change.at = b.Base + kafka.Offset(i)
		if change.add != nil && !change.add.AckWhenCommitted {
			m.answer(change.ticket, &AddVoterResponse{})
		}
	}
}

// endChange answers who waits for the change.
func (m *Member) endChange(code kafka.Error, message string) {
	c := m.leadership.change
	m.leadership.change = nil
	if c == nil || c.add != nil && c.at != kafka.NoOffset && !c.add.AckWhenCommitted {
		return // answered when it was appended
	}
	if c.add != nil {
		m.answer(c.ticket, &AddVoterResponse{code, message})
		return
	}
	m.answer(c.ticket, &RemoveVoterResponse{code, message})
}

// abandonChange answers when the leader is none any more. The change may still come about.
func (m *Member) abandonChange() { m.endChange(kafka.NotLeaderOrFollower, "") }

// mayChange tells why the voters can't be changed now.
func (m *Member) mayChange(what string) (kafka.Error, string) {
	membership, hw := m.history.Last(), m.leadership.highWatermark
	switch {
	case m.plantedBugs.changeTwice && membership.Version > 0:
		return kafka.None, ""
	case m.leadership.leaveAt > 0:
		return kafka.NotLeaderOrFollower, ""
	case m.leadership.change != nil:
		return kafka.RequestTimedOut, "Request timed out waiting for leader to handle previous voter change request"
	case hw == kafka.NoOffset:
		return kafka.RequestTimedOut, "Request timed out waiting for leader to establish HWM and fence previous voter changes"
	case membership.Version == 0:
		return kafka.UnsupportedVersion, fmt.Sprintf("Cluster doesn't support %s voter because the kraft.version feature is 0", what)
	case m.history.lastAt() >= hw:
		return kafka.RequestTimedOut, fmt.Sprintf("Request timed out waiting for voters to commit the latest voter change at %d with HWM %d", m.history.lastAt(), hw)
	}
	return kafka.None, ""
}

func (m *Member) addVoter(ticket Ticket, r *AddVoterRequest) {
	refuse := func(code kafka.Error, message string) { m.answer(ticket, &AddVoterResponse{code, message}) }
	if code := m.checkLeaderRequest(m.state.Epoch); code != kafka.None {
		refuse(code, "")
		return
	}
	if r.Voter.ID < 0 || r.Voter.Directory.IsZero() {
		refuse(kafka.InvalidRequest, "Add voter request didn't include a valid voter")
		return
	}
	if !m.hasDefaultListener(r.Voter.Endpoints) {
		refuse(kafka.InvalidRequest, fmt.Sprintf("Add voter request didn't include the endpoint (Endpoints(endpoints={%s})) for the default listener ListenerName(%s)",
			endpointsText(r.Voter.Endpoints), m.cfg.Endpoints[0].Name))
		return
	}
	if code, message := m.mayChange("adding"); code != kafka.None {
		refuse(code, message)
		return
	}
	if slices.ContainsFunc(m.voters(), func(v Voter) bool { return v.ID == r.Voter.ID }) {
		refuse(kafka.DuplicateVoter, fmt.Sprintf("The voter id for %s is already part of the set of voters %s.", r.Voter.key(), votersText(m.voters())))
		return
	}
	endpoint, _ := m.endpointOf(r.Voter.Endpoints)
	if !m.send(Node{r.Voter.ID, endpoint}, versionsCall, &VersionsRequest{}) {
		refuse(kafka.RequestTimedOut, fmt.Sprintf("New voter %s is not ready to receive requests", r.Voter.key()))
		return
	}
	m.leadership.change = &voterChange{ticket: ticket, add: r, at: kafka.NoOffset, until: m.nowMs + m.cfg.RequestTimeoutMs}
}

// versionsUnknown ends an AddVoter whose voter did not say what it supports.
func (m *Member) versionsUnknown(code kafka.Error) {
	if m.leadership != nil && m.leadership.change != nil && m.leadership.change.at == kafka.NoOffset {
		m.endChange(kafka.RequestTimedOut, "Aborted add voter operation for since API_VERSIONS returned an error "+code.Name())
	}
}

func (m *Member) versionsAnswered(r *VersionsResponse) {
	if m.leadership == nil || m.leadership.change == nil || m.leadership.change.add == nil || m.leadership.change.at != kafka.NoOffset {
		return
	}
	if r.Error != kafka.None {
		m.versionsUnknown(r.Error)
		return
	}
	change, membership := m.leadership.change, m.history.Last()
	voter := change.add.Voter
	voter.MinVersion, voter.MaxVersion = r.MinVersion, r.MaxVersion
	switch {
	case !voter.supports(membership.Version):
		m.endChange(kafka.InvalidRequest, fmt.Sprintf("Aborted add voter operation for %s since the kraft.version range (min: %d, max: %d doesn't support the finalized version %d",
			voter.key(), r.MinVersion, r.MaxVersion, membership.Version))
	case !m.caughtUp(voter.key()):
		m.endChange(kafka.RequestTimedOut, fmt.Sprintf("Aborted add voter operation for %s since it is lagging behind", voter.key()))
	default:
		voters := append(slices.Clone(membership.Voters), voter)
		slices.SortFunc(voters, func(a, b Voter) int { return cmp.Compare(a.ID, b.ID) })
		m.appendControls(VotersChange{voters})
	}
}

func (v Voter) supports(version int16) bool {
	return v.MinVersion <= version && version <= v.MaxVersion
}

// caughtUp tells whether a replica would hold up the high watermark if it voted.
func (m *Member) caughtUp(r ReplicaKey) bool {
	p := m.leadership.replicas[r]
	return p != nil && p.caughtMs >= 0 && p.fetchMs > m.nowMs-caughtUpMs
}

func (m *Member) removeVoter(ticket Ticket, r *RemoveVoterRequest) {
	refuse := func(code kafka.Error, message string) { m.answer(ticket, &RemoveVoterResponse{code, message}) }
	if code := m.checkLeaderRequest(m.state.Epoch); code != kafka.None {
		refuse(code, "")
		return
	}
	if r.Voter.ID < 0 || r.Voter.Directory.IsZero() {
		refuse(kafka.InvalidRequest, "Remove voter request didn't include a valid voter")
		return
	}
	if code, message := m.mayChange("removing"); code != kafka.None {
		refuse(code, message)
		return
	}
	voters := m.voters()
	left := slices.DeleteFunc(slices.Clone(voters), func(v Voter) bool { return v.key() == r.Voter })
	if len(left) == len(voters) || len(left) == 0 {
		refuse(kafka.VoterNotFound, fmt.Sprintf("Cannot remove voter %s from the set of voters %s", r.Voter, votersText(voters)))
		return
	}
	m.leadership.change = &voterChange{ticket: ticket, at: kafka.NoOffset, until: m.nowMs + m.cfg.RequestTimeoutMs}
	m.appendControls(VotersChange{left})
}

func (m *Member) updateVoter(r *UpdateVoterRequest) *UpdateVoterResponse {
	code := m.decideUpdateVoter(r)
	return &UpdateVoterResponse{Error: code, Current: m.current()}
}

func (m *Member) decideUpdateVoter(r *UpdateVoterRequest) kafka.Error {
	if code := m.checkLeaderRequest(r.Epoch); code != kafka.None {
		return code
	}
	v, membership := r.Voter, m.Membership()
	if v.ID < 0 || v.Directory.IsZero() || !m.hasDefaultListener(v.Endpoints) || v.MinVersion < 0 || v.MaxVersion < v.MinVersion {
		return kafka.InvalidRequest
	}
	hw := m.leadership.highWatermark
	if m.leadership.leaveAt > 0 || m.leadership.change != nil || hw == kafka.NoOffset || membership.Version > 0 && m.history.lastAt() >= hw {
		return kafka.RequestTimedOut
	}
	if !v.supports(membership.Version) {
		return kafka.InvalidRequest
	}
	i := slices.IndexFunc(membership.Voters, func(old Voter) bool { return old.is(v.key()) })
	if i < 0 {
		return kafka.VoterNotFound
	}
	m.hears(v.key())
	if membership.Version == 0 {
		m.leadership.volunteers[v.ID] = v
		return kafka.None
	}
	if !membership.Voters[i].same(v) {
		voters := slices.Clone(membership.Voters)
		voters[i] = v
		m.appendControls(VotersChange{voters})
	}
	return kafka.None
}

// upgrade raises kraft.version: from then on the log says who votes. The voters have told of their directories with UpdateVoter.
func (m *Member) upgrade(r *UpgradeRequest) *UpgradeResponse {
	refuse := func(code kafka.Error, format string, args ...any) *UpgradeResponse {
		return &UpgradeResponse{code, fmt.Sprintf(format, args...)}
	}
	if code := m.checkLeaderRequest(m.state.Epoch); code != kafka.None {
		return refuse(code, "")
	}
	membership := m.Membership()
	switch {
	case membership.Version == r.Level:
		return &UpgradeResponse{}
	case membership.Version > r.Level:
		return refuse(kafka.InvalidUpdateVersion, "Invalid upgrade of kraft.version from version %d to %d because the new version is a downgrade", membership.Version, r.Level)
	}
	var voters []Voter
	for _, v := range membership.Voters {
		told, ok := m.leadership.volunteers[v.ID]
		if !ok || !told.supports(r.Level) {
			return refuse(kafka.InvalidUpdateVersion, "Invalid upgrade of kraft.version to %d because not all of the voters support it", r.Level)
		}
		voters = append(voters, told)
	}
	if !r.ValidateOnly {
		slices.SortFunc(voters, func(a, b Voter) int { return cmp.Compare(a.ID, b.ID) })
		m.appendControls(VersionChange{r.Level}, VotersChange{voters})
	}
	return &UpgradeResponse{}
}

// hasDefaultListener tells whether endpoints name the listener at which controllers reach each other.
func (m *Member) hasDefaultListener(endpoints []Endpoint) bool {
	return slices.ContainsFunc(endpoints, func(e Endpoint) bool { return e.Name == m.cfg.Endpoints[0].Name })
}

// endpointsText, String and votersText name things as Kafka's messages do: people search for those.
func endpointsText(endpoints []Endpoint) string {
	texts := make([]string, len(endpoints))
	for i, e := range endpoints {
		texts[i] = fmt.Sprintf("ListenerName(%s)=%s/<unresolved>:%d", e.Name, e.Host, e.Port)
	}
	return strings.Join(texts, ", ")
}

// String names the replica.
func (r ReplicaKey) String() string {
	if r.Directory.IsZero() {
		return fmt.Sprintf("ReplicaKey(id=%d, directoryId=<undefined>)", r.ID)
	}
	return fmt.Sprintf("ReplicaKey(id=%d, directoryId=%s)", r.ID, r.Directory)
}

func votersText(voters []Voter) string {
	texts := make([]string, len(voters))
	for i, v := range voters {
		texts[i] = v.key().String()
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
