package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *conversation) describeTopicPartitions() {
	for _, limit := range []int32{2000, 3, 1, 0, -1} {
		for _, names := range [][]string{{}, {"made2", "made3", "nope", "bad name", "made2"}, {"made4"}, {"nope"}, {""}} {
			if limit != 2000 && len(names) == 0 {
				continue // Kafka's own topics would take the room
			}
			for _, cursor := range []string{"", "made3/1", "made3/0", "made3/5", "made3/-1", "nope/0", "zzz/0", "/0"} {
				req := kmsg.NewPtrDescribeTopicPartitionsRequest()
				req.ResponsePartitionLimit = limit
				for _, name := range names {
					topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
					topic.Topic = name
					req.Topics = append(req.Topics, topic)
				}
				if name, partition, ok := strings.Cut(cursor, "/"); ok {
					from := kmsg.NewDescribeTopicPartitionsRequestCursor()
					from.Topic = name
					fmt.Sscan(partition, &from.Partition)
					req.Cursor = &from
				}
				c.add(fmt.Sprintf("limit %d, topics %q, from %q", limit, names, cursor), req)
			}
		}
	}
}
