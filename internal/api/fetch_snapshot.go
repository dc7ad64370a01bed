package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// fetchSnapshot reads a part of a snapshot of the metadata log (key 59).
func (a *API) fetchSnapshot(c call) {
	req := kmsg.NewPtrFetchSnapshotRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrFetchSnapshotResponse()
	switch {
	case !a.ofThisCluster(req.ClusterID):
		resp.ErrorCode = int16(kafka.InconsistentClusterId)
	case len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1:
		resp.ErrorCode = int16(kafka.InvalidRequest)
	}
	if resp.ErrorCode != 0 {
		c.answer(resp)
		return
	}
	row := &req.Topics[0].Partitions[0]
	result := kmsg.NewFetchSnapshotResponseTopicPartition()
	result.Partition = row.Partition
	topic := kmsg.NewFetchSnapshotResponseTopic()
	if topic.Topic = req.Topics[0].Topic; topic.Topic != meta.ClusterMetadataTopic || row.Partition != metadataPartition {
		result.ErrorCode = int16(kafka.UnknownTopicOrPartition)
		topic.Partitions = append(topic.Partitions, result)
		resp.Topics = append(resp.Topics, topic)
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.FetchSnapshotResponse](a, c, &kraft.FetchSnapshotRequest{
		Replica: kraft.ReplicaKey{ID: kafka.NodeID(req.ReplicaID), Directory: row.ReplicaDirectoryID}, Epoch: kafka.Epoch(row.CurrentLeaderEpoch),
		Snapshot: kraft.SnapshotID{End: kafka.Offset(row.SnapshotID.EndOffset), Epoch: kafka.Epoch(row.SnapshotID.Epoch)},
		Position: row.Position, MaxBytes: req.MaxBytes,
	})
	if !ok {
		return
	}
	result.ErrorCode, result.Size, result.Position, result.Bytes = int16(answer.Error), answer.Size, answer.Position, answer.Bytes
	result.SnapshotID.EndOffset, result.SnapshotID.Epoch = int64(answer.Snapshot.End), int32(answer.Snapshot.Epoch)
	result.CurrentLeader.LeaderID, result.CurrentLeader.LeaderEpoch = int32(answer.Current.Leader), int32(answer.Current.Epoch)
	topic.Partitions = append(topic.Partitions, result)
	resp.Topics = append(resp.Topics, topic)
	if at, known := leaderAddressOn(c, answer.Current); known && c.Version >= 1 {
		node := kmsg.NewFetchSnapshotResponseNodeEndpoint()
		node.NodeID, node.Host, node.Port = int32(answer.Current.Leader), at.Host, at.Port
		resp.NodeEndpoints = append(resp.NodeEndpoints, node)
	}
	c.answer(resp)
}
