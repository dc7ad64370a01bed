package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) electLeaders() {
	for _, v := range raw.VersionsOf(kmsg.ElectLeaders) {
		for kind := int8(-1); kind <= 2; kind++ {
			if v == 0 && kind != raw.Preferred {
				continue
			}
			elect := func(name string, topics ...raw.Partitions) {
				c.add(fmt.Sprintf("kind %d: %s", kind, name), raw.ElectLeaders(v, kind, topics...))
			}
			elect("all")
			elect("one", raw.Partitions{Topic: "made2", Numbers: []int32{0}})
			elect("one that is not there", raw.Partitions{Topic: "made2", Numbers: []int32{99}})
			elect("one below 0", raw.Partitions{Topic: "made2", Numbers: []int32{-1}})
			elect("no such topic", raw.Partitions{Topic: "nope", Numbers: []int32{0, 1}})
			elect("a bad name", raw.Partitions{Topic: "a b", Numbers: []int32{0}})
			elect("no name", raw.Partitions{Topic: "", Numbers: []int32{0}})
			elect("a topic without partitions", raw.Partitions{Topic: "made2"})
			elect("one twice", raw.Partitions{Topic: "made2", Numbers: []int32{0, 0}})
			elect("a topic twice", raw.Partitions{Topic: "made2", Numbers: []int32{0}}, raw.Partitions{Topic: "made2", Numbers: []int32{99}})
			elect("good and bad", raw.Partitions{Topic: "made2", Numbers: []int32{0, 99}}, raw.Partitions{Topic: "nope", Numbers: []int32{0}})
			none := raw.ElectLeaders(v, kind)
			none.Topics = []kmsg.ElectLeadersRequestTopic{}
			c.add(fmt.Sprintf("kind %d: none", kind), none)
		}
	}
}
