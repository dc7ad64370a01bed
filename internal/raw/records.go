package raw

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// LongAgoMs is the time of the conversation's records.
const LongAgoMs int64 = 1_600_000_000_000

// Batch is one of records at some times, one key each.
func Batch(codec compress.Codec, times ...int64) record.Batch {
	b := record.Builder{Compression: compress.Spec{Codec: codec}}
	for i, ms := range times {
		b.Add(fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "value %d", i), nil, ms)
	}
	return b.Build()
}

// Values is a batch of strings at the present of LongAgoMs.
func Values(texts ...string) record.Batch {
	b := record.Builder{}
	for _, text := range texts {
		b.Add([]byte("k"), []byte(text), nil, LongAgoMs)
	}
	return b.Build()
}

// ProduceRow is what one partition of a Produce is sent.
type ProduceRow struct {
	Topic     string
	ID        [16]byte
	Partition int32
	Records   []byte
}

// Produce keeps the order of rows, and makes one topic of those that follow each other.
func Produce(version, acks int16, rows ...ProduceRow) *kmsg.ProduceRequest {
	req := At(version, kmsg.NewPtrProduceRequest())
	req.Acks, req.TimeoutMillis = acks, 10_000
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.Topic || req.Topics[n-1].TopicID != r.ID {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = r.Topic, r.ID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = r.Partition, r.Records
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// FetchRow is what one partition of a Fetch asks for.
type FetchRow struct {
	Topic     string
	ID        [16]byte
	Partition int32
	Offset    int64
}

// Fetch waits for nothing and has no session.
func Fetch(version int16, rows ...FetchRow) *kmsg.FetchRequest {
	req := At(version, kmsg.NewPtrFetchRequest())
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 0, 1, 1<<20, -1
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.Topic || req.Topics[n-1].TopicID != r.ID {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = r.Topic, r.ID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = r.Partition, r.Offset, 1<<20, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// ListRow is what one partition of a ListOffsets asks for.
type ListRow struct {
	Topic     string
	Partition int32
	Timestamp int64
}

// ListOffsets asks as a consumer; rows of one topic that follow each other go under one name.
func ListOffsets(version int16, rows ...ListRow) *kmsg.ListOffsetsRequest {
	req := At(version, kmsg.NewPtrListOffsetsRequest())
	req.ReplicaID = -1
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.Topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = r.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = r.Partition, r.Timestamp, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// EpochEnds asks where epoch 0 ends in some partitions of a topic.
func EpochEnds(version int16, topic string, partitions ...int32) *kmsg.OffsetForLeaderEpochRequest {
	req := At(version, kmsg.NewPtrOffsetForLeaderEpochRequest())
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	for _, number := range partitions {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = number, -1, 0
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// DeleteRecords deletes what lies before an offset.
func DeleteRecords(version int16, topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := At(version, kmsg.NewPtrDeleteRecordsRequest())
	req.TimeoutMillis = 10_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// Forged is a good batch of three records with a change, and a CRC that is right all the same.
func Forged(change func(b []byte)) []byte {
	b := []byte(Values("a", "b", "c"))
	change(b)
	return Sealed(b)
}

// Sealed makes a batch's CRC right again.
func Sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Put writes a number into a batch, for Forged.
func Put[I int16 | int32 | int64](where int, value I) func(b []byte) {
	return func(b []byte) {
		switch v := any(value).(type) {
		case int16:
			binary.BigEndian.PutUint16(b[where:], uint16(v))
		case int32:
			binary.BigEndian.PutUint32(b[where:], uint32(v))
		case int64:
			binary.BigEndian.PutUint64(b[where:], uint64(v))
		}
	}
}

// Sequenced is a batch of an idempotent producer.
func Sequenced(id kafka.ProducerID, epoch kafka.ProducerEpoch, base kafka.Sequence, count int) record.Batch {
	b := record.Builder{Producer: &record.Producer{ID: id, Epoch: epoch, BaseSequence: base}}
	for i := range count {
		b.Add([]byte("k"), fmt.Appendf(nil, "%d/%d", base, i), nil, LongAgoMs)
	}
	return b.Build()
}
