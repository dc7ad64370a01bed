package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// copyWithFranz is the transactional copy job with franz-go; see ../python/copy_job.py for what it does and prints. With OLD_FLOW=1
// it takes part in transactions as before KIP-890, whatever the cluster can do.
func copyWithFranz(ctx context.Context, bootstrap []string, input, output, group, id string) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(input), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.TransactionalID(id), kgo.TransactionTimeout(10 * time.Second), kgo.DefaultProduceTopic(output), kgo.ProducerLinger(2 * time.Millisecond),
		kgo.RetryTimeout(time.Minute), kgo.FetchMaxWait(200 * time.Millisecond),
	}
	if instance := os.Getenv("GROUP_INSTANCE"); instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if os.Getenv("GROUP_PROTOCOL") == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	if os.Getenv("OLD_FLOW") == "1" {
		old := kversion.Stable()
		for key, most := range map[kmsg.Key]int16{kmsg.Produce: 11, kmsg.TxnOffsetCommit: 4, kmsg.EndTxn: 4} {
			old.SetMaxKeyVersion(int16(key), most)
		}
		options = append(options, kgo.MaxVersions(old))
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	run := fmt.Sprintf("%s-%d-%x", id, os.Getpid(), rand.Uint32())
	for n := 0; ctx.Err() == nil; n++ {
		fetches := session.PollRecords(ctx, 40)
		for _, failure := range fetches.Errors() {
			var group *kgo.ErrGroupSession // the client joins again by itself
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.As(failure.Err, &group) && !errors.Is(failure.Err, kerr.FencedInstanceID):
				fmt.Fprintln(os.Stderr, failure.Err)
			default:
				return fmt.Errorf("fetch %s-%d: %w", failure.Topic, failure.Partition, failure.Err)
			}
		}
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		if err := copyRecords(context.WithoutCancel(ctx), session, records, fmt.Sprint(run, "-", n)); err != nil {
			return err
		}
	}
	return nil
}

// copyRecords writes one transaction. The session goes back to what is committed when that is not what becomes of it.
func copyRecords(ctx context.Context, session *kgo.GroupTransactSession, records []*kgo.Record, transaction string) error {
	how := kgo.TryCommit
	if rand.IntN(8) == 0 {
		how = kgo.TryAbort
		printLine(map[string]string{"aborted": transaction})
	}
	if err := session.Begin(); err != nil {
		return err
	}
	failed := kgo.AbortingFirstErrPromise(session.Client())
	for _, r := range records {
		suffix := fmt.Sprintf(" %s %d", transaction, len(records))
		session.Produce(ctx, &kgo.Record{Key: r.Key, Value: slices.Concat(r.Value, []byte(suffix))}, failed.Promise())
	}
	if err := failed.Err(); err != nil {
		fmt.Fprintln(os.Stderr, transaction, err)
		how = kgo.TryAbort
	}
	committed, err := session.End(ctx, how)
	switch {
	case err != nil:
		return fmt.Errorf("end %s: %w", transaction, err)
	case committed:
		printLine(map[string]string{"committed": transaction})
	default:
		printLine(map[string]string{"aborted": transaction})
	}
	return nil
}

// followWithFranz is a read_committed reader with franz-go; see ../python/follow.py for what it does and prints.
func followWithFranz(ctx context.Context, bootstrap, topics []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().At(0)), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	printAssigned([]int{})
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		for _, failure := range fetches.Errors() {
			var code *kerr.Error
			var lost *kgo.ErrDataLoss
			if errors.As(failure.Err, &lost) || errors.As(failure.Err, &code) && !code.Retriable {
				return fmt.Errorf("fetch %s-%d: %w", failure.Topic, failure.Partition, failure.Err)
			}
			fmt.Fprintln(os.Stderr, failure.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			printLine(map[string]any{"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "key": string(r.Key), "value": string(r.Value)})
		})
	}
	return nil
}
