package replica

import (
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
)

// ProduceRequest is what a client appends with one request. Records are borrowed until Produce returns.
type ProduceRequest struct {
	Acks          int16 // 0, 1 or -1
	TimeoutMs     int32
	Transactional bool // the request has a transactional id
	Partitions    []ProducePartition
}

// ProducePartition is what one partition gets. A topic id that is not zero decides, else the name does.
type ProducePartition struct {
	Topic     string
	TopicID   kafka.TopicID
	Partition int32
	Records   []byte
	Guard     producer.Guard // of Verification, where the records begin a transaction
}

// ProduceResult is what became of one partition's records.
type ProduceResult struct {
	Err          kafka.Error
	Message      string                 // for the client; "" for none
	Records      []record.InvalidRecord // which records were refused
	BaseOffset   kafka.Offset           // -1 when nothing was appended
	AppendTimeMs int64                  // -1 unless the topic's timestamps are LogAppendTime
	LogStart     kafka.Offset           // -1 when not known
}

// FetchRequest is what a consumer or a follower wants to read. Partitions are borrowed until the answer was given.
type FetchRequest struct {
	ReplicaID    kafka.NodeID      // of a follower; negative for consumers
	ReplicaEpoch kafka.BrokerEpoch // under which the follower's broker is registered; -1: it does not say
	FromFollower bool              // a consumer that may read from followers, and be sent to one (KIP-392)
	Rack         string            // where that consumer is; "" if it does not say

	MaxWaitMs  int32
	MinBytes   int32
	MaxBytes   int32
	Committed  bool // isolation level read_committed
	Partitions []FetchPartition
}

// isReplica tells whether a follower asks.
func (req *FetchRequest) isReplica() bool { return req.ReplicaID >= 0 }

// FetchPartition is where to read in one partition. A topic id that is not zero decides, else the name does.
type FetchPartition struct {
	Topic              string
	TopicID            kafka.TopicID
	Partition          int32
	CurrentLeaderEpoch kafka.Epoch // kafka.NoEpoch: not checked
	LastFetchedEpoch   kafka.Epoch // kafka.NoEpoch: not checked
	Offset             kafka.Offset
	LogStart           kafka.Offset // of a follower: where its log begins
	MaxBytes           int32
}

// FetchResult is what was read from one partition. Whoever is given it calls Chunk.Release when its bytes are no longer needed.
type FetchResult struct {
	Err           kafka.Error
	HighWatermark kafka.Offset // this and the next two: -1 with an error
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	Preferred     kafka.NodeID // the replica from which the consumer is to read, when there is nothing else in the result; kafka.NoNode: this one
	Diverges      bool         // the reader's log is not ours from Shared on
	SharedEpoch   kafka.Epoch
	SharedEnd     kafka.Offset
	Chunk         commitlog.Chunk
	Aborted       []commitlog.AbortedTxn // those with records in the chunk, for who reads committed records
	Traffic       *Traffic               // of the topic, where who sends the chunk to a consumer counts it; nil with an error

	seen kafka.Offset  // up to where there was anything to read
	wait time.Duration // the reader is throttled that long, and is given nothing
}

// failedFetch is the result of a partition that was not read.
func failedFetch(code kafka.Error) FetchResult {
	return FetchResult{Err: code, HighWatermark: kafka.NoOffset, LastStable: kafka.NoOffset, LogStart: kafka.NoOffset, Preferred: kafka.NoNode}
}

// failedProduce is the result of a partition to which nothing was appended.
func failedProduce(code kafka.Error) ProduceResult {
	return ProduceResult{Err: code, BaseOffset: kafka.NoOffset, AppendTimeMs: -1, LogStart: kafka.NoOffset}
}
