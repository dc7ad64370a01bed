package group

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

var (
	historySeed = flag.Uint64("history.seed", 0, "run TestHistories with this seed only")
	historyRuns = flag.Int("history.runs", 60, "how many seeds TestHistories runs")
)

// TestHistories lets random clients use random groups for a while, with refused writes and crashes, and producers commit offsets in
// transactions whose markers come late, twice or after a crash; and checks after every step what must hold at any time. To repeat
// a failure: go test ./internal/group -run Histories -history.seed N
func TestHistories(t *testing.T) {
	if *historySeed != 0 {
		runHistory(t, *historySeed)
		return
	}
	first := uint64(time.Now().UnixNano())
	for i := range uint64(*historyRuns) {
		runHistory(t, first+i)
		if t.Failed() {
			return
		}
	}
}

const historySteps = 400

// history is one run: the machine, the log, and what clients have been told.
type history struct {
	t       *testing.T
	seed    uint64
	step    int
	rand    *rand.Rand
	now     time.Time
	live    *Machine
	shadow  *Machine // reads the log as it grows: what a restart would know
	log     []logged
	tickets Ticket
	asked   map[Ticket]question
	ending  map[kafka.ProducerID]bool // transactions that are decided, and whose markers are on their way: whether they commit

	acked    map[string]map[kafka.TopicPartition]kafka.Offset // offsets that clients know to be stored
	given    map[string]string                                // by group, generation and member: the assignment
	ids      map[string][]string                              // member ids heard of, by group
	last     map[string]int32                                 // the last generation heard of, by group
	diverged map[string]bool                                  // groups that are empty although the log does not know
}

type question struct {
	group string
	cmd   Command
}

func runHistory(t *testing.T, seed uint64) {
	h := &history{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), now: scenarioStart, asked: map[Ticket]question{},
		ending: map[kafka.ProducerID]bool{},
		acked:  map[string]map[kafka.TopicPartition]kafka.Offset{}, given: map[string]string{}, ids: map[string][]string{},
		last: map[string]int32{}, diverged: map[string]bool{},
	}
	h.live, h.shadow = h.machine(), h.machine()
	for h.step = range historySteps {
		switch n := h.rand.IntN(100); {
		case n < 80:
			h.command()
		case n < 84:
			h.decide()
		case n < 88:
			h.marker()
		case n < 97:
			h.pass(time.Duration(h.rand.IntN(8000)) * time.Millisecond)
		case n < 98:
			h.do(h.live.TopicsDeleted([]string{"t2"}))
			h.do(h.live.Expire(h.now)) // of groups, not of offsets: these are kept for a year
		default:
			h.crash()
		}
		h.check()
		if t.Failed() {
			return
		}
	}
	// Left alone, everything ends: every request is answered, every group is empty.
	h.pass(time.Hour)
	for producer := range historyProducers {
		h.end(producer, h.ending[producer])
	}
	h.check()
	if len(h.asked) > 0 {
		h.fail("an hour later %d requests have no answer: %v", len(h.asked), h.asked)
	}
	for _, g := range h.live.List() {
		if g.State != Empty {
			h.fail("an hour later group %s is %v", g.Group, g.State)
		}
	}
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Errorf("step %d: %s\nrepeat with: go test ./internal/group -run Histories -history.seed %d", h.step,
		fmt.Sprintf(format, args...), h.seed)
}

func (h *history) machine() *Machine {
	cfg := testConfig()
	cfg.MembersMax = 4
	cfg.InitialRebalanceDelay = time.Duration(h.rand.IntN(3)) * time.Second
	cfg.OffsetsRetention = 365 * 24 * time.Hour
	return New(cfg, func(b []byte) {
		for i := range b {
			b[i] = byte(h.rand.Uint32())
		}
	})
}

func pick[T any](h *history, list ...T) T { return list[h.rand.IntN(len(list))] }

func (h *history) command() {
	group := pick(h, "a", "b")
	member := pick(h, append(h.ids[group], "", "", "unknown")...)
	generation := h.last[group] - int32(h.rand.IntN(10)/9)
	instance := pick(h, nil, nil, new("i1"), new("i2"))
	h.tickets++
	var cmd Command
	switch h.rand.IntN(14) {
	case 0, 1, 2:
		cmd = &Join{
			MemberID: member, InstanceID: instance, ClientID: "c", ClientHost: "/1", SessionTimeoutMs: 6000, RebalanceTimeoutMs: 10_000,
			ProtocolType: "consumer", Protocols: []Protocol{{Name: pick(h, "range", "range", "sticky"), Metadata: subscription("", "t1")}},
			MemberIDRequired: h.rand.IntN(2) == 0, CanSkipAssignment: h.rand.IntN(2) == 0,
		}
	case 3, 4, 5:
		sync := &Sync{MemberID: member, InstanceID: instance, Generation: generation}
		for i, id := range h.ids[group] {
			sync.Assignments = append(sync.Assignments, Assignment{MemberID: id, Bytes: fmt.Appendf(nil, "%d-%d-%d", generation, h.tickets, i)})
		}
		cmd = sync
	case 6, 7:
		cmd = &Heartbeat{MemberID: member, InstanceID: instance, Generation: generation}
	case 8:
		cmd = &Leave{Members: []Leaving{{MemberID: member, InstanceID: instance}}}
	case 9, 10:
		commit := &Commit{MemberID: member, InstanceID: instance, Generation: generation, RetentionMs: -1, UnknownGroup: kafka.IllegalGeneration}
		if h.rand.IntN(3) == 0 {
			commit.MemberID, commit.InstanceID, commit.Generation = "", nil, -1
		}
		commit.Topics = h.commitTopics()
		cmd = commit
	case 11, 12:
		producer := kafka.ProducerID(h.rand.IntN(int(historyProducers)))
		if _, over := h.ending[producer]; over {
			return // it has ended its transaction, and the guard keeps what is late away
		}
		commit := &TxnCommit{
			ProducerID: producer, MemberID: member, InstanceID: instance, Generation: generation, UnknownGroup: kafka.GroupIdNotFound,
			StaleEpoch: kafka.StaleMemberEpoch, Topics: h.commitTopics(),
		}
		if h.rand.IntN(2) == 0 {
			commit.MemberID, commit.InstanceID, commit.Generation = "", nil, -1
		}
		cmd = commit
	default:
		cmd = pick[Command](h, &Fetch{}, &Describe{}, &Delete{}, &DeleteOffsets{Topics: []FetchTopic{{Topic: "t1", Partitions: []int32{0}}}})
	}
	h.asked[h.tickets] = question{group, cmd}
	if *historySeed != 0 {
		h.t.Logf("step %d: %d %s %T %+v", h.step, h.tickets, group, cmd, cmd)
	}
	h.do(h.live.Handle(h.now, h.tickets, group, cmd))
}

// pass lets time go by.
func (h *history) pass(d time.Duration) {
	for end := h.now.Add(d); ; {
		next, ok := h.live.Next()
		if !ok || next.After(end) {
			h.now = end
			return
		}
		if next.After(h.now) {
			h.now = next
		}
		if e, fired := h.live.Tick(h.now); fired {
			h.do(e)
		}
	}
}

func (h *history) do(e Effects) {
	refused := kafka.None
	if len(e.Records) > 0 && h.rand.IntN(15) == 0 {
		refused = kafka.CoordinatorNotAvailable
	}
	for _, r := range e.Records {
		if refused == kafka.None && e.Txn != nil {
			h.append(logged{record: r, txn: true, producer: e.Txn.ProducerID})
			continue
		}
		if refused != kafka.None {
			if g, ok := r.(*GroupRecord); ok && g.Value != nil && len(g.Value.Members) == 0 && g.Value.Generation > 0 {
				h.diverged[g.Group] = true
			}
			continue
		}
		h.append(logged{record: r})
		h.forget(r)
		if g, ok := r.(*GroupRecord); ok {
			delete(h.diverged, g.Group)
		}
	}
	for _, sent := range e.Replies {
		h.answered(sent)
	}
	if len(e.Records) > 0 {
		for _, sent := range h.live.Settle(h.now, e, refused).Replies {
			h.answered(sent)
		}
	}
	for next, ok := h.live.Next(); ok && !next.After(h.now); next, ok = h.live.Next() {
		again, fired := h.live.Tick(h.now)
		if !fired {
			break
		}
		h.do(again)
	}
}

// forget drops from what clients know what the log says is gone.
func (h *history) forget(r Record) {
	switch r := r.(type) {
	case *OffsetRecord:
		if r.Value == nil {
			delete(h.acked[r.Group], kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition})
		}
	case *GroupRecord:
		if r.Value == nil {
			prefix := r.Group + "/"
			maps.DeleteFunc(h.given, func(k, _ string) bool { return strings.HasPrefix(k, prefix) })
		}
	}
}

func (h *history) answered(sent Sent) {
	q, ok := h.asked[sent.Ticket]
	if !ok {
		h.fail("ticket %d is answered twice: %+v", sent.Ticket, sent.Reply)
		return
	}
	delete(h.asked, sent.Ticket)
	if *historySeed != 0 {
		h.t.Logf("step %d: reply to %d: %+v", h.step, sent.Ticket, sent.Reply)
	}
	switch r := sent.Reply.(type) {
	case *JoinReply:
		h.learn(q.group, r.MemberID, r.Generation)
		if r.Code == kafka.None && r.MemberID == r.Leader && !slices.ContainsFunc(r.Members, func(m JoinedMember) bool { return m.MemberID == r.MemberID }) {
			h.fail("the leader is told it leads, but not of itself: %+v", r)
		}
	case *SyncReply:
		if r.Code == kafka.None {
			h.owns(q.group, q.cmd.(*Sync), r)
		}
	case *CommitReply:
		switch cmd := q.cmd.(type) {
		case *Commit:
			h.storedBeside(q.group, cmd, r)
		case *TxnCommit:
			h.storedOpen(q.group, cmd, r)
		}
	}
}

func (h *history) storedBeside(group string, c *Commit, r *CommitReply) {
	if r.Code != kafka.None {
		return
	}
	if h.acked[group] == nil {
		h.acked[group] = map[kafka.TopicPartition]kafka.Offset{}
	}
	for _, t := range c.Topics {
		for _, p := range t.Partitions {
			h.acked[group][kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Offset
		}
	}
}

func (h *history) learn(group, memberID string, generation int32) {
	if generation >= 0 {
		h.last[group] = generation
	}
	if memberID == "" || memberID == "unknown" || slices.Contains(h.ids[group], memberID) {
		return
	}
	h.ids[group] = append(h.ids[group], memberID)
	if len(h.ids[group]) > 6 {
		h.ids[group] = h.ids[group][1:]
	}
}

// owns checks that a member of a generation is given one thing only, and no two the same.
func (h *history) owns(group string, c *Sync, r *SyncReply) {
	if len(r.Assignment) == 0 {
		return
	}
	prefix := fmt.Sprintf("%s/%d/", group, c.Generation)
	key, value := prefix+c.MemberID, string(r.Assignment)
	if before, ok := h.given[key]; ok && before != value {
		h.fail("%s was given %q and then %q in one generation", key, before, value)
	}
	for _, other := range slices.Sorted(maps.Keys(h.given)) {
		if strings.HasPrefix(other, prefix) && other != key && h.given[other] == value && !sameInstance(other, key) {
			h.fail("%s and %s both own %q", other, key, value)
		}
	}
	h.given[key] = value
}

// sameInstance tells whether two keys of given are of one static member: its new id takes over what the old one had.
func sameInstance(a, b string) bool {
	i := strings.IndexByte(a, '-')
	return strings.HasPrefix(b, a[:i+1]) && !strings.HasSuffix(a[:i], "/c")
}

// crash forgets all but the log. Clients get no answer.
func (h *history) crash() {
	clear(h.asked)
	clear(h.diverged)
	clear(h.given) // a generation that was never written down may come again, and be assigned anew
	h.live = h.machine()
	for _, l := range h.log {
		l.apply(h.live)
	}
	h.do(h.live.Loaded(h.now))
}

// check looks at everything that must hold between any two steps.
func (h *history) check() {
	open := 0
	for _, id := range slices.Sorted(maps.Keys(h.live.groups)) {
		open += h.checkGroup(h.live.groups[id])
	}
	if open != len(h.asked) {
		h.fail("%d requests wait, the machine knows of %d: %+v", len(h.asked), open, h.asked)
	}
	if got, want := slices.Sorted(maps.Keys(h.live.groups)), slices.Sorted(maps.Keys(h.shadow.groups)); !slices.Equal(got, want) {
		h.fail("groups are %v, the log says %v", got, want)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(h.shadow.groups)) {
		live, logged := h.live.groups[id], h.shadow.groups[id]
		if got, want := offsetsText(live), offsetsText(logged); got != want {
			h.fail("offsets of %s are %s, the log says %s", id, got, want)
		}
		settled := live.state == Stable || live.state == Empty && live.generation == logged.generation
		if got, want := generationText(live), generationText(logged); settled && !h.diverged[id] && got != want {
			h.fail("group %s is %s, the log says %s", id, got, want)
		}
		h.checkOffsets(live)
		for tp, offset := range h.acked[id] {
			if s, ok := logged.offsets[tp.Topic][tp.Partition]; !ok || s.Offset != offset {
				h.fail("%s was told that offset %d of %v is stored; the log says %v", id, offset, tp, s.Offset)
			}
		}
	}
}

func offsetsText(g *group) string {
	var b strings.Builder
	for _, tp := range g.stored() {
		fmt.Fprintf(&b, "%v=%d ", tp, g.offsets[tp.Topic][tp.Partition].Offset)
	}
	return b.String()
}

func generationText(g *group) string {
	v := g.asRecord()
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d %s/%s leader=%s", v.Generation, v.ProtocolType, text(v.Protocol), text(v.Leader))
	for _, m := range v.Members {
		fmt.Fprintf(&b, " %s%s given=%s", m.MemberID, static(m.InstanceID), m.Assignment)
	}
	return b.String()
}

// checkGroup looks at one group and counts who waits in it.
func (h *history) checkGroup(g *group) int {
	joining, syncing, statics := 0, 0, 0
	for _, m := range g.members {
		if m.joining != 0 {
			joining++
		}
		if m.syncing != 0 {
			syncing++
		}
		if m.instanceID != nil {
			statics++
		}
		if g.byID[m.id] != m || m.instanceID != nil && g.static[*m.instanceID] != m {
			h.fail("member %s of %s is not found by its id", m.id, g.id)
		}
		if !m.session.active() && m.joining == 0 && m.syncing == 0 {
			h.fail("member %s of %s would live for ever", m.id, g.id)
		}
	}
	if joining != g.waiting || len(g.byID) != len(g.members) || len(g.static) != statics {
		h.fail("group %s counts wrong: %d join, %d counted, %d members, %d by id, %d of %d static", g.id, joining, g.waiting,
			len(g.members), len(g.byID), len(g.static), statics)
	}
	if joining > 0 && g.state != PreparingRebalance || syncing > 0 && g.state != CompletingRebalance {
		h.fail("group %s is %v while %d join and %d sync", g.id, g.state, joining, syncing)
	}
	if (g.state == Empty) != (len(g.members) == 0) && g.state != PreparingRebalance {
		h.fail("group %s is %v with %d members", g.id, g.state, len(g.members))
	}
	if (len(g.members) == 0) != (g.leader == nil) || g.leader != nil && g.byID[*g.leader] == nil {
		h.fail("group %s is led by %s", g.id, text(g.leader))
	}
	support := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			support[p.Name]++
		}
	}
	if !maps.Equal(support, g.support) {
		h.fail("group %s counts protocols %v, want %v", g.id, g.support, support)
	}
	return joining + syncing
}
