package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// describeQuorum tells how the metadata quorum is (key 55). It is asked for the metadata log's one partition alone: whoever asks for
// more or else is told of each partition that there is none such.
func (a *API) describeQuorum(c call) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorMessage = new("")
	if !asksForMetadata(req) {
		resp.Topics = unknownQuorums(req)
		c.answer(resp)
		return
	}
	quorum, err := a.Quorum.Describe()
	if err != nil {
		code, message := answerOf(err)
		resp.ErrorCode, resp.ErrorMessage = int16(code), message
		c.answer(resp)
		return
	}
	row := kmsg.NewDescribeQuorumResponseTopicPartition()
	row.ErrorMessage = new("")
	row.LeaderID, row.LeaderEpoch, row.HighWatermark = int32(quorum.Leader), int32(quorum.Epoch), int64(quorum.HighWatermark)
	row.CurrentVoters, row.Observers = replicaStates(quorum.Voters), replicaStates(quorum.Observers)
	for _, v := range quorum.Nodes {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = int32(v.ID)
		for _, e := range v.Endpoints {
			node.Listeners = append(node.Listeners, kmsg.DescribeQuorumResponseNodeListener{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		resp.Nodes = append(resp.Nodes, node)
	}
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic, topic.Partitions = meta.ClusterMetadataTopic, append(topic.Partitions, row)
	resp.Topics = append(resp.Topics, topic)
	c.answer(resp)
}

func replicaStates(replicas []kraft.ReplicaStatus) (rows []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
	for _, r := range replicas {
		row := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		row.ReplicaID, row.ReplicaDirectoryID, row.LogEndOffset = int32(r.Replica.ID), r.Replica.Directory, int64(r.End)
		row.LastFetchTimestamp, row.LastCaughtUpTimestamp = r.LastFetchMs, r.LastCaughtMs
		rows = append(rows, row)
	}
	return rows
}

func asksForMetadata(req *kmsg.DescribeQuorumRequest) bool {
	return len(req.Topics) == 1 && req.Topics[0].Topic == meta.ClusterMetadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
}

func unknownQuorums(req *kmsg.DescribeQuorumRequest) (topics []kmsg.DescribeQuorumResponseTopic) {
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			row := kmsg.NewDescribeQuorumResponseTopicPartition()
			row.Partition, row.ErrorCode = p.Partition, int16(kafka.UnknownTopicOrPartition)
			row.ErrorMessage = new("a quorum has " + meta.ClusterMetadataTopic + "-0 alone, and is asked for nothing else")
			topic.Partitions = append(topic.Partitions, row)
		}
		topics = append(topics, topic)
	}
	return topics
}
