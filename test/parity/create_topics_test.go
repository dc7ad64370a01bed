package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) createTopics() {
	var made []string
	for _, v := range raw.VersionsOf(kmsg.CreateTopics) {
		name := fmt.Sprint("made", v)
		made = append(made, name)
		c.add("good", raw.CreateTopics(v, raw.NewTopic(name, 2, 1, "cleanup.policy", "compact,delete", "segment.ms", "604800000")))
		c.add("exists", raw.CreateTopics(v, raw.NewTopic(name, 2, 1), raw.NewTopic("x.y", 1, 1)))
		c.add("collides", raw.CreateTopics(v, raw.NewTopic("x_y", 1, 1)))
		c.add("no topics", raw.CreateTopics(v))
		for _, n := range [][2]int32{{1, 0}, {1, 3}, {1, -2}, {1, 32767}, {0, 1}, {-2, 1}, {0, 3}, {-1, 1}, {1, -1}, {-1, -1}, {10_000_000, 1}, {1 << 30, 1}} {
			req := raw.CreateTopics(v, raw.NewTopic("counts", n[0], int16(n[1])))
			req.ValidateOnly = true
			c.add(fmt.Sprintf("%d partitions, %d replicas", n[0], n[1]), req)
		}
		for _, bad := range []string{"", ".", "..", "a b", "a/b", "ä", "a\x00b", raw.LongName + "n", raw.LongName, "_", "-", "A.b_C-9"} {
			req := raw.CreateTopics(v, raw.NewTopic(bad, 1, 1))
			req.ValidateOnly = true
			c.add(fmt.Sprintf("name %.20q, %d bytes", bad, len(bad)), req)
		}
		for what, topic := range orderedTopics(v) {
			req := raw.CreateTopics(v, topic)
			req.ValidateOnly = true
			c.add(what, req)
		}
		twice := raw.CreateTopics(v, raw.NewTopic("twice", 1, 1), raw.NewTopic("twice", 2, 1), raw.NewTopic("once", 1, 1))
		twice.ValidateOnly = true
		c.add("a name twice", twice)
		half := raw.CreateTopics(v, raw.NewTopic(fmt.Sprint("half", v), 1, 1), raw.NewTopic("other", 1, 5))
		made = append(made, fmt.Sprint("half", v))
		c.add("one good, one bad", half)
		hasty := raw.CreateTopics(v, raw.NewTopic("hasty", 1, 1))
		hasty.TimeoutMillis, hasty.ValidateOnly = 0, true
		c.add("no time", hasty)
	}
	c.waitFor(made...)
}

// orderedTopics yields topics with assignments and settings, right and wrong.
func orderedTopics(v int16) func(func(string, kmsg.CreateTopicsRequestTopic) bool) {
	plain := func() kmsg.CreateTopicsRequestTopic { return raw.NewTopic("assigned", -1, -1) }
	nullValue := raw.NewTopic("nothing", 1, 1, "retention.ms", "")
	nullValue.Configs[0].Value = nil
	return func(yield func(string, kmsg.CreateTopicsRequestTopic) bool) {
		_ = yield("assigned", raw.Assigned(plain(), []int32{1}, []int32{1})) &&
			yield("assigned, and counts", raw.Assigned(raw.NewTopic("assigned", 2, 1), []int32{1}, []int32{1})) &&
			yield("assigned to nobody known", raw.Assigned(plain(), []int32{7})) &&
			yield("assigned to nobody", raw.Assigned(plain(), []int32{})) &&
			yield("assigned twice to one", raw.Assigned(plain(), []int32{1, 1})) &&
			yield("assigned with a gap", raw.Numbered(raw.Assigned(plain(), []int32{1}, []int32{1}), 0, 2)) &&
			yield("assigned from 1", raw.Numbered(raw.Assigned(plain(), []int32{1}), 1)) &&
			yield("one partition assigned twice", raw.Numbered(raw.Assigned(plain(), []int32{1}, []int32{1}), 0, 0)) &&
			yield("assigned below 0", raw.Numbered(raw.Assigned(plain(), []int32{1}), -1)) &&
			yield("assigned to -1", raw.Assigned(plain(), []int32{-1})) &&
			yield("unknown setting", raw.NewTopic("set", 1, 1, "nonsense", "1")) &&
			yield("bad setting", raw.NewTopic("set", 1, 1, "retention.ms", "soon")) &&
			yield("setting out of range", raw.NewTopic("set", 1, 1, "segment.bytes", "1")) &&
			yield("setting twice", raw.NewTopic("set", 1, 1, "retention.ms", "1", "retention.ms", "2")) &&
			yield("setting of null", nullValue) &&
			yield("empty list", raw.NewTopic("set", 1, 1, "cleanup.policy", "")) &&
			yield("a broker's setting", raw.NewTopic("set", 1, 1, "log.retention.ms", "1"))
	}
}
