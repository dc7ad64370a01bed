package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// offsetCommit stores offsets of partitions that exist; the others are answered without asking the group. Topics come by name
// up to version 9 and by id from 10 on; the id is stored either way.
func (a *API) offsetCommit(c call) {
	req := kmsg.NewPtrOffsetCommitRequest()
	if !c.decode(req) {
		return
	}
	commit := &group.Commit{
		Generation: req.Generation, MemberID: req.MemberID, InstanceID: req.InstanceID,
		UnknownGroup: kafka.IllegalGeneration, WithoutEpochs: true, RetentionMs: req.RetentionTimeMillis,
	}
	if c.Version >= 9 {
		commit.UnknownGroup, commit.WithoutEpochs = kafka.GroupIdNotFound, false
	}
	if c.Version < 2 || c.Version > 4 {
		commit.RetentionMs = -1
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	image := a.Coord.Image()
	var stored []*kmsg.OffsetCommitResponseTopicPartition // in the order of the group's answer
	for i := range req.Topics {
		stored = append(stored, admitCommit(image, c.Version, &req.Topics[i], &resp.Topics[i], commit)...)
	}
	if len(commit.Topics) == 0 {
		c.answer(resp)
		return
	}
	a.Coord.Do(req.Group, commit, func(r group.Reply) {
		committed := r.(*group.CommitReply)
		for i, p := range stored {
			p.ErrorCode = int16(committed.Code)
			if committed.Code == kafka.None {
				p.ErrorCode = int16(committed.Codes[i])
			}
		}
		c.answer(resp)
	})
}

// admitCommit adds what may be stored of one topic to the commit, answers for the rest, and returns the answers still open.
func admitCommit(image *meta.Image, version int16, from *kmsg.OffsetCommitRequestTopic, to *kmsg.OffsetCommitResponseTopic,
	commit *group.Commit,
) (open []*kmsg.OffsetCommitResponseTopicPartition) {
	*to = kmsg.NewOffsetCommitResponseTopic()
	to.Topic, to.TopicID = from.Topic, from.TopicID
	to.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(from.Partitions))
	topic, missing := commitTopic(image, version, from)
	add := group.CommitTopic{Partitions: make([]group.CommitPartition, 0, len(from.Partitions))}
	if topic != nil {
		add.Topic, add.ID = topic.Name, topic.ID
	}
	for i := range from.Partitions {
		p, answer := &from.Partitions[i], &to.Partitions[i]
		*answer = kmsg.NewOffsetCommitResponseTopicPartition()
		answer.Partition = p.Partition
		switch {
		case topic == nil:
			answer.ErrorCode = int16(missing)
		case p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
			answer.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		default:
			open = append(open, answer)
			add.Partitions = append(add.Partitions, group.CommitPartition{
				Partition: p.Partition, Offset: kafka.Offset(p.Offset), LeaderEpoch: kafka.Epoch(p.LeaderEpoch), Metadata: p.Metadata,
			})
		}
	}
	if len(add.Partitions) > 0 {
		commit.Topics = append(commit.Topics, add)
	}
	return open
}

func commitTopic(image *meta.Image, version int16, from *kmsg.OffsetCommitRequestTopic) (*meta.Topic, kafka.Error) {
	if version >= 10 {
		topic, ok := image.TopicByID(from.TopicID)
		if !ok {
			return nil, kafka.UnknownTopicId
		}
		return topic, kafka.None
	}
	topic, ok := image.Topic(from.Topic)
	if !ok {
		return nil, kafka.UnknownTopicOrPartition
	}
	return topic, kafka.None
}
