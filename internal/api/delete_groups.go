package api

import (
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// deleteGroups deletes groups without members, with all that they have committed.
func (a *API) deleteGroups(c call) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	if !c.decode(req) {
		return
	}
	var names []string
	for _, name := range req.Groups {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(names))
	var left atomic.Int64
	left.Store(int64(len(names)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	for i, name := range names {
		a.Coord.Do(name, &group.Delete{}, func(r group.Reply) {
			resp.Groups[i] = deletedGroup(c.Version, name, r.(*group.DeleteReply))
			done()
		})
	}
	done()
}

// deletedGroup answers for one group. GROUP_DELETION_FAILED and the reason came with version 3.
func deletedGroup(version int16, name string, r *group.DeleteReply) kmsg.DeleteGroupsResponseGroup {
	resp := kmsg.NewDeleteGroupsResponseGroup()
	resp.Group, resp.ErrorCode = name, int16(r.Code)
	switch {
	case r.Code == kafka.GroupDeletionFailed && version < 3:
		resp.ErrorCode = int16(kafka.UnsupportedVersion)
	case r.Reason != "":
		resp.ErrorMessage = &r.Reason
	}
	return resp
}
