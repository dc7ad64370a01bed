package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) offsetDeletes() {
	for _, group := range []string{"offsets4", "rebalanced", "unheard-of", ""} {
		for _, topics := range [][]string{{"r"}, {"nope"}, {"r", "nope", "r"}, {}} {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = group
			for _, name := range topics {
				t := kmsg.NewOffsetDeleteRequestTopic()
				t.Topic = name
				for _, number := range []int32{0, 44, 0} {
					p := kmsg.NewOffsetDeleteRequestTopicPartition()
					p.Partition = number
					t.Partitions = append(t.Partitions, p)
				}
				req.Topics = append(req.Topics, t)
			}
			c.add(fmt.Sprintf("group %q, topics %q", group, topics), req)
		}
	}
	c.add("after offsets were deleted", raw.Offsets(8, "offsets4", nil))
}
