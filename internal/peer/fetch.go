package peer

import "github.com/raftsman/raftsman/internal/kafka"

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
