package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicDescribeCommand(a *app) *cobra.Command {
	var keys bool
	c := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show each partition's leader, replicas, offsets, size and share of the topic",
		Long: `Show each partition's leader, replicas, offsets, size and share of the topic.

RECORDS is the span of offsets; compaction and transactions leave fewer to read. SIZE is what the leader stores. A
partition that takes far more than its even share is marked: nearly always most records have the same key. --keys reads
the newest records of that partition and names their keys. A transaction that is open is told, as readers of committed
records wait for its end.

Of partitions on Raftsman it shows too how far compaction is (up to which offset, what is dirty since, and when it was cleaned
last), why a partition is not compacted any more, and what is damaged, with the remedy; and a log directory that has only its
reserve left.`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, topics []string) error {
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				return a.describeTopics(ctx, cl, adm, topics, keys)
			})
		},
		ValidArgsFunction: a.completeTopics,
	}
	c.Flags().BoolVar(&keys, "keys", false, "read records of the fullest partition and name the keys they have")
	return c
}

func (a *app) describeTopics(ctx context.Context, cl *kgo.Client, adm *kadm.Client, topics []string, keys bool) error {
	details, err := findTopics(ctx, adm, topics)
	if err != nil {
		return err
	}
	views, err := viewTopics(ctx, adm, details)
	if err != nil {
		return err
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return err
	}
	if err := findOpenTransactions(ctx, adm, views); err != nil {
		return err
	}
	if err := findConditions(ctx, cl, views); err != nil {
		return err
	}
	for i := range views {
		views[i].Configs = changedConfigs(configs, views[i].Topic)
		if keys {
			if views[i].Keys, err = a.sampleKeys(ctx, views[i]); err != nil {
				return err
			}
		}
	}
	if a.json() {
		return a.writeJSON(views)
	}
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := v.write(a.out, a.paint(), a.width()); err != nil {
			return err
		}
	}
	return nil
}

// changedConfigs returns the settings that the topic itself has.
func changedConfigs(configs kadm.ResourceConfigs, topic string) map[string]string {
	changed := map[string]string{}
	resource, err := configs.On(topic, nil)
	if err != nil {
		return changed
	}
	for _, c := range resource.Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			changed[c.Key] = c.MaybeValue()
		}
	}
	return changed
}

const barCells = 12

// write prints the topic for people.
func (v *topicView) write(w io.Writer, p paint, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s, replication factor %d, %s, %s", p.bold(printable(v.Topic)), plural(int64(len(v.Partitions)), "partition"),
		v.ReplicationFactor, plural(v.Records, "record"), formatBytes(v.Bytes))
	if v.ID != "" {
		b.WriteString(p.dim("  id " + v.ID))
	}
	b.WriteByte('\n')
	if len(v.Configs) > 0 {
		var pairs []string
		for _, key := range sortedKeys(v.Configs) {
			pairs = append(pairs, key+"="+v.Configs[key])
		}
		b.WriteString(printable(strings.Join(pairs, "  ")) + "\n")
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := v.table().write(w, p, width); err != nil {
		return err
	}
	if t := v.compactionTable(); t != nil {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := t.write(w, p, width); err != nil {
			return err
		}
	}
	for _, hint := range v.hints(p) {
		if _, err := fmt.Fprintf(w, "\n%s\n", hint); err != nil {
			return err
		}
	}
	return nil
}

func (v *topicView) table() *table {
	right := func(title string) column { return column{title: title, right: true} }
	t := newTable(right("PARTITION"), right("LEADER"), right("EPOCH"), column{title: "REPLICAS"}, column{title: "ISR"},
		right("START"), right("END"), right("RECORDS"), right("SIZE"), right("SHARE"), column{})
	for _, p := range v.Partitions {
		leader := number(p.Leader)
		if p.Leader < 0 {
			leader = alarm("none")
		}
		isr := when(len(p.ISR) < len(p.Replicas), caution(joinIDs(p.ISR)), plain(joinIDs(p.ISR)))
		share, length := plain(formatPercent(p.Share)), cell{text: bar(p.Share, barCells), paint: paint.cyan}
		if p.Hot {
			share = alarm(share.text)
			length = alarm(length.text + strings.Repeat(" ", max(0, barCells-displayWidth(length.text))) + " ◀ skewed")
		}
		if p.Damage != nil {
			length = alarm("◀ damaged")
		}
		t.add(number(p.Partition), leader, number(p.Epoch), plain(joinIDs(p.Replicas)), isr,
			known(p.StartOffset), known(p.EndOffset), known(p.Records), plain(formatBytes(p.Bytes)), share, length)
	}
	return t
}

// hints says in words what stands out.
func (v *topicView) hints(p paint) []string {
	var hints []string
	if s := v.Skew; s != nil {
		text := fmt.Sprintf("partition %d holds %s of the %s, %.1f times its even share: most records seem to have the same key",
			s.Partition, formatPercent(s.Share), s.Of, s.TimesEven)
		if s.Of == "bytes" {
			text = fmt.Sprintf("partition %d holds %s of the bytes, %.1f times its even share: its keys seem to have far larger values",
				s.Partition, formatPercent(s.Share), s.TimesEven)
		}
		if v.Keys == nil {
			text += fmt.Sprintf(" (`raftsman topic describe %s --keys` names it)", v.Topic)
		}
		hints = append(hints, p.red("!")+" "+text)
	}
	if v.Keys != nil {
		hints = append(hints, v.Keys.text())
	}
	for i := range v.Partitions {
		if open := v.Partitions[i].OpenTransaction; open != nil {
			hints = append(hints, p.yellow("!")+" "+open.hint(v.Partitions[i].Partition))
		}
	}
	hints = append(hints, v.conditionHints(p)...)
	sum := v.summary()
	if sum.Offline > 0 {
		hints = append(hints, p.red("!")+fmt.Sprintf(" %s no leader: nobody can write or read there until a replica in sync is back", have(sum.Offline)))
	}
	if sum.UnderReplicated > 0 {
		hints = append(hints, p.yellow("!")+fmt.Sprintf(" %s fewer replicas in sync than wanted: `raftsman cluster describe` shows which brokers are there", have(sum.UnderReplicated)))
	}
	return hints
}

func have(partitions int) string {
	if partitions == 1 {
		return "1 partition has"
	}
	return fmt.Sprintf("%d partitions have", partitions)
}

func joinIDs(ids []int32) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, fmt.Sprint(id))
	}
	return strings.Join(slices.Clip(texts), ",")
}
