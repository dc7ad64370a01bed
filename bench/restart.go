package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// restartTopic is created once and kept from turn to turn.
const restartTopic = "restart"

// restartRow restarts a broker with that many partitions: once after kill -9 in the middle of a load on all of them, once after a
// stop in order. scale changes how much data they hold.
func restartRow(count int32, bytes int) func(context.Context, *broker, float64) (map[string]float64, error) {
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if err := prepareRestart(ctx, b, count, int(float64(bytes)*scale)); err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
		if err := loadAndKill(ctx, b, count); err != nil {
			return nil, err
		}
		killed, err := acknowledged(ctx, b, count)
		if err != nil {
			return nil, fmt.Errorf("after kill -9: %w", err)
		}
		began := time.Now()
		b.stop()
		stop := time.Since(began).Seconds()
		inOrder, err := b.stoppedInOrder()
		if err != nil {
			return nil, err
		}
		clean, err := acknowledged(ctx, b, count)
		if err != nil {
			return nil, fmt.Errorf("after a stop: %w", err)
		}
		memory, err := b.memory()
		if err != nil {
			return nil, err
		}
		files, err := b.files()
		b.stop()
		return map[string]float64{
			"kill -9, first": killed.first, "kill -9, each": killed.each, "clean, first": clean.first, "clean, each": clean.each,
			"stop": stop, "stopped in order": inOrder, "memory": float64(memory) / 1e6, "open files": float64(files),
		}, err
	}
}

var restartFigures = []figure{
	{"clean, first", "s", false, 0},
	{"clean, each", "s", false, 0},
	{"kill -9, first", "s", false, 0},
	{"kill -9, each", "s", false, 0},
	{"stop", "s", false, 0},
	{"stopped in order", "of 1", true, 0}, // else clean is not what it says
	{"memory", "MB", false, 0},
	{"open files", "", false, 0},
}

// prepareRestart starts the broker and makes the topic with its data, unless an earlier turn did.
func prepareRestart(ctx context.Context, b *broker, count int32, bytes int) error {
	if err := b.start(); err != nil {
		return err
	}
	marker := filepath.Join(b.dir, restartTopic)
	if content, err := os.ReadFile(marker); err == nil && string(content) == fmt.Sprint(count) {
		return nil
	}
	cl, err := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(100*time.Millisecond), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	began := time.Now()
	admin := kadm.NewClient(cl)
	if err := recreate(ctx, admin, count); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, " %d partitions created in %.1f s;", count, time.Since(began).Seconds())
	all := values(1024)
	var failed error
	for i := range max(bytes/1024, 1) {
		cl.Produce(ctx, &kgo.Record{Topic: restartTopic, Partition: int32(i) % count, Value: all[i%len(all)]}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := errors.Join(cl.Flush(ctx), failed); err != nil {
		return err
	}
	return os.WriteFile(marker, []byte(fmt.Sprint(count)), 0o644)
}

// createAtOnce is how many partitions a request may create.
const createAtOnce = 5_000

func recreate(ctx context.Context, admin *kadm.Client, count int32) error {
	_, _ = admin.DeleteTopic(ctx, restartTopic)
	return createMany(ctx, admin, restartTopic, count, 1, nil)
}

// createMany creates a topic in as many requests as it takes.
func createMany(ctx context.Context, admin *kadm.Client, topic string, count int32, replicas int, configs map[string]*string) error {
	admin.SetTimeoutMillis(300_000)
	if _, err := admin.CreateTopic(ctx, min(count, createAtOnce), int16(replicas), configs, topic); err != nil {
		return err
	}
	for made := int32(createAtOnce); made < count; made += createAtOnce {
		added, err := admin.UpdatePartitions(ctx, int(min(made+createAtOnce, count)), topic)
		if err := cmp.Or(err, added.Error()); err != nil {
			return err
		}
	}
	return nil
}

// loadAndKill kills the broker while records for all partitions are on their way.
func loadAndKill(ctx context.Context, b *broker, count int32) error {
	ctx, cancel := context.WithCancel(ctx)
	cl, err := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond))
	if err != nil {
		cancel()
		return err
	}
	defer cl.CloseAllowingRebalance()
	defer cancel()
	value := make([]byte, 100)
	until := time.Now().Add(3 * time.Second)
	for i := int32(0); time.Now().Before(until); i++ {
		cl.Produce(ctx, &kgo.Record{Topic: restartTopic, Partition: i % count, Value: value}, nil)
	}
	b.node().signal(syscall.SIGKILL)
	b.node().wait()
	return nil
}

// stoppedInOrder is 1 if the process has left the marker of a stop in order, and 0 if it ran out of time.
func (b *broker) stoppedInOrder() (float64, error) {
	found, err := filepath.Glob(filepath.Join(b.dir, "*", ".kafka_cleanshutdown"))
	return float64(min(len(found), 1)), err
}

// files returns how many files the process has open.
func (b *broker) files() (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.node().pid))
	return len(list), err
}

// restarted is how long a start took, in seconds, until a first record was acknowledged, and one in each partition.
type restarted struct{ first, each float64 }

func acknowledged(ctx context.Context, b *broker, count int32) (restarted, error) {
	began := time.Now()
	if err := b.node().spawn(); err != nil {
		return restarted{}, err
	}
	for {
		conn, err := net.Dial("tcp", b.node().addr())
		if err == nil {
			_ = conn.Close()
			break
		}
		if ctx.Err() != nil {
			return restarted{}, err
		}
		time.Sleep(time.Millisecond)
	}
	cl, err := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(int(count)+1))
	if err != nil {
		return restarted{}, err
	}
	defer cl.Close()
	value := []byte("after the restart")
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: restartTopic, Value: value}).FirstErr(); err != nil {
		return restarted{}, err
	}
	first := time.Since(began).Seconds()
	all := make([]*kgo.Record, count)
	for i := range all {
		all[i] = &kgo.Record{Topic: restartTopic, Partition: int32(i), Value: value}
	}
	if err := cl.ProduceSync(ctx, all...).FirstErr(); err != nil {
		return restarted{}, err
	}
	return restarted{first, time.Since(began).Seconds()}, nil
}
