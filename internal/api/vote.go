package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// vote answers a candidate of the quorum (key 52).
func (a *API) vote(c call) {
	req := kmsg.NewPtrVoteRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrVoteResponse()
	asked := only(req.Topics)
	row := only(asked.Partitions)
	if resp.ErrorCode = int16(a.misdirected(req.ClusterID, asked.Topic, len(asked.Partitions), row.Partition)); resp.ErrorCode != 0 {
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.VoteResponse](a, c, &kraft.VoteRequest{
		Epoch:     kafka.Epoch(row.CandidateEpoch),
		Candidate: kraft.ReplicaKey{ID: kafka.NodeID(row.CandidateID), Directory: row.CandidateDirectoryID},
		Voter:     kraft.ReplicaKey{ID: kafka.NodeID(req.VoterID), Directory: row.VoterDirectoryID},
		LastEpoch: kafka.Epoch(row.LastOffsetEpoch), End: kafka.Offset(row.LastOffset), PreVote: row.PreVote,
	})
	if !ok {
		return
	}
	result := kmsg.NewVoteResponseTopicPartition()
	result.Partition, result.ErrorCode, result.VoteGranted = metadataPartition, int16(answer.Error), answer.Granted
	result.LeaderID, result.LeaderEpoch = int32(answer.Current.Leader), int32(answer.Current.Epoch)
	topic := kmsg.NewVoteResponseTopic()
	topic.Topic, topic.Partitions = meta.ClusterMetadataTopic, append(topic.Partitions, result)
	resp.Topics = append(resp.Topics, topic)
	if at, known := leaderAddressOn(c, answer.Current); known && c.Version >= 1 {
		node := kmsg.NewVoteResponseNodeEndpoint()
		node.NodeID, node.Host, node.Port = int32(answer.Current.Leader), at.Host, at.Port
		resp.NodeEndpoints = append(resp.NodeEndpoints, node)
	}
	c.answer(resp)
}
