package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const manyPartitions = 500

// TestManyPartitionsWithFewFiles keeps 500 partitions in a process that may open 200 files, ends it in order and with kill -9, while all
// of them, some or none have been asked for since the start: each serves what was acknowledged.
func TestManyPartitionsWithFewFiles(t *testing.T) {
	dir, acked := t.TempDir(), make([]int, manyPartitions)
	p := startWithFewFiles(t, dir)
	createTopic(t, p.addr, "many", manyPartitions)
	for round, turn := range []struct {
		every int // of how many partitions one gets a record
		kill  bool
	}{
		{1, false}, {50, false}, {manyPartitions + 1, false}, {50, true}, {1, true}, {3, false}, {7, true},
	} {
		produceTo(t, p.addr, round%turn.every, turn.every, acked)
		if turn.kill {
			p.kill()
		} else {
			p.terminate()
		}
		_, err := os.Stat(filepath.Join(dir, cleanMarker))
		if clean := err == nil; clean == turn.kill {
			t.Fatalf("round %d: a clean-shutdown marker: %v; want one after a stop alone", round, clean)
		}
		p = startWithFewFiles(t, dir)
		if turn.kill { // or the next stop would not be in order
			eventually(t, atLast, "the end of recovery", func() error {
				if !strings.Contains(p.log.String(), "partitions are recovered") {
					return errors.New("not yet")
				}
				return nil
			})
		}
		if round%2 == 1 { // otherwise some go on sleeping
			compareMany(t, p.addr, acked)
		}
	}
	compareMany(t, p.addr, acked)
	if log := p.log.String(); strings.Contains(log, "too many open files") {
		t.Error("the broker ran out of files")
	}
}

func startWithFewFiles(t testing.TB, dir string) *process {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	p := startProcess(t, addr, exec.Command("sh", "-c", `ulimit -n 200; exec "$@"`, "sh", binary(t), "serve", "--data", dir, "--listen", addr))
	p.dir = dir
	p.awaitServing(atLast)
	return p
}

// produceTo sends the next record to one partition of every so many.
func produceTo(t testing.TB, addr string, first, every int, acked []int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	var records []*kgo.Record
	for i := first; i < len(acked); i += every {
		records = append(records, &kgo.Record{Topic: "many", Partition: int32(i), Value: fmt.Append(nil, acked[i])})
		acked[i]++
	}
	cl := must(kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer cl.Close()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// compareMany reads every partition from its begin.
func compareMany(t testing.TB, addr string, acked []int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	from, missing := make(map[int32]kgo.Offset), 0
	for i, n := range acked {
		from[int32(i)] = kgo.NewOffset().At(0)
		missing += n
	}
	cl := must(kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"many": from}),
		kgo.FetchMaxWait(100*time.Millisecond)))(t)
	defer cl.Close()
	got := make([]int, len(acked))
	for missing > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("%d records are missing: %v", missing, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprint(got[r.Partition]); string(r.Value) != want || r.Offset != int64(got[r.Partition]) {
				t.Fatalf("partition %d, offset %d: %s, want %s", r.Partition, r.Offset, r.Value, want)
			}
			got[r.Partition]++
			missing--
		})
	}
	for i, n := range acked {
		if got[i] != n {
			t.Errorf("partition %d holds %d records, want %d", i, got[i], n)
		}
	}
}
