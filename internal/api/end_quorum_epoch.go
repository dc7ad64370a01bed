package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// endQuorumEpoch hears of a leader of the quorum that goes (key 54).
func (a *API) endQuorumEpoch(c call) {
	req := kmsg.NewPtrEndQuorumEpochRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrEndQuorumEpochResponse()
	asked := only(req.Topics)
	row := only(asked.Partitions)
	if resp.ErrorCode = int16(a.misdirected(req.ClusterID, asked.Topic, len(asked.Partitions), row.Partition)); resp.ErrorCode != 0 {
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.EndQuorumEpochResponse](a, c, &kraft.EndQuorumEpochRequest{
		Leader: kafka.NodeID(row.LeaderID), Epoch: kafka.Epoch(row.LeaderEpoch), Preferred: preferred(c, &row),
		Endpoints: endpointsOf(req.LeaderEndpoints, func(e *kmsg.EndQuorumEpochRequestLeaderEndpoint) kraft.Endpoint {
			return kraft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port}
		}),
	})
	if !ok {
		return
	}
	result := kmsg.NewEndQuorumEpochResponseTopicPartition()
	result.Partition, result.ErrorCode = metadataPartition, int16(answer.Error)
	result.LeaderID, result.LeaderEpoch = int32(answer.Current.Leader), int32(answer.Current.Epoch)
	topic := kmsg.NewEndQuorumEpochResponseTopic()
	topic.Topic, topic.Partitions = meta.ClusterMetadataTopic, append(topic.Partitions, result)
	resp.Topics = append(resp.Topics, topic)
	if at, known := leaderAddressOn(c, answer.Current); known && c.Version >= 1 {
		node := kmsg.NewEndQuorumEpochResponseNodeEndpoint()
		node.NodeID, node.Host, node.Port = int32(answer.Current.Leader), at.Host, at.Port
		resp.NodeEndpoints = append(resp.NodeEndpoints, node)
	}
	c.answer(resp)
}

// preferred returns who should lead next, the best first.
func preferred(c call, row *kmsg.EndQuorumEpochRequestTopicPartition) (candidates []kraft.ReplicaKey) {
	if c.Version == 0 {
		for _, id := range row.PreferredSuccessors {
			candidates = append(candidates, kraft.ReplicaKey{ID: kafka.NodeID(id)})
		}
	}
	for _, p := range row.PreferredCandidates {
		candidates = append(candidates, kraft.ReplicaKey{ID: kafka.NodeID(p.CandidateID), Directory: p.CandidateDirectoryID})
	}
	return candidates
}
