package coord

import (
	"context"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/txn"
)

type txnEvent = event[txn.Command, txn.Reply]

// txnShard is one partition of __transaction_state: the transactional ids in it.
type txnShard struct {
	executor[txn.Command, txn.Reply]

	// What follows belongs to whoever is the executor.
	machine *txn.Machine
	learned *meta.Image // that the machine was told of
	staged  staging[*txn.Record]
	patient []patient // in the order in which they came
}

// patient is a command whose answer waits while the last transaction of its id is being ended.
type patient struct {
	ticket ticket
	id     string
	cmd    *txn.AddPartitions
	until  time.Time
}

func newTxnShard(c *Coordinator, tp kafka.TopicPartition, epoch kafka.Epoch) *txnShard {
	s := &txnShard{}
	s.executor = newExecutor(c, host[txn.Command, txn.Reply](s), "transactional ids", &c.metrics.Transactions, tp, epoch)
	s.staged.format = format[*txn.Record]{txn.AppendKey, txn.AppendValue}
	return s
}

// Transact lets the shard of a transactional id decide a command. reply is called exactly once, from any goroutine, perhaps before
// Transact returns, and must not block. The command is borrowed until then.
func (c *Coordinator) Transact(transactionalID string, cmd txn.Command, reply func(txn.Reply)) {
	s := c.transactions.of(transactionalID)
	if s == nil || !s.post(txnEvent{kind: commandEvent, key: transactionalID, cmd: cmd, reply: reply}) {
		reply(cmd.Fail(kafka.NotCoordinator))
	}
}

// FindTransactional is Find for a transactional id.
func (c *Coordinator) FindTransactional(ctx context.Context, transactionalID string) (kafka.NodeID, error) {
	return c.transactions.find(ctx, transactionalID)
}

// ListTransactions hands all transactional ids that this node answers for to reply, by name; COORDINATOR_LOAD_IN_PROGRESS when some are
// not known yet.
func (c *Coordinator) ListTransactions(reply func([]txn.Listed, kafka.Error)) {
	l := newListing(reply, func(a, b txn.Listed) int { return strings.Compare(a.TransactionalID, b.TransactionalID) })
	for s := range c.transactions.all() {
		l.expect()
		e := txnEvent{kind: taskEvent, task: func() { l.add(s.machine.List(), kafka.None) }, refused: l.refused}
		if !s.post(e) {
			l.add(nil, kafka.None)
		}
	}
	l.add(nil, kafka.None)
}

// OffsetsPartition is where the offsets of a group are stored; false while there is no such topic.
func (c *Coordinator) OffsetsPartition(groupID string) (kafka.TopicPartition, bool) {
	t, ok := c.opts.Image().Topic(meta.OffsetsTopic)
	if !ok {
		return kafka.TopicPartition{}, false
	}
	return kafka.TopicPartition{Topic: t.Name, Partition: kafka.PartitionFor(groupID, int32(len(t.Partitions)))}, true
}

// abortTimedOut aborts the transactions that are over their time.
func (c *Coordinator) abortTimedOut() {
	for s := range c.transactions.all() {
		s.task(func() { s.each(s.machine.AbortTimedOut, s.timedOut) })
	}
}

// expireIDs forgets transactional ids that nobody has used for long.
func (c *Coordinator) expireIDs() {
	for s := range c.transactions.all() {
		s.task(func() { s.each(s.machine.Expire, func([]*txn.Record) {}) })
	}
}

// txnReader reads the log into a machine.
type txnReader struct{ machine *txn.Machine }

func (s *txnShard) reader() reader { return txnReader{txn.New(s.c.opts.Transactions, int32(s.epoch))} }

func (r txnReader) record(_ record.Batch, key, value []byte) error {
	decoded, err := txn.Decode(key, value)
	if err != nil {
		return err
	}
	if decoded != nil {
		r.machine.Apply(decoded)
	}
	return nil
}

// marker implements [reader]: there are none in this topic.
func (r txnReader) marker(kafka.ProducerID, bool) {}

func (r txnReader) size() int { return r.machine.Len() }

// begin implements [host].
func (s *txnShard) begin(read reader) {
	s.machine, s.learned = read.(txnReader).machine, nil
	s.learn()
	s.carryOut(s.machine.Loaded(s.c.opts.Now()))
}

// learn tells the machine which protocol is finalised now.
func (s *txnShard) learn() {
	if now := s.c.opts.Image(); now != s.learned {
		s.learned = now
		s.machine.SetProtocol(now.Features()[meta.TransactionVersion])
	}
}

// early implements [host].
func (s *txnShard) early(txn.Command) (txn.Reply, bool) { return nil, false }

// handle implements [host].
func (s *txnShard) handle(t ticket, transactionalID string, cmd txn.Command) {
	now := s.c.opts.Now()
	if add, ok := cmd.(*txn.AddPartitions); ok && add.Wait > 0 {
		s.decideAdd(now, patient{t, transactionalID, add, now.Add(add.Wait)})
		return
	}
	s.learn()
	e := s.machine.Handle(now, txn.Ticket(t), transactionalID, cmd)
	if e.NeedsID {
		s.withFreshID(t, transactionalID, cmd)
		return
	}
	s.carryOut(e)
}

// decideAdd decides a command whose answer may wait while the last transaction is being ended.
func (s *txnShard) decideAdd(now time.Time, p patient) {
	s.learn()
	e := s.machine.Handle(now, txn.Ticket(p.ticket), p.id, p.cmd)
	if len(e.Replies) == 1 && now.Before(p.until) {
		if r, ok := e.Replies[0].Reply.(*txn.AddPartitionsReply); ok && r.Code == kafka.ConcurrentTransactions {
			s.patient = append(s.patient, p)
			return
		}
	}
	s.carryOut(e)
}

// askAgain tells those that wait, and that which says of, to ask again. They are not decided here: what a client has ready for its next
// transaction (a guard) may be void with the last one's markers.
func (s *txnShard) askAgain(which func(p patient) bool) {
	waiting := s.patient
	s.patient = nil
	for _, p := range waiting {
		switch {
		case s.state != active: // and all are answered
		case which(p):
			s.carryOut(txn.Effects{Replies: []txn.Sent{{Ticket: txn.Ticket(p.ticket), Reply: p.cmd.Fail(kafka.ConcurrentTransactions)}}})
		default:
			s.patient = append(s.patient, p)
		}
	}
}

// withFreshID hands a command in again with a producer id that nobody has had. That may take as long as the metadata log takes
// to reserve some, so others go on meanwhile.
func (s *txnShard) withFreshID(t ticket, transactionalID string, cmd txn.Command) {
	r, _ := s.take(t)
	begun := s.c.start(func() {
		fresh, err := s.c.opts.NextProducerID(s.c.stop)
		switch {
		case s.c.stop.Err() != nil:
			r.reply(cmd.Fail(kafka.NotCoordinator))
			return
		case err != nil:
			s.c.opts.Log.Warn("take a block of producer ids", "error", err)
			r.reply(cmd.Fail(kafka.CoordinatorLoadInProgress)) // as Kafka says while it waits for a block
			return
		}
		switch cmd := cmd.(type) {
		case *txn.InitProducer:
			cmd.Fresh = fresh
		case *txn.End:
			cmd.Fresh = fresh
		}
		if !s.post(txnEvent{kind: commandEvent, key: transactionalID, cmd: cmd, reply: r.reply}) {
			r.reply(cmd.Fail(kafka.NotCoordinator))
		}
	})
	if !begun {
		r.reply(cmd.Fail(kafka.NotCoordinator))
	}
}

// carryOut appends what effects want appended, applies it, and lets the machine finish. It returns false when it was refused.
func (s *txnShard) carryOut(e txn.Effects) bool {
	if len(e.Records) == 0 {
		s.release(e)
		return true
	}
	refused := kafka.MessageTooLarge
	if s.staged.encode(e.Records, s.c.opts.Partitions.BatchBytesMax(s.tp)) == len(e.Records) {
		s.staged.add(len(e.Records), s.c.opts.Now().UnixMilli())
		var ok bool
		if refused, ok = s.append(s.staged.batch.Build()); !ok {
			return false
		}
	}
	if refused == kafka.None {
		for _, r := range e.Records {
			s.machine.Apply(r)
		}
		s.release(e)
	}
	s.carryOut(s.machine.Settle(s.c.opts.Now(), e, codeFor(refused)))
	return refused == kafka.None
}

// release lets answers and markers go when all that was appended is committed.
func (s *txnShard) release(e txn.Effects) {
	for _, sent := range e.Replies {
		s.answer(ticket(sent.Ticket), sent.Reply)
	}
	for _, m := range e.Markers {
		s.whenCommitted(func(err error) {
			if err == nil {
				s.writeMarkers(m)
			}
		})
	}
}

// timedOut tells of a transaction that its client did not end.
func (s *txnShard) timedOut(records []*txn.Record) {
	for _, r := range records {
		if r.Value != nil && r.Value.State == txn.PrepareAbort {
			s.c.metrics.TimedOut.Inc()
			s.c.opts.Log.Info("a transaction was over its time and is aborted", "transactionalId", r.TransactionalID,
				"producerId", r.Value.ID.Producer, "timeoutMs", r.Value.TimeoutMs)
		}
	}
}

// each carries out one after the other what the machine wants done now, and tells done of its records, until one is refused: so would
// be the next.
func (s *txnShard) each(next func(now time.Time) (txn.Effects, bool), done func([]*txn.Record)) {
	for s.state == active {
		s.learn()
		e, more := next(s.c.opts.Now())
		if !more || !s.carryOut(e) {
			return
		}
		done(e.Records)
	}
}

// gathered implements [host]: every change is a batch of its own.
func (s *txnShard) gathered() bool { return false }

// flush implements [host].
func (s *txnShard) flush() {}

// tick implements [host]: commands wait no longer than they may.
func (s *txnShard) tick(now time.Time) bool {
	if due, any := s.next(); any && !due.After(now) {
		s.askAgain(func(p patient) bool { return !p.until.After(now) })
	}
	return false
}

// next implements [host].
func (s *txnShard) next() (due time.Time, any bool) {
	for _, p := range s.patient {
		if !any || p.until.Before(due) {
			due, any = p.until, true
		}
	}
	return due, any
}

// rest implements [host].
func (s *txnShard) rest() {}

// forget implements [host].
func (s *txnShard) forget() { s.machine, s.staged, s.patient = nil, staging[*txn.Record]{}, nil }

// codeFor implements [host].
func (s *txnShard) codeFor(_ txn.Command, code kafka.Error) kafka.Error { return codeFor(code) }
