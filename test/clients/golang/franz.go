package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ bootstrap []string }

func (f franz) create(ctx context.Context, topic string, partitions int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...))
	if err != nil {
		return err
	}
	defer cl.Close()
	response, err := kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), -1, nil, topic)
	return errors.Join(err, response.Err)
}

func (f franz) produce(ctx context.Context, topic, codec string, records []keyValue) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...), kgo.ProducerBatchCompression(franzCodecs[codec]), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	batch := make([]*kgo.Record, 0, len(records))
	for _, r := range records {
		batch = append(batch, &kgo.Record{Topic: topic, Key: r.key, Value: r.value})
	}
	for _, result := range cl.ProduceSync(ctx, batch...) {
		if result.Err != nil {
			return result.Err
		}
		printRecord(result.Record.Key, nil, int(result.Record.Partition), result.Record.Offset)
	}
	return nil
}

func (f franz) consume(ctx context.Context, group, topic string, count int) error {
	assigned := map[string]map[int32]bool{}
	report := func() {
		partitions := []int{}
		for _, owned := range assigned {
			for p := range owned {
				partitions = append(partitions, int(p))
			}
		}
		printAssigned(partitions)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(sessionTimeout(count)), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			for topic, partitions := range added {
				if assigned[topic] == nil {
					assigned[topic] = map[int32]bool{}
				}
				for _, p := range partitions {
					assigned[topic][p] = true
				}
			}
			report()
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			for topic, partitions := range gone {
				for _, p := range partitions {
					delete(assigned[topic], p)
				}
			}
			report()
		}),
	}
	if strings.HasPrefix(topic, "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	if instance := os.Getenv("GROUP_INSTANCE"); instance != "" {
		options = append(options, kgo.InstanceID(instance), kgo.SessionTimeout(sessionTimeout(1)))
	}
	if os.Getenv("GROUP_PROTOCOL") == "consumer" { // KIP-848
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	cl, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	alone := count > 0
	for seen := 0; (count == 0 || seen < count) && ctx.Err() == nil; {
		fetches := cl.PollRecords(ctx, 500)
		for _, failure := range fetches.Errors() {
			var session *kgo.ErrGroupSession // the client joins again by itself
			switch {
			case ctx.Err() != nil:
			case errors.As(failure.Err, &session) && !alone:
				fmt.Fprintln(os.Stderr, failure.Err)
			default:
				return fmt.Errorf("fetch %s-%d: %w", failure.Topic, failure.Partition, failure.Err)
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			printRecord(r.Key, r.Value, int(r.Partition), r.Offset)
			seen++
		})
		switch err := cl.CommitUncommittedOffsets(context.WithoutCancel(ctx)); {
		case err == nil:
		case rebalanced(err) && !alone:
			fmt.Fprintln(os.Stderr, "commit:", err)
		default:
			return fmt.Errorf("commit: %w", err)
		}
		cl.AllowRebalance()
	}
	return nil
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (f franz) write(ctx context.Context, topic, codec string, records []keyValue) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...), kgo.ProducerBatchCompression(franzCodecs[codec]))
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, r := range records {
		record := &kgo.Record{Topic: topic, Key: r.key, Value: r.value}
		for _, h := range r.headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		if err := cl.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func (f franz) read(ctx context.Context, group, topic string, count int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	for count > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			told := keyValue{key: r.Key, value: r.Value}
			for _, h := range r.Headers {
				told.headers = append(told.headers, header{h.Key, h.Value})
			}
			told.tell()
			count--
		})
	}
	return cl.CommitUncommittedOffsets(ctx)
}

// rebalanced tells whether a commit was refused because the group went on without this member: whoever owns the partitions now
// reads again what was not committed, and the client joins again by itself.
func rebalanced(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.UnknownMemberID) ||
		errors.Is(err, kerr.StaleMemberEpoch) || errors.Is(err, kerr.FencedMemberEpoch)
}
