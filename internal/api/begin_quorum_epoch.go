package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// beginQuorumEpoch hears of a leader of the quorum (key 53).
func (a *API) beginQuorumEpoch(c call) {
	req := kmsg.NewPtrBeginQuorumEpochRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrBeginQuorumEpochResponse()
	asked := only(req.Topics)
	row := only(asked.Partitions)
	if resp.ErrorCode = int16(a.misdirected(req.ClusterID, asked.Topic, len(asked.Partitions), row.Partition)); resp.ErrorCode != 0 {
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.BeginQuorumEpochResponse](a, c, &kraft.BeginQuorumEpochRequest{
		Leader: kafka.NodeID(row.LeaderID), Epoch: kafka.Epoch(row.LeaderEpoch),
		Voter: kraft.ReplicaKey{ID: kafka.NodeID(req.VoterID), Directory: row.VoterDirectoryID},
		Endpoints: endpointsOf(req.LeaderEndpoints, func(e *kmsg.BeginQuorumEpochRequestLeaderEndpoint) kraft.Endpoint {
			return kraft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port}
		}),
	})
	if !ok {
		return
	}
	result := kmsg.NewBeginQuorumEpochResponseTopicPartition()
	result.Partition, result.ErrorCode = metadataPartition, int16(answer.Error)
	result.LeaderID, result.LeaderEpoch = int32(answer.Current.Leader), int32(answer.Current.Epoch)
	topic := kmsg.NewBeginQuorumEpochResponseTopic()
	topic.Topic, topic.Partitions = meta.ClusterMetadataTopic, append(topic.Partitions, result)
	resp.Topics = append(resp.Topics, topic)
	if at, known := leaderAddressOn(c, answer.Current); known && c.Version >= 1 {
		node := kmsg.NewBeginQuorumEpochResponseNodeEndpoint()
		node.NodeID, node.Host, node.Port = int32(answer.Current.Leader), at.Host, at.Port
		resp.NodeEndpoints = append(resp.NodeEndpoints, node)
	}
	c.answer(resp)
}
