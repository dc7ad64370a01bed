package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// txnView is what `txn describe` shows of a transactional id.
type txnView struct {
	TransactionalID string         `json:"transactionalId"`
	State           string         `json:"state"`
	ProducerID      int64          `json:"producerId"`
	ProducerEpoch   int16          `json:"producerEpoch"`
	Coordinator     int32          `json:"coordinator"`
	TimeoutMs       int32          `json:"timeoutMs"`
	Started         string         `json:"started,omitempty"` // of the transaction that is open
	OpenMs          *int64         `json:"openMs"`            // nil: none is
	Partitions      []txnPartition `json:"partitions"`        // in which it has records, or, once its end is decided, those that wait for it
}

// txnPartition is a partition of a transaction. StartOffset is -1 where nothing was written yet, or the end has come.
type txnPartition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	StartOffset int64  `json:"startOffset"`
}

// partitionProducers are the producers that a partition knows.
type partitionProducers struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Producers []producerView `json:"producers"`
}

// producerView is a producer as a partition knows it. StartOffset is that of its open transaction, -1 if none is; LastSequence and
// CoordinatorEpoch are -1 where there was nothing yet.
type producerView struct {
	ProducerID       int64  `json:"producerId"`
	ProducerEpoch    int16  `json:"producerEpoch"`
	TransactionalID  string `json:"transactionalId,omitempty"` // where a coordinator knows it
	LastSequence     int32  `json:"lastSequence"`
	LastTimestamp    string `json:"lastTimestamp"`
	CoordinatorEpoch int32  `json:"coordinatorEpoch"`
	StartOffset      int64  `json:"startOffset"`
}

func txnDescribeCommand(a *app) *cobra.Command {
	var partitions []string
	c := &cobra.Command{
		Use:   "describe [TRANSACTIONAL-ID...]",
		Short: "Show what a transactional id is at, or which producers a partition knows",
		Long: `Show what a transactional id is at: its state, its producer, and the partitions of the transaction that is open. With -t show
which producers a partition knows, idempotent ones too, and where their open transactions begin.`,
		Example: `  raftsman txn describe payments-7
  raftsman txn describe -t orders:0,3`,
		Args: wants(0, -1),
		RunE: func(c *cobra.Command, ids []string) error {
			topics, err := parseTopicPartitions(partitions)
			switch {
			case err != nil:
				return err
			case len(ids) == 0 && len(topics) == 0:
				return usagef("what to describe is missing: a transactional id, or a partition with -t TOPIC:0")
			case len(ids) > 0 && len(topics) > 0:
				return usagef("transactional ids and -t do not go together: one command for each")
			}
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				if len(ids) > 0 {
					return a.describeTransactions(ctx, adm, ids)
				}
				return a.describePartitions(ctx, adm, topics)
			})
		},
		ValidArgsFunction: a.completeTransactions,
	}
	c.Flags().StringArrayVarP(&partitions, "topic", "t", nil, "the producers of this topic, or TOPIC:0,3 for some of its partitions (repeat)")
	return c
}

func (a *app) describeTransactions(ctx context.Context, adm *kadm.Client, ids []string) error {
	views := []txnView{}
	var failed failures
	for _, id := range ids {
		v, err := a.viewTransaction(ctx, adm, id)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		views = append(views, v)
	}
	if a.json() {
		if err := a.writeJSON(views); err != nil {
			return err
		}
		return failed.join()
	}
	for i := range views {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := views[i].write(a.out, a.paint(), a.width()); err != nil {
			return err
		}
	}
	return failed.join()
}

// viewTransaction asks the coordinator about a transactional id, and the partitions where its transaction begins in them.
func (a *app) viewTransaction(ctx context.Context, adm *kadm.Client, id string) (txnView, error) {
	described, err := adm.DescribeTransactions(ctx, id)
	if err != nil {
		return txnView{}, refused("describe "+id, err, "")
	}
	d, ok := described[id]
	switch {
	case !ok || errors.Is(d.Err, kerr.TransactionalIDNotFound):
		return txnView{}, fmt.Errorf("there is no transactional id %s: `raftsman txn list` shows those there are", id)
	case d.Err != nil:
		return txnView{}, refused("describe "+id, d.Err, "")
	}
	v := txnView{
		TransactionalID: id, State: d.State, ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch, Coordinator: d.Coordinator,
		TimeoutMs: d.TimeoutMillis, OpenMs: a.openFor(&d), Partitions: []txnPartition{},
	}
	if v.OpenMs != nil {
		v.Started = formatTime(time.UnixMilli(d.StartTimestamp))
	}
	var known kadm.DescribedProducersTopics
	if len(d.Topics) > 0 {
		if known, err = adm.DescribeProducers(ctx, d.Topics); unlessPartial(err) != nil && ctx.Err() != nil {
			return v, ctx.Err() // where else it begins in a partition can't be told, the rest can
		}
	}
	for _, topic := range d.Topics.Sorted() {
		for _, p := range topic.Partitions {
			start := int64(unknown)
			if producer, ok := known[topic.Topic].Partitions[p].ActiveProducers[d.ProducerID]; ok {
				start = producer.CurrentTxnStartOffset
			}
			v.Partitions = append(v.Partitions, txnPartition{topic.Topic, p, start})
		}
	}
	return v, nil
}

func (v *txnView) write(w io.Writer, p paint, width int) error {
	state := txnStateCell(v.State)
	open := "no transaction open"
	if v.OpenMs != nil {
		open = fmt.Sprintf("open for %s since %s", formatSpan(time.Duration(*v.OpenMs)*time.Millisecond), v.Started)
	}
	_, err := fmt.Fprintf(w, "%s  state %s, producer %d epoch %d, coordinator %d, timeout %s, %s\n", p.bold(printable(v.TransactionalID)),
		state.paint(p, state.text), v.ProducerID, v.ProducerEpoch, v.Coordinator, formatSpan(time.Duration(v.TimeoutMs)*time.Millisecond), open)
	if err != nil || len(v.Partitions) == 0 {
		return err
	}
	t := newTable(column{title: "TOPIC", flexible: true}, column{title: "PARTITION", right: true}, column{title: "START OFFSET", right: true})
	for _, l := range v.Partitions {
		t.add(plain(l.Topic), number(l.Partition), startCell(l.StartOffset))
	}
	fmt.Fprintln(w)
	return t.write(w, p, width)
}

// startCell is where a transaction begins, as --start-offset takes it.
func startCell(offset int64) cell { return when(offset < 0, faint("-"), plain(formatID(offset))) }

func (a *app) describePartitions(ctx context.Context, adm *kadm.Client, topics map[string][]int32) error {
	details, err := findTopics(ctx, adm, sortedKeys(topics))
	if err != nil {
		return err
	}
	wanted, err := choosePartitions(details, topics)
	if err != nil {
		return err
	}
	described, failed, err := producersOf(ctx, adm, wanted)
	if err != nil {
		return err
	}
	var ids []int64
	for _, p := range described {
		for id := range p.ActiveProducers {
			ids = append(ids, id)
		}
	}
	names, err := transactionalIDsOf(ctx, adm, ids)
	if ctx.Err() != nil {
		return err // else only the names are missing
	}
	views := []partitionProducers{}
	for _, p := range described {
		v := partitionProducers{Topic: p.Topic, Partition: p.Partition, Producers: []producerView{}}
		for _, d := range p.ActiveProducers.Sorted() {
			v.Producers = append(v.Producers, producerView{
				ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch, TransactionalID: names[d.ProducerID], LastSequence: d.LastSequence,
				LastTimestamp: formatTime(time.UnixMilli(d.LastTimestamp)), CoordinatorEpoch: d.CoordinatorEpoch, StartOffset: d.CurrentTxnStartOffset,
			})
		}
		views = append(views, v)
	}
	if err := a.writeProducers(views); err != nil {
		return err
	}
	return failed.join()
}

// choosePartitions settles which partitions are meant: those that are named, or all of a topic.
func choosePartitions(details kadm.TopicDetails, topics map[string][]int32) (kadm.TopicsSet, error) {
	wanted := kadm.TopicsSet{}
	for _, topic := range sortedKeys(topics) {
		all, partitions := details[topic].Partitions, topics[topic]
		if len(partitions) == 0 {
			partitions = all.Numbers()
		}
		for _, p := range partitions {
			if _, ok := all[p]; !ok {
				return nil, fmt.Errorf("%s has no partition %d: it has 0 to %d", topic, p, len(all)-1)
			}
		}
		wanted.Add(topic, partitions...)
	}
	return wanted, nil
}

// describedPartitionsMax is how many partitions one request asks about.
const describedPartitionsMax = 1000

// producersOf asks the leaders, in order. What some partitions could not answer is told beside what others did.
func producersOf(ctx context.Context, adm *kadm.Client, wanted kadm.TopicsSet) (described []kadm.DescribedProducersPartition, failed failures, err error) {
	part, size := kadm.TopicsSet{}, 0
	ask := func() error {
		producers, err := adm.DescribeProducers(ctx, part)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, topic := range part.Sorted() {
			for _, p := range topic.Partitions {
				d, ok := producers[topic.Topic].Partitions[p]
				what := fmt.Sprintf("producers of %s partition %d", topic.Topic, p)
				switch {
				case !ok && err != nil:
					failed = append(failed, refused(what, err, ""))
				case !ok:
					failed = append(failed, refused(what, kerr.LeaderNotAvailable, ""))
				case d.Err != nil:
					failed = append(failed, refused(what, d.Err, d.ErrMessage))
				default:
					described = append(described, d)
				}
			}
		}
		part, size = kadm.TopicsSet{}, 0
		return nil
	}
	for _, topic := range wanted.Sorted() {
		for _, p := range topic.Partitions {
			part.Add(topic.Topic, p)
			if size++; size == describedPartitionsMax {
				if err := ask(); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	if size > 0 {
		err = ask()
	}
	return described, failed, err
}

// transactionalIDsOf asks the coordinators whose ids these are.
func transactionalIDsOf(ctx context.Context, adm *kadm.Client, producerIDs []int64) (map[int64]string, error) {
	names := map[int64]string{}
	if len(producerIDs) == 0 {
		return names, nil
	}
	slices.Sort(producerIDs)
	listed, err := adm.ListTransactions(ctx, slices.Compact(producerIDs), nil)
	for _, l := range listed {
		names[l.ProducerID] = l.TxnID
	}
	return names, err
}

func (a *app) writeProducers(views []partitionProducers) error {
	if a.json() {
		return a.writeJSON(views)
	}
	t := newTable(column{title: "TOPIC"}, column{title: "PARTITION", right: true}, column{title: "PRODUCER", right: true}, column{title: "EPOCH", right: true},
		column{title: "TRANSACTIONAL ID", flexible: true}, column{title: "SEQUENCE", right: true}, column{title: "LAST RECORD"},
		column{title: "COORDINATOR EPOCH", right: true}, column{title: "START OFFSET", right: true})
	none := true
	for _, v := range views {
		for _, p := range v.Producers {
			none = false
			t.add(plain(v.Topic), number(v.Partition), plain(formatID(p.ProducerID)), number(p.ProducerEpoch), when(p.TransactionalID == "", faint("-"), plain(p.TransactionalID)),
				startCell(int64(p.LastSequence)), plain(p.LastTimestamp), startCell(int64(p.CoordinatorEpoch)), when(p.StartOffset < 0, faint("-"), caution(formatID(p.StartOffset))))
		}
	}
	if none {
		if len(views) > 0 {
			a.note("no idempotent or transactional producer is known there")
		}
		return nil
	}
	return t.write(a.out, a.paint(), a.width())
}
