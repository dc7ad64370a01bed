package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupView is a group as a person judges it: members, what they committed, and how far they are behind.
type groupView struct {
	Group       string       `json:"group"`
	State       string       `json:"state"`
	Type        string       `json:"type"`
	Epoch       *int32       `json:"epoch,omitempty"` // of a group of the consumer protocol
	Assignor    string       `json:"assignor,omitempty"`
	Coordinator int32        `json:"coordinator"`
	Lag         int64        `json:"lag"` // of the partitions where it is known
	Members     []memberView `json:"members"`
	Partitions  []lagView    `json:"partitions"`
}

type memberView struct {
	MemberID   string `json:"memberId"`
	InstanceID string `json:"instanceId,omitempty"`
	ClientID   string `json:"clientId"`
	Host       string `json:"host"`
	Partitions int    `json:"partitions"`
}

// lagView is a group's position in one partition. Committed, Start, End and Lag are -1 when unknown.
type lagView struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	// LagMs is the age of the oldest record that is not consumed yet; nil when it could not be read, 0 without lag.
	LagMs    *int64 `json:"lagMs"`
	MemberID string `json:"memberId,omitempty"`
	Member   string `json:"member,omitempty"` // client id @ host
}

// viewGroup asks for all that is known about a group.
func viewGroup(ctx context.Context, adm *kadm.Client, group string) (groupView, error) {
	v, assigned, err := describeGroup(ctx, adm, group)
	if err != nil {
		return v, err
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return v, refused("offsets of group "+group, err, "")
	}
	positions := map[topicPartition]*lagView{}
	at := func(topic string, partition int32) *lagView {
		tp := topicPartition{topic, partition}
		if positions[tp] == nil {
			positions[tp] = &lagView{Topic: topic, Partition: partition, Committed: unknown, Start: unknown, End: unknown, Lag: unknown}
		}
		return positions[tp]
	}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			at(o.Topic, o.Partition).Committed = o.At
		}
	})
	for _, m := range v.Members {
		assigned[m.MemberID].Each(func(topic string, partition int32) {
			p := at(topic, partition)
			p.MemberID, p.Member = m.MemberID, m.String()
		})
	}
	for _, p := range positions {
		v.Partitions = append(v.Partitions, *p)
	}
	slices.SortFunc(v.Partitions, func(x, y lagView) int {
		if x.Topic != y.Topic {
			return strings.Compare(x.Topic, y.Topic)
		}
		return int(x.Partition - y.Partition)
	})
	return v, v.addLag(ctx, adm)
}

// addLag fills in where the partitions begin and end, and so the lag.
func (v *groupView) addLag(ctx context.Context, adm *kadm.Client) error {
	if len(v.Partitions) == 0 {
		v.Partitions = []lagView{}
		return nil
	}
	topics := kadm.TopicsSet{}
	for _, p := range v.Partitions {
		topics.Add(p.Topic)
	}
	starts, err := adm.ListStartOffsets(ctx, topics.Topics()...)
	if err = unlessPartial(err); err != nil {
		return err
	}
	ends, err := adm.ListEndOffsets(ctx, topics.Topics()...)
	if err = unlessPartial(err); err != nil {
		return err
	}
	for i := range v.Partitions {
		p := &v.Partitions[i]
		p.Start, p.End = listed(starts, p.Topic, p.Partition), listed(ends, p.Topic, p.Partition)
		if p.End >= 0 && p.Committed >= 0 {
			p.Lag = max(0, p.End-p.Committed)
			v.Lag += p.Lag
		}
	}
	return nil
}

// describeGroup asks which members a group has and what they are assigned, in the words of its protocol: classic, or the
// consumer protocol (KIP-848).
func describeGroup(ctx context.Context, adm *kadm.Client, group string) (groupView, map[string]kadm.TopicsSet, error) {
	v := groupView{Group: group, Type: "classic", Members: []memberView{}}
	assigned := map[string]kadm.TopicsSet{}
	classic, err := adm.DescribeGroups(ctx, group)
	if err = unlessPartial(err); err != nil {
		return v, nil, refused("group "+group, err, "")
	}
	d := classic[group]
	if isNoGroup(d.Err) || d.Err == nil && d.State == "Dead" {
		return describeConsumerGroup(ctx, adm, group)
	}
	if d.Err != nil {
		return v, nil, refused("group "+group, d.Err, d.ErrMessage)
	}
	v.State, v.Assignor, v.Coordinator = d.State, d.Protocol, d.Coordinator.NodeID
	for _, m := range d.Members {
		view := memberView{MemberID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			view.InstanceID = *m.InstanceID
		}
		set := kadm.TopicsSet{}
		if c, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range c.Topics {
				set.Add(t.Topic, t.Partitions...)
				view.Partitions += len(t.Partitions)
			}
		}
		assigned[m.MemberID] = set
		v.Members = append(v.Members, view)
	}
	return v, assigned, nil
}

func describeConsumerGroup(ctx context.Context, adm *kadm.Client, group string) (groupView, map[string]kadm.TopicsSet, error) {
	v := groupView{Group: group, Type: "consumer", Members: []memberView{}}
	described, err := adm.DescribeConsumerGroups(ctx, group)
	d, ok := described[group]
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return v, nil, err
	case err != nil, !ok, isNoGroup(d.Err): // also from brokers that do not know this protocol
		return describeListed(ctx, adm, group)
	case d.Err != nil:
		return v, nil, refused("group "+group, d.Err, "")
	}
	v.State, v.Assignor, v.Coordinator, v.Epoch = d.State, d.AssignorName, d.Coordinator.NodeID, &d.Epoch
	assigned := map[string]kadm.TopicsSet{}
	for _, m := range d.Members {
		view := memberView{MemberID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			view.InstanceID = *m.InstanceID
		}
		m.Assignment.Each(func(string, int32) { view.Partitions++ })
		assigned[m.MemberID] = m.Assignment
		v.Members = append(v.Members, view)
	}
	return v, assigned, nil
}

// describeListed tells what a list of groups has about one of a protocol that is not described here: a share or streams group.
func describeListed(ctx context.Context, adm *kadm.Client, group string) (groupView, map[string]kadm.TopicsSet, error) {
	listed, err := adm.ListGroups(ctx)
	if err = unlessPartial(err); err != nil {
		return groupView{}, nil, err
	}
	g, ok := listed[group]
	if !ok || g.GroupType == "" {
		return groupView{}, nil, &noGroupError{group}
	}
	return groupView{Group: group, State: g.State, Type: g.GroupType, Coordinator: g.Coordinator, Members: []memberView{}}, nil, nil
}

// noGroupError is that a group does not exist.
type noGroupError struct{ group string }

func (e *noGroupError) Error() string {
	return fmt.Sprintf("there is no group %s: `raftsman group list` shows the groups there are", e.group)
}

func (m memberView) String() string {
	name := m.ClientID
	if m.InstanceID != "" {
		name = m.InstanceID
	}
	return name + "@" + strings.TrimPrefix(m.Host, "/")
}

const (
	ageProbesMax  = 200             // partitions whose oldest unread record is looked at
	ageProbesTime = 3 * time.Second // and how long that may take
)

// addAges reads the oldest record that is not consumed yet of each partition with lag: its age is the lag in time. What can't
// be read soon stays unknown.
func (v *groupView) addAges(ctx context.Context, a *app) error {
	zero := int64(0)
	offsets := map[string]map[int32]kgo.Offset{}
	wanted := map[topicPartition]*lagView{}
	for i := range v.Partitions {
		p := &v.Partitions[i]
		if p.Lag == 0 {
			p.LagMs = &zero
		}
		if p.Lag <= 0 || len(wanted) >= ageProbesMax {
			continue
		}
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = map[int32]kgo.Offset{}
		}
		offsets[p.Topic][p.Partition] = kgo.NewOffset().At(max(p.Committed, p.Start))
		wanted[topicPartition{p.Topic, p.Partition}] = p
	}
	if len(wanted) == 0 {
		return nil
	}
	// One batch a partition is enough; a fetch gives at least that, however small the limit.
	cl, err := a.connect(ctx, kgo.ConsumePartitions(offsets), kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	probing, cancel := context.WithTimeout(ctx, ageProbesTime)
	defer cancel()
	for len(wanted) > 0 && probing.Err() == nil {
		cl.PollFetches(probing).EachRecord(func(r *kgo.Record) {
			tp := topicPartition{r.Topic, r.Partition}
			if p := wanted[tp]; p != nil {
				age := max(0, a.now().UnixMilli()-r.Timestamp.UnixMilli())
				p.LagMs = &age
				delete(wanted, tp)
			}
		})
	}
	return ctx.Err()
}
