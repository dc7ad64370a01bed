package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// member is whom a TxnOffsetCommit says that it comes from.
type member struct {
	id         string // "me" is the member that the group has
	generation int32
	instance   *string
}

// nobody commits from outside.
var nobody = member{"", -1, nil}

// commits stores an offset of partitions of a topic in the producer's transaction.
func (c *conversation) commits(name string, v int16, p who, group string, m member, topic string, partitions ...int32) *step {
	return c.with(name, kmsg.TxnOffsetCommit, v, func(w *world) kmsg.Request {
		var rows []raw.CommitRow
		for _, n := range partitions {
			row := raw.CommitRow{Topic: topic, Partition: n, Offset: 40 + int64(v)}
			if v >= 6 {
				row.Topic, row.ID = "", w.id(topic)
			}
			rows = append(rows, row)
		}
		id := m.id
		if id == "me" {
			id = w.member[group]
		}
		req := p(w).CommitOffsets(v, group, id, m.generation, rows...)
		req.InstanceID = m.instance
		return req
	})
}

// stableOffsets asks for a group's offsets at each version, as one that can wait and as one that can't.
func (c *conversation) stableOffsets(when, group string) {
	for _, v := range raw.VersionsOf(kmsg.OffsetFetch) {
		for _, stable := range []bool{true, false} {
			if v < 7 && stable {
				continue
			}
			c.with(fmt.Sprintf("rule 70: %s, stable %v", when, stable), kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
				rows := []raw.CommitRow{{Topic: "tx"}, {Topic: "tx", Partition: 1}, {Topic: "txsent"}}
				for i := range rows {
					if v >= 10 {
						rows[i].ID, rows[i].Topic = w.id(rows[i].Topic), ""
					}
				}
				req := raw.Offsets(v, group, rows)
				req.RequireStable = stable
				return req
			})
			if v >= 2 {
				req := raw.Offsets(v, group, nil)
				req.RequireStable = stable
				c.add(fmt.Sprintf("rule 70: %s, all, stable %v", when, stable), req)
			}
		}
	}
}

// transactionalOffsets stores offsets in transactions, with and without AddOffsetsToTxn, as members of all kinds of groups.
func (c *conversation) transactionalOffsets() {
	for _, v := range raw.VersionsOf(kmsg.AddOffsetsToTxn) {
		me := c.begins(fmt.Sprint("add-offsets", v))
		c.addsOffsets("right", v, me, "add-offsets")
		c.addsOffsets("again", v, me, "add-offsets")
		c.addsOffsets("no group", v, me, "")
		c.addsOffsets("a group of unicode", v, me, "grüppe ☃")
		c.addsOffsets("an epoch ago", v, me.epochs(-1), "add-offsets")
		c.addsOffsets("an epoch ahead", v, me.epochs(1), "add-offsets")
		c.addsOffsets("another producer id", v, me.stranger(), "add-offsets")
		c.addsOffsets("nobody knows the id", v, me.under("unheard-of"), "add-offsets")
		c.addsOffsets("no id", v, me.under(""), "add-offsets")
		c.add("with offsets of version "+fmt.Sprint(v), raw.DescribeTransactions(fmt.Sprint("add-offsets", v)))
		c.ends("of offsets of version "+fmt.Sprint(v), 5, me, v%2 == 0)
		c.over(fmt.Sprint("add-offsets", v))
	}
	for _, v := range raw.VersionsOf(kmsg.TxnOffsetCommit) {
		c.offsetsFromOutside(v)
	}
	for _, v := range raw.VersionsOf(kmsg.TxnOffsetCommit) {
		c.offsetsOfMembers(v)
	}
	c.offsetsOfConsumers()
	c.offsetsOfSeveral()
}

// offsetsFromOutside stores offsets for a group that has no members.
func (c *conversation) offsetsFromOutside(v int16) {
	id, group := fmt.Sprint("offsets", v), fmt.Sprint("txgroup", v)
	me := c.begins(id)
	c.commits("rule 69: nothing added, nothing open", v, me, group, nobody, "tx", 0)
	c.ends("of what version "+fmt.Sprint(v)+" has begun", 4, me, false)
	c.over(id)
	c.inits("for offsets of version "+fmt.Sprint(v), 4, newcomer(id), minute).till = calm
	c.adds("for offsets of version "+fmt.Sprint(v), 3, me, in("tx", 0)).till = calm
	c.commits("rule 69: another is added", v, me, group, nobody, "tx", 0)
	c.addsOffsets("for offsets of version "+fmt.Sprint(v), 3, me, group)
	c.commits("right", v, me, group, nobody, "tx", 0, 1)
	c.commits("right and wrong", v, me, group, nobody, "tx", 0, 9, -1)
	c.commits("unknown topic", v, me, group, nobody, "nope", 0)
	c.commits("no topics", v, me, group, nobody, "tx")
	c.commits("no group", v, me, "", nobody, "tx", 0)
	c.commits("another group", v, me, group+"-other", nobody, "tx", 0)
	c.commits("an epoch ago", v, me.epochs(-1), group, nobody, "tx", 0)
	c.commits("an epoch ahead", v, me.epochs(1), group, nobody, "tx", 0)
	c.commits("another producer id", v, me.stranger(), group, nobody, "tx", 0)
	c.commits("nobody knows the id", v, me.under("unheard-of"), group, nobody, "tx", 0)
	c.commits("no id", v, me.under(""), group, nobody, "tx", 0)
	c.commits("a generation of nobody", v, me, group, member{"", 1, nil}, "tx", 0)
	c.commits("a member nobody knows", v, me, group, member{"stranger", 1, nil}, "tx", 0)
	c.commits("a member nobody knows, of no generation", v, me, group, member{"stranger", -1, nil}, "tx", 0)
	c.commits("an instance nobody knows", v, me, group, member{"", -1, new("instance")}, "tx", 0)
	c.with("long metadata", kmsg.TxnOffsetCommit, v, func(w *world) kmsg.Request {
		row := raw.CommitRow{Topic: "tx", Partition: 2, Offset: 1}
		if v >= 6 {
			row.Topic, row.ID = "", w.id("tx")
		}
		req := me(w).CommitOffsets(v, group, "", -1, row)
		req.Topics[0].Partitions[0].Metadata = new(raw.LongestString[:4097])
		return req
	})
	c.with("rows of all kinds", kmsg.TxnOffsetCommit, v, func(w *world) kmsg.Request {
		rows := []raw.CommitRow{{Topic: "tx", Partition: 1, Offset: -1}, {Topic: "txsent", Offset: 3}, {Topic: "nope", Offset: 3}, {Topic: "tx", Partition: 1, Offset: 7}}
		for i := range rows {
			if v >= 6 {
				rows[i].ID, rows[i].Topic = w.id(rows[i].Topic), ""
			}
		}
		return me(w).CommitOffsets(v, group, "", -1, rows...)
	})
	c.stableOffsets(group+" pending", group)
	c.with("while offsets are pending", kmsg.OffsetCommit, 9, func(*world) kmsg.Request {
		return raw.Commit(9, group, "", -1, raw.CommitRow{Topic: "tx", Offset: 99})
	})
	c.add("while its offsets are pending", raw.DescribeGroups(6, group))
	gone := raw.At(2, kmsg.NewPtrDeleteGroupsRequest())
	gone.Groups = []string{group + "-other"}
	c.add("while offsets of version "+fmt.Sprint(v)+" are pending", gone)
	c.ends("with offsets of version "+fmt.Sprint(v), 4, me, v%2 == 0)
	c.over(id)
	c.stableOffsets(group+" after the end", group)
	c.commits("of the epoch that has ended", v, me, group, nobody, "tx", 0)
	c.add("too late for version "+fmt.Sprint(v), raw.DescribeTransactions(id))
	c.ends("with late offsets of version "+fmt.Sprint(v), 5, me, false).till = calm
	c.over(id)
	c.stableOffsets(group+" after late offsets", group)
}

// offsetsOfMembers stores offsets for a classic group that has one member, and one with an instance id.
func (c *conversation) offsetsOfMembers(v int16) {
	id, group := fmt.Sprint("member-offsets", v), fmt.Sprint("txmembers", v)
	me := c.begins(id)
	c.addsOffsets("of members, version "+fmt.Sprint(v), 3, me, group)
	all := func(state string) {
		for _, m := range []struct {
			name string
			member
		}{
			{"a member", member{"me", 1, nil}},
			{"rule 69: of another generation", member{"me", 2, nil}},
			{"of no generation", member{"me", -1, nil}},
			{"rule 69: a stranger", member{"stranger", 1, nil}},
			{"from outside", nobody},
			{"from outside, of a generation", member{"", 1, nil}},
			{"rule 69: of another instance", member{"me", 1, new("somebody else")}},
			{"as an instance", member{"me", 1, new("instance")}},
			{"a stranger's instance", member{"stranger", 1, new("instance")}},
		} {
			c.commits(m.name+", "+state, v, me, group, m.member, "tx", 0)
		}
	}
	c.add("for transactions of "+group, raw.Join(3, group, "", "range"))
	all("before the assignment")
	c.with("for transactions of "+group, kmsg.SyncGroup, 3, func(w *world) kmsg.Request { return raw.Sync(3, group, w.member[group], 1, w.member[group]) })
	all("stable")
	c.with("of "+group, kmsg.LeaveGroup, 3, func(w *world) kmsg.Request { return raw.Leave(3, group, w.member[group]) })
	all("empty")
	c.with("for an instance of "+group, kmsg.JoinGroup, 5, func(*world) kmsg.Request {
		req := raw.Join(5, group, "", "range")
		req.InstanceID = new("instance")
		return req
	})
	all("of an instance")
	c.add("of "+group+" in a transaction", raw.Offsets(8, group, nil))
	c.ends("of members, version "+fmt.Sprint(v), 4, me, true)
	c.over(id)
	c.add("of "+group+" after it", raw.Offsets(8, group, nil))
}

// offsetsOfConsumers stores offsets for a group of the consumer protocol.
func (c *conversation) offsetsOfConsumers() {
	const group = "txconsumers"
	beat := raw.At(1, kmsg.NewPtrConsumerGroupHeartbeatRequest())
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = group, "consumer", minute
	beat.SubscribedTopicNames, beat.Topics = []string{"tx"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	c.add("for transactions", beat)
	me := c.begins("consumer-offsets")
	c.addsOffsets("of consumers", 3, me, group)
	for _, v := range raw.VersionsOf(kmsg.TxnOffsetCommit) {
		for _, m := range []member{
			{"consumer", 1, nil}, {"consumer", 2, nil}, {"consumer", 0, nil}, {"consumer", -1, nil}, {"stranger", 1, nil}, nobody, {"", 1, nil}, {"consumer", 1, new("instance")},
		} {
			c.commits(fmt.Sprintf("of a consumer group, member %q of epoch %d, %v", m.id, m.generation, m.instance != nil), v, me, group, m, "tx", 1)
		}
	}
	c.ends("of consumers", 4, me, false)
	c.over("consumer-offsets")
	c.add("of consumers after an abort", raw.Offsets(8, group, nil))
}

// offsetsOfSeveral has two transactions store offsets of one partition, and one outside of any.
func (c *conversation) offsetsOfSeveral() {
	const group = "txseveral"
	one, two := c.begins("several-one"), c.begins("several-two")
	c.commits("the first of several", 5, one, group, nobody, "tx", 0)
	c.commits("the second of several", 4, two.under("several-two"), group, nobody, "tx", 0)
	c.commits("the second of several", 5, two, group, nobody, "tx", 0)
	c.with("beside transactions", kmsg.OffsetCommit, 9, func(*world) kmsg.Request {
		return raw.Commit(9, group, "", -1, raw.CommitRow{Topic: "tx", Offset: 7})
	})
	c.stableOffsets("two are open", group)
	c.ends("the second of several", 5, two, true)
	c.over("several-two")
	c.stableOffsets("one is open", group)
	c.ends("the first of several", 5, one, false)
	c.over("several-one")
	c.stableOffsets("none is open", group)
}
