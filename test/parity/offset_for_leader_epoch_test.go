package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) offsetsForLeaderEpochs() {
	for _, v := range raw.VersionsOf(kmsg.OffsetForLeaderEpoch) {
		c.add("right", raw.EpochEnds(v, "r", 0, 1))
		c.add("right and wrong", raw.EpochEnds(v, "r", 0, 9, -1, 0))
		c.add("rule 77: unknown topic", raw.EpochEnds(v, "nope", 0))
		c.add("rule 77: unknown partition", raw.EpochEnds(v, "times", 9))
		c.add("no partitions", raw.EpochEnds(v, "r"))
		add := func(name, topic string, replica, current, asked int32) {
			req := raw.EpochEnds(v, topic, 0)
			req.ReplicaID = replica
			req.Topics[0].Partitions[0].CurrentLeaderEpoch, req.Topics[0].Partitions[0].LeaderEpoch = current, asked
			c.add(name, req)
		}
		for asked := int32(-1); asked < 3; asked++ {
			add(fmt.Sprint("rule 77: epoch ", asked), "times", -1, -1, asked)
			add(fmt.Sprintf("rule 77: epoch %d of an empty partition", asked), "empty", -1, -1, asked)
		}
		add("rule 78: a tool", "times", -2, -1, 0)
		add("rule 78: current", "times", -2, 0, 0)
		add("rule 78: newer", "times", -2, 3, 0)
	}
}
