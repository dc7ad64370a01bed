package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) offsetCommits() {
	for _, v := range raw.VersionsOf(kmsg.OffsetCommit) {
		row := func(w *world, topic string, partition int32, offset int64) raw.CommitRow {
			if v < 10 {
				return raw.CommitRow{Topic: topic, Partition: partition, Offset: offset}
			}
			return raw.CommitRow{ID: w.id(topic), Partition: partition, Offset: offset}
		}
		group := fmt.Sprint("offsets", v)
		c.with("right", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return raw.Commit(v, group, "", -1, row(w, "r", 0, 10), row(w, "r", 1, 0))
		})
		c.with("right and wrong", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return raw.Commit(v, group, "", -1, row(w, "r", 2, 12), row(w, "r", 99, 1), row(w, "r", -1, 1), row(w, "nope", 0, 1), row(w, raw.LongName, 0, 5))
		})
		c.with("a partition twice", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return raw.Commit(v, group, "", -1, row(w, "r", 2, 13), row(w, "r", 2, 14))
		})
		c.with("only wrong", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, "unheard-of", "", -1, row(w, "nope", 0, 1)) })
		c.with("a negative offset", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, group, "", -1, row(w, "compact", 0, -7)) })
		c.with("a member nobody knows", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, group, "stranger", 1, row(w, "r", 0, 1)) })
		c.with("a group nobody knows", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return raw.Commit(v, "unheard-of", "stranger", 1, row(w, "r", 0, 1))
		})
		c.with("a generation alone", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, group, "", 3, row(w, "r", 0, 1)) })
		c.with("no group", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, "", "", -1, row(w, "r", 0, 1)) })
		c.with("long metadata", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			req := raw.Commit(v, group, "", -1, row(w, "r", 0, 15), row(w, "r", 1, 16))
			req.Topics[0].Partitions[0].Metadata, req.Topics[0].Partitions[1].Metadata = new(strings.Repeat("m", 4097)), new("méta")
			return req
		})
		c.add("no topics", raw.Commit(v, group, "", -1))
		c.with("into a live group", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, "rebalanced", "", -1, row(w, "r", 0, 1)) })
		c.with("a group of unicode", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return raw.Commit(v, "grüppe ☃", "", -1, row(w, "r", 0, 77)) })
	}
}
