package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// offsetDelete forgets offsets of partitions that exist and that no member of the group reads.
func (a *API) offsetDelete(c call) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	image, remove := a.Coord.Image(), &group.DeleteOffsets{}
	var open []*kmsg.OffsetDeleteResponseTopicPartition
	for i := range req.Topics {
		from, to := &req.Topics[i], &resp.Topics[i]
		*to = kmsg.NewOffsetDeleteResponseTopic()
		to.Topic = from.Topic
		to.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(from.Partitions))
		topic := group.FetchTopic{Topic: from.Topic}
		for j := range from.Partitions {
			p := &to.Partitions[j]
			*p = kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = from.Partitions[j].Partition
			if _, ok := image.Partition(kafka.TopicPartition{Topic: from.Topic, Partition: p.Partition}); !ok {
				p.ErrorCode = int16(kafka.UnknownTopicOrPartition)
				continue
			}
			topic.Partitions = append(topic.Partitions, p.Partition)
			open = append(open, p)
		}
		remove.Topics = append(remove.Topics, topic)
	}
	a.Coord.Do(req.Group, remove, func(r group.Reply) {
		removed := r.(*group.DeleteOffsetsReply)
		if removed.Code != kafka.None {
			resp.ErrorCode, resp.Topics = int16(removed.Code), nil
			c.answer(resp)
			return
		}
		for i, p := range open {
			p.ErrorCode = int16(removed.Codes[i])
		}
		c.answer(resp)
	})
}
