package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// alterReplicaLogDirs moves partitions of this node to other log directories (key 34). The answer comes when the moves begin;
// DescribeLogDirs shows how far they are. A partition that is named twice moves to where it was named last.
func (a *API) alterReplicaLogDirs(c call) {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	resp.Topics = []kmsg.AlterReplicaLogDirsResponseTopic{}
	to := map[kafka.TopicPartition]string{}
	for _, dir := range req.Dirs {
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				to[kafka.TopicPartition{Topic: t.Topic, Partition: p}] = dir.Dir
			}
		}
	}
	at := map[string]int{} // where a topic's row is
	for _, dir := range req.Dirs {
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				tp := kafka.TopicPartition{Topic: t.Topic, Partition: p}
				path, due := to[tp]
				if !due {
					continue // answered
				}
				delete(to, tp)
				if _, ok := at[tp.Topic]; !ok {
					row := kmsg.NewAlterReplicaLogDirsResponseTopic()
					row.Topic = tp.Topic
					at[tp.Topic] = len(resp.Topics)
					resp.Topics = append(resp.Topics, row)
				}
				row := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				code, _ := kafka.Answer(a.Replicas.MoveReplica(tp, path))
				row.Partition, row.ErrorCode = p, int16(code)
				topic := &resp.Topics[at[tp.Topic]]
				topic.Partitions = append(topic.Partitions, row)
			}
		}
	}
	c.answer(resp)
}
