package scripts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionVerbs are what kafka-transactions does, and the options that each of them needs and takes beside.
var transactionVerbs = map[string]struct{ needs, takes []string }{
	"list":                      {takes: []string{"duration-filter", "transactional-id-pattern"}},
	"describe":                  {needs: []string{"transactional-id"}},
	"describe-producers":        {needs: []string{"topic", "partition"}, takes: []string{"broker-id"}},
	"abort":                     {needs: []string{"topic", "partition"}, takes: []string{"start-offset", "producer-id", "producer-epoch", "coordinator-epoch"}},
	"find-hanging":              {takes: []string{"broker-id", "max-transaction-timeout", "topic", "partition"}},
	"forceTerminateTransaction": {needs: []string{"transactionalId"}},
}

func transactionsScript() *script {
	return &script{
		instead: "raftsman txn",
		verbs:   sorted(transactionVerbs),
		short:   map[string]string{"-v": "version", "-h": "help"},
		options: common(values("duration-filter", "transactional-id-pattern", "transactional-id", "topic", "partition", "broker-id", "start-offset",
			"producer-id", "producer-epoch", "coordinator-epoch", "max-transaction-timeout", "transactionalId")...),
		run: runTransactions,
	}
}

func runTransactions(ctx context.Context, c *call) error {
	verb, ok := transactionVerbs[c.verb]
	if !ok {
		return usagef("too few arguments")
	}
	for _, name := range sorted(c.opts) {
		if !slices.Contains(slices.Concat(verb.needs, verb.takes, []string{"bootstrap-server", "command-config"}), name) {
			return usagef("unrecognized arguments: '--%s'", name)
		}
	}
	for _, name := range verb.needs {
		if !c.opts.has(name) {
			return usagef("argument --%s is required", name)
		}
	}
	numbers := map[string]int64{}
	for _, name := range []string{"duration-filter", "partition", "broker-id", "start-offset", "producer-id", "producer-epoch", "coordinator-epoch", "max-transaction-timeout"} {
		n, err := c.number(name)
		if err != nil {
			return err
		}
		numbers[name] = n
	}
	at := txnPartition{c.opts.value("topic"), int32(numbers["partition"])}
	if c.verb == "abort" {
		if err := c.checkAbort(); err != nil {
			return err
		}
	}
	if c.verb == "find-hanging" {
		if err := c.checkFindHanging(); err != nil {
			return err
		}
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	switch c.verb {
	case "list":
		return c.listTransactions(ctx, numbers["duration-filter"])
	case "describe":
		return c.describeTransaction(ctx, c.opts.value("transactional-id"))
	case "describe-producers":
		return c.describeProducers(ctx, at, numbers["broker-id"])
	case "abort":
		return c.abortTransaction(ctx, at, numbers)
	case "find-hanging":
		return c.findHanging(ctx, at, numbers)
	}
	return c.forceTerminate(ctx, c.opts.value("transactionalId"))
}

// txnPartition is where a transaction may be open.
type txnPartition struct {
	topic     string
	partition int32
}

func (p txnPartition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

// tabs lays rows out as the script of Java does: every column as wide as its widest cell, and a tab behind it.
func (c *call) tabs(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, row := range rows {
		for i, text := range row {
			c.print("%-*s\t", widths[i], text)
		}
		c.print("\n")
	}
}

// failed is how the script tells what went wrong.
func failed(what string, err error) error { return fmt.Errorf("%s: %s", what, sentence(err, "")) }

func (c *call) listTransactions(ctx context.Context, longerThan int64) error {
	req := kmsg.NewPtrListTransactionsRequest()
	if c.opts.has("duration-filter") {
		req.DurationFilterMillis = longerThan
	}
	if pattern := c.opts.value("transactional-id-pattern"); pattern != "" {
		req.TransactionalIDPattern = &pattern
	}
	rows := [][]string{{"TransactionalId", "Coordinator", "ProducerId", "TransactionState"}}
	for _, shard := range c.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return failed("Failed to list transactions", shard.Err)
		}
		resp := shard.Resp.(*kmsg.ListTransactionsResponse)
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return failed("Failed to list transactions", err)
		}
		for _, t := range resp.TransactionStates {
			rows = append(rows, []string{t.TransactionalID, fmt.Sprint(shard.Meta.NodeID), fmt.Sprint(t.ProducerID), t.TransactionState})
		}
	}
	c.tabs(rows)
	return nil
}

func (c *call) describeTransaction(ctx context.Context, id string) error {
	described, err := c.adm.DescribeTransactions(ctx, id)
	d, ok := described[id]
	err = cmp.Or(err, d.Err)
	if err == nil && !ok {
		err = kerr.TransactionalIDNotFound
	}
	if err != nil {
		return failed(fmt.Sprintf("Failed to describe transaction state of transactional-id `%s`", id), err)
	}
	began, duration := "None", "None"
	if d.StartTimestamp >= 0 {
		began, duration = fmt.Sprint(d.StartTimestamp), fmt.Sprint(c.env.Now().UnixMilli()-d.StartTimestamp)
	}
	var partitions []string
	for _, t := range d.Topics.Sorted() {
		for _, p := range t.Partitions {
			partitions = append(partitions, txnPartition{t.Topic, p}.String())
		}
	}
	c.tabs([][]string{
		{
			"CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs", "CurrentTransactionStartTimeMs",
			"TransactionDurationMs", "TopicPartitions",
		},
		{
			fmt.Sprint(d.Coordinator), id, fmt.Sprint(d.ProducerID), fmt.Sprint(d.ProducerEpoch), d.State, fmt.Sprint(d.TimeoutMillis), began, duration,
			strings.Join(partitions, ","),
		},
	})
	return nil
}

// producersOf asks the leaders, or one broker where its id is not below 0, which producers partitions know.
func (c *call) producersOf(ctx context.Context, wanted kadm.TopicsSet, broker int64) (map[txnPartition][]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, t := range wanted.Sorted() {
		topic := kmsg.NewDescribeProducersRequestTopic()
		topic.Topic, topic.Partitions = t.Topic, t.Partitions
		req.Topics = append(req.Topics, topic)
	}
	var answers []*kmsg.DescribeProducersResponse
	if broker >= 0 {
		resp, err := req.RequestWith(ctx, c.cl.Broker(int(broker)))
		if err != nil {
			return nil, err
		}
		answers = append(answers, resp)
	} else {
		for _, shard := range c.cl.RequestSharded(ctx, req) {
			if shard.Err != nil {
				return nil, shard.Err
			}
			answers = append(answers, shard.Resp.(*kmsg.DescribeProducersResponse))
		}
	}
	producers := map[txnPartition][]kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
	for _, resp := range answers {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := said(p.ErrorCode, p.ErrorMessage); err != nil {
					return nil, err
				}
				producers[txnPartition{t.Topic, p.Partition}] = p.ActiveProducers
			}
		}
	}
	return producers, nil
}

// only is the set of one partition.
func only(at txnPartition) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add(at.topic, at.partition)
	return set
}

func (c *call) describeProducers(ctx context.Context, at txnPartition, broker int64) error {
	producers, err := c.producersOf(ctx, only(at), broker)
	if err != nil {
		who := "leader"
		if broker >= 0 {
			who = fmt.Sprintf("broker %d", broker)
		}
		return failed(fmt.Sprintf("Failed to describe producers for partition %s on %s", at, who), err)
	}
	rows := [][]string{{"ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset"}}
	for _, p := range producers[at] {
		start := "None"
		if p.CurrentTxnStartOffset >= 0 {
			start = fmt.Sprint(p.CurrentTxnStartOffset)
		}
		rows = append(rows, []string{
			fmt.Sprint(p.ProducerID), fmt.Sprint(p.ProducerEpoch), fmt.Sprint(p.CoordinatorEpoch), fmt.Sprint(p.LastSequence), fmt.Sprint(p.LastTimestamp), start,
		})
	}
	c.tabs(rows)
	return nil
}

func (c *call) checkAbort() error {
	switch {
	case c.opts.has("start-offset"):
	case !c.opts.has("producer-id"):
		return errors.New("The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with " +
			"--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)")
	case !c.opts.has("producer-epoch"):
		return errors.New("Missing required argument --producer-epoch")
	case !c.opts.has("coordinator-epoch"):
		return errors.New("Missing required argument --coordinator-epoch")
	}
	return nil
}

// abortTransaction writes the marker of an abort to one partition. A coordinator epoch that is not known is 0, as that of the first one.
func (c *call) abortTransaction(ctx context.Context, at txnPartition, numbers map[string]int64) error {
	marker := kadm.TxnMarkers{
		ProducerID: numbers["producer-id"], ProducerEpoch: int16(numbers["producer-epoch"]), CoordinatorEpoch: int32(max(0, numbers["coordinator-epoch"])), Topics: only(at),
	}
	if c.opts.has("start-offset") {
		start := numbers["start-offset"]
		producers, err := c.producersOf(ctx, only(at), -1)
		if err != nil {
			return failed(fmt.Sprintf("Failed to validate producer state for partition %s", at), err)
		}
		i := slices.IndexFunc(producers[at], func(p kmsg.DescribeProducersResponseTopicPartitionActiveProducer) bool {
			return p.CurrentTxnStartOffset == start
		})
		if i < 0 || start < 0 {
			return fmt.Errorf("Could not find any open transactions starting at offset %d on partition %s", start, at)
		}
		p := producers[at][i]
		marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = p.ProducerID, int16(p.ProducerEpoch), max(0, p.CoordinatorEpoch)
	}
	answers, err := c.adm.WriteTxnMarkers(ctx, marker)
	if err == nil {
		answered, ok := answers[marker.ProducerID].Topics[at.topic].Partitions[at.partition]
		if err = answered.Err; !ok {
			err = errors.New("the broker does not answer to it")
		}
	}
	if err != nil {
		return failed(fmt.Sprintf("Failed to abort transaction of producer %d in %s", marker.ProducerID, at), err)
	}
	return nil
}

func (c *call) checkFindHanging() error {
	switch {
	case !c.opts.has("topic") && !c.opts.has("broker-id"):
		return errors.New("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
	case c.opts.has("partition") && !c.opts.has("topic"):
		return errors.New("The --partition argument requires --topic to be provided")
	}
	return nil
}

const (
	hangingMinutes   = 15 // a transaction is taken to hang that is open for longer, where nothing else is said
	partitionsAtOnce = 500
)

// findHanging prints the transactions that are open in a partition, and that no coordinator has there.
func (c *call) findHanging(ctx context.Context, at txnPartition, numbers map[string]int64) error {
	minutes := int64(hangingMinutes)
	if c.opts.has("max-transaction-timeout") {
		minutes = numbers["max-transaction-timeout"]
	}
	searched, err := c.searched(ctx, at, numbers["broker-id"])
	if err != nil {
		return err
	}
	type open struct {
		at txnPartition
		p  kmsg.DescribeProducersResponseTopicPartitionActiveProducer
	}
	var candidates []open
	var ids []int64
	for part := range slices.Chunk(searched, partitionsAtOnce) {
		wanted := kadm.TopicsSet{}
		for _, p := range part {
			wanted.Add(p.topic, p.partition)
		}
		producers, err := c.producersOf(ctx, wanted, numbers["broker-id"])
		if err != nil {
			return failed(fmt.Sprintf("Failed to describe producers for %d partitions", len(part)), err)
		}
		for _, at := range part {
			for _, p := range producers[at] {
				if p.CurrentTxnStartOffset >= 0 && c.env.Now().UnixMilli()-p.LastTimestamp > minutes*time.Minute.Milliseconds() {
					candidates, ids = append(candidates, open{at, p}), append(ids, p.ProducerID)
				}
			}
		}
	}
	owned, err := c.owned(ctx, ids)
	if err != nil {
		return err
	}
	rows := [][]string{{"Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp", "Duration(min)"}}
	for _, o := range candidates {
		if _, has := owned[o.p.ProducerID][o.at.topic][o.at.partition]; !has {
			rows = append(rows, []string{
				o.at.topic, fmt.Sprint(o.at.partition), fmt.Sprint(o.p.ProducerID), fmt.Sprint(o.p.ProducerEpoch), fmt.Sprint(o.p.CoordinatorEpoch), fmt.Sprint(o.p.CurrentTxnStartOffset),
				fmt.Sprint(o.p.LastTimestamp), fmt.Sprint((c.env.Now().UnixMilli() - o.p.LastTimestamp) / time.Minute.Milliseconds()),
			})
		}
	}
	c.tabs(rows)
	return nil
}

// searched are the partitions that find-hanging looks at: the one that is named, those of a topic, or those that a broker has.
func (c *call) searched(ctx context.Context, at txnPartition, broker int64) ([]txnPartition, error) {
	if c.opts.has("partition") {
		return []txnPartition{at}, nil
	}
	var names []string
	if at.topic != "" {
		names = []string{at.topic}
	}
	topics, err := c.adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, failed("Failed to list topics", err)
	}
	var found []txnPartition
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return nil, failed("Failed to describe 1 topics", t.Err)
		}
		for _, p := range t.Partitions.Sorted() {
			if broker < 0 || slices.Contains(p.Replicas, int32(broker)) {
				found = append(found, txnPartition{t.Topic, p.Partition})
			}
		}
	}
	return found, nil
}

// owned are the partitions that coordinators have in the transactions of producers, by producer id.
func (c *call) owned(ctx context.Context, producerIDs []int64) (map[int64]kadm.TopicsSet, error) {
	owned := map[int64]kadm.TopicsSet{}
	if len(producerIDs) == 0 {
		return owned, nil
	}
	listed, err := c.adm.ListTransactions(ctx, producerIDs, nil)
	if err != nil {
		return nil, failed(fmt.Sprintf("Failed to list transactions for %d producers", len(producerIDs)), err)
	}
	if len(listed) == 0 {
		return owned, nil
	}
	described, err := c.adm.DescribeTransactions(ctx, listed.TransactionalIDs()...)
	if err != nil {
		return nil, failed(fmt.Sprintf("Failed to describe %d transactions", len(listed)), err)
	}
	for _, d := range described {
		if d.Err == nil {
			owned[d.ProducerID] = d.Topics
		}
	}
	return owned, nil
}

const (
	fenceTimeoutMs = 30_000
	fencePause     = 100 * time.Millisecond
)

// forceTerminate takes a transactional id over, as a new producer of it does, which ends the transaction that it has open.
func (c *call) forceTerminate(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, fenceTimeoutMs
	for {
		resp, err := req.RequestWith(ctx, c.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return failed(fmt.Sprintf("Failed to force terminate transactionalId `%s`", id), err)
		}
		select {
		case <-ctx.Done():
			return failed(fmt.Sprintf("Failed to force terminate transactionalId `%s`", id), err)
		case <-time.After(fencePause):
		}
	}
}
