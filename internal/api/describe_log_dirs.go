package api

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/replica"
)

// describeLogDirs tells what each log directory holds (key 35): one row per directory, with its partitions' sizes. Topics of
// null are all topics. An offline directory is a row with KAFKA_STORAGE_ERROR and without partitions.
//
//	v2  who asks with our tagged field is told the conditions of partitions and directories too (internal/condition)
//	v4  total and usable bytes; v5 whether it is cordoned
func (a *API) describeLogDirs(c call) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	conditions := false
	req.UnknownTags.Each(func(tag uint32, content []byte) {
		conditions = conditions || tag == condition.Tag && condition.Asked(content)
	})
	for _, usage := range a.Replicas.Usage() {
		row := logDirRow(&usage, req.Topics)
		if conditions && usage.Err == nil {
			row.UnknownTags.Set(condition.Tag, usage.Room.Append(nil))
		}
		resp.Dirs = append(resp.Dirs, row)
	}
	if conditions {
		for _, is := range a.Replicas.Conditions(func(tp kafka.TopicPartition) bool { return req.Topics == nil || asksFor(req.Topics, tp) }) {
			tagPartition(resp, &is)
		}
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
			row.Topics = append(row.Topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: p.Topic})
		}
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size, part.OffsetLag, part.IsFuture = p.Partition, p.Bytes, p.Lag, p.Future
		topic := &row.Topics[len(row.Topics)-1]
		topic.Partitions = append(topic.Partitions, part)
	}
	return row
}

// tagPartition adds a partition's condition to its row. One whose log does not open has none, and gets one.
func tagPartition(resp *kmsg.DescribeLogDirsResponse, is *replica.PartitionCondition) {
	content := is.Is.Append(nil)
	i := slices.IndexFunc(resp.Dirs, func(d kmsg.DescribeLogDirsResponseDir) bool { return d.Dir == is.Dir })
	if i < 0 || resp.Dirs[i].ErrorCode != 0 {
		return // of a directory that is offline nothing is told
	}
	dir := &resp.Dirs[i]
	at, found := slices.BinarySearchFunc(dir.Topics, is.Topic, func(t kmsg.DescribeLogDirsResponseDirTopic, name string) int {
		return strings.Compare(t.Topic, name)
	})
	if !found {
		dir.Topics = slices.Insert(dir.Topics, at, kmsg.DescribeLogDirsResponseDirTopic{Topic: is.Topic})
	}
	rows := &dir.Topics[at].Partitions
	at, found = slices.BinarySearchFunc(*rows, is.Partition, func(p kmsg.DescribeLogDirsResponseDirTopicPartition, number int32) int {
		return cmp.Compare(p.Partition, number)
	})
	if !found {
		*rows = slices.Insert(*rows, at, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: is.Partition, Size: -1})
	}
	if row := &(*rows)[at]; !row.IsFuture { // it may just have moved away
		row.UnknownTags.Set(condition.Tag, content)
	}
}

func asksFor(asked []kmsg.DescribeLogDirsRequestTopic, tp kafka.TopicPartition) bool {
	return slices.ContainsFunc(asked, func(t kmsg.DescribeLogDirsRequestTopic) bool {
		return t.Topic == tp.Topic && slices.Contains(t.Partitions, tp.Partition)
	})
}
