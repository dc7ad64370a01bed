package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// leaveGroup removes one member, or many from version 3 on.
func (a *API) leaveGroup(c call) {
	req := kmsg.NewPtrLeaveGroupRequest()
	if !c.decode(req) {
		return
	}
	leave := &group.Leave{Members: []group.Leaving{{MemberID: req.MemberID}}}
	if c.Version >= 3 {
		leave.Members = make([]group.Leaving, len(req.Members))
		for i := range req.Members {
			m := &req.Members[i]
			leave.Members[i] = group.Leaving{MemberID: m.MemberID, InstanceID: m.InstanceID}
			if m.Reason != nil {
				leave.Members[i].Reason = *m.Reason
			}
		}
	}
	a.Coord.Do(req.Group, leave, func(r group.Reply) { c.answer(leaveGroupResponse(c.Version, r.(*group.LeaveReply))) })
}

func leaveGroupResponse(version int16, r *group.LeaveReply) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.ErrorCode = int16(r.Code)
	if version < 3 {
		if r.Code == kafka.None && len(r.Members) == 1 {
			resp.ErrorCode = int16(r.Members[0].Code)
		}
		return resp
	}
	resp.Members = make([]kmsg.LeaveGroupResponseMember, len(r.Members))
	for i, m := range r.Members {
		resp.Members[i] = kmsg.NewLeaveGroupResponseMember()
		resp.Members[i].MemberID, resp.Members[i].InstanceID, resp.Members[i].ErrorCode = m.MemberID, m.InstanceID, int16(m.Code)
	}
	return resp
}
