package api

import (
	"cmp"
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
	rows := lastOfEach(req.Transactions)
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	resp.Transactions = make([]kmsg.AddPartitionsToTxnResponseTransaction, len(rows))
	var left atomic.Int64
	left.Store(int64(len(rows)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	for i, row := range rows {
		cmd := &txn.AddPartitions{
			ID:       txn.ID{Producer: kafka.ProducerID(row.ProducerID), Epoch: kafka.ProducerEpoch(row.ProducerEpoch)},
			Protocol: 2, VerifyOnly: row.VerifyOnly,
		}
		for _, t := range row.Topics {
			for _, n := range t.Partitions {
				cmd.Partitions = append(cmd.Partitions, kafka.TopicPartition{Topic: t.Topic, Partition: n})
			}
		}
		a.addPartitions(row.TransactionalID, cmd, func(code func(i int) kafka.Error) {
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
			resp.Transactions[i] = answer
			done()
		})
	}
	done()
}

// lastOfEach leaves one row of each transactional id: the last, as Kafka does.
func lastOfEach(rows []kmsg.AddPartitionsToTxnRequestTransaction) []kmsg.AddPartitionsToTxnRequestTransaction {
	at := make(map[string]int, len(rows))
	kept := rows[:0]
	for _, row := range rows {
		if i, again := at[row.TransactionalID]; again {
			kept[i] = row
			continue
		}
		at[row.TransactionalID] = len(kept)
		kept = append(kept, row)
	}
	return kept
}

func (a *API) addPartitionsOfClient(c call, req *kmsg.AddPartitionsToTxnRequest) {
	cmd := &txn.AddPartitions{ID: txn.ID{Producer: kafka.ProducerID(req.ProducerID), Epoch: kafka.ProducerEpoch(req.ProducerEpoch)}}
	for _, t := range req.Topics {
		for _, n := range t.Partitions {
			cmd.Partitions = append(cmd.Partitions, kafka.TopicPartition{Topic: t.Topic, Partition: n})
		}
	}
	a.addPartitions(req.TransactionalID, cmd, func(code func(i int) kafka.Error) {
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
// the command's partitions, by its place.
func (a *API) addPartitions(transactionalID string, cmd *txn.AddPartitions, done func(code func(i int) kafka.Error)) {
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
		done(func(i int) kafka.Error { return cmp.Or(failed[i], kafka.OperationNotAttempted) })
		return
	}
	a.Transact(transactionalID, cmd, func(r txn.Reply) {
		reply := r.(*txn.AddPartitionsReply)
		done(func(i int) kafka.Error {
			if reply.Code != kafka.None {
				return reply.Code
			}
			return reply.Codes[i]
		})
	})
}
