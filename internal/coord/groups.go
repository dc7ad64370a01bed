package coord

import (
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
)

type groupEvent = event[group.Command, group.Reply]

// groupShard is one partition of __consumer_offsets: the groups in it.
type groupShard struct {
	executor[group.Command, group.Reply]

	// What follows belongs to whoever is the executor.
	machine *group.Machine
	learned *meta.Image // that the machine was told of
	staged  staging[group.Record]
	commits []group.Effects // of offset commits, whose records are staged: they go to the log as one batch
}

func newGroupShard(c *Coordinator, tp kafka.TopicPartition, epoch kafka.Epoch) *groupShard {
	s := &groupShard{}
	s.executor = newExecutor(c, host[group.Command, group.Reply](s), "groups", &c.metrics.Groups, tp, epoch)
	s.staged.format = format[group.Record]{group.AppendKey, group.AppendValue}
	return s
}

// groupReader reads the log into a machine.
type groupReader struct{ machine *group.Machine }

func (s *groupShard) reader() reader { return groupReader{group.New(s.c.opts.Group, s.c.opts.Random)} }

func (r groupReader) record(b record.Batch, key, value []byte) error {
	decoded, err := group.Decode(key, value)
	switch {
	case err != nil:
		return err
	case decoded == nil:
	case b.IsTransactional():
		r.machine.ApplyOpen(b.ProducerID(), decoded)
	default:
		r.machine.Apply(decoded)
	}
	return nil
}

func (r groupReader) marker(id kafka.ProducerID, commit bool) {
	r.machine.EndTransaction(id, commit)
}

func (r groupReader) size() int { return r.machine.Groups() }

// begin implements [host].
func (s *groupShard) begin(read reader) {
	s.machine, s.learned = read.(groupReader).machine, nil
	s.learn()
	s.carryOut(s.machine.Loaded(s.c.opts.Now()))
}

// early implements [host].
func (s *groupShard) early(cmd group.Command) (group.Reply, bool) {
	if _, beats := cmd.(*group.Heartbeat); beats {
		return &group.HeartbeatReply{}, true // its session begins anew when the group is loaded
	}
	return nil, false
}

// handle implements [host].
func (s *groupShard) handle(t ticket, groupID string, cmd group.Command) {
	gather := false
	switch cmd.(type) {
	case *group.Commit:
		gather = true
	case *group.Heartbeat:
	default:
		s.flush()
		if s.state != active {
			return // and the request is answered
		}
	}
	s.learn()
	effects := s.machine.Handle(s.c.opts.Now(), group.Ticket(t), groupID, cmd)
	if gather {
		s.gather(effects)
		return
	}
	s.carryOut(effects)
}

// maintain carries out what no request has asked for. It is decided when the commits that have gathered are applied: decided
// before, it could remove as old, or leave behind as unknown, what they are about to store.
func (s *groupShard) maintain(decide func() group.Effects) {
	s.flush()
	if s.state == active {
		s.carryOut(decide())
	}
}

// send gives a request its answer.
func (s *groupShard) send(sent group.Sent) {
	if !neverWaits(sent.Reply) {
		s.answer(ticket(sent.Ticket), sent.Reply)
		return
	}
	if r, ok := s.take(ticket(sent.Ticket)); ok {
		r.reply(sent.Reply)
	}
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

// gathered implements [host].
func (s *groupShard) gathered() bool { return len(s.commits) > 0 }

// tick implements [host]. A commit may come between a timer's decision and its records.
func (s *groupShard) tick(now time.Time) bool {
	e, fired := s.machine.Tick(now)
	if fired {
		s.maintain(func() group.Effects { return e })
	}
	return fired
}

// next implements [host].
func (s *groupShard) next() (time.Time, bool) { return s.machine.Next() }

// rest implements [host].
func (s *groupShard) rest() { s.report() }

// forget implements [host].
func (s *groupShard) forget() { s.machine, s.commits, s.staged = nil, nil, staging[group.Record]{} }

// codeFor implements [host].
func (s *groupShard) codeFor(cmd group.Command, code kafka.Error) kafka.Error {
	if _, fetches := cmd.(*group.Fetch); fetches && codeFor(code) == kafka.CoordinatorNotAvailable {
		return kafka.NotCoordinator // consumers before 3.9 take no other code for "ask again" here
	}
	return codeFor(code)
}

// gather carries out the effects of an offset commit, with others of its kind.
func (s *groupShard) gather(e group.Effects) {
	for _, sent := range e.Replies {
		s.send(sent)
	}
	if len(e.Records) == 0 {
		return
	}
	limit := s.c.opts.Partitions.BatchBytesMax(s.tp)
	if s.staged.encode(e.Records, limit) < len(e.Records) {
		s.settle(e, kafka.MessageTooLarge)
		return
	}
	if s.staged.batch.Len()+s.staged.bytes > limit {
		s.flush()
		if s.state != active {
			return
		}
	}
	s.staged.add(len(e.Records), s.c.opts.Now().UnixMilli())
	s.commits = append(s.commits, e)
}

// flush appends the offset commits that have gathered.
func (s *groupShard) flush() {
	if s.state != active || len(s.commits) == 0 {
		return
	}
	effects := s.commits
	refused, ok := s.append(s.staged.batch.Build())
	if !ok {
		return
	}
	if refused == kafka.None {
		s.c.metrics.CommitBatches.Inc()
		s.c.metrics.Commits.Add(int64(len(effects)))
	}
	for _, e := range effects {
		if refused == kafka.None {
			s.apply(e.Records)
		}
		s.settle(e, refused)
	}
	clear(effects)
	s.commits = effects[:0]
}

// carryOut appends what effects want appended, applies it, and lets the machine finish.
func (s *groupShard) carryOut(e group.Effects) {
	for _, sent := range e.Replies {
		s.send(sent)
	}
	s.doAside(e.Aside)
	rest := e.Records
	if len(rest) == 0 {
		return
	}
	if e.Txn != nil {
		s.carryOutIn(e)
		return
	}
	limit := s.c.opts.Partitions.BatchBytesMax(s.tp)
	for len(rest) > 0 {
		n := s.staged.encode(rest, limit)
		if n == 0 || n < len(rest) && !e.Separable {
			s.settle(e, kafka.MessageTooLarge)
			return
		}
		s.staged.add(n, s.c.opts.Now().UnixMilli())
		refused, ok := s.append(s.staged.batch.Build())
		if !ok {
			return
		}
		if refused != kafka.None {
			s.settle(e, refused)
			return
		}
		s.apply(rest[:n])
		rest = rest[n:]
	}
	s.settle(e, kafka.None)
}

// carryOutIn appends what a producer commits in its transaction.
func (s *groupShard) carryOutIn(e group.Effects) {
	refused := kafka.MessageTooLarge
	if s.staged.encode(e.Records, s.c.opts.Partitions.BatchBytesMax(s.tp)) == len(e.Records) {
		b := &s.staged.batch
		b.Producer, b.Transactional = &record.Producer{ID: e.Txn.ProducerID, Epoch: e.Txn.ProducerEpoch, BaseSequence: -1}, true
		s.staged.add(len(e.Records), s.c.opts.Now().UnixMilli())
		seq, done := s.nextBatch()
		s.c.opts.Partitions.AppendTransactional(s.tp, b.Build(), producer.Guard(e.Txn.Guard), done)
		b.Producer, b.Transactional = nil, false
		var ok bool
		if refused, ok = s.written(seq); !ok {
			return
		}
	}
	if refused == kafka.None {
		for _, r := range e.Records {
			s.machine.ApplyOpen(e.Txn.ProducerID, r)
		}
	}
	s.settle(e, refused)
}

// endTransaction appends a marker, as the groups' offsets are theirs to append, and lets them count, or not. Nobody sees them before
// the marker is committed, as no answer leaves before. done is called when it is, or with why it was not appended.
func (s *groupShard) endTransaction(m replica.Marker, done func(error)) {
	s.flush()
	if s.state != active {
		done(kafka.NotCoordinator)
		return
	}
	seq, appended := s.nextBatch()
	s.c.opts.Partitions.EndTransaction(s.tp, m, func(err error) { appended(kafka.NoOffset, err) })
	switch refused, ok := s.written(seq); {
	case !ok:
		done(kafka.NotCoordinator)
	case refused != kafka.None:
		done(refused)
	default:
		s.machine.EndTransaction(m.ProducerID, m.Commit)
		s.whenCommitted(done)
	}
}

func (s *groupShard) apply(records []group.Record) {
	for _, r := range records {
		s.machine.Apply(r)
	}
}

// settle ends effects: their records are applied, or were refused.
func (s *groupShard) settle(e group.Effects, refused kafka.Error) {
	if refused != kafka.None {
		refused = codeFor(refused)
	}
	after := s.machine.Settle(s.c.opts.Now(), e, refused)
	for _, sent := range after.Replies {
		s.send(sent)
	}
	s.doAside(after.Aside)
}
