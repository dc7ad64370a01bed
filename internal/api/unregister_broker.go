package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// unregisterBroker removes a broker that is not coming back (key 64). As in Kafka it may be the one that is asked: it leads nothing
// then until it is started again.
func (a *API) unregisterBroker(c call) {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	if !c.decode(req) {
		return
	}
	code, message := answerOf(a.Quorum.UnregisterBroker(context.Background(), kafka.NodeID(req.BrokerID)))
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	if resp.ErrorCode, resp.ErrorMessage = int16(code), message; message == nil {
		resp.ErrorMessage = new("")
	}
	c.answer(resp)
}
