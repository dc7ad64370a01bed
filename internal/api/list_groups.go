package api

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// listGroups lists the groups that this node answers for, of the states and types asked for, letters of any case.
func (a *API) listGroups(c call) {
	req := kmsg.NewPtrListGroupsRequest()
	if !c.decode(req) {
		return
	}
	a.Coord.List(func(groups []group.Listed, code kafka.Error) {
		resp := kmsg.NewPtrListGroupsResponse()
		resp.ErrorCode = int16(code)
		for _, g := range groups {
			if !wanted(req.StatesFilter, g.State.String()) || !wanted(req.TypesFilter, g.Type.String()) {
				continue
			}
			listed := kmsg.NewListGroupsResponseGroup()
			listed.Group, listed.ProtocolType, listed.GroupState, listed.GroupType = g.Group, g.ProtocolType, g.State.String(), g.Type.String()
			resp.Groups = append(resp.Groups, listed)
		}
		c.answer(resp)
	})
}

func wanted(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}
