package group

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// testCluster is metadata that a scenario changes in place.
type testCluster struct {
	settings ConsumerSettings
	topics   map[string]Topic
	ids      map[string]kafka.TopicID // of the topics that have that name now
	names    map[kafka.TopicID]string // of all that ever were
	racks    []string                 // of the brokers that have replicas, for all partitions
	version  int64
}

func newTestCluster() *testCluster {
	return &testCluster{
		settings: ConsumerSettings{SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second},
		topics:   map[string]Topic{}, ids: map[string]kafka.TopicID{}, names: map[kafka.TopicID]string{}, version: 1,
	}
}

func (c *testCluster) Topic(name string) (Topic, bool) {
	t, ok := c.topics[name]
	return t, ok
}

func (c *testCluster) TopicByID(id kafka.TopicID) (Topic, bool) {
	t, ok := c.topics[c.names[id]]
	return t, ok && t.ID == id
}

func (c *testCluster) TopicNames() iter.Seq[string]                  { return maps.Keys(c.topics) }
func (c *testCluster) Racks(id kafka.TopicID, p int32) []string      { return c.racks }
func (c *testCluster) Version() int64                                { return c.version }
func (c *testCluster) Consumers(group string) (now ConsumerSettings) { return c.settings }

// set makes a topic have so many partitions, or none: deleted. It tells whether it is new.
func (c *testCluster) set(name string, partitions int32) (created bool) {
	c.version++
	t, there := c.topics[name]
	switch {
	case partitions == 0:
		delete(c.topics, name)
		return false
	case !there:
		t = Topic{Name: name, ID: kafka.TopicID{15: byte(len(c.names) + 1)}}
		c.names[t.ID], c.ids[name] = name, t.ID
	}
	t.Partitions = partitions
	c.topics[name] = t
	return !there
}

func (s *scenario) topics(l line) {
	created := false
	names := slices.Sorted(maps.Keys(l.options))
	for _, name := range names {
		created = s.cluster.set(name, int32(s.number(l.options[name]))) || created
	}
	s.machine.Learn(s.cluster, names, created)
}

func (s *scenario) beat(l line) *ConsumerHeartbeat {
	c := &ConsumerHeartbeat{
		MemberID: l.option("id", ""), Epoch: int32(s.number(l.option("epoch", "0"))), InstanceID: l.pointer("instance"),
		RackID: l.pointer("rack"), RebalanceTimeoutMs: -1, Regex: l.pointer("regex"), Assignor: l.pointer("assignor"),
		ClientID: l.name, ClientHost: "/10.0.0.1", OwnMemberID: l.option("v", "1") != "0",
	}
	if c.Epoch == 0 {
		c.RebalanceTimeoutMs, c.HasKnown = 60_000, true
	}
	if timeout, ok := l.options["rebalance"]; ok {
		c.RebalanceTimeoutMs = s.millis(timeout)
	}
	if topics, ok := l.options["topics"]; ok {
		c.Topics = append([]string{}, split(topics)...)
	}
	if has, ok := l.options["has"]; ok {
		c.HasKnown = true
		for _, topic := range split(has) {
			parts := strings.Split(topic, ":")
			t := assign.Topic{ID: s.cluster.ids[parts[0]]}
			for _, p := range parts[1:] {
				t.Partitions = append(t.Partitions, int32(s.number(p)))
			}
			c.Has = append(c.Has, t)
		}
	}
	return c
}

// named prints partitions as t:0:1.
func (s *scenario) named(a assign.Assignment) string {
	var topics []string
	for _, t := range a {
		text := s.cluster.names[t.ID]
		for _, p := range t.Partitions {
			text += fmt.Sprint(":", p)
		}
		topics = append(topics, text)
	}
	return "[" + strings.Join(topics, " ") + "]"
}

func (s *scenario) printBeat(name string, r *ConsumerHeartbeatReply) {
	if r.Code != kafka.None {
		s.printf("reply %s: %v %s", name, r.Code, r.Message)
		return
	}
	line := fmt.Sprintf("reply %s: %s epoch %d", name, r.MemberID, r.Epoch)
	if r.Assigned {
		line += " has " + s.named(r.Assignment)
	}
	if r.Steady {
		line += " steady"
	}
	s.printf("%s", line)
}

func (s *scenario) printConsumers(name string, r *ConsumerDescribeReply) {
	if r.Code != kafka.None {
		s.printf("reply %s: %v %s", name, r.Code, r.Message)
		return
	}
	s.printf("reply %s: %v epoch %d assigned at %d by %s", name, r.State, r.Epoch, r.AssignmentEpoch, r.Assignor)
	for _, m := range r.Members {
		kind := ""
		if m.Classic {
			kind = " classic"
		}
		s.printf("  %s%s epoch %d%s reads %v%s has %v target %v", m.MemberID, static(m.InstanceID), m.Epoch, kind, m.Topics, m.Regex,
			partitionsOf(m.Assigned), partitionsOf(m.Target))
	}
}

func partitionsOf(list []NamedPartitions) string {
	var text []string
	for _, t := range list {
		text = append(text, fmt.Sprint(t.Topic, t.Partitions))
	}
	return strings.Join(text, " ")
}

func (s *scenario) printConsumer(r *ConsumerRecord) {
	key := AppendKey(nil, r)
	value, ok := AppendValue(nil, r)
	if !ok {
		value = nil
	}
	again := must(Decode(key, value)).(*ConsumerRecord)
	againValue, _ := AppendValue(nil, again)
	if again.Group != r.Group || !reflect.DeepEqual(AppendKey(nil, again), key) || string(againValue) != string(value) {
		s.t.Fatalf("%+v is read as %+v", r, again)
	}
	name := ""
	switch k := r.Key.(type) {
	case *sysrecord.ConsumerGroupMemberMetadataKey:
		name = "member " + k.MemberID
	case *sysrecord.ConsumerGroupTargetAssignmentMemberKey:
		name = "target of " + k.MemberID
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentKey:
		name = "place of " + k.MemberID
	case *sysrecord.ConsumerGroupRegularExpressionKey:
		name = "regex " + k.RegularExpression
	case *sysrecord.ConsumerGroupMetadataKey:
		name = "group"
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataKey:
		name = "target"
	case *sysrecord.ConsumerGroupPartitionMetadataKey:
		name = "partition metadata"
	}
	switch v := r.Value.(type) {
	case nil:
		s.printf("write %s: forget %s", r.Group, name)
	case *sysrecord.ConsumerGroupMetadataValue:
		s.printf("write %s: %s epoch %d", r.Group, name, v.Epoch)
	case *sysrecord.ConsumerGroupTargetAssignmentMetadataValue:
		at := "never"
		if v.AssignmentTimestamp > 0 {
			at = fmt.Sprint(time.UnixMilli(v.AssignmentTimestamp).Sub(scenarioStart))
		}
		s.printf("write %s: %s epoch %d made %s", r.Group, name, v.AssignmentEpoch, at)
	case *sysrecord.ConsumerGroupMemberMetadataValue:
		said := saidFrom(v)
		line := fmt.Sprintf("write %s: %s%s reads %v%s", r.Group, name, static(said.instanceID), said.topics, said.regex)
		if said.assignor != nil {
			line += " by " + *said.assignor
		}
		if said.classic != nil {
			line += fmt.Sprintf(" classic session=%dms %s", said.classic.sessionTimeoutMs, said.classic.protocols[0].Name)
		}
		s.printf("%s", line)
	case *sysrecord.ConsumerGroupTargetAssignmentMemberValue:
		s.printf("write %s: %s %s", r.Group, name, s.named(targetFrom(v)))
	case *sysrecord.ConsumerGroupCurrentMemberAssignmentValue:
		place := placeFrom(v)
		line := fmt.Sprintf("write %s: %s epoch %d after %d %s has %s", r.Group, name, place.epoch, place.previous,
			[...]string{"stable", "unrevoked", "unreleased"}[place.state], s.named(place.assigned.assignment()))
		if len(place.revoking) > 0 {
			line += " gives back " + s.named(place.revoking.assignment())
		}
		s.printf("%s", line)
	case *sysrecord.ConsumerGroupRegularExpressionValue:
		s.printf("write %s: %s %v", r.Group, name, v.Topics)
	}
}

// kafkaRecord is a record that Kafka has written of a group that is not classic.
func (s *scenario) kafkaRecord(l line) Record {
	if l.name != "consumer" {
		return s.foreign(l)
	}
	group, name, epoch := l.option("group", "g"), l.option("name", ""), int32(s.number(l.option("epoch", "0")))
	r := &ConsumerRecord{Group: group}
	switch part := l.rest[0]; part {
	case "whole":
		r = epochRecord(group, epoch, 0)
	case "target":
		r = targetEpochRecord(group, epoch, 0)
	case "partitions":
		r.Key, r.Value = &sysrecord.ConsumerGroupPartitionMetadataKey{GroupID: group}, &sysrecord.ConsumerGroupPartitionMetadataValue{}
	case "member":
		said := memberSaid{topics: split(l.option("topics", "")), regex: l.option("regex", ""), rebalanceTimeoutMs: 60_000}
		r = said.record(group, name)
	case "target-member":
		r = targetRecord(group, name, nil)
	case "current":
		place := memberPlace{epoch: epoch, previous: epoch - 1}
		switch {
		case slices.Contains(l.rest, "unsettled"):
			place.state = memberUnreleased
		case slices.Contains(l.rest, "strange"):
			place.state = 7
		}
		r = place.record(group, name)
	case "regex":
		r = regexRecord(group, name, &resolvedRegex{topics: split(l.option("topics", "")), version: 1, atMs: s.now.UnixMilli()})
	default:
		s.t.Fatalf("unknown part %q", part)
	}
	if slices.Contains(l.rest, "gone") {
		r.Value = nil
	}
	return r
}

// TestMetadataHashIsKafkas: the numbers are what Kafka 4.4's Utils.computeTopicHash and computeGroupHash return.
func TestMetadataHashIsKafkas(t *testing.T) {
	c := newTestCluster()
	put := func(topic Topic) { c.topics[topic.Name], c.names[topic.ID] = topic, topic.Name }
	half := func(high, low uint64) (id kafka.TopicID) {
		for i := range 8 {
			id[7-i], id[15-i] = byte(high>>(8*i)), byte(low>>(8*i))
		}
		return id
	}
	const odd = "orders-é😀"
	put(Topic{"t", half(0x0123456789abcdef, 0xfedcba9876543210), 1})
	put(Topic{odd, half(^uint64(4), 7), 3})
	put(Topic{"big", half(1, 2), 500})
	m := New(testConfig(), func([]byte) {})
	m.Learn(c, nil, false)
	for _, one := range []struct {
		name  string
		racks []string
		want  int64
	}{{"t", nil, -293094115513245642}, {odd, []string{"rb", "ra"}, 4092215826048905938}, {"big", []string{"ra"}, 2252003759387896247}} {
		c.racks = one.racks
		if got := int64(m.topicHash(c.topics[one.name])); got != one.want {
			t.Errorf("topic %s: %d, from Kafka %d", one.name, got, one.want)
		}
	}
	one, gone := readers{byName: 1}, "no such topic"
	for _, set := range []struct {
		reads map[string]readers
		want  int64
	}{
		{map[string]readers{"t": one}, -5608117621903759585},
		{map[string]readers{"t": one, odd: one, "big": one, gone: one}, -8635222314945808627},
		{map[string]readers{gone: one}, 0},
	} {
		if got := m.metadataHash(set.reads); got != set.want {
			t.Errorf("topics %v: %d, from Kafka %d", set.reads, got, set.want)
		}
	}
}

// consumerGiven encodes what a consumer is given, when it is written @t.0.1+u.0; else it is the text.
func consumerGiven(text string) []byte {
	rest, ok := strings.CutPrefix(text, "@")
	if !ok {
		return []byte(text)
	}
	var topics []NamedPartitions
	for _, topic := range strings.Split(rest, "+") {
		parts := strings.Split(topic, ".")
		named := NamedPartitions{Topic: parts[0]}
		for _, p := range parts[1:] {
			n, _ := strconv.Atoi(p)
			named.Partitions = append(named.Partitions, int32(n))
		}
		topics = append(topics, named)
	}
	return appendConsumerAssignment(1, topics)
}

// given prints what a member was given.
func given(b []byte) string {
	topics, _, err := readConsumerAssignment(b)
	if err != nil || len(b) < 6 {
		return string(b)
	}
	var text []string
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		one := name
		for _, p := range topics[name] {
			one += fmt.Sprint(".", p)
		}
		text = append(text, one)
	}
	return "@" + strings.Join(text, "+")
}
