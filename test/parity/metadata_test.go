package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) metadata() {
	c.add("for metadata", raw.CreateTopics(7, raw.NewTopic("m1", 2, 1), raw.NewTopic("m2", 1, 1)))
	c.waitFor("m1", "m2")
	for _, v := range raw.VersionsOf(kmsg.Metadata) {
		c.add("all", raw.Metadata(v, nil))
	}
	for _, v := range raw.VersionsOf(kmsg.Metadata) {
		c.add("none", raw.Metadata(v, []string{}))
		c.add("named", raw.Metadata(v, []string{"m1", "m2", "m1", "", "a b", ".", raw.LongName + "n", "ünïcode"}))
		if v >= 4 { // before, every name that may be is created
			c.add("unknown", raw.Metadata(v, []string{"nope", "m1", raw.LongName}))
		}
		use := fmt.Sprint("first-use", v)
		create := raw.Metadata(v, []string{use, "bad name"})
		create.AllowAutoTopicCreation = true
		c.add("created on first use", create)
		c.waitFor(use)
		allowed := raw.Metadata(v, []string{"m1"})
		allowed.IncludeClusterAuthorizedOperations, allowed.IncludeTopicAuthorizedOperations = true, true
		c.add("with operations", allowed)
		if v < 10 {
			continue
		}
		byID := func(rows ...string) func(*world) kmsg.Request {
			return func(w *world) kmsg.Request {
				req := raw.Metadata(v, []string{})
				for _, row := range rows {
					topic := kmsg.NewMetadataRequestTopic()
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
		c.with("by id", kmsg.Metadata, v, byID("null/m2", "null/strange", "null/m2"))
		c.with("null and no id", kmsg.Metadata, v, byID("null/"))
		c.with("id and name", kmsg.Metadata, v, byID("m2/m2"))
		c.with("ids and names", kmsg.Metadata, v, byID("null/m2", "m1/"))
		c.with("an id and another's name", kmsg.Metadata, v, byID("m1/m2"))
	}
}
