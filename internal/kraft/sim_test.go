package kraft

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// world is a simulated quorum: members with logs in memory, a network that loses, delays, repeats and cuts, disks that forget. One
// thread, one queue of events, one seed.
type world struct {
	seed   uint64
	rand   *rand.Rand
	nowMs  int64
	queue  eventQueue
	serial int
	nodes  []*simNode
	cfg    simConfig
	bugs   plantedBugs
	// formatted is what a cluster of kraft.version 1 begins with.
	formatted Membership

	blocked map[[2]kafka.NodeID]bool // from, to: what is sent is lost
	calm    bool                     // no faults any more
	blobs   [][]simBatch             // what the bytes of a Fetch's answer stand for
	names   int
	// timeoutMs is that of elections. Fetches and requests have twice as long.
	timeoutMs int64

	check  *checker
	trace  uint64 // hash of all that has happened
	lines  []string
	tell   bool // keep lines
	events int
}

// simConfig is what a seed chooses.
type simConfig struct {
	voters, observers int
	version           int16
	autoJoin          bool
	lossOneIn         int // 0 for none
	slowOneIn         int
	repeatOneIn       int
	delayMs           int64
	flushMs           int64
	faultEveryMs      int64
	proposeEveryMs    int64
	changeEveryMs     int64 // of voters
	snapshotEveryMs   int64
	durationMs        int64
}

// simNode is a machine: what is on its disk, and its process while it runs.
type simNode struct {
	w         *world
	id        kafka.NodeID
	listeners []Endpoint
	port      uint16 // above 9093
	directory kafka.UUID
	broker    bool // observes and never votes
	autoJoin  bool
	formatted *Membership
	static    []Voter // controller.quorum.voters
	state     State
	log       *simLog

	member      *Member // nil while the process is down
	incarnation int
	tickets     map[Ticket]simAsker
	lastTicket  Ticket
	flushing    bool
	ticked      int64 // for when the next Tick is queued
	partial     map[SnapshotID][]byte
}

// simAsker is who waits for an answer.
type simAsker struct {
	from        *simNode // nil for a client
	incarnation int
	message     uint64
	request     Request
}

type simEvent struct {
	atMs   int64
	serial int
	run    func()
}

type eventQueue []simEvent

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].atMs < q[j].atMs || q[i].atMs == q[j].atMs && q[i].serial < q[j].serial
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *eventQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = simEvent{}
	*q = old[:len(old)-1]
	return last
}

func emptyWorld(seed uint64) *world {
	w := &world{seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), nowMs: 1000, blocked: map[[2]kafka.NodeID]bool{}, timeoutMs: 200}
	w.check = newChecker(w)
	return w
}

// newWorld is a world with faults.
func newWorld(seed uint64, bugs plantedBugs, tell bool) *world {
	w := emptyWorld(seed)
	w.bugs, w.tell = bugs, tell
	pick := func(values ...int64) int64 { return values[w.rand.IntN(len(values))] }
	w.cfg = simConfig{
		voters: int(pick(1, 2, 3, 3, 3, 3, 3, 4, 5, 5)), observers: int(pick(0, 0, 1, 2)), version: int16(pick(0, 1, 1, 1)), autoJoin: w.chance(2),
		lossOneIn: int(pick(0, 50, 20, 8)), slowOneIn: int(pick(0, 100, 30)), repeatOneIn: int(pick(0, 30, 10)),
		delayMs: pick(2, 10, 40), flushMs: pick(1, 10, 60), faultEveryMs: pick(100, 250, 700), proposeEveryMs: pick(15, 40, 120),
		changeEveryMs: pick(150, 500, 2000), snapshotEveryMs: pick(200, 1000, 5000), durationMs: pick(4000, 8000),
	}
	w.build()
	w.every(w.cfg.proposeEveryMs, w.propose)
	w.every(w.cfg.faultEveryMs, w.fault)
	w.every(w.cfg.changeEveryMs, w.changeVoters)
	w.every(w.cfg.snapshotEveryMs, w.snapshot)
	return w
}

func (w *world) chance(oneIn int) bool { return oneIn > 0 && w.rand.IntN(oneIn) == 0 }

func (w *world) build() {
	var voters []Voter
	for i := range w.cfg.voters + w.cfg.observers {
		n := &simNode{w: w, id: kafka.NodeID(i + 1), broker: i >= w.cfg.voters && w.chance(3), log: &simLog{}, state: NewState()}
		n.move(0)
		n.directory = w.newDirectory()
		n.autoJoin = w.cfg.autoJoin && !n.broker
		w.nodes = append(w.nodes, n)
		if i < w.cfg.voters {
			voters = append(voters, n.voter())
		}
	}
	w.formatted = Membership{Version: 1, Voters: voters}
	for i, n := range w.nodes {
		if w.cfg.version == 1 && i < w.cfg.voters {
			n.formatted = &w.formatted
		}
		n.static = w.staticVoters()
		w.after(w.rand.Int64N(200), func() { n.start() })
	}
}

func (w *world) newDirectory() (id kafka.UUID) {
	for i := range id {
		id[i] = byte(w.rand.IntN(256))
	}
	return id
}

// staticVoters are the voters of controller.quorum.voters.
func (w *world) staticVoters() (voters []Voter) {
	if w.cfg.version == 1 {
		return nil
	}
	for _, n := range w.nodes[:w.cfg.voters] {
		voters = append(voters, Voter{ID: n.id, Endpoints: []Endpoint{{Host: n.endpoints()[0].Host, Port: 9093}}})
	}
	return voters
}

func (n *simNode) endpoints() []Endpoint { return n.listeners }

// move gives a node another address. Those without a listener's name, as in the configuration, go on being right.
func (n *simNode) move(by uint16) {
	n.port += by
	n.listeners = []Endpoint{{"CONTROLLER", fmt.Sprintf("n%d", n.id), 9093 + n.port}}
}

func (n *simNode) isAt(e Endpoint) bool { return e.Name == "" || e.Port == n.listeners[0].Port }

func (n *simNode) voter() Voter {
	return Voter{ID: n.id, Directory: n.directory, Endpoints: n.endpoints(), MaxVersion: 1}
}

func (w *world) after(ms int64, run func()) {
	w.serial++
	heap.Push(&w.queue, simEvent{w.nowMs + ms, w.serial, run})
}

// every repeats something until the calm.
func (w *world) every(ms int64, run func()) {
	w.after(1+w.rand.Int64N(2*ms), func() {
		if !w.calm {
			run()
			w.every(ms, run)
		}
	})
}

// run drives the world until a time, or until a check fails.
func (w *world) run(untilMs int64, done func() bool) {
	for len(w.queue) > 0 && w.queue[0].atMs <= untilMs && w.check.failure == "" && !done() {
		e := heap.Pop(&w.queue).(simEvent)
		w.nowMs = e.atMs
		w.events++
		e.run()
	}
}

// say puts something that has happened into the trace.
func (w *world) say(n *simNode, what string, values ...int64) {
	h := fnv.New64a()
	var b [8]byte
	mix := func(v uint64) {
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		h.Write(b[:])
	}
	mix(w.trace)
	mix(uint64(w.nowMs))
	h.Write([]byte(what))
	if n != nil {
		mix(uint64(n.id))
	}
	for _, v := range values {
		mix(uint64(v))
	}
	w.trace = h.Sum64()
	if w.tell {
		who := "world"
		if n != nil {
			who = fmt.Sprintf("node %d", n.id)
		}
		w.lines = append(w.lines, strings.TrimSpace(fmt.Sprintf("%6d %s: %s %s", w.nowMs, who, what, strings.Trim(fmt.Sprint(values), "[]"))))
	}
}

func (w *world) detail(n *simNode, format string, args ...any) {
	if w.tell {
		w.lines = append(w.lines, fmt.Sprintf("%6d node %d: %s", w.nowMs, n.id, fmt.Sprintf(format, args...)))
	}
}

func (w *world) node(id kafka.NodeID) *simNode {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

func (w *world) at(e Endpoint) *simNode {
	for _, n := range w.nodes {
		if n.endpoints()[0].Host == e.Host {
			return n
		}
	}
	return nil
}

// start begins a process on what is on the disk.
func (n *simNode) start() {
	if n.member != nil {
		return
	}
	w := n.w
	n.incarnation++
	n.tickets, n.flushing, n.ticked, n.partial = map[Ticket]simAsker{}, false, 0, map[SnapshotID][]byte{}
	cfg := Config{
		ID: n.id, Directory: n.directory, MaxVersion: 1, AutoJoin: n.autoJoin, StaticVoters: n.static,
		ElectionTimeoutMs: w.timeoutMs, ElectionBackoffMaxMs: w.timeoutMs, FetchTimeoutMs: 2 * w.timeoutMs, RequestTimeoutMs: 2 * w.timeoutMs,
		RetryBackoffMs: max(w.timeoutMs/50, 10), FetchMaxWaitMs: int32(w.timeoutMs / 2),
		Rand: rand.New(rand.NewPCG(w.rand.Uint64(), 1)),
	}
	if !n.broker {
		cfg.Endpoints = n.endpoints()
	}
	for _, other := range w.nodes {
		if !other.broker {
			cfg.Bootstrap = append(cfg.Bootstrap, Endpoint{Host: other.endpoints()[0].Host, Port: 9093})
		}
	}
	n.member = NewMember(cfg, n.state, n.log.history(n.formatted), n.log)
	n.member.plantedBugs = w.bugs
	w.say(n, "starts", int64(n.incarnation))
	w.check.started(n)
	n.do(n.member.Start(w.nowMs))
}

// crash ends the process; of what was not flushed, chance decides.
func (n *simNode) crash() {
	if n.member == nil {
		return
	}
	n.member = nil
	for _, ticket := range slices.Sorted(maps.Keys(n.tickets)) { // its connections are closed
		if a := n.tickets[ticket]; a.from != nil && (n.w.calm || n.w.chance(2)) {
			n.w.deliver(n.id, a.from.id, func() { a.from.ended(a, nil, true) })
		}
	}
	n.log.crash(n.w.rand)
	n.w.say(n, "crashes", int64(n.log.EndOffset()))
}

// do does effects as a runtime has to.
func (n *simNode) do(e Effects) {
	w := n.w
	n.outcome(e)
	if e.Persist != nil {
		w.check.persisted(n, *e.Persist)
		n.state = *e.Persist
		w.say(n, "persists", int64(e.Persist.Epoch), int64(e.Persist.Leader), int64(e.Persist.Voted))
	}
	if e.Truncate != nil {
		w.say(n, "truncates", int64(*e.Truncate))
		w.check.truncated(n, *e.Truncate)
		n.log.truncate(*e.Truncate)
		n.do(n.member.Truncated(n.afterDiskMs()))
	}
	if e.Chunk != nil {
		n.chunk(e.Chunk)
	}
	if len(e.Append) > 0 {
		n.appendFetched(w.blobs[int(e.Append[0])|int(e.Append[1])<<8|int(e.Append[2])<<16])
	}
	if len(e.Controls) > 0 {
		n.append(len(e.Controls), e.Controls)
	}
	if e.Role != nil {
		w.say(n, e.Role.Kind.String(), int64(e.Role.Epoch), int64(e.Role.Leader))
		w.check.role(n, *e.Role)
	}
	if e.HighWatermark != nil {
		w.say(n, "high watermark", int64(*e.HighWatermark))
	}
	for _, m := range e.Send {
		n.send(m)
	}
	for _, a := range e.Answers {
		n.reply(a)
	}
	w.check.after(n)
	n.tick()
}

// outcome counts what the checks of a seed need to have seen.
func (n *simNode) outcome(e Effects) {
	if e.Warn != "" {
		n.w.detail(n, "warns %s", e.Warn)
		n.w.check.warnings++
	}
}

func (n *simNode) tick() {
	at := n.member.Deadline()
	if n.ticked != 0 && n.ticked <= at || at == never {
		return
	}
	n.ticked = at
	incarnation := n.incarnation
	n.w.after(max(at-n.w.nowMs, 0), func() {
		if n.member == nil || n.incarnation != incarnation || n.ticked != at {
			return
		}
		n.ticked = 0
		n.do(n.member.Tick(n.w.nowMs))
	})
}

// append is a leader's.
func (n *simNode) append(records int, controls []Control) {
	w := n.w
	if len(controls) > 0 && n.isFull() {
		n.do(n.member.Appended(n.afterDiskMs()))
		return
	}
	w.names++
	end := n.log.EndOffset()
	b := simBatch{end, end + kafka.Offset(records), n.member.Role().Epoch, w.names, controls}
	w.check.leaderAppends(n, b)
	n.log.append(b)
	w.say(n, "appends", int64(b.base), int64(b.end), int64(len(controls)))
	n.do(n.member.Appended(n.afterDiskMs(), b.told()))
	n.flushSoon()
}

// isFull tells whether the disk has no room, for once.
func (n *simNode) isFull() bool {
	if n.w.calm || !n.w.chance(40) {
		return false
	}
	n.w.say(n, "is full")
	return true
}

// afterDiskMs is the time when the disk has done what it was to do: now, or a good deal later.
func (n *simNode) afterDiskMs() int64 {
	if n.w.calm || !n.w.chance(100) {
		return n.w.nowMs
	}
	ms := n.w.nowMs + n.w.rand.Int64N(8*n.w.timeoutMs)
	n.w.say(n, "has waited for the disk", ms)
	return ms
}

func (n *simNode) appendFetched(batches []simBatch) {
	if n.isFull() {
		batches = batches[:n.w.rand.IntN(len(batches))]
	}
	var told []Batch
	for _, b := range batches {
		n.log.append(b)
		told = append(told, b.told())
	}
	n.w.say(n, "follows", int64(len(batches)), int64(n.log.EndOffset()))
	n.do(n.member.Appended(n.afterDiskMs(), told...))
	n.flushSoon()
}

// flushSoon flushes after a while what is there now.
func (n *simNode) flushSoon() {
	if n.flushing {
		return
	}
	n.flushing = true
	incarnation, cuts, end := n.incarnation, n.log.cuts, len(n.log.batches)
	n.w.after(n.w.rand.Int64N(2*n.w.cfg.flushMs), func() {
		if n.member == nil || n.incarnation != incarnation {
			return
		}
		n.flushing = false
		if n.log.cuts == cuts && end <= len(n.log.batches) && end > n.log.durable {
			n.log.durable, n.log.old = end, nil
			n.w.say(n, "flushed", int64(n.log.FlushedOffset()))
			n.do(n.member.Flushed(n.w.nowMs))
		}
		if n.log.durable < len(n.log.batches) {
			n.flushSoon()
		}
	})
}

// chunk takes a part of a snapshot. Its content is its membership's number, and its size is chance's.
func (n *simNode) chunk(c *Chunk) {
	if c.Position == 0 {
		n.partial[c.Snapshot] = nil
	}
	if int64(len(n.partial[c.Snapshot])) != c.Position {
		n.w.check.fail("node %d: a snapshot's part is at %d, %d bytes are there", n.id, c.Position, len(n.partial[c.Snapshot]))
		return
	}
	n.partial[c.Snapshot] = append(n.partial[c.Snapshot], c.Bytes...)
	if !c.Last {
		return
	}
	if n.w.chance(10) && !n.w.calm {
		n.do(n.member.SnapshotRefused(n.afterDiskMs(), c.Snapshot))
		return
	}
	m := n.w.check.snapshots[c.Snapshot]
	n.log.restore(c.Snapshot, m)
	n.w.check.downloads++
	n.w.say(n, "restores", int64(c.Snapshot.End))
	n.do(n.member.Restored(n.afterDiskMs(), c.Snapshot, m))
}

const simSnapshotBytes = 5

// send puts a request on the way.
func (n *simNode) send(m Message) {
	w := n.w
	w.say(n, fmt.Sprintf("sends %T", m.Request), int64(m.ID), int64(m.To.ID))
	to := w.at(m.To.Endpoint)
	asker := simAsker{n, n.incarnation, m.ID, m.Request}
	if !to.isAt(m.To.Endpoint) {
		if w.chance(2) {
			w.after(1, func() { n.ended(asker, nil, true) })
		}
		return
	}
	if w.blocked[[2]kafka.NodeID{n.id, to.id}] && w.chance(3) { // a firewall resets it
		w.after(1+w.rand.Int64N(w.cfg.delayMs), func() { n.ended(asker, nil, true) })
		return
	}
	w.deliver(n.id, to.id, func() {
		if to.member == nil {
			if w.calm || w.chance(2) {
				w.deliver(to.id, n.id, func() { n.ended(asker, nil, true) })
			}
			return
		}
		if _, versions := m.Request.(*VersionsRequest); versions {
			w.deliver(to.id, n.id, func() { n.ended(asker, &VersionsResponse{MaxVersion: 1}, false) })
			return
		}
		to.ask(asker)
	})
}

// deliver runs something at the far end of the network, never, once or twice.
func (w *world) deliver(from, to kafka.NodeID, run func()) {
	if w.blocked[[2]kafka.NodeID{from, to}] {
		return
	}
	if !w.calm && w.chance(w.cfg.lossOneIn) {
		return
	}
	delay := func() int64 {
		if !w.calm && w.chance(w.cfg.slowOneIn) {
			return w.rand.Int64N(1500)
		}
		return 1 + w.rand.Int64N(w.cfg.delayMs)
	}
	w.after(delay(), run)
	if !w.calm && w.chance(w.cfg.repeatOneIn) {
		w.after(delay(), run)
	}
}

func (n *simNode) ask(a simAsker) {
	n.lastTicket++
	n.tickets[n.lastTicket] = a
	if a.from != nil {
		n.w.say(n, fmt.Sprintf("is asked %T", a.request), int64(a.from.id), int64(a.message))
	}
	n.do(n.member.Handle(n.w.nowMs, n.lastTicket, a.request))
}

// ended tells a member what has become of a message.
func (n *simNode) ended(a simAsker, r Response, gone bool) {
	if n.member == nil || n.incarnation != a.incarnation {
		return
	}
	switch {
	case gone:
		n.w.say(n, "finds nobody", int64(a.message))
		n.do(n.member.Gone(n.w.nowMs, a.message))
	case !n.w.calm && n.w.chance(200):
		n.do(n.member.Failed(n.w.nowMs, a.message))
	default:
		n.w.detail(n, "is answered %d: %+v", a.message, r)
		n.do(n.member.Answered(n.w.nowMs, a.message, r))
	}
}

// reply sends an answer off, with the bytes that only a log has.
func (n *simNode) reply(answer Answer) {
	w := n.w
	a, ok := n.tickets[answer.Ticket]
	if !ok {
		w.check.fail("node %d answers ticket %d, which nobody waits for: %+v", n.id, answer.Ticket, answer.Response)
		return
	}
	delete(n.tickets, answer.Ticket)
	w.check.answered(n, a, answer.Response)
	response := answer.Response
	switch r := response.(type) {
	case *FetchResponse:
		response = n.fill(a.request.(*FetchRequest), r)
	case *FetchSnapshotResponse:
		response = n.fillSnapshot(a.request.(*FetchSnapshotRequest), r)
	}
	if a.from != nil {
		w.deliver(n.id, a.from.id, func() { a.from.ended(a, response, false) })
	}
}

func (n *simNode) fill(to *FetchRequest, r *FetchResponse) *FetchResponse {
	if r.Error != kafka.None || r.Diverging != nil || r.Snapshot != nil || r.End <= to.Offset {
		return r
	}
	filled := *r
	first := n.log.from(to.Offset)
	count := min(1+n.w.rand.IntN(8), len(n.log.batches)-first)
	if n.log.batches[first].base != to.Offset {
		n.w.check.fail("node %d serves a Fetch at %d, inside a batch at %d", n.id, to.Offset, n.log.batches[first].base)
	}
	at := len(n.w.blobs)
	n.w.blobs = append(n.w.blobs, slices.Clone(n.log.batches[first:first+count]))
	filled.Records = []byte{byte(at), byte(at >> 8), byte(at >> 16)}
	return &filled
}

func (n *simNode) fillSnapshot(to *FetchSnapshotRequest, r *FetchSnapshotResponse) *FetchSnapshotResponse {
	if r.Error != kafka.None {
		return r
	}
	filled := *r
	switch {
	case !slices.Contains(n.log.snaps, to.Snapshot):
		filled.Error = kafka.SnapshotNotFound
	case to.Position >= simSnapshotBytes:
		filled.Error = kafka.PositionOutOfRange
	default:
		filled.Size = simSnapshotBytes
		filled.Bytes = make([]byte, min(1+n.w.rand.Int64N(4), simSnapshotBytes-to.Position))
	}
	return &filled
}

// propose is a client's write, at any node.
func (w *world) propose() {
	for _, n := range w.nodes {
		if n.member != nil && n.member.Role().Kind == Leader && !w.chance(3) {
			n.append(1+w.rand.IntN(3), nil)
		}
	}
}

// victim is a node that something happens to: a leader more often than others.
func (w *world) victim() *simNode {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	for _, other := range w.nodes {
		if other.member != nil && other.member.Role().Kind == Leader && w.chance(2) {
			n = other
		}
	}
	return n
}

// snapshot writes one where chance wants it.
func (w *world) snapshot() {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	if n.member == nil {
		return
	}
	i := n.log.from(n.member.HighWatermark()) - 1
	if i < 0 || n.member.HighWatermark() <= n.log.start {
		return
	}
	id := SnapshotID{n.log.batches[i].end, n.log.batches[i].epoch}
	if slices.Contains(n.log.snaps, id) {
		return
	}
	m := n.member.MembershipBefore(id.End)
	w.check.snapshot(n, id, m)
	n.log.snapshot(id, m, 1+w.rand.IntN(2))
	n.member.Snapshotted()
	w.say(n, "snapshot", int64(id.End))
}

// fault does one thing that goes wrong in machines and networks, or ends it.
func (w *world) fault() {
	n := w.victim()
	switch k := w.rand.IntN(100); {
	case k < 25:
		n.crash()
		w.after(w.rand.Int64N(600), func() { n.start() })
	case k < 30: // the power is cut everywhere
		w.say(nil, "power cut")
		for _, n := range w.nodes {
			n.crash()
			w.after(w.rand.Int64N(300), func() { n.start() })
		}
	case k < 48:
		for _, other := range w.nodes {
			if w.chance(2) {
				w.block(n.id, other.id, w.rand.IntN(2) == 0)
			}
		}
	case k < 53:
		for _, other := range w.nodes {
			w.block(n.id, other.id, true)
		}
	case k < 75:
		w.say(nil, "heals")
		clear(w.blocked)
	case k < 83:
		w.wipe(n)
	case k < 86:
		w.moveOne(n)
	case k < 90:
		if n.member != nil && n.member.Role().Kind == Leader {
			n.do(n.member.Resign(w.nowMs, n.member.Role().Epoch))
		}
	case k < 95:
		n.shutdown()
	default:
		if n.member != nil && n.member.Role().Kind == Leader && w.cfg.version == 0 {
			n.ask(simAsker{request: &UpgradeRequest{Level: 1}})
		}
	}
}

// block cuts a way, or both.
func (w *world) block(from, to kafka.NodeID, both bool) {
	if from == to {
		return
	}
	w.say(nil, "cuts", int64(from), int64(to))
	w.blocked[[2]kafka.NodeID{from, to}] = true
	if both {
		w.blocked[[2]kafka.NodeID{to, from}] = true
	}
}

// shutdown stops a process in order, waits for it as a runtime does, and starts it again.
func (n *simNode) shutdown() {
	if n.member == nil {
		return
	}
	w := n.w
	w.say(n, "shuts down")
	n.do(n.member.Shutdown(w.nowMs))
	incarnation := n.incarnation
	var wait func()
	wait = func() {
		if n.member == nil || n.incarnation != incarnation {
			return
		}
		if !n.member.Done() {
			w.after(5, wait)
			return
		}
		n.crash()
		w.after(w.rand.Int64N(300), func() { n.start() })
	}
	w.after(5, wait)
}

// wipe gives a voter an empty disk: another directory. As the majority of the voters has to keep theirs, it happens only where all
// agree who they are, and none of them is wiped already.
func (w *world) wipe(n *simNode) {
	if n.broker || n.member == nil || !w.settledVoters() {
		return
	}
	voters := n.member.voters()
	if n.member.isVoter() && len(voters) < 3 {
		return
	}
	n.crash()
	w.check.buried = append(w.check.buried, buried{n.voter().key(), n.log})
	// The voters stand in the log by now, so the operator configures none any more: with an empty disk they would count again.
	n.directory, n.log, n.state, n.formatted, n.static = w.newDirectory(), &simLog{}, NewState(), nil, nil
	w.say(n, "is wiped")
	w.after(w.rand.Int64N(400), func() { n.start() })
}

// moveOne gives a node another address. As the others have to be able to elect a leader without it, it happens as rarely as a wipe.
func (w *world) moveOne(n *simNode) {
	if n.broker || !w.settledVoters() || n.member.isVoter() && len(n.member.voters()) < 3 {
		return
	}
	n.crash()
	n.move(1)
	w.check.moves++
	w.say(n, "moves", int64(n.port))
	w.after(w.rand.Int64N(200), func() { n.start() })
}

// allAt tells whether the voters are where a node thinks they are.
func (w *world) allAt(voters []Voter) bool {
	return !slices.ContainsFunc(voters, func(v Voter) bool {
		n := w.node(v.ID)
		return n.voter().key() == v.key() && !n.isAt(v.Endpoints[0])
	})
}

// settledVoters tells whether all nodes run, agree on committed voters, also after a crash, and each of those is still there.
func (w *world) settledVoters() bool {
	var last []Voter
	at := kafka.Offset(-2)
	for _, n := range w.nodes {
		if n.member == nil || n.member.Membership().Version == 0 || n.log.old != nil || !w.allAt(n.member.voters()) {
			return false
		}
		m := n.member
		if at == -2 {
			last, at = m.voters(), m.history.lastAt()
		}
		if m.history.lastAt() != at && len(m.history.changes) > 0 && m.history.lastAt() > w.check.committedEnd() || at >= w.check.committedEnd() || !sameVoters(last, m.voters()) {
			return false
		}
		for _, a := range n.tickets {
			switch a.request.(type) {
			case *AddVoterRequest, *RemoveVoterRequest:
				return false
			}
		}
	}
	return !w.anyDead(last)
}

func sameVoters(a, b []Voter) bool {
	return slices.EqualFunc(a, b, func(a, b Voter) bool { return a.key() == b.key() })
}

// anyDead tells whether one of the voters has lost its disk.
func (w *world) anyDead(voters []Voter) bool {
	return slices.ContainsFunc(voters, func(v Voter) bool { return w.dead(v) })
}

func (w *world) dead(v Voter) bool {
	n := w.node(v.ID)
	return n == nil || !v.Directory.IsZero() && n.directory != v.Directory
}

// changeVoters is an administrator: it replaces voters that lost their disks, and else adds and removes as it likes.
func (w *world) changeVoters() {
	n := w.victim()
	if n.member == nil || n.member.Membership().Version == 0 {
		return
	}
	voters := n.member.voters()
	if len(voters) == 0 || !w.allAt(voters) {
		return
	}
	for _, v := range voters {
		if w.dead(v) {
			w.say(n, "is to remove", int64(v.ID))
			n.ask(simAsker{request: &RemoveVoterRequest{Voter: v.key()}})
			return
		}
	}
	other := w.nodes[w.rand.IntN(len(w.nodes))]
	isVoter := slices.ContainsFunc(voters, func(v Voter) bool { return v.ID == other.id })
	switch {
	case isVoter && len(voters) > 1:
		w.say(n, "is to remove", int64(other.id))
		n.ask(simAsker{request: &RemoveVoterRequest{Voter: other.voter().key()}})
	case !isVoter && !other.broker:
		w.say(n, "is to add", int64(other.id))
		n.ask(simAsker{request: &AddVoterRequest{Voter: other.voter(), AckWhenCommitted: w.chance(2)}})
	}
}
