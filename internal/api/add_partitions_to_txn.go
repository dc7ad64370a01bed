package api

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/txn"
)

// addPartitionsToTxn adds partitions to open transactions (key 24): of one producer that asks for itself up to version 3, and from
// version 4 on of any, for brokers whose producers write without having asked. Those may also ask only whether the partitions are in.
func (a *API) addPartitionsToTxn(c call) {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	if !c.decode(req) {
		return
	}
	if c.Version < 4 {
		a.addPartitionsOfClient(c, req)
		return
	}
	ids, byID := rowsByID(req.Transactions)
	answers := make([][]kmsg.AddPartitionsToTxnResponseTransaction, len(ids))
	var left atomic.Int64
	left.Store(int64(len(ids)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			resp := kmsg.NewPtrAddPartitionsToTxnResponse()
			resp.Transactions = slices.Concat(answers...)
			c.answer(resp)
		}
	}
	for i, id := range ids {
		rows := byID[id]
		last := &rows[len(rows)-1]
		cmd := &txn.AddPartitions{
			ID:       txn.ID{Producer: kafka.ProducerID(last.ProducerID), Epoch: kafka.ProducerEpoch(last.ProducerEpoch)},
			Protocol: 2, VerifyOnly: last.VerifyOnly,
		}
		for _, t := range last.Topics {
			for _, n := range t.Partitions {
				cmd.Partitions = append(cmd.Partitions, kafka.TopicPartition{Topic: t.Topic, Partition: n})
			}
		}
		a.addPartitions(id, cmd, func(all kafka.Error, code func(i int) kafka.Error) {
			for _, row := range answeredRows(rows, all) {
				answers[i] = append(answers[i], addedRow(row, code))
			}
			done()
		})
	}
	done()
}

// rowsByID gathers the rows of each transactional id, and lists the ids as they came.
func rowsByID(rows []kmsg.AddPartitionsToTxnRequestTransaction) (ids []string, byID map[string][]kmsg.AddPartitionsToTxnRequestTransaction) {
	byID = make(map[string][]kmsg.AddPartitionsToTxnRequestTransaction, len(rows))
	for _, row := range rows {
		if len(byID[row.TransactionalID]) == 0 {
			ids = append(ids, row.TransactionalID)
		}
		byID[row.TransactionalID] = append(byID[row.TransactionalID], row)
	}
	return ids, byID
}

// answeredRows are the rows of an id that are answered. The last one counts, as in Kafka; where the coordinator refuses the id, those that
// add are answered as the first, and those that verify as the last.
func answeredRows(rows []kmsg.AddPartitionsToTxnRequestTransaction, refused kafka.Error) (answered []*kmsg.AddPartitionsToTxnRequestTransaction) {
	last := &rows[len(rows)-1]
	verifies := func(row kmsg.AddPartitionsToTxnRequestTransaction) bool { return row.VerifyOnly }
	adds := func(row kmsg.AddPartitionsToTxnRequestTransaction) bool { return !row.VerifyOnly }
	if refused == kafka.None || slices.ContainsFunc(rows, verifies) {
		answered = append(answered, last)
	}
	if refused != kafka.None && slices.ContainsFunc(rows, adds) {
		answered = append(answered, &rows[0])
	}
	return answered
}

// addedRow answers a row with the code of each of its partitions, by its place.
func addedRow(row *kmsg.AddPartitionsToTxnRequestTransaction, code func(i int) kafka.Error) kmsg.AddPartitionsToTxnResponseTransaction {
	answer := kmsg.NewAddPartitionsToTxnResponseTransaction()
	answer.TransactionalID = row.TransactionalID
	at := 0
	for _, t := range row.Topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		topic.Topic = t.Topic
		for _, n := range t.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			p.Partition, p.ErrorCode = n, int16(code(at))
			topic.Partitions = append(topic.Partitions, p)
			at++
		}
		if len(topic.Partitions) > 0 {
			answer.Topics = append(answer.Topics, topic)
		}
	}
	return answer
}

func (a *API) addPartitionsOfClient(c call, req *kmsg.AddPartitionsToTxnRequest) {
	cmd := &txn.AddPartitions{ID: txn.ID{Producer: kafka.ProducerID(req.ProducerID), Epoch: kafka.ProducerEpoch(req.ProducerEpoch)}}
	for _, t := range req.Topics {
		for _, n := range t.Partitions {
			cmd.Partitions = append(cmd.Partitions, kafka.TopicPartition{Topic: t.Topic, Partition: n})
		}
	}
	a.addPartitions(req.TransactionalID, cmd, func(_ kafka.Error, code func(i int) kafka.Error) {
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		at := 0
		for _, t := range req.Topics {
			topic := kmsg.NewAddPartitionsToTxnResponseTopic()
			topic.Topic = t.Topic
			for _, n := range t.Partitions {
				p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				p.Partition, p.ErrorCode = n, int16(fencedCode(c.Version >= 2, code(at)))
				topic.Partitions = append(topic.Partitions, p)
				at++
			}
			resp.Topics = append(resp.Topics, topic)
		}
		c.answer(resp)
	})
}

// addPartitions asks the coordinator, all or nothing: when one of the partitions can't be added, none is. done is given the code of each of
// the command's partitions, by its place, and beside them the coordinator's if it is the same for all.
func (a *API) addPartitions(transactionalID string, cmd *txn.AddPartitions, done func(all kafka.Error, code func(i int) kafka.Error)) {
	image := a.Coord.Image()
	failed := make(map[int]kafka.Error)
	for i, tp := range cmd.Partitions {
		topic, ok := image.Topic(tp.Topic)
		switch {
		case cmd.Protocol < 2 && meta.IsInternalTopic(tp.Topic): // which a client does not write to
			failed[i] = kafka.TopicAuthorizationFailed
		case !ok || tp.Partition < 0 || int(tp.Partition) >= len(topic.Partitions):
			failed[i] = kafka.UnknownTopicOrPartition
		}
	}
	if len(failed) > 0 {
		done(kafka.None, func(i int) kafka.Error { return cmp.Or(failed[i], kafka.OperationNotAttempted) })
		return
	}
	a.Transact(transactionalID, cmd, func(r txn.Reply) {
		reply := r.(*txn.AddPartitionsReply)
		done(reply.Code, func(i int) kafka.Error {
			if reply.Code != kafka.None {
				return reply.Code
			}
			return reply.Codes[i]
		})
	})
}
