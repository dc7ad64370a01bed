package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// assignReplicasToDirs hears from a broker in which log directories its replicas are (key 73).
func (a *API) assignReplicasToDirs(c call) {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	if !c.decode(req) {
		return
	}
	cmd := meta.AssignDirs{Broker: kafka.NodeID(req.BrokerID), Epoch: kafka.BrokerEpoch(req.BrokerEpoch)}
	for i := range req.Directories {
		cmd.Dirs = append(cmd.Dirs, dirAssignment(&req.Directories[i]))
	}
	result, err := a.Controller.AssignDirs(context.Background(), cmd)
	resp := kmsg.NewPtrAssignReplicasToDirsResponse()
	resp.ErrorCode = codeOf(err)
	for i := range result.Dirs {
		resp.Directories = append(resp.Directories, assignedDir(&result.Dirs[i]))
	}
	c.answer(resp)
}

func dirAssignment(dir *kmsg.AssignReplicasToDirsRequestDirectory) meta.DirAssignment {
	d := meta.DirAssignment{ID: dir.ID}
	for _, t := range dir.Topics {
		topic := meta.TopicIDPartitions{ID: t.TopicID}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, p.Partition)
		}
		d.Topics = append(d.Topics, topic)
	}
	return d
}

func assignedDir(d *meta.DirAssignmentResult) kmsg.AssignReplicasToDirsResponseDirectory {
	dir := kmsg.NewAssignReplicasToDirsResponseDirectory()
	dir.ID = d.ID
	for _, t := range d.Topics {
		topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
		topic.TopicID = t.ID
		for _, p := range t.Partitions {
			row := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
			row.Partition, row.ErrorCode = p.Index, int16(p.Err)
			topic.Partitions = append(topic.Partitions, row)
		}
		dir.Topics = append(dir.Topics, topic)
	}
	return dir
}
