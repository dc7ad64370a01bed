package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) describeGroups() {
	for _, v := range raw.VersionsOf(kmsg.DescribeGroups) {
		req := raw.At(v, kmsg.NewPtrDescribeGroupsRequest())
		req.Groups = []string{"rebalanced", "nobody's", "", "offsets2", "rebalanced", "grüppe ☃"}
		req.IncludeAuthorizedOperations = v%2 == 0
		c.add("right and wrong", req)
		right := raw.At(v, kmsg.NewPtrDescribeGroupsRequest())
		right.Groups = []string{"rebalanced", "offsets2"}
		c.add("right", right)
		c.add("no groups", raw.At(v, kmsg.NewPtrDescribeGroupsRequest()))
	}
}
