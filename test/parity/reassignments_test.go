package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// reassignments moves partitions where there is one node to be on.
func (c *conversation) reassignments() {
	for _, v := range raw.VersionsOf(kmsg.AlterPartitionAssignments) {
		for _, change := range []bool{true, false} {
			if v == 0 && !change {
				continue
			}
			reassign := func(name string, rows ...raw.Reassignment) {
				req := raw.Reassign(v, rows...)
				req.AllowReplicationFactorChange = change
				c.add(fmt.Sprintf("%s, factors may change %t", name, change), req)
			}
			for _, replicas := range [][]int32{nil, {}, {1}, {1, 1}, {2}, {1, 2}, {-1}, {2, 2}, {1, -1}} {
				reassign(fmt.Sprintf("to %v (%t)", replicas, replicas == nil), raw.Reassignment{Topic: "made2", Partition: 0, Replicas: replicas})
			}
			for _, replicas := range [][]int32{nil, {1}, {2}} {
				reassign(fmt.Sprintf("no such topic to %v", replicas), raw.Reassignment{Topic: "nope", Partition: 0, Replicas: replicas})
				reassign(fmt.Sprintf("a bad name to %v", replicas), raw.Reassignment{Topic: "a b", Partition: 0, Replicas: replicas})
				reassign(fmt.Sprintf("no name to %v", replicas), raw.Reassignment{Topic: "", Partition: 0, Replicas: replicas})
				reassign(fmt.Sprintf("no such partition to %v", replicas), raw.Reassignment{Topic: "made2", Partition: 99, Replicas: replicas})
				reassign(fmt.Sprintf("a partition below 0 to %v", replicas), raw.Reassignment{Topic: "made2", Partition: -1, Replicas: replicas})
			}
			reassign("one twice", raw.Reassignment{Topic: "made2", Partition: 0, Replicas: []int32{1}}, raw.Reassignment{Topic: "made2", Partition: 0, Replicas: []int32{2}})
			reassign("good and bad", raw.Reassignment{Topic: "made2", Partition: 0, Replicas: []int32{1}},
				raw.Reassignment{Topic: "nope", Partition: 0, Replicas: []int32{1}}, raw.Reassignment{Topic: "made1", Partition: 0, Replicas: nil})
			reassign("none")
		}
	}
	for _, v := range raw.VersionsOf(kmsg.ListPartitionReassignments) {
		c.add("all", raw.ListReassignments(v))
		c.add("one", raw.ListReassignments(v, raw.Partitions{Topic: "made2", Numbers: []int32{0}}))
		c.add("one that is not there", raw.ListReassignments(v, raw.Partitions{Topic: "made2", Numbers: []int32{99, -1}}))
		c.add("no such topic", raw.ListReassignments(v, raw.Partitions{Topic: "nope", Numbers: []int32{0}}))
		c.add("no partitions", raw.ListReassignments(v, raw.Partitions{Topic: "made2"}))
		c.add("a topic twice", raw.ListReassignments(v, raw.Partitions{Topic: "made2", Numbers: []int32{0}}, raw.Partitions{Topic: "made2", Numbers: []int32{0}}))
		none := raw.ListReassignments(v)
		none.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{}
		c.add("none", none)
	}
}
