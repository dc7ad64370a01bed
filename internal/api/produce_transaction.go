package api

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/txn"
	"github.com/raftsman/raftsman/internal/wire"
)

const (
	// produceAbortable is the first version of Produce whose clients know TRANSACTION_ABORTABLE.
	produceAbortable = 11
	// produceAdds is the first version that adds its partitions to the transaction (KIP-890).
	produceAdds = 12
)

// askAgainAfter is the pause before the coordinator is asked for the third time, while the producer's last transaction is still being
// ended. There is none before the second, as the first answer waits for that end. Each pause is twice the one before, up to
// add.partitions.to.txn.retry.backoff.ms.
const askAgainAfter = time.Millisecond

// verify asks the transaction's coordinator about the batches that begin the transaction in their partitions, and waits for its answer:
// on the connection's goroutine, as what the producer sends next must be appended after them. Those that are not to be appended get their
// answers, and are taken from the request for the replicas. In partitions where the transaction is open nobody is asked.
func (p *produceCall) verify() {
	by, found, ok := p.transactionalProducer()
	if !ok {
		p.refuseAll(errManyProducers)
		return
	}
	if !found {
		return
	}
	adds := p.call.Version >= produceAdds
	guarded := p.a.verifiesPartitions()
	if !adds && !guarded {
		p.unguard()
		return
	}
	began := time.Now()
	config := p.a.Config
	againUntil := min(config.Duration("add.partitions.to.txn.retry.backoff.max.ms"), config.Duration("request.timeout.ms"))
	longest := config.Duration("add.partitions.to.txn.retry.backoff.ms")
	for pause := time.Duration(0); ; pause = max(2*pause, askAgainAfter) {
		question := p.question(by, adds)
		if adds {
			question.cmd.Wait = max(0, againUntil-time.Since(began))
		}
		codes := p.askCoordinator(question)
		if adds {
			p.recheck(question, by, codes)
		}
		if !adds || !mayPass(codes) || time.Since(began) >= againUntil {
			p.settle(question, codes)
			break
		}
		time.Sleep(min(pause, longest))
	}
	p.call.waited(time.Since(began))
	if !guarded {
		p.unguard()
	}
}

// verifiesPartitions tells whether requests that do not add their partitions themselves are verified. It may change at any time.
func (a *API) verifiesPartitions() bool {
	const name = "transaction.partition.verification.enable"
	set := dynamicOf(a.Quorum.Image(), a.NodeID)
	for _, values := range []map[string]string{set.Node, set.Cluster} {
		if value, ok := values[name]; ok {
			return !strings.EqualFold(strings.TrimSpace(value), "false")
		}
	}
	return a.Config.Bool(name)
}

// errManyProducers is a *kafka.Refusal.
var errManyProducers error = kafka.Refuse(kafka.InvalidProducerIdMapping, "the request has batches of transactions of more than one producer, or of more than one epoch of it")

// transactionalBatch returns the first batch of a partition's records if it belongs to a transaction. More, and what is wrong with it, is
// for the log to say.
func transactionalBatch(records []byte) (record.Batch, bool) {
	if len(records) < record.HeaderBytes {
		return nil, false
	}
	b := record.Batch(records)
	return b, b.Magic() == record.Magic && b.IsTransactional() && b.ProducerID() >= 0
}

// transactional tells whether a request has batches of a transaction.
func (p *produceCall) transactional() bool {
	for i := range p.ask.Partitions {
		records := p.ask.Partitions[i].Records
		if len(records) >= record.HeaderBytes && record.Batch(records).Magic() == record.Magic && record.Batch(records).IsTransactional() {
			return true
		}
	}
	return false
}

// transactionalProducer returns whose transaction the request is part of, if it has such batches. ok is false when it is more than one's.
func (p *produceCall) transactionalProducer() (by record.Producer, found, ok bool) {
	for i := range p.ask.Partitions {
		b, is := transactionalBatch(p.ask.Partitions[i].Records)
		if !is {
			continue
		}
		one := record.Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch()}
		if found && one != by {
			return by, true, false
		}
		by, found = one, true
	}
	return by, found, true
}

// question is what a request wants to know of a transaction's coordinator.
type question struct {
	cmd   *txn.AddPartitions
	asked []int         // the partitions of the question, as places in produceCall.ask
	fails []failedCheck // those that are not worth one
}

type failedCheck struct {
	at  int // as in question.asked
	err error
}

// question takes guards for the batches that begin the transaction in their partitions, and makes what is to be asked about them.
func (p *produceCall) question(by record.Producer, adds bool) *question {
	q := &question{cmd: &txn.AddPartitions{ID: txn.ID{Producer: by.ID, Epoch: by.Epoch}, VerifyOnly: !adds}}
	if adds {
		q.cmd.Protocol = 2
	}
	for i := range p.ask.Partitions {
		part := &p.ask.Partitions[i]
		b, is := transactionalBatch(part.Records)
		if !is {
			continue
		}
		by.BaseSequence = b.BaseSequence()
		guard, needed, err := p.a.Replicas.Verification(part.Topic, part.TopicID, part.Partition, by, adds)
		switch {
		case errors.Is(err, kafka.UnknownTopicId) && p.call.Version < produceByID: // a topic without a name
			q.fails = append(q.fails, failedCheck{i, kafka.UnknownTopicOrPartition})
		case err != nil:
			q.fails = append(q.fails, failedCheck{i, err})
		case needed:
			part.Guard = guard
			q.asked = append(q.asked, i)
			q.cmd.Partitions = append(q.cmd.Partitions, kafka.TopicPartition{Topic: p.nameOf(part), Partition: part.Partition})
		}
	}
	return q
}

// nameOf is the name of a partition's topic. Who has passed Verification is known by it.
func (p *produceCall) nameOf(part *replica.ProducePartition) string {
	if part.TopicID.IsZero() {
		return part.Topic
	}
	topic, _ := p.a.Quorum.Image().TopicByID(part.TopicID)
	if topic == nil { // deleted since
		return ""
	}
	return topic.Name
}

// askCoordinator asks the coordinator of a transactional id, on whichever broker it is.
func (a *API) askCoordinator(transactionalID string, cmd txn.Command, reply func(txn.Reply)) {
	if a.AskCoordinator != nil {
		a.AskCoordinator(transactionalID, cmd, reply)
		return
	}
	a.Transact(transactionalID, cmd, reply)
}

// askCoordinator returns the coordinator's answers, in the order of the question.
func (p *produceCall) askCoordinator(q *question) []kafka.Error {
	n := len(q.asked)
	if n == 0 {
		return nil
	}
	answered := make(chan *txn.AddPartitionsReply, 1)
	p.a.askCoordinator(*p.req.TransactionalID, q.cmd, func(r txn.Reply) { answered <- r.(*txn.AddPartitionsReply) })
	late := time.NewTimer(p.a.Config.Duration("request.timeout.ms"))
	defer late.Stop()
	reply := &txn.AddPartitionsReply{Code: kafka.NetworkException}
	select {
	case reply = <-answered:
	case <-late.C:
	}
	if reply.Code == kafka.None && len(reply.Codes) == n {
		return reply.Codes
	}
	codes := make([]kafka.Error, n)
	for i := range codes {
		codes[i] = reply.Code
	}
	return codes
}

// recheck has the partitions asked about again whose guards are void, though they are in the transaction: the marker of the last one took the
// guards, and was not there yet when they were given. None comes after the answer of the coordinator, which has them all by then.
func (p *produceCall) recheck(q *question, by record.Producer, codes []kafka.Error) {
	for k, code := range codes {
		if code != kafka.None {
			continue
		}
		part := &p.ask.Partitions[q.asked[k]]
		b, _ := transactionalBatch(part.Records)
		by.BaseSequence = b.BaseSequence()
		if p.a.isVoid(part.Guard, part.Topic, part.TopicID, part.Partition, by) {
			codes[k] = kafka.ConcurrentTransactions
		}
	}
}

// isVoid tells whether another guard is needed now than the one that was given to a producer whose question adds the partition.
func (a *API) isVoid(guard producer.Guard, topic string, id kafka.TopicID, partition int32, by record.Producer) bool {
	now, needed, err := a.Replicas.Verification(topic, id, partition, by, true)
	return err == nil && needed && now != guard
}

// mayPass tells whether one of the answers is that the producer's last transaction is still being ended.
func mayPass(codes []kafka.Error) bool {
	return slices.Contains(codes, kafka.ConcurrentTransactions)
}

// settle answers the partitions that are not to be appended to, and takes them from the request for the replicas.
func (p *produceCall) settle(q *question, codes []kafka.Error) {
	fails := q.fails
	for k, code := range codes {
		if code != kafka.None {
			fails = append(fails, failedCheck{q.asked[k], p.refusedBy(code)})
		}
	}
	if len(fails) == 0 {
		return
	}
	refused := make(map[int]error, len(fails))
	for _, f := range fails {
		refused[f.at] = f.err
	}
	kept := 0
	for i := range p.ask.Partitions {
		if err := refused[i]; err != nil {
			row := &p.rows[p.askFor[i]]
			row.Err, row.ErrorMessage = answerOf(err)
			continue
		}
		p.ask.Partitions[kept], p.askFor[kept] = p.ask.Partitions[i], p.askFor[i]
		kept++
	}
	clear(p.ask.Partitions[kept:])
	p.ask.Partitions, p.askFor = p.ask.Partitions[:kept], p.askFor[:kept]
}

// refusedBy is what a client of the request's version is told for the coordinator's answer: it repeats the batch after NOT_ENOUGH_REPLICAS,
// and does nothing else.
func (p *produceCall) refusedBy(code kafka.Error) error {
	switch code {
	case kafka.ProducerFenced:
		return kafka.InvalidProducerEpoch
	case kafka.TransactionAbortable:
		if p.call.Version >= produceAbortable {
			return code
		}
		return errNotInTransaction
	case kafka.InvalidTxnState:
		return errNotInTransaction
	case kafka.ConcurrentTransactions:
		if p.call.Version >= produceAdds {
			return code
		}
		return refuseUnverified(code)
	case kafka.NetworkException, kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable, kafka.NotCoordinator:
		return refuseUnverified(code)
	}
	return code
}

// errNotInTransaction is a *kafka.Refusal.
var errNotInTransaction error = kafka.Refuse(kafka.InvalidTxnState, "the partition is not part of the transaction: it was not added, or the transaction has ended")

func refuseUnverified(code kafka.Error) error {
	return kafka.Refuse(kafka.NotEnoughReplicas, "the transaction's coordinator could not be asked about the partition: %v", code)
}

// unguard lets the batches of the transaction begin it without that the partition is known to be part of it.
func (p *produceCall) unguard() {
	for i := range p.ask.Partitions {
		p.ask.Partitions[i].Guard = producer.Unguarded
	}
}

// refuseAll answers every partition of the request with the same error.
func (p *produceCall) refuseAll(err error) {
	for i := range p.rows {
		row := &p.rows[i]
		*row = wire.FailedProduce(row.Index, kafka.None)
		row.Err, row.ErrorMessage = answerOf(err)
	}
	clear(p.ask.Partitions)
	p.ask.Partitions, p.askFor = p.ask.Partitions[:0], p.askFor[:0]
}

// waited takes time for which the request has waited from the time that it is taken to have occupied its connection's goroutine.
func (c call) waited(wait time.Duration) {
	if c.timing != nil {
		c.timing.began = c.timing.began.Add(wait)
	}
}
