package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hangingTransaction is one that is open in a partition and that no coordinator is going to end. OpenMs counts from its producer's
// newest record there.
type hangingTransaction struct {
	Topic            string `json:"topic"`
	Partition        int32  `json:"partition"`
	StartOffset      int64  `json:"startOffset"`
	ProducerID       int64  `json:"producerId"`
	ProducerEpoch    int16  `json:"producerEpoch"`
	CoordinatorEpoch int32  `json:"coordinatorEpoch"`
	TransactionalID  string `json:"transactionalId,omitempty"` // where a coordinator knows the producer
	LastTimestamp    string `json:"lastTimestamp"`
	OpenMs           int64  `json:"openMs"`
}

func txnFindHangingCommand(a *app) *cobra.Command {
	var named []string
	var longerThan string
	c := &cobra.Command{
		Use:   "find-hanging",
		Short: "Find transactions that are open and that nobody is going to end",
		Long: `Find transactions that are open in a partition while their coordinator knows nothing of it: nobody is going to end them, and
readers of committed records wait there. Only those are looked at whose newest record is older than --longer-than; what is open in a
transaction that is going on is no hanging one, its coordinator ends it at its timeout at the latest.`,
		Example: `  raftsman txn find-hanging
  raftsman txn find-hanging -t orders --longer-than 1h`,
		Args: wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			age, err := parseSpan(longerThan)
			if err != nil {
				return usagef("--longer-than %w", err)
			}
			topics, err := parseTopicPartitions(named)
			if err != nil {
				return err
			}
			return a.reach(c.Context(), func(ctx context.Context, _ *kgo.Client, adm *kadm.Client) error {
				details, err := findTopics(ctx, adm, sortedKeys(topics))
				if err != nil {
					return err
				}
				if len(topics) == 0 {
					for _, topic := range details.Names() {
						topics[topic] = nil
					}
				}
				wanted, err := choosePartitions(details, topics)
				if err != nil {
					return err
				}
				return a.findHanging(ctx, adm, wanted, age)
			})
		},
	}
	c.Flags().StringArrayVarP(&named, "topic", "t", nil, "only in this topic, or TOPIC:0,3 for some of its partitions (repeat)")
	c.Flags().StringVar(&longerThan, "longer-than", "15m", "only transactions whose newest record is older (10m, 2h); not less than transaction.max.timeout.ms")
	return c
}

func (a *app) findHanging(ctx context.Context, adm *kadm.Client, wanted kadm.TopicsSet, longerThan time.Duration) error {
	described, failed, err := producersOf(ctx, adm, wanted)
	if err != nil {
		return err
	}
	found := []hangingTransaction{}
	var ids []int64
	for _, p := range described {
		for _, d := range p.ActiveProducers.Sorted() {
			age := a.now().UnixMilli() - d.LastTimestamp
			if d.CurrentTxnStartOffset >= 0 && age > longerThan.Milliseconds() {
				found = append(found, hangingTransaction{
					Topic: p.Topic, Partition: p.Partition, StartOffset: d.CurrentTxnStartOffset, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch,
					CoordinatorEpoch: d.CoordinatorEpoch, LastTimestamp: formatTime(time.UnixMilli(d.LastTimestamp)), OpenMs: age,
				})
				ids = append(ids, d.ProducerID)
			}
		}
	}
	owners, err := ownersOf(ctx, adm, ids)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(h hangingTransaction) bool { return owners[h.ProducerID].has(h.Topic, h.Partition) })
	for i := range found {
		found[i].TransactionalID = owners[found[i].ProducerID].TxnID
	}
	if err := a.writeHanging(found, len(failed) > 0); err != nil {
		return err
	}
	return failed.join()
}

// owner is what a coordinator knows about a producer id; the zero value is nothing.
type owner struct{ kadm.DescribedTransaction }

// has tells whether the coordinator has the partition in the transaction that is open, so that it is going to end it there.
func (o owner) has(topic string, partition int32) bool {
	_, ok := o.Topics[topic][partition]
	return ok
}

// ownersOf asks all coordinators about producer ids. All have to answer: what one does not know may be another's.
func ownersOf(ctx context.Context, adm *kadm.Client, producerIDs []int64) (map[int64]owner, error) {
	names, err := transactionalIDsOf(ctx, adm, producerIDs)
	if err != nil {
		return nil, refused("ask all coordinators whose transactions these are", err, "")
	}
	owners := map[int64]owner{}
	if len(names) == 0 {
		return owners, nil
	}
	ids := make([]string, 0, len(names))
	for _, id := range names {
		ids = append(ids, id)
	}
	described, err := adm.DescribeTransactions(ctx, ids...)
	for _, d := range described {
		if d.Err == nil {
			owners[d.ProducerID] = owner{d}
		}
	}
	if err == nil {
		return owners, nil
	}
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) {
		err = shards.Errs[0].Err
	}
	return nil, refused("ask all coordinators whose transactions these are", err, "")
}

func (a *app) writeHanging(found []hangingTransaction, partly bool) error {
	if a.json() {
		return a.writeJSON(found)
	}
	if len(found) == 0 {
		if !partly {
			a.note("no transaction hangs")
		}
		return nil
	}
	t := newTable(column{title: "TOPIC"}, column{title: "PARTITION", right: true}, column{title: "START OFFSET", right: true}, column{title: "OPEN", right: true},
		column{title: "LAST RECORD"}, column{title: "PRODUCER", right: true}, column{title: "EPOCH", right: true}, column{title: "TRANSACTIONAL ID", flexible: true})
	for _, h := range found {
		t.add(plain(h.Topic), number(h.Partition), caution(formatID(h.StartOffset)), plain(formatSpan(time.Duration(h.OpenMs)*time.Millisecond)), plain(h.LastTimestamp),
			plain(formatID(h.ProducerID)), number(h.ProducerEpoch), when(h.TransactionalID == "", faint("-"), plain(h.TransactionalID)))
	}
	if err := t.write(a.out, a.paint(), a.width()); err != nil {
		return err
	}
	a.note("`raftsman txn abort -t %s:%d --start-offset %d` ends the first of them: its records there count as aborted", found[0].Topic, found[0].Partition, found[0].StartOffset)
	return nil
}
