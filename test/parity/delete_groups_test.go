package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) deleteGroups() {
	for _, v := range raw.VersionsOf(kmsg.DeleteGroups) {
		for _, names := range [][]string{{fmt.Sprint("offsets", 5+v)}, {"rebalanced", "unheard-of", "", "unheard-of", fmt.Sprint("group", v)}, {}} {
			req := raw.At(v, kmsg.NewPtrDeleteGroupsRequest())
			req.Groups = names
			c.add(fmt.Sprintf("groups %q", names), req)
		}
	}
}
