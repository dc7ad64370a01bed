package api

import (
	"sync"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/wire"
)

// commitCall is one OffsetCommit on its way. It is used again when the answer has left, so that a request allocates nothing.
type commitCall struct {
	call   call
	req    wire.OffsetCommitRequest
	codes  []kafka.Error // of all partitions, in request order
	commit group.Commit
	stored []int                   // the place in codes of each partition in commit
	parts  []group.CommitPartition // back the Partitions of all topics in commit
	done   func(group.Reply)
}

var commitCalls sync.Pool

// newCommitCall returns one that was used before, or makes one: its callback is bound once.
func newCommitCall() *commitCall {
	if p, ok := commitCalls.Get().(*commitCall); ok {
		return p
	}
	p := new(commitCall)
	p.done = p.finish
	return p
}

// offsetCommit stores offsets (key 8) of partitions that exist; the others are answered without asking the group. Topics come by name
// up to version 9 and by id from 10 on; the id is stored either way.
func (a *API) offsetCommit(c call) {
	p := newCommitCall()
	p.call = c
	if err := p.req.Decode(c.Version, c.Body, &c.Peer.Names); err != nil {
		p.release()
		c.close()
		return
	}
	p.prepare(a.Coord.Image())
	if len(p.commit.Topics) == 0 {
		p.answer()
		return
	}
	a.Coord.Do(p.req.Group, &p.commit, p.done)
}

// prepare makes the commit of what may be stored, and answers for the rest.
func (p *commitCall) prepare(image *meta.Image) {
	req, commit := &p.req, &p.commit
	commit.Generation, commit.MemberID, commit.InstanceID, commit.RetentionMs = req.Generation, req.MemberID, req.InstanceID, req.RetentionMs
	commit.UnknownGroup, commit.WithoutEpochs = kafka.IllegalGeneration, true
	if p.call.Version >= 9 {
		commit.UnknownGroup, commit.WithoutEpochs = kafka.GroupIdNotFound, false
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, missing := commitTopic(image, p.call.Version, t)
		first := len(p.parts)
		for j := range t.Partitions {
			part := &t.Partitions[j]
			code := missing
			if topic != nil && (part.Index < 0 || int(part.Index) >= len(topic.Partitions)) {
				code = kafka.UnknownTopicOrPartition
			}
			if code == kafka.None {
				p.stored = append(p.stored, len(p.codes))
				p.parts = append(p.parts, group.CommitPartition{
					Partition: part.Index, Offset: part.Offset, LeaderEpoch: part.LeaderEpoch, Metadata: part.Metadata,
				})
			}
			p.codes = append(p.codes, code)
		}
		if len(p.parts) > first {
			// What growing moves stays as it is where it was.
			commit.Topics = append(commit.Topics, group.CommitTopic{Topic: topic.Name, ID: topic.ID, Partitions: p.parts[first:]})
		}
	}
}

func commitTopic(image *meta.Image, version int16, from *wire.OffsetCommitTopic) (*meta.Topic, kafka.Error) {
	if version >= 10 {
		topic, ok := image.TopicByID(from.ID)
		if !ok {
			return nil, kafka.UnknownTopicId
		}
		return topic, kafka.None
	}
	topic, ok := image.Topic(from.Name)
	if !ok {
		return nil, kafka.UnknownTopicOrPartition
	}
	return topic, kafka.None
}

// finish is called with the group's answer, on any goroutine.
func (p *commitCall) finish(r group.Reply) {
	committed := r.(*group.CommitReply)
	for i, at := range p.stored {
		p.codes[at] = committed.Code
		if committed.Code == kafka.None {
			p.codes[at] = committed.Codes[i]
		}
	}
	p.answer()
}

func (p *commitCall) answer() {
	c := p.call
	resp := c.Response()
	resp.Head = p.req.AppendAnswer(resp.Head[:0], c.Version, p.codes, c.throttle(0))
	p.release()
	c.reply(resp)
}

// release lets go of everything that belongs to the request.
func (p *commitCall) release() {
	p.call = call{}
	p.req.Reset()
	p.commit.Reset()
	clear(p.parts)
	p.codes, p.stored, p.parts = p.codes[:0], p.stored[:0], p.parts[:0]
	if cap(p.codes) <= keptPartitionsMax {
		commitCalls.Put(p)
	}
}
