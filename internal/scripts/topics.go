package scripts

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicsScript() *script {
	return &script{
		instead:    "raftsman topic",
		actions:    []string{"list", "describe", "create", "alter", "delete"},
		lastAction: " or %s",
		options: common(slices.Concat(
			flags("list", "describe", "create", "alter", "delete", "exclude-internal", "if-exists", "if-not-exists", "topics-with-overrides",
				"under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions", "at-min-isr-partitions"),
			values("topic", "partitions", "replication-factor", "replica-assignment", "config"),
			refuses("`raftsman topic describe`", value, "topic-id", "partition-size-limit-per-response"),
			refuses("`raftsman config unset topic`", value, "delete-config"),
		)...),
		run: runTopics,
	}
}

// onlyWith are the options that go with some of the actions.
var onlyWith = []struct {
	option  string
	actions []string
}{
	{"partitions", []string{"create", "alter"}},
	{"replication-factor", []string{"create"}},
	{"replica-assignment", []string{"create", "alter"}},
	{"config", []string{"create"}},
	{"if-not-exists", []string{"create"}},
	{"if-exists", []string{"alter", "delete", "describe"}},
	{"topics-with-overrides", []string{"describe"}},
	{"under-replicated-partitions", []string{"describe"}},
	{"unavailable-partitions", []string{"describe"}},
	{"under-min-isr-partitions", []string{"describe"}},
	{"at-min-isr-partitions", []string{"describe"}},
	{"exclude-internal", []string{"list", "describe"}},
}

func runTopics(ctx context.Context, c *call) error {
	for _, rule := range onlyWith {
		for _, action := range c.script.actions {
			if c.opts.has(rule.option) && c.opts.has(action) && !slices.Contains(rule.actions, action) {
				return usagef(`Option "[%s]" can't be used with option "[%s]"`, rule.option, action)
			}
		}
	}
	if !c.opts.has("topic") && (c.opts.has("create") || c.opts.has("alter") || c.opts.has("delete")) {
		return usagef(`Missing required argument "[topic]"`)
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	var err error
	switch {
	case c.opts.has("create"):
		err = c.createTopic(ctx)
	case c.opts.has("list"):
		err = c.listTopics(ctx)
	case c.opts.has("describe"):
		err = c.describeTopics(ctx)
	case c.opts.has("alter"):
		err = c.alterTopics(ctx)
	default:
		err = c.deleteTopics(ctx)
	}
	var usage *usageError
	if err != nil && !errors.As(err, &usage) {
		c.print("Error while executing topic command : %s\n", sentence(err, saidBy(err)))
		return errTold
	}
	return err
}

// saidError is a code and what the broker said with it.
type saidError struct {
	code error
	text string
}

func (e *saidError) Error() string { return sentence(e.code, e.text) }
func (e *saidError) Unwrap() error { return e.code }

// said returns nil where the code is that of success.
func said(code int16, text *string) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return &saidError{err, deref(text)}
	}
	return nil
}

func saidBy(err error) string {
	var s *saidError
	if errors.As(err, &s) {
		return s.text
	}
	return ""
}

// number reads the value of an option that is a whole number, -1 if it was not given.
func (c *call) number(name string) (int64, error) {
	if !c.opts.has(name) {
		return -1, nil
	}
	n, err := strconv.ParseInt(c.opts.value(name), 10, 64)
	if err != nil {
		return 0, usagef("Cannot parse argument '%s' of option %s", c.opts.value(name), name)
	}
	return n, nil
}

func (c *call) createTopic(ctx context.Context) error {
	topic := c.opts.value("topic")
	partitions, err := c.number("partitions")
	if err != nil {
		return err
	}
	replicas, err := c.number("replication-factor")
	if err != nil {
		return err
	}
	configs, err := pairs(c.opts["config"])
	if err != nil {
		return err
	}
	if strings.ContainsAny(topic, "._") {
		c.print("WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both.\n")
	}
	if c.opts.has("partitions") && partitions < 1 {
		return errors.New("The partitions must be greater than 0")
	}
	if c.opts.has("replication-factor") && (replicas < 1 || replicas > 32767) {
		return errors.New("The replication factor must be between 1 and 32767 inclusive")
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), int16(replicas)
	for key, value := range configs {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = key, &value
		t.Configs = append(t.Configs, entry)
	}
	if c.opts.has("replica-assignment") {
		t.NumPartitions, t.ReplicationFactor = -1, -1
		assigned, err := readAssignment(c.opts.value("replica-assignment"))
		if err != nil {
			return err
		}
		for partition, brokers := range assigned {
			entry := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			entry.Partition, entry.Replicas = int32(partition), brokers
			t.ReplicaAssignment = append(t.ReplicaAssignment, entry)
		}
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if errors.Is(kerr.ErrorForCode(t.ErrorCode), kerr.TopicAlreadyExists) && c.opts.has("if-not-exists") {
			return nil
		}
		if err := said(t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	c.print("Created topic %s.\n", topic)
	return nil
}

// readAssignment reads broker ids: replicas with colons, partitions with commas.
func readAssignment(text string) ([][]int32, error) {
	var partitions [][]int32
	for part := range strings.SplitSeq(text, ",") {
		var brokers []int32
		for id := range strings.SplitSeq(part, ":") {
			n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%q is no list of brokers: it is 0:1,1:2, say", text)
			}
			brokers = append(brokers, int32(n))
		}
		partitions = append(partitions, brokers)
	}
	return partitions, nil
}

// pattern reads what scripts take as a list of topics: a Java regular expression, with commas for alternatives.
func pattern(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?:" + strings.ReplaceAll(strings.Trim(text, `"' `), ",", "|") + ")$")
	if err != nil {
		return nil, fmt.Errorf("%q is no regular expression here: %w", text, err)
	}
	return re, nil
}

// matching returns the topics that --topic means, in order, all without it. What must be there and is not is an error.
func (c *call) matching(ctx context.Context) ([]string, error) {
	topics, err := c.adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, err
	}
	re, err := pattern(".*")
	if c.opts.has("topic") {
		re, err = pattern(c.opts.value("topic"))
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range topics.Sorted() {
		if re.MatchString(t.Topic) && !(t.IsInternal && c.opts.has("exclude-internal")) {
			names = append(names, t.Topic)
		}
	}
	if len(names) == 0 && c.opts.has("topic") && !c.opts.has("if-exists") && !c.opts.has("list") {
		return nil, fmt.Errorf("Topic '%s' does not exist as expected", c.opts.value("topic"))
	}
	return names, nil
}

func (c *call) listTopics(ctx context.Context) error {
	names, err := c.matching(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		c.print("%s\n", name)
	}
	return nil
}

func (c *call) alterTopics(ctx context.Context) error {
	names, err := c.matching(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	partitions, err := c.number("partitions")
	if err != nil {
		return err
	}
	if partitions < 1 {
		return usagef(`Missing required argument "[partitions]"`)
	}
	if c.opts.has("replica-assignment") {
		return errors.New("--replica-assignment is not served with --alter: use `raftsman topic grow`")
	}
	results, err := c.adm.UpdatePartitions(ctx, int(partitions), names...)
	if err != nil {
		return err
	}
	for _, r := range results.Sorted() {
		if r.Err != nil {
			return &saidError{r.Err, r.ErrMessage}
		}
	}
	return nil
}

func (c *call) deleteTopics(ctx context.Context) error {
	names, err := c.matching(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	results, err := c.adm.DeleteTopics(ctx, names...)
	if err != nil {
		return err
	}
	for _, r := range results.Sorted() {
		if r.Err != nil {
			return &saidError{r.Err, r.ErrMessage}
		}
	}
	return nil
}

func (c *call) describeTopics(ctx context.Context) error {
	names, err := c.matching(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	topics, err := c.partitionsOf(ctx, names)
	if err != nil {
		return err
	}
	configs, err := c.configsOf(ctx, names)
	if err != nil {
		return err
	}
	only := "" // partitions of which kind
	for _, kind := range []string{"under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions", "at-min-isr-partitions"} {
		if c.opts.has(kind) {
			only = kind
		}
	}
	overrides := c.opts.has("topics-with-overrides")
	for _, t := range topics {
		own, least := configs[t.name], 1
		if n, err := strconv.Atoi(own.minISR); err == nil {
			least = n
		}
		if only == "" && (!overrides || own.text != "") {
			replicas := 0
			if len(t.partitions) > 0 {
				replicas = len(t.partitions[0].replicas)
			}
			c.print("Topic: %s\tTopicId: %s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n", t.name, t.id, len(t.partitions), replicas, own.text)
		}
		for _, p := range t.partitions {
			if !overrides && p.is(only, least) {
				c.print("\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s\tElr: %s\tLastKnownElr: %s\n", t.name, p.number, p.leaderText(),
					join(p.replicas), join(p.isr), join(p.elr), join(p.lastKnownELR))
			}
		}
	}
	return nil
}

// describedTopic is a topic as kafka-topics shows it.
type describedTopic struct {
	name, id   string
	partitions []describedPartition
}

type describedPartition struct {
	number, leader    int32
	replicas, isr     []int32
	elr, lastKnownELR []int32
}

func (p *describedPartition) leaderText() string {
	if p.leader < 0 {
		return "none"
	}
	return fmt.Sprint(p.leader)
}

// is tells whether a partition is of a kind that an option names.
func (p *describedPartition) is(kind string, minISR int) bool {
	switch kind {
	case "under-replicated-partitions":
		return len(p.isr) < len(p.replicas)
	case "unavailable-partitions":
		return p.leader < 0
	case "under-min-isr-partitions":
		return len(p.isr) < minISR
	case "at-min-isr-partitions":
		return len(p.isr) == minISR
	}
	return true
}

func join(ids []int32) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, fmt.Sprint(id))
	}
	return strings.Join(texts, ",")
}

// partitionsOf asks for topics, page by page.
func (c *call) partitionsOf(ctx context.Context, names []string) ([]describedTopic, error) {
	var topics []describedTopic
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range names {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	for {
		resp, err := req.RequestWith(ctx, c.cl)
		if err != nil {
			return nil, err
		}
		for _, t := range resp.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return nil, err
			}
			name := deref(t.Topic)
			if len(topics) == 0 || topics[len(topics)-1].name != name {
				topics = append(topics, describedTopic{name: name, id: base64.RawURLEncoding.EncodeToString(t.TopicID[:])})
			}
			last := &topics[len(topics)-1]
			for _, p := range t.Partitions {
				last.partitions = append(last.partitions, describedPartition{p.Partition, p.LeaderID, p.Replicas, p.ISR, p.EligibleLeaderReplicas, p.LastKnownELR})
			}
		}
		if resp.NextCursor == nil {
			return topics, nil
		}
		from := slices.Index(names, resp.NextCursor.Topic)
		if from < 0 {
			return nil, fmt.Errorf("the broker goes on with topic %s, which nobody asked for", resp.NextCursor.Topic)
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &cursor
	}
}

// topicConfigs is what a topic has set, or gets from more than the default.
type topicConfigs struct{ text, minISR string }

func (c *call) configsOf(ctx context.Context, names []string) (map[string]topicConfigs, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	configs := map[string]topicConfigs{}
	for _, r := range resp.Resources {
		var own topicConfigs
		var set []string
		for _, entry := range r.Configs {
			if entry.Name == "min.insync.replicas" {
				own.minISR = deref(entry.Value)
			}
			if entry.Source != kmsg.ConfigSourceDefaultConfig {
				set = append(set, entry.Name+"="+deref(entry.Value))
			}
		}
		own.text = strings.Join(set, ",")
		configs[r.ResourceName] = own
	}
	return configs, nil
}

// endOf returns the offsets that a listing found, -1 for a partition that it has not.
func endOf(listed kadm.ListedOffsets, topic string, partition int32) int64 {
	o, ok := listed.Lookup(topic, partition)
	if !ok || o.Err != nil {
		return -1
	}
	return o.Offset
}
