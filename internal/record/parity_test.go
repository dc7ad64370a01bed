//go:build kafka

package record

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

var kafkaAddress = flag.String("kafka", "127.0.0.1:9092", "a real Apache Kafka 4.4 to ask")

// TestParityOfHostileBatches sends the cases to a real Kafka and compares its answers with what the table says. Run it as
//
//	go test -tags kafka -run Parity ./internal/record -kafka 127.0.0.1:9092
func TestParityOfHostileBatches(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(*kafkaAddress), kgo.RetryTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	run := time.Now().UnixNano()
	for _, kind := range topicKinds {
		createTopic(ctx, t, client, topicName(run, kind.name), kind.configs)
	}
	for i, h := range hostiles() {
		want := h.want
		if h.fumbled {
			want = kafka.UnknownServerError
		}
		topic, nowMs := topicName(run, h.kind()), time.Now().UnixMilli()
		got, bad, message, offset := produce(ctx, t, client, topic, h.blob(nowMs))
		if got == kafka.None {
			compareStored(t, h, nowMs, fetch(ctx, t, client, topic, offset))
		}
		if got != want || !slices.Equal(bad, h.bad) {
			t.Errorf("%d %s (%s): Kafka says %v, records %v, %q; the table %v, %v", i, h.name, h.kind(), got, bad, message, want, h.bad)
		}
	}
}

func topicName(run int64, kind string) string { return fmt.Sprintf("hostile-%s-%d", kind, run) }

func createTopic(ctx context.Context, t *testing.T, client *kgo.Client, name string, configs map[string]string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for k, v := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = k, kmsg.StringPtr(v)
		topic.Configs = append(topic.Configs, config)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create %s: %v %+v", name, err, resp)
	}
}

func produce(ctx context.Context, t *testing.T, client *kgo.Client, topic string, blob []byte) (kafka.Error, []int32, string, int64) {
	t.Helper()
	for {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = 11, 1, 5000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Records = blob
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		pinned := versionPinned{req}
		raw, err := client.Broker(1).Request(ctx, pinned)
		if err != nil {
			return kafka.UnknownServerError, nil, "no answer: " + err.Error(), -1
		}
		resp := raw.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if code := kafka.Error(resp.ErrorCode); code == kafka.NotLeaderOrFollower || code == kafka.UnknownTopicOrPartition {
			continue // the topic was created a moment ago
		}
		var bad []int32
		for _, r := range resp.ErrorRecords {
			bad = append(bad, r.RelativeOffset)
		}
		message := ""
		if resp.ErrorMessage != nil {
			message = *resp.ErrorMessage
		}
		return kafka.Error(resp.ErrorCode), bad, message, resp.BaseOffset
	}
}

// versionPinned keeps the client from raising the request to a version that names topics by id.
type versionPinned struct{ *kmsg.ProduceRequest }

func (versionPinned) MaxVersion() int16 { return 11 }

// fetch returns the batch that Kafka has stored.
func fetch(ctx context.Context, t *testing.T, client *kgo.Client, topic string, offset int64) Batch {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 1000, 1, 10<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = topic
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes = offset, 10<<20
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	raw, err := client.Broker(1).Request(ctx, fetchPinned{req})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Split(raw.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
	if err != nil {
		t.Fatalf("fetch %s at %d: %v", topic, offset, err)
	}
	return b
}

type fetchPinned struct{ *kmsg.FetchRequest }

func (fetchPinned) MaxVersion() int16 { return 12 }

// compareStored holds what Kafka stored against what Admit would have the log store.
func compareStored(t *testing.T, h hostile, nowMs int64, stored Batch) {
	t.Helper()
	rules := kindRules(h.kind())
	rules.NowMs = nowMs
	if rules.LogAppendTime {
		rules.NowMs = stored.MaxTimestampMs() // Kafka's clock at that moment
	}
	ours, err := Admit(h.blob(nowMs), rules)
	if err != nil {
		t.Errorf("%s (%s): Kafka stores it, ours says %v", h.name, h.kind(), err)
		return
	}
	b := ours.Batch
	b.SetBaseOffset(stored.BaseOffset())
	b.SetLeaderEpoch(stored.LeaderEpoch())
	if bytes.Equal(b, stored) {
		return
	}
	if err := stored.Check(); err != nil {
		t.Errorf("%s (%s): Kafka's own: %v", h.name, h.kind(), err)
	}
	theirs, mine := headerOf(stored), headerOf(b)
	if (theirs != mine) != h.better {
		t.Errorf("%s (%s):\nKafka's %s\nours    %s", h.name, h.kind(), theirs, mine)
	} else {
		t.Logf("%s (%s): the same header, other bytes: %d and %d", h.name, h.kind(), len(stored), len(b))
	}
}

func headerOf(b Batch) string {
	return fmt.Sprintf("attributes %04x delta %d base %d max %d producer %d/%d/%d count %d", uint16(b.Attributes()), b.LastOffsetDelta(),
		b.BaseTimestampMs(), b.MaxTimestampMs(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Count())
}
