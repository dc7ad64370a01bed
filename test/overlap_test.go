package test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestReadersSkipAbortedTransactionsThatOverlap: in a partition one transaction begins and is aborted within another one that is aborted too,
// again and again, and only one record in ten is committed. read_committed readers of five clients deliver these alone.
func TestReadersSkipAbortedTransactionsThatOverlap(t *testing.T) {
	t.Parallel()
	w := startCopyWorld(t, "overlap")
	const output, rounds = "copy-overlap", 20
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	producer := func(id string) *kgo.Client {
		return crashClient(t, w.proxy.Addr(), kgo.TransactionalID(id), kgo.DefaultProduceTopic(output), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	outer, inner := producer("outer"), producer("inner")
	begin := func(cl *kgo.Client) {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	write := func(cl *kgo.Client, values ...string) {
		for _, value := range values {
			record := &kgo.Record{Key: []byte("key"), Value: []byte(value)}
			if err := cl.ProduceSync(ctx, record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(cl *kgo.Client, how kgo.TransactionEndTry) {
		if err := cl.EndTransaction(ctx, how); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for n := range rounds {
		begin(outer)
		write(outer, "aborted", "aborted", "aborted")
		begin(inner)
		write(inner, "aborted", "aborted")
		end(inner, kgo.TryAbort)
		write(outer, "aborted")
		end(outer, kgo.TryAbort)
		begin(inner)
		want = append(want, fmt.Sprint("committed ", n))
		write(inner, want[n])
		end(inner, kgo.TryCommit)
	}
	for _, f := range w.readers {
		eventually(t, atLast, f.name+" has read what is committed, and nothing else", func() error {
			w.tend()
			f.mu.Lock()
			defer f.mu.Unlock()
			var got []string
			for _, session := range f.sessions {
				for _, read := range session {
					got = append(got, read.Value)
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("it has read %q, want %q", got, want)
			}
			return nil
		})
	}
}
