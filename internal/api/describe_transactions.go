package api

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

// describeTransactions tells how transactional ids are (key 65), which this node coordinates.
func (a *API) describeTransactions(c call) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	resp.TransactionStates = make([]kmsg.DescribeTransactionsResponseTransactionState, len(req.TransactionalIDs))
	var left atomic.Int64
	left.Store(int64(len(req.TransactionalIDs)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	named := newRepeats[string](len(req.TransactionalIDs))
	for i, id := range req.TransactionalIDs {
		if named.tooMany(id) {
			resp.TransactionStates[i] = describedTransaction(id, &txn.DescribeReply{Code: kafka.InvalidRequest})
			done()
			continue
		}
		a.Transact(id, &txn.Describe{}, func(r txn.Reply) {
			resp.TransactionStates[i] = describedTransaction(id, r.(*txn.DescribeReply))
			done()
		})
	}
	done()
}

func describedTransaction(id string, r *txn.DescribeReply) kmsg.DescribeTransactionsResponseTransactionState {
	row := kmsg.NewDescribeTransactionsResponseTransactionState()
	row.TransactionalID, row.ErrorCode = id, int16(r.Code)
	if r.Code != kafka.None {
		return row
	}
	row.State, row.TimeoutMillis, row.StartTimestamp = r.State.String(), r.TimeoutMs, r.StartMs
	row.ProducerID, row.ProducerEpoch = int64(r.ID.Producer), int16(r.ID.Epoch)
	for _, tp := range r.Partitions { // which are sorted
		if n := len(row.Topics); n == 0 || row.Topics[n-1].Topic != tp.Topic {
			topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			topic.Topic = tp.Topic
			row.Topics = append(row.Topics, topic)
		}
		topic := &row.Topics[len(row.Topics)-1]
		topic.Partitions = append(topic.Partitions, tp.Partition)
	}
	return row
}
