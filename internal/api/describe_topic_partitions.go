package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// describeTopicPartitions describes topics in the order of their names, page by page (key 75): a response holds so many
// partitions at most and says where the next one goes on.
func (a *API) describeTopicPartitions(c call) {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	if !c.decode(req) {
		return
	}
	names := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		names[i] = t.Topic
	}
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	if !validCursor(req.Cursor, names) {
		for _, name := range names {
			row := kmsg.NewDescribeTopicPartitionsResponseTopic()
			row.Topic, row.ErrorCode = &name, int16(kafka.InvalidRequest)
			resp.Topics = append(resp.Topics, row)
		}
		c.answer(resp)
		return
	}
	p := page{
		c: c, image: a.Quorum.Image(), resp: resp,
		left: max(1, min(int(req.ResponsePartitionLimit), a.Config.Int("max.request.partition.size.limit"))),
	}
	p.fill(names, req.Cursor)
	c.answer(resp)
}

// validCursor tells whether the cursor lies in what is asked for.
func validCursor(cursor *kmsg.DescribeTopicPartitionsRequestCursor, names []string) bool {
	return cursor == nil || cursor.Partition >= 0 && (len(names) == 0 || slices.Contains(names, cursor.Topic))
}

// page is a response being filled.
type page struct {
	c     call
	image *meta.Image
	resp  *kmsg.DescribeTopicPartitionsResponse
	left  int // partitions that still fit
}

// fill adds topics from the cursor on: the named ones, or all when none is named.
func (p *page) fill(names []string, cursor *kmsg.DescribeTopicPartitionsRequestCursor) {
	from, first := "", int32(0)
	if cursor != nil {
		from, first = cursor.Topic, cursor.Partition
	}
	if len(names) == 0 {
		for t := range p.image.TopicsFrom(from) {
			if !p.add(t, firstIn(t.Name, from, first)) {
				return
			}
		}
		return
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names {
		t, exists := p.image.Topic(name)
		switch {
		case name < from:
		case exists && !p.add(t, firstIn(name, from, first)), !exists && !p.addUnknown(name):
			return
		}
	}
}

// firstIn is the partition to begin with: the cursor's in its own topic.
func firstIn(topic, cursorTopic string, cursorPartition int32) int {
	if topic == cursorTopic {
		return int(cursorPartition)
	}
	return 0
}

// add adds the partitions of a topic that fit. When it returns false the page is full and says where the next one begins.
func (p *page) add(t *meta.Topic, first int) bool {
	if p.left == 0 {
		return p.end(t.Name, 0)
	}
	row := kmsg.NewDescribeTopicPartitionsResponseTopic()
	row.Topic, row.TopicID, row.IsInternal, row.AuthorizedOperations = &t.Name, t.ID, meta.IsInternalTopic(t.Name), allTopicOperations
	row.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	next := min(first+p.left, len(t.Partitions))
	for i := first; i < next; i++ {
		row.Partitions = append(row.Partitions, p.partition(&t.Partitions[i], int32(i)))
	}
	p.resp.Topics = append(p.resp.Topics, row)
	if next < len(t.Partitions) {
		return p.end(t.Name, int32(next))
	}
	p.left -= max(0, next-first)
	return true
}

func (p *page) addUnknown(name string) bool {
	if p.left == 0 {
		return p.end(name, 0)
	}
	row := kmsg.NewDescribeTopicPartitionsResponseTopic()
	row.Topic, row.ErrorCode, row.AuthorizedOperations = &name, int16(kafka.UnknownTopicOrPartition), allTopicOperations
	if meta.CheckTopicName(name) != nil {
		row.ErrorCode = int16(kafka.InvalidTopicException)
	}
	p.resp.Topics = append(p.resp.Topics, row)
	return true
}

func (p *page) end(topic string, partition int32) bool {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	p.resp.NextCursor = &cursor
	return false
}

func (p *page) partition(m *meta.Partition, number int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	row := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	row.Partition, row.LeaderEpoch = number, int32(m.LeaderEpoch)
	row.Replicas, row.ISR = nodeIDs(m.Replicas, nil), nodeIDs(m.ISR, nil)
	row.EligibleLeaderReplicas, row.LastKnownELR = nodeIDs(m.ELR, nil), nodeIDs(m.LastELR, nil)
	row.OfflineReplicas = nodeIDs(m.Replicas, func(id kafka.NodeID) bool { return !reachableOn(p.image, id, p.c.Peer.Listener) })
	row.LeaderID = int32(m.Leader)
	if !reachableOn(p.image, m.Leader, p.c.Peer.Listener) {
		row.LeaderID, row.ErrorCode = int32(kafka.NoNode), int16(kafka.LeaderNotAvailable)
		if p.image.Alive(m.Leader) {
			row.ErrorCode = int16(kafka.ListenerNotFound)
		}
	}
	return row
}
