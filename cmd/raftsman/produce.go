package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceOptions is the command line of `produce`.
type produceOptions struct {
	topic      string
	values     []string // records given as arguments
	file       string
	separator  string
	key        string
	hasKey     bool
	headers    []string
	null       string
	hasNull    bool
	json       bool
	whole      bool
	partition  int32
	acks       string
	codec      string
	idempotent bool
	batchBytes int32
}

const (
	batchBytesDefault = 1 << 20
	// A topic that the brokers create on first use is unknown for a while: about three seconds of asking again.
	unknownTopicRetries = 12
	drainPatience       = 10 * time.Second // after an interrupt, for what was already given
)

func produceCommand(a *app) *cobra.Command {
	o := produceOptions{partition: -1}
	c := &cobra.Command{
		Use:   "produce TOPIC [VALUE...]",
		Short: "Write records from arguments, standard input or a file",
		Long: `Write records: each VALUE, or each line of the file or of standard input, is one. The number of records that the
brokers acknowledged is told at the end; exit code 0 means all of them were.`,
		Example: `  raftsman produce orders 'hello'
  raftsman produce orders -K : < lines-of-key-colon-value
  raftsman produce orders --key eu -H trace=42 -f event.json --whole
  raftsman consume orders -e -o json | raftsman produce copy --json`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			o.topic, o.values = args[0], args[1:]
			o.hasKey, o.hasNull = c.Flags().Changed("key"), c.Flags().Changed("null")
			if err := o.check(c.Flags().Changed("idempotent")); err != nil {
				return err
			}
			return a.produce(c.Context(), o)
		},
		ValidArgsFunction: a.completeTopics,
	}
	f := c.Flags()
	f.StringVarP(&o.file, "file", "f", "", "read records from this file")
	f.StringVarP(&o.separator, "key-separator", "K", "", `lines are key, separator, value (\t is a tab)`)
	f.StringVarP(&o.key, "key", "k", "", "key of every record")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a header of every record, key=value (repeat)")
	f.StringVar(&o.null, "null", "", "a value that is exactly this text becomes null: a tombstone for compaction")
	f.BoolVar(&o.json, "json", false, "lines are what `raftsman consume -o json` prints; key, value, headers and time are taken")
	f.BoolVar(&o.whole, "whole", false, "all input is one record, line breaks included")
	f.Int32VarP(&o.partition, "partition", "p", -1, "partition of every record; -1 lets the key decide")
	f.StringVar(&o.acks, "acks", "all", "who acknowledges: all (replicas in sync), 1 (the leader) or 0 (nobody)")
	f.StringVarP(&o.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	f.BoolVar(&o.idempotent, "idempotent", true, "no duplicates and no reordering by retries; needs --acks all")
	f.Int32Var(&o.batchBytes, "batch-bytes", batchBytesDefault, "largest batch, and so largest record, in bytes")
	completeFlag(c, "acks", "all", "1", "0")
	completeFlag(c, "compression", "none", "gzip", "snappy", "lz4", "zstd")
	return c
}

// check refuses what cannot be, and settles what follows from other flags.
func (o *produceOptions) check(idempotentGiven bool) error {
	switch {
	case len(o.values) > 0 && o.file != "":
		return usagef("values are given both as arguments and by -f: choose one")
	case o.json && (o.separator != "" || o.whole || len(o.values) > 0):
		return usagef("--json reads lines of JSON: it does not go with -K, --whole or values as arguments")
	case o.separator != "" && o.hasKey:
		return usagef("-K takes the key from each line, --key gives one to all: choose one")
	case o.whole && (o.separator != "" || len(o.values) > 0):
		return usagef("--whole makes all input one value: it does not go with -K or values as arguments")
	case o.partition < -1:
		return usagef("-p %d is no partition", o.partition)
	case o.batchBytes < 1<<10:
		return usagef("--batch-bytes %d is too small: give 1024 or more", o.batchBytes)
	}
	switch o.acks {
	case "all", "-1":
		o.acks = "all"
	case "0", "1":
		if o.idempotent && idempotentGiven {
			return usagef("--idempotent needs --acks all")
		}
		o.idempotent = false
	default:
		return usagef("--acks %s is unknown: it is all, 1 or 0", o.acks)
	}
	if _, ok := o.compression(); !ok {
		return usagef("-z %s is unknown: it is none, gzip, snappy, lz4 or zstd", o.codec)
	}
	o.separator = unescapeSeparator(o.separator)
	return nil
}

func unescapeSeparator(s string) string {
	return strings.NewReplacer(`\t`, "\t", `\0`, "\x00", `\\`, `\`).Replace(s)
}

func (o *produceOptions) compression() (kgo.CompressionCodec, bool) {
	switch o.codec {
	case "none":
		return kgo.NoCompression(), true
	case "gzip":
		return kgo.GzipCompression(), true
	case "snappy":
		return kgo.SnappyCompression(), true
	case "lz4":
		return kgo.Lz4Compression(), true
	case "zstd":
		return kgo.ZstdCompression(), true
	}
	return kgo.CompressionCodec{}, false
}

func (o *produceOptions) clientOptions(patience time.Duration) []kgo.Opt {
	codec, _ := o.compression()
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(o.topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytes(o.batchBytes), kgo.BrokerMaxWriteBytes(max(100<<20, 2*o.batchBytes)),
		kgo.ProduceRequestTimeout(min(patience, 10*time.Second)), kgo.UnknownTopicRetries(unknownTopicRetries),
	}
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	switch o.acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if !o.idempotent {
		return append(opts, kgo.DisableIdempotentWrite())
	}
	// A record that got no answer in time is reported as not acknowledged; nothing sends it again.
	return append(opts, kgo.AllowIdempotentProduceCancellation())
}

func (a *app) produce(ctx context.Context, o produceOptions) error {
	source, err := a.openRecords(o)
	if err != nil {
		return err
	}
	defer source.close()
	cl, err := a.connect(ctx, o.clientOptions(a.timeout)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	exists, err := a.findTarget(ctx, cl, o)
	if err != nil {
		return err
	}
	if source.typed {
		a.note("%s", a.paintErr().dim("each line you type is a record; Ctrl-D ends"))
	}

	run := newProduceRun(o, a.timeout, a.now)
	if !exists {
		run.prepare = func(ctx context.Context) error { return a.createTarget(ctx, cl, o) }
	}
	var shown *progress
	if !source.typed {
		shown = a.startProgress(run.progress)
		defer shown.stop()
	}
	err = run.feed(ctx, cl, source)
	if shown != nil {
		shown.stop()
	}
	if reportErr := a.writeProduced(run.report()); reportErr != nil && err == nil {
		err = reportErr
	}
	return err
}

// findTarget tells whether the topic exists; an error is that it does not have the partition.
func (a *app) findTarget(ctx context.Context, cl *kgo.Client, o produceOptions) (exists bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	topics, err := kadm.NewClient(cl).ListTopicsWithInternal(ctx, o.topic)
	if err != nil {
		return false, err
	}
	topic, told := topics[o.topic]
	if !told || errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
		return false, nil
	}
	return true, o.checkPartition(topic)
}

func (o *produceOptions) checkPartition(topic kadm.TopicDetail) error {
	if topic.Err == nil && int(o.partition) >= len(topic.Partitions) {
		return fmt.Errorf("%s has no partition %d: it has 0 to %d, `raftsman topic grow` adds more", o.topic, o.partition, len(topic.Partitions)-1)
	}
	return nil
}

// createTarget has the brokers create the topic, if they do so on first use, and says that they did: its name may be mistyped.
func (a *app) createTarget(ctx context.Context, cl *kgo.Client, o produceOptions) error {
	ctx, cancel := context.WithTimeout(ctx, min(a.timeout, settlePatience))
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = true
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(o.topic)
	req.Topics = append(req.Topics, asked)
	if _, err := req.RequestWith(ctx, cl); err != nil {
		return err
	}
	settle(ctx, cl, []string{o.topic}, led)
	topics, err := kadm.NewClient(cl).ListTopicsWithInternal(ctx, o.topic)
	topic, told := topics[o.topic]
	switch {
	case err == nil && !told, errors.Is(topic.Err, kerr.UnknownTopicOrPartition), errors.Is(err, context.DeadlineExceeded):
		return unknownTopic(o.topic, kerr.UnknownTopicOrPartition)
	case err != nil:
		return err
	case topic.Err != nil:
		return nil // the client says why
	}
	a.note("created topic %s with %s", o.topic, plural(int64(len(topic.Partitions)), "partition"))
	return o.checkPartition(topic)
}

// produceRun counts what became of the records of one command.
type produceRun struct {
	o        produceOptions
	patience time.Duration // for an acknowledgement, since the one before
	now      func() time.Time
	start    time.Time
	prepare  func(context.Context) error // before the first record; nil: nothing is to be prepared

	mu         sync.Mutex // guards what follows: the client acknowledges from its own goroutines
	given      int64
	acked      int64
	bytes      int64 // of the acknowledged
	partitions map[int32]*producedPartition
	waiting    int64 // records given, but neither acknowledged nor failed
	failure    error // the first
	failed     func()
	watchdog   *time.Timer
}

// errNoAnswer is that the brokers acknowledged nothing for as long as --timeout says.
var errNoAnswer = errors.New("no acknowledgement in time")

func newProduceRun(o produceOptions, patience time.Duration, now func() time.Time) *produceRun {
	return &produceRun{o: o, patience: patience, now: now, start: now(), partitions: map[int32]*producedPartition{}}
}

// feed gives the client all records and waits for their acknowledgements. It stops reading at the first failure and at an
// interrupt; what was given until then is still waited for.
func (r *produceRun) feed(ctx context.Context, cl *kgo.Client, source *recordSource) error {
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	r.failed = stopReading
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainPatience, stopSending) })()
	// The client's own time limit counts from a record's timestamp, which may be any.
	r.watchdog = time.AfterFunc(r.patience, func() { r.giveUp(stopSending) })
	defer r.watchdog.Stop()

	readErr := r.read(reading, sending, cl, source)
	flushErr := cl.Flush(sending)

	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failure != nil:
		return r.describe(r.failure)
	case !errors.Is(readErr, io.EOF) && reading.Err() == nil: // who ended it says why
		return readErr
	case flushErr != nil:
		return flushErr
	}
	if source.typed {
		return nil // an interrupt is one way to end typing
	}
	return ctx.Err()
}

func (r *produceRun) read(reading, sending context.Context, cl *kgo.Client, source *recordSource) error {
	for {
		record, err := source.next(reading)
		if err != nil {
			return err
		}
		if r.prepare != nil {
			if err := r.prepare(reading); err != nil {
				return err
			}
			r.prepare = nil
		}
		record.Partition = max(0, r.o.partition)
		r.give()
		cl.Produce(sending, record, r.done)
	}
}

func (r *produceRun) give() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 {
		r.watchdog.Reset(r.patience)
	}
	r.given++
	r.waiting++
}

func (r *produceRun) giveUp(stopSending func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 {
		return // a person thinks about the next line
	}
	if r.failure == nil {
		r.failure = errNoAnswer
	}
	r.failed()
	stopSending()
}

func (r *produceRun) done(record *kgo.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
	if err != nil {
		if r.failure == nil {
			r.failure = err
			r.failed()
		}
		return
	}
	r.watchdog.Reset(r.patience)
	r.acked++
	r.bytes += int64(len(record.Key) + len(record.Value))
	p := r.partitions[record.Partition]
	if p == nil {
		p = &producedPartition{Partition: record.Partition, FirstOffset: record.Offset}
		r.partitions[record.Partition] = p
	}
	p.Records++
	p.LastOffset = record.Offset
}

// describe says what a failure means for the person who sent the records.
func (r *produceRun) describe(err error) error {
	what := "produce to " + r.o.topic
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return unknownTopic(r.o.topic, err)
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("%s: no acknowledgement in time: `raftsman topic describe %s` shows whether its partitions have leaders, --timeout waits longer", what, r.o.topic)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%s: a record is larger than is allowed: raise --batch-bytes (%s) here or max.message.bytes of the topic", what, formatBytes(int64(r.o.batchBytes)))
	}
	return refused(what, err, "")
}

func (r *produceRun) progress(elapsed time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rateLine("acknowledged", r.acked, r.bytes, elapsed)
}

// rateLine is the line that long work shows.
func rateLine(verb string, records, bytes int64, elapsed time.Duration) string {
	seconds := max(elapsed.Seconds(), 0.001)
	return fmt.Sprintf("%s %s, %s, %s records/s, %s/s", plural(records, "record"), verb, formatBytes(bytes),
		formatCount(int64(float64(records)/seconds)), formatBytes(int64(float64(bytes)/seconds)))
}

// produceReport is what `produce` tells at the end.
type produceReport struct {
	Topic        string              `json:"topic"`
	Records      int64               `json:"records"`      // that were read
	Acknowledged int64               `json:"acknowledged"` // with --acks 0: that were sent
	Bytes        int64               `json:"bytes"`
	Seconds      float64             `json:"seconds"`
	Acks         string              `json:"acks"`
	Partitions   []producedPartition `json:"partitions"`
}

type producedPartition struct {
	Partition   int32 `json:"partition"`
	Records     int64 `json:"records"`
	FirstOffset int64 `json:"firstOffset"` // -1 with --acks 0, as nobody told
	LastOffset  int64 `json:"lastOffset"`
}

func (r *produceRun) report() produceReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := produceReport{
		Topic: r.o.topic, Records: r.given, Acknowledged: r.acked, Bytes: r.bytes, Seconds: r.now().Sub(r.start).Seconds(),
		Acks: r.o.acks, Partitions: []producedPartition{},
	}
	for _, partition := range sortedKeys(r.partitions) {
		p := *r.partitions[partition]
		if r.o.acks == "0" {
			p.FirstOffset, p.LastOffset = unknown, unknown
		}
		report.Partitions = append(report.Partitions, p)
	}
	return report
}

func (a *app) writeProduced(report produceReport) error {
	if a.json() {
		return a.writeJSON(report)
	}
	_, err := fmt.Fprintln(a.out, report.String())
	return err
}

const (
	namedPartitions = 8    // more are only counted
	rateRecordsMin  = 1000 // the rate of fewer says nothing
)

func (r produceReport) String() string {
	done := fmt.Sprintf("%s acknowledged", plural(r.Acknowledged, "record"))
	if r.Acks == "0" {
		done = fmt.Sprintf("%s sent, nobody acknowledges with --acks 0", plural(r.Acknowledged, "record"))
	} else if r.Acknowledged < r.Records {
		done = fmt.Sprintf("%s of %s acknowledged", formatCount(r.Acknowledged), plural(r.Records, "record"))
	}
	if r.Acknowledged == 0 {
		return done
	}
	if r.Acknowledged == 1 && r.Acks != "0" {
		return fmt.Sprintf("%s: %s partition %d, offset %d", done, r.Topic, r.Partitions[0].Partition, r.Partitions[0].FirstOffset)
	}
	elapsed := time.Duration(r.Seconds * float64(time.Second))
	done += fmt.Sprintf(", %s in %s", formatBytes(r.Bytes), formatSpan(elapsed))
	if elapsed >= time.Second && r.Acknowledged >= rateRecordsMin {
		done += fmt.Sprintf(" (%s records/s, %s/s)", formatCount(int64(float64(r.Acknowledged)/r.Seconds)), formatBytes(int64(float64(r.Bytes)/r.Seconds)))
	}
	if len(r.Partitions) > namedPartitions {
		return fmt.Sprintf("%s, in %d partitions", done, len(r.Partitions))
	}
	var parts []string
	for _, p := range r.Partitions {
		parts = append(parts, fmt.Sprintf("%d: %s", p.Partition, formatCount(p.Records)))
	}
	return fmt.Sprintf("%s; by partition %s", done, strings.Join(parts, ", "))
}

// openInput returns what -f names, or standard input.
func (a *app) openInput(file string) (io.ReadCloser, error) {
	if file == "" || file == "-" {
		return io.NopCloser(a.in), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	return f, nil
}
