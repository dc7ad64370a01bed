package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/replica"
)

// describeLogDirs tells what each log directory holds (key 35): one row per directory, with its partitions' sizes. Topics of
// null are all topics. An offline directory is a row with KAFKA_STORAGE_ERROR and without partitions.
//
//	v4  total and usable bytes; v5 whether it is cordoned
func (a *API) describeLogDirs(c call) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	for _, usage := range a.Replicas.Usage() {
		resp.Dirs = append(resp.Dirs, logDirRow(&usage, req.Topics))
	}
	c.answer(resp)
}

func logDirRow(usage *replica.DirUsage, asked []kmsg.DescribeLogDirsRequestTopic) kmsg.DescribeLogDirsResponseDir {
	row := kmsg.NewDescribeLogDirsResponseDir()
	row.Dir, row.TotalBytes, row.UsableBytes = usage.Path, usage.Total, usage.Usable
	row.IsCordoned = usage.Cordoned
	code, _ := kafka.Answer(usage.Err)
	row.ErrorCode = int16(code)
	for _, p := range usage.Partitions {
		if asked != nil && !asksFor(asked, p.TopicPartition) {
			continue
		}
		if n := len(row.Topics); n == 0 || row.Topics[n-1].Topic != p.Topic {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = p.Topic
			row.Topics = append(row.Topics, topic)
		}
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size, part.OffsetLag, part.IsFuture = p.Partition, p.Bytes, p.Lag, p.Future
		topic := &row.Topics[len(row.Topics)-1]
		topic.Partitions = append(topic.Partitions, part)
	}
	return row
}

func asksFor(asked []kmsg.DescribeLogDirsRequestTopic, tp kafka.TopicPartition) bool {
	return slices.ContainsFunc(asked, func(t kmsg.DescribeLogDirsRequestTopic) bool {
		return t.Topic == tp.Topic && slices.Contains(t.Partitions, tp.Partition)
	})
}
