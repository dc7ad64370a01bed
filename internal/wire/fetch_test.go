package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

func TestFetchRequestDecodesAsKmsgDoes(t *testing.T) {
	rng := newRandom(t)
	var got FetchRequest // one value for all, as handlers use it
	var names Names
	for range 200 {
		for version := int16(4); version <= 18; version++ {
			body := randomFetch(rng, version).AppendTo(nil)
			want := kmsg.NewPtrFetchRequest()
			want.Version = version
			if err := errors.Join(want.ReadFrom(body), got.Decode(version, body, &names)); err != nil {
				t.Fatal(err)
			}
			checkFetch(t, &got, want)
			if t.Failed() {
				t.Fatalf("v%d body %x", version, body)
			}
		}
	}
}

// randomFetch leaves out the tagged fields that Kafka does not know at that version: kmsg would send them.
func randomFetch(rng *rand.Rand, version int16) *kmsg.FetchRequest {
	req := randomRequest(rng, int16(kmsg.Fetch), version).(*kmsg.FetchRequest)
	if version < 15 {
		req.ReplicaState = kmsg.NewFetchRequestReplicaState()
	}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			if version < 17 {
				p.ReplicaDirectoryID = kafka.UUID{}
			}
			if version < 18 {
				p.HighWatermark = math.MaxInt64
			}
		}
	}
	return req
}

func checkFetch(t *testing.T, got *FetchRequest, want *kmsg.FetchRequest) {
	t.Helper()
	if want.Version >= 15 {
		want.ReplicaID = want.ReplicaState.ID
	}
	head := *got
	head.Topics, head.Forgotten, head.partitions, head.forgotten = nil, nil, nil, nil
	wantHead := FetchRequest{
		ClusterID: want.ClusterID, ReplicaID: kafka.NodeID(want.ReplicaID), ReplicaEpoch: kafka.BrokerEpoch(want.ReplicaState.Epoch),
		MaxWaitMs: want.MaxWaitMillis, MinBytes: want.MinBytes, MaxBytes: want.MaxBytes, IsolationLevel: want.IsolationLevel,
		SessionID: want.SessionID, SessionEpoch: want.SessionEpoch, Rack: want.Rack,
	}
	if !reflect.DeepEqual(head, wantHead) {
		t.Errorf("got  %+v\nwant %+v", head, wantHead)
	}
	if len(got.Topics) != len(want.Topics) || len(got.Forgotten) != len(want.ForgottenTopics) {
		t.Fatalf("%d topics, %d forgotten; want %d and %d", len(got.Topics), len(got.Forgotten), len(want.Topics), len(want.ForgottenTopics))
	}
	for i, topic := range got.Topics {
		w := want.Topics[i]
		wantTopic := FetchTopic{Name: w.Topic, ID: w.TopicID, Partitions: []FetchPartition{}}
		for _, p := range w.Partitions {
			wantTopic.Partitions = append(wantTopic.Partitions, FetchPartition{
				Index: p.Partition, CurrentLeaderEpoch: kafka.Epoch(p.CurrentLeaderEpoch), FetchOffset: kafka.Offset(p.FetchOffset),
				LastFetchedEpoch: kafka.Epoch(p.LastFetchedEpoch), LogStartOffset: kafka.Offset(p.LogStartOffset),
				MaxBytes: p.PartitionMaxBytes, DirectoryID: p.ReplicaDirectoryID, HighWatermark: kafka.Offset(p.HighWatermark),
			})
		}
		if topic.Partitions == nil {
			topic.Partitions = []FetchPartition{} // no room was needed yet
		}
		if !reflect.DeepEqual(topic, wantTopic) {
			t.Errorf("got  %+v\nwant %+v", topic, wantTopic)
		}
	}
	for i, topic := range got.Forgotten {
		w := want.ForgottenTopics[i]
		if topic.Name != w.Topic || topic.ID != w.TopicID || len(topic.Partitions) != len(w.Partitions) ||
			len(w.Partitions) > 0 && !reflect.DeepEqual(topic.Partitions, w.Partitions) {
			t.Errorf("got %+v, want %+v", topic, w)
		}
	}
}

func TestFetchRequestRefusesEveryCutBody(t *testing.T) {
	rng := newRandom(t)
	var got FetchRequest
	for version := int16(4); version <= 18; version++ {
		body := randomRequest(rng, int16(kmsg.Fetch), version).AppendTo(nil)
		for n := range body {
			if err := got.Decode(version, body[:n], &Names{}); !errors.Is(err, ErrMalformed) {
				t.Fatalf("v%d cut to %d of %d bytes: error %v, want ErrMalformed", version, n, len(body), err)
			}
			if len(got.Topics)+len(got.Forgotten) != 0 {
				t.Fatalf("v%d: a refused request has topics", version)
			}
		}
	}
}

func TestFetchResponseIsAsKmsgEncodesIt(t *testing.T) {
	rng := newRandom(t)
	var resp Response // one value for all, as the server uses it
	for range 200 {
		for version := int16(4); version <= 18; version++ {
			ours, theirs := randomFetched(rng, version)
			ours.Encode(&resp, version)
			got, want := flatten(t, &resp), theirs.AppendTo(nil)
			if !bytes.Equal(got, want) {
				t.Fatalf("v%d of %+v\ngot  %x\nwant %x", version, ours, got, want)
			}
			resp.Reset()
		}
	}
}

// flatten puts the bytes of a response together as the server sends them.
func flatten(t *testing.T, r *Response) []byte {
	t.Helper()
	all := bytes.Clone(r.Head)
	for _, p := range r.Parts {
		if p.Len() == 0 {
			t.Error("a part without bytes")
		}
		if p.File.File == nil {
			all = append(all, p.Bytes...)
			continue
		}
		b := make([]byte, p.File.Len)
		if _, err := p.File.File.ReadAt(b, p.File.Pos); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func decodeFetched(t *testing.T, f *FetchResponse, version int16) *kmsg.FetchResponse {
	t.Helper()
	var resp Response
	f.Encode(&resp, version)
	got := kmsg.NewPtrFetchResponse()
	got.Version = version
	if err := got.ReadFrom(flatten(t, &resp)); err != nil {
		t.Fatal(err)
	}
	return got
}

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Fd() (uintptr, bool) { return 0, false }

var _ io.ReaderAt = memoryFile{}

// randomFetched returns the same answer as our struct and as kmsg's.
func randomFetched(rng *rand.Rand, version int16) (*FetchResponse, *kmsg.FetchResponse) {
	ours := &FetchResponse{ThrottleMs: rng.Int32(), Err: kafka.Error(rng.IntN(100)), SessionID: rng.Int32()}
	theirs := kmsg.NewPtrFetchResponse()
	theirs.Version, theirs.ThrottleMillis, theirs.ErrorCode, theirs.SessionID = version, ours.ThrottleMs, int16(ours.Err), ours.SessionID
	for range rng.IntN(4) {
		topic := FetchedTopic{Name: string(randomBytes(rng)), ID: randomID(rng)}
		want := kmsg.NewFetchResponseTopic()
		want.Topic, want.TopicID = topic.Name, topic.ID
		for range rng.IntN(4) {
			p, w := randomFetchedPartition(rng)
			topic.Partitions, want.Partitions = append(topic.Partitions, p), append(want.Partitions, w)
		}
		ours.Topics, theirs.Topics = append(ours.Topics, topic), append(theirs.Topics, want)
	}
	for range rng.IntN(3) {
		e := randomEndpoint(rng)
		ours.Endpoints = append(ours.Endpoints, e)
		if version < 16 {
			continue // ours does not send them, kmsg would
		}
		theirs.Brokers = append(theirs.Brokers, kmsg.FetchResponseBroker{NodeID: int32(e.ID), Host: e.Host, Port: e.Port, Rack: e.Rack})
	}
	return ours, theirs
}

func randomFetchedPartition(rng *rand.Rand) (FetchedPartition, kmsg.FetchResponseTopicPartition) {
	p, w := FailedFetch(rng.Int32(), kafka.Error(rng.IntN(100))), kmsg.NewFetchResponseTopicPartition()
	w.Partition, w.ErrorCode, w.HighWatermark = p.Index, int16(p.Err), -1
	w.AbortedTransactions, w.RecordBatches = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}, []byte{}
	if rng.IntN(3) == 0 {
		p.AbortedNull, w.AbortedTransactions = true, nil
	} else {
		for range rng.IntN(3) {
			a := AbortedTransaction{ProducerID: kafka.ProducerID(rng.Int64()), FirstOffset: kafka.Offset(rng.Int64())}
			p.Aborted = append(p.Aborted, a)
			w.AbortedTransactions = append(w.AbortedTransactions,
				kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: int64(a.ProducerID), FirstOffset: int64(a.FirstOffset)})
		}
	}
	if rng.IntN(2) == 0 {
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = kafka.Offset(rng.Int64()), kafka.Offset(rng.Int64()), kafka.Offset(rng.Int64())
		w.HighWatermark, w.LastStableOffset, w.LogStartOffset = int64(p.HighWatermark), int64(p.LastStableOffset), int64(p.LogStartOffset)
	}
	if rng.IntN(3) == 0 {
		p.Diverging = EpochEnd{Known: true, Epoch: kafka.Epoch(rng.Int32()), EndOffset: kafka.Offset(rng.Int64())}
		w.DivergingEpoch.Epoch, w.DivergingEpoch.EndOffset = int32(p.Diverging.Epoch), int64(p.Diverging.EndOffset)
	}
	if rng.IntN(3) == 0 {
		p.CurrentLeader = Leader{Known: true, ID: kafka.NodeID(rng.Int32()), Epoch: kafka.Epoch(rng.Int32())}
		w.CurrentLeader.LeaderID, w.CurrentLeader.LeaderEpoch = int32(p.CurrentLeader.ID), int32(p.CurrentLeader.Epoch)
	}
	if rng.IntN(3) == 0 {
		p.Snapshot = SnapshotID{Known: true, Epoch: kafka.Epoch(rng.Int32()), EndOffset: kafka.Offset(rng.Int64())}
		w.SnapshotID.Epoch, w.SnapshotID.EndOffset = int32(p.Snapshot.Epoch), int64(p.Snapshot.EndOffset)
	}
	if rng.IntN(3) == 0 {
		p.ReadReplica = ReadReplica{Preferred: true, ID: kafka.NodeID(rng.Int32())}
		w.PreferredReadReplica = int32(p.ReadReplica.ID)
	}
	for range rng.IntN(4) {
		b := randomBytes(rng)
		w.RecordBatches = append(w.RecordBatches, b...)
		if rng.IntN(2) == 0 {
			p.Records = append(p.Records, Part{Bytes: b})
			continue
		}
		file := memoryFile{bytes.NewReader(append([]byte("front"), b...))}
		p.Records = append(p.Records, Part{File: FileRange{File: file, Pos: 5, Len: len(b)}})
	}
	return p, w
}

func TestFetchCodecAllocatesNothingWhenUsedAgain(t *testing.T) {
	request := kmsg.NewPtrFetchRequest()
	request.Version = 12
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = "orders", make([]kmsg.FetchRequestTopicPartition, 6)
	request.Topics = append(request.Topics, topic)
	body := request.AppendTo(nil)
	answer := FetchResponse{Topics: []FetchedTopic{{Name: "orders", Partitions: make([]FetchedPartition, 6)}}}
	answer.Topics[0].Partitions[3].Records = []Part{{Bytes: []byte("records")}}
	var f FetchRequest
	var names Names
	var resp Response
	if n := testing.AllocsPerRun(100, func() {
		if err := f.Decode(12, body, &names); err != nil {
			t.Fatal(err)
		}
		resp.Reset()
		answer.Encode(&resp, 12)
	}); n != 0 {
		t.Errorf("%v allocations for one request, want none", n)
	}
}
