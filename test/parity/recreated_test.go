package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// recreated deletes a topic, makes another of its name, and asks for it by what was known of the first.
func (c *conversation) recreated() {
	create := raw.CreateTopics(7, raw.NewTopic("again", 1, 1, "retention.ms", "-1"))
	ready := func(resp kmsg.Response) bool {
		return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 0
	}
	var old [16]byte
	c.add("the first of its name", create)
	c.add("wait for the first of its name", raw.ListOffsets(1, raw.ListRow{Topic: "again", Timestamp: -1})).till = ready
	c.produce("to the first of its name", 9, -1, to("again", 0, raw.Sequenced(900, 0, 0, 3)))
	c.add("of the first of its name", raw.Commit(8, "recreated", "", -1, raw.CommitRow{Topic: "again", Offset: 3}))
	c.fetch("of the first of its name, opens a session", 18, func(_ *world, r *kmsg.FetchRequest) { r.SessionEpoch = 0 }, from("again", 0, 3))
	gone := raw.At(5, kmsg.NewPtrDeleteTopicsRequest())
	gone.TopicNames, gone.TimeoutMillis = []string{"again"}, 20_000
	c.with("the first of its name", kmsg.DeleteTopics, 5, func(w *world) kmsg.Request {
		old = w.id("again")
		return gone
	})
	c.waitGone("again")
	look := func(when string) {
		// Kafka forgets the offsets a moment after the topic is gone.
		c.add("all "+when, raw.Offsets(8, "recreated", nil)).till = func(resp kmsg.Response) bool {
			return len(resp.(*kmsg.OffsetFetchResponse).Groups[0].Topics) == 0
		}
		for _, v := range []int16{13, 15, 17, 18} {
			c.with("the old id "+when, kmsg.Fetch, v, func(*world) kmsg.Request { return raw.Fetch(v, raw.FetchRow{ID: old}) })
		}
		c.fetch("the session of the old id "+when, 18, func(w *world, r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = w.session, 1 })
		c.with("the old id "+when, kmsg.Produce, 13, func(*world) kmsg.Request {
			return raw.Produce(13, -1, raw.ProduceRow{ID: old, Records: raw.Values("x")})
		})
		c.with("the old id "+when, kmsg.OffsetCommit, 10, func(*world) kmsg.Request {
			return raw.Commit(10, "recreated", "", -1, raw.CommitRow{ID: old, Offset: 2})
		})
		c.with("the old id "+when, kmsg.OffsetFetch, 10, func(*world) kmsg.Request { return raw.Offsets(10, "recreated", []raw.CommitRow{{ID: old}}) })
		c.add("by name "+when, raw.Offsets(8, "recreated", []raw.CommitRow{{Topic: "again"}}))
		for _, v := range []int16{10, 12, 13} {
			c.with("the old id "+when, kmsg.Metadata, v, func(*world) kmsg.Request {
				req := raw.Metadata(v, []string{})
				topic := kmsg.NewMetadataRequestTopic()
				topic.TopicID = old
				req.Topics = append(req.Topics, topic)
				return req
			})
		}
		c.with("the old id "+when, kmsg.DeleteTopics, 6, func(*world) kmsg.Request {
			req := raw.At(6, kmsg.NewPtrDeleteTopicsRequest())
			topic := kmsg.NewDeleteTopicsRequestTopic()
			topic.TopicID = old
			req.Topics, req.TimeoutMillis = append(req.Topics, topic), 20_000
			return req
		})
	}
	look("while there is none")
	c.produce("while there is none", 9, -1, to("again", 0, raw.Values("x")))
	c.fetch("while there is none", 12, nil, from("again", 0, 0))
	c.add("while there is none", raw.ListOffsets(11, raw.ListRow{Topic: "again", Timestamp: -1}))
	c.add("while there is none", raw.Commit(8, "recreated", "", -1, raw.CommitRow{Topic: "again", Offset: 1}))
	c.add("the second of its name", create)
	c.add("wait for the second of its name", raw.ListOffsets(1, raw.ListRow{Topic: "again", Timestamp: -1})).till = ready
	look("when there is another")
	c.produce("rule 54: a sequence goes on in the second of its name", 9, -1, to("again", 0, raw.Sequenced(900, 0, 3, 1)))
	c.produce("rule 54: a sequence begins in the second of its name", 9, -1, to("again", 0, raw.Sequenced(900, 0, 0, 1)))
	c.fetch("of the second of its name", 18, nil, from("again", 0, 0))
	c.fetch("of the second of its name, beyond its end", 12, nil, from("again", 0, 3))
	c.add("of the second of its name", raw.ListOffsets(11, raw.ListRow{Topic: "again", Timestamp: -1}))
}
