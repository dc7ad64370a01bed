package wire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

func TestProduceRequestDecodesAsKmsgDoes(t *testing.T) {
	rng := newRandom(t)
	var got ProduceRequest // one value for all, as handlers use it
	var names Names
	for range 200 {
		for version := int16(3); version <= 13; version++ {
			sent := randomRequest(rng, int16(kmsg.Produce), version).(*kmsg.ProduceRequest)
			body := sent.AppendTo(nil)
			if err := got.Decode(version, body, &names); err != nil {
				t.Fatal(err)
			}
			checkProduce(t, &got, sent)
			if t.Failed() {
				t.Fatalf("v%d body %x", version, body)
			}
		}
	}
}

func checkProduce(t *testing.T, got *ProduceRequest, sent *kmsg.ProduceRequest) {
	t.Helper()
	if !reflect.DeepEqual(got.TransactionalID, sent.TransactionID) || got.Acks != sent.Acks || got.TimeoutMs != sent.TimeoutMillis {
		t.Errorf("got %v %d %d, want %v %d %d", got.TransactionalID, got.Acks, got.TimeoutMs, sent.TransactionID, sent.Acks, sent.TimeoutMillis)
	}
	if len(got.Topics) != len(sent.Topics) {
		t.Fatalf("%d topics, want %d", len(got.Topics), len(sent.Topics))
	}
	for i, topic := range got.Topics {
		want := sent.Topics[i]
		if sent.Version < 13 && topic.Name != want.Topic || sent.Version >= 13 && topic.ID != want.TopicID {
			t.Errorf("topic %q %v, want %q %v", topic.Name, topic.ID, want.Topic, want.TopicID)
		}
		if len(topic.Partitions) != len(want.Partitions) {
			t.Fatalf("topic %d: %d partitions, want %d", i, len(topic.Partitions), len(want.Partitions))
		}
		for j, p := range topic.Partitions {
			w := want.Partitions[j]
			if p.Index != w.Partition || !bytes.Equal(p.Records, w.Records) || (p.Records == nil) != (w.Records == nil) {
				t.Errorf("partition %d %q, want %d %q", p.Index, p.Records, w.Partition, w.Records)
			}
		}
	}
}

func TestProduceRequestRefusesEveryCutBody(t *testing.T) {
	rng := newRandom(t)
	var got ProduceRequest
	for version := int16(3); version <= 13; version++ {
		body := randomRequest(rng, int16(kmsg.Produce), version).AppendTo(nil)
		for n := range body {
			if err := got.Decode(version, body[:n], &Names{}); !errors.Is(err, ErrMalformed) {
				t.Fatalf("v%d cut to %d of %d bytes: error %v, want ErrMalformed", version, n, len(body), err)
			}
			if len(got.Topics) != 0 {
				t.Fatalf("v%d: a refused request has %d topics", version, len(got.Topics))
			}
		}
	}
}

func TestProduceResponseIsAsKmsgEncodesIt(t *testing.T) {
	rng := newRandom(t)
	for range 200 {
		for version := int16(3); version <= 13; version++ {
			ours, theirs := randomProduced(rng, version)
			got, want := ours.AppendTo(nil, version), theirs.AppendTo(nil)
			if !bytes.Equal(got, want) {
				t.Fatalf("v%d of %+v\ngot  %x\nwant %x", version, ours, got, want)
			}
		}
	}
}

// randomProduced returns the same answer as our struct and as kmsg's.
func randomProduced(rng *rand.Rand, version int16) (*ProduceResponse, *kmsg.ProduceResponse) {
	ours, theirs := &ProduceResponse{ThrottleMs: rng.Int32()}, kmsg.NewPtrProduceResponse()
	theirs.Version, theirs.ThrottleMillis = version, ours.ThrottleMs
	for range rng.IntN(4) {
		topic := ProducedTopic{Name: string(randomBytes(rng)), ID: randomID(rng)}
		want := kmsg.NewProduceResponseTopic()
		want.Topic, want.TopicID = topic.Name, topic.ID
		for range rng.IntN(4) {
			p := FailedProduce(rng.Int32(), kafka.Error(rng.IntN(100)))
			w := kmsg.NewProduceResponseTopicPartition()
			w.Partition, w.ErrorCode, w.BaseOffset = p.Index, int16(p.Err), -1
			if rng.IntN(2) == 0 {
				p.BaseOffset, p.LogAppendTimeMs, p.LogStartOffset = kafka.Offset(rng.Int64()), rng.Int64(), kafka.Offset(rng.Int64())
				w.BaseOffset, w.LogAppendTime, w.LogStartOffset = int64(p.BaseOffset), p.LogAppendTimeMs, int64(p.LogStartOffset)
			}
			if rng.IntN(3) == 0 {
				p.ErrorMessage = new(string(randomBytes(rng)))
				p.RecordErrors = []RecordError{{BatchIndex: rng.Int32(), Message: p.ErrorMessage}, {BatchIndex: 3}}
				w.ErrorMessage = p.ErrorMessage
				for _, e := range p.RecordErrors {
					w.ErrorRecords = append(w.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: e.BatchIndex, ErrorMessage: e.Message})
				}
			}
			if rng.IntN(3) == 0 {
				p.CurrentLeader = Leader{Known: true, ID: kafka.NodeID(rng.Int32()), Epoch: kafka.Epoch(rng.Int32())}
				if version >= 10 { // kmsg would send it earlier too
					w.CurrentLeader.LeaderID, w.CurrentLeader.LeaderEpoch = int32(p.CurrentLeader.ID), int32(p.CurrentLeader.Epoch)
				}
			}
			topic.Partitions, want.Partitions = append(topic.Partitions, p), append(want.Partitions, w)
		}
		ours.Topics, theirs.Topics = append(ours.Topics, topic), append(theirs.Topics, want)
	}
	for range rng.IntN(3) {
		e := randomEndpoint(rng)
		ours.Endpoints = append(ours.Endpoints, e)
		if version < 10 {
			continue
		}
		theirs.Brokers = append(theirs.Brokers, kmsg.ProduceResponseBroker{NodeID: int32(e.ID), Host: e.Host, Port: e.Port, Rack: e.Rack})
	}
	return ours, theirs
}

func randomID(rng *rand.Rand) (id kafka.UUID) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

func randomEndpoint(rng *rand.Rand) NodeEndpoint {
	e := NodeEndpoint{ID: kafka.NodeID(rng.Int32()), Host: string(randomBytes(rng)), Port: rng.Int32()}
	if rng.IntN(2) == 0 {
		e.Rack = new(string(randomBytes(rng)))
	}
	return e
}

// Rule 96: what a handler does not fill goes out as the schema's default, never as node 0.
func TestRule96DefaultsOfProduceAndFetchRows(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		answer := ProduceResponse{Topics: []ProducedTopic{{Name: "t", Partitions: []ProducedPartition{FailedProduce(0, kafka.UnknownTopicId)}}}}
		var got kmsg.ProduceResponse
		got.SetVersion(version)
		if err := got.ReadFrom(answer.AppendTo(nil, version)); err != nil {
			t.Fatal(err)
		}
		p := got.Topics[0].Partitions[0]
		if p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1 || p.BaseOffset != -1 || p.LogAppendTime != -1 || p.LogStartOffset != -1 {
			t.Errorf("Produce v%d: %+v, want -1 everywhere", version, p)
		}
	}
	for version := int16(4); version <= 18; version++ {
		answer := FetchResponse{Topics: []FetchedTopic{{Name: "t", Partitions: []FetchedPartition{FailedFetch(0, kafka.UnknownTopicId)}}}}
		p := decodeFetched(t, &answer, version).Topics[0].Partitions[0]
		if p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1 || p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1 ||
			p.SnapshotID.Epoch != -1 || p.SnapshotID.EndOffset != -1 || p.PreferredReadReplica != -1 ||
			p.HighWatermark != -1 || p.LastStableOffset != -1 || p.LogStartOffset != -1 {
			t.Errorf("Fetch v%d: %+v, want -1 everywhere", version, p)
		}
	}
}
