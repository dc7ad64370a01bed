package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicCommand(a *app) *cobra.Command {
	return family("topic", "List, create, describe, grow, move and delete topics",
		topicListCommand(a), topicCreateCommand(a), topicDescribeCommand(a), topicGrowCommand(a), topicReassignCommand(a), topicDeleteCommand(a))
}

// topicSummary is one line of `topic list`. Records and Bytes are -1 when no broker could tell.
type topicSummary struct {
	Topic             string `json:"topic"`
	ID                string `json:"id"`
	Internal          bool   `json:"internal,omitempty"`
	Partitions        int    `json:"partitions"`
	ReplicationFactor int    `json:"replicationFactor"`
	Records           int64  `json:"records"`
	Bytes             int64  `json:"bytes"`
	UnderReplicated   int    `json:"underReplicated"`
	Offline           int    `json:"offline"`
}

func topicListCommand(a *app) *cobra.Command {
	var all, names bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List topics with their partitions, records and sizes",
		Args:    wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				details, err := adm.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				if !all {
					details.FilterInternal()
				}
				if names {
					return a.writeNames(details.Names())
				}
				views, err := viewTopics(ctx, adm, details)
				if err != nil {
					return err
				}
				summaries := make([]topicSummary, 0, len(views))
				for _, v := range views {
					summaries = append(summaries, v.summary())
				}
				return a.writeTopics(summaries)
			})
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "internal topics too")
	c.Flags().BoolVarP(&names, "names", "q", false, "names only, one a line")
	return c
}

func (a *app) writeNames(names []string) error {
	slices.Sort(names)
	if a.json() {
		return a.writeJSON(append([]string{}, names...))
	}
	_, err := fmt.Fprint(a.out, strings.Join(append(names, ""), "\n"))
	return err
}

func (a *app) writeTopics(topics []topicSummary) error {
	if a.json() {
		return a.writeJSON(topics)
	}
	if len(topics) == 0 {
		a.note("there are no topics yet: `raftsman topic create NAME` makes one")
		return nil
	}
	t := newTable(column{title: "TOPIC", flexible: true}, column{title: "PARTITIONS", right: true},
		column{title: "REPLICAS", right: true}, column{title: "RECORDS", right: true}, column{title: "SIZE", right: true}, column{})
	for _, s := range topics {
		state := plain("")
		switch {
		case s.Offline > 0:
			state = alarm(fmt.Sprintf("%d offline", s.Offline))
		case s.UnderReplicated > 0:
			state = caution(fmt.Sprintf("%d under-replicated", s.UnderReplicated))
		}
		t.add(plain(s.Topic), number(int32(s.Partitions)), number(int32(s.ReplicationFactor)), known(s.Records), plain(formatBytes(s.Bytes)), state)
	}
	return t.write(a.out, a.paint(), a.width())
}

// known shows a number, or - for -1.
func known(n int64) cell { return when(n < 0, faint("-"), count(n)) }

func topicCreateCommand(a *app) *cobra.Command {
	var (
		partitions  int32
		replicas    int16
		configs     []string
		ifNotExists bool
		dryRun      bool
	)
	c := &cobra.Command{
		Use:     "create TOPIC...",
		Short:   "Create topics",
		Example: "  raftsman topic create orders -p 6 -r 3 -c retention.ms=86400000 -c cleanup.policy=compact",
		Args:    wants(1, -1),
		RunE: func(c *cobra.Command, topics []string) error {
			values, err := parsePairs(configs, "-c")
			if err != nil {
				return err
			}
			if partitions == 0 || partitions < -1 {
				return usagef("-p %d cannot be: give 1 or more, or leave it to the broker", partitions)
			}
			if replicas == 0 || replicas < -1 {
				return usagef("-r %d cannot be: give 1 or more, or leave it to the broker", replicas)
			}
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				create := adm.CreateTopics
				if dryRun {
					create = adm.ValidateCreateTopics
				}
				results, err := create(ctx, partitions, replicas, values, topics...)
				if err != nil {
					return err
				}
				if !dryRun {
					awaitTopics(ctx, cl, results)
				}
				return a.writeCreated(results.Sorted(), ifNotExists, dryRun)
			})
		},
	}
	c.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's num.partitions")
	c.Flags().Int16VarP(&replicas, "replication-factor", "r", -1, "copies of each partition; -1 is the broker's default.replication.factor")
	c.Flags().StringArrayVarP(&configs, "config", "c", nil, "a setting of the topic, key=value (repeat)")
	c.Flags().BoolVar(&ifNotExists, "if-not-exists", false, "a topic that exists is left as it is, and is no error")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check only, create nothing")
	return c
}

// createdTopic is what `topic create` tells about one topic.
type createdTopic struct {
	Topic             string `json:"topic"`
	ID                string `json:"id,omitempty"`
	Partitions        int32  `json:"partitions,omitempty"`
	ReplicationFactor int16  `json:"replicationFactor,omitempty"`
	Existed           bool   `json:"existed,omitempty"`
	Error             string `json:"error,omitempty"`
}

func (a *app) writeCreated(results []kadm.CreateTopicResponse, ifNotExists, dryRun bool) error {
	done := "created"
	if dryRun {
		done = "would create"
	}
	var failed failures
	report := []createdTopic{}
	for _, r := range results {
		created := createdTopic{Topic: r.Topic, Partitions: r.NumPartitions, ReplicationFactor: r.ReplicationFactor}
		if !dryRun {
			created.ID = topicID(r.ID)
		}
		line := fmt.Sprintf("%s %s: %s, replication factor %d\n", done, r.Topic, plural(int64(r.NumPartitions), "partition"), r.ReplicationFactor)
		switch {
		case ifNotExists && errors.Is(r.Err, kerr.TopicAlreadyExists):
			created = createdTopic{Topic: r.Topic, Existed: true}
			line = r.Topic + " exists\n"
		case r.Err != nil:
			err := refused("create topic "+r.Topic, r.Err, r.ErrMessage)
			failed = append(failed, err)
			created = createdTopic{Topic: r.Topic, Error: err.Error()}
			line = ""
		}
		report = append(report, created)
		if !a.json() {
			fmt.Fprint(a.out, line)
		}
	}
	if a.json() {
		if err := a.writeJSON(report); err != nil {
			return err
		}
	}
	return failed.join()
}

func topicGrowCommand(a *app) *cobra.Command {
	var partitions int32
	c := &cobra.Command{
		Use:   "grow TOPIC -p TOTAL",
		Short: "Give a topic more partitions",
		Long: `Give a topic more partitions. There is no way back, and records with the same key go to another partition
from then on: consumers that rely on the order per key see old and new ones in different partitions.`,
		Args: wants(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if partitions < 1 && c.Flags().Changed("partitions") {
				return usagef("-p %d cannot be: give how many partitions %s has to have in all", partitions, args[0])
			}
			if partitions < 1 {
				return usagef("how many partitions %s has to have is missing: add -p TOTAL", args[0])
			}
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				details, err := findTopics(ctx, adm, args)
				if err != nil {
					return err
				}
				before := len(details[args[0]].Partitions)
				if int(partitions) == before {
					a.note("%s has %s already", args[0], plural(int64(before), "partition"))
				} else {
					results, err := adm.UpdatePartitions(ctx, int(partitions), args[0])
					if err != nil {
						return err
					}
					for _, r := range results.Sorted() {
						if r.Err != nil {
							return refused("grow topic "+r.Topic, r.Err, r.ErrMessage)
						}
					}
					settle(ctx, cl, args, func(t *kmsg.MetadataResponseTopic) bool { return len(t.Partitions) == int(partitions) && led(t) })
				}
				if a.json() {
					return a.writeJSON(map[string]any{"topic": args[0], "before": before, "partitions": partitions})
				}
				if int(partitions) != before {
					fmt.Fprintf(a.out, "%s has %s now, was %d\n", args[0], plural(int64(partitions), "partition"), before)
					a.note("records with the same key may go to another partition from now on")
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeTopics,
	}
	c.Flags().Int32VarP(&partitions, "partitions", "p", 0, "how many partitions it has to have in all")
	return c
}

func topicDeleteCommand(a *app) *cobra.Command {
	var yes, ifExists bool
	c := &cobra.Command{
		Use:     "delete TOPIC...",
		Aliases: []string{"rm"},
		Short:   "Delete topics and all their records",
		Args:    wants(1, -1),
		RunE: func(c *cobra.Command, topics []string) error {
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				return a.deleteTopics(ctx, cl, adm, topics, yes, ifExists)
			})
		},
		ValidArgsFunction: a.completeTopics,
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&ifExists, "if-exists", false, "a topic that is not there is no error")
	return c
}

func (a *app) deleteTopics(ctx context.Context, cl *kgo.Client, adm *kadm.Client, topics []string, yes, ifExists bool) error {
	details, err := adm.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return err
	}
	var missing failures
	for _, topic := range topics {
		if err := details[topic].Err; err != nil {
			if errors.Is(err, kerr.UnknownTopicOrPartition) && ifExists {
				continue
			}
			missing = append(missing, unknownTopic(topic, err))
		}
	}
	if len(missing) > 0 {
		return missing.join()
	}
	maps.DeleteFunc(details, func(_ string, d kadm.TopicDetail) bool { return d.Err != nil })
	if len(details) > 0 && !yes {
		views, err := viewTopics(ctx, adm, details)
		if err != nil {
			return err
		}
		var parts []string
		for _, v := range views {
			s := v.summary()
			parts = append(parts, fmt.Sprintf("%s (%s, %s)", s.Topic, plural(int64(s.Partitions), "partition"), plural(s.Records, "record")))
		}
		// The person may think for longer than a request may take.
		if err := a.confirm(false, "delete "+strings.Join(parts, ", ")+"?"); err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
	}
	return a.deleteFound(ctx, cl, adm, details.Names())
}

func (a *app) deleteFound(ctx context.Context, cl *kgo.Client, adm *kadm.Client, topics []string) error {
	deleted := []string{}
	var failed failures
	if len(topics) > 0 {
		results, err := adm.DeleteTopics(ctx, topics...)
		if err != nil {
			return err
		}
		for _, topic := range sortedKeys(results) {
			r := results[topic]
			if r.Err != nil {
				failed = append(failed, refused("delete topic "+r.Topic, r.Err, r.ErrMessage))
				continue
			}
			deleted = append(deleted, r.Topic)
		}
		settle(ctx, cl, deleted, gone)
	}
	if a.json() {
		if err := a.writeJSON(map[string]any{"deleted": deleted}); err != nil {
			return err
		}
		return failed.join()
	}
	for _, topic := range deleted {
		fmt.Fprintf(a.out, "deleted %s\n", topic)
	}
	return failed.join()
}

// awaitTopics waits until the topics that were created can be used.
func awaitTopics(ctx context.Context, cl *kgo.Client, results kadm.CreateTopicResponses) {
	var created []string
	for _, r := range results.Sorted() {
		if r.Err == nil {
			created = append(created, r.Topic)
		}
	}
	settle(ctx, cl, created, led)
}

// led tells whether every partition of a topic has a leader.
func led(t *kmsg.MetadataResponseTopic) bool {
	without := func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader < 0 || p.ErrorCode != 0 }
	return t.ErrorCode == 0 && len(t.Partitions) > 0 && !slices.ContainsFunc(t.Partitions, without)
}

// gone tells whether there is no such topic.
func gone(t *kmsg.MetadataResponseTopic) bool {
	return t.ErrorCode == kerr.UnknownTopicOrPartition.Code
}

const (
	settlePatience = 5 * time.Second
	settlePause    = 20 * time.Millisecond
)

// settle waits until every broker shows what was changed: they answer before they do, and the next command of a script may come at once, to
// another broker. What does not settle soon is no error, as the change is made.
func settle(ctx context.Context, cl *kgo.Client, topics []string, is func(*kmsg.MetadataResponseTopic) bool) {
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for _, b := range cl.DiscoveredBrokers() {
		settleAt(ctx, b, topics, is)
	}
}

// settleAt waits for one broker. One that does not answer is left alone.
func settleAt(ctx context.Context, b *kgo.Broker, topics []string, is func(*kmsg.MetadataResponseTopic) bool) {
	pause := time.NewTicker(settlePause)
	defer pause.Stop()
	for {
		req := kmsg.NewPtrMetadataRequest()
		for _, topic := range topics {
			asked := kmsg.NewMetadataRequestTopic()
			asked.Topic = &topic
			req.Topics = append(req.Topics, asked)
		}
		resp, err := req.RequestWith(ctx, b)
		if err != nil || !slices.ContainsFunc(resp.Topics, func(t kmsg.MetadataResponseTopic) bool { return !is(&t) }) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// findTopics returns the details of topics that must all be there.
func findTopics(ctx context.Context, adm *kadm.Client, topics []string) (kadm.TopicDetails, error) {
	details, err := adm.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var missing failures
	for _, topic := range topics {
		if d, ok := details[topic]; !ok {
			missing = append(missing, unknownTopic(topic, kerr.UnknownTopicOrPartition))
		} else if d.Err != nil {
			missing = append(missing, unknownTopic(topic, d.Err))
		}
	}
	return details, missing.join()
}

func unknownTopic(topic string, err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("there is no topic %s: `raftsman topic list` shows what there is, `raftsman topic create %s` makes it", topic, topic)
	}
	return refused("topic "+topic, err, "")
}

// parsePairs reads key=value arguments. Values may be empty and may contain more equals signs.
func parsePairs(pairs []string, flag string) (map[string]*string, error) {
	values := make(map[string]*string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("%s %q is not key=value", flag, pair)
		}
		if _, ok := values[key]; ok {
			return nil, usagef("%s sets %s twice", flag, key)
		}
		values[key] = &value
	}
	return values, nil
}

// plural writes a number and its noun; -1 is an unknown number.
func plural(n int64, noun string) string {
	switch {
	case n < 0:
		return "an unknown number of " + noun + "s"
	case n == 1:
		return "1 " + noun
	}
	return formatCount(n) + " " + noun + "s"
}

// sortedKeys returns a map's keys in order.
func sortedKeys[M ~map[K]V, K cmp.Ordered, V any](m M) []K { return slices.Sorted(maps.Keys(m)) }
