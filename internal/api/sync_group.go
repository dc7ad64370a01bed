package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// syncGroup parks a follower's request until the leader has brought the assignment.
func (a *API) syncGroup(c call) {
	req := kmsg.NewPtrSyncGroupRequest()
	if !c.decode(req) {
		return
	}
	sync := &group.Sync{
		Generation: req.Generation, MemberID: req.MemberID, InstanceID: req.InstanceID, ProtocolType: req.ProtocolType,
		Protocol: req.Protocol, Assignments: make([]group.Assignment, len(req.GroupAssignment)),
	}
	for i := range req.GroupAssignment {
		given := &req.GroupAssignment[i]
		sync.Assignments[i] = group.Assignment{MemberID: given.MemberID, Bytes: given.MemberAssignment}
	}
	answer := func(r group.Reply) {
		synced, resp := r.(*group.SyncReply), kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.ProtocolType, resp.Protocol = int16(synced.Code), synced.ProtocolType, synced.Protocol
		resp.MemberAssignment = synced.Assignment
		c.answer(resp)
	}
	if c.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		answer(sync.Fail(kafka.InconsistentGroupProtocol)) // KIP-559: clients that can say them must
		return
	}
	a.Coord.Do(req.Group, sync, answer)
}
