package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) offsetFetches() {
	for _, v := range raw.VersionsOf(kmsg.OffsetFetch) {
		row := func(w *world, topic string, partition int32) raw.CommitRow {
			if v < 10 {
				return raw.CommitRow{Topic: topic, Partition: partition}
			}
			return raw.CommitRow{ID: w.id(topic), Partition: partition}
		}
		c.with("right", kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
			return raw.Offsets(v, "offsets3", []raw.CommitRow{row(w, "r", 0), row(w, "r", 1), row(w, "r", 2)})
		})
		c.with("right and wrong", kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
			return raw.Offsets(v, "offsets3", []raw.CommitRow{row(w, "r", 0), row(w, "nope", 0), row(w, "r", 50), row(w, "r", 0), row(w, "compact", 0), row(w, "r", -1)})
		})
		c.with("a group nobody knows", kmsg.OffsetFetch, v, func(w *world) kmsg.Request { return raw.Offsets(v, "unheard-of", []raw.CommitRow{row(w, "r", 0)}) })
		c.with("no group", kmsg.OffsetFetch, v, func(w *world) kmsg.Request { return raw.Offsets(v, "", []raw.CommitRow{row(w, "r", 0)}) })
		c.with("a group of unicode", kmsg.OffsetFetch, v, func(w *world) kmsg.Request { return raw.Offsets(v, "grüppe ☃", []raw.CommitRow{row(w, "r", 0)}) })
		c.add("no topics", raw.Offsets(v, "offsets3", []raw.CommitRow{}))
		if v >= 2 {
			c.add("all of nobody", raw.Offsets(v, "unheard-of", nil))
			c.add("all of one", raw.Offsets(v, "grüppe ☃", nil))
		}
		if v >= 8 {
			c.with("many groups", kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
				req := raw.Offsets(v, "offsets3", []raw.CommitRow{row(w, "r", 0)})
				for _, name := range []string{"grüppe ☃", "unheard-of", "offsets3", ""} {
					req.Groups = append(req.Groups, raw.Offsets(v, name, []raw.CommitRow{row(w, "r", 0), row(w, "nope", 1)}).Groups[0])
				}
				req.RequireStable = true
				return req
			})
		}
		if v >= 9 {
			for _, member := range []struct {
				id    *string
				epoch int32
			}{{new("stranger"), 1}, {nil, 3}, {new(""), -1}, {new("stranger"), -1}} {
				name := fmt.Sprintf("as a member, epoch %d, %v", member.epoch, member.id != nil)
				c.with(name, kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
					req := raw.Offsets(v, "offsets3", []raw.CommitRow{row(w, "r", 0)})
					req.Groups[0].MemberID, req.Groups[0].MemberEpoch = member.id, member.epoch
					return req
				})
			}
		}
	}
}
