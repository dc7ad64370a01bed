package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
)

func (a *API) heartbeat(c call) {
	req := kmsg.NewPtrHeartbeatRequest()
	if !c.decode(req) {
		return
	}
	beat := &group.Heartbeat{Generation: req.Generation, MemberID: req.MemberID, InstanceID: req.InstanceID}
	a.Coord.Do(req.Group, beat, func(r group.Reply) {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = int16(r.(*group.HeartbeatReply).Code)
		c.answer(resp)
	})
}
