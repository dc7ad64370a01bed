package test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestCommittedOffsetsOutliveCompaction: groups commit until the topic that keeps their offsets is compacted. What was committed
// last is answered then, after kill -9, and by Apache Kafka, which starts on the directory.
func TestCommittedOffsetsOutliveCompaction(t *testing.T) {
	t.Parallel()
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	d := newSwapDir(t, "--override", "offsets.topic.num.partitions=2", "--override", "offsets.topic.segment.bytes=1048576",
		"--override", "log.cleaner.backoff.ms=100", "--override", "log.cleaner.min.cleanable.ratio=0.01")
	broker := d.raftsman(t)
	adm := kadm.NewClient(crashClient(t, d.addr()))
	must(adm.CreateTopics(t.Context(), 3, 1, nil, "work"))(t)

	committed := make([][3]int64, 4)
	compacted := func() bool {
		return bytes.Contains([]byte(broker.log.String()), []byte("msg=compacted partition=__consumer_offsets-"))
	}
	for rounds := 0; !compacted(); rounds++ {
		if rounds == 1_000 {
			t.Fatal("not compacted after 100,000 commits")
		}
		for range 100 {
			group := rng.IntN(len(committed))
			offsets, of := kadm.Offsets{}, [3]int64{rng.Int64N(1_000_000), rng.Int64N(1_000_000), rng.Int64N(1_000_000)}
			for partition, offset := range of {
				offsets.AddOffset("work", int32(partition), offset, -1)
			}
			if err := adm.CommitAllOffsets(t.Context(), fmt.Sprint("group-", group), offsets); err != nil {
				t.Fatal(err)
			}
			committed[group] = of
		}
	}
	check := func(who string) {
		t.Helper()
		adm := kadm.NewClient(crashClient(t, d.addr()))
		for group, want := range committed {
			name := fmt.Sprint("group-", group)
			eventually(t, atLast, who+" serves "+name, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), atLast)
				defer cancel()
				got, err := adm.FetchOffsets(ctx, name)
				if err != nil {
					return err
				}
				var is [3]int64
				for partition := range is {
					answer, _ := got.Lookup("work", int32(partition))
					is[partition] = answer.At
				}
				if is != want {
					return fmt.Errorf("%s has committed %d, want %d", name, is, want)
				}
				return nil
			})
		}
	}
	check("the broker that compacted")
	broker.kill()
	broker = d.raftsman(t)
	check("the broker after kill -9")
	broker.kill()
	kafka := d.kafka(t)
	check("Kafka")
	kafka.terminate()
	broker = d.raftsman(t)
	check("the broker after Kafka")
	broker.terminate()
}
