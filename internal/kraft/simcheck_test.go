package kraft

import (
	"fmt"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// checker looks at a world after every event.
type checker struct {
	w       *world
	failure string

	leaders   map[kafka.Epoch][2]int // node and incarnation
	grants    map[grant]ReplicaKey
	committed []commit
	snapshots map[SnapshotID]Membership
	buried    []buried
	seen      map[kafka.NodeID]*seen

	commits, elections, changes, truncations, downloads, warnings, moves int
}

// commit is a committed batch, and the epoch of the leader that committed it first.
type commit struct {
	simBatch
	by kafka.Epoch
}

type grant struct {
	voter ReplicaKey
	epoch kafka.Epoch
}

// buried is a disk that was wiped: it counts for what was committed before.
type buried struct {
	key ReplicaKey
	log *simLog
}

// seen is a process as it was after the last event.
type seen struct {
	incarnation             int
	highWatermark, leaderHW kafka.Offset
	leaderEpoch             kafka.Epoch
}

func newChecker(w *world) *checker {
	return &checker{
		w: w, leaders: map[kafka.Epoch][2]int{}, grants: map[grant]ReplicaKey{}, snapshots: map[SnapshotID]Membership{}, seen: map[kafka.NodeID]*seen{},
	}
}

func (c *checker) fail(format string, args ...any) {
	if c.failure == "" {
		c.failure = fmt.Sprintf("%d ms: %s", c.w.nowMs, fmt.Sprintf(format, args...))
	}
}

func (c *checker) committedEnd() kafka.Offset {
	if len(c.committed) == 0 {
		return 0
	}
	return c.committed[len(c.committed)-1].end
}

// from is the index of the committed batch that an offset is in.
func (c *checker) from(offset kafka.Offset) int {
	i, _ := slices.BinarySearchFunc(c.committed, offset, func(b commit, offset kafka.Offset) int {
		if b.end <= offset {
			return -1
		}
		return 1
	})
	return i
}

func (c *checker) started(n *simNode) {
	c.seen[n.id] = &seen{incarnation: n.incarnation, highWatermark: n.member.HighWatermark(), leaderHW: kafka.NoOffset}
}

// persisted: epochs grow, and in an epoch a vote and a leader stay.
func (c *checker) persisted(n *simNode, s State) {
	old := n.state
	switch {
	case s.Epoch < old.Epoch:
		c.fail("node %d goes from epoch %d to %d", n.id, old.Epoch, s.Epoch)
	case s.Epoch > old.Epoch:
	case old.Voted != kafka.NoNode && (s.Voted != old.Voted || s.VotedDirectory != old.VotedDirectory):
		c.fail("node %d changes its vote of epoch %d from %d to %d", n.id, s.Epoch, old.Voted, s.Voted)
	case old.Leader != kafka.NoNode && s.Leader != old.Leader:
		c.fail("node %d takes %d for the leader of epoch %d, and before %d", n.id, s.Leader, s.Epoch, old.Leader)
	}
}

// truncated: nothing that the replica knows to be committed goes.
func (c *checker) truncated(n *simNode, end kafka.Offset) {
	c.truncations++
	if end < n.member.HighWatermark() {
		c.fail("node %d truncates to %d, below its high watermark %d", n.id, end, n.member.HighWatermark())
	}
}

// answered: one vote in an epoch, remembered before it is given; and no change of voters is said to be done before it is committed.
func (c *checker) answered(n *simNode, a simAsker, r Response) {
	switch r := r.(type) {
	case *VoteResponse:
		q := a.request.(*VoteRequest)
		if !r.Granted || q.PreVote {
			return
		}
		key := grant{n.voter().key(), q.Epoch}
		if before, voted := c.grants[key]; voted && before != q.Candidate {
			c.fail("node %d votes for %v in epoch %d, and has voted for %v", n.id, q.Candidate, q.Epoch, before)
		}
		c.grants[key] = q.Candidate
		if n.state.Epoch != q.Epoch || n.state.Voted != q.Candidate.ID {
			c.fail("node %d votes for %v in epoch %d, and its quorum-state says %+v", n.id, q.Candidate, q.Epoch, n.state)
		}
	case *UpgradeResponse:
		c.w.detail(n, "change says %T %v %s", r, r.Error, r.Message)
	case *AddVoterResponse:
		c.w.detail(n, "change says %T %v", r, r.Error)
		q := a.request.(*AddVoterRequest)
		if r.Error == kafka.None {
			c.changes++
			c.changed(n, q.AckWhenCommitted, "added", slices.ContainsFunc(n.member.voters(), func(v Voter) bool { return v.key() == q.Voter.key() }))
		}
	case *RemoveVoterResponse:
		c.w.detail(n, "change says %T %v", r, r.Error)
		q := a.request.(*RemoveVoterRequest)
		if r.Error == kafka.None {
			c.changes++
			c.changed(n, true, "removed", !slices.ContainsFunc(n.member.voters(), func(v Voter) bool { return v.key() == q.Voter }))
		}
	}
}

func (c *checker) changed(n *simNode, committed bool, what string, is bool) {
	l := n.member.leadership // nil when it has resigned in the same event
	if !is || committed && l != nil && n.member.history.lastAt() >= l.highWatermark {
		c.fail("node %d says that a voter is %s, and has voters %s at %d, high watermark %d", n.id, what, votersText(n.member.voters()), n.member.history.lastAt(), n.member.HighWatermark())
	}
}

// leaderAppends: voters change one at a time, and only when the change before is committed.
func (c *checker) leaderAppends(n *simNode, b simBatch) {
	for _, control := range b.controls {
		change, is := control.(VotersChange)
		if !is {
			continue
		}
		old := n.member.history.Last()
		if old.Version == 0 {
			continue // the static voters are written down
		}
		differ := 0
		for _, v := range old.Voters {
			if !slices.ContainsFunc(change.Voters, func(w Voter) bool { return w.key() == v.key() }) {
				differ++
			}
		}
		for _, v := range change.Voters {
			if !slices.ContainsFunc(old.Voters, func(w Voter) bool { return w.key() == v.key() }) {
				differ++
			}
		}
		if at := n.member.history.lastAt(); differ > 1 || differ == 1 && at >= n.member.leadership.highWatermark {
			c.fail("node %d changes %d voters, from %s at %d to %s, high watermark %d", n.id, differ, votersText(old.Voters), at, votersText(change.Voters), n.member.leadership.highWatermark)
		}
	}
}

// role: one leader in an epoch, which has all that leaders before it have committed.
func (c *checker) role(n *simNode, r Role) {
	if r.Kind != Leader {
		return
	}
	c.elections++
	me := [2]int{int(n.id), n.incarnation}
	if other, taken := c.leaders[r.Epoch]; taken && other != me {
		c.fail("epoch %d has two leaders: node %d (process %d) and node %d (process %d)", r.Epoch, other[0], other[1], me[0], me[1])
	}
	c.leaders[r.Epoch] = me
	for _, b := range c.committed[c.from(n.log.start):] {
		if b.by < r.Epoch && !n.has(b.simBatch) {
			c.fail("node %d leads epoch %d without %d-%d, which was committed in epoch %d", n.id, r.Epoch, b.base, b.end, b.by)
			return
		}
	}
}

// has tells whether a log holds a batch, or a snapshot instead of it.
func (n *simNode) has(b simBatch) bool { return n.log.has(b, len(n.log.batches)) }

func (l *simLog) has(b simBatch, count int) bool {
	if b.end <= l.start {
		return true
	}
	i := l.from(b.base)
	return i < count && l.batches[i].same(b)
}

// after looks at what a node knows to be committed.
func (c *checker) after(n *simNode) {
	m, s := n.member, c.seen[n.id]
	if m.leadership != nil && m.leadership.highWatermark != kafka.NoOffset {
		if s.leaderEpoch != m.state.Epoch {
			s.leaderEpoch, s.leaderHW = m.state.Epoch, kafka.NoOffset
		}
		if m.leadership.highWatermark < s.leaderHW {
			c.fail("leader %d of epoch %d: the high watermark goes from %d to %d", n.id, m.state.Epoch, s.leaderHW, m.leadership.highWatermark)
		}
		if m.leadership.highWatermark > s.leaderHW {
			s.leaderHW = m.leadership.highWatermark
			c.leaderCommits(n, s.leaderHW)
		}
	}
	hw := m.HighWatermark()
	if m.kind == Resigned && hw > s.highWatermark { // it has led until this event, and committed in it
		c.leaderCommits(n, hw)
	}
	switch {
	case hw < s.highWatermark:
		c.fail("node %d: the high watermark goes from %d to %d", n.id, s.highWatermark, hw)
	case hw > n.log.FlushedOffset():
		c.fail("node %d: the high watermark %d is beyond what is flushed, %d", n.id, hw, n.log.FlushedOffset())
	case hw > c.committedEnd():
		c.fail("node %d: the high watermark %d is beyond what any leader has committed, %d", n.id, hw, c.committedEnd())
	case hw > s.highWatermark:
		for _, b := range c.committed[c.from(max(s.highWatermark, n.log.start, 0)):c.from(hw)] {
			if !n.has(b.simBatch) {
				c.fail("node %d takes for committed something else than %d-%d of epoch %d", n.id, b.base, b.end, b.epoch)
			}
		}
		s.highWatermark = hw
	}
}

// leaderCommits: a majority of the voters has what is committed, durably, and it is what was committed before and more.
func (c *checker) leaderCommits(n *simNode, hw kafka.Offset) {
	if hw == 0 {
		return
	}
	for _, b := range n.log.batches[n.log.from(min(c.committedEnd(), hw-1)):] {
		if b.base < c.committedEnd() || b.end > hw {
			continue
		}
		if b.base != c.committedEnd() {
			c.fail("leader %d commits %d-%d after %d", n.id, b.base, b.end, c.committedEnd())
		}
		c.committed = append(c.committed, commit{b, n.member.state.Epoch})
		c.commits++
	}
	if hw > c.committedEnd() {
		c.fail("leader %d has a high watermark of %d inside a batch: %d", n.id, hw, c.committedEnd())
		return
	}
	last := c.committed[c.from(hw-1)].simBatch
	if !n.has(last) {
		c.fail("leader %d of epoch %d commits at %d something else than %d-%d of epoch %d", n.id, n.member.state.Epoch, hw, last.base, last.end, last.epoch)
	}
	c.noneWins(n, last)
	holds := 0
	voters := n.member.voters()
	for _, v := range voters {
		if c.holds(v, last) {
			holds++
		}
	}
	if holds < len(voters)/2+1 {
		c.fail("leader %d of epoch %d commits up to %d, which %d of %d voters have flushed", n.id, n.member.state.Epoch, hw, holds, len(voters))
	}
}

// noneWins: whatever crashes and elections come now, nobody can be elected without what was committed.
func (c *checker) noneWins(leader *simNode, last simBatch) {
	for _, n := range c.w.nodes {
		for _, count := range []int{n.log.durable, len(n.log.batches)} {
			if n.log.has(last, count) {
				continue
			}
			h := n.log.historyOf(n.formatted, count)
			voters := h.Last().Voters
			if h.Last().Version == 0 {
				voters = n.static
			}
			votes := 0
			for _, v := range voters {
				if u := c.w.node(v.ID); v.is(u.voter().key()) && !n.log.isBehind(count, u.log) {
					votes++
				}
			}
			stands := slices.ContainsFunc(voters, func(v Voter) bool { return v.is(n.voter().key()) })
			if stands && votes >= len(voters)/2+1 {
				c.fail("leader %d of epoch %d has committed %d-%d of epoch %d, and node %d can be elected without", leader.id, leader.member.state.Epoch, last.base, last.end, last.epoch, n.id)
			}
		}
	}
}

// isBehind tells whether a log of so many batches is refused by somebody of whose log at least the durable part is left.
func (l *simLog) isBehind(count int, voter *simLog) bool {
	mine, theirs := l.lastOf(count), voter.lastOf(voter.durable)
	return mine.Epoch < theirs.Epoch || mine.Epoch == theirs.Epoch && mine.End < theirs.End
}

func (l *simLog) lastOf(count int) EpochEnd {
	if count > 0 {
		return EpochEnd{l.batches[count-1].epoch, l.batches[count-1].end}
	}
	if len(l.snaps) > 0 {
		return EpochEnd{l.snaps[0].Epoch, l.snaps[0].End}
	}
	return EpochEnd{}
}

// holds tells whether a voter has something for good, or had until its disk was wiped.
func (c *checker) holds(v Voter, b simBatch) bool {
	if n := c.w.node(v.ID); v.is(n.voter().key()) && n.log.has(b, n.log.durable) {
		return true
	}
	return slices.ContainsFunc(c.buried, func(old buried) bool { return v.is(old.key) && old.log.has(b, old.log.durable) })
}

// snapshot: it says what the committed log says.
func (c *checker) snapshot(n *simNode, id SnapshotID, m Membership) {
	i := c.from(id.End - 1)
	if i >= len(c.committed) || c.committed[i].end != id.End || c.committed[i].epoch != id.Epoch {
		c.fail("node %d makes snapshot %v of what is not committed", n.id, id)
		return
	}
	h := History{}
	if c.w.cfg.version == 1 {
		h.Restore(SnapshotID{}, c.w.formatted)
	}
	for _, b := range c.committed[:i+1] {
		h.Add(b.told())
	}
	want := n.member.orStatic(h.Last())
	if m.Version != want.Version || !sameVoters(m.Voters, want.Voters) {
		c.fail("node %d makes snapshot %v with voters %s of version %d, want %s of version %d", n.id, id, votersText(m.Voters), m.Version, votersText(want.Voters), want.Version)
	}
	c.snapshots[id] = m
}

// quiet: every request was answered, or waits for what has to end.
func (c *checker) quiet() {
	for _, n := range c.w.nodes {
		if n.member == nil {
			continue
		}
		for _, ticket := range slices.Sorted(maps.Keys(n.tickets)) {
			if !n.member.waits(ticket) {
				c.fail("node %d has never answered %+v", n.id, n.tickets[ticket].request)
			}
		}
	}
}

// waits tells whether a request is a parked Fetch or the change of the voters that is under way: both end with their time at the latest.
func (m *Member) waits(ticket Ticket) bool {
	return m.leadership != nil && m.leadership.change != nil && m.leadership.change.ticket == ticket ||
		slices.ContainsFunc(m.parked, func(p parked) bool { return p.ticket == ticket })
}
