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
	s.learn()
	e := s.machine.Handle(s.c.opts.Now(), txn.Ticket(t), transactionalID, cmd)
	if e.NeedsID {
		s.withFreshID(t, transactionalID, cmd)
		return
	}
	s.carryOut(e)
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

// tick implements [host]: the machine has no timers of its own.
func (s *txnShard) tick(time.Time) bool { return false }

// next implements [host].
func (s *txnShard) next() (time.Time, bool) { return time.Time{}, false }

// rest implements [host].
func (s *txnShard) rest() {}

// forget implements [host].
func (s *txnShard) forget() { s.machine, s.staged = nil, staging[*txn.Record]{} }

// codeFor implements [host].
func (s *txnShard) codeFor(_ txn.Command, code kafka.Error) kafka.Error { return codeFor(code) }
