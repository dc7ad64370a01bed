package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ledger is a topic that is written in transactions alone. Their ids are spread over all coordinators, and each transaction over all partitions,
// so that brokers of each kind write the markers for those of the other.
type ledger struct {
	t       testing.TB
	cluster *cluster
	rounds  int
	want    []string // what was committed in each partition, in order
}

const (
	ledgerTopic      = "ledger"
	ledgerPartitions = 3
	ledgerWriters    = 6
)

// startLedger makes the topic.
func (c *cluster) startLedger() *ledger {
	c.t.Helper()
	eventually(c.t, atLast, "the ledger is made", func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.CreateTopic(ctx, ledgerPartitions, int16(len(c.brokers())), nil, ledgerTopic)
			return unlessThere(err)
		})
	})
	return &ledger{t: c.t, cluster: c}
}

// write has each id commit a transaction and abort another.
func (l *ledger) write() {
	l.t.Helper()
	for id := range ledgerWriters {
		l.writeAs(fmt.Sprint("writer-", id))
	}
	l.rounds++
}

func (l *ledger) writeAs(id string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), atLast)
	defer cancel()
	client := crashClient(l.t, "", kgo.SeedBrokers(l.cluster.seeds()...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			l.t.Fatalf("%s begins: %v", id, err)
		}
		value := fmt.Sprintf("%s in round %d, committed %v", id, l.rounds, end)
		for p := range int32(ledgerPartitions) {
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: ledgerTopic, Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
				l.t.Fatalf("%s writes in round %d: %v", id, l.rounds, err)
			}
		}
		if err := client.EndTransaction(ctx, end); err != nil {
			l.t.Fatalf("%s ends in round %d: %v", id, l.rounds, err)
		}
		if end == kgo.TryCommit {
			l.want = append(l.want, value)
		}
	}
}

// check reads what was committed.
func (l *ledger) check() {
	l.t.Helper()
	read := committedRecords(l.t, l.cluster.seeds()[0], ledgerTopic, func(r *kgo.Record) string { return fmt.Sprintf("\t%d %s", r.Partition, r.Value) })
	for p := range ledgerPartitions {
		var got []string
		for line := range strings.SplitSeq(read, "\n") {
			if value, is := strings.CutPrefix(line, fmt.Sprintf("\t%d ", p)); is {
				got = append(got, value)
			}
		}
		if !slices.Equal(got, l.want) {
			l.t.Errorf("partition %d of the ledger has\n%s\nwant\n%s", p, strings.Join(got, "\n"), strings.Join(l.want, "\n"))
		}
	}
}
