package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// records makes topics, writes to them and reads them, and asks for what there is to know of partitions.
func (c *conversation) records() {
	kept := func(name string, partitions int32, settings ...string) kmsg.CreateTopicsRequestTopic {
		return raw.NewTopic(name, partitions, 1, append(settings, "retention.ms", "-1")...) // the records are old
	}
	topics := []kmsg.CreateTopicsRequestTopic{
		kept("r", 3), kept("twice", 2), raw.NewTopic("compact", 1, 1, "cleanup.policy", "compact"), kept(raw.LongName, 1),
		kept("plain", 2), raw.NewTopic("compacted", 1, 1, "cleanup.policy", "compact"), kept("appended", 1, "message.timestamp.type", "LogAppendTime"),
		kept("small", 1, "max.message.bytes", "500"), kept("segmented", 1, "segment.bytes", "1048576", "max.message.bytes", "2097152"),
		kept("sequences", 2), kept("times", 1), kept("empty", 1), kept("sessions", 2), kept("deleted", 1),
		kept("repacked", 1, "compression.type", "gzip"), kept("forged", 1),
	}
	c.add("for records", raw.CreateTopics(7, topics...))
	var names []string
	var all []raw.ListRow
	for _, t := range topics {
		names = append(names, t.Topic)
		for p := range t.NumPartitions {
			all = append(all, raw.ListRow{Topic: t.Topic, Partition: p, Timestamp: -1})
		}
	}
	c.waitFor(names...)
	c.add("wait for leaders", raw.ListOffsets(1, all...)).till = ledBySomebody
	c.produces()
	c.forgeries()
	c.sequences()
	c.fetches()
	c.sessions()
	c.listOffsets()
	c.offsetsForLeaderEpochs()
	c.deleteRecords()
	c.initProducerIDs()
	c.describeProducers()
	c.describeLogDirs()
	c.alterReplicaLogDirs()
}

// ledBySomebody tells whether every partition has a leader.
func ledBySomebody(resp kmsg.Response) bool {
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
	}
	return true
}
