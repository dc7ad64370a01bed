package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// groups takes classic groups through their lives and looks at them from outside.
func (c *conversation) groups() {
	c.findCoordinators()
	c.announced()
	c.memberships()
	c.rebalance()
	c.alone()
	c.votes()
	c.connect()
	c.offsetCommits()
	c.offsetFetches()
	c.describeGroups()
	c.listGroups()
	c.offsetDeletes()
	c.deleteGroups()
}

// announced looks at groups that somebody has asked about and nobody is in.
func (c *conversation) announced() {
	gone := raw.At(2, kmsg.NewPtrDeleteGroupsRequest())
	gone.Groups = []string{"announced"}
	look := func(name string) {
		c.add("after "+name, raw.At(5, kmsg.NewPtrListGroupsRequest()))
		c.add("after "+name, gone)
	}
	c.add("a member id is given away", raw.Join(5, "announced", "", "range"))
	c.add("after a member id is given away", gone) // whether Kafka lists it depends on what it has written last
	c.add("not a member", raw.Join(5, "announced", "stranger", "range"))
	look("a stranger was refused")
	untyped := raw.Join(3, "announced", "")
	c.add("nothing to agree on", untyped)
	c.add("after a client without protocols was refused", gone) // here too
	short := raw.Join(3, "announced", "", "range")
	short.SessionTimeoutMillis = 1
	c.add("too short a session, a new group", short)
	look("a client with too short a session was refused")
	c.add("a heartbeat to nobody", raw.Heartbeat(4, "announced", "stranger", 1))
	c.add("offsets of nobody", raw.Offsets(8, "announced", nil))
	look("a heartbeat and a question for offsets")
}

// memberships takes one member through a group at each version, and tries what it may not.
func (c *conversation) memberships() {
	for _, v := range raw.VersionsOf(kmsg.JoinGroup) {
		group := fmt.Sprint("group", v)
		me := func(w *world) string { return w.member[group] }
		c.add("no group", raw.Join(v, "", "", "range"))
		c.add("no protocols", raw.Join(v, group, ""))
		c.add("a member nobody knows", raw.Join(v, group, "stranger", "range"))
		short := raw.Join(v, group, "", "range")
		short.SessionTimeoutMillis = 1
		c.add("too short a session", short)
		long := raw.Join(v, group, "", "range")
		long.SessionTimeoutMillis = 100_000_000
		c.add("too long a session", long)
		untyped := raw.Join(v, group, "", "range")
		untyped.ProtocolType = ""
		c.add("no protocol type", untyped)
		c.add("first", raw.Join(v, group, "", "range", "roundrobin"))
		if v >= 4 { // which is given an id first
			c.with("with the id", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return raw.Join(v, group, me(w), "range", "roundrobin") })
		}
		sv, hv, lv := min(v, 5), min(v, 4), min(v, 5)
		c.with("heartbeat before the assignment", kmsg.Heartbeat, hv, func(w *world) kmsg.Request { return raw.Heartbeat(hv, group, me(w), 1) })
		c.with("another generation", kmsg.SyncGroup, sv, func(w *world) kmsg.Request { return raw.Sync(sv, group, me(w), 7) })
		c.with("another protocol", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
			req := raw.Sync(sv, group, me(w), 1)
			req.Protocol = new("roundrobin")
			return req
		})
		c.with("no protocol", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
			req := raw.Sync(sv, "empty-handed", me(w), 1)
			req.Protocol, req.ProtocolType = nil, nil
			return req
		})
		c.with("first", kmsg.SyncGroup, sv, func(w *world) kmsg.Request { return raw.Sync(sv, group, me(w), 1, me(w)) })
		c.with("again", kmsg.SyncGroup, sv, func(w *world) kmsg.Request { return raw.Sync(sv, group, me(w), 1) })
		c.add("a member nobody knows", raw.Sync(sv, group, "stranger", 1))
		c.add("no group", raw.Sync(sv, "", "stranger", 1))
		c.with("right", kmsg.Heartbeat, hv, func(w *world) kmsg.Request { return raw.Heartbeat(hv, group, me(w), 1) })
		c.with("another generation", kmsg.Heartbeat, hv, func(w *world) kmsg.Request { return raw.Heartbeat(hv, group, me(w), 0) })
		c.add("a member nobody knows", raw.Heartbeat(hv, group, "stranger", 1))
		c.add("a group nobody knows", raw.Heartbeat(hv, "unheard-of", "stranger", 1))
		c.add("no group", raw.Heartbeat(hv, "", "stranger", 1))
		c.with("another kind of group", kmsg.JoinGroup, v, func(w *world) kmsg.Request {
			req := raw.Join(v, group, me(w), "range")
			req.ProtocolType = "connect"
			return req
		})
		c.with("the same again", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return raw.Join(v, group, me(w), "range", "roundrobin") })
		c.add("a member nobody knows", raw.Leave(lv, group, "stranger"))
		c.add("a group nobody knows", raw.Leave(lv, "unheard-of", "stranger"))
		c.add("no group", raw.Leave(lv, "", "stranger"))
		c.with("right and wrong", kmsg.LeaveGroup, lv, func(w *world) kmsg.Request { return raw.Leave(lv, group, "stranger", me(w)) })
		c.add("nobody", raw.Leave(lv, group))
	}
	for _, v := range []int16{5, 7, 9} {
		c.static(v)
	}
}

// static lets a member with an instance id come back under another member id.
func (c *conversation) static(v int16) {
	group := fmt.Sprint("static", v)
	sv, hv := min(v, 5), min(v, 4)
	join := func(w *world, member string) kmsg.Request {
		req := raw.Join(v, group, member, "range")
		req.InstanceID = new("instance")
		return req
	}
	var first string
	c.with("static", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return join(w, "") })
	c.with("static", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
		first = w.member[group]
		req := raw.Sync(sv, group, first, 1, first)
		req.InstanceID = new("instance")
		return req
	})
	c.with("static, back", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return join(w, "") })
	c.with("static, the one before", kmsg.Heartbeat, hv, func(w *world) kmsg.Request {
		req := raw.Heartbeat(hv, group, first, 1)
		req.InstanceID = new("instance")
		return req
	})
	c.with("static, the one before", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
		req := raw.Sync(sv, group, first, 1)
		req.InstanceID = new("instance")
		return req
	})
	c.with("static, another instance", kmsg.Heartbeat, hv, func(w *world) kmsg.Request {
		req := raw.Heartbeat(hv, group, w.member[group], 1)
		req.InstanceID = new("somebody else")
		return req
	})
	c.with("static, leaves by instance", kmsg.LeaveGroup, sv, func(w *world) kmsg.Request {
		req := raw.Leave(sv, group, "", "")
		req.Members[0].InstanceID, req.Members[1].InstanceID = new("instance"), new("somebody else")
		return req
	})
}

// rebalance has a second member join a group of one.
func (c *conversation) rebalance() {
	const group = "rebalanced"
	one, two := "", ""
	c.add("the first", raw.Join(3, group, "", "range"))
	c.with("the first", kmsg.SyncGroup, 3, func(w *world) kmsg.Request {
		one = w.member[group]
		return raw.Sync(3, group, one, 1, one)
	})
	parked := c.add("the second", raw.Join(3, group, "", "range"))
	parked.conn, parked.park = 1, true
	c.with("until the second comes", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return raw.Heartbeat(4, group, one, 1) }).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.HeartbeatResponse).ErrorCode == 27
	}
	c.with("while members join", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return raw.Sync(3, group, one, 1) })
	c.with("while members join", kmsg.OffsetCommit, 8, func(*world) kmsg.Request { return raw.Commit(8, group, one, 1, raw.CommitRow{Topic: "r", Offset: 1}) })
	c.add("while members join", raw.DescribeGroups(6, group))
	c.with("the first joins again", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return raw.Join(3, group, one, "range") })
	c.take("the second has joined", kmsg.JoinGroup, 3, 1)
	c.with("while one assigns", kmsg.OffsetCommit, 8, func(w *world) kmsg.Request {
		two = w.member[group]
		return raw.Commit(8, group, one, 2, raw.CommitRow{Topic: "r", Offset: 2})
	})
	c.with("while one assigns", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return raw.Heartbeat(4, group, two, 2) })
	c.add("while one assigns", raw.DescribeGroups(6, group))
	c.with("the first assigns", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return raw.Sync(3, group, one, 2, one, two) })
	c.with("the second", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return raw.Sync(3, group, two, 2) })
	c.with("from outside", kmsg.OffsetCommit, 8, func(*world) kmsg.Request { return raw.Commit(8, group, "", -1, raw.CommitRow{Topic: "r", Offset: 3}) })
	c.add("of two members", raw.DescribeGroups(6, group))
	c.with("the second leaves", kmsg.LeaveGroup, 5, func(*world) kmsg.Request { return raw.Leave(5, group, two) })
	c.with("alone again", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return raw.Heartbeat(4, group, one, 2) })
	c.with("alone again", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return raw.Join(3, group, one, "range") })
	c.with("alone again", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return raw.Sync(3, group, one, 3, one) })
}

// alone has a group of one commit in every version and in every state, as itself and as others.
func (c *conversation) alone() {
	for _, v := range raw.VersionsOf(kmsg.OffsetCommit) {
		group := fmt.Sprint("alone", v)
		commit := func(name, member string, generation int32, instance *string) {
			c.with(name, kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
				row := raw.CommitRow{Topic: "r", Offset: 5}
				if v >= 10 {
					row = raw.CommitRow{ID: w.id("r"), Offset: 5}
				}
				id := member
				if id == "me" {
					id = w.member[group]
				}
				req := raw.Commit(v, group, id, generation, row)
				req.InstanceID = instance
				return req
			})
		}
		all := func(state string) {
			commit("a member, "+state, "me", 1, nil)
			commit("a member of another generation, "+state, "me", 2, nil)
			commit("a member of no generation, "+state, "me", -1, nil)
			commit("a stranger, "+state, "stranger", 1, nil)
			commit("nobody, "+state, "", -1, nil)
			commit("nobody of a generation, "+state, "", 1, nil)
			if v >= 7 {
				commit("a member that is no instance, "+state, "me", 1, new("instance"))
			}
		}
		all("no group")
		c.add("for commits of "+group, raw.Join(3, group, "", "range"))
		all("before the assignment")
		c.with("for commits of "+group, kmsg.SyncGroup, 3, func(w *world) kmsg.Request { return raw.Sync(3, group, w.member[group], 1, w.member[group]) })
		all("stable")
		c.with("of "+group, kmsg.LeaveGroup, 3, func(w *world) kmsg.Request { return raw.Leave(3, group, w.member[group]) })
		all("empty")
		c.add("of "+group, raw.Offsets(8, group, nil))
	}
}

// votes lets members of different minds choose a protocol.
func (c *conversation) votes() {
	const group = "votes"
	one := ""
	c.add("the first voter", raw.Join(5, group, "", "range", "roundrobin"))
	c.with("the first voter with its id", kmsg.JoinGroup, 5, func(w *world) kmsg.Request { return raw.Join(5, group, w.member[group], "range", "roundrobin") })
	c.with("the first voter", kmsg.SyncGroup, 5, func(w *world) kmsg.Request {
		one = w.member[group]
		return raw.Sync(5, group, one, 1, one)
	})
	c.add("a voter of another mind", raw.Join(3, group, "", "sticky"))
	c.add("a voter of another kind", func() kmsg.Request {
		req := raw.Join(3, group, "", "range")
		req.ProtocolType = "connect"
		return req
	}())
	parked := c.add("the second voter", raw.Join(3, group, "", "sticky", "roundrobin"))
	parked.conn, parked.park = 1, true
	c.with("until the second voter comes", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return raw.Heartbeat(4, group, one, 1) }).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.HeartbeatResponse).ErrorCode == 27
	}
	for _, v := range raw.VersionsOf(kmsg.DescribeGroups) {
		c.add("while voters join", raw.DescribeGroups(v, group))
	}
	c.with("the first voter again", kmsg.JoinGroup, 5, func(*world) kmsg.Request { return raw.Join(5, group, one, "range", "roundrobin") })
	c.take("the second voter has joined", kmsg.JoinGroup, 3, 1)
	for _, v := range raw.VersionsOf(kmsg.DescribeGroups) {
		c.add("before the vote's assignment", raw.DescribeGroups(v, group))
	}
	c.with("the vote's assignment under another protocol", kmsg.SyncGroup, 5, func(w *world) kmsg.Request { return raw.Sync(5, group, one, 2, one, w.member[group]) })
	c.with("the vote's assignment", kmsg.SyncGroup, 5, func(w *world) kmsg.Request {
		req := raw.Sync(5, group, one, 2, one)
		req.Protocol = new("roundrobin")
		return req
	})
	c.with("the second voter has nothing", kmsg.SyncGroup, 4, func(w *world) kmsg.Request { return raw.Sync(4, group, w.member[group], 2) })
	for _, v := range raw.VersionsOf(kmsg.DescribeGroups) {
		c.add("after the vote", raw.DescribeGroups(v, group))
	}
	c.with("a voter that stays with a heartbeat of before", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return raw.Heartbeat(4, group, one, 1) })
	c.with("both voters", kmsg.LeaveGroup, 5, func(w *world) kmsg.Request { return raw.Leave(5, group, one, w.member[group], one) })
	c.add("after both voters left", raw.DescribeGroups(6, group))
}

// connect is a group that is none of consumers.
func (c *conversation) connect() {
	const group = "connect"
	join := func(v int16) kmsg.Request {
		req := raw.Join(v, group, "", "sessioned")
		req.ProtocolType = "connect"
		req.Protocols[0].Metadata = []byte("no subscription")
		return req
	}
	c.add("of workers", join(3))
	c.with("of workers", kmsg.SyncGroup, 5, func(w *world) kmsg.Request {
		req := raw.Sync(5, group, w.member[group], 1, w.member[group])
		req.ProtocolType, req.Protocol = new("connect"), new("sessioned")
		return req
	})
	c.with("of consumers, they say", kmsg.SyncGroup, 5, func(w *world) kmsg.Request { return raw.Sync(5, group, w.member[group], 1) })
	for _, v := range raw.VersionsOf(kmsg.DescribeGroups) {
		c.add("of workers", raw.DescribeGroups(v, group))
	}
	c.add("of workers", raw.At(5, kmsg.NewPtrListGroupsRequest()))
	c.add("of workers", func() kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic, t.Partitions = "r", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
		req.Topics = append(req.Topics, t)
		return req
	}())
	c.with("of workers", kmsg.LeaveGroup, 5, func(w *world) kmsg.Request { return raw.Leave(5, group, w.member[group]) })
}
