package scripts

import (
	"context"
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

func consumerGroupsScript() *script {
	return &script{
		instead: "raftsman group",
		actions: []string{"list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"},
		options: common(slices.Concat(
			flags("list", "describe", "delete", "reset-offsets", "delete-offsets", "all-groups", "all-topics", "members", "offsets", "verbose",
				"dry-run", "execute", "export", "to-earliest", "to-latest", "to-current"),
			values("group", "topic", "timeout", "to-offset", "to-datetime", "by-duration", "shift-by", "from-file", "validate-regex"),
			named(maybeValue, []string{"state", "type"}),
		)...),
		run: runConsumerGroups,
	}
}

func runConsumerGroups(ctx context.Context, c *call) error {
	switch {
	case c.opts.has("list"):
		return c.listConsumerGroups(ctx)
	case c.opts.has("describe"):
		if !c.opts.has("group") && !c.opts.has("all-groups") {
			return usagef("Option [describe] takes one of these options: [all-groups], [group]")
		}
	case c.opts.has("reset-offsets"):
		return c.resetOffsets(ctx)
	case c.opts.has("validate-regex"):
		c.validateRegex()
		return nil
	case !c.opts.has("group") && !(c.opts.has("delete") && c.opts.has("all-groups")):
		return usagef("Option [%s] takes one of these options: [all-groups], [group]", c.chosen())
	case c.opts.has("delete-offsets") && !c.opts.has("topic"):
		return usagef("Option [delete-offsets] takes the following option: [topic]")
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	groups, err := c.groups(ctx)
	if err != nil {
		return err
	}
	switch {
	case c.opts.has("delete"):
		return c.deleteGroups(ctx, groups)
	case c.opts.has("delete-offsets"):
		return c.deleteOffsets(ctx, groups[0])
	}
	return c.describeGroups(ctx, groups)
}

// validateRegex tells whether a consumer may subscribe to what matches a regular expression. Go's expressions are RE2's, as Kafka's.
func (c *call) validateRegex() {
	text := c.opts.value("validate-regex")
	_, err := syntax.Parse(text, syntax.Perl)
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		c.print("The regular expression `%s` is invalid: %s.\n", text, wrong.Code)
		return
	}
	c.print("The regular expression `%s` is valid.\n", text)
}

// chosen is the action.
func (c *call) chosen() string {
	for _, action := range c.script.actions {
		if c.opts.has(action) {
			return action
		}
	}
	return ""
}

// groups are those that are named, or all that consume.
func (c *call) groups(ctx context.Context) ([]string, error) {
	if !c.opts.has("all-groups") {
		return slices.Compact(slices.Clone(c.opts["group"])), nil
	}
	listed, err := c.consumerGroups(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range listed {
		names = append(names, g.Group)
	}
	return names, nil
}

// consumerGroups lists the groups of consumers, of either protocol, in order.
func (c *call) consumerGroups(ctx context.Context, states ...string) ([]kadm.ListedGroup, error) {
	listed, err := c.adm.ListGroups(ctx, states...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(listed.Sorted(), func(g kadm.ListedGroup) bool {
		return g.ProtocolType != "consumer" && g.ProtocolType != "" || g.GroupType == "share" || g.GroupType == "streams"
	}), nil
}

var (
	groupStates = []string{"Empty", "Stable", "Reconciling", "Assigning", "CompletingRebalance", "PreparingRebalance", "Dead"}
	groupTypes  = []string{"Classic", "Consumer"}
)

// words reads a list of words that have to be among those that there are, however they are capitalised.
func words(what, text string, known []string) ([]string, error) {
	var found []string
	for word := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, strings.TrimSpace(word)) })
		if i < 0 {
			return nil, usagef("Invalid %s list '%s'. Valid %ss are: %s", what, text, what, strings.Join(known, ", "))
		}
		found = append(found, known[i])
	}
	return found, nil
}

func (c *call) listConsumerGroups(ctx context.Context) error {
	var states, types []string
	var err error
	if text := c.opts.value("state"); text != "" {
		if states, err = words("state", text, groupStates); err != nil {
			return err
		}
	}
	if text := c.opts.value("type"); text != "" {
		if types, err = words("type", text, groupTypes); err != nil {
			return err
		}
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	groups, err := c.consumerGroups(ctx, states...)
	if err != nil {
		return err
	}
	if !c.opts.has("state") && !c.opts.has("type") {
		for _, g := range groups {
			c.print("%s\n", g.Group)
		}
		return nil
	}
	head := []string{"GROUP"}
	if c.opts.has("type") {
		head = append(head, "TYPE")
	}
	if c.opts.has("state") {
		head = append(head, "STATE")
	}
	rows := [][]string{head}
	for _, g := range groups {
		if len(types) > 0 && !slices.Contains(types, capital(g.GroupType)) {
			continue
		}
		row := []string{g.Group}
		if c.opts.has("type") {
			row = append(row, capital(g.GroupType))
		}
		if c.opts.has("state") {
			row = append(row, g.State)
		}
		rows = append(rows, row)
	}
	c.columns(rows)
	return nil
}

func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func groupsScript() *script {
	return &script{
		instead: "raftsman group list",
		actions: []string{"list"},
		options: common(slices.Concat(flags("list", "consumer", "share", "streams"), values("group-type", "protocol"))...),
		run:     runGroups,
	}
}

func runGroups(ctx context.Context, c *call) error {
	kind := ""
	for _, flag := range []string{"share", "streams"} {
		if c.opts.has(flag) {
			kind = flag
		}
	}
	if c.opts.has("group-type") {
		found, err := words("type", c.opts.value("group-type"), []string{"Classic", "Consumer", "Share", "Streams"})
		if err != nil {
			return err
		}
		kind = strings.ToLower(found[0])
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	listed, err := c.adm.ListGroups(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"GROUP", "TYPE", "PROTOCOL"}}
	for _, g := range listed.Sorted() {
		consumes := g.GroupType == "consumer" || g.GroupType == "classic" && (g.ProtocolType == "consumer" || g.ProtocolType == "")
		if kind != "" && g.GroupType != kind || c.opts.has("consumer") && !consumes || c.opts.has("protocol") && g.ProtocolType != c.opts.value("protocol") {
			continue
		}
		rows = append(rows, []string{g.Group, capital(g.GroupType), g.ProtocolType})
	}
	c.columns(rows)
	return nil
}

func (c *call) deleteGroups(ctx context.Context, groups []string) error {
	results, err := c.adm.DeleteGroups(ctx, groups...)
	if len(results) == 0 && err != nil {
		return err
	}
	var done, failed []string
	for _, r := range results.Sorted() {
		if r.Err != nil {
			failed = append(failed, fmt.Sprintf("* Group '%s' could not be deleted due to: %s\n", r.Group, exception(r.Err, r.ErrMessage)))
			continue
		}
		done = append(done, "'"+r.Group+"'")
	}
	if len(failed) == 0 {
		c.print("Deletion of requested consumer groups (%s) was successful.\n", strings.Join(done, ", "))
		return nil
	}
	c.print("\nError: Deletion of some consumer groups failed:\n%s", strings.Join(failed, ""))
	if len(done) > 0 {
		c.print("\nThese consumer groups were deleted successfully: %s\n", strings.Join(done, ", "))
	}
	return nil
}

func (c *call) deleteOffsets(ctx context.Context, group string) error {
	wanted, err := c.partitionsNamed(ctx, c.opts["topic"])
	if err != nil {
		return err
	}
	results, err := c.adm.DeleteOffsets(ctx, group, wanted)
	top := err
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	rows := [][]string{{"TOPIC", "PARTITION", "STATUS"}}
	failed := false
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			err := top
			if err == nil {
				err = results[t.Topic][p]
			}
			status := "Successful"
			if err != nil {
				failed, status = true, "Error: "+exception(err, "")
			}
			rows = append(rows, []string{t.Topic, fmt.Sprint(p), status})
		}
	}
	switch {
	case top != nil:
		c.print("\nError: %s\n", sentence(top, ""))
	case failed:
		c.print("\nError: Encountered some partition-level error, see the follow-up details.\n")
	default:
		c.print("Request succeeded for deleting offsets from group %s.\n", group)
	}
	c.print("\n")
	c.columns(rows)
	return nil
}

// partitionsNamed reads TOPIC and TOPIC:0,1. All partitions of a topic are meant where none is named.
func (c *call) partitionsNamed(ctx context.Context, texts []string) (kadm.TopicsSet, error) {
	wanted := kadm.TopicsSet{}
	for _, text := range texts {
		topic, list, some := strings.Cut(text, ":")
		if some {
			numbers, err := numbers(list)
			if err != nil {
				return nil, usagef("%q: %v; it is TOPIC or TOPIC:0,1", text, err)
			}
			wanted.Add(topic, numbers...)
			continue
		}
		details, err := c.adm.ListTopicsWithInternal(ctx, topic)
		if err != nil {
			return nil, err
		}
		if err := details[topic].Err; err != nil {
			return nil, err
		}
		wanted.Add(topic, details[topic].Partitions.Numbers()...)
	}
	return wanted, nil
}
