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
	row, code := a.beginRow(req)
	if resp.ErrorCode = int16(code); code != kafka.None {
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

// beginRow returns the one row of a request that is meant for this quorum.
func (a *API) beginRow(req *kmsg.BeginQuorumEpochRequest) (*kmsg.BeginQuorumEpochRequestTopicPartition, kafka.Error) {
	switch {
	case !a.ofThisCluster(req.ClusterID):
		return nil, kafka.InconsistentClusterId
	case len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1,
		req.Topics[0].Topic != meta.ClusterMetadataTopic || req.Topics[0].Partitions[0].Partition != metadataPartition:
		return nil, kafka.InvalidRequest
	}
	return &req.Topics[0].Partitions[0], kafka.None
}
