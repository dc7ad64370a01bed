package coord

import (
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

type eventKind uint8

const (
	commandEvent  eventKind = iota // decide cmd of key
	appendedEvent                  // batch number seq is committed, or has failed with err
	tickEvent                      // a timer of the machine, or an answer that has waited too long, may be due
	loadedEvent                    // read has read the log, or err
	graceEvent                     // those who wait for the load are told to come again
	taskEvent                      // do task
	brokenEvent                    // work aside has panicked
	closeEvent                     // answer all with code; nothing after it
)

// event is what happens to a shard, one at a time.
type event[C command[R], R any] struct {
	kind  eventKind
	code  kafka.Error
	seq   uint64
	err   error
	key   string
	cmd   C
	reply func(R)
	read  reader
	// task is done by a shard that is loaded. One that still loads keeps it until then where keep says so or somebody wants to know:
	// refused, if it is not nil, is called in place of task when the load takes longer than clients are made to wait, or the shard ends.
	task    func()
	keep    bool
	refused func(kafka.Error)
}

// command is a request to a machine, that R answers.
type command[R any] interface{ Fail(code kafka.Error) R }

// host is the half of a shard that knows its machine. Only the executor calls it.
type host[C command[R], R any] interface {
	// reader returns a new machine, to read the log with; begin makes it the shard's.
	reader() reader
	begin(read reader)
	// handle decides a command; early answers one while the log is being read, if it can be.
	handle(ticket ticket, key string, cmd C)
	early(cmd C) (R, bool)
	// gathered tells whether there is something to append that had better wait for more of its kind; flush appends it.
	gathered() bool
	flush()
	// tick does one thing that the machine's timers want done now. It returns false when there is none.
	tick(now time.Time) bool
	// next returns when tick is to be called.
	next() (time.Time, bool)
	// rest is called when there is nothing to do for the moment.
	rest()
	// forget lets the machine go: the shard has ended.
	forget()
	// codeFor is what a client is told when its records were not appended, or it is not known whether they are.
	codeFor(cmd C, code kafka.Error) kafka.Error
}

type shardState uint8

const (
	loading shardState = iota
	active
	closed
)

// ticket names one request to a machine.
type ticket uint64

// executor is what shards of all kinds have in common: it lets one event after the other happen to a machine, appends what that
// decides, and lets answers go when what they show is committed.
//
// Events are processed by whoever posts to an idle shard: that goroutine is the executor until the inbox is empty, or until it passes
// the work on by [wakes]. So a request that finds the shard idle is decided, appended and applied without a hand-over. While it works,
// others only leave their events in the inbox; what the host gathers of them, offset commits, goes to the log as one batch.
type executor[C command[R], R any] struct {
	c       *Coordinator
	host    host[C, R]
	what    string // the machine knows, for the log: groups, transactional ids
	metrics *ShardMetrics
	tp      kafka.TopicPartition
	epoch   kafka.Epoch
	failed  atomic.Bool   // to be loaded again
	ended   chan struct{} // closed when all that waited is answered

	mu      sync.Mutex // guards inbox, busy, over and outcome; held for memory only
	inbox   []event[C, R]
	busy    bool // somebody is the executor
	over    bool // closed: takes no more events
	outcome map[uint64]error

	// What follows belongs to whoever is the executor.
	state     shardState
	spare     []event[C, R] // the last inbox, to be filled again
	waiting   []event[C, R] // what came while loading
	slow      bool          // loading takes longer than clients are made to wait
	parked    map[ticket]request[C, R]
	tickets   ticket
	gathering bool          // what has gathered waits for whoever is woken to write it
	lastSeq   uint64        // of the last batch appended
	doneSeq   uint64        // of the last batch committed
	held      []held[C, R]  // answers that wait for a commit, in the order of their batches
	after     []afterCommit // in the order of the batches
	timer     *time.Timer
	armed     time.Time
}

// request is who waits for a ticket's answer.
type request[C command[R], R any] struct {
	cmd   C
	reply func(R)
}

// held is an answer that leaves when all that was appended before it is committed.
type held[C command[R], R any] struct {
	seq uint64
	by  time.Time
	request[C, R]
	answer R
}

// afterCommit is called when all that was appended before is committed, or with why that is not known.
type afterCommit struct {
	seq  uint64
	done func(error)
}

func newExecutor[C command[R], R any](
	c *Coordinator, h host[C, R], what string, m *ShardMetrics, tp kafka.TopicPartition, epoch kafka.Epoch,
) executor[C, R] {
	return executor[C, R]{
		c: c, host: h, what: what, metrics: m, tp: tp, epoch: epoch, ended: make(chan struct{}),
		parked: map[ticket]request[C, R]{}, outcome: map[uint64]error{},
	}
}

// turnEvents is after how many events an executor that has other things to do (a connection to serve) passes the work on.
const turnEvents = 64

// post leaves an event, and processes it and what else has come unless somebody does so already. It returns false when the
// shard takes no more.
func (s *executor[C, R]) post(e event[C, R]) bool {
	first, ok := s.leave(e)
	if first {
		s.work(turnEvents)
	}
	return ok
}

// postAsync is post for those who must not be held up: the work is done on another goroutine.
func (s *executor[C, R]) postAsync(e event[C, R]) bool {
	first, ok := s.leave(e)
	if first {
		s.c.wakes.add(s)
	}
	return ok
}

// leave puts an event into the inbox. first tells the caller that it is the executor now.
func (s *executor[C, R]) leave(e event[C, R]) (first, ok bool) {
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
func (s *executor[C, R]) work(turn int) {
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
		done += len(events)
		clear(events)
		s.spare = events[:0]
		if turn > 0 && done >= turn {
			s.c.wakes.add(s)
			return
		}
	}
}

// mayGather tells whether something is gathered that nothing keeps from being written. Whoever has posted it may have more, and others who
// are about to run: it is written by who is woken after them.
func (s *executor[C, R]) mayGather() bool {
	return s.state == active && s.doneSeq == s.lastSeq && s.host.gathered()
}

// survive ends a shard whose machine has panicked: what it knows may be half changed, and whoever posts next must find an executor. It
// is loaded again, while the other shards go on.
func (s *executor[C, R]) survive() {
	reason := recover()
	if reason == nil {
		return
	}
	if _, ours := reason.(invariant.Violation); ours || s.state == closed {
		panic(reason)
	}
	s.c.opts.Log.Error("a request to "+s.what+" caused a panic", "partition", s.tp, "panic", reason, "stack", string(debug.Stack()))
	s.fail(kafka.UnknownServerError)
}

func (s *executor[C, R]) process(e *event[C, R]) {
	defer s.survive()
	if s.state == closed {
		s.refuse(e, kafka.NotCoordinator)
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
		s.refuseWaiting(kafka.CoordinatorLoadInProgress)
	case taskEvent:
		switch {
		case s.state == active:
			e.task()
		case s.slow && e.refused != nil:
			e.refused(kafka.CoordinatorLoadInProgress)
		case e.keep || e.refused != nil:
			s.waiting = append(s.waiting, *e)
		}
	case brokenEvent:
		s.fail(kafka.UnknownServerError)
	case closeEvent:
		s.close(func(C) kafka.Error { return e.code })
	}
}

// refuse answers an event that will not be processed. It returns false when that wants no answer.
func (s *executor[C, R]) refuse(e *event[C, R], code kafka.Error) bool {
	switch {
	case e.kind == commandEvent:
		e.reply(e.cmd.Fail(code))
	case e.refused != nil:
		e.refused(code)
	default:
		return false
	}
	return true
}

// refuseWaiting tells those who wait for the load to come again.
func (s *executor[C, R]) refuseWaiting(code kafka.Error) {
	waiting := s.waiting
	s.waiting = nil
	for i := range waiting {
		if !s.refuse(&waiting[i], code) {
			s.waiting = append(s.waiting, waiting[i])
		}
	}
}

func (s *executor[C, R]) command(e *event[C, R]) {
	if s.state == loading {
		switch answer, ok := s.host.early(e.cmd); {
		case ok:
			e.reply(answer)
		case s.slow:
			e.reply(e.cmd.Fail(kafka.CoordinatorLoadInProgress))
		default:
			s.waiting = append(s.waiting, *e)
		}
		return
	}
	s.tickets++
	s.parked[s.tickets] = request[C, R]{cmd: e.cmd, reply: e.reply}
	s.host.handle(s.tickets, e.key, e.cmd)
}

// take returns who waits for an answer. It returns false when it has been told something else since.
func (s *executor[C, R]) take(t ticket) (request[C, R], bool) {
	r, ok := s.parked[t]
	delete(s.parked, t)
	return r, ok
}

// answer gives a request its answer: now if nothing that was appended is uncommitted.
func (s *executor[C, R]) answer(t ticket, reply R) {
	r, ok := s.take(t)
	switch {
	case !ok:
	case s.doneSeq == s.lastSeq:
		r.reply(reply)
	default:
		s.held = append(s.held, held[C, R]{
			seq: s.lastSeq, by: s.c.opts.Now().Add(s.c.opts.CommitTimeout), request: r, answer: reply,
		})
	}
}

// whenCommitted calls done when all that was appended is committed: nil; or with why that is not known.
func (s *executor[C, R]) whenCommitted(done func(error)) {
	if s.doneSeq == s.lastSeq {
		done(nil)
		return
	}
	s.after = append(s.after, afterCommit{s.lastSeq, done})
}

// appended notes that a batch is committed, and lets go who waited for it; or that it may be lost, which ends the shard.
func (s *executor[C, R]) appended(seq uint64) {
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

func (s *executor[C, R]) committed(seq uint64) {
	s.doneSeq = max(s.doneSeq, seq)
	n := 0
	for n < len(s.held) && s.held[n].seq <= s.doneSeq {
		n++
	}
	for i := range s.held[:n] {
		s.held[i].reply(s.held[i].answer)
	}
	s.held = slices.Delete(s.held, 0, n)
	n = 0
	for n < len(s.after) && s.after[n].seq <= s.doneSeq {
		n++
	}
	for i := range s.after[:n] {
		s.after[i].done(nil)
	}
	s.after = slices.Delete(s.after, 0, n)
}

// rest is what the executor does when the inbox is empty: write what has gathered, unless a batch is on its way and it had better
// wait for the next; fire timers; and see when to be woken.
func (s *executor[C, R]) rest() {
	defer s.survive()
	if s.state == active && s.doneSeq == s.lastSeq {
		s.host.flush()
	}
	now := s.c.opts.Now()
	for s.state == active && s.host.tick(now) {
	}
	if s.state != active {
		return
	}
	s.giveUp(now)
	s.arm(now)
	s.host.rest()
}

// giveUp tells those who have waited too long for a commit that it is not known what became of it.
func (s *executor[C, R]) giveUp(now time.Time) {
	n := 0
	for n < len(s.held) && !s.held[n].by.After(now) {
		h := &s.held[n]
		h.reply(h.cmd.Fail(s.host.codeFor(h.cmd, kafka.RequestTimedOut)))
		n++
	}
	s.held = slices.Delete(s.held, 0, n)
}

// arm sets the timer for the next time that something is due.
func (s *executor[C, R]) arm(now time.Time) {
	next, any := s.host.next()
	if len(s.held) > 0 && (!any || s.held[0].by.Before(next)) {
		next, any = s.held[0].by, true
	}
	if !any || !s.armed.IsZero() && !s.armed.After(next) {
		return
	}
	s.armed = next
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Sub(now), func() { s.post(event[C, R]{kind: tickEvent}) })
		return
	}
	s.timer.Reset(next.Sub(now))
}

// append appends one batch. refused is why not a byte of it was written: then nothing has changed. When ok is false the shard
// has ended: it is not known what was written.
func (s *executor[C, R]) append(batch record.Batch) (refused kafka.Error, ok bool) {
	seq, done := s.nextBatch()
	s.c.opts.Partitions.Append(s.tp, batch, done)
	return s.written(seq)
}

// nextBatch gives the next batch its number, and what is to be called when it is committed or has failed.
func (s *executor[C, R]) nextBatch() (seq uint64, done func(kafka.Offset, error)) {
	s.lastSeq++
	seq = s.lastSeq
	return seq, func(_ kafka.Offset, err error) {
		s.postAsync(event[C, R]{kind: appendedEvent, seq: seq, err: err})
	}
}

// written tells what came of a batch when the call that was to write it has returned.
func (s *executor[C, R]) written(seq uint64) (refused kafka.Error, ok bool) {
	s.mu.Lock()
	err, known := s.outcome[seq]
	delete(s.outcome, seq)
	s.mu.Unlock()
	switch {
	case !known:
		return kafka.None, true
	case err == nil:
		s.committed(seq)
		return kafka.None, true
	case s.c.unwritten(s.tp, s.epoch, err):
		s.lastSeq--
		code, _ := kafka.Answer(err)
		return code, true
	}
	s.fail(err)
	return kafka.None, false
}

// fail ends a shard that may have lost what it appended, or leads no more. What it knows may be wrong: the partition is loaded
// again if this node still leads it.
func (s *executor[C, R]) fail(err error) {
	code, _ := kafka.Answer(err)
	s.c.opts.Log.Warn(s.what+" of a partition are loaded again", "partition", s.tp, "error", err)
	s.failed.Store(true)
	s.metrics.Reloads.Inc()
	s.close(func(cmd C) kafka.Error { return s.host.codeFor(cmd, code) })
	time.AfterFunc(reloadAfter, s.c.follow)
}

// reloadAfter is how long a partition that failed is left alone: what failed may fail again at once.
const reloadAfter = 100 * time.Millisecond

// close ends the shard and answers all that wait.
func (s *executor[C, R]) close(code func(C) kafka.Error) {
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
	for i := range s.after {
		s.after[i].done(kafka.NotCoordinator)
	}
	s.held, s.after = nil, nil
	tickets := make([]ticket, 0, len(s.parked))
	for t := range s.parked {
		tickets = append(tickets, t)
	}
	slices.Sort(tickets)
	for _, t := range tickets {
		r, _ := s.take(t)
		r.reply(r.cmd.Fail(code(r.cmd)))
	}
	for i := range s.waiting {
		s.refuse(&s.waiting[i], kafka.NotCoordinator)
	}
	s.waiting = nil
	s.host.forget()
	close(s.ended)
}

// task lets the shard do something when it is loaded; nobody waits for it.
func (s *executor[C, R]) task(do func()) { s.postAsync(event[C, R]{kind: taskEvent, task: do}) }

// goesOn tells that the shard has not ended.
func (s *executor[C, R]) goesOn() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// isFor tells whether the shard may go on under the epoch.
func (s *executor[C, R]) isFor(epoch kafka.Epoch) bool { return s.epoch == epoch && !s.failed.Load() }

// drop ends a shard that is not to be here any more, and dropNow does so before it returns unless somebody else is the executor.
func (s *executor[C, R]) drop() {
	s.postAsync(event[C, R]{kind: closeEvent, code: kafka.NotCoordinator})
}

func (s *executor[C, R]) dropNow() { s.post(event[C, R]{kind: closeEvent, code: kafka.NotCoordinator}) }

func (s *executor[C, R]) wait() { <-s.ended }

// codeFor is what a client is told when its records were not appended, or it is not known whether they are: a code on which
// clients of all ages look for the coordinator again.
func codeFor(code kafka.Error) kafka.Error {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut:
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	case kafka.MessageTooLarge, kafka.RecordListTooLarge:
		return kafka.UnknownServerError
	}
	return code
}
