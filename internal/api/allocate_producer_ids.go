package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// allocateProducerIds gives a broker producer ids to hand out (key 67).
func (a *API) allocateProducerIds(c call) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	if !c.decode(req) {
		return
	}
	first, count, err := a.Controller.AllocateProducerIDs(context.Background(), kafka.NodeID(req.BrokerID), kafka.BrokerEpoch(req.BrokerEpoch))
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	if resp.ErrorCode = codeOf(err); err == nil {
		resp.ProducerIDStart, resp.ProducerIDLen = int64(first), count
	}
	c.answer(resp)
}
