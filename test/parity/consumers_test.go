package parity

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// beat is one ConsumerGroupHeartbeat, told in the words of the conversation.
type beat struct {
	group, member string
	epoch         int32
	instance      string
	topics        []string
	regex         *string
	assignor      string
	has           []int32 // of the topic cons
	says          bool    // what it has
	timeout       int32
}

func (b beat) request(w *world, version int16) kmsg.Request {
	req := raw.At(version, kmsg.NewPtrConsumerGroupHeartbeatRequest())
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = b.group, b.member, b.epoch, -1
	req.SubscribedTopicNames, req.SubscribedTopicRegex = b.topics, b.regex
	if b.instance != "" {
		req.InstanceID = &b.instance
	}
	if b.assignor != "" {
		req.ServerAssignor = &b.assignor
	}
	if b.epoch == 0 {
		req.RebalanceTimeoutMillis, req.Topics = 300_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if b.timeout != 0 {
		req.RebalanceTimeoutMillis = b.timeout
	}
	if b.says || len(b.has) > 0 {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if len(b.has) > 0 {
		t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		t.TopicID, t.Partitions = w.ids["cons"], b.has
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (c *conversation) beat(name string, version int16, b beat) *step {
	return c.with(name, kmsg.ConsumerGroupHeartbeat, version, func(w *world) kmsg.Request { return b.request(w, version) })
}

func describeConsumers(version int16, names ...string) *kmsg.ConsumerGroupDescribeRequest {
	req := raw.At(version, kmsg.NewPtrConsumerGroupDescribeRequest())
	req.Groups = names
	req.IncludeAuthorizedOperations = version == 0
	return req
}

// consumers is the consumer protocol (KIP-848).
func (c *conversation) consumers() {
	c.add("topics for consumers", raw.CreateTopics(7, raw.NewTopic("cons", 4, 1)))
	c.add("another topic for consumers", raw.CreateTopics(7, raw.NewTopic("cons2", 1, 1)))
	c.waitFor("cons", "cons2")
	for _, v := range raw.VersionsOf(kmsg.ConsumerGroupHeartbeat) {
		c.oddBeats(v)
		c.twoConsumers(v)
		c.staticConsumers(v)
		c.consumerOffsets(v)
	}
	c.regexConsumers()
	c.growing()
	c.upgrade()
	c.downgrade()
	c.emptyChanges()
}

// quick lets a group be assigned anew at once: Kafka leaves a second between two assignments.
func (c *conversation) quick(group string) {
	req := raw.At(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = 32, group
	one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	one.Name, one.Value = "consumer.assignment.interval.ms", new("0")
	r.Configs = append(r.Configs, one)
	req.Resources = append(req.Resources, r)
	c.add("assign at once "+group, req)
	ask := raw.At(4, kmsg.NewPtrDescribeConfigsRequest())
	which := kmsg.NewDescribeConfigsRequestResource()
	which.ResourceType, which.ResourceName, which.ConfigNames = 32, group, []string{"consumer.assignment.interval.ms"}
	ask.Resources = append(ask.Resources, which)
	c.add("assign at once "+group, ask).till = func(resp kmsg.Response) bool {
		configs := resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs
		return len(configs) == 1 && configs[0].Value != nil && *configs[0].Value == "0"
	}
}

func (c *conversation) oddBeats(v int16) {
	group := fmt.Sprint("odd consumers ", v)
	read := []string{"cons"}
	odd := map[string]beat{
		"a blank member":             {member: " ", epoch: 3},
		"no member that leaves":      {member: "", epoch: -1},
		"no timeout":                 {member: "A", topics: read, timeout: -1},
		"joins with something":       {member: "A", topics: read, has: []int32{0}},
		"nothing to read":            {member: "A"},
		"for now, without instance":  {member: "A", epoch: -2},
		"a strange epoch":            {member: "A", epoch: -3},
		"a blank instance":           {member: "A", instance: " ", topics: read},
		"an assignor nobody has":     {member: "A", topics: read, assignor: "sticky"},
		"a group nobody knows":       {member: "A", epoch: 1},
		"leaves a group of nobody":   {member: "A", epoch: -1},
		"a static one leaves nobody": {member: "A", instance: "i", epoch: -2},
	}
	for _, name := range slices.Sorted(maps.Keys(odd)) {
		b := odd[name]
		b.group = group
		c.beat(name, v, b)
	}
	c.beat("no group", v, beat{member: "A", topics: read})
	c.beat("a classic group without members", v, beat{group: "offsets3", member: "A", epoch: 1})
	c.beat("leaves a classic group", v, beat{group: "offsets3", member: "A", epoch: -1})
	c.add("odd groups", describeConsumers(v, "offsets3", group, "", "grüppe ☃"))
	c.add("no groups", describeConsumers(v))
}

// twoConsumers takes two members through joining, giving back, losing answers and leaving.
func (c *conversation) twoConsumers(v int16) {
	group := fmt.Sprint("two consumers ", v)
	read := []string{"cons"}
	say := func(name string, b beat) {
		b.group = group
		c.beat(name, v, b)
	}
	look := func(name string) {
		c.add(name, describeConsumers(v, group))
		c.add(name+", as a classic group", raw.DescribeGroups(6, group))
		c.add(name+", listed", listOf("", "consumer"))
	}
	c.quick(group)
	say("A joins", beat{member: "A", topics: read})
	look("A has joined")
	say("A has it", beat{member: "A", epoch: 2, has: []int32{0, 1, 2, 3}})
	say("A is there", beat{member: "A", epoch: 2})
	say("A says all", beat{member: "A", epoch: 2, topics: read, timeout: 300_000, has: []int32{0, 1, 2, 3}})
	say("B joins", beat{member: "B", topics: read})
	look("B has joined")
	say("A is told", beat{member: "A", epoch: 2, has: []int32{0, 1, 2, 3}})
	say("A is there, giving back", beat{member: "A", epoch: 2})
	say("A gives one", beat{member: "A", epoch: 2, has: []int32{0, 1, 2}})
	say("B waits", beat{member: "B", epoch: 3, says: true})
	look("A gives back")
	say("A gives the other", beat{member: "A", epoch: 2, has: []int32{0, 1}})
	say("B gets them", beat{member: "B", epoch: 3, says: true})
	look("both are there")
	say("A lost an answer", beat{member: "A", epoch: 2, has: []int32{0, 1}})
	say("A lost an answer and has too much", beat{member: "A", epoch: 2, has: []int32{0, 1, 2}})
	say("A at the epoch before, silent", beat{member: "A", epoch: 2})
	say("A at an old epoch", beat{member: "A", epoch: 1, says: true})
	say("A at a later epoch", beat{member: "A", epoch: 4, says: true})
	say("nobody", beat{member: "C", epoch: 3})
	say("A joins again", beat{member: "A", topics: read})
	say("A reads nothing more", beat{member: "A", epoch: 3, topics: []string{}, has: []int32{0, 1}})
	say("A has given back", beat{member: "A", epoch: 3, says: true})
	say("B gets all", beat{member: "B", epoch: 3, has: []int32{2, 3}})
	look("A reads nothing")
	say("A wants range", beat{member: "A", epoch: 4, topics: read, assignor: "range", says: true})
	say("B gives back", beat{member: "B", epoch: 4, has: []int32{2, 3}})
	look("by range")
	c.add("two consumers", deleteConsumerGroups(group, "odd consumers 0"))
	c.add("two consumers", offsetDelete(group, "cons", "cons2"))
	say("B leaves", beat{member: "B", epoch: -1})
	say("B leaves again", beat{member: "B", epoch: -1})
	say("A gets the rest", beat{member: "A", epoch: 5, has: []int32{0, 1}})
	c.add("A is taken out", raw.Leave(5, group, "A", "B"))
	look("nobody is there")
	say("A is not there", beat{member: "A", epoch: 6})
	c.add("no consumers", deleteConsumerGroups(group))
	if v == 0 {
		say("no member id", beat{topics: read})
	}
}

// listOf asks for groups of some states and types.
func listOf(state, kind string) *kmsg.ListGroupsRequest {
	req := raw.At(5, kmsg.NewPtrListGroupsRequest())
	if state != "" {
		req.StatesFilter = []string{state}
	}
	if kind != "" {
		req.TypesFilter = []string{kind}
	}
	return req
}

func deleteConsumerGroups(names ...string) *kmsg.DeleteGroupsRequest {
	req := raw.At(2, kmsg.NewPtrDeleteGroupsRequest())
	req.Groups = names
	return req
}

func offsetDelete(group string, topics ...string) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	for _, name := range topics {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = name
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (c *conversation) staticConsumers(v int16) {
	group := fmt.Sprint("static consumers ", v)
	read := []string{"cons"}
	say := func(name string, b beat) {
		b.group = group
		c.beat("static, "+name, v, b)
	}
	c.quick(group)
	say("A joins", beat{member: "A", instance: "one", topics: read})
	say("its instance is taken", beat{member: "B", instance: "one", topics: read})
	say("another instance", beat{member: "A", instance: "two", epoch: 2})
	say("another member", beat{member: "B", instance: "one", epoch: 2})
	say("leaves as another", beat{member: "B", instance: "one", epoch: -2})
	say("without its instance", beat{member: "A", epoch: 2})
	say("leaves for now", beat{member: "A", instance: "one", epoch: -2})
	c.add("static, away", describeConsumers(v, group))
	say("is away", beat{member: "A", instance: "one", epoch: 2})
	say("comes back as B", beat{member: "B", instance: "one", topics: read})
	say("the old one", beat{member: "A", instance: "one", epoch: 2})
	say("goes on", beat{member: "B", instance: "one", epoch: 2, has: []int32{0, 1, 2, 3}})
	c.add("static, back", describeConsumers(v, group))
	say("comes back at once", beat{member: "B", instance: "one", topics: read})
	say("leaves for good", beat{member: "B", instance: "one", epoch: -1})
	c.add("static, gone", describeConsumers(v, group))
}

// consumerOffsets commits and reads offsets as a member.
func (c *conversation) consumerOffsets(v int16) {
	group := fmt.Sprint("offsets of consumers ", v)
	read := []string{"cons"}
	c.quick(group)
	c.beat("offsets, A joins", v, beat{group: group, member: "A", topics: read})
	row := func(w *world, version int16, partition int32, offset int64) raw.CommitRow {
		if version < 10 {
			return raw.CommitRow{Topic: "cons", Partition: partition, Offset: offset}
		}
		return raw.CommitRow{ID: w.ids["cons"], Partition: partition, Offset: offset}
	}
	for version := int16(8); version <= 10; version++ {
		commit := func(name, member string, epoch int32, partitions ...int32) {
			c.with(fmt.Sprint(group, ", ", name), kmsg.OffsetCommit, version, func(w *world) kmsg.Request {
				var rows []raw.CommitRow
				for _, p := range partitions {
					rows = append(rows, row(w, version, p, 7))
				}
				return raw.Commit(version, group, member, epoch, rows...)
			})
		}
		commit("A", "A", 2, 0, 1)
		commit("from outside", "", -1, 0)
		commit("a stranger", "X", 2, 0)
		commit("a later epoch", "A", 9, 0)
		commit("an older epoch", "A", 1, 0)
	}
	c.beat("offsets, B joins", v, beat{group: group, member: "B", topics: read})
	c.beat("offsets, A gives back", v, beat{group: group, member: "A", epoch: 2, has: []int32{0, 1, 2, 3}})
	commit := func(name, member string, epoch int32, partitions ...int32) {
		c.with(fmt.Sprint(group, ", then ", name), kmsg.OffsetCommit, 9, func(w *world) kmsg.Request {
			var rows []raw.CommitRow
			for _, p := range partitions {
				rows = append(rows, row(w, 9, p, 8))
			}
			return raw.Commit(9, group, member, epoch, rows...)
		})
	}
	commit("A what it gives back", "A", 2, 2)
	c.beat("offsets, A has given back", v, beat{group: group, member: "A", epoch: 2, has: []int32{0, 1}})
	c.beat("offsets, B gets it", v, beat{group: group, member: "B", epoch: 3, says: true})
	commit("A what it had before", "A", 2, 0)
	commit("A what it has no more", "A", 2, 2)
	commit("A both", "A", 2, 0, 2)
	commit("B what it has now", "B", 3, 2)
	commit("B before it had it", "B", 2, 2)
	for _, version := range []int16{9, 10} {
		for _, member := range []struct {
			name  string
			id    *string
			epoch int32
		}{{"A", new("A"), 3}, {"A before", new("A"), 2}, {"A at no epoch", new("A"), -1}, {"X", new("X"), 3}, {"nobody", nil, -1}} {
			c.with(fmt.Sprint(group, ", as ", member.name), kmsg.OffsetFetch, version, func(w *world) kmsg.Request {
				req := raw.Offsets(version, group, []raw.CommitRow{row(w, version, 0, 0), row(w, version, 2, 0)})
				req.Groups[0].MemberID, req.Groups[0].MemberEpoch = member.id, member.epoch
				return req
			})
		}
	}
}

// regexConsumers reads by regular expressions: their topics come with a later heartbeat.
func (c *conversation) regexConsumers() {
	const group = "consumers by expression"
	c.quick(group)
	c.beat("an expression that is none", 1, beat{group: group, member: "A", regex: new("con(s")})
	c.beat("an expression", 1, beat{group: group, member: "A", regex: new("con.")})
	c.beat("until the expression is resolved", 1, beat{group: group, member: "A", epoch: 1, says: true}).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch == 2
	}
	c.add("by expression", describeConsumers(1, group))
	c.beat("another by the same expression", 1, beat{group: group, member: "B", regex: new("con.")})
	c.beat("both by expression", 1, beat{group: group, member: "A", epoch: 2, has: []int32{0, 1, 2, 3}})
	c.beat("B by name", 1, beat{group: group, member: "B", epoch: 3, regex: new(""), topics: []string{"cons"}, says: true})
	c.add("by expression and by name", describeConsumers(1, group))
	c.add("by expression", offsetDelete(group, "cons", "cons2"))
	c.beat("A leaves", 1, beat{group: group, member: "A", epoch: -1})
	c.beat("an expression that matches nothing", 1, beat{group: group + " 2", member: "A", regex: new("nothing")})
}

// growing has a topic grow, and another one come, under members that read them.
func (c *conversation) growing() {
	const group = "consumers of what grows"
	c.quick(group)
	c.beat("not there yet", 1, beat{group: group, member: "A", topics: []string{"later"}})
	c.beat("still not there", 1, beat{group: group, member: "A", epoch: 2, says: true})
	c.add("for consumers", raw.CreateTopics(7, raw.NewTopic("later", 1, 1)))
	c.beat("until the topic is there", 1, beat{group: group, member: "A", epoch: 2, says: true}).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch == 3
	}
	c.add("the topic is there", describeConsumers(1, group))
	grow := raw.At(1, kmsg.NewPtrCreatePartitionsRequest())
	grow.TimeoutMillis = 10_000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = "later", 3
	grow.Topics = append(grow.Topics, t)
	c.add("for consumers", grow)
	c.beat("until the topic has grown", 1, beat{group: group, member: "A", epoch: 3}).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch == 4
	}
	c.add("the topic has grown", describeConsumers(1, group))
}

// consumerMetadata is what a member of the classic protocol says: version 1, one topic, and what it has.
func consumerMetadata(topic string, has ...int32) []byte {
	b := append([]byte{0, 1, 0, 0, 0, 1, 0, byte(len(topic))}, topic...)
	b = append(b, 0xff, 0xff, 0xff, 0xff)
	if len(has) == 0 {
		return append(b, 0, 0, 0, 0)
	}
	given := consumerAssignment(topic, has...)
	return append(b, given[2:len(given)-4]...)
}

// consumerAssignment is what such a member is given.
func consumerAssignment(topic string, partitions ...int32) []byte {
	b := append([]byte{0, 1, 0, 0, 0, 1, 0, byte(len(topic))}, topic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(partitions)))
	for _, p := range partitions {
		b = binary.BigEndian.AppendUint32(b, uint32(p))
	}
	return append(b, 0xff, 0xff, 0xff, 0xff)
}

func classicJoin(group, member string, has ...int32) *kmsg.JoinGroupRequest {
	req := raw.Join(3, group, member, "range")
	req.Protocols[0].Metadata = consumerMetadata("cons", has...)
	return req
}

// upgrade has a member of the new protocol join a classic group, which stays until the last classic member leaves.
func (c *conversation) upgrade() {
	const group = "upgraded"
	me := func(w *world) string { return w.member[group] }
	c.quick(group)
	c.with("to be upgraded", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return classicJoin(group, "") })
	c.with("to be upgraded", kmsg.SyncGroup, 3, func(w *world) kmsg.Request {
		req := raw.Sync(3, group, me(w), 1, me(w))
		req.GroupAssignment[0].MemberAssignment = consumerAssignment("cons", 0, 1, 2, 3)
		return req
	})
	c.beat("upgrades", 1, beat{group: group, member: "A", topics: []string{"cons"}})
	c.add("upgraded", describeConsumers(1, group))
	c.add("upgraded", raw.DescribeGroups(6, group))
	beat4 := func(name string, generation int32) {
		c.with(name, kmsg.Heartbeat, 4, func(w *world) kmsg.Request { return raw.Heartbeat(4, group, me(w), generation) })
	}
	sync := func(name string, generation int32) *step {
		return c.with(name, kmsg.SyncGroup, 5, func(w *world) kmsg.Request { return raw.Sync(5, group, me(w), generation) })
	}
	beat4("the classic one in an upgraded group", 1)
	sync("the classic one has to join", 1)
	c.with("the classic one joins with all", kmsg.JoinGroup, 3, func(w *world) kmsg.Request { return classicJoin(group, me(w), 0, 1, 2, 3) })
	c.add("the classic one gives back", describeConsumers(1, group))
	beat4("the classic one gives back", 1)
	sync("the classic one gives back", 1)
	c.with("the classic one joins with less", kmsg.JoinGroup, 3, func(w *world) kmsg.Request { return classicJoin(group, me(w), 0, 1) })
	sync("the classic one has less", 2)
	beat4("the classic one has less", 2)
	beat4("the classic one at another generation", 1)
	c.with("the classic one by another protocol", kmsg.SyncGroup, 5, func(w *world) kmsg.Request {
		req := raw.Sync(5, group, me(w), 2)
		req.Protocol = new("roundrobin")
		return req
	})
	c.add("as a classic one", raw.Heartbeat(4, group, "A", 2))
	c.add("as a classic one", raw.Sync(5, group, "A", 2))
	c.add("classic, nobody", raw.Heartbeat(4, group, "X", 2))
	c.add("classic, of another kind", func() *kmsg.JoinGroupRequest {
		req := classicJoin(group, "")
		req.ProtocolType = "connect"
		return req
	}())
	c.add("classic, by another protocol", raw.Join(3, group, "", "sticky"))
	c.beat("A gets the rest", 1, beat{group: group, member: "A", epoch: 2, says: true})
	for _, generation := range []int32{2, 1, 9} {
		c.with(fmt.Sprint("the classic one commits at ", generation), kmsg.OffsetCommit, 8, func(w *world) kmsg.Request {
			return raw.Commit(8, group, me(w), generation, raw.CommitRow{Topic: "cons", Partition: 3, Offset: 5})
		})
	}
	c.add("upgraded, settled", describeConsumers(1, group))
	c.with("the classic one leaves", kmsg.LeaveGroup, 5, func(w *world) kmsg.Request { return raw.Leave(5, group, me(w)) })
	c.add("upgraded, alone", describeConsumers(1, group))
	refused := "refused upgrade"
	c.with("of another kind", kmsg.JoinGroup, 3, func(*world) kmsg.Request {
		req := raw.Join(3, refused, "", "x")
		req.ProtocolType = "connect"
		return req
	})
	c.beat("cannot upgrade", 1, beat{group: refused, member: "A", topics: []string{"cons"}})
}

// downgrade has the last member of the new protocol leave a group with a classic one.
func (c *conversation) downgrade() {
	const group = "downgraded"
	me := func(w *world) string { return w.member[group] }
	c.quick(group)
	c.beat("to be downgraded", 1, beat{group: group, member: "A", topics: []string{"cons"}})
	c.with("a classic one joins", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return classicJoin(group, "") })
	c.with("a classic one joins", kmsg.SyncGroup, 3, func(w *world) kmsg.Request { return raw.Sync(3, group, me(w), 3) })
	c.add("before the downgrade", describeConsumers(1, group))
	c.beat("leaves the classic one alone", 1, beat{group: group, member: "A", epoch: -1})
	c.add("just downgraded", raw.DescribeGroups(6, group))
	c.add("downgraded", describeConsumers(1, group))
	c.with("downgraded", kmsg.Heartbeat, 4, func(w *world) kmsg.Request { return raw.Heartbeat(4, group, me(w), 3) })
	c.with("downgraded", kmsg.JoinGroup, 3, func(w *world) kmsg.Request { return classicJoin(group, me(w)) })
	c.with("downgraded", kmsg.SyncGroup, 3, func(w *world) kmsg.Request { return raw.Sync(3, group, me(w), 4, me(w)) })
	c.add("downgraded, settled", raw.DescribeGroups(6, group))
}

// emptyChanges has groups without members change their type.
func (c *conversation) emptyChanges() {
	const group = "of both types"
	commit := func(name string) {
		c.add(name, raw.Commit(8, group, "", -1, raw.CommitRow{Topic: "cons", Partition: 0, Offset: 3}))
	}
	commit("a group of offsets")
	c.beat("takes the group of offsets", 1, beat{group: group, member: "A", topics: []string{"cons"}})
	c.add("took the group of offsets", describeConsumers(1, group))
	c.beat("leaves the group of offsets", 1, beat{group: group, member: "A", epoch: -1})
	commit("an empty consumer group")
	c.with("takes the empty consumer group", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return classicJoin(group, "") })
	c.add("the group is classic", raw.DescribeGroups(6, group))
	c.with("the empty group is left", kmsg.LeaveGroup, 5, func(w *world) kmsg.Request { return raw.Leave(5, group, w.member[group]) })
	c.beat("takes the empty classic group", 1, beat{group: group, member: "A", topics: []string{"cons"}})
	c.add("the group is a consumer group", describeConsumers(1, group))
	c.add("the group's offset is there", raw.Offsets(8, group, nil))
}
