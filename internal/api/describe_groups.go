package api

import (
	"math"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// describeGroups describes each group, those that are not there as Dead; from version 6 on they are an error too.
func (a *API) describeGroups(c call) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	var left atomic.Int64
	left.Store(int64(len(req.Groups)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	named := newRepeats[string](len(req.Groups))
	for i, name := range req.Groups {
		if named.tooMany(name) {
			refused := (&group.Describe{}).Fail(kafka.InvalidRequest).(*group.DescribeReply)
			resp.Groups[i] = describedGroup(c.Version, name, refused, false)
			done()
			continue
		}
		a.Coord.Do(name, &group.Describe{}, func(r group.Reply) {
			resp.Groups[i] = describedGroup(c.Version, name, r.(*group.DescribeReply), req.IncludeAuthorizedOperations)
			done()
		})
	}
	done()
}

func describedGroup(version int16, name string, r *group.DescribeReply, operations bool) kmsg.DescribeGroupsResponseGroup {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group, resp.ErrorCode = name, int16(r.Code)
	if r.Code != kafka.None {
		return resp
	}
	resp.State, resp.ProtocolType, resp.Protocol = r.State.String(), r.ProtocolType, r.Protocol
	if !r.Found && version >= 6 {
		reason := "Group %s not found."
		if r.NotClassic {
			reason = "Group %s is not a classic group."
		}
		_, resp.ErrorMessage = answerOf(kafka.Refuse(kafka.GroupIdNotFound, reason, name))
		resp.ErrorCode = int16(kafka.GroupIdNotFound)
	}
	resp.AuthorizedOperations = math.MinInt32
	if operations && resp.ErrorCode == 0 {
		resp.AuthorizedOperations = groupOperations
	}
	resp.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(r.Members))
	for i, m := range r.Members {
		member := kmsg.NewDescribeGroupsResponseGroupMember()
		member.MemberID, member.InstanceID, member.ClientID, member.ClientHost = m.MemberID, m.InstanceID, m.ClientID, m.ClientHost
		member.ProtocolMetadata, member.MemberAssignment = m.Metadata, m.Assignment
		resp.Members[i] = member
	}
	return resp
}

// groupOperations is what everybody may do to a group while there is no authorizer: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and
// ALTER_CONFIGS, each the bit of its number.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
