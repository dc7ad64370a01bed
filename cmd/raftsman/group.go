package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func groupCommand(a *app) *cobra.Command {
	return family("group", "List, describe, reset and delete groups",
		groupListCommand(a), groupDescribeCommand(a), groupResetCommand(a), groupDeleteCommand(a), groupDeleteOffsetsCommand(a))
}

// groupSummary is one line of `group list`.
type groupSummary struct {
	Group        string `json:"group"`
	State        string `json:"state"`
	Type         string `json:"type"`
	ProtocolType string `json:"protocolType"`
	Coordinator  int32  `json:"coordinator"`
}

func groupListCommand(a *app) *cobra.Command {
	var states, types []string
	var names bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the groups and their states",
		Args:    wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := spell("--state", states, groupStates); err != nil {
				return err
			}
			if err := spell("--type", types, groupTypes); err != nil {
				return err
			}
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				listed, err := adm.ListGroupsByType(ctx, types, states...)
				if err != nil {
					return err
				}
				if names {
					return a.writeNames(listed.Groups())
				}
				groups := []groupSummary{}
				for _, g := range listed.Sorted() {
					groups = append(groups, groupSummary{Group: g.Group, State: g.State, Type: g.GroupType, ProtocolType: g.ProtocolType, Coordinator: g.Coordinator})
				}
				return a.writeGroups(groups, slices.Concat(states, types))
			})
		},
	}
	c.Flags().StringSliceVar(&states, "state", nil, "only groups in these states: "+strings.Join(groupStates, ", "))
	completeFlag(c, "state", groupStates...)
	c.Flags().StringSliceVar(&types, "type", nil, "only groups of these protocols: "+strings.Join(groupTypes, ", "))
	completeFlag(c, "type", groupTypes...)
	c.Flags().BoolVarP(&names, "names", "q", false, "names only, one a line")
	return c
}

// groupStates are the states that a group can be in, with those of the consumer and streams protocols (KIP-848, KIP-1071) last. To any
// other a broker answers that no group is in it.
var groupStates = []string{"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead", "Assigning", "Reconciling", "NotReady"}

// groupTypes are the protocols of groups.
var groupTypes = []string{"classic", "consumer", "share", "streams"}

// spell gives the words that were typed for a flag their spelling, and refuses those that do not exist.
func spell(flag string, typed, words []string) error {
	for i, text := range typed {
		at := slices.IndexFunc(words, func(s string) bool { return strings.EqualFold(s, strings.TrimSpace(text)) })
		if at < 0 {
			return usagef("%s %s is unknown: it is one of %s", flag, text, strings.Join(words, ", "))
		}
		typed[i] = words[at]
	}
	return nil
}

func (a *app) writeGroups(groups []groupSummary, only []string) error {
	if a.json() {
		return a.writeJSON(groups)
	}
	if len(groups) == 0 && len(only) > 0 {
		a.note("no group is %s: without --state and --type all are listed", strings.Join(only, " or "))
		return nil
	}
	if len(groups) == 0 {
		a.note("there are no groups: `raftsman consume TOPIC --group NAME` makes one")
		return nil
	}
	t := newTable(column{title: "GROUP", flexible: true}, column{title: "STATE"}, column{title: "TYPE"}, column{title: "PROTOCOL"}, column{title: "COORDINATOR", right: true})
	for _, g := range groups {
		t.add(plain(g.Group), stateCell(g.State), plain(g.Type), plain(g.ProtocolType), number(g.Coordinator))
	}
	return t.write(a.out, a.paint(), a.width())
}

func stateCell(state string) cell {
	switch state {
	case "Stable":
		return cell{text: state, paint: paint.green}
	case "Empty", "Dead":
		return faint(state)
	}
	return caution(state)
}

func groupDeleteCommand(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:     "delete GROUP...",
		Aliases: []string{"rm"},
		Short:   "Delete groups with all that they committed",
		Long: `Delete groups with all that they committed: they begin anew the next time. Groups with members can't be deleted. For some topics only
there is delete-offsets.`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, groups []string) error {
			if err := a.confirm(yes, "delete "+strings.Join(groups, ", ")+" and what was committed?"); err != nil {
				return err
			}
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error { return a.deleteGroups(ctx, adm, groups) })
		},
		ValidArgsFunction: a.completeGroups,
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func groupDeleteOffsetsCommand(a *app) *cobra.Command {
	var yes bool
	var named []string
	c := &cobra.Command{
		Use:     "delete-offsets GROUP... -t TOPIC",
		Short:   "Delete what groups committed for some topics",
		Long:    "Delete what groups committed for some topics: there they begin anew the next time. A group with members keeps what it subscribes to.",
		Example: "  raftsman group delete-offsets billing -t orders\n  raftsman group delete-offsets billing -t orders:0,3 --yes",
		Args:    wants(1, -1),
		RunE: func(c *cobra.Command, groups []string) error {
			topics, err := parseTopicPartitions(named)
			if err != nil {
				return err
			}
			if len(topics) == 0 {
				return usagef("of which topics is missing: add -t TOPIC; `raftsman group delete` deletes whole groups")
			}
			if err := a.confirm(yes, fmt.Sprintf("delete what %s committed for %s?", strings.Join(groups, ", "), strings.Join(named, ", "))); err != nil {
				return err
			}
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.deleteGroupOffsets(ctx, adm, groups, topics)
			})
		},
		ValidArgsFunction: a.completeGroups,
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().StringArrayVarP(&named, "topic", "t", nil, "the offsets of this topic, or TOPIC:0,3 for some of its partitions (repeat)")
	return c
}

func (a *app) deleteGroups(ctx context.Context, adm *kadm.Client, groups []string) error {
	results, err := adm.DeleteGroups(ctx, groups...)
	if err = unlessPartial(err); err != nil {
		return err
	}
	deleted := []string{}
	var failed failures
	for _, r := range results.Sorted() {
		if r.Err != nil {
			failed = append(failed, refused("delete group "+r.Group, r.Err, r.ErrMessage))
			continue
		}
		deleted = append(deleted, r.Group)
	}
	if a.json() {
		if err := a.writeJSON(map[string]any{"deleted": deleted}); err != nil {
			return err
		}
		return failed.join()
	}
	for _, group := range deleted {
		fmt.Fprintf(a.out, "deleted %s\n", group)
	}
	return failed.join()
}

// deletedOffsets is what `group delete-offsets` tells about one group.
type deletedOffsets struct {
	Group      string           `json:"group"`
	Partitions []groupPartition `json:"partitions"`
}

type groupPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func (a *app) deleteGroupOffsets(ctx context.Context, adm *kadm.Client, groups []string, topics map[string][]int32) error {
	var failed failures
	report := []deletedOffsets{}
	for _, group := range groups {
		committed, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			failed = append(failed, refused("group "+group, err, ""))
			continue
		}
		committed.KeepFunc(func(o kadm.OffsetResponse) bool {
			partitions, named := topics[o.Topic]
			return o.At >= 0 && named && (len(partitions) == 0 || slices.Contains(partitions, o.Partition))
		})
		if len(committed) == 0 {
			failed = append(failed, fmt.Errorf("group %s committed nothing for %s: `raftsman group describe %s` shows what it has", group, strings.Join(sortedKeys(topics), ", "), group))
			continue
		}
		results, err := adm.DeleteOffsets(ctx, group, committed.Partitions())
		if err != nil {
			failed = append(failed, refused("delete offsets of group "+group, err, ""))
			continue
		}
		deleted := deletedOffsets{Group: group, Partitions: []groupPartition{}}
		for _, topic := range sortedKeys(results) {
			for _, partition := range sortedKeys(results[topic]) {
				if err := results[topic][partition]; err != nil {
					failed = append(failed, refused(fmt.Sprintf("delete offset of group %s in %s partition %d", group, topic, partition), err, ""))
					continue
				}
				deleted.Partitions = append(deleted.Partitions, groupPartition{topic, partition})
			}
		}
		report = append(report, deleted)
	}
	if a.json() {
		if err := a.writeJSON(report); err != nil {
			return err
		}
		return failed.join()
	}
	for _, d := range report {
		if len(d.Partitions) == 0 {
			continue
		}
		fmt.Fprintf(a.out, "deleted the offsets of %s in %s\n", d.Group, plural(int64(len(d.Partitions)), "partition"))
	}
	return failed.join()
}

// isNoGroup tells whether an error says that a group does not exist.
func isNoGroup(err error) bool { return errors.Is(err, kerr.GroupIDNotFound) }
