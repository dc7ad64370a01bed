package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

// endTxn commits or aborts a transaction (key 26). It is answered when that is decided and safe; the markers follow. From version 5 on
// each end gives the producer another epoch (KIP-890), so that nothing of the old transaction can come late.
func (a *API) endTxn(c call) {
	req := kmsg.NewPtrEndTxnRequest()
	if !c.decode(req) {
		return
	}
	cmd := &txn.End{
		ID:     txn.ID{Producer: kafka.ProducerID(req.ProducerID), Epoch: kafka.ProducerEpoch(req.ProducerEpoch)},
		Commit: req.Commit, Fresh: kafka.NoProducer,
	}
	if c.Version >= 5 {
		cmd.Protocol = 2
	}
	a.Transact(req.TransactionalID, cmd, func(r txn.Reply) {
		reply := r.(*txn.EndReply)
		resp := kmsg.NewPtrEndTxnResponse()
		resp.ErrorCode = int16(fencedCode(c.Version >= 2, reply.Code))
		resp.ProducerID, resp.ProducerEpoch = int64(reply.ID.Producer), int16(reply.ID.Epoch)
		c.answer(resp)
	})
}
