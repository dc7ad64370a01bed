package coord

import (
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

type eventKind uint8

const (
	commandEvent  eventKind = iota // decide cmd of group
	appendedEvent                  // batch number seq is committed, or has failed with err
	tickEvent                      // a timer of the machine, or an answer that has waited too long, may be due
	loadedEvent                    // machine has read the log, or err
	graceEvent                     // those who wait for the load are told to come again
	deletedEvent                   // the topics names are no more
	expireEvent                    // look for expired offsets
	listEvent                      // tell list the groups
	finishEvent                    // result is what came of the group's work aside
	brokenEvent                    // work aside has panicked
	closeEvent                     // answer all with code; nothing after it
)

// event is what happens to a shard, one at a time.
type event struct {
	kind    eventKind
	code    kafka.Error
	seq     uint64
	err     error
	group   string
	cmd     group.Command
	reply   func(group.Reply)
	machine *group.Machine
	names   []string
	list    func([]group.Listed, kafka.Error)
	result  any
}

type shardState uint8

const (
	loading shardState = iota
	active
	closed
)

// shard is one partition of __consumer_offsets: the machine, what it has appended, and who waits.
//
// Events are processed one after the other by whoever posts to an idle shard: that goroutine is the shard's executor until
// the inbox is empty, or until it passes the work on by [wakes]. A request whose group nobody else uses is so decided, appended and applied without a hand-over. While
// it works, others only leave their events in the inbox, and the offset commits among them go to the log as one batch.
type shard struct {
	c      *Coordinator
	tp     kafka.TopicPartition
	epoch  kafka.Epoch
	failed atomic.Bool   // to be loaded again
	ended  chan struct{} // closed when all that waited is answered

	mu      sync.Mutex // guards inbox, busy, over and outcome; held for memory only
	inbox   []event
	busy    bool // somebody is the executor
	over    bool // closed: takes no more events
	outcome map[uint64]error

	// What follows belongs to the executor.
	state     shardState
	machine   *group.Machine
	learned   *meta.Image // that the machine was told of
	spare     []event     // the last inbox, to be filled again
	early     []event     // what came while loading
	slow      bool        // loading takes longer than clients are made to wait
	parked    map[group.Ticket]request
	tickets   group.Ticket
	staged    staging
	gathering bool   // what is staged waits for whoever is woken to write it
	lastSeq   uint64 // of the last batch appended
	doneSeq   uint64 // of the last batch committed
	held      []held // answers that wait for a commit, in the order of their batches
	timer     *time.Timer
	armed     time.Time
}

// request is who waits for a ticket's answer.
type request struct {
	cmd   group.Command
	reply func(group.Reply)
}

// held is an answer that leaves when all that was appended before it is committed.
type held struct {
	seq uint64
	by  time.Time
	request
	answer group.Reply
}

func newShard(c *Coordinator, tp kafka.TopicPartition, epoch kafka.Epoch) *shard {
	return &shard{
		c: c, tp: tp, epoch: epoch, ended: make(chan struct{}),
		parked: map[group.Ticket]request{}, outcome: map[uint64]error{},
	}
}

// turnEvents is after how many events an executor that has other things to do (a connection to serve) passes the work on.
const turnEvents = 64

// post leaves an event, and processes it and what else has come unless somebody does so already. It returns false when the
// shard takes no more.
func (s *shard) post(e event) bool {
	first, ok := s.leave(e)
	if first {
		s.work(turnEvents)
	}
	return ok
}

// postAsync is post for those who must not be held up: the work is done on another goroutine.
func (s *shard) postAsync(e event) {
	if first, _ := s.leave(e); first {
		s.c.wakes.add(s)
	}
}

// leave puts an event into the inbox. first tells the caller that it is the executor now.
func (s *shard) leave(e event) (first, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false, false
	}
	if e.kind == appendedEvent {
		s.outcome[e.seq] = e.err
	}
	s.inbox = append(s.inbox, e)
	first = !s.busy
	s.busy = true
	return first, true
}

// work is the executor: it processes events until there are none. After turn events, unless that is 0, it leaves the rest to a
// goroutine of its own.
func (s *shard) work(turn int) {
	for done := 0; ; {
		s.mu.Lock()
		if len(s.inbox) == 0 && !s.gathering {
			s.busy = false
			s.mu.Unlock()
			return
		}
		events := s.inbox
		s.inbox, s.spare = s.spare[:0], nil
		s.mu.Unlock()

		for i := range events {
			s.process(&events[i])
		}
		if turn > 0 && s.mayGather() {
			clear(events)
			s.spare, s.gathering = events[:0], true
			s.c.wakes.add(s)
			return
		}
		s.gathering = false
		s.rest()
		s.report()
		done += len(events)
		clear(events)
		s.spare = events[:0]
		if turn > 0 && done >= turn {
			s.c.wakes.add(s)
			return
		}
	}
}

// mayGather tells whether there are offset commits that nothing keeps from being written. Whoever has posted them may have more, and others
// who are about to run: they are written by who is woken after them.
func (s *shard) mayGather() bool {
	return s.state == active && len(s.staged.effects) > 0 && s.doneSeq == s.lastSeq
}

// survive ends a shard whose machine has panicked: what it knows may be half changed, and whoever posts next must find an executor. It
// is loaded again, while the other shards go on.
func (s *shard) survive() {
	reason := recover()
	if reason == nil {
		return
	}
	if _, ours := reason.(invariant.Violation); ours || s.state == closed {
		panic(reason)
	}
	s.c.opts.Log.Error("a request to a group caused a panic", "partition", s.tp, "panic", reason, "stack", string(debug.Stack()))
	s.fail(kafka.UnknownServerError)
}

func (s *shard) process(e *event) {
	defer s.survive()
	if s.state == closed {
		s.tooLate(e)
		return
	}
	switch e.kind {
	case commandEvent:
		s.command(e)
	case appendedEvent:
		s.appended(e.seq)
	case tickEvent:
		s.armed = time.Time{}
	case loadedEvent:
		s.loaded(e)
	case graceEvent:
		s.slow = true
		s.refuseEarly(kafka.CoordinatorLoadInProgress)
	case deletedEvent:
		if s.state == active {
			s.maintain(func() group.Effects { return s.machine.TopicsDeleted(e.names) })
		} else {
			s.early = append(s.early, *e)
		}
	case expireEvent:
		if s.state == active {
			s.maintain(func() group.Effects { return s.machine.Expire(s.c.opts.Now()) })
		}
	case listEvent:
		switch {
		case s.state == active:
			e.list(s.machine.List(), kafka.None)
		case s.slow:
			e.list(nil, kafka.CoordinatorLoadInProgress)
		default:
			s.early = append(s.early, *e)
		}
	case finishEvent:
		if s.state == active {
			s.maintain(func() group.Effects {
				s.learn()
				return s.machine.Finish(s.c.opts.Now(), e.group, e.result)
			})
		}
	case brokenEvent:
		s.fail(kafka.UnknownServerError)
	case closeEvent:
		s.close(e.code)
	}
}

// tooLate answers what was in the inbox behind the end.
func (s *shard) tooLate(e *event) {
	switch e.kind {
	case commandEvent:
		e.reply(e.cmd.Fail(kafka.NotCoordinator))
	case listEvent:
		e.list(nil, kafka.None)
	}
}

func (s *shard) command(e *event) {
	if s.state == loading {
		s.commandEarly(e)
		return
	}
	gather := false
	switch e.cmd.(type) {
	case *group.Commit:
		gather = true
	case *group.Heartbeat:
	default:
		s.flush()
		if s.state != active {
			s.tooLate(e)
			return
		}
	}
	s.learn()
	s.tickets++
	ticket := s.tickets
	s.parked[ticket] = request{cmd: e.cmd, reply: e.reply}
	effects := s.machine.Handle(s.c.opts.Now(), ticket, e.group, e.cmd)
	if gather {
		s.gather(effects)
		return
	}
	s.carryOut(effects)
}

// commandEarly is a command while the log is being read.
func (s *shard) commandEarly(e *event) {
	if _, beats := e.cmd.(*group.Heartbeat); beats {
		e.reply(&group.HeartbeatReply{}) // its session begins anew when the group is loaded
		return
	}
	if s.slow {
		e.reply(e.cmd.Fail(kafka.CoordinatorLoadInProgress))
		return
	}
	s.early = append(s.early, *e)
}

// maintain carries out what no request has asked for. It is decided when the commits that have gathered are applied: decided
// before, it could remove as old, or leave behind as unknown, what they are about to store.
func (s *shard) maintain(decide func() group.Effects) {
	s.flush()
	if s.state == active {
		s.carryOut(decide())
	}
}

// answer gives a request its answer: now if nothing that was appended is uncommitted, or if it shows nothing durable.
func (s *shard) answer(sent group.Sent) {
	r, ok := s.parked[sent.Ticket]
	if !ok {
		return // its shard has been told something else since
	}
	delete(s.parked, sent.Ticket)
	if neverWaits(sent.Reply) || s.doneSeq == s.lastSeq {
		r.reply(sent.Reply)
		return
	}
	s.held = append(s.held, held{
		seq: s.lastSeq, by: s.c.opts.Now().Add(s.c.opts.CommitTimeout), request: r, answer: sent.Reply,
	})
}

// appended notes that a batch is committed, and lets go who waited for it; or that it may be lost, which ends the shard.
func (s *shard) appended(seq uint64) {
	s.mu.Lock()
	err, known := s.outcome[seq]
	delete(s.outcome, seq)
	s.mu.Unlock()
	if !known || seq <= s.doneSeq {
		return // seen when Append returned
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.committed(seq)
}

func (s *shard) committed(seq uint64) {
	s.doneSeq = max(s.doneSeq, seq)
	n := 0
	for n < len(s.held) && s.held[n].seq <= s.doneSeq {
		n++
	}
	for i := range s.held[:n] {
		s.held[i].reply(s.held[i].answer)
	}
	s.held = slices.Delete(s.held, 0, n)
}

// rest is what the executor does when the inbox is empty: write the offset commits that have gathered, unless a batch is on
// its way and they had better wait for the next; fire timers; and see when to be woken.
func (s *shard) rest() {
	defer s.survive()
	if s.state != active {
		return
	}
	if s.doneSeq == s.lastSeq {
		s.flush()
	}
	now := s.c.opts.Now()
	for s.state == active {
		e, fired := s.machine.Tick(now)
		if !fired {
			break
		}
		s.maintain(func() group.Effects { return e }) // a commit may come between a timer's decision and its records
	}
	if s.state != active {
		return
	}
	s.giveUp(now)
	s.arm(now)
}

// giveUp tells those who have waited too long for a commit that it is not known what became of it.
func (s *shard) giveUp(now time.Time) {
	n := 0
	for n < len(s.held) && !s.held[n].by.After(now) {
		h := &s.held[n]
		h.reply(h.cmd.Fail(codeFor(h.cmd, kafka.RequestTimedOut)))
		n++
	}
	s.held = slices.Delete(s.held, 0, n)
}

// neverWaits tells whether an answer shows nothing durable: it leaves however long the disk takes.
func neverWaits(r group.Reply) bool {
	switch r := r.(type) {
	case *group.HeartbeatReply:
		return true
	case *group.ConsumerHeartbeatReply:
		return r.Steady
	}
	return false
}

// arm sets the timer for the next time that something is due.
func (s *shard) arm(now time.Time) {
	next, any := s.machine.Next()
	if len(s.held) > 0 && (!any || s.held[0].by.Before(next)) {
		next, any = s.held[0].by, true
	}
	if !any || !s.armed.IsZero() && !s.armed.After(next) {
		return
	}
	s.armed = next
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Sub(now), func() { s.post(event{kind: tickEvent}) })
		return
	}
	s.timer.Reset(next.Sub(now))
}

// fail ends a shard that may have lost what it appended, or leads no more. What it knows may be wrong: the partition is loaded
// again if this node still leads it.
func (s *shard) fail(err error) {
	code, _ := kafka.Answer(err)
	s.c.opts.Log.Warn("groups of a partition are loaded again", "partition", s.tp, "error", err)
	s.failed.Store(true)
	s.c.metrics.Reloads.Inc()
	s.closeWith(func(cmd group.Command) kafka.Error { return codeFor(cmd, code) })
	time.AfterFunc(reloadAfter, s.c.follow)
}

// reloadAfter is how long a partition that failed is left alone: what failed may fail again at once.
const reloadAfter = 100 * time.Millisecond

// close ends the shard and answers all that wait.
func (s *shard) close(code kafka.Error) { s.closeWith(func(group.Command) kafka.Error { return code }) }

func (s *shard) closeWith(code func(group.Command) kafka.Error) {
	s.state = closed
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	for i := range s.held {
		h := &s.held[i]
		h.reply(h.cmd.Fail(code(h.cmd)))
	}
	s.held = nil
	for _, ticket := range sortedTickets(s.parked) {
		r := s.parked[ticket]
		delete(s.parked, ticket)
		r.reply(r.cmd.Fail(code(r.cmd)))
	}
	for i := range s.early {
		s.tooLate(&s.early[i])
	}
	s.early, s.machine, s.staged = nil, nil, staging{}
	close(s.ended)
}

func sortedTickets(m map[group.Ticket]request) []group.Ticket {
	tickets := make([]group.Ticket, 0, len(m))
	for t := range m {
		tickets = append(tickets, t)
	}
	slices.Sort(tickets)
	return tickets
}

// codeFor is what a client is told when its records were not appended, or it is not known whether they are: a code on which
// clients of all ages look for the coordinator again.
func codeFor(cmd group.Command, code kafka.Error) kafka.Error {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut:
		if _, fetches := cmd.(*group.Fetch); fetches {
			return kafka.NotCoordinator // consumers before 3.9 take no other code for "ask again" here
		}
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	case kafka.MessageTooLarge, kafka.RecordListTooLarge:
		return kafka.UnknownServerError
	}
	return code
}
