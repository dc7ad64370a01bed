package scripts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func consumerGroupsScript() *script {
	return &script{
		instead: "raftsman group",
		actions: []string{"list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"},
		options: common(slices.Concat(
			flags("list", "describe", "delete", "reset-offsets", "delete-offsets", "all-groups", "all-topics", "members", "offsets", "verbose",
				"dry-run", "execute", "export", "to-earliest", "to-latest", "to-current"),
			values("group", "topic", "timeout", "to-offset", "to-datetime", "by-duration", "shift-by", "from-file"),
			named(maybeValue, []string{"state", "type"}),
			refuses("raftsman group describe", value, "validate-regex"),
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

func runningWord(state string) string {
	switch state {
	case "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling":
		return "Warning: Consumer group '%s' is rebalancing."
	case "Empty":
		return "Consumer group '%s' has no active members."
	}
	return ""
}

// groupMember is one that a script shows.
type groupMember struct {
	id, host, client string
	assigned         kadm.TopicsSet
	target           kadm.TopicsSet // nil in classic groups
	epoch            int32          // of the consumer protocol
}

// describedGroup is what describing tells.
type describedGroup struct {
	state, assignor string
	coordinator     kadm.BrokerDetail
	epoch           int32 // of the target assignment
	consumer        bool  // of the consumer protocol
	members         []groupMember
}

// describe asks for one group, in whichever protocol it is.
func (c *call) describe(ctx context.Context, group string) (*describedGroup, error) {
	modern, err := c.adm.DescribeConsumerGroups(ctx, group)
	if d, ok := modern[group]; ok && err == nil && d.Err == nil {
		g := &describedGroup{state: d.State, assignor: d.AssignorName, coordinator: d.Coordinator, epoch: d.AssignmentEpoch, consumer: true}
		for _, m := range d.Members {
			g.members = append(g.members, groupMember{m.MemberID, m.ClientHost, m.ClientID, m.Assignment, m.TargetAssignment, m.MemberEpoch})
		}
		return g, nil
	}
	classic, err := c.adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	d := classic[group]
	if d.Err != nil {
		return nil, d.Err
	}
	if d.State == "Dead" {
		return nil, kerr.GroupIDNotFound
	}
	g := &describedGroup{state: d.State, assignor: d.Protocol, coordinator: d.Coordinator}
	for _, m := range d.Members {
		set := kadm.TopicsSet{}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				set.Add(t.Topic, t.Partitions...)
			}
		}
		g.members = append(g.members, groupMember{id: m.MemberID, host: m.ClientHost, client: m.ClientID, assigned: set})
	}
	return g, nil
}

func (c *call) describeGroups(ctx context.Context, groups []string) error {
	found := map[string]*describedGroup{}
	for _, group := range groups {
		g, err := c.describe(ctx, group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			c.print("\nError: Executing consumer group command failed due to %s\n", exception(err, "Group "+group+" not found."))
			return nil
		}
		if err != nil {
			return err
		}
		found[group] = g
	}
	for _, group := range slices.Sorted(maps.Keys(found)) {
		g := found[group]
		if word := runningWord(g.state); word != "" {
			c.say("\n"+word, group)
		}
		var rows [][]string
		var err error
		switch {
		case c.opts.has("state"):
			rows = c.stateRows(group, g)
		case c.opts.has("members"):
			rows = c.memberRows(group, g)
		default:
			rows, err = c.offsetRows(ctx, group, g)
		}
		if err != nil {
			return err
		}
		if rows != nil {
			c.print("\n")
			c.columns(rows)
		}
	}
	return nil
}

func (c *call) stateRows(group string, g *describedGroup) [][]string {
	head := []string{"GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"}
	row := []string{group, fmt.Sprintf("%s:%d  (%d)", g.coordinator.Host, g.coordinator.Port, g.coordinator.NodeID), orDash(g.assignor), g.state, fmt.Sprint(len(g.members))}
	if c.opts.has("verbose") {
		epoch := "-"
		if g.consumer {
			epoch = fmt.Sprint(g.epoch)
		}
		head = slices.Insert(head, 4, "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH")
		row = slices.Insert(row, 4, epoch, epoch)
	}
	return [][]string{head, row}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (c *call) memberRows(group string, g *describedGroup) [][]string {
	head := []string{"GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"}
	if c.opts.has("verbose") {
		head = append(head, "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
	}
	rows := [][]string{head}
	for _, m := range g.members {
		count := 0
		m.assigned.Each(func(string, int32) { count++ })
		row := []string{group, m.id, m.host, m.client, fmt.Sprint(count)}
		if c.opts.has("verbose") {
			epoch, target, targets := "-", "-", "-"
			if g.consumer {
				epoch, target, targets = fmt.Sprint(m.epoch), fmt.Sprint(g.epoch), orDash(assignment(m.target))
			}
			row = append(row, epoch, orDash(assignment(m.assigned)), target, targets)
		}
		rows = append(rows, row)
	}
	return rows
}

// assignment writes partitions as topic:0,1;other:2.
func assignment(set kadm.TopicsSet) string {
	var parts []string
	for _, t := range set.Sorted() {
		parts = append(parts, t.Topic+":"+join(t.Partitions))
	}
	return strings.Join(parts, ";")
}

// offsetRows shows where a group is; nil for one that has nothing to show.
func (c *call) offsetRows(ctx context.Context, group string, g *describedGroup) ([][]string, error) {
	committed, err := c.adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	wanted := kadm.TopicsSet{}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			wanted.Add(o.Topic, o.Partition)
		}
	})
	owner := map[string]*groupMember{}
	idle := []*groupMember{}
	for i := range g.members {
		m := &g.members[i]
		m.assigned.Each(func(topic string, partition int32) {
			wanted.Add(topic, partition)
			owner[fmt.Sprint(topic, ":", partition)] = m
		})
		if len(m.assigned) == 0 {
			idle = append(idle, m)
		}
	}
	if len(wanted) == 0 && len(idle) == 0 {
		return nil, nil
	}
	ends, err := c.adm.ListEndOffsets(ctx, wanted.Topics()...)
	if err != nil && len(ends) == 0 && len(wanted) > 0 {
		return nil, err
	}
	head := []string{"GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"}
	if c.opts.has("verbose") {
		head = slices.Insert(head, 3, "LEADER-EPOCH")
	}
	rows := [][]string{head}
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			current, lag, epoch := "-", "-", "-"
			end := endOf(ends, t.Topic, p)
			if o, ok := committed.Lookup(t.Topic, p); ok && o.At >= 0 {
				current = fmt.Sprint(o.At)
				if end >= 0 {
					lag = fmt.Sprint(end - o.At)
				}
				if o.LeaderEpoch >= 0 {
					epoch = fmt.Sprint(o.LeaderEpoch)
				}
			}
			row := []string{group, t.Topic, fmt.Sprint(p), current, known(end), lag}
			if c.opts.has("verbose") {
				row = slices.Insert(row, 3, epoch)
			}
			rows = append(rows, append(row, ownerCells(owner[fmt.Sprint(t.Topic, ":", p)])...))
		}
	}
	for _, m := range idle {
		row := []string{group}
		for range len(head) - 4 {
			row = append(row, "-")
		}
		rows = append(rows, append(row, ownerCells(m)...))
	}
	return rows, nil
}

func ownerCells(m *groupMember) []string {
	if m == nil {
		return []string{"-", "-", "-"}
	}
	return []string{orDash(m.id), orDash(m.host), orDash(m.client)}
}

func known(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return fmt.Sprint(offset)
}
