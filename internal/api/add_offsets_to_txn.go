package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

// addOffsetsToTxn adds the partition in which a group's offsets are to an open transaction (key 25).
func (a *API) addOffsetsToTxn(c call) {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	if !c.decode(req) {
		return
	}
	answer := func(code kafka.Error) {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.ErrorCode = int16(fencedCode(c.Version >= 2, code))
		c.answer(resp)
	}
	partition, ok := a.offsetsPartition(req.Group)
	if !ok {
		answer(kafka.CoordinatorNotAvailable)
		return
	}
	a.Transact(req.TransactionalID, &txn.AddPartitions{
		ID:         txn.ID{Producer: kafka.ProducerID(req.ProducerID), Epoch: kafka.ProducerEpoch(req.ProducerEpoch)},
		Partitions: []kafka.TopicPartition{partition},
	}, func(r txn.Reply) {
		reply := r.(*txn.AddPartitionsReply)
		if reply.Code == kafka.None {
			reply.Code = reply.Codes[0]
		}
		answer(reply.Code)
	})
}

// offsetsPartition is where a group's offsets are. A producer comes here before it asks who coordinates the group, so that the topic may
// have to be created first.
func (a *API) offsetsPartition(group string) (kafka.TopicPartition, bool) {
	if partition, ok := a.Coord.OffsetsPartition(group); ok {
		return partition, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), findCoordinatorWait)
	defer cancel()
	if _, err := a.Coord.Find(ctx, group); err != nil {
		return kafka.TopicPartition{}, false
	}
	return a.Coord.OffsetsPartition(group)
}
