package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) createPartitions() {
	for _, v := range raw.VersionsOf(kmsg.CreatePartitions) {
		now := int32(v)*2 + 2 // what made3 has
		c.add("one more", raw.CreatePartitions(v, "made3", now+1))
		c.add("as many", raw.CreatePartitions(v, "made3", now+1))
		c.add("fewer", raw.CreatePartitions(v, "made3", 1))
		c.add("none", raw.CreatePartitions(v, "made3", 0))
		c.add("below none", raw.CreatePartitions(v, "made3", -1))
		c.add("far too many", raw.CreatePartitions(v, "made3", 10_000_000))
		c.add("unknown", raw.CreatePartitions(v, "nope", 5))
		c.add("bad name", raw.CreatePartitions(v, "a b", 5))
		c.add("assigned", raw.CreatePartitions(v, "made3", now+2, []int32{1}))
		c.add("too few assigned", raw.CreatePartitions(v, "made3", now+4, []int32{1}))
		c.add("assigned to nobody known", raw.CreatePartitions(v, "made3", now+3, []int32{9}))
		c.add("assigned to too many", raw.CreatePartitions(v, "made3", now+3, []int32{1, 2}))
		c.add("assigned to nobody", raw.CreatePartitions(v, "made3", now+3, []int32{}))
		tried := raw.CreatePartitions(v, "made3", now+9)
		tried.ValidateOnly = true
		c.add("only tried", tried)
		twice := raw.CreatePartitions(v, "made3", now+9)
		twice.Topics = append(twice.Topics, twice.Topics[0], raw.CreatePartitions(v, "nope", 3).Topics[0])
		twice.ValidateOnly = true
		c.add("a topic twice", twice)
	}
}
