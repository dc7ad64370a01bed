package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record/compress"
)

func (c *conversation) listOffsets() {
	c.produce("times", 9, 1, to("times", 0, raw.Batch(compress.None, raw.LongAgoMs+2, raw.LongAgoMs+4, raw.LongAgoMs+6, raw.LongAgoMs+8)))
	c.produce("times, packed", 9, 1, to("times", 0, raw.Batch(compress.Gzip, raw.LongAgoMs+5, raw.LongAgoMs+19, raw.LongAgoMs+7)))
	c.produce("times, later", 9, 1, to("times", 0, raw.Batch(compress.Zstd, raw.LongAgoMs+11, raw.LongAgoMs+12)))
	for _, v := range raw.VersionsOf(kmsg.ListOffsets) {
		add := func(name string, change func(*kmsg.ListOffsetsRequest), rows ...raw.ListRow) {
			req := raw.ListOffsets(v, rows...)
			if change != nil {
				change(req)
			}
			c.add(name, req)
		}
		add("right and wrong", nil, raw.ListRow{Topic: "r", Timestamp: -1}, raw.ListRow{Topic: "r", Partition: 1, Timestamp: -2}, raw.ListRow{Topic: "r", Partition: 9, Timestamp: -1},
			raw.ListRow{Topic: "nope", Timestamp: -1}, raw.ListRow{Topic: "r", Partition: 2, Timestamp: raw.LongAgoMs}, raw.ListRow{Topic: raw.LongName, Timestamp: -2}, raw.ListRow{Timestamp: -1})
		add("a partition twice, in two rows", nil, raw.ListRow{Topic: "r", Timestamp: -1}, raw.ListRow{Topic: "nope", Timestamp: -1}, raw.ListRow{Topic: "r", Timestamp: -2})
		add("a partition twice", nil, raw.ListRow{Topic: "times", Timestamp: -1}, raw.ListRow{Topic: "times", Timestamp: -1})
		add("no topics", nil)
		add("as a follower that is none", func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = 5 }, raw.ListRow{Topic: "r", Timestamp: -1})
		add("isolation level 2", func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 2 }, raw.ListRow{Topic: "r", Timestamp: -1})
		add("newer leader epoch", func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 4 }, raw.ListRow{Topic: "times", Timestamp: -1})
		for _, ms := range []int64{-1, -2, -3, -4, -5, -6, -7, -100, 0, raw.LongAgoMs + 3, raw.LongAgoMs + 8, raw.LongAgoMs + 9, raw.LongAgoMs + 12, raw.LongAgoMs + 19, raw.LongAgoMs + 20} {
			add(fmt.Sprint("rules 79, 80: at ", ms), nil, raw.ListRow{Topic: "times", Timestamp: ms})
		}
		for _, ms := range []int64{-1, -2, -3, 5} {
			add(fmt.Sprint("rule 80: an empty partition, at ", ms), nil, raw.ListRow{Topic: "empty", Timestamp: ms})
			add(fmt.Sprint("rule 80: unknown topic, at ", ms), nil, raw.ListRow{Topic: "nope", Timestamp: ms})
			add(fmt.Sprint("rule 80: unknown partition, at ", ms), nil, raw.ListRow{Topic: "times", Partition: 9, Timestamp: ms})
			add(fmt.Sprint("rule 80: committed, at ", ms), func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 1 }, raw.ListRow{Topic: "times", Timestamp: ms})
			add(fmt.Sprint("rule 80: a tool, at ", ms), func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = -2 }, raw.ListRow{Topic: "times", Timestamp: ms})
		}
	}
}
