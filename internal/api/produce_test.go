package api

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
	"github.com/raftsman/raftsman/internal/wire"
)

// produceRequest is a Produce of one batch to one partition.
func produceRequest(version, acks int16, topic string, id kafka.TopicID, index int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = index, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func produced(resp kmsg.Response) kmsg.ProduceResponseTopicPartition {
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func TestProduceAtEveryVersion(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	for version := int16(3); version <= 13; version++ {
		req := produceRequest(version, -1, "t", id, 0, batchOf("a", "b"))
		resp := n.call(req).(*kmsg.ProduceResponse)
		row := produced(resp)
		if row.ErrorCode != 0 || row.BaseOffset != int64(version-3)*2 || row.LogAppendTime != -1 {
			t.Errorf("v%d: %+v", version, row)
		}
		if version >= 5 && row.LogStartOffset != 0 {
			t.Errorf("v%d: log start %d", version, row.LogStartOffset)
		}
		if version < 13 && resp.Topics[0].Topic != "t" || version >= 13 && resp.Topics[0].TopicID != id {
			t.Errorf("v%d: topic %q, id %v", version, resp.Topics[0].Topic, resp.Topics[0].TopicID)
		}
	}
}

func TestProduceErrors(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	n.topic("compacted", 1, "cleanup.policy", "compact")
	n.topic("__consumer_offsets", 1)
	keyless := func() []byte {
		var b record.Builder
		b.Add([]byte("k"), []byte("v"), nil, time.Now().UnixMilli())
		b.Add(nil, []byte("v"), nil, time.Now().UnixMilli())
		return b.Build()
	}
	zstd := func() []byte {
		b := record.Builder{Compression: compress.Spec{Codec: compress.Zstd}}
		b.Add([]byte("k"), []byte("v"), nil, time.Now().UnixMilli())
		return b.Build()
	}
	for _, c := range []struct {
		name string
		req  *kmsg.ProduceRequest
		want kafka.Error
	}{
		{"unknown topic", produceRequest(9, 1, "nope", id, 0, batchOf("a")), kafka.UnknownTopicOrPartition},
		{"unknown partition", produceRequest(9, 1, "t", id, 3, batchOf("a")), kafka.UnknownTopicOrPartition},
		{"unknown id", produceRequest(13, 1, "", kafka.TopicID{1}, 0, batchOf("a")), kafka.UnknownTopicId},
		{"zero id", produceRequest(13, 1, "", kafka.TopicID{}, 0, batchOf("a")), kafka.UnknownTopicId},
		{"internal topic", produceRequest(9, 1, "__consumer_offsets", id, 0, batchOf("a")), kafka.InvalidTopicException},
		{"acks=2", produceRequest(9, 2, "t", id, 0, batchOf("a")), kafka.InvalidRequiredAcks},
		{"zstd before v7", produceRequest(6, 1, "t", id, 0, zstd()), kafka.UnsupportedCompressionType},
		{"zstd from v7", produceRequest(7, 1, "t", id, 0, zstd()), kafka.None},
		{"rule 40", produceRequest(8, 1, "compacted", id, 0, keyless()), kafka.InvalidRecord},
	} {
		row := produced(n.call(c.req))
		if got := kafka.Error(row.ErrorCode); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.want != kafka.None && (row.BaseOffset != -1 || row.LogAppendTime != -1) {
			t.Errorf("%s: base offset %d, append time %d, want -1", c.name, row.BaseOffset, row.LogAppendTime)
		}
		if c.name == "rule 40" && (len(row.ErrorRecords) != 1 || row.ErrorRecords[0].RelativeOffset != 1 || row.ErrorMessage == nil) {
			t.Errorf("%s: %+v, want record 1 named", c.name, row)
		}
	}
	admin := produceRequest(9, 1, "__consumer_offsets", id, 0, batchOf("a"))
	if row := produced(n.decode(admin, n.wait(n.send(admin, "__admin_client")))); row.ErrorCode != 0 {
		t.Errorf("internal topic for the admin client: %v", kafka.Error(row.ErrorCode))
	}
}

func TestRule10AcksZeroIsNotAnswered(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	if s := n.wait(n.send(produceRequest(9, 0, "t", id, 0, batchOf("a")), "test")); !s.none || s.closed {
		t.Errorf("acks=0: %+v, want no answer and an open connection", s)
	}
	if s := n.wait(n.send(produceRequest(9, 0, "nope", id, 0, batchOf("a")), "test")); !s.none || !s.closed {
		t.Errorf("acks=0 with an error: %+v, want no answer and the connection closed", s)
	}
	req := produceRequest(9, -1, "t", id, 0, batchOf("b"))
	if row := produced(n.call(req)); row.BaseOffset != 1 {
		t.Errorf("the next record has offset %d, want 1", row.BaseOffset)
	}
}

func TestProduceOfSeveralPartitionsKeepsTheirOrder(t *testing.T) {
	n := newNode(t)
	n.topic("a", 2)
	n.topic("b", 1)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 1000
	for _, tp := range []kafka.TopicPartition{{Topic: "b", Partition: 0}, {Topic: "a", Partition: 7}, {Topic: "a", Partition: 1}} {
		one := produceRequest(9, -1, tp.Topic, kafka.TopicID{}, tp.Partition, batchOf("x"))
		if k := len(req.Topics); k > 0 && req.Topics[k-1].Topic == tp.Topic {
			req.Topics[k-1].Partitions = append(req.Topics[k-1].Partitions, one.Topics[0].Partitions...)
			continue
		}
		req.Topics = append(req.Topics, one.Topics...)
	}
	resp := n.call(req).(*kmsg.ProduceResponse)
	if len(resp.Topics) != 2 || resp.Topics[0].Topic != "b" || len(resp.Topics[1].Partitions) != 2 {
		t.Fatalf("%+v", resp.Topics)
	}
	if p := resp.Topics[1].Partitions; p[0].Partition != 7 || kafka.Error(p[0].ErrorCode) != kafka.UnknownTopicOrPartition ||
		p[1].Partition != 1 || p[1].ErrorCode != 0 {
		t.Errorf("%+v, want an error for partition 7 alone", p)
	}
}

func TestMalformedProduceClosesTheConnection(t *testing.T) {
	n := newNode(t)
	if s := n.wait(n.sendBytes(int16(kmsg.Produce), 9, []byte{1, 2, 3}, "test")); !s.closed {
		t.Errorf("%+v, want the connection closed", s)
	}
}

// BenchmarkProduce sends one small batch at a time through the API, down to memory.
func BenchmarkProduce(b *testing.B) {
	n := newNode(b)
	id := n.topic("t", 1)
	body := produceRequest(9, -1, "t", id, 0, batchOf(strings.Repeat("x", 100))).AppendTo(nil)
	scratch := make([]byte, len(body))
	clientID, answered := "bench", make(chan struct{}, 1)
	reply := func(*wire.Response) { answered <- struct{}{} }
	r := &wire.Request{Key: int16(kmsg.Produce), Version: 9, ClientID: &clientID, Peer: n.peer}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		copy(scratch, body)
		r.Body = scratch
		n.api.Handle(r, reply)
		<-answered
	}
}
