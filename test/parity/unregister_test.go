package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// unregister takes brokers and controllers out of the cluster, at last the only broker itself: nothing can be asked after it.
func (c *conversation) unregister() {
	for _, v := range raw.VersionsOf(kmsg.UnregisterController) {
		for _, id := range []int32{2, -1, 1<<31 - 1, 1} {
			req := raw.At(v, kmsg.NewPtrUnregisterControllerRequest())
			req.ControllerID = id
			c.add(fmt.Sprintf("controller %d", id), req)
		}
	}
	for _, v := range raw.VersionsOf(kmsg.UnregisterBroker) {
		for _, id := range []int32{2, -1, 1<<31 - 1, 1, 1} {
			req := raw.At(v, kmsg.NewPtrUnregisterBrokerRequest())
			req.BrokerID = id
			c.add(fmt.Sprintf("broker %d", id), req)
		}
	}
	c.add("nobody leads", raw.Metadata(12, []string{"made2"})).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0].Leader < 0
	}
	c.add("without brokers", raw.At(2, kmsg.NewPtrDescribeClusterRequest()))
	for kind := int8(0); kind < 2; kind++ {
		c.add(fmt.Sprintf("without brokers, kind %d", kind), raw.ElectLeaders(2, kind, raw.Partitions{Topic: "made2", Numbers: []int32{0, 99}}))
	}
	c.add("without brokers", raw.Reassign(1, raw.Reassignment{Topic: "made2", Partition: 0, Replicas: []int32{1}}))
	c.add("without brokers", raw.DescribeQuorum(2, "__cluster_metadata", 0))
	c.add("without brokers", raw.CreateTopics(7, raw.NewTopic("homeless", 1, 1)))
}
