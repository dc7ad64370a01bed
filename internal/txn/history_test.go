package txn

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

var (
	historySeed = flag.Uint64("history.seed", 0, "run TestHistories with this seed only")
	historyRuns = flag.Int("history.runs", 300, "how many seeds TestHistories runs")
)

// TestHistories lets clients that die, come back and do not know that they are dead use two transactional ids for a while, over a
// network that loses, delays and repeats, with refused writes, timeouts, deleted topics and coordinators that crash; and checks that
// all transactions are all or nothing. To repeat a failure: go test ./internal/txn -run Histories -history.seed N
func TestHistories(t *testing.T) {
	if *historySeed != 0 {
		runHistory(t, *historySeed)
		return
	}
	first, finished := uint64(time.Now().UnixNano()), 0
	for i := range uint64(*historyRuns) {
		finished += runHistory(t, first+i)
		if t.Failed() {
			return
		}
	}
	if finished < *historyRuns/2 {
		t.Errorf("clients know of %d transactions in %d histories that they are committed: that shows nothing", finished, *historyRuns)
	}
}

const historySteps = 1000

// history is one run: the coordinator, its log, the partitions that are written to, the clients, and what is under way.
type history struct {
	t    *testing.T
	seed uint64
	step int
	rand *rand.Rand
	now  time.Time
	calm bool // nothing is refused, lost, or crashes any more

	live   *Machine
	shadow *Machine // reads the log's bytes as it grows: what a restart would know
	level  int16
	epoch  int32     // the coordinator's
	log    []*Record // as it is read again
	fresh  kafka.ProducerID

	parts    map[kafka.TopicPartition]*part
	clients  []*client
	network  []message
	held     []flight  // records that are being appended
	marking  []marking // markers that are being written
	echoes   []func()  // what the coordinator was told of markers and may be told again
	tickets  Ticket
	asked    map[Ticket]func(Reply)
	given    map[ID]*client // who was told to have an id in an epoch
	owners   map[string]*transaction
	guards   int // how many there were, in all partitions
	finished int // transactions that a client knows to be committed
}

// transaction is what a client wants to be all or nothing.
type transaction struct {
	n       int
	client  *client
	wanted  []kafka.TopicPartition
	acked   map[kafka.TopicPartition]bool
	outcome map[kafka.TopicPartition]bool // committed, where it has ended
	told    *bool                         // committed, as its client knows
}

// message is a request of a client, or a part of one, that has not arrived.
type message struct {
	from    *client
	op      int
	deliver func()
}

// flight is what waits for its append.
type flight struct {
	effects Effects
	asks    *transaction // whose request it is; nil for none's
	end     bool
}

// marking is a Marker whose markers are being written: by the coordinator, or by one that is no more.
type marking struct {
	Marker
	left []kafka.TopicPartition
	past bool
}

// runHistory returns how many transactions a client knows to be committed.
func runHistory(t *testing.T, seed uint64) (finished int) {
	h := &history{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), now: scenarioStart, fresh: 1000, level: 1,
		parts: map[kafka.TopicPartition]*part{}, asked: map[Ticket]func(Reply){}, given: map[ID]*client{}, owners: map[string]*transaction{},
	}
	if h.rand.IntN(4) > 0 {
		h.level = 2
	}
	h.live, h.shadow = h.machine(), h.machine()
	for p := range int32(4) {
		h.parts[kafka.TopicPartition{Topic: "t", Partition: p}] = newPart()
	}
	if h.rand.IntN(3) == 0 { // an id whose epochs end soon
		h.append(&Record{TransactionalID: "a", Value: &Value{
			ID: ID{Producer: 5, Epoch: epochMax - 1 - kafka.ProducerEpoch(h.rand.IntN(4))}, Previous: 5, Next: kafka.NoProducer,
			TimeoutMs: 60_000, UpdatedMs: h.now.UnixMilli(), StartMs: -1, Version: 1,
		}})
	}
	for h.step = range historySteps {
		h.any()
		h.check()
		if t.Failed() {
			return h.finished
		}
	}
	h.settleDown()
	return h.finished
}

// any does one thing of all that may happen.
func (h *history) any() {
	switch n := h.rand.IntN(100); {
	case n < 30:
		h.act()
	case n < 60:
		h.deliver()
	case n < 72:
		h.mark()
	case n < 82:
		h.settleOne()
	case n < 88:
		h.now = h.now.Add(time.Duration(h.rand.IntN(4000)) * time.Millisecond)
	case n < 93:
		h.repeat(h.live.AbortTimedOut)
	case n < 94:
		h.now = h.now.Add(10 * time.Minute)
		h.repeat(h.live.Expire)
	case n < 95:
		h.deleteTopic()
	case n < 96:
		h.level = 2
	case n < 97 && len(h.clients) > 0:
		h.clients[h.rand.IntN(len(h.clients))].dead = true
	case n < 98:
		h.crash()
	case len(h.echoes) > 0: // perhaps when the next transaction ends
		h.echoes[h.rand.IntN(len(h.echoes))]()
	}
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Errorf("step %d: %s\nrepeat with: go test ./internal/txn -run Histories -history.seed %d", h.step, fmt.Sprintf(format, args...), h.seed)
}

func (h *history) say(format string, args ...any) {
	if *historySeed != 0 {
		h.t.Logf("step %d: %s", h.step, fmt.Sprintf(format, args...))
	}
}

func (h *history) chance(oneIn int) bool { return !h.calm && h.rand.IntN(oneIn) == 0 }

func (h *history) machine() *Machine {
	return New(Config{TimeoutMax: 15 * time.Minute, IDExpiration: 9 * time.Minute}, h.epoch)
}

// settleDown lets all end: nobody begins anything, nothing is lost, and in the end every transaction has its outcome everywhere.
func (h *history) settleDown() {
	h.calm, h.network = true, nil
	for _, c := range h.clients {
		c.dead = true
	}
	h.now = h.now.Add(2 * time.Minute)
	for range 20 {
		for len(h.held) > 0 {
			h.settleOne()
		}
		h.repeat(h.live.AbortTimedOut)
		for range 200 {
			h.mark()
		}
	}
	h.check()
	for _, e := range h.live.List() {
		if e.State != Empty && e.State != outcome(true) && e.State != outcome(false) {
			h.fail("left alone, %s is %v", e.TransactionalID, e.State)
		}
	}
	for _, tp := range slices.SortedFunc(maps.Keys(h.parts), kafka.TopicPartition.Compare) {
		for _, id := range slices.Sorted(maps.Keys(h.parts[tp].open)) {
			h.fail("left alone, producer %d has a transaction open in %v", id, tp)
		}
	}
	for _, c := range h.clients {
		for _, x := range c.begun {
			h.judge(x)
		}
	}
}

// judge looks at a transaction when all has ended.
func (h *history) judge(x *transaction) {
	for tp := range x.acked {
		if _, ended := x.outcome[tp]; !ended {
			h.fail("what transaction %d wrote to %v never ended", x.n, tp)
		}
	}
}

// handle asks the coordinator.
func (h *history) handle(id string, cmd Command, x *transaction, then func(Reply)) {
	h.tickets++
	ticket := h.tickets
	h.asked[ticket] = then
	h.say("ask %d %s: %T %+v", ticket, id, cmd, cmd)
	h.ask(ticket, id, cmd, x)
}

func (h *history) ask(ticket Ticket, id string, cmd Command, x *transaction) {
	h.live.SetProtocol(h.level)
	e := h.live.Handle(h.now, ticket, id, cmd)
	if e.NeedsID {
		h.fresh++
		switch cmd := cmd.(type) {
		case *InitProducer:
			cmd.Fresh = h.fresh
		case *End:
			cmd.Fresh = h.fresh
		}
		h.network = append(h.network, message{deliver: func() {
			if _, waits := h.asked[ticket]; waits { // else the coordinator has crashed since
				h.ask(ticket, id, cmd, x)
			}
		}})
		return
	}
	_, end := cmd.(*End)
	h.do(flight{e, x, end})
}

func (h *history) repeat(call func(time.Time) (Effects, bool)) {
	h.live.SetProtocol(h.level)
	for range 1000 {
		e, more := call(h.now)
		if !more {
			return
		}
		h.do(flight{effects: e})
	}
	h.fail("it never ends")
}

func (h *history) do(f flight) {
	for _, sent := range f.effects.Replies {
		then, ok := h.asked[sent.Ticket]
		if !ok {
			h.fail("ticket %d is answered twice: %+v", sent.Ticket, sent.Reply)
			return
		}
		delete(h.asked, sent.Ticket)
		h.say("reply to %d: %+v", sent.Ticket, sent.Reply)
		then(sent.Reply)
	}
	for _, m := range f.effects.Markers {
		h.say("mark %+v", m)
		h.marking = append(h.marking, marking{Marker: m, left: slices.Clone(m.Partitions)})
	}
	if len(f.effects.Records) == 0 {
		return
	}
	h.held = append(h.held, f)
	if h.rand.IntN(3) > 0 {
		h.settleOne()
	}
}

// settleOne ends one of the appends that are under way: the records are in the log, or were refused.
func (h *history) settleOne() {
	if len(h.held) == 0 {
		return
	}
	i := h.rand.IntN(len(h.held))
	f := h.held[i]
	h.held = slices.Delete(h.held, i, i+1)
	refused := kafka.None
	if h.chance(8) {
		refused = []kafka.Error{kafka.CoordinatorNotAvailable, kafka.NotCoordinator, kafka.UnknownServerError}[h.rand.IntN(3)]
		h.say("refused %v", refused)
	} else {
		h.write(f)
	}
	h.live.SetProtocol(h.level)
	h.do(flight{effects: h.live.Settle(h.now, f.effects, refused)})
}

// write puts records into the log, and looks at whose transaction they change.
func (h *history) write(f flight) {
	for _, r := range f.effects.Records {
		if *historySeed != 0 {
			h.say("write %s %s", r.TransactionalID, describeValue(r.Value))
		}
		if r.Value != nil {
			before := h.shadow.ids[r.TransactionalID]
			open := before != nil && before.value.State == Ongoing
			owner := h.owners[r.TransactionalID]
			switch {
			case r.Value.State == Ongoing && !open:
				h.owners[r.TransactionalID] = f.asks
			case r.Value.State == Ongoing && owner != f.asks:
				h.fail("a request of transaction %d adds to transaction %d", f.asks.n, owner.n)
			case f.end && open && owner != f.asks:
				h.fail("the end of transaction %d ends transaction %d", f.asks.n, owner.n)
			}
		}
		h.append(r)
	}
}

func (h *history) append(r *Record) {
	h.live.Apply(r)
	again := h.recode(r)
	h.log = append(h.log, again)
	h.shadow.Apply(again)
}

// recode is the record as another would read it.
func (h *history) recode(r *Record) *Record {
	value, there := AppendValue(nil, r)
	if !there {
		value = nil
	}
	again, err := Decode(AppendKey(nil, r), value)
	if err != nil {
		h.fail("%s %+v: %v", r.TransactionalID, r.Value, err)
	}
	return again
}

// crash forgets all but the log. What was being appended is in it, or not; clients get no answer; markers that are under way may
// come still, when the next coordinator has a later epoch.
func (h *history) crash() {
	h.say("crash")
	for _, f := range h.held {
		if h.rand.IntN(2) == 0 {
			h.write(f)
		}
	}
	h.held = nil
	clear(h.asked)
	h.echoes = nil
	if h.rand.IntN(3) > 0 {
		h.epoch++
		for i := range h.marking {
			h.marking[i].past = true
		}
	} else {
		h.marking = slices.DeleteFunc(h.marking, func(m marking) bool { return !m.past })
	}
	h.live = h.machine()
	for _, r := range h.log {
		h.live.Apply(r)
	}
	h.live.SetProtocol(h.level)
	h.do(flight{effects: h.live.Loaded(h.now)})
}

// mark lets one marker reach one partition, for the first time or again, and may tell the coordinator.
func (h *history) mark() {
	if len(h.marking) == 0 {
		return
	}
	i := h.rand.IntN(len(h.marking))
	m := &h.marking[i]
	j := h.rand.IntN(len(m.left))
	tp := m.left[j]
	if !h.parts[tp].mark(h, tp, m.Marker) && !m.past {
		h.fail("%v refuses %+v", tp, m.Marker)
	}
	if h.chance(4) { // the answer is lost
		return
	}
	m.left = slices.Delete(m.left, j, j+1)
	done := []kafka.TopicPartition{tp}
	if h.chance(4) {
		done = append(done, done...)
	}
	id, attempt, past := m.TransactionalID, m.Attempt, m.past
	if len(m.left) == 0 {
		h.marking = slices.Delete(h.marking, i, i+1)
	}
	if past {
		return
	}
	h.marked(id, attempt, done)
	if h.chance(4) {
		h.echoes = append(h.echoes, func() { h.marked(id, attempt, done) })
	}
}

func (h *history) marked(id string, attempt uint64, done []kafka.TopicPartition) {
	h.live.SetProtocol(h.level)
	h.do(flight{effects: h.live.Marked(h.now, id, attempt, done)})
}

// deleteTopic forgets a partition: nobody waits for its markers any more. It is made anew at once.
func (h *history) deleteTopic() {
	tp := kafka.TopicPartition{Topic: "t", Partition: h.rand.Int32N(4)}
	h.say("%v is deleted", tp)
	h.parts[tp] = newPart()
	for _, c := range h.clients {
		for _, x := range c.begun {
			delete(x.acked, tp)
			delete(x.outcome, tp)
		}
	}
	var waiting []Marker
	for i := range h.marking {
		m := &h.marking[i]
		if !m.past && slices.Contains(m.left, tp) {
			waiting = append(waiting, m.Marker)
		}
		m.left = slices.DeleteFunc(m.left, func(left kafka.TopicPartition) bool { return left == tp })
	}
	h.marking = slices.DeleteFunc(h.marking, func(m marking) bool { return len(m.left) == 0 })
	for _, m := range waiting {
		h.marked(m.TransactionalID, m.Attempt, []kafka.TopicPartition{tp})
	}
}

// check looks at what must hold between any two steps.
func (h *history) check() {
	for _, id := range slices.Sorted(maps.Keys(h.shadow.ids)) {
		logged, live := h.shadow.ids[id], h.live.ids[id]
		if live == nil || live.value == nil {
			h.fail("%s is unknown, the log says %s", id, describeValue(logged.value))
			continue
		}
		got, want := *live.value, *logged.value
		same := slices.Equal(got.Partitions, want.Partitions)
		if got.Partitions, want.Partitions = nil, nil; !same || !reflect.DeepEqual(got, want) {
			h.fail("%s is %+v, the log says %+v", id, live.value, logged.value)
		}
		if open := live.value.State == Ongoing || live.value.State.prepared(); live.value.ID.Epoch < 0 || !open && len(live.value.Partitions) > 0 {
			h.fail("%s is %s", id, describeValue(live.value))
		}
	}
	for _, e := range h.live.List() {
		if h.shadow.ids[e.TransactionalID] == nil {
			h.fail("%s is known, and not in the log", e.TransactionalID)
		}
	}
}
