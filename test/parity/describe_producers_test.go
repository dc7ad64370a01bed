package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func describeProducers(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	row := kmsg.NewDescribeProducersRequestTopic()
	row.Topic, row.Partitions = topic, partitions
	req.Topics = append(req.Topics, row)
	return req
}

func (c *conversation) describeProducers() {
	c.add("right", describeProducers("r", 0, 1, 2))
	c.add("right and wrong", describeProducers("r", 0, 9, -1, 0))
	c.add("unknown topic", describeProducers("nope", 0))
	c.add("bad name", describeProducers("a b", 0))
	c.add("no partitions", describeProducers("r"))
}
