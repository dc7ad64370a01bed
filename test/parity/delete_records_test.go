package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record/compress"
)

func (c *conversation) deleteRecords() {
	for _, v := range raw.VersionsOf(kmsg.DeleteRecords) {
		c.add("right", raw.DeleteRecords(v, "r", 2, 1+int64(v)))
		wrong := raw.DeleteRecords(v, "r", 2, 1000)
		wrong.Topics = append(wrong.Topics, raw.DeleteRecords(v, "nope", 0, 0).Topics[0], raw.DeleteRecords(v, "r", 9, 0).Topics[0])
		c.add("wrong", wrong)
		twice := raw.DeleteRecords(v, "r", 2, 1)
		twice.Topics = append(twice.Topics, twice.Topics[0])
		c.add("a topic twice", twice)
		c.add("an internal topic", raw.DeleteRecords(v, "__consumer_offsets", 0, 0))
		c.add("compacted", raw.DeleteRecords(v, "compacted", 0, 0))
		c.add("unknown topic", raw.DeleteRecords(v, "nope", 0, 0))
		c.add("unknown partition", raw.DeleteRecords(v, "plain", 9, 0))
		c.produce("to be deleted", 9, 1, to("deleted", 0, raw.Batch(compress.None, raw.LongAgoMs, raw.LongAgoMs+1, raw.LongAgoMs+2)))
		for i, offset := range []int64{-2, 100, int64(v) * 3, int64(v)*3 + 1, 0} {
			c.add(fmt.Sprintf("offset %d of three", []int{-2, 100, 0, 1, -int(v) * 3}[i]), raw.DeleteRecords(v, "deleted", 0, offset))
		}
		c.fetch("deleted: from the start", 12, nil, from("deleted", 0, 0))
		c.fetch("deleted: inside the first batch", 12, nil, from("deleted", 0, int64(v)*3+1))
		// Not -3: of a record with the highest timestamp that was deleted, Kafka still tells the offset.
		for _, ms := range []int64{-1, -2, 0, raw.LongAgoMs} {
			c.add(fmt.Sprint("rule 80: after a delete, at ", ms), raw.ListOffsets(11, raw.ListRow{Topic: "deleted", Timestamp: ms}))
		}
		c.add("all", raw.DeleteRecords(v, "deleted", 0, -1))
		for _, ms := range []int64{-1, -2, 0, raw.LongAgoMs} {
			c.add(fmt.Sprint("rule 80: after all were deleted, at ", ms), raw.ListOffsets(11, raw.ListRow{Topic: "deleted", Timestamp: ms}))
		}
		c.add("rule 77: after all were deleted", raw.EpochEnds(4, "deleted", 0))
	}
}
