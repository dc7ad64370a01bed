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
	instance         string // "" of a member that is not static
	assigned         kadm.TopicsSet
	target           kadm.TopicsSet // nil in classic groups
	epoch            int32          // of the consumer protocol
	upgraded         *bool          // in a group of the consumer protocol: whether it uses that, not the classic one; nil: it is not told
}

// describedGroup is what describing tells.
type describedGroup struct {
	state, assignor string
	coordinator     kadm.BrokerDetail
	consumer        bool  // of the consumer protocol, which alone has epochs
	epoch           int32 // that members were counted with last
	targetEpoch     int32 // that the target assignment is for
	members         []groupMember
}

// describe asks for one group, in whichever protocol it is.
func (c *call) describe(ctx context.Context, group string) (*describedGroup, error) {
	modern, err := c.adm.DescribeConsumerGroups(ctx, group)
	if d, ok := modern[group]; ok && err == nil && d.Err == nil {
		g := &describedGroup{state: d.State, assignor: d.AssignorName, coordinator: d.Coordinator, consumer: true, epoch: d.Epoch, targetEpoch: d.AssignmentEpoch}
		for _, m := range d.Members {
			member := groupMember{
				id: m.MemberID, host: m.ClientHost, client: m.ClientID, instance: deref(m.InstanceID), assigned: m.Assignment, target: m.TargetAssignment,
				epoch: m.MemberEpoch,
			}
			if m.MemberType >= 0 {
				upgraded := m.MemberType == 1
				member.upgraded = &upgraded
			}
			g.members = append(g.members, member)
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
		g.members = append(g.members, groupMember{id: m.MemberID, host: m.ClientHost, client: m.ClientID, instance: deref(m.InstanceID), assigned: set})
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
		epoch, target := "-", "-"
		if g.consumer {
			epoch, target = fmt.Sprint(g.epoch), fmt.Sprint(g.targetEpoch)
		}
		head = slices.Insert(head, 4, "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH")
		row = slices.Insert(row, 4, epoch, target)
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
	static, protocols := false, map[bool]bool{}
	for _, m := range g.members {
		static = static || m.instance != ""
		if m.upgraded != nil {
			protocols[*m.upgraded] = true
		}
	}
	migrates := len(protocols) == 2
	head := []string{"GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"}
	if static {
		head = slices.Insert(head, 2, "GROUP-INSTANCE-ID")
	}
	if c.opts.has("verbose") {
		head = append(head, "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
		if migrates {
			head = append(head, "UPGRADED")
		}
	}
	rows := [][]string{head}
	for _, m := range g.members {
		count := 0
		m.assigned.Each(func(string, int32) { count++ })
		row := []string{group, m.id, m.host, m.client, fmt.Sprint(count)}
		if static {
			row = slices.Insert(row, 2, m.instance)
		}
		if c.opts.has("verbose") {
			epoch, target, targets := "-", "-", "-"
			if g.consumer {
				epoch, target, targets = fmt.Sprint(m.epoch), fmt.Sprint(g.targetEpoch), orDash(assignment(m.target))
			}
			row = append(row, epoch, orDash(assignment(m.assigned)), target, targets)
			switch {
			case migrates && m.upgraded != nil:
				row = append(row, fmt.Sprint(*m.upgraded))
			case migrates:
				row = append(row, "-")
			}
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
