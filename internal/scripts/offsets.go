package scripts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// numbers reads partitions: 0,1,5.
func numbers(text string) ([]int32, error) {
	var found []int32
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no partition", part)
		}
		found = append(found, int32(n))
	}
	return found, nil
}

// offsetsAt asks for the offsets of a time, in milliseconds, or of one of the special ones: -1 is the end, -2 the start, and so on. A
// partition without such an offset has -1.
func offsetsAt(ctx context.Context, cl *kgo.Client, wanted kadm.TopicsSet, millis int64) (kadm.ListedOffsets, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	for _, t := range wanted.Sorted() {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewListOffsetsRequestTopicPartition()
			partition.Partition, partition.Timestamp = p, millis
			topic.Partitions = append(topic.Partitions, partition)
		}
		req.Topics = append(req.Topics, topic)
	}
	listed := kadm.ListedOffsets{}
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if listed[t.Topic] == nil {
					listed[t.Topic] = map[int32]kadm.ListedOffset{}
				}
				listed[t.Topic][p.Partition] = kadm.ListedOffset{Topic: t.Topic, Partition: p.Partition, Offset: p.Offset, Err: kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return listed, nil
}

func offsetsScript() *script {
	return &script{
		instead: "raftsman topic describe",
		options: common(slices.Concat(flags("exclude-internal-topics"), values("topic", "partitions", "topic-partitions", "time"))...),
		run:     runOffsets,
	}
}

// specialTimes are the names of what is no time.
var specialTimes = map[string]int64{"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5, "earliest-pending-upload": -6}

func runOffsets(ctx context.Context, c *call) error {
	err := c.getOffsets(ctx)
	var usage *usageError
	if err != nil && !errors.As(err, &usage) {
		c.say("Error occurred: %s", sentence(err, saidBy(err)))
		return errTold
	}
	return err
}

func (c *call) getOffsets(ctx context.Context) error {
	millis := int64(-1)
	if text := c.opts.value("time"); text != "" {
		var named bool
		if millis, named = specialTimes[text]; !named {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("Malformed time argument %s. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a specified long format timestamp", text)
			}
			millis = n
		}
	}
	if c.opts.has("topic-partitions") && (c.opts.has("topic") || c.opts.has("partitions")) {
		return errors.New("--topic-partitions cannot be used with --topic or --partitions")
	}
	matches, err := c.partitionFilter()
	if err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	topics, err := c.adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	wanted := kadm.TopicsSet{}
	for _, t := range topics.Sorted() {
		if t.IsInternal && c.opts.has("exclude-internal-topics") {
			continue
		}
		for _, p := range t.Partitions.Sorted() {
			if matches(t.Topic, p.Partition) {
				wanted.Add(t.Topic, p.Partition)
			}
		}
	}
	if len(wanted) == 0 {
		return errors.New("Could not match any topic-partitions with the specified filters")
	}
	listed, err := offsetsAt(ctx, c.cl, wanted, millis)
	if err != nil {
		return err
	}
	for _, t := range wanted.Sorted() {
		slices.SortFunc(t.Partitions, func(x, y int32) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		for _, p := range t.Partitions {
			switch o := listed[t.Topic][p]; {
			case o.Err != nil:
				c.say("Skip getting offsets for topic-partition %s-%d due to error: %s", t.Topic, p, sentence(o.Err, ""))
			case o.Offset >= 0:
				c.print("%s:%d:%d\n", t.Topic, p, o.Offset)
			}
		}
	}
	return nil
}

// partitionFilter reads --topic and --partitions, or --topic-partitions: topic:0, topic:1-3 (without 3), topic:5-, topic:-3, :2.
func (c *call) partitionFilter() (func(string, int32) bool, error) {
	if c.opts.has("topic-partitions") {
		var any []func(string, int32) bool
		for rule := range strings.SplitSeq(c.opts.value("topic-partitions"), ",") {
			one, err := readRule(rule)
			if err != nil {
				return nil, err
			}
			any = append(any, one)
		}
		return func(topic string, p int32) bool {
			return slices.ContainsFunc(any, func(matches func(string, int32) bool) bool { return matches(topic, p) })
		}, nil
	}
	text := ".*"
	if c.opts.has("topic") {
		text = c.opts.value("topic")
	}
	re, err := pattern(text)
	if err != nil {
		return nil, err
	}
	var only []int32
	if c.opts.has("partitions") {
		if only, err = numbers(c.opts.value("partitions")); err != nil {
			return nil, err
		}
	}
	return func(topic string, p int32) bool {
		return re.MatchString(topic) && (len(only) == 0 || slices.Contains(only, p))
	}, nil
}

func readRule(rule string) (func(string, int32) bool, error) {
	topic, span, some := strings.Cut(strings.TrimSpace(rule), ":")
	if topic == "" {
		topic = ".*"
	}
	re, err := pattern(topic)
	if err != nil {
		return nil, err
	}
	if !some || span == "" {
		return func(topic string, _ int32) bool { return re.MatchString(topic) }, nil
	}
	low, high, isRange := strings.Cut(span, "-")
	from, to := int64(0), int64(1)<<31
	if low != "" {
		from, err = strconv.ParseInt(low, 10, 32)
	}
	switch {
	case err == nil && !isRange:
		to = from + 1
	case err == nil && high != "":
		to, err = strconv.ParseInt(high, 10, 32)
	}
	if err != nil {
		return nil, fmt.Errorf("Invalid rule specification: %s", rule)
	}
	return func(topic string, p int32) bool { return re.MatchString(topic) && int64(p) >= from && int64(p) < to }, nil
}

func deleteRecordsScript() *script {
	return &script{instead: "raftsman topic", options: common(values("offset-json-file")...), run: runDeleteRecords}
}

func runDeleteRecords(ctx context.Context, c *call) error {
	file := c.opts.value("offset-json-file")
	if file == "" {
		return usagef(`Missing required argument "[offset-json-file]"`)
	}
	text, err := readFile(file)
	if err != nil {
		return err
	}
	var content struct {
		Version    int `json:"version"`
		Partitions []struct {
			Topic     string `json:"topic"`
			Partition int32  `json:"partition"`
			Offset    int64  `json:"offset"`
		} `json:"partitions"`
	}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	offsets := kadm.Offsets{}
	for _, p := range content.Partitions {
		if _, twice := offsets.Lookup(p.Topic, p.Partition); twice {
			c.say("Offset json file contains duplicate topic partitions: %s-%d", p.Topic, p.Partition)
			return errTold
		}
		offsets.AddOffset(p.Topic, p.Partition, p.Offset, -1)
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	c.print("Executing records delete operation\n")
	results, err := c.adm.DeleteRecords(ctx, offsets)
	if len(results) == 0 && err != nil {
		return err
	}
	c.print("Records delete operation completed:\n")
	for _, p := range content.Partitions {
		r, ok := results.Lookup(p.Topic, p.Partition)
		if !ok {
			r.Err = kerr.UnknownTopicOrPartition
		}
		if r.Err != nil {
			c.print("partition: %s-%d\terror: %s\n", p.Topic, p.Partition, exception(r.Err, ""))
			continue
		}
		c.print("partition: %s-%d\tlow_watermark: %d\n", p.Topic, p.Partition, r.LowWatermark)
	}
	return nil
}
