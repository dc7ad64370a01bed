package main

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func txnCommand(a *app) *cobra.Command {
	return family("txn", "List, describe and end transactions",
		txnListCommand(a), txnDescribeCommand(a), txnFindHangingCommand(a), txnAbortCommand(a))
}

// The states of a transactional id, in Kafka's words. In those of openStates a transaction has begun and not ended.
var (
	txnStates  = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead"}
	openStates = []string{"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
)

// txnSummary is one line of `txn list`.
type txnSummary struct {
	TransactionalID string `json:"transactionalId"`
	State           string `json:"state"`
	ProducerID      int64  `json:"producerId"`
	Coordinator     int32  `json:"coordinator"`
	OpenMs          *int64 `json:"openMs"` // how long its transaction is open; nil: none is
	Partitions      int    `json:"partitions"`
}

// txnFilter says which transactional ids are meant; the zero value but for longerThan, which is then below 0, means all.
type txnFilter struct {
	states      []string
	producerIDs []int64
	longerThan  time.Duration
	pattern     *regexp.Regexp // nil: any; the whole id has to match
}

func txnListCommand(a *app) *cobra.Command {
	var longerThan, pattern string
	f := txnFilter{longerThan: -1}
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the transactional ids and what their transactions are at",
		Long: `List the transactional ids and what their transactions are at. OPEN is how long a transaction is open, PARTITIONS in how many
partitions: those that still wait for its end once that is decided.`,
		Example: `  raftsman txn list --state Ongoing --longer-than 10m
  raftsman txn list --pattern 'payments-.*'`,
		Args: wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			err := spell("--state", f.states, txnStates)
			if err == nil && longerThan != "" {
				if f.longerThan, err = parseSpan(longerThan); err != nil {
					err = usagef("--longer-than %w", err)
				}
			}
			if err == nil && pattern != "" {
				if f.pattern, err = regexp.Compile("^(?:" + pattern + ")$"); err != nil {
					err = usagef("--pattern %q is no regular expression: %w", pattern, err)
				}
			}
			if err != nil {
				return err
			}
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				listed, err := a.listTransactions(ctx, cl, adm, f)
				if len(listed) > 0 || unlessPartial(err) == nil {
					if failed := a.writeTransactions(listed); failed != nil {
						return failed
					}
				}
				return err
			})
		},
	}
	c.Flags().StringSliceVar(&f.states, "state", nil, "only those in these states, with commas")
	c.Flags().Int64SliceVar(&f.producerIDs, "producer-id", nil, "only those of these producer ids, with commas")
	c.Flags().StringVar(&longerThan, "longer-than", "", "only transactions that are open for longer (10m, 2h)")
	c.Flags().StringVar(&pattern, "pattern", "", "only transactional ids that this regular expression matches as a whole")
	completeFlag(c, "state", txnStates...)
	return c
}

// listTransactions asks all brokers. What those that answered have is returned also when others did not.
func (a *app) listTransactions(ctx context.Context, cl *kgo.Client, adm *kadm.Client, f txnFilter) ([]txnSummary, error) {
	req := kmsg.NewPtrListTransactionsRequest()
	req.StateFilters, req.ProducerIDFilters = f.states, f.producerIDs
	if f.longerThan >= 0 {
		req.DurationFilterMillis = f.longerThan.Milliseconds()
	}
	if f.pattern != nil {
		whole := f.pattern.String()
		req.TransactionalIDPattern = &whole
	}
	listed := []txnSummary{}
	var failed failures
	var open []string
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			failed = append(failed, shard.Err)
			continue
		}
		resp := shard.Resp.(*kmsg.ListTransactionsResponse)
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			failed = append(failed, refused("list the transactions of broker "+formatID(shard.Meta.NodeID), err, ""))
			continue
		}
		for _, t := range resp.TransactionStates {
			// A broker of an older version knows no patterns.
			if f.pattern == nil || f.pattern.MatchString(t.TransactionalID) {
				listed = append(listed, txnSummary{TransactionalID: t.TransactionalID, State: t.TransactionState, ProducerID: t.ProducerID, Coordinator: shard.Meta.NodeID})
				if slices.Contains(openStates, t.TransactionState) {
					open = append(open, t.TransactionalID)
				}
			}
		}
	}
	if len(open) > 0 {
		described, err := adm.DescribeTransactions(ctx, open...)
		if err = unlessPartial(err); err != nil {
			return nil, err
		}
		for i := range listed {
			if d, ok := described[listed[i].TransactionalID]; ok && d.Err == nil {
				listed[i].OpenMs, listed[i].Partitions = a.openFor(&d), countPartitions(d.Topics)
			}
		}
	}
	if f.longerThan >= 0 { // brokers also list ids without a transaction
		listed = slices.DeleteFunc(listed, func(t txnSummary) bool { return t.OpenMs == nil || *t.OpenMs <= f.longerThan.Milliseconds() })
	}
	slices.SortFunc(listed, func(x, y txnSummary) int { return strings.Compare(x.TransactionalID, y.TransactionalID) })
	return listed, failed.join()
}

func countPartitions(topics kadm.TopicsSet) (n int) {
	for _, partitions := range topics {
		n += len(partitions)
	}
	return n
}

// openFor is for how many milliseconds a transaction is open, nil if none is.
func (a *app) openFor(d *kadm.DescribedTransaction) *int64 {
	if !slices.Contains(openStates, d.State) || d.StartTimestamp < 0 {
		return nil
	}
	ms := max(0, a.now().UnixMilli()-d.StartTimestamp)
	return &ms
}

func (a *app) writeTransactions(listed []txnSummary) error {
	if a.json() {
		return a.writeJSON(listed)
	}
	if len(listed) == 0 {
		a.note("there are no such transactional ids: a producer's setting transactional.id makes one")
		return nil
	}
	t := newTable(column{title: "TRANSACTIONAL ID", flexible: true}, column{title: "STATE"}, column{title: "OPEN", right: true},
		column{title: "PARTITIONS", right: true}, column{title: "PRODUCER", right: true}, column{title: "COORDINATOR", right: true})
	for _, l := range listed {
		open, partitions := faint("-"), faint("-")
		if l.OpenMs != nil {
			open, partitions = plain(formatSpan(time.Duration(*l.OpenMs)*time.Millisecond)), count(int64(l.Partitions))
		}
		t.add(plain(l.TransactionalID), txnStateCell(l.State), open, partitions, plain(formatID(l.ProducerID)), number(l.Coordinator))
	}
	return t.write(a.out, a.paint(), a.width())
}

func txnStateCell(state string) cell {
	if slices.Contains(openStates, state) {
		return caution(state)
	}
	return faint(state)
}

// completeTransactions offers the cluster's transactional ids.
func (a *app) completeTransactions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		listed, err := adm.ListTransactions(ctx, nil, nil)
		return listed.TransactionalIDs(), err
	})
}

// formatID writes a number that is a name: as it is typed.
func formatID[T ~int16 | ~int32 | ~int64](id T) string { return strconv.FormatInt(int64(id), 10) }
