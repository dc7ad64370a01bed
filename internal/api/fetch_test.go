package api

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/wire"
)

// fetchRequest reads one partition from an offset, without a session.
func fetchRequest(version int16, topic string, id kafka.TopicID, index int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, 0, 1, 1<<20
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = index, offset, 1<<20
	p.CurrentLeaderEpoch = -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func fetchedRow(resp kmsg.Response) kmsg.FetchResponseTopicPartition {
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

func TestRule21FetchByNameAndByID(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	n.call(produceRequest(9, -1, "t", id, 0, batchOf("a", "b")))
	var first []byte
	for version := int16(4); version <= 18; version++ {
		resp := n.call(fetchRequest(version, "t", id, 0, 0)).(*kmsg.FetchResponse)
		row := fetchedRow(resp)
		if resp.ErrorCode != 0 || row.ErrorCode != 0 || row.HighWatermark != 2 || row.LastStableOffset != 2 || len(row.RecordBatches) == 0 {
			t.Fatalf("v%d: %+v", version, row)
		}
		if first == nil {
			first = row.RecordBatches
		}
		if !bytes.Equal(first, row.RecordBatches) {
			t.Errorf("v%d: other bytes than v4", version)
		}
		if version >= 5 && row.LogStartOffset != 0 || version >= 11 && row.PreferredReadReplica != -1 {
			t.Errorf("v%d: log start %d, preferred replica %d", version, row.LogStartOffset, row.PreferredReadReplica)
		}
		if version < 13 && resp.Topics[0].Topic != "t" || version >= 13 && resp.Topics[0].TopicID != id {
			t.Errorf("v%d: topic %q, id %v", version, resp.Topics[0].Topic, resp.Topics[0].TopicID)
		}
		if row.AbortedTransactions != nil {
			t.Errorf("v%d: aborted transactions %v at isolation level 0, want null", version, row.AbortedTransactions)
		}
	}
	committed := fetchRequest(11, "t", id, 0, 0)
	committed.IsolationLevel = 1
	if row := fetchedRow(n.call(committed)); row.AbortedTransactions == nil || len(row.AbortedTransactions) > 0 {
		t.Errorf("aborted transactions %v at isolation level 1, want an empty list", row.AbortedTransactions)
	}
}

func TestFetchErrors(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	n.call(produceRequest(9, -1, "t", id, 0, batchOf("a")))
	epoch := fetchRequest(12, "t", id, 0, 0)
	epoch.Topics[0].Partitions[0].CurrentLeaderEpoch = 99
	follower := fetchRequest(12, "t", id, 0, 0)
	follower.ReplicaID = 5
	for _, c := range []struct {
		name string
		req  *kmsg.FetchRequest
		want kafka.Error
	}{
		{"unknown topic", fetchRequest(12, "nope", id, 0, 0), kafka.UnknownTopicOrPartition},
		{"unknown id", fetchRequest(13, "", kafka.TopicID{3}, 0, 0), kafka.UnknownTopicId},
		{"zero id", fetchRequest(13, "", kafka.TopicID{}, 0, 0), kafka.UnknownTopicId},
		{"out of range", fetchRequest(12, "t", id, 0, 5), kafka.OffsetOutOfRange},
		{"rule 76: newer epoch", epoch, kafka.UnknownLeaderEpoch},
		{"a stranger as follower", follower, kafka.NotLeaderOrFollower},
	} {
		row := fetchedRow(n.call(c.req))
		if got := kafka.Error(row.ErrorCode); got != c.want || row.HighWatermark != -1 {
			t.Errorf("%s: %v with high watermark %d, want %v with -1", c.name, got, row.HighWatermark, c.want)
		}
	}
}

func TestRule76DivergingEpochInTheAnswer(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	n.call(produceRequest(9, -1, "t", id, 0, batchOf("a")))
	req := fetchRequest(12, "t", id, 0, 1)
	current := fetchRequest(12, "t", id, 0, 1)
	leaderEpoch := n.api.Quorum.Image()
	topic, _ := leaderEpoch.Topic("t")
	current.Topics[0].Partitions[0].LastFetchedEpoch = int32(topic.Partitions[0].LeaderEpoch)
	if row := fetchedRow(n.call(current)); row.ErrorCode != 0 || row.DivergingEpoch.Epoch != -1 {
		t.Errorf("the leader's own epoch: %+v, want no divergence", row)
	}
	req.Topics[0].Partitions[0].LastFetchedEpoch = int32(topic.Partitions[0].LeaderEpoch) - 1
	if topic.Partitions[0].LeaderEpoch == 0 {
		req.Topics[0].Partitions[0].LastFetchedEpoch = 7
		if row := fetchedRow(n.call(req)); kafka.Error(row.ErrorCode) != kafka.OffsetOutOfRange {
			t.Errorf("an epoch newer than the leader's: %v, want OFFSET_OUT_OF_RANGE", kafka.Error(row.ErrorCode))
		}
	}
}

func TestRule74FetchSessionsOverTheWire(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 2)
	code := func(resp kmsg.Response) kafka.Error { return kafka.Error(resp.(*kmsg.FetchResponse).ErrorCode) }
	open := fetchRequest(12, "t", id, 0, 0)
	open.SessionEpoch = 0
	second := open.Topics[0].Partitions[0]
	second.Partition = 1
	open.Topics[0].Partitions = append(open.Topics[0].Partitions, second)
	resp := n.call(open).(*kmsg.FetchResponse)
	if resp.SessionID == 0 || len(resp.Topics[0].Partitions) != 2 {
		t.Fatalf("full fetch: session %d, %+v", resp.SessionID, resp.Topics)
	}
	next := func(epoch int32) *kmsg.FetchRequest {
		req := fetchRequest(12, "t", id, 0, 0)
		req.Topics, req.SessionID, req.SessionEpoch = nil, resp.SessionID, epoch
		return req
	}
	idle := n.call(next(1)).(*kmsg.FetchResponse)
	if idle.SessionID != resp.SessionID || len(idle.Topics) != 0 {
		t.Errorf("nothing new: session %d, %+v", idle.SessionID, idle.Topics)
	}
	if got := code(n.call(next(1))); got != kafka.InvalidFetchSessionEpoch {
		t.Errorf("epoch again: %v, want INVALID_FETCH_SESSION_EPOCH", got)
	}
	unknown := next(1)
	unknown.SessionID = resp.SessionID ^ 1
	if got := code(n.call(unknown)); got != kafka.FetchSessionIdNotFound {
		t.Errorf("unknown session: %v, want FETCH_SESSION_ID_NOT_FOUND", got)
	}
	byID := next(2)
	byID.Version = 13
	if got := code(n.call(byID)); got != kafka.FetchSessionTopicIdError {
		t.Errorf("ids in a session of names: %v, want FETCH_SESSION_TOPIC_ID_ERROR", got)
	}
	// Rule 72: an incremental fetch that names nothing waits for what its session reads.
	wait := next(2)
	wait.MaxWaitMillis = 60_000
	answered := n.send(wait, "test")
	n.call(produceRequest(9, -1, "t", id, 1, batchOf("x")))
	got := n.decode(wait, n.wait(answered)).(*kmsg.FetchResponse)
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 || got.Topics[0].Partitions[0].Partition != 1 ||
		len(got.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("after a produce to partition 1: %+v", got.Topics)
	}
	forget := next(3)
	gone := kmsg.NewFetchRequestForgottenTopic()
	gone.Topic, gone.Partitions = "t", []int32{0, 1}
	forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
	if closed := n.call(forget).(*kmsg.FetchResponse); closed.SessionID != 0 {
		t.Errorf("all forgotten: session %d, want 0", closed.SessionID)
	}
}

func TestRule75SessionByIDEchoesTheID(t *testing.T) {
	n := newNode(t)
	id := n.topic("t", 1)
	open := fetchRequest(16, "", id, 0, 0)
	open.SessionEpoch = 0
	resp := n.call(open).(*kmsg.FetchResponse)
	n.call(produceRequest(9, -1, "t", id, 0, batchOf("x")))
	next := fetchRequest(16, "", id, 0, 0)
	next.Topics, next.SessionID, next.SessionEpoch = nil, resp.SessionID, 1
	got := n.call(next).(*kmsg.FetchResponse)
	if len(got.Topics) != 1 || got.Topics[0].TopicID != id || len(got.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("%+v, want the topic by its id", got.Topics)
	}
}

// BenchmarkFetch reads one small batch at a time through the API, from memory.
func BenchmarkFetch(b *testing.B) {
	n := newNode(b)
	id := n.topic("t", 1)
	n.call(produceRequest(9, -1, "t", id, 0, batchOf(strings.Repeat("x", 100))))
	body := fetchRequest(12, "t", id, 0, 0).AppendTo(nil)
	clientID, answered := "bench", make(chan struct{}, 1)
	r := &wire.Request{Key: int16(kmsg.Fetch), Version: 12, ClientID: &clientID, Peer: n.peer, Received: time.Now()}
	reply := func(resp *wire.Response) {
		resp.Release()
		answered <- struct{}{}
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Body = body
		n.api.Handle(r, reply)
		<-answered
	}
}
