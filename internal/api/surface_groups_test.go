package api_test

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// subscription is what a member of the classic protocol says that it reads: version 0, one topic.
func subscription(topic string) []byte {
	b := append([]byte{0, 0, 0, 0, 0, 1, 0, byte(len(topic))}, topic...)
	return append(b, 0, 0, 0, 0)
}

func joinRequest(version int16, group, member string, protocols ...string) *kmsg.JoinGroupRequest {
	req := at(version, kmsg.NewPtrJoinGroupRequest())
	req.Group, req.MemberID, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, member, 300_000, 300_000, "consumer"
	for _, name := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, subscription("r")
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

func syncRequest(version int16, group, member string, generation int32, assigned ...string) *kmsg.SyncGroupRequest {
	req := at(version, kmsg.NewPtrSyncGroupRequest())
	req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = group, member, generation, new("consumer"), new("range")
	for _, id := range assigned {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte("assignment")
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func heartbeatRequest(version int16, group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := at(version, kmsg.NewPtrHeartbeatRequest())
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

// leaveRequest names one member up to version 2 and all of them from 3 on.
func leaveRequest(version int16, group string, members ...string) *kmsg.LeaveGroupRequest {
	req := at(version, kmsg.NewPtrLeaveGroupRequest())
	req.Group = group
	for _, id := range members {
		req.MemberID = id
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		req.Members = append(req.Members, m)
	}
	return req
}

// commitRow is one partition's offset.
type commitRow struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
}

func commitRequest(version int16, group, member string, generation int32, rows ...commitRow) *kmsg.OffsetCommitRequest {
	req := at(version, kmsg.NewPtrOffsetCommitRequest())
	req.Group, req.MemberID, req.Generation = group, member, generation
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.topic || req.Topics[n-1].TopicID != r.id {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = r.topic, r.id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = r.partition, r.offset, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// offsetsRequest asks for the offsets of one group, in the shape of its version. Topics of nil are all.
func offsetsRequest(version int16, group string, topics []commitRow) *kmsg.OffsetFetchRequest {
	req := at(version, kmsg.NewPtrOffsetFetchRequest())
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if topics != nil {
		req.Topics, g.Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, r := range topics {
		one := kmsg.NewOffsetFetchRequestTopic()
		one.Topic, one.Partitions = r.topic, []int32{r.partition}
		req.Topics = append(req.Topics, one)
		many := kmsg.NewOffsetFetchRequestGroupTopic()
		many.Topic, many.TopicID, many.Partitions = r.topic, r.id, []int32{r.partition}
		g.Topics = append(g.Topics, many)
	}
	if version >= 8 {
		req.Groups = append(req.Groups, g)
	}
	return req
}

func (c *conversation) groups() {
	c.coordinators()
	c.announced()
	c.memberships()
	c.rebalance()
	c.commits()
	for _, v := range versionsOf(kmsg.DescribeGroups) {
		req := at(v, kmsg.NewPtrDescribeGroupsRequest())
		req.Groups = []string{"rebalanced", "nobody's", "", "offsets2", "rebalanced", "grüppe ☃"}
		req.IncludeAuthorizedOperations = v%2 == 0
		c.add("right and wrong", req)
		right := at(v, kmsg.NewPtrDescribeGroupsRequest())
		right.Groups = []string{"rebalanced", "offsets2"}
		c.add("right", right)
		c.add("no groups", at(v, kmsg.NewPtrDescribeGroupsRequest()))
	}
	for _, v := range versionsOf(kmsg.ListGroups) {
		for _, filter := range [][2]string{{"", ""}, {"Stable", ""}, {"stable,EMPTY", ""}, {"nonsense", ""}, {"", "classic"}, {"", "CONSUMER"}, {"Empty", "Classic"}, {"", "nonsense"}} {
			req := at(v, kmsg.NewPtrListGroupsRequest())
			if filter[0] != "" {
				req.StatesFilter = strings.Split(filter[0], ",")
			}
			if filter[1] != "" {
				req.TypesFilter = strings.Split(filter[1], ",")
			}
			c.add(fmt.Sprintf("states %q, types %q", filter[0], filter[1]), req)
		}
	}
	c.forget()
}

func (c *conversation) coordinators() {
	for _, v := range versionsOf(kmsg.FindCoordinator) {
		for _, kind := range []int8{0, 3, -1} {
			for _, key := range []string{"rebalanced", "", "grüppe ☃"} {
				req := at(v, kmsg.NewPtrFindCoordinatorRequest())
				req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, key, []string{key, "another", key}
				s := c.add(fmt.Sprintf("type %d, key %q", kind, key), req)
				if kind == 0 {
					s.till = found
				}
			}
		}
		for _, key := range []string{"g1", "g1:x:0", ":AAAAAAAAAAAAAAAAAAAAAA:0", "g1:AAAAAAAAAAAAAAAAAAAAAA:x", "g1:AAAAAAAAAAAAAAAAAAAAAA"} {
			req := at(v, kmsg.NewPtrFindCoordinatorRequest())
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = 2, key, []string{key}
			c.add(fmt.Sprintf("a share partition of key %q", key), req)
		}
	}
}

// announced looks at groups that somebody has asked about and nobody is in.
func (c *conversation) announced() {
	look := func(name string) {
		c.add("after "+name, at(5, kmsg.NewPtrListGroupsRequest()))
		gone := at(2, kmsg.NewPtrDeleteGroupsRequest())
		gone.Groups = []string{"announced"}
		c.add("after "+name, gone)
	}
	c.add("a member id is given away", joinRequest(5, "announced", "", "range"))
	look("a member id is given away")
	c.add("not a member", joinRequest(5, "announced", "stranger", "range"))
	look("a stranger was refused")
	untyped := joinRequest(3, "announced", "")
	c.add("nothing to agree on", untyped)
	look("a client without protocols was refused")
	short := joinRequest(3, "announced", "", "range")
	short.SessionTimeoutMillis = 1
	c.add("too short a session, a new group", short)
	look("a client with too short a session was refused")
	c.add("a heartbeat to nobody", heartbeatRequest(4, "announced", "stranger", 1))
	c.add("offsets of nobody", offsetsRequest(8, "announced", nil))
	look("a heartbeat and a question for offsets")
}

// found tells whether the coordinators' topic is there.
func found(resp kmsg.Response) bool {
	r := resp.(*kmsg.FindCoordinatorResponse)
	for _, one := range r.Coordinators {
		if one.ErrorCode == 15 {
			return false
		}
	}
	return r.ErrorCode != 15
}

// memberships takes one member through a group at each version, and tries what it may not.
func (c *conversation) memberships() {
	for _, v := range versionsOf(kmsg.JoinGroup) {
		group := fmt.Sprint("group", v)
		me := func(w *world) string { return w.member[group] }
		c.add("no group", joinRequest(v, "", "", "range"))
		c.add("no protocols", joinRequest(v, group, ""))
		c.add("a member nobody knows", joinRequest(v, group, "stranger", "range"))
		short := joinRequest(v, group, "", "range")
		short.SessionTimeoutMillis = 1
		c.add("too short a session", short)
		long := joinRequest(v, group, "", "range")
		long.SessionTimeoutMillis = 100_000_000
		c.add("too long a session", long)
		untyped := joinRequest(v, group, "", "range")
		untyped.ProtocolType = ""
		c.add("no protocol type", untyped)
		c.add("first", joinRequest(v, group, "", "range", "roundrobin"))
		if v >= 4 { // which is given an id first
			c.with("with the id", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return joinRequest(v, group, me(w), "range", "roundrobin") })
		}
		sv, hv, lv := min(v, 5), min(v, 4), min(v, 5)
		c.with("heartbeat before the assignment", kmsg.Heartbeat, hv, func(w *world) kmsg.Request { return heartbeatRequest(hv, group, me(w), 1) })
		c.with("another generation", kmsg.SyncGroup, sv, func(w *world) kmsg.Request { return syncRequest(sv, group, me(w), 7) })
		c.with("another protocol", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
			req := syncRequest(sv, group, me(w), 1)
			req.Protocol = new("roundrobin")
			return req
		})
		c.with("no protocol", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
			req := syncRequest(sv, "empty-handed", me(w), 1)
			req.Protocol, req.ProtocolType = nil, nil
			return req
		})
		c.with("first", kmsg.SyncGroup, sv, func(w *world) kmsg.Request { return syncRequest(sv, group, me(w), 1, me(w)) })
		c.with("again", kmsg.SyncGroup, sv, func(w *world) kmsg.Request { return syncRequest(sv, group, me(w), 1) })
		c.add("a member nobody knows", syncRequest(sv, group, "stranger", 1))
		c.add("no group", syncRequest(sv, "", "stranger", 1))
		c.with("right", kmsg.Heartbeat, hv, func(w *world) kmsg.Request { return heartbeatRequest(hv, group, me(w), 1) })
		c.with("another generation", kmsg.Heartbeat, hv, func(w *world) kmsg.Request { return heartbeatRequest(hv, group, me(w), 0) })
		c.add("a member nobody knows", heartbeatRequest(hv, group, "stranger", 1))
		c.add("a group nobody knows", heartbeatRequest(hv, "unheard-of", "stranger", 1))
		c.add("no group", heartbeatRequest(hv, "", "stranger", 1))
		c.with("another kind of group", kmsg.JoinGroup, v, func(w *world) kmsg.Request {
			req := joinRequest(v, group, me(w), "range")
			req.ProtocolType = "connect"
			return req
		})
		c.with("the same again", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return joinRequest(v, group, me(w), "range", "roundrobin") })
		c.add("a member nobody knows", leaveRequest(lv, group, "stranger"))
		c.add("a group nobody knows", leaveRequest(lv, "unheard-of", "stranger"))
		c.add("no group", leaveRequest(lv, "", "stranger"))
		c.with("right and wrong", kmsg.LeaveGroup, lv, func(w *world) kmsg.Request { return leaveRequest(lv, group, "stranger", me(w)) })
		c.add("nobody", leaveRequest(lv, group))
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
		req := joinRequest(v, group, member, "range")
		req.InstanceID = new("instance")
		return req
	}
	var first string
	c.with("static", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return join(w, "") })
	c.with("static", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
		first = w.member[group]
		req := syncRequest(sv, group, first, 1, first)
		req.InstanceID = new("instance")
		return req
	})
	c.with("static, back", kmsg.JoinGroup, v, func(w *world) kmsg.Request { return join(w, "") })
	c.with("static, the one before", kmsg.Heartbeat, hv, func(w *world) kmsg.Request {
		req := heartbeatRequest(hv, group, first, 1)
		req.InstanceID = new("instance")
		return req
	})
	c.with("static, the one before", kmsg.SyncGroup, sv, func(w *world) kmsg.Request {
		req := syncRequest(sv, group, first, 1)
		req.InstanceID = new("instance")
		return req
	})
	c.with("static, another instance", kmsg.Heartbeat, hv, func(w *world) kmsg.Request {
		req := heartbeatRequest(hv, group, w.member[group], 1)
		req.InstanceID = new("somebody else")
		return req
	})
	c.with("static, leaves by instance", kmsg.LeaveGroup, sv, func(w *world) kmsg.Request {
		req := leaveRequest(sv, group, "", "")
		req.Members[0].InstanceID, req.Members[1].InstanceID = new("instance"), new("somebody else")
		return req
	})
}

// rebalance has a second member join a group of one.
func (c *conversation) rebalance() {
	const group = "rebalanced"
	one, two := "", ""
	c.add("the first", joinRequest(3, group, "", "range"))
	c.with("the first", kmsg.SyncGroup, 3, func(w *world) kmsg.Request {
		one = w.member[group]
		return syncRequest(3, group, one, 1, one)
	})
	parked := c.add("the second", joinRequest(3, group, "", "range"))
	parked.conn, parked.park = 1, true
	c.with("until the second comes", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return heartbeatRequest(4, group, one, 1) }).till = func(resp kmsg.Response) bool {
		return resp.(*kmsg.HeartbeatResponse).ErrorCode == 27
	}
	c.with("while members join", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return syncRequest(3, group, one, 1) })
	c.with("while members join", kmsg.OffsetCommit, 8, func(*world) kmsg.Request { return commitRequest(8, group, one, 1, commitRow{"r", [16]byte{}, 0, 1}) })
	c.add("while members join", describeGroups(6, group))
	c.with("the first joins again", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return joinRequest(3, group, one, "range") })
	c.take("the second has joined", kmsg.JoinGroup, 3, 1)
	c.with("while one assigns", kmsg.OffsetCommit, 8, func(w *world) kmsg.Request {
		two = w.member[group]
		return commitRequest(8, group, one, 2, commitRow{"r", [16]byte{}, 0, 2})
	})
	c.with("while one assigns", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return heartbeatRequest(4, group, two, 2) })
	c.add("while one assigns", describeGroups(6, group))
	c.with("the first assigns", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return syncRequest(3, group, one, 2, one, two) })
	c.with("the second", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return syncRequest(3, group, two, 2) })
	c.with("from outside", kmsg.OffsetCommit, 8, func(*world) kmsg.Request { return commitRequest(8, group, "", -1, commitRow{"r", [16]byte{}, 0, 3}) })
	c.add("of two members", describeGroups(6, group))
	c.with("the second leaves", kmsg.LeaveGroup, 5, func(*world) kmsg.Request { return leaveRequest(5, group, two) })
	c.with("alone again", kmsg.Heartbeat, 4, func(*world) kmsg.Request { return heartbeatRequest(4, group, one, 2) })
	c.with("alone again", kmsg.JoinGroup, 3, func(*world) kmsg.Request { return joinRequest(3, group, one, "range") })
	c.with("alone again", kmsg.SyncGroup, 3, func(*world) kmsg.Request { return syncRequest(3, group, one, 3, one) })
}

func describeGroups(version int16, names ...string) *kmsg.DescribeGroupsRequest {
	req := at(version, kmsg.NewPtrDescribeGroupsRequest())
	req.Groups = names
	return req
}

func (c *conversation) commits() {
	for _, v := range versionsOf(kmsg.OffsetCommit) {
		row := func(w *world, topic string, partition int32, offset int64) commitRow {
			if v < 10 {
				return commitRow{topic, [16]byte{}, partition, offset}
			}
			if id, ok := w.ids[topic]; ok {
				return commitRow{"", id, partition, offset}
			}
			return commitRow{"", strangeID, partition, offset}
		}
		group := fmt.Sprint("offsets", v)
		c.with("right", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return commitRequest(v, group, "", -1, row(w, "r", 0, 10), row(w, "r", 1, 0))
		})
		c.with("right and wrong", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return commitRequest(v, group, "", -1, row(w, "r", 2, 12), row(w, "r", 99, 1), row(w, "r", -1, 1), row(w, "nope", 0, 1), row(w, longName, 0, 5))
		})
		c.with("a partition twice", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return commitRequest(v, group, "", -1, row(w, "r", 2, 13), row(w, "r", 2, 14))
		})
		c.with("only wrong", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, "unheard-of", "", -1, row(w, "nope", 0, 1)) })
		c.with("a negative offset", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, group, "", -1, row(w, "compact", 0, -7)) })
		c.with("a member nobody knows", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, group, "stranger", 1, row(w, "r", 0, 1)) })
		c.with("a group nobody knows", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			return commitRequest(v, "unheard-of", "stranger", 1, row(w, "r", 0, 1))
		})
		c.with("a generation alone", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, group, "", 3, row(w, "r", 0, 1)) })
		c.with("no group", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, "", "", -1, row(w, "r", 0, 1)) })
		c.with("long metadata", kmsg.OffsetCommit, v, func(w *world) kmsg.Request {
			req := commitRequest(v, group, "", -1, row(w, "r", 0, 15), row(w, "r", 1, 16))
			req.Topics[0].Partitions[0].Metadata, req.Topics[0].Partitions[1].Metadata = new(strings.Repeat("m", 4097)), new("méta")
			return req
		})
		c.add("no topics", commitRequest(v, group, "", -1))
		c.with("into a live group", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, "rebalanced", "", -1, row(w, "r", 0, 1)) })
		c.with("a group of unicode", kmsg.OffsetCommit, v, func(w *world) kmsg.Request { return commitRequest(v, "grüppe ☃", "", -1, row(w, "r", 0, 77)) })
	}
	for _, v := range versionsOf(kmsg.OffsetFetch) {
		row := func(w *world, topic string, partition int32) commitRow {
			if v < 10 {
				return commitRow{topic, [16]byte{}, partition, 0}
			}
			if id, ok := w.ids[topic]; ok {
				return commitRow{"", id, partition, 0}
			}
			return commitRow{"", strangeID, partition, 0}
		}
		c.with("right", kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
			return offsetsRequest(v, "offsets3", []commitRow{row(w, "r", 0), row(w, "r", 1), row(w, "r", 2)})
		})
		c.with("right and wrong", kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
			return offsetsRequest(v, "offsets3", []commitRow{row(w, "r", 0), row(w, "nope", 0), row(w, "r", 50), row(w, "r", 0), row(w, "compact", 0), row(w, "r", -1)})
		})
		c.with("a group nobody knows", kmsg.OffsetFetch, v, func(w *world) kmsg.Request { return offsetsRequest(v, "unheard-of", []commitRow{row(w, "r", 0)}) })
		c.with("no group", kmsg.OffsetFetch, v, func(w *world) kmsg.Request { return offsetsRequest(v, "", []commitRow{row(w, "r", 0)}) })
		c.with("a group of unicode", kmsg.OffsetFetch, v, func(w *world) kmsg.Request { return offsetsRequest(v, "grüppe ☃", []commitRow{row(w, "r", 0)}) })
		c.add("no topics", offsetsRequest(v, "offsets3", []commitRow{}))
		if v >= 2 {
			c.add("all of nobody", offsetsRequest(v, "unheard-of", nil))
			c.add("all of one", offsetsRequest(v, "grüppe ☃", nil))
		}
		if v >= 8 {
			c.with("many groups", kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
				req := offsetsRequest(v, "offsets3", []commitRow{row(w, "r", 0)})
				for _, name := range []string{"grüppe ☃", "unheard-of", "offsets3", ""} {
					req.Groups = append(req.Groups, offsetsRequest(v, name, []commitRow{row(w, "r", 0), row(w, "nope", 1)}).Groups[0])
				}
				req.RequireStable = true
				return req
			})
		}
		if v >= 9 {
			for _, member := range []struct {
				id    *string
				epoch int32
			}{{new("stranger"), 1}, {nil, 3}, {new(""), -1}, {new("stranger"), -1}} {
				name := fmt.Sprintf("as a member, epoch %d, %v", member.epoch, member.id != nil)
				c.with(name, kmsg.OffsetFetch, v, func(w *world) kmsg.Request {
					req := offsetsRequest(v, "offsets3", []commitRow{row(w, "r", 0)})
					req.Groups[0].MemberID, req.Groups[0].MemberEpoch = member.id, member.epoch
					return req
				})
			}
		}
	}
}

// forget deletes offsets and groups.
func (c *conversation) forget() {
	for _, group := range []string{"offsets4", "rebalanced", "unheard-of", ""} {
		for _, topics := range [][]string{{"r"}, {"nope"}, {"r", "nope", "r"}, {}} {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = group
			for _, name := range topics {
				t := kmsg.NewOffsetDeleteRequestTopic()
				t.Topic = name
				for _, number := range []int32{0, 44, 0} {
					p := kmsg.NewOffsetDeleteRequestTopicPartition()
					p.Partition = number
					t.Partitions = append(t.Partitions, p)
				}
				req.Topics = append(req.Topics, t)
			}
			c.add(fmt.Sprintf("group %q, topics %q", group, topics), req)
		}
	}
	c.add("after offsets were deleted", offsetsRequest(8, "offsets4", nil))
	for _, v := range versionsOf(kmsg.DeleteGroups) {
		for _, names := range [][]string{{fmt.Sprint("offsets", 5+v)}, {"rebalanced", "unheard-of", "", "unheard-of", fmt.Sprint("group", v)}, {}} {
			req := at(v, kmsg.NewPtrDeleteGroupsRequest())
			req.Groups = names
			c.add(fmt.Sprintf("groups %q", names), req)
		}
	}
}
