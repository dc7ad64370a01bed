package api

import (
	"math"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/wire"
)

// fetchMetadata reads the metadata log (key 1 on a controller's listener): members of the quorum replicate it so.
func (a *API) fetchMetadata(c call) {
	var req wire.FetchRequest
	if err := req.Decode(c.Version, c.Body, &c.Peer.Names); err != nil {
		c.close()
		return
	}
	asked := only(req.Topics)
	if c.Version >= fetchByID && asked.ID == kafka.MetadataTopicID {
		asked.Name = meta.ClusterMetadataTopic
	}
	row := only(asked.Partitions)
	if code := a.misdirected(req.ClusterID, asked.Name, len(asked.Partitions), row.Index); code != kafka.None {
		c.answerFetch(&wire.FetchResponse{Err: code})
		return
	}
	answer, ok := ask[*kraft.FetchResponse](a, c, &kraft.FetchRequest{
		Replica: kraft.ReplicaKey{ID: req.ReplicaID, Directory: row.DirectoryID},
		Epoch:   row.CurrentLeaderEpoch, Offset: row.FetchOffset, LastEpoch: row.LastFetchedEpoch,
		MaxWaitMs: req.MaxWaitMs, MaxBytes: min(req.MaxBytes, row.MaxBytes), HighWatermark: knownHighWatermark(c.Version, &row),
	})
	if !ok {
		return
	}
	result := wire.FetchedPartition{
		Index: metadataPartition, Err: answer.Error, HighWatermark: answer.HighWatermark, LastStableOffset: kafka.NoOffset, LogStartOffset: answer.LogStart,
		CurrentLeader: wire.Leader{Known: true, ID: answer.Current.Leader, Epoch: answer.Current.Epoch}, AbortedNull: true,
	}
	if d := answer.Diverging; d != nil {
		result.Diverging = wire.EpochEnd{Known: true, Epoch: d.Epoch, EndOffset: d.End}
	}
	if s := answer.Snapshot; s != nil {
		result.Snapshot = wire.SnapshotID{Known: true, EndOffset: s.End, Epoch: s.Epoch}
	}
	if len(answer.Records) > 0 {
		result.Records = []wire.Part{{Bytes: answer.Records}}
	}
	resp := wire.FetchResponse{Topics: []wire.FetchedTopic{{
		Name: meta.ClusterMetadataTopic, ID: kafka.MetadataTopicID, Partitions: []wire.FetchedPartition{result},
	}}}
	if at, known := leaderAddressOn(c, answer.Current); known {
		resp.Endpoints = []wire.NodeEndpoint{{ID: answer.Current.Leader, Host: at.Host, Port: int32(at.Port)}}
	}
	c.answerFetch(&resp)
}

// knownHighWatermark is what the replica says of its high watermark (KIP-1166), as the quorum has it.
func knownHighWatermark(version int16, row *wire.FetchPartition) kafka.Offset {
	if version < 18 {
		return math.MaxInt64
	}
	return row.HighWatermark
}

func (c call) answerFetch(resp *wire.FetchResponse) {
	r := c.Response()
	resp.Encode(r, c.Version)
	c.reply(r)
}
