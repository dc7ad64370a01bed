package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) describeCluster() {
	for _, v := range raw.VersionsOf(kmsg.DescribeCluster) {
		for _, kind := range []int8{1, 2, 0, 3, -1} {
			for _, more := range []bool{false, true} {
				req := raw.At(v, kmsg.NewPtrDescribeClusterRequest())
				req.EndpointType, req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = kind, more, more
				c.add(fmt.Sprintf("endpoints %d, more %v", kind, more), req)
			}
		}
	}
}
