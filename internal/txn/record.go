package txn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Record is one record of __transaction_state: what a transactional id is from then on. A nil Value removes the id.
type Record struct {
	TransactionalID string
	Value           *Value
}

// Value is TransactionLogValue.
type Value struct {
	ID ID
	// Previous is the producer id before the record, and Next the one after the transaction's end, when the epochs of this one are
	// used up; NoProducer for none, and always in records of version 0.
	Previous, Next kafka.ProducerID
	TimeoutMs      int32
	State          State
	Partitions     []kafka.TopicPartition // sorted; none in Empty, CompleteCommit and CompleteAbort
	UpdatedMs      int64                  // when the id changed last
	StartMs        int64                  // when the transaction began, -1 for none
	// Protocol is the transaction protocol of the client that made the change: 0 in records of version 0.
	Protocol int16
	// Version is the record's: 0 while the finalised transaction.version is 0, and 1 above.
	Version int16
}

// AppendKey appends the record's key as it stands in __transaction_state.
func AppendKey(dst []byte, r *Record) []byte {
	return sysrecord.AppendKey(dst, &sysrecord.TransactionLogKey{TransactionalID: r.TransactionalID})
}

// AppendValue appends the record's value as it stands in __transaction_state; false when it is null, which removes the key.
func AppendValue(dst []byte, r *Record) ([]byte, bool) {
	v := r.Value
	if v == nil {
		return dst, false
	}
	value := &sysrecord.TransactionLogValue{
		ProducerID: v.ID.Producer, ProducerEpoch: v.ID.Epoch, PreviousProducerID: v.Previous, NextProducerID: v.Next,
		NextProducerEpoch: NoID.Epoch, TransactionTimeoutMs: v.TimeoutMs, TransactionStatus: int8(v.State),
		TransactionLastUpdateTimestampMs: v.UpdatedMs, TransactionStartTimestampMs: v.StartMs, ClientTransactionVersion: v.Protocol,
	}
	if v.State != Empty {
		value.TransactionPartitions = byTopic(v.Partitions)
	}
	return sysrecord.AppendValue(dst, value, v.Version), true
}

// byTopic puts sorted partitions together by their topics.
func byTopic(partitions []kafka.TopicPartition) []sysrecord.TransactionLogValuePartitionsSchema {
	topics := []sysrecord.TransactionLogValuePartitionsSchema{}
	for _, tp := range partitions {
		if len(topics) == 0 || topics[len(topics)-1].Topic != tp.Topic {
			topics = append(topics, sysrecord.TransactionLogValuePartitionsSchema{Topic: tp.Topic})
		}
		last := &topics[len(topics)-1]
		last.PartitionIDs = append(last.PartitionIDs, tp.Partition)
	}
	return topics
}

// Decode reads a record of __transaction_state; a nil value removes the key. It returns nil for kinds that a later Kafka writes:
// they stay in the log as they are.
func Decode(key, value []byte) (*Record, error) {
	k, err := sysrecord.ReadKey(key, sysrecord.NewTransactionKey)
	if errors.Is(err, sysrecord.ErrVersion) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, err
	}
	r := &Record{TransactionalID: k.(*sysrecord.TransactionLogKey).TransactionalID}
	if value == nil {
		return r, nil
	}
	v := sysrecord.NewTransactionLogValue()
	switch err := sysrecord.ReadValue(value, v); {
	case errors.Is(err, sysrecord.ErrVersion):
		return nil, nil //nolint:nilnil // see above
	case err != nil:
		return nil, err
	}
	state := State(v.TransactionStatus)
	if state < Empty || state > CompleteAbort {
		return nil, fmt.Errorf("transactional id %q in state %d, which is never written", r.TransactionalID, v.TransactionStatus)
	}
	r.Value = &Value{
		ID: ID{Producer: v.ProducerID, Epoch: v.ProducerEpoch}, Previous: v.PreviousProducerID, Next: v.NextProducerID,
		TimeoutMs: v.TransactionTimeoutMs, State: state, UpdatedMs: v.TransactionLastUpdateTimestampMs,
		StartMs: v.TransactionStartTimestampMs, Protocol: v.ClientTransactionVersion, Version: recordVersion(value),
	}
	if state != Empty {
		for _, topic := range v.TransactionPartitions {
			for _, p := range topic.PartitionIDs {
				r.Value.Partitions = append(r.Value.Partitions, kafka.TopicPartition{Topic: topic.Topic, Partition: p})
			}
		}
		slices.SortFunc(r.Value.Partitions, kafka.TopicPartition.Compare)
		r.Value.Partitions = slices.Compact(r.Value.Partitions)
	}
	return r, nil
}

// recordVersion is the version that a value begins with, which has been read.
func recordVersion(value []byte) int16 { return int16(value[0])<<8 | int16(value[1]) }
