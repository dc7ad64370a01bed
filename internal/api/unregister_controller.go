package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// unregisterController removes a controller that is not coming back (key 94).
func (a *API) unregisterController(c call) {
	req := kmsg.NewPtrUnregisterControllerRequest()
	if !c.decode(req) {
		return
	}
	code, message := answerOf(a.Quorum.UnregisterController(context.Background(), kafka.NodeID(req.ControllerID)))
	resp := kmsg.NewPtrUnregisterControllerResponse()
	resp.ErrorCode, resp.ErrorMessage = int16(code), message
	c.answer(resp)
}
