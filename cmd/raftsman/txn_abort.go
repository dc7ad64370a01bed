package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// abortedTransaction is what `txn abort` shows: what it would end, or has ended.
type abortedTransaction struct {
	TransactionalID string         `json:"transactionalId,omitempty"` // where it is known
	ProducerID      int64          `json:"producerId"`
	ProducerEpoch   int16          `json:"producerEpoch"`
	Partitions      []txnPartition `json:"partitions"`
	Executed        bool           `json:"executed"`
}

func txnAbortCommand(a *app) *cobra.Command {
	var partition string
	var start int64
	var execute bool
	c := &cobra.Command{
		Use:   "abort [TRANSACTIONAL-ID]",
		Short: "End a transaction, so that its records count as aborted",
		Long: `End a transaction, so that its records count as aborted. Without --execute only a preview is shown.

By its transactional id a transaction that is going on is ended in all its partitions. Its producer is fenced: what it sends from then
on is refused, and it has to begin anew. By -t and --start-offset a hanging transaction is ended, one that no coordinator knows, in that
partition; ` + "`raftsman txn find-hanging`" + ` finds them.`,
		Example: `  raftsman txn abort payments-7
  raftsman txn abort payments-7 --execute
  raftsman txn abort -t orders:3 --start-offset 4711 --execute`,
		Args: wants(0, 1),
		RunE: func(c *cobra.Command, ids []string) error {
			byOffset := partition != "" || c.Flags().Changed("start-offset")
			switch {
			case len(ids) == 1 && byOffset:
				return usagef("a transactional id and -t with --start-offset do not go together: choose one")
			case len(ids) == 1:
				return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
					return a.abortByID(ctx, cl, adm, ids[0], execute)
				})
			case partition == "" || !c.Flags().Changed("start-offset"):
				return usagef("which transaction is missing: a transactional id, or both -t TOPIC:PARTITION and --start-offset")
			case start < 0:
				return usagef("--start-offset %d is no offset: `raftsman txn find-hanging` shows where transactions begin", start)
			}
			topics, err := parseTopicPartitions([]string{partition})
			if err != nil {
				return err
			}
			topic := sortedKeys(topics)[0]
			if len(topics[topic]) != 1 {
				return usagef("-t %s is not one partition: it is TOPIC:PARTITION", partition)
			}
			at := txnPartition{topic, topics[topic][0], start}
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error { return a.abortHanging(ctx, adm, at, execute) })
		},
		ValidArgsFunction: a.completeTransactions,
	}
	c.Flags().StringVarP(&partition, "topic", "t", "", "the partition in which a hanging transaction is ended, TOPIC:PARTITION")
	c.Flags().Int64Var(&start, "start-offset", 0, "where it begins")
	c.Flags().BoolVar(&execute, "execute", false, "do it, do not only show it")
	return c
}

// abortByID ends what a transactional id has open by taking its place: as any new producer of that id does, which ends what the one
// before has left.
func (a *app) abortByID(ctx context.Context, cl *kgo.Client, adm *kadm.Client, id string, execute bool) error {
	v, err := a.viewTransaction(ctx, adm, id)
	switch {
	case err != nil:
		return err
	case v.State == "PrepareCommit":
		return fmt.Errorf("the transaction of %s is committed, only partitions wait to be told: `raftsman txn describe %s` shows which; nothing can abort it", id, id)
	case v.State == "PrepareAbort" || v.State == "PrepareEpochFence":
		return fmt.Errorf("the transaction of %s is aborted already, only partitions wait to be told: `raftsman txn describe %s` shows which", id, id)
	case v.State != "Ongoing":
		return fmt.Errorf("%s has no transaction open, its state is %s: `raftsman txn find-hanging` looks for those that no coordinator knows", id, v.State)
	}
	if execute {
		if err := fence(ctx, cl, id, min(v.TimeoutMs, fenceTimeoutMsMax)); err != nil {
			return refused("abort the transaction of "+id, err, "")
		}
	}
	return a.writeAborted(abortedTransaction{id, v.ProducerID, v.ProducerEpoch, v.Partitions, execute})
}

const (
	// fenceTimeoutMsMax bounds the timeout that is asked for, as brokers bound it. It counts until a producer comes and tells its own.
	fenceTimeoutMsMax = 60_000
	fencePause        = 100 * time.Millisecond
)

// fence takes a transactional id over, which ends its open transaction; the coordinator says to come again until that has ended.
func fence(ctx context.Context, cl *kgo.Client, id string, timeoutMs int32) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, timeoutMs
	for {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(fencePause):
		}
	}
}

// abortHanging writes the marker that is missing to one partition.
func (a *app) abortHanging(ctx context.Context, adm *kadm.Client, at txnPartition, execute bool) error {
	details, err := findTopics(ctx, adm, []string{at.Topic})
	if err != nil {
		return err
	}
	wanted, err := choosePartitions(details, map[string][]int32{at.Topic: {at.Partition}})
	if err != nil {
		return err
	}
	described, failed, err := producersOf(ctx, adm, wanted)
	if err = errors.Join(err, failed.join()); err != nil {
		return err
	}
	producers := described[0].ActiveProducers.Sorted()
	i := slices.IndexFunc(producers, func(p kadm.DescribedProducer) bool { return p.CurrentTxnStartOffset == at.StartOffset })
	if i < 0 {
		return noTransactionThere(at, producers)
	}
	p := producers[i]
	owners, err := ownersOf(ctx, adm, []int64{p.ProducerID})
	if err != nil {
		return err
	}
	o := owners[p.ProducerID]
	if o.has(at.Topic, at.Partition) {
		return fmt.Errorf("the transaction at offset %d does not hang: it is that of %s, in state %s; `raftsman txn abort %s` ends it in all its partitions",
			at.StartOffset, o.TxnID, o.State, o.TxnID)
	}
	if execute {
		marker := kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: max(0, p.CoordinatorEpoch), Topics: wanted}
		if err := writeMarker(ctx, adm, marker, at); err != nil {
			return refused(fmt.Sprintf("abort the transaction at offset %d of %s partition %d", at.StartOffset, at.Topic, at.Partition), err, "")
		}
	}
	return a.writeAborted(abortedTransaction{o.TxnID, p.ProducerID, p.ProducerEpoch, []txnPartition{at}, execute})
}

// noTransactionThere tells where transactions are open, if any are.
func noTransactionThere(at txnPartition, producers []kadm.DescribedProducer) error {
	var open []string
	for _, p := range producers {
		if p.CurrentTxnStartOffset >= 0 {
			open = append(open, formatID(p.CurrentTxnStartOffset))
		}
	}
	if len(open) == 0 {
		return fmt.Errorf("no transaction is open in %s partition %d: `raftsman txn find-hanging` looks for them", at.Topic, at.Partition)
	}
	return fmt.Errorf("no transaction is open in %s partition %d from offset %d on: those that are begin at %s", at.Topic, at.Partition, at.StartOffset, shorten(strings.Join(open, ", "), 80))
}

func writeMarker(ctx context.Context, adm *kadm.Client, marker kadm.TxnMarkers, at txnPartition) error {
	answered, err := adm.WriteTxnMarkers(ctx, marker)
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) {
		err = shards.Errs[0].Err
	}
	if err != nil {
		return err
	}
	p, ok := answered[marker.ProducerID].Topics[at.Topic].Partitions[at.Partition]
	if !ok {
		return errors.New("the broker does not answer to it")
	}
	return p.Err
}

func (a *app) writeAborted(t abortedTransaction) error {
	if a.json() {
		return a.writeJSON(t)
	}
	rows := newTable(column{title: "TOPIC", flexible: true}, column{title: "PARTITION", right: true}, column{title: "START OFFSET", right: true},
		column{title: "PRODUCER", right: true}, column{title: "EPOCH", right: true}, column{title: "TRANSACTIONAL ID"})
	for _, p := range t.Partitions {
		rows.add(plain(p.Topic), number(p.Partition), startCell(p.StartOffset), plain(formatID(t.ProducerID)), number(t.ProducerEpoch),
			when(t.TransactionalID == "", faint("-"), plain(t.TransactionalID)))
	}
	if len(t.Partitions) > 0 {
		if err := rows.write(a.out, a.paint(), a.width()); err != nil {
			return err
		}
	}
	if !t.Executed {
		a.note("this is a preview, nothing is changed: add --execute to do it")
		return nil
	}
	a.note("aborted")
	return nil
}
