package peer

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
)

// This file has what a member of the quorum sends, and how it reads the answers. How it reads requests and answers them is package api's.

func voteRequest(cluster string, r *kraft.VoteRequest) *kmsg.VoteRequest {
	row := kmsg.NewVoteRequestTopicPartition()
	row.Partition, row.CandidateEpoch = raftPartition, int32(r.Epoch)
	row.CandidateID, row.CandidateDirectoryID, row.VoterDirectoryID = int32(r.Candidate.ID), r.Candidate.Directory, r.Voter.Directory
	row.LastOffsetEpoch, row.LastOffset, row.PreVote = int32(r.LastEpoch), int64(r.End), r.PreVote
	topic := kmsg.NewVoteRequestTopic()
	topic.Topic, topic.Partitions = raftTopic, []kmsg.VoteRequestTopicPartition{row}
	m := kmsg.NewPtrVoteRequest()
	m.ClusterID, m.VoterID, m.Topics = &cluster, int32(r.Voter.ID), []kmsg.VoteRequestTopic{topic}
	return m
}

func (q *Quorum) voteResponse(m *kmsg.VoteResponse) *kraft.VoteResponse {
	if m.ErrorCode != 0 || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		return &kraft.VoteResponse{Error: top(m.ErrorCode), Current: kraft.NoCurrent}
	}
	row := &m.Topics[0].Partitions[0]
	r := &kraft.VoteResponse{Error: kafka.Error(row.ErrorCode), Granted: row.VoteGranted, Current: current(row.LeaderID, row.LeaderEpoch)}
	for _, e := range m.NodeEndpoints {
		q.learn(&r.Current, e.NodeID, e.Host, e.Port)
	}
	return r
}

func beginRequest(cluster string, r *kraft.BeginQuorumEpochRequest) *kmsg.BeginQuorumEpochRequest {
	row := kmsg.NewBeginQuorumEpochRequestTopicPartition()
	row.Partition, row.LeaderID, row.LeaderEpoch, row.VoterDirectoryID = raftPartition, int32(r.Leader), int32(r.Epoch), r.Voter.Directory
	topic := kmsg.NewBeginQuorumEpochRequestTopic()
	topic.Topic, topic.Partitions = raftTopic, []kmsg.BeginQuorumEpochRequestTopicPartition{row}
	m := kmsg.NewPtrBeginQuorumEpochRequest()
	m.ClusterID, m.VoterID, m.Topics = &cluster, int32(r.Voter.ID), []kmsg.BeginQuorumEpochRequestTopic{topic}
	for _, e := range r.Endpoints {
		at := kmsg.NewBeginQuorumEpochRequestLeaderEndpoint()
		at.Name, at.Host, at.Port = e.Name, e.Host, e.Port
		m.LeaderEndpoints = append(m.LeaderEndpoints, at)
	}
	return m
}

func (q *Quorum) beginResponse(m *kmsg.BeginQuorumEpochResponse) *kraft.BeginQuorumEpochResponse {
	if m.ErrorCode != 0 || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		return &kraft.BeginQuorumEpochResponse{Error: top(m.ErrorCode), Current: kraft.NoCurrent}
	}
	row := &m.Topics[0].Partitions[0]
	r := &kraft.BeginQuorumEpochResponse{Error: kafka.Error(row.ErrorCode), Current: current(row.LeaderID, row.LeaderEpoch)}
	for _, e := range m.NodeEndpoints {
		q.learn(&r.Current, e.NodeID, e.Host, e.Port)
	}
	return r
}

func endRequest(cluster string, r *kraft.EndQuorumEpochRequest) *kmsg.EndQuorumEpochRequest {
	row := kmsg.NewEndQuorumEpochRequestTopicPartition()
	row.Partition, row.LeaderID, row.LeaderEpoch = raftPartition, int32(r.Leader), int32(r.Epoch)
	for _, p := range r.Preferred {
		candidate := kmsg.NewEndQuorumEpochRequestTopicPartitionPreferredCandidate()
		candidate.CandidateID, candidate.CandidateDirectoryID = int32(p.ID), p.Directory
		row.PreferredSuccessors = append(row.PreferredSuccessors, int32(p.ID))
		row.PreferredCandidates = append(row.PreferredCandidates, candidate)
	}
	topic := kmsg.NewEndQuorumEpochRequestTopic()
	topic.Topic, topic.Partitions = raftTopic, []kmsg.EndQuorumEpochRequestTopicPartition{row}
	m := kmsg.NewPtrEndQuorumEpochRequest()
	m.ClusterID, m.Topics = &cluster, []kmsg.EndQuorumEpochRequestTopic{topic}
	for _, e := range r.Endpoints {
		at := kmsg.NewEndQuorumEpochRequestLeaderEndpoint()
		at.Name, at.Host, at.Port = e.Name, e.Host, e.Port
		m.LeaderEndpoints = append(m.LeaderEndpoints, at)
	}
	return m
}

func (q *Quorum) endResponse(m *kmsg.EndQuorumEpochResponse) *kraft.EndQuorumEpochResponse {
	if m.ErrorCode != 0 || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		return &kraft.EndQuorumEpochResponse{Error: top(m.ErrorCode), Current: kraft.NoCurrent}
	}
	row := &m.Topics[0].Partitions[0]
	r := &kraft.EndQuorumEpochResponse{Error: kafka.Error(row.ErrorCode), Current: current(row.LeaderID, row.LeaderEpoch)}
	for _, e := range m.NodeEndpoints {
		q.learn(&r.Current, e.NodeID, e.Host, e.Port)
	}
	return r
}

// raftFetchRequest fills a Fetch of the metadata log. Kafka's members ask for one byte at least and no session.
func raftFetchRequest(m *kmsg.FetchRequest, cluster string, r *kraft.FetchRequest, version int16) {
	ask := FetchRequest{
		Replica: r.Replica.ID, BrokerEpoch: -1, SessionEpoch: -1, MaxWaitMs: r.MaxWaitMs, MinBytes: 1, MaxBytes: r.MaxBytes,
		Topics: []FetchTopic{{ID: kafka.MetadataTopicID, Partitions: []FetchPartition{{
			Index: raftPartition, CurrentLeaderEpoch: r.Epoch, Offset: r.Offset, LastFetchedEpoch: r.LastEpoch, LogStart: kafka.NoOffset,
			MaxBytes: r.MaxBytes, Directory: r.Replica.Directory, HighWatermark: r.HighWatermark,
		}}}},
	}
	ask.into(m, version)
	m.ClusterID = &cluster
}

func (q *Quorum) fetchResponse(m *kmsg.FetchResponse) *kraft.FetchResponse {
	if m.ErrorCode != 0 || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		return &kraft.FetchResponse{Error: top(m.ErrorCode), Current: kraft.NoCurrent, HighWatermark: kafka.NoOffset}
	}
	row := fetchedPartition(m.Topics[0].TopicID, &m.Topics[0].Partitions[0])
	r := &kraft.FetchResponse{
		Error: row.Error, Current: kraft.NoCurrent, HighWatermark: row.HighWatermark, LogStart: row.LogStart, Records: row.Records,
	}
	if l := row.CurrentLeader; l != nil {
		r.Current = current(int32(l.ID), int32(l.Epoch))
	}
	if d := row.Diverging; d != nil {
		r.Diverging = &kraft.EpochEnd{Epoch: d.Epoch, End: d.End}
	}
	if s := row.Snapshot; s != nil {
		r.Snapshot = &kraft.SnapshotID{End: s.End, Epoch: s.Epoch}
	}
	for _, e := range m.Brokers {
		q.learn(&r.Current, e.NodeID, e.Host, uint16(e.Port))
	}
	return r
}

// snapshotRequest fills a FetchSnapshot. The directory stands in a tag, which kmsg sends at any version.
func snapshotRequest(m *kmsg.FetchSnapshotRequest, cluster string, r *kraft.FetchSnapshotRequest, version int16) {
	row := kmsg.NewFetchSnapshotRequestTopicPartition()
	row.Partition, row.CurrentLeaderEpoch, row.Position = raftPartition, int32(r.Epoch), r.Position
	row.SnapshotID.EndOffset, row.SnapshotID.Epoch = int64(r.Snapshot.End), int32(r.Snapshot.Epoch)
	if version >= 1 {
		row.ReplicaDirectoryID = r.Replica.Directory
	}
	topic := kmsg.NewFetchSnapshotRequestTopic()
	topic.Topic, topic.Partitions = raftTopic, []kmsg.FetchSnapshotRequestTopicPartition{row}
	m.ClusterID, m.ReplicaID, m.MaxBytes, m.Topics = &cluster, int32(r.Replica.ID), r.MaxBytes, []kmsg.FetchSnapshotRequestTopic{topic}
}

func (q *Quorum) snapshotResponse(m *kmsg.FetchSnapshotResponse) *kraft.FetchSnapshotResponse {
	if m.ErrorCode != 0 || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		return &kraft.FetchSnapshotResponse{Error: top(m.ErrorCode), Current: kraft.NoCurrent}
	}
	row := &m.Topics[0].Partitions[0]
	r := &kraft.FetchSnapshotResponse{
		Error: kafka.Error(row.ErrorCode), Current: current(row.CurrentLeader.LeaderID, row.CurrentLeader.LeaderEpoch),
		Snapshot: kraft.SnapshotID{End: kafka.Offset(row.SnapshotID.EndOffset), Epoch: kafka.Epoch(row.SnapshotID.Epoch)},
		Size:     row.Size, Position: row.Position, Bytes: row.Bytes,
	}
	for _, e := range m.NodeEndpoints {
		q.learn(&r.Current, e.NodeID, e.Host, e.Port)
	}
	return r
}

func addVoterRequest(cluster string, r *kraft.AddVoterRequest) *kmsg.AddRaftVoterRequest {
	m := kmsg.NewPtrAddRaftVoterRequest()
	m.ClusterID, m.TimeoutMillis, m.AckWhenCommitted = &cluster, r.TimeoutMs, r.AckWhenCommitted
	m.VoterID, m.VoterDirectoryID = int32(r.Voter.ID), r.Voter.Directory
	for _, e := range r.Voter.Endpoints {
		at := kmsg.NewAddRaftVoterRequestListener()
		at.Name, at.Host, at.Port = e.Name, e.Host, e.Port
		m.Listeners = append(m.Listeners, at)
	}
	return m
}

func updateVoterRequest(cluster string, r *kraft.UpdateVoterRequest) *kmsg.UpdateRaftVoterRequest {
	m := kmsg.NewPtrUpdateRaftVoterRequest()
	m.ClusterID, m.CurrentLeaderEpoch = &cluster, int32(r.Epoch)
	m.VoterID, m.VoterDirectoryID = int32(r.Voter.ID), r.Voter.Directory
	m.KRaftVersionFeature.MinSupportedVersion, m.KRaftVersionFeature.MaxSupportedVersion = r.Voter.MinVersion, r.Voter.MaxVersion
	for _, e := range r.Voter.Endpoints {
		at := kmsg.NewUpdateRaftVoterRequestListener()
		at.Name, at.Host, at.Port = e.Name, e.Host, e.Port
		m.Listeners = append(m.Listeners, at)
	}
	return m
}

// top is the code of a message that has no row to read.
func top(code int16) kafka.Error { return cmp.Or(kafka.Error(code), kafka.UnknownServerError) }

func current(leader, epoch int32) kraft.Current {
	return kraft.Current{Leader: kafka.NodeID(leader), Epoch: kafka.Epoch(epoch)}
}

// learn notes an address that an answer names, if it is the leader's.
func (q *Quorum) learn(c *kraft.Current, node int32, host string, port uint16) {
	if at := (kraft.Endpoint{Name: q.listener, Host: host, Port: port}); kafka.NodeID(node) == c.Leader && !slices.Contains(c.Endpoints, at) {
		c.Endpoints = append(c.Endpoints, at)
	}
}
