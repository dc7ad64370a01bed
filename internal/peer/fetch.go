package peer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// FetchRequest is what a follower asks a leader's node for, in a fetch session (KIP-227). A full request has SessionID 0 and
// SessionEpoch 0 and names everything; an incremental one names what has changed since the request before. SessionEpoch -1 is a
// request without a session, or the end of one.
type FetchRequest struct {
	Replica      kafka.NodeID
	BrokerEpoch  kafka.BrokerEpoch
	SessionID    int32
	SessionEpoch int32
	MaxWaitMs    int32
	MinBytes     int32
	MaxBytes     int32
	Topics       []FetchTopic
	Forgotten    []ForgottenTopic
}

// FetchTopic names partitions of one topic.
type FetchTopic struct {
	ID         kafka.TopicID
	Partitions []FetchPartition
}

// FetchPartition says how far a follower is in one partition.
type FetchPartition struct {
	Index              int32
	CurrentLeaderEpoch kafka.Epoch
	Offset             kafka.Offset // the follower's flushed end
	LastFetchedEpoch   kafka.Epoch  // of the record before Offset; kafka.NoEpoch when there is none
	LogStart           kafka.Offset
	MaxBytes           int32
	Directory          kafka.UUID   // where the replica lies; sent where the other node knows it
	HighWatermark      kafka.Offset // that the follower knows: the leader answers at once when its own is higher (KIP-1166)
}

// ForgottenTopic names partitions that leave the session.
type ForgottenTopic struct {
	ID         kafka.TopicID
	Partitions []int32
}

// FetchResponse is the answer to a FetchRequest. Its records lie in a buffer that Release gives back.
type FetchResponse struct {
	ThrottleMs int32
	Error      kafka.Error // of the whole request: of its session, most of all
	SessionID  int32
	Partitions []FetchedPartition // in a session those with news alone

	release func()
}

// Release gives the records' memory back. It is called once, by whoever got the response.
func (r *FetchResponse) Release() {
	if r.release != nil {
		r.release()
		r.release = nil
	}
}

// FetchedPartition is what the leader's node answers for one partition.
type FetchedPartition struct {
	TopicID       kafka.TopicID
	Index         int32
	Error         kafka.Error
	HighWatermark kafka.Offset
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	Diverging     *EpochEnd      // not nil: truncate; no records then
	CurrentLeader *CurrentLeader // not nil: who leads instead
	Snapshot      *SnapshotID    // not nil: records at the offset are gone from the leader's log (metadata only)
	Aborted       []AbortedTransaction
	Records       []byte // whole batches; the last one may be cut short; valid until Release
}

// EpochEnd is the largest epoch that follower and leader share, and its end at the leader.
type EpochEnd struct {
	Epoch kafka.Epoch
	End   kafka.Offset
}

// CurrentLeader is who leads a partition, as the node that does not knows it.
type CurrentLeader struct {
	ID    kafka.NodeID
	Epoch kafka.Epoch
}

// SnapshotID names a snapshot of the metadata log.
type SnapshotID struct {
	End   kafka.Offset
	Epoch kafka.Epoch
}

// AbortedTransaction is one that was aborted among the records.
type AbortedTransaction struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset
}

// fetchMin is the first version that names topics by id.
const fetchMin = 13

// Fetch asks a broker for what its partitions have. A node has one fetch at a time on each line. When ctx ends the call, the line's
// connection is closed: the next fetch is not to wait for the answer to this one.
func (b *Brokers) Fetch(ctx context.Context, from kafka.NodeID, line int, req *FetchRequest) (*FetchResponse, error) {
	client, err := b.client(from, line)
	if err != nil {
		return nil, err
	}
	message := kmsg.NewPtrFetchRequest()
	response, release, err := client.do(ctx, asVersion{message, func(version int16) { req.into(message, version) }}, exchange{
		min: fetchMin, max: message.MaxVersion(), waitMs: req.MaxWaitMs, lend: true, alone: true,
	})
	if err != nil {
		return nil, err
	}
	answer := fetchResponse(response.(*kmsg.FetchResponse))
	answer.release = release
	return answer, nil
}

// into fills a message. What its version does not know keeps the protocol's default: kmsg sends tagged fields at any version.
func (r *FetchRequest) into(m *kmsg.FetchRequest, version int16) {
	if version >= 15 {
		m.ReplicaState.ID, m.ReplicaState.Epoch = int32(r.Replica), int64(r.BrokerEpoch)
	} else {
		m.ReplicaID = int32(r.Replica)
	}
	m.MaxWaitMillis, m.MinBytes, m.MaxBytes = r.MaxWaitMs, r.MinBytes, r.MaxBytes
	m.SessionID, m.SessionEpoch = r.SessionID, r.SessionEpoch
	m.Topics = make([]kmsg.FetchRequestTopic, 0, len(r.Topics))
	for _, t := range r.Topics {
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = t.ID
		topic.Partitions = make([]kmsg.FetchRequestTopicPartition, 0, len(t.Partitions))
		for i := range t.Partitions {
			topic.Partitions = append(topic.Partitions, t.Partitions[i].row(version))
		}
		m.Topics = append(m.Topics, topic)
	}
	for _, t := range r.Forgotten {
		topic := kmsg.NewFetchRequestForgottenTopic()
		topic.TopicID, topic.Partitions = t.ID, t.Partitions
		m.ForgottenTopics = append(m.ForgottenTopics, topic)
	}
}

func (p *FetchPartition) row(version int16) kmsg.FetchRequestTopicPartition {
	row := kmsg.NewFetchRequestTopicPartition()
	row.Partition, row.CurrentLeaderEpoch = p.Index, int32(p.CurrentLeaderEpoch)
	row.FetchOffset, row.LastFetchedEpoch, row.LogStartOffset = int64(p.Offset), int32(p.LastFetchedEpoch), int64(p.LogStart)
	row.PartitionMaxBytes = p.MaxBytes
	if version >= 17 {
		row.ReplicaDirectoryID = p.Directory
	}
	if version >= 18 {
		row.HighWatermark = int64(p.HighWatermark)
	}
	return row
}

func fetchResponse(m *kmsg.FetchResponse) *FetchResponse {
	r := &FetchResponse{ThrottleMs: m.ThrottleMillis, Error: kafka.Error(m.ErrorCode), SessionID: m.SessionID}
	for i := range m.Topics {
		t := &m.Topics[i]
		for j := range t.Partitions {
			r.Partitions = append(r.Partitions, fetchedPartition(t.TopicID, &t.Partitions[j]))
		}
	}
	return r
}

func fetchedPartition(id kafka.TopicID, row *kmsg.FetchResponseTopicPartition) FetchedPartition {
	p := FetchedPartition{
		TopicID: id, Index: row.Partition, Error: kafka.Error(row.ErrorCode),
		HighWatermark: kafka.Offset(row.HighWatermark), LastStable: kafka.Offset(row.LastStableOffset), LogStart: kafka.Offset(row.LogStartOffset),
		Records: row.RecordBatches,
	}
	if d := &row.DivergingEpoch; d.EndOffset >= 0 {
		p.Diverging = &EpochEnd{kafka.Epoch(d.Epoch), kafka.Offset(d.EndOffset)}
	}
	if l := &row.CurrentLeader; l.LeaderEpoch >= 0 {
		p.CurrentLeader = &CurrentLeader{kafka.NodeID(l.LeaderID), kafka.Epoch(l.LeaderEpoch)}
	}
	if s := &row.SnapshotID; s.EndOffset >= 0 {
		p.Snapshot = &SnapshotID{kafka.Offset(s.EndOffset), kafka.Epoch(s.Epoch)}
	}
	for _, a := range row.AbortedTransactions {
		p.Aborted = append(p.Aborted, AbortedTransaction{kafka.ProducerID(a.ProducerID), kafka.Offset(a.FirstOffset)})
	}
	return p
}
