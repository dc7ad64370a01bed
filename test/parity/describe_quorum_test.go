package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) describeQuorum() {
	const metadata = "__cluster_metadata"
	for _, v := range raw.VersionsOf(kmsg.DescribeQuorum) {
		c.add("the metadata", raw.DescribeQuorum(v, metadata, 0))
		c.add("another partition", raw.DescribeQuorum(v, metadata, 1))
		c.add("a partition below 0", raw.DescribeQuorum(v, metadata, -1))
		c.add("two partitions", raw.DescribeQuorum(v, metadata, 0, 1))
		c.add("a partition twice", raw.DescribeQuorum(v, metadata, 0, 0))
		c.add("no partitions", raw.DescribeQuorum(v, metadata))
		c.add("another topic", raw.DescribeQuorum(v, "made1", 0))
		c.add("a topic without a name", raw.DescribeQuorum(v, "", 0))
		two := raw.DescribeQuorum(v, metadata, 0)
		two.Topics = append(two.Topics, raw.DescribeQuorum(v, "nope", 0, 3).Topics[0])
		c.add("the metadata and another topic", two)
		c.add("no topics", raw.At(v, kmsg.NewPtrDescribeQuorumRequest()))
	}
}
