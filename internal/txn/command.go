package txn

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Ticket names one request that waits for an answer. The caller of [Machine.Handle] picks it; the machine hands it back in a [Sent].
type Ticket uint64

// Command is a request about one transactional id. The machine keeps strings and slices of a command that it has answered with records.
type Command interface {
	// Fail is the reply that says only that the request ended with a code.
	Fail(code kafka.Error) Reply
}

// Reply answers a Command. Each command has one reply type: *InitProducer is answered by *InitProducerReply, and so on.
type Reply interface{ reply() }

// ID is a producer id in one epoch. The zero value is producer 0 in epoch 0: no producer is [NoID].
type ID struct {
	Producer kafka.ProducerID
	Epoch    kafka.ProducerEpoch
}

// NoID is the ID of nobody.
var NoID = ID{Producer: kafka.NoProducer, Epoch: -1}

// InitProducer is InitProducerId of a transactional id: it fences who had the id before, and ends what that one left open.
type InitProducer struct {
	TimeoutMs int32
	Expected  ID // who the client was, NoID for a new one: versions 3 and above (KIP-360)
	// KIP-939, as far as Kafka 4.4 has it.
	TwoPhaseCommit, KeepPrepared bool
	// Fresh is a producer id that nobody has had. It is NoProducer at first: the machine asks for one with [Effects.NeedsID] where it
	// cannot do without, and the caller hands in the same command again.
	Fresh kafka.ProducerID
}

// InitProducerReply answers an InitProducer.
type InitProducerReply struct {
	Code kafka.Error
	ID   ID // NoID beside an error
	// Ongoing is the prepared transaction that was kept: NoID in Kafka 4.4, which keeps none.
	Ongoing ID
}

// AddPartitions is AddPartitionsToTxn for one transactional id, AddOffsetsToTxn (with the partition of the offsets' topic), and
// what a Produce or a TxnOffsetCommit of protocol 2 adds on its way.
type AddPartitions struct {
	ID         ID
	Partitions []kafka.TopicPartition
	// Protocol is the version of the transaction protocol that the client speaks: 2 where a request adds its partitions itself.
	Protocol int16
	// VerifyOnly asks whether the partitions are in the open transaction, and adds nothing.
	VerifyOnly bool
	// Wait is for how long whoever hosts the machine may keep back CONCURRENT_TRANSACTIONS, which leaves earlier when the last
	// transaction has ended and it is time to ask again. The machine does not look at it.
	Wait time.Duration
}

// AddPartitionsReply answers an AddPartitions: a code for all, and when that is NONE one for each partition, in their order.
type AddPartitionsReply struct {
	Code  kafka.Error
	Codes []kafka.Error
}

// End is EndTxn.
type End struct {
	ID     ID
	Commit bool
	// Protocol is 2 for requests of version 5 and above, and 0 for others.
	Protocol int16
	Fresh    kafka.ProducerID // as in InitProducer: when the epoch is at its end
}

// EndReply answers an End. ID is whom the producer goes on as: NoID beside an error and in protocols below 2.
type EndReply struct {
	Code kafka.Error
	ID   ID
}

// Describe is DescribeTransactions of one transactional id.
type Describe struct{}

// DescribeReply answers a Describe.
type DescribeReply struct {
	Code       kafka.Error
	State      State
	ID         ID
	TimeoutMs  int32
	StartMs    int64 // when the transaction began that is open or was the last, -1 for none since the producer has the epoch
	Partitions []kafka.TopicPartition
}

// Listed is one transactional id in a list.
type Listed struct {
	TransactionalID string
	Producer        kafka.ProducerID
	State           State
	StartMs         int64 // as in DescribeReply
	UpdatedMs       int64 // when the state changed last
}

// Fail implements [Command].
func (*InitProducer) Fail(code kafka.Error) Reply {
	return &InitProducerReply{Code: code, ID: NoID, Ongoing: NoID}
}

// Fail implements [Command].
func (*AddPartitions) Fail(code kafka.Error) Reply { return &AddPartitionsReply{Code: code} }

// Fail implements [Command].
func (*End) Fail(code kafka.Error) Reply { return &EndReply{Code: code, ID: NoID} }

// Fail implements [Command].
func (*Describe) Fail(code kafka.Error) Reply {
	return &DescribeReply{Code: code, ID: NoID, StartMs: -1}
}

func (*InitProducerReply) reply()  {}
func (*AddPartitionsReply) reply() {}
func (*EndReply) reply()           {}
func (*DescribeReply) reply()      {}
