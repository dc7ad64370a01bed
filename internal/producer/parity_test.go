//go:build kafka

package producer

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

var (
	kafkaAddress = flag.String("kafka", "127.0.0.1:9092", "a real Apache Kafka 4.4 to ask")
	kafkaRestart = flag.String("restart", "", "a shell command that starts that Kafka again; without it those scenarios end early")
)

// TestParityOfScenarios plays the scenarios to a real Kafka. Run it as
//
//	go test -tags kafka -run Parity ./internal/producer -kafka 127.0.0.1:9092 -restart 'kafka stop DIR && kafka start DIR 9092'
func TestParityOfScenarios(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(*kafkaAddress), kgo.RetryTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, s := range scenarios {
		topic := fmt.Sprintf("scenario-%d-%d", i, time.Now().UnixNano())
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
		req.Topics = append(req.Topics, rt)
		if _, err := req.RequestWith(ctx, client); err != nil {
			t.Fatal(err)
		}
		base := kafka.ProducerID(time.Now().UnixNano() / 1000)
		for j, step := range s.sends {
			if step.restart {
				if *kafkaRestart == "" {
					break
				}
				if out, err := exec.CommandContext(ctx, "sh", "-c", *kafkaRestart).CombinedOutput(); err != nil {
					t.Fatalf("restart: %v\n%s", err, out)
				}
			}
			want := step.want
			if worse, ok := s.better[j]; ok {
				want = worse
			}
			b := batchOf(record.Producer{ID: base + step.producer, Epoch: step.epoch, BaseSequence: step.first}, step.count, false, time.Now())
			code, offset, appendMs := produce(ctx, t, client, topic, b)
			if code != want || code == 0 && offset != step.offset {
				t.Errorf("%s, send %d: Kafka says %v, offset %d; the table %v, %d", s.name, j, code, offset, want, step.offset)
			}
			if code == 0 {
				t.Logf("%s, send %d: offset %d, append time %d", s.name, j, offset, appendMs)
			}
		}
	}
}

func produce(ctx context.Context, t *testing.T, client *kgo.Client, topic string, b record.Batch) (kafka.Error, kafka.Offset, int64) {
	t.Helper()
	for ctx.Err() == nil {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 5000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Records = b
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		raw, err := client.Broker(1).Request(ctx, pinned{req})
		if err != nil {
			continue // starting
		}
		resp := raw.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if code := kafka.Error(resp.ErrorCode); code == kafka.NotLeaderOrFollower || code == kafka.UnknownTopicOrPartition {
			continue
		}
		return kafka.Error(resp.ErrorCode), kafka.Offset(resp.BaseOffset), resp.LogAppendTime
	}
	t.Fatal("no answer")
	return 0, 0, 0
}

type pinned struct{ *kmsg.ProduceRequest }

func (pinned) MaxVersion() int16 { return 11 }
