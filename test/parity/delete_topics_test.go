package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) deleteTopics() {
	for _, v := range raw.VersionsOf(kmsg.DeleteTopics) {
		c.remove(v)
	}
}

// remove deletes topics: by name, and from version 6 on by id too.
func (c *conversation) remove(v int16) {
	name := fmt.Sprint("half", v+1)
	if v < 6 {
		named := func(names ...string) *kmsg.DeleteTopicsRequest {
			req := raw.At(v, kmsg.NewPtrDeleteTopicsRequest())
			req.TopicNames, req.TimeoutMillis = names, 20_000
			return req
		}
		use := fmt.Sprint("first-use", v)
		c.add("good", named(name))
		c.add("good and unknown", named(use, "nope"))
		c.waitGone(name, use)
		c.add("bad names", named("", "a b", "."))
		c.add("a name twice", named("nope", "nope", name))
		return
	}
	rows := func(rows ...string) func(w *world) kmsg.Request {
		return func(w *world) kmsg.Request {
			req := raw.At(v, kmsg.NewPtrDeleteTopicsRequest())
			req.TimeoutMillis = 20_000
			for _, row := range rows {
				topic := kmsg.NewDeleteTopicsRequestTopic()
				name, id, _ := strings.Cut(row, "/")
				if name != "null" {
					topic.Topic = &name
				}
				topic.TopicID = w.ids[id]
				if id == "strange" {
					topic.TopicID = raw.StrangeID
				}
				req.Topics = append(req.Topics, topic)
			}
			return req
		}
	}
	c.with("by name, and unknown", kmsg.DeleteTopics, v, rows(name+"/", "nope/"))
	c.waitGone(name)
	c.with("by id", kmsg.DeleteTopics, v, rows("null/made6"))
	c.waitGone("made6")
	c.with("an id twice", kmsg.DeleteTopics, v, rows("null/made5", "null/made5"))
	c.with("a name twice", kmsg.DeleteTopics, v, rows("made5/", "made5/"))
	c.with("name and id", kmsg.DeleteTopics, v, rows("made5/made5"))
	c.with("one by name and by id", kmsg.DeleteTopics, v, rows("made5/", "null/made5"))
	c.with("neither", kmsg.DeleteTopics, v, rows("null/"))
	c.with("unknown id", kmsg.DeleteTopics, v, rows("null/strange"))
}
