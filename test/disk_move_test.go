package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPartitionsMoveWhileTheBrokerIsKilled moves partitions between three log directories under load and kills the broker at
// random. Every acknowledged record is there, in order and once.
func TestPartitionsMoveWhileTheBrokerIsKilled(t *testing.T) {
	t.Parallel()
	rounds := 6
	if soak() {
		rounds = 60
	}
	seed := testSeed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	top := t.TempDir()
	var dirs []string
	for i := range 3 {
		dirs = append(dirs, filepath.Join(top, fmt.Sprint("d", i)))
	}
	const topic, partitions = "moves", 4
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	start := func() *process {
		t.Helper()
		p := startProcess(t, addr, exec.Command(binary(t), "serve", "--listen", addr, "--override", "log.dirs="+strings.Join(dirs, ",")))
		p.awaitServing(atLast)
		return p
	}
	broker := start()
	createTopic(t, broker.addr, topic, partitions)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acked [partitions]atomic.Int64
	var load sync.WaitGroup
	for p := range int32(partitions) {
		cl := crashClient(t, broker.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.StopProducerOnDataLossDetected())
		load.Go(func() {
			for n := int64(0); ctx.Err() == nil; n++ {
				r := &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", 3000))}
				if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
					if ctx.Err() == nil {
						t.Errorf("partition %d, record %d: %v", p, n, err)
					}
					return
				}
				acked[p].Store(n + 1)
			}
		})
	}
	adm := kadm.NewClient(crashClient(t, broker.addr))
	moves := 0
	for range rounds {
		for range 10 + random.IntN(20) {
			var req kadm.AlterReplicaLogDirsReq
			req.Add(dirs[random.IntN(len(dirs))], kadm.TopicsSet{topic: {random.Int32N(partitions): {}}})
			if _, err := adm.AlterAllReplicaLogDirs(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		before := acked[0].Load()
		eventually(t, atLast, "records are acknowledged while partitions move", func() error {
			if n := acked[0].Load(); n < before+int64(10+random.IntN(30)) {
				return fmt.Errorf("%d", n-before)
			}
			return nil
		})
		broker.kill()
		moves += strings.Count(broker.log.String(), "has moved to another log directory")
		broker = start()
	}
	stop()
	load.Wait()
	if moves == 0 {
		t.Error("nothing has moved")
	}
	all := int64(0)
	for p := range int32(partitions) {
		n := acked[p].Load()
		all += n
		checkMoved(t, broker.addr, topic, p, n)
	}
	t.Logf("%d moves, %d records", moves, all)
}

// checkMoved reads a partition: the acknowledged records, each once, and at most one more.
func checkMoved(t *testing.T, addr, topic string, partition int32, acked int64) {
	t.Helper()
	cl := crashClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	next := int64(0)
	for next < acked && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if number, _, _ := strings.Cut(string(r.Value), " "); number != fmt.Sprint(next) {
				t.Fatalf("partition %d, offset %d: record %s, want %d", partition, r.Offset, number, next)
			}
			next++
		})
	}
	if next < acked {
		t.Errorf("partition %d: %d records, %d were acknowledged", partition, next, acked)
	}
}
