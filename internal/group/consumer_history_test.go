package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// TestConsumerGroupsUnderRandomHistories: members of both protocols come, go, fall silent, lose answers and are slow to give back;
// topics change, appends are refused, the log is read again, work aside is done late, in any order, for groups that are no more. No two members ever work on one partition; what the log says is what
// the machine knew; and when all is quiet every partition that is read has its owner.
func TestConsumerGroupsUnderRandomHistories(t *testing.T) {
	if *historySeed != 0 {
		consumerHistory(t, *historySeed)
		return
	}
	for range *historyRuns {
		consumerHistory(t, rand.Uint64())
	}
}

// calmEvents is how many events there are one by one, at the end.
const calmEvents = 5

// part is a partition.
type part struct {
	id        kafka.TopicID
	partition int32
}

// consumerClient is a client that follows the protocol, at its own pace.
type consumerClient struct {
	id       string
	instance *string
	classic  bool
	topics   []string
	regex    *string
	assignor *string
	said     bool // it has told the group what it reads
	epoch    int32
	has      map[part]bool // works on
	wants    map[part]bool // the last that it was told
	waits    Ticket        // of the classic protocol: for the answer to a JoinGroup or SyncGroup
}

type consumerWorld struct {
	*testing.T
	seed    uint64
	r       *rand.Rand
	cfg     Config
	m       *Machine
	cluster *testCluster
	now     time.Time
	log     []Record
	clients []*consumerClient
	names   int
	ticket  Ticket
	said    map[Ticket]Reply
	meant   map[*SyncReply]assign.Assignment // the partitions of the topics that had the names when it was said
	calm    bool                             // nothing is refused, lost or late
	aside   []Aside                          // not done yet
	finish  []func()                         // done, but the machine does not know yet
	eager   bool                             // members of the classic protocol give back all before they join
}

func consumerHistory(t *testing.T, seed uint64) {
	w := &consumerWorld{
		T: t, seed: seed, r: rand.New(rand.NewPCG(seed, 848)), cfg: testConfig(), cluster: newTestCluster(), now: scenarioStart,
		said: map[Ticket]Reply{}, meant: map[*SyncReply]assign.Assignment{},
	}
	w.eager = w.r.IntN(2) == 0
	w.cfg.Migration = MigrationPolicy{Upgrade: true, Downgrade: w.eager}
	w.cfg.RegexRefresh = 30 * time.Second // often, so that what a refresh finds is done when the group is looked at
	w.cluster.settings.AssignmentInterval = time.Duration(w.r.IntN(2)) * time.Second
	w.cluster.settings.AssignorOffload = w.r.IntN(4) > 0
	w.m = w.newMachine()
	w.m.Learn(w.cluster, nil, false)
	w.topic("ta", 3)
	for range historySteps {
		w.step()
		w.check()
	}
	w.calm = true
	w.quieten()
	for range calmEvents { // nothing else that happens meanwhile hides what one of them leaves behind
		w.event(w.r.IntN(10))
		w.quieten()
	}
}

// newMachine makes even small assignments aside.
func (w *consumerWorld) newMachine() *Machine {
	m := New(w.cfg, w.random)
	m.inPlaceMax = 1
	return m
}

func (w *consumerWorld) random(b []byte) {
	for i := range b {
		b[i] = byte(w.r.IntN(256))
	}
}

func (w *consumerWorld) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf(format+"\nrepeat with: go test ./internal/group -run ConsumerGroupsUnder -history.seed %d", append(args, w.seed)...)
}

func (w *consumerWorld) topic(name string, partitions int32) {
	created := w.cluster.set(name, partitions)
	w.m.Learn(w.cluster, []string{name}, created)
}

func (w *consumerWorld) step() {
	switch n := w.r.IntN(40); {
	case n < 10:
		w.event(n)
	case n < 12:
		w.someAside()
	case n < 16:
		w.advance(time.Duration(w.r.IntN(6000)) * time.Millisecond)
	case n < 24 && len(w.clients) > 0:
		w.pick().settle()
	case len(w.clients) > 0:
		w.heartbeat(w.pick())
	}
}

// event is one of ten that change what has to be done.
func (w *consumerWorld) event(n int) {
	switch {
	case n < 4 && len(w.clients) < 8:
		w.newClient(nil)
	case n == 6:
		w.topic(w.oneOf("ta", "tb", "tc", "other"), int32(w.r.IntN(6)))
	case n == 7:
		w.reload()
	case len(w.clients) == 0:
	case n == 4:
		w.leave(w.pick())
	case n == 5: // killed
		w.drop(w.pick())
	case n == 8: // started again, under its id
		w.pick().forget()
	case n == 9:
		c := w.pick()
		c.said = false
		if c.topics, c.regex = w.reading(), nil; !c.classic && w.r.IntN(2) == 0 {
			c.topics, c.regex = nil, w.expression()
		}
	}
}

func (w *consumerWorld) pick() *consumerClient { return w.clients[w.r.IntN(len(w.clients))] }

func (w *consumerWorld) oneOf(of ...string) string { return of[w.r.IntN(len(of))] }

func (w *consumerWorld) reading() []string {
	topics := []string{}
	for _, t := range []string{"ta", "tb", "tc"} {
		if w.r.IntN(3) > 0 {
			topics = append(topics, t)
		}
	}
	return topics
}

// expression is a regular expression; one matches no topic.
func (w *consumerWorld) expression() *string {
	regex := w.oneOf("t.", "t[ab]", ".*", "none.*")
	return &regex
}

func (w *consumerWorld) newClient(instance *string) {
	w.names++
	c := &consumerClient{id: fmt.Sprint("m", w.names), instance: instance, topics: w.reading()}
	c.forget()
	switch n := w.r.IntN(6); {
	case n == 0:
		c.topics, c.regex = nil, w.expression()
	case n == 1 && instance == nil:
		name := fmt.Sprint("i", w.names)
		c.instance = &name
	case n < 4 && instance == nil:
		c.classic = true
	}
	if w.r.IntN(4) == 0 {
		name := assign.RangeName
		c.assignor = &name
	}
	w.clients = append(w.clients, c)
}

func (w *consumerWorld) drop(c *consumerClient) {
	w.clients = slices.DeleteFunc(w.clients, func(x *consumerClient) bool { return x == c })
}

// forget is what a client does that is fenced or starts again.
func (c *consumerClient) forget() {
	c.epoch, c.said, c.has, c.wants, c.waits = 0, false, map[part]bool{}, map[part]bool{}, 0
}

// settle gives back what the client is not to have.
func (c *consumerClient) settle() { c.has = maps.Clone(c.wants) }

func (c *consumerClient) told(a assign.Assignment) {
	c.wants = map[part]bool{}
	for _, t := range a {
		for _, p := range t.Partitions {
			c.wants[part{t.ID, p}] = true
			c.has[part{t.ID, p}] = true
		}
	}
}

func assignmentOfParts(parts map[part]bool) assign.Assignment {
	h := map[kafka.TopicID]map[int32]int32{}
	for p := range parts {
		if h[p.id] == nil {
			h[p.id] = map[int32]int32{}
		}
		h[p.id][p.partition] = 0
	}
	return heldFrom(h).assignment()
}

// ask handles a command; nil when the answer gets lost.
func (w *consumerWorld) ask(cmd Command) Reply {
	w.ticket++
	ticket := w.ticket
	w.do(w.m.Handle(w.now, ticket, "g", cmd))
	r := w.said[ticket]
	delete(w.said, ticket)
	if r == nil {
		w.fail("%+v was not answered", cmd)
	}
	if !w.calm && w.r.IntN(12) == 0 {
		return nil
	}
	return r
}

func (w *consumerWorld) do(e Effects) {
	w.hear(e.Replies)
	refused := kafka.None
	if len(e.Records) > 0 && !w.calm && w.r.IntN(15) == 0 {
		refused = kafka.NotEnoughReplicas
	}
	if refused == kafka.None {
		for _, r := range e.Records {
			w.log = append(w.log, r)
			w.m.Apply(r)
		}
	}
	asides := e.Aside
	if len(e.Records) > 0 {
		after := w.m.Settle(w.now, e, refused)
		w.hear(after.Replies)
		asides = append(asides, after.Aside...)
	}
	w.aside = append(w.aside, asides...)
	for w.calm && len(w.aside)+len(w.finish) > 0 {
		w.someAside()
	}
}

// someAside does some of the work aside, or tells the machine of some that is done: also a machine that has read the log since it was begun.
func (w *consumerWorld) someAside() {
	if n := len(w.aside); n > 0 && (len(w.finish) == 0 || w.r.IntN(2) == 0) {
		i := w.r.IntN(n)
		a := w.aside[i]
		w.aside = slices.Delete(w.aside, i, i+1)
		result := a.Work(always)
		w.finish = append(w.finish, func() { w.do(w.m.Finish(w.now, a.Group, result)) })
		return
	}
	if n := len(w.finish); n > 0 {
		i := w.r.IntN(n)
		f := w.finish[i]
		w.finish = slices.Delete(w.finish, i, i+1)
		f()
	}
}

// hear keeps answers until their clients come for them. What a name means may be another topic by then: a client of the classic protocol
// cannot know, and goes on with the one that is no more.
func (w *consumerWorld) hear(replies []Sent) {
	for _, sent := range replies {
		w.said[sent.Ticket] = sent.Reply
		if r, ok := sent.Reply.(*SyncReply); ok && r.Code == kafka.None {
			topics, _, err := readConsumerAssignment(r.Assignment)
			if err != nil {
				w.fail("%v", err)
			}
			w.meant[r] = w.m.byID(topics)
		}
	}
}

func (w *consumerWorld) heartbeat(c *consumerClient) {
	if c.classic {
		w.beatClassic(c)
		return
	}
	beat := &ConsumerHeartbeat{
		MemberID: c.id, Epoch: c.epoch, InstanceID: c.instance, RebalanceTimeoutMs: -1, Has: assignmentOfParts(c.has), HasKnown: true,
		ClientID: "c", ClientHost: "/h", OwnMemberID: true,
	}
	if c.epoch == 0 || !c.said {
		beat.Topics, beat.Regex, beat.Assignor, beat.RebalanceTimeoutMs = c.topics, c.regex, c.assignor, 60_000
		if c.regex == nil {
			none := ""
			beat.Regex = &none
		} else {
			beat.Topics = []string{}
		}
	}
	r, ok := w.ask(beat).(*ConsumerHeartbeatReply)
	switch {
	case !ok || r.Code == kafka.NotEnoughReplicas:
		c.said = false // as clients do: with all that it has to say, it is told all
		return
	case r.Code == kafka.UnreleasedInstanceId, r.Code == kafka.CoordinatorLoadInProgress:
		return
	case r.Code != kafka.None:
		if !slices.Contains([]kafka.Error{kafka.FencedMemberEpoch, kafka.UnknownMemberId, kafka.GroupIdNotFound, kafka.FencedInstanceId}, r.Code) {
			w.fail("%s: %+v", c.id, r)
		}
		c.forget()
		return
	}
	if c.epoch, c.said = r.Epoch, true; r.Assigned {
		c.told(r.Assignment)
	}
}

// beatClassic is the next step of a member of the classic protocol: it hears of an answer, beats, or joins.
func (w *consumerWorld) beatClassic(c *consumerClient) {
	if c.waits != 0 {
		if r := w.said[c.waits]; r != nil {
			delete(w.said, c.waits)
			c.waits = 0
			w.heardClassic(c, r)
		}
		return
	}
	if c.epoch > 0 {
		r, ok := w.ask(&Heartbeat{MemberID: c.id, Generation: c.epoch}).(*HeartbeatReply)
		switch {
		case !ok || r.Code == kafka.None && c.said:
			return
		case r.Code == kafka.UnknownMemberId:
			c.forget()
		}
	}
	g := w.m.groups["g"]
	if !w.eager && (g == nil || g.consumer == nil || len(g.consumer.members) == 0) {
		return // it would be a classic group, in which these clients would need a leader that goes by what they have
	}
	if w.eager {
		c.has, c.wants = map[part]bool{}, map[part]bool{}
	}
	var owned []NamedPartitions
	for _, t := range assignmentOfParts(c.has) {
		owned = append(owned, NamedPartitions{Topic: w.cluster.names[t.ID], Partitions: t.Partitions})
	}
	metadata := subscription("", c.topics...)
	given := appendConsumerAssignment(1, owned)
	metadata = append(metadata[:len(metadata)-4], given[2:len(given)-4]...)
	join := &Join{
		MemberID: c.id, ClientID: "c", ClientHost: "/h", SessionTimeoutMs: 30_000, RebalanceTimeoutMs: 60_000, ProtocolType: "consumer",
		Protocols: []Protocol{{Name: "range", Metadata: metadata}},
	}
	if g == nil || g.consumer == nil || len(g.consumer.members) == 0 {
		if g == nil || g.byID[c.id] == nil {
			join.MemberID = "" // a classic group makes the ids
		}
	}
	w.send(c, join)
}

// send sends what may be answered later.
func (w *consumerWorld) send(c *consumerClient, cmd Command) {
	w.ticket++
	c.waits = w.ticket
	w.do(w.m.Handle(w.now, c.waits, "g", cmd))
}

func (w *consumerWorld) heardClassic(c *consumerClient, r Reply) {
	switch r := r.(type) {
	case *JoinReply:
		switch r.Code {
		case kafka.None:
		case kafka.UnknownMemberId, kafka.FencedInstanceId:
			c.forget()
			return
		case kafka.NotEnoughReplicas, kafka.RebalanceInProgress:
			c.said = false
			return
		default:
			w.fail("%s joins: %+v", c.id, r)
		}
		c.id, c.epoch = r.MemberID, r.Generation
		sync := &Sync{MemberID: c.id, Generation: c.epoch}
		if len(r.Members) > 0 {
			sync.Assignments = w.lead(r.Members)
		}
		w.send(c, sync)
	case *SyncReply:
		if r.Code != kafka.None {
			c.said = false // it will join again
			return
		}
		c.said = true
		c.told(w.meant[r])
		delete(w.meant, r)
	}
}

// lead is what the leader of a classic group gives to each member: the partitions in turn to those who read them.
func (w *consumerWorld) lead(members []JoinedMember) (all []Assignment) {
	given := make([]map[string][]int32, len(members))
	turn := 0
	for _, name := range slices.Sorted(maps.Keys(w.cluster.topics)) {
		var readers []int
		for i, m := range members {
			said, err := readConsumerSubscription(m.Metadata)
			if err != nil {
				w.fail("%v", err)
			}
			if slices.Contains(said.topics, name) {
				readers = append(readers, i)
			}
		}
		for p := range w.cluster.topics[name].Partitions {
			if len(readers) == 0 {
				continue
			}
			i := readers[turn%len(readers)]
			turn++
			if given[i] == nil {
				given[i] = map[string][]int32{}
			}
			given[i][name] = append(given[i][name], p)
		}
	}
	for i, m := range members {
		var topics []NamedPartitions
		for _, name := range slices.Sorted(maps.Keys(given[i])) {
			topics = append(topics, NamedPartitions{Topic: name, Partitions: given[i][name]})
		}
		all = append(all, Assignment{MemberID: m.MemberID, Bytes: appendConsumerAssignment(1, topics)})
	}
	return all
}

func (w *consumerWorld) leave(c *consumerClient) {
	w.drop(c)
	if c.classic {
		w.ask(&Leave{Members: []Leaving{{MemberID: c.id}}})
		return
	}
	epoch := int32(-1)
	if c.instance != nil && w.r.IntN(2) == 0 {
		epoch = leftForNow
	}
	r, ok := w.ask(&ConsumerHeartbeat{MemberID: c.id, Epoch: epoch, InstanceID: c.instance, OwnMemberID: true}).(*ConsumerHeartbeatReply)
	if ok && r.Code == kafka.None && epoch == leftForNow {
		w.newClient(c.instance)
	}
}

func (w *consumerWorld) advance(d time.Duration) {
	end := w.now.Add(d)
	for {
		next, ok := w.m.Next()
		if !ok || next.After(end) {
			break
		}
		if next.After(w.now) {
			w.now = next
		}
		if e, fired := w.m.Tick(w.now); fired {
			w.do(e)
			w.check()
		}
	}
	w.now = end
}

// reload lets another machine read the log: it must know the same.
func (w *consumerWorld) reload() {
	before := w.m.groups["g"]
	w.m = w.newMachine()
	for _, r := range w.log {
		value, ok := AppendValue(nil, r)
		if !ok {
			value = nil
		}
		w.m.Apply(must(Decode(AppendKey(nil, r), value)))
	}
	for _, c := range w.clients {
		if c.waits != 0 && w.said[c.waits] == nil { // its connection is lost
			c.waits, c.said = 0, false
		}
	}
	w.m.Learn(w.cluster, nil, false)
	after := w.m.groups["g"]
	if (before == nil) != (after == nil) || before != nil && !sameGroup(before.consumer, after.consumer) { // also: neither is of the protocol
		w.fail("the log says %+v, the machine knew %+v", after, before)
	}
	w.do(w.m.Loaded(w.now))
}

// sameGroup compares what is durable of two groups, and what is counted from it.
func sameGroup(a, b *consumerGroup) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := a.epoch == b.epoch && a.hash == b.hash && a.targetAt == b.targetAt && a.targetMs == b.targetMs && slices.Equal(a.ids(), b.ids()) &&
		maps.Equal(a.static, b.static) && maps.Equal(a.reads, b.reads) && maps.Equal(a.regexReads, b.regexReads) && a.classic == b.classic &&
		maps.Equal(a.supports, b.supports) && maps.Equal(a.assignors, b.assignors) && reflect.DeepEqual(a.owners, b.owners) &&
		maps.EqualFunc(a.target, b.target, assign.Assignment.Equal) && len(a.regexes) == len(b.regexes)
	for _, id := range a.ids() {
		x, y := a.members[id], b.members[id]
		same = same && y != nil && x.memberSaid.equal(&y.memberSaid) && x.memberPlace.equal(&y.memberPlace)
	}
	return same
}

// check holds that no partition is worked on twice by members that the group counts, or given twice.
func (w *consumerWorld) check() {
	g := w.m.groups["g"]
	if g == nil || g.consumer == nil {
		return
	}
	works := map[part]string{}
	for _, c := range w.clients {
		if g.consumer.members[c.id] == nil {
			continue // it will be told that it is out
		}
		for p := range c.has {
			if other, twice := works[p]; twice {
				w.fail("%s and %s work on %s-%d", c.id, other, w.cluster.names[p.id], p.partition)
			}
			works[p] = c.id
		}
	}
	given := map[part]string{}
	for _, id := range g.consumer.ids() {
		member := g.consumer.members[id]
		for _, h := range []held{member.assigned, member.revoking} {
			for _, t := range h {
				for _, p := range t.partitions {
					key := part{t.id, p}
					if other, twice := given[key]; twice {
						w.fail("%s and %s have %s-%d", id, other, w.cluster.names[t.id], p)
					}
					given[key] = id
				}
			}
		}
	}
}

// quieten lets everybody follow until nothing changes, and looks at what has come of it.
func (w *consumerWorld) quieten() {
	for range 80 {
		w.advance(2 * time.Second)
		for _, c := range w.clients {
			w.heartbeat(c)
			c.settle()
		}
		w.check()
	}
	g := w.m.groups["g"]
	if g == nil || g.consumer == nil {
		return
	}
	if state := g.consumer.state(); state != Stable && state != Empty {
		w.fail("it does not settle: %v, epoch %d, target at %d, %d members", state, g.consumer.epoch, g.consumer.targetAt, len(g.consumer.members))
	}
	works := map[part]bool{}
	for _, c := range w.clients {
		for p := range c.has {
			works[p] = true
		}
		if member := g.consumer.members[c.id]; member != nil && !member.assigned.assignment().Equal(assignmentOfParts(c.has)) {
			w.fail("%s works on %v and was given %v", c.id, c.has, member.assigned)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.cluster.topics)) {
		if !g.consumer.readsTopic(name) {
			continue
		}
		topic := w.cluster.topics[name]
		for p := range topic.Partitions {
			if !works[part{topic.ID, p}] {
				w.fail("nobody works on %s-%d", name, p)
			}
		}
	}
}
