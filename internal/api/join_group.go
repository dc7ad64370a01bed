package api

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
)

// joinGroup parks the request until the round of joins is over.
func (a *API) joinGroup(c call) {
	req := kmsg.NewPtrJoinGroupRequest()
	if !c.decode(req) {
		return
	}
	join := &group.Join{
		MemberID: req.MemberID, InstanceID: req.InstanceID, ClientHost: clientHost(c.Peer.Remote),
		SessionTimeoutMs: req.SessionTimeoutMillis, RebalanceTimeoutMs: req.RebalanceTimeoutMillis,
		ProtocolType: req.ProtocolType, Protocols: make([]group.Protocol, len(req.Protocols)),
		MemberIDRequired: c.Version >= 4, CanSkipAssignment: c.Version >= 9,
	}
	if c.Version == 0 {
		join.RebalanceTimeoutMs = req.SessionTimeoutMillis
	}
	if c.ClientID != nil {
		join.ClientID = *c.ClientID
	}
	if req.Reason != nil {
		join.Reason = *req.Reason
	}
	for i := range req.Protocols {
		join.Protocols[i] = group.Protocol{Name: req.Protocols[i].Name, Metadata: req.Protocols[i].Metadata}
	}
	a.Coord.Do(req.Group, join, func(r group.Reply) { c.answer(joinGroupResponse(r.(*group.JoinReply))) })
}

func joinGroupResponse(r *group.JoinReply) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode = int16(r.Code)
	resp.Generation, resp.ProtocolType, resp.Protocol = r.Generation, r.ProtocolType, r.Protocol
	resp.LeaderID, resp.SkipAssignment, resp.MemberID = r.Leader, r.SkipAssignment, r.MemberID
	resp.Members = make([]kmsg.JoinGroupResponseMember, len(r.Members))
	for i, m := range r.Members {
		resp.Members[i] = kmsg.NewJoinGroupResponseMember()
		resp.Members[i].MemberID, resp.Members[i].InstanceID, resp.Members[i].ProtocolMetadata = m.MemberID, m.InstanceID, m.Metadata
	}
	return resp
}

// clientHost writes an address as Java does: tools show it, and split it at its slash.
func clientHost(remote netip.AddrPort) string {
	addr := remote.Addr().Unmap()
	switch {
	case !addr.IsValid():
		return "/127.0.0.1" // a connection in memory
	case addr.Is4():
		return "/" + addr.String()
	}
	groups := make([]string, 8)
	raw := addr.As16()
	for i := range groups {
		groups[i] = strconv.FormatUint(uint64(raw[2*i])<<8|uint64(raw[2*i+1]), 16)
	}
	return "/" + strings.Join(groups, ":")
}
