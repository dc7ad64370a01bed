package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/meta"
)

// listPartitionReassignments lists the partitions that are on their way to other brokers (key 46).
func (a *API) listPartitionReassignments(c call) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	image := a.Quorum.Image()
	add := func(t *meta.Topic, wanted func(int32) bool) {
		topic := kmsg.NewListPartitionReassignmentsResponseTopic()
		topic.Topic = t.Name
		for n, p := range t.Reassignments() {
			if !wanted(n) {
				continue
			}
			row := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			row.Partition, row.Replicas = n, nodeIDs(p.Replicas, nil)
			row.AddingReplicas, row.RemovingReplicas = nodeIDs(p.Adding, nil), nodeIDs(p.Removing, nil)
			topic.Partitions = append(topic.Partitions, row)
		}
		if len(topic.Partitions) > 0 {
			resp.Topics = append(resp.Topics, topic)
		}
	}
	if req.Topics == nil {
		for t := range image.Topics() {
			add(t, func(int32) bool { return true })
		}
	}
	for _, row := range req.Topics {
		if t, ok := image.Topic(row.Topic); ok {
			slices.Sort(row.Partitions) // there may be as many as a request has room for
			add(t, func(n int32) bool { _, asked := slices.BinarySearch(row.Partitions, n); return asked })
		}
	}
	c.answer(resp)
}
