package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/replica"
)

// debugReplica is the replica id of tools that look at a log beyond its high watermark.
const debugReplica = -2

// listOffsets finds offsets by time (key 2).
//
//	v2  isolation level: with read_committed "latest" is the last stable offset
//	v4  leader epochs
//	v7  the largest timestamp (-3); v8 earliest local (-4); v9 latest tiered (-5); v11 earliest pending upload (-6)
//
// A special timestamp that the version does not know is UNSUPPORTED_VERSION in its row; a partition named twice INVALID_REQUEST, once.
func (a *API) listOffsets(c call) {
	req := kmsg.NewPtrListOffsetsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	seen, twice, told := map[kafka.TopicPartition]bool{}, map[kafka.TopicPartition]bool{}, map[kafka.TopicPartition]bool{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			tp := kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: req.Topics[i].Partitions[j].Partition}
			twice[tp] = twice[tp] || seen[tp]
			seen[tp] = true
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = t.Topic
		for j := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}
			if told[tp] {
				continue
			}
			told[tp] = twice[tp]
			answer.Partitions = append(answer.Partitions, a.listOffset(req, tp, &t.Partitions[j], twice[tp]))
		}
		if len(answer.Partitions) > 0 || len(t.Partitions) == 0 {
			resp.Topics = append(resp.Topics, answer)
		}
	}
	c.answer(resp)
}

func (a *API) listOffset(
	req *kmsg.ListOffsetsRequest, tp kafka.TopicPartition, p *kmsg.ListOffsetsRequestTopicPartition, twice bool,
) kmsg.ListOffsetsResponseTopicPartition {
	row := kmsg.NewListOffsetsResponseTopicPartition()
	row.Partition, row.Timestamp, row.Offset, row.LeaderEpoch = p.Partition, -1, -1, -1
	switch {
	case twice:
		row.ErrorCode = int16(kafka.InvalidRequest)
		return row
	case p.Timestamp < 0 && !knowsTimestamp(req.Version, p.Timestamp):
		row.ErrorCode = int16(kafka.UnsupportedVersion)
		return row
	}
	found, err := a.Replicas.ListOffset(tp, replica.OffsetQuery{
		TimestampMs: p.Timestamp, CurrentLeaderEpoch: kafka.Epoch(p.CurrentLeaderEpoch),
		Committed: req.IsolationLevel == 1, Debug: req.ReplicaID == debugReplica || req.ReplicaID >= 0, // a follower
	})
	code, _ := kafka.Answer(err)
	row.ErrorCode = int16(code)
	row.Offset, row.Timestamp, row.LeaderEpoch = int64(found.Offset), found.TimestampMs, int32(found.Epoch)
	return row
}

// knowsTimestamp tells whether clients of the version may ask for a special timestamp.
func knowsTimestamp(version int16, special int64) bool {
	switch special {
	case replica.Latest, replica.Earliest:
		return true
	case replica.LargestTimestamp:
		return version >= 7
	case replica.EarliestLocal:
		return version >= 8
	case replica.LatestTiered:
		return version >= 9
	case replica.EarliestPendingUpload:
		return version >= 11
	}
	return false
}
