package api

import (
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// offsetFetch reads committed offsets: of one group up to version 7, of many from version 8 on; topics by id from version 10.
func (a *API) offsetFetch(c call) {
	req := kmsg.NewPtrOffsetFetchRequest()
	if !c.decode(req) {
		return
	}
	if c.Version < 8 {
		a.offsetFetchOne(c, req)
		return
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(req.Groups))
	image := a.Coord.Image()
	var left atomic.Int64
	left.Store(int64(len(req.Groups)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	named := newRepeats[string](len(req.Groups))
	for i := range req.Groups {
		f := groupFetch{image: image, byID: c.Version >= 10, req: &req.Groups[i], resp: &resp.Groups[i]}
		fetch := f.command(req.RequireStable)
		if named.tooMany(f.req.Group) || namesAgain(fetch.Topics) {
			f.answer(&group.FetchReply{Code: kafka.InvalidRequest})
			done()
			continue
		}
		a.Coord.Do(f.req.Group, fetch, func(r group.Reply) {
			f.answer(r.(*group.FetchReply))
			done()
		})
	}
	done()
}

// groupFetch is one group of a request.
type groupFetch struct {
	image *meta.Image
	byID  bool
	req   *kmsg.OffsetFetchRequestGroup
	resp  *kmsg.OffsetFetchResponseGroup
}

// namesAgain tells whether partitions are named again too often: each answer has the metadata that was committed.
func namesAgain(topics []group.FetchTopic) bool {
	count := 0
	for i := range topics {
		count += len(topics[i].Partitions)
	}
	named := newRepeats[kafka.TopicPartition](count)
	for i := range topics {
		for _, index := range topics[i].Partitions {
			if named.tooMany(kafka.TopicPartition{Topic: topics[i].Topic, Partition: index}) {
				return true
			}
		}
	}
	return false
}

func (f *groupFetch) command(stable bool) *group.Fetch {
	fetch := &group.Fetch{RequireStable: stable}
	if f.req.MemberID != nil || f.req.MemberEpoch >= 0 {
		fetch.Member = &group.FetchMember{Epoch: f.req.MemberEpoch}
		if f.req.MemberID != nil {
			fetch.Member.ID = *f.req.MemberID
		}
	}
	if f.req.Topics == nil {
		return fetch
	}
	fetch.Topics = make([]group.FetchTopic, 0, len(f.req.Topics))
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		topic, known := f.image.Topic(t.Topic)
		if f.byID {
			topic, known = f.image.TopicByID(t.TopicID)
		}
		switch {
		case known:
			fetch.Topics = append(fetch.Topics, group.FetchTopic{Topic: topic.Name, ID: topic.ID, Partitions: t.Partitions})
		case !f.byID:
			fetch.Topics = append(fetch.Topics, group.FetchTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
	}
	return fetch
}

func (f *groupFetch) answer(r *group.FetchReply) {
	*f.resp = kmsg.NewOffsetFetchResponseGroup()
	f.resp.Group, f.resp.ErrorCode = f.req.Group, int16(r.Code)
	if r.Code != kafka.None {
		return
	}
	if f.req.Topics == nil {
		for _, t := range ofPresentTopics(f.image, r.Topics) {
			f.add(t)
		}
		return
	}
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		if _, known := f.image.TopicByID(t.TopicID); f.byID && !known {
			f.addUnknown(t)
			continue
		}
		f.add(r.Topics[0])
		r.Topics = r.Topics[1:]
	}
}

// ofPresentTopics leaves out what was committed in topics whose name is another topic's now: as when it is asked for by name, it
// means nothing there. It is still stored when the node was killed before the coordinator heard of the deletion.
func ofPresentTopics(image *meta.Image, all []group.FetchedTopic) []group.FetchedTopic {
	var present []group.FetchedTopic
	for _, t := range all {
		topic, known := image.Topic(t.Topic)
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p group.FetchedPartition) bool {
			return known && !p.TopicID.IsZero() && p.TopicID != topic.ID
		})
		if len(t.Partitions) > 0 {
			present = append(present, t)
		}
	}
	return present
}

// add appends one topic. By id, one that is no more is left out: it has no id to be named by.
func (f *groupFetch) add(t group.FetchedTopic) {
	topic, known := f.image.Topic(t.Topic)
	if f.byID && !known {
		return
	}
	resp := kmsg.NewOffsetFetchResponseGroupTopic()
	resp.Topic = t.Topic
	if known {
		resp.TopicID = topic.ID
	}
	resp.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		from := &t.Partitions[i]
		p.Partition, p.Offset, p.LeaderEpoch = from.Partition, int64(from.Offset), int32(from.LeaderEpoch)
		p.Metadata, p.ErrorCode = &from.Metadata, int16(from.Code)
		resp.Partitions[i] = p
	}
	f.resp.Topics = append(f.resp.Topics, resp)
}

func (f *groupFetch) addUnknown(t *kmsg.OffsetFetchRequestGroupTopic) {
	resp := kmsg.NewOffsetFetchResponseGroupTopic()
	resp.TopicID = t.TopicID
	for _, index := range t.Partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = index, int64(kafka.NoOffset), int32(kafka.NoEpoch), new("")
		p.ErrorCode = int16(kafka.UnknownTopicId)
		resp.Partitions = append(resp.Partitions, p)
	}
	f.resp.Topics = append(f.resp.Topics, resp)
}

// offsetFetchOne is versions 1 to 7.
func (a *API) offsetFetchOne(c call, req *kmsg.OffsetFetchRequest) {
	image := a.Coord.Image()
	fetch := &group.Fetch{RequireStable: req.RequireStable}
	if req.Topics != nil || c.Version < 2 {
		fetch.Topics = make([]group.FetchTopic, len(req.Topics))
		for i := range req.Topics {
			fetch.Topics[i] = group.FetchTopic{Topic: req.Topics[i].Topic, Partitions: req.Topics[i].Partitions}
			if topic, known := image.Topic(req.Topics[i].Topic); known {
				fetch.Topics[i].ID = topic.ID
			}
		}
	}
	answer := func(r group.Reply) {
		fetched := r.(*group.FetchReply)
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.ErrorCode = int16(fetched.Code)
		if fetched.Code != kafka.None && c.Version < 2 {
			fetched.Topics = failedOffsets(fetch.Topics, fetched.Code) // there is no code for all
		}
		if req.Topics == nil {
			fetched.Topics = ofPresentTopics(image, fetched.Topics)
		}
		for _, t := range fetched.Topics {
			topic := kmsg.NewOffsetFetchResponseTopic()
			topic.Topic = t.Topic
			for i := range t.Partitions {
				p, from := kmsg.NewOffsetFetchResponseTopicPartition(), &t.Partitions[i]
				p.Partition, p.Offset, p.LeaderEpoch = from.Partition, int64(from.Offset), int32(from.LeaderEpoch)
				p.Metadata, p.ErrorCode = &from.Metadata, int16(from.Code)
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		c.answer(resp)
	}
	if namesAgain(fetch.Topics) {
		answer(fetch.Fail(kafka.InvalidRequest))
		return
	}
	a.Coord.Do(req.Group, fetch, answer)
}

func failedOffsets(topics []group.FetchTopic, code kafka.Error) []group.FetchedTopic {
	failed := make([]group.FetchedTopic, len(topics))
	for i, t := range topics {
		failed[i].Topic = t.Topic
		for _, p := range t.Partitions {
			failed[i].Partitions = append(failed[i].Partitions, group.FetchedPartition{
				Partition: p, Offset: kafka.NoOffset, LeaderEpoch: kafka.NoEpoch, Code: code,
			})
		}
	}
	return failed
}
