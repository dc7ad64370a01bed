package meta

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

var (
	historySeed  = flag.Uint64("history.seed", 0, "run TestHistories with this seed only")
	historyTrace = flag.Bool("history.trace", false, "log what the controller decides")
	historyRuns  = flag.Int("history.runs", 300, "how many seeds TestHistories runs")
)

// TestHistories lets the brokers of a cluster register, replicate, die, lose power and come back, see the metadata late, and send
// requests that arrive late, twice or never, while partitions move, leaders are elected, directories fail and controllers are followed
// by others; and checks after each step that the metadata makes sense, and whenever a broker begins to lead that it has all that
// was acknowledged. When everything is well again all partitions are led, and all replicas in sync. To repeat a failure: go test
// ./internal/meta -run Histories -history.seed N
func TestHistories(t *testing.T) {
	if *historySeed != 0 {
		runHistory(t, *historySeed)
		return
	}
	var sum historyCounts
	first := uint64(time.Now().UnixNano())
	for i := range uint64(*historyRuns) {
		sum.add(runHistory(t, first+i))
		if t.Failed() {
			return
		}
	}
	t.Logf("%d histories: %+v", *historyRuns, sum)
	least := *historyRuns / 2 // of few histories nothing can be expected
	if least >= 50 && (sum.acknowledged < 20*least || sum.clean < 5*least || sum.eligible < least/2 || sum.moved < least/2 || sum.altered < 5*least || sum.unclean == 0) {
		t.Errorf("%d histories saw no more than %+v: that shows little", *historyRuns, sum)
	}
}

// historyCounts is what was seen.
type historyCounts struct {
	acknowledged, clean, eligible, unclean, moved, altered, refused int
}

func (c *historyCounts) add(o historyCounts) {
	c.acknowledged += o.acknowledged
	c.clean += o.clean
	c.eligible += o.eligible
	c.unclean += o.unclean
	c.moved += o.moved
	c.altered += o.altered
	c.refused += o.refused
}

const historySteps = 800

// world is one run: the controller with its log, of which a part is committed, the brokers, and what is under way.
type world struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	step  string
	nowMs int64
	count historyCounts

	env       Env
	states    []state // of the metadata; the last is the tip
	committed int     // the newest state that brokers may see
	live      *Liveness
	network   []func()
	hosts     []*host
	data      map[partitionID]*truth
	durable   bool // all brokers are: nothing acknowledged is ever lost
	well      bool // nothing goes wrong any more
	rough     bool // brokers are unregistered, and directories fail
}

// state is the metadata after a step of the controller, and who waits for it.
type state struct {
	im      *Image
	entries []Entry
	done    func()
}

// truth is what the world knows of a partition.
type truth struct {
	acked   []written   // what was acknowledged
	floor   kafka.Epoch // acknowledgements of older leaders do not count: an unclean election has forgotten them
	epoch   kafka.Epoch // of the newest leader that has begun
	leader  *host       // which it was
	unclean bool        // there was an unclean election
}

type written struct {
	epoch kafka.Epoch
	n     int
}

// host is a broker.
type host struct {
	id          kafka.NodeID
	durable     bool // it tells of nothing that is not flushed
	up          bool
	cut         bool // from the controller
	stopping    bool
	starts      byte
	epoch       kafka.BrokerEpoch // of this start, NoBrokerEpoch before it has registered
	previous    kafka.BrokerEpoch // under which it was stopped cleanly
	tried       []kafka.UUID      // incarnations of which it knows for sure that they lost nothing, this one too
	replays     int               // the state that it has applied
	dirs        []kafka.UUID
	failed      []kafka.UUID
	missing     []partitionID // replicas that were in failed directories
	logs        map[partitionID]*replicaLog
	leads       map[partitionID]*leadership
	incarnation kafka.UUID
}

type replicaLog struct {
	entries []written
	flushed int
	dir     kafka.UUID
}

// leadership is what a leader knows.
type leadership struct {
	epoch, partitionEpoch kafka.Epoch
	isr, wanted           []kafka.NodeID // wanted is what it has asked for, nil for nothing
	recovering            bool
	start, hw             int
	followers             map[kafka.NodeID]follower
}

type follower struct {
	end   int
	epoch kafka.BrokerEpoch
}

func runHistory(t *testing.T, seed uint64) historyCounts {
	t.Helper()
	w := &world{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), data: map[partitionID]*truth{}}
	w.env = testEnv()
	w.env.Random, w.env.MinISR = w.rand, 1
	w.durable, w.rough = w.chance(2), w.chance(2)
	w.begin()
	for i := range historySteps {
		w.step = fmt.Sprintf("step %d", i)
		w.act()
		if t.Failed() {
			return w.count
		}
	}
	w.calm()
	return w.count
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d, %s: %s\nto repeat: go test ./internal/meta -run Histories -history.seed %d", w.seed, w.step, fmt.Sprintf(format, args...), w.seed)
}

func (w *world) chance(oneIn int) bool { return w.rand.IntN(oneIn) == 0 }

func (w *world) tip() *Image { return w.states[len(w.states)-1].im }

func (w *world) end() kafka.Offset { return w.tip().Offset() + 1 }

// begin starts the brokers and makes topics.
func (w *world) begin() {
	w.states = []state{{im: NewImage("cluster")}}
	features := Bootstrap()
	if w.durable && !w.rough && w.chance(3) { // without eligible leader replicas a broker that loses data is not told apart
		features = slices.DeleteFunc(features, func(e Entry) bool { return e.Record.(*sysrecord.FeatureLevelRecord).Name == ELRVersion })
	}
	w.append(features, nil)
	if w.chance(2) {
		value := "2"
		w.append([]Entry{setConfig(Resource{Type: BrokerResource}, minInsyncReplicas, &value)}, nil)
	}
	w.live = NewLiveness(w.tip(), 9000, w.nowMs)
	for i := range 3 + w.rand.IntN(3) {
		h := &host{id: kafka.NodeID(i + 1), durable: w.durable || w.chance(2), logs: map[partitionID]*replicaLog{}, previous: NoBrokerEpoch, epoch: NoBrokerEpoch}
		h.dirs = []kafka.UUID{{0: byte(h.id), 1: 1}, {0: byte(h.id), 1: 2}}[:1+w.rand.IntN(2)]
		w.hosts = append(w.hosts, h)
		w.start(h)
	}
	for range 3 {
		w.everybody()
	}
	for i := range 1 + w.rand.IntN(3) {
		topic := NewTopic{Name: fmt.Sprintf("t%d", i), Partitions: int32(1 + w.rand.IntN(2)), ReplicationFactor: int16(1 + w.rand.IntN(3))}
		if w.chance(6) {
			value := "true"
			topic.Configs = []ConfigValue{{Name: uncleanElections, Value: &value}}
		}
		entries, results := DecideCreateTopics(w.tip(), CreateTopics{Topics: []NewTopic{topic}}, w.env)
		if results[0].Err != nil {
			w.fail("create: %v", results[0].Err)
		}
		w.append(entries, nil)
	}
}

// append adds a state, with all checks. done is called when it is committed, and never if another controller does not have it.
func (w *world) append(entries []Entry, done func()) {
	if len(entries) == 0 {
		w.states = append(w.states, state{im: w.tip(), done: done})
		return
	}
	before := w.tip()
	u := before.Update()
	for _, e := range entries {
		if *historyTrace {
			body, _ := json.Marshal(e.Record)
			w.t.Logf("%s: %d %s %s", w.step, len(w.states), e.Record.RecordName(), body)
		}
		w.checkElection(u.Image(before.Offset(), 1, 1), e)
		if err := u.Apply(e); err != nil {
			w.fail("%v", err)
		}
	}
	now := u.Image(before.Offset()+kafka.Offset(len(entries)), 1, 1)
	w.states = append(w.states, state{im: now, entries: entries, done: done})
	w.checkImage(now)
}

// checkElection checks that a record elects nobody uncleanly who must not be, and moves the epochs.
func (w *world) checkElection(before *Image, e Entry) {
	r, ok := e.Record.(*sysrecord.PartitionChangeRecord)
	if !ok {
		return
	}
	t, _ := before.TopicByID(r.TopicID)
	old := &t.Partitions[r.PartitionID]
	next := *old
	next.change(r)
	if next.Leader != old.Leader && next.LeaderEpoch == old.LeaderEpoch || next.PartitionEpoch != old.PartitionEpoch+1 {
		w.fail("%s-%d: epochs %d/%d after %d/%d", t.Name, r.PartitionID, next.LeaderEpoch, next.PartitionEpoch, old.LeaderEpoch, old.PartitionEpoch)
	}
	ended := old.Reassigning() && !next.Reassigning() && slices.Equal(next.Replicas, without(old.Replicas, old.Removing...))
	if ended && !electedUncleanly(old, &next) && len(without(old.Adding, next.ISR...)) > 0 {
		w.fail("%s-%d: %+v has moved, but not all that come are in sync: %+v", t.Name, r.PartitionID, *old, next)
	}
	if gone := without(old.Replicas, next.Replicas...); len(gone) > 0 && next.LeaderEpoch == old.LeaderEpoch {
		w.fail("%s-%d: %v are gone, and the leader has no new epoch", t.Name, r.PartitionID, gone)
	}
	if !electedUncleanly(old, &next) {
		return
	}
	balanced := before.features[ELRVersion] > 0 && slices.Equal(old.LastELR, []kafka.NodeID{next.Leader}) && len(old.ISR)+len(old.ELR) <= 1
	switch {
	case before.uncleanAllowed(t.Name, &w.env):
	case w.durable && !w.rough, !balanced:
		w.fail("%s-%d: %+v is followed by an unclean election: %+v", t.Name, r.PartitionID, *old, next)
	}
}

// electedUncleanly tells whether the new leader is one that may lack something.
func electedUncleanly(old, next *Partition) bool {
	return next.Leader != old.Leader && next.Leader != kafka.NoNode && next.Recovering &&
		(!old.Recovering || !slices.Contains(old.ISR, next.Leader) && !slices.Contains(old.ELR, next.Leader))
}

// checkImage checks what holds for every partition at any time.
func (w *world) checkImage(im *Image) {
	elr := im.features[ELRVersion] > 0
	for t := range im.Topics() {
		for i, p := range t.Partitions {
			serving := func(id kafka.NodeID) bool { b, ok := im.Broker(id); return ok && b.inService() }
			away := slices.DeleteFunc(slices.Clone(p.ISR), serving)
			for _, rule := range []struct {
				holds bool
				what  string
			}{
				{p.Leader == kafka.NoNode || slices.Contains(p.ISR, p.Leader) && serving(p.Leader), "the leader is in sync, and in service"},
				{len(without(p.ISR, p.Replicas...)) == 0 && !repeats(p.ISR), "who is in sync has a replica"},
				{len(without(p.ELR, p.Replicas...)) == 0 && !repeats(p.ELR), "who is eligible has a replica"},
				{len(within(p.ELR, p.ISR)) == 0, "who is eligible is not in sync"},
				{len(p.ISR) > 0 || elr && p.Leader == kafka.NoNode, "somebody is in sync where somebody leads"},
				{len(away) == 0 || !elr && len(p.ISR) == 1 && p.Leader == kafka.NoNode, "who is in sync is in service, or the last one"},
				{len(p.ELR) == 0 || elr && len(p.ISR) < min(im.minISR(t.Name, &w.env), len(p.Replicas)), "nobody is eligible beside a large set"},
				{len(without(append(slices.Clone(p.Adding), p.Removing...), p.Replicas...)) == 0 && len(within(p.Adding, p.Removing)) == 0, "who comes or goes has a replica"},
				{len(without(p.Replicas, p.Removing...)) > 0 && !repeats(p.Replicas), "somebody has a replica, once"},
			} {
				if !rule.holds {
					w.fail("%s-%d is %+v, but %s", t.Name, i, p, rule.what)
				}
			}
		}
	}
}

// commit makes more of the log visible.
func (w *world) commit(upTo int) {
	for w.committed < upTo {
		w.committed++
		s := w.states[w.committed]
		before := w.states[w.committed-1].im
		for _, e := range s.entries {
			if r, ok := e.Record.(*sysrecord.PartitionChangeRecord); ok {
				w.sawChange(before, r)
			}
			before = before.after([]Entry{e})
		}
		if s.done != nil {
			s.done()
		}
	}
}

func (w *world) sawChange(before *Image, r *sysrecord.PartitionChangeRecord) {
	t, _ := before.TopicByID(r.TopicID)
	old := &t.Partitions[r.PartitionID]
	next := *old
	next.change(r)
	switch {
	case electedUncleanly(old, &next):
		d := w.truth(partitionID{r.TopicID, r.PartitionID})
		d.acked, d.floor, d.unclean = nil, next.LeaderEpoch, true
		w.count.unclean++
	case next.Leader != old.Leader && next.Leader >= 0:
		w.count.clean++
		if slices.Contains(old.ELR, next.Leader) {
			w.count.eligible++
		}
	}
	if old.Reassigning() && !next.Reassigning() {
		w.count.moved++
	}
}

func (w *world) truth(id partitionID) *truth {
	if w.data[id] == nil {
		w.data[id] = &truth{epoch: kafka.NoEpoch}
	}
	return w.data[id]
}

// act is one step.
func (w *world) act() {
	h := w.hosts[w.rand.IntN(len(w.hosts))]
	some := func(do func(*host)) {
		for _, i := range w.rand.Perm(len(w.hosts))[:1+w.rand.IntN(len(w.hosts))] {
			do(w.hosts[i])
		}
	}
	switch n := w.rand.IntN(100); {
	case n < 6:
		w.commit(w.committed + w.rand.IntN(len(w.states)-w.committed))
	case n < 12:
		w.commit(len(w.states) - 1)
	case n < 24:
		some(func(h *host) { w.apply(h, h.replays+w.rand.IntN(w.committed-h.replays+1)) })
	case n < 27:
		some(func(h *host) { w.apply(h, w.committed) })
	case n < 35:
		some(w.produce)
	case n < 50:
		some(w.fetch)
	case n < 56:
		some(w.flush)
	case n < 67:
		some(w.wish)
	case n < 74:
		w.deliver()
	case n < 82:
		some(w.heartbeat)
	case n < 83:
		w.pass(int64(w.rand.IntN(4000)))
	case n < 86:
		w.fault(h)
	case n < 92:
		if !h.up {
			w.start(h)
		}
	case n < 93:
		h.cut = !h.cut
	case n < 94:
		w.failover()
	default:
		w.admin()
	}
}

// pass lets time pass, and fences those whose sessions are over.
func (w *world) pass(ms int64) {
	w.nowMs += ms
	for {
		id, due := w.live.Expired(w.tip(), w.nowMs)
		if !due {
			return
		}
		w.append(DecideFence(w.tip(), id, w.env), nil)
	}
}

// fault is something that goes wrong.
func (w *world) fault(h *host) {
	switch n := w.rand.IntN(20); {
	case n < 3:
		w.kill(h)
	case n < 6:
		w.powerCut(h)
	case n < 8: // and is back at once
		w.powerCut(h)
		w.start(h)
	case n < 9:
		for _, h := range w.hosts {
			w.powerCut(h)
		}
	case n < 10 && h.up:
		h.stopping = true
	case n < 11 && w.rough && h.up && len(h.dirs) > 1 && len(h.failed) == 0:
		h.loseDir(h.dirs[w.rand.IntN(len(h.dirs))])
	case h.epoch != NoBrokerEpoch: // a closed connection, and a refused one, which may be a false alarm
		if !h.up || w.chance(2) {
			if w.live.Died(w.tip(), h.id, h.epoch, w.nowMs) {
				w.append(DecideFence(w.tip(), h.id, w.env), nil)
			}
		}
	}
}

// kill ends a process. What it has written stays; another program than ours can't tell.
func (w *world) kill(h *host) {
	if !h.up {
		return
	}
	h.up, h.stopping, h.leads, h.previous = false, false, nil, NoBrokerEpoch
}

// powerCut takes away what was not flushed.
func (w *world) powerCut(h *host) {
	w.kill(h)
	for _, id := range h.partitions() {
		if l := h.logs[id]; l.flushed < len(l.entries) {
			l.entries = l.entries[:l.flushed+w.rand.IntN(len(l.entries)-l.flushed+1)]
			l.flushed = len(l.entries)
		}
	}
}

func (h *host) partitions() []partitionID {
	var ids []partitionID
	for id := range h.logs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b partitionID) int {
		return slices.Compare(append(a.topic[:], byte(a.number)), append(b.topic[:], byte(b.number)))
	})
	return ids
}

// loseDir is the failure of a log directory.
func (h *host) loseDir(dir kafka.UUID) {
	h.failed = append(h.failed, dir)
	for _, id := range h.partitions() {
		if h.logs[id].dir == dir {
			delete(h.logs, id)
			delete(h.leads, id)
			h.missing = append(h.missing, id)
		}
	}
}

// start begins a process: it registers as soon as the controller hears it. Failed directories were replaced.
func (w *world) start(h *host) {
	h.starts++
	h.up, h.epoch, h.incarnation = true, NoBrokerEpoch, kafka.UUID{0: h.starts, 15: byte(h.id)}
	h.leads = map[partitionID]*leadership{}
	for i, dir := range h.dirs {
		if slices.Contains(h.failed, dir) {
			h.dirs = slices.Clone(h.dirs)
			h.dirs[i][2]++
		}
	}
	if len(h.failed) > 0 { // it can't tell any more what it had
		h.tried, h.failed, h.missing, h.previous = nil, nil, nil, NoBrokerEpoch
	}
	if h.durable {
		h.tried = append(h.tried, h.incarnation)
	}
	w.register(h)
}

func (w *world) register(h *host) {
	if h.cut {
		return
	}
	previous := h.previous
	if b, ok := w.states[w.committed].im.Broker(h.id); ok && slices.Contains(h.tried, b.Incarnation) {
		previous = b.Epoch // it may have died before it was answered
	}
	reg := Registration{
		ID: h.id, Incarnation: h.incarnation, PreviousEpoch: previous, Features: SupportedFeatures(), LogDirs: h.dirs,
		Endpoints: []Endpoint{{Name: "PLAINTEXT", Host: fmt.Sprint(w.rand.IntN(2)), Port: 9092}},
	}
	entries, epoch, err := w.live.Register(w.tip(), reg, w.end(), w.nowMs, w.env)
	if err != nil {
		if code, _ := kafka.Answer(err); code != kafka.DuplicateBrokerRegistration {
			w.fail("register %d: %v", h.id, err)
		}
		return
	}
	w.append(entries, func() {
		if h.up && h.incarnation == reg.Incarnation {
			h.epoch = epoch
		}
	})
}

func (w *world) heartbeat(h *host) {
	switch {
	case !h.up || h.cut:
		return
	case h.epoch == NoBrokerEpoch:
		w.register(h)
		return
	}
	im := w.states[h.replays].im
	hb := Heartbeat{
		Broker: h.id, Epoch: h.epoch, MetadataOffset: im.Offset(), OfflineDirs: h.failed,
		WantFence: !h.registered(im), WantShutDown: h.stopping,
	}
	entries, result, err := w.live.Heartbeat(w.tip(), hb, w.end(), w.nowMs, w.env)
	incarnation := h.incarnation
	if err != nil {
		h.epoch = NoBrokerEpoch // stale: it registers anew
		return
	}
	w.append(entries, func() {
		if !result.ShouldShutDown || !h.up || h.incarnation != incarnation {
			return
		}
		epoch := h.epoch
		for _, id := range h.partitions() {
			h.logs[id].flushed = len(h.logs[id].entries)
		}
		w.kill(h)
		h.previous = epoch
	})
}

// registered tells whether an image has this start of the broker.
func (h *host) registered(im *Image) bool {
	b, ok := im.Broker(h.id)
	return ok && b.Epoch == h.epoch && b.Incarnation == h.incarnation
}

// failover: another controller leads, which has what is committed, and some more. It decides nothing before that is committed too. Who
// waits for an answer of the former one gets none.
func (w *world) failover() {
	w.states = w.states[:w.committed+1+w.rand.IntN(len(w.states)-w.committed)]
	for i := w.committed + 1; i < len(w.states); i++ {
		w.states[i].done = nil
	}
	w.commit(len(w.states) - 1)
	w.live = NewLiveness(w.tip(), 9000, w.nowMs)
	if w.chance(2) {
		for _, b := range w.tip().Brokers() {
			if !b.Fenced && !w.host(b.ID).up && w.live.Died(w.tip(), b.ID, b.Epoch, w.nowMs) {
				w.append(DecideFence(w.tip(), b.ID, w.env), nil)
			}
		}
	}
}

func (w *world) host(id kafka.NodeID) *host { return w.hosts[id-1] }

// deliver lets a message arrive, or loses it.
func (w *world) deliver() {
	if len(w.network) == 0 {
		return
	}
	i := w.rand.IntN(len(w.network))
	message := w.network[i]
	if !w.chance(8) { // it may come twice
		w.network = slices.Delete(w.network, i, i+1)
	}
	if !w.chance(8) {
		message()
	}
}

// admin is what operators and the controller's own timers do.
func (w *world) admin() {
	im := w.tip()
	switch n := w.rand.IntN(14); {
	case n < 6:
		if t, i := w.anyPartition(); t != nil {
			r := Reassignment{Topic: t.Name, Partition: i, Cancel: w.chance(2)}
			for _, at := range w.rand.Perm(len(w.hosts))[:1+w.rand.IntN(3)] {
				r.Replicas = append(r.Replicas, w.hosts[at].id)
			}
			entries, _ := DecideReassign(im, Reassign{Partitions: []Reassignment{r}}, w.env)
			w.append(entries, nil)
		}
	case n < 8:
		entries, _ := DecideBalance(im, w.env)
		w.append(entries, nil)
	case n < 10:
		entries, _ := DecideElections(im, w.env)
		w.append(entries, nil)
	case n < 11:
		entries, _, _ := DecideElectLeaders(im, ElectLeaders{Type: PreferredElection}, w.env)
		w.append(entries, nil)
	case n < 12:
		entries, _ := DecideCreatePartitions(im, CreatePartitions{Topics: []TopicGrowth{{Name: "t0", Count: int32(1 + w.rand.IntN(4))}}}, w.env)
		w.append(entries, nil)
	case n < 13:
		w.append(DecideRaiseFactors(im, []WantedFactor{{Topic: "t0", Factor: 3}}, w.env), nil)
	case w.rough:
		if h := w.hosts[w.rand.IntN(len(w.hosts))]; !h.up {
			entries, _ := DecideUnregister(im, h.id, w.env)
			w.append(entries, nil)
		}
	}
}

func (w *world) anyPartition() (*Topic, int32) {
	topics := slices.Collect(w.tip().Topics())
	if len(topics) == 0 {
		return nil, 0
	}
	t := topics[w.rand.IntN(len(topics))]
	return t, int32(w.rand.IntN(len(t.Partitions)))
}
