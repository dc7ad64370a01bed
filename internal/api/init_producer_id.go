package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

// initProducerId gives a producer the id under which it is idempotent (key 22). Without a transactional id nothing is remembered of
// it: a producer that asks again gets another one. With one the transaction coordinator decides: all who had the transactional id
// before are fenced.
func (a *API) initProducerId(c call) {
	req := kmsg.NewPtrInitProducerIDRequest()
	if !c.decode(req) {
		return
	}
	answer := func(code kafka.Error, id txn.ID) {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(code), int64(id.Producer), int16(id.Epoch)
		c.answer(resp)
	}
	switch {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1), req.TransactionalID != nil && *req.TransactionalID == "":
		answer(kafka.InvalidRequest, txn.NoID)
	case req.TransactionalID == nil:
		answer(a.idempotentProducer())
	default:
		a.Transact(*req.TransactionalID, &txn.InitProducer{
			TimeoutMs: req.TransactionTimeoutMillis,
			Expected:  txn.ID{Producer: kafka.ProducerID(req.ProducerID), Epoch: kafka.ProducerEpoch(req.ProducerEpoch)},
			Fresh:     kafka.NoProducer,
		}, func(r txn.Reply) {
			reply := r.(*txn.InitProducerReply)
			answer(fencedCode(c.Version >= 4, reply.Code), reply.ID)
		})
	}
}

func (a *API) idempotentProducer() (kafka.Error, txn.ID) {
	id, err := a.Quorum.NextProducerID(context.Background())
	if err != nil {
		a.Log.Warn("take a block of producer ids", "error", err)
		return kafka.CoordinatorLoadInProgress, txn.NoID // as Kafka says while it waits for a block
	}
	return kafka.None, txn.ID{Producer: id}
}

// fencedCode tells a producer that another has taken its place. Clients that do not know the code for that would ask again for ever;
// they know INVALID_PRODUCER_EPOCH.
func fencedCode(known bool, code kafka.Error) kafka.Error {
	if code == kafka.ProducerFenced && !known {
		return kafka.InvalidProducerEpoch
	}
	return code
}
