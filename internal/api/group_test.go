package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/coord"
	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// newGroupNode is a node with a coordinator; __consumer_offsets is created when somebody asks for a coordinator.
func newGroupNode(t testing.TB) *node {
	t.Helper()
	n := newNode(t)
	n.api.Coord = coord.New(coord.Options{
		NodeID: 1, Partitions: n.api.Replicas, Image: n.api.Quorum.Image,
		CreateTopic: func(ctx context.Context, name string) error {
			topic, ok := n.api.InternalTopic(name)
			if !ok {
				return errors.New("not an internal topic")
			}
			topic.ReplicationFactor, topic.Partitions = 1, 5
			results, err := n.api.Quorum.CreateTopics(ctx, meta.CreateTopics{Topics: []meta.NewTopic{topic}})
			if err == nil {
				err = results[0].Err
			}
			n.api.Coord.Apply(nil, n.api.Quorum.Image())
			return err
		},
		Group: group.Config{
			SessionTimeoutMin: time.Second, SessionTimeoutMax: time.Hour, MembersMax: 100, OffsetMetadataMax: 100,
			OffsetsRetention: time.Hour, NewMemberJoinTimeout: time.Minute,
		},
		LoadGrace: time.Minute,
	})
	n.api.Transact = n.api.Coord.Transact
	t.Cleanup(func() {
		if err := n.api.Coord.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n.findGroup("any")
	return n
}

func (n *node) findGroup(name string) {
	n.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = name
	resp := n.call(req).(*kmsg.FindCoordinatorResponse)
	if resp.ErrorCode != 0 || resp.NodeID != 1 || resp.Host != "broker.example" || resp.Port != 9092 {
		n.Fatalf("the coordinator of %s: %+v", name, resp)
	}
}

// versions yields every version that is served of a request's key.
func versions(req kmsg.Request) func(func(int16) bool) {
	rows := index(table)
	e := rows.entry(req.Key())
	return func(yield func(int16) bool) {
		for v := e.min; v <= e.max; v++ {
			req.SetVersion(v)
			if !yield(v) {
				return
			}
		}
	}
}

// join makes the client the only member of a group, and its leader.
func (n *node) join(name string, version int16, instance *string) *kmsg.JoinGroupResponse {
	n.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.SetVersion(version)
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = name, 300_000, 300_000, "consumer"
	req.InstanceID = instance
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	resp := n.call(req).(*kmsg.JoinGroupResponse)
	if kafka.Error(resp.ErrorCode) == kafka.MemberIdRequired {
		if version < 4 || resp.MemberID == "" || resp.Generation != -1 {
			n.Fatalf("join v%d: %+v", version, resp)
		}
		req.MemberID = resp.MemberID
		resp = n.call(req).(*kmsg.JoinGroupResponse)
	}
	if resp.ErrorCode != 0 || resp.LeaderID != resp.MemberID || len(resp.Members) != 1 || resp.Protocol == nil || *resp.Protocol != "range" {
		n.Fatalf("join v%d: %+v", version, resp)
	}
	return resp
}

func (n *node) sync(name string, version int16, joined *kmsg.JoinGroupResponse) *kmsg.SyncGroupResponse {
	n.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.SetVersion(version)
	req.Group, req.Generation, req.MemberID = name, joined.Generation, joined.MemberID
	req.ProtocolType, req.Protocol = new("consumer"), new("range")
	given := kmsg.NewSyncGroupRequestGroupAssignment()
	given.MemberID, given.MemberAssignment = joined.MemberID, []byte("all")
	req.GroupAssignment = append(req.GroupAssignment, given)
	resp := n.call(req).(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != 0 || string(resp.MemberAssignment) != "all" {
		n.Fatalf("sync v%d: %+v", version, resp)
	}
	return resp
}

func TestGroupsAtEveryVersion(t *testing.T) {
	n := newGroupNode(t)
	for version := range versions(kmsg.NewPtrJoinGroupRequest()) {
		name := fmt.Sprint("group", version)
		joined := n.join(name, version, nil)
		if version >= 7 && (joined.ProtocolType == nil || *joined.ProtocolType != "consumer") {
			t.Errorf("join v%d: protocol type %v", version, joined.ProtocolType)
		}
		synced := n.sync(name, min(version, 5), joined)
		if version >= 5 && (synced.Protocol == nil || *synced.Protocol != "range") {
			t.Errorf("sync v5: %+v", synced)
		}
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.SetVersion(min(version, 4))
		beat.Group, beat.Generation, beat.MemberID = name, joined.Generation, joined.MemberID
		if resp := n.call(beat).(*kmsg.HeartbeatResponse); resp.ErrorCode != 0 {
			t.Errorf("heartbeat v%d: %+v", beat.Version, resp)
		}
		beat.Generation++
		if resp := n.call(beat).(*kmsg.HeartbeatResponse); kafka.Error(resp.ErrorCode) != kafka.IllegalGeneration {
			t.Errorf("heartbeat v%d of another generation: %+v", beat.Version, resp)
		}
		n.leave(name, min(version, 5), joined.MemberID)
	}
}

func (n *node) leave(name string, version int16, memberID string) {
	n.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.SetVersion(version)
	req.Group, req.MemberID = name, memberID
	for _, id := range []string{memberID, "nobody"} {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.Reason = id, new("it is over")
		req.Members = append(req.Members, m)
	}
	resp := n.call(req).(*kmsg.LeaveGroupResponse)
	if resp.ErrorCode != 0 {
		n.Fatalf("leave v%d: %+v", version, resp)
	}
	if version < 3 {
		again := n.call(req).(*kmsg.LeaveGroupResponse)
		if kafka.Error(again.ErrorCode) != kafka.UnknownMemberId {
			n.Errorf("leave v%d again: %+v, want UNKNOWN_MEMBER_ID", version, again)
		}
		return
	}
	if len(resp.Members) != 2 || resp.Members[0].ErrorCode != 0 || kafka.Error(resp.Members[1].ErrorCode) != kafka.UnknownMemberId {
		n.Errorf("leave v%d: %+v", version, resp)
	}
}

func TestSyncMustNameItsProtocol(t *testing.T) {
	n := newGroupNode(t)
	req := kmsg.NewPtrSyncGroupRequest()
	req.SetVersion(5)
	req.Group, req.MemberID = "g", "m"
	if resp := n.call(req).(*kmsg.SyncGroupResponse); kafka.Error(resp.ErrorCode) != kafka.InconsistentGroupProtocol {
		t.Errorf("sync v5 without a protocol: %+v, want INCONSISTENT_GROUP_PROTOCOL", resp)
	}
}

// commit stores an offset in each partition of a topic, from outside the group.
func (n *node) commit(version int16, name, topic string, id kafka.TopicID, partitions ...int32) *kmsg.OffsetCommitResponse {
	n.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(version)
	req.Group = name
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	for _, p := range partitions {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, 100+int64(p), 3, new("note")
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return n.call(req).(*kmsg.OffsetCommitResponse)
}

// TestRule47 is: partitions that do not exist are refused one by one, the others are stored.
func TestRule47(t *testing.T) {
	n := newGroupNode(t)
	id := n.topic("t", 3)
	for version := range versions(kmsg.NewPtrOffsetCommitRequest()) {
		name := fmt.Sprint("g", version)
		resp := n.commit(version, name, "t", id, 0, 99, 2, -1)
		var got []kafka.Error
		for _, p := range resp.Topics[0].Partitions {
			got = append(got, kafka.Error(p.ErrorCode))
		}
		if fmt.Sprint(got) != "[NONE(0) UNKNOWN_TOPIC_OR_PARTITION(3) NONE(0) UNKNOWN_TOPIC_OR_PARTITION(3)]" {
			t.Errorf("commit v%d: %v", version, got)
		}
		if version >= 10 && resp.Topics[0].TopicID != id || version < 10 && resp.Topics[0].Topic != "t" {
			t.Errorf("commit v%d: topic %+v", version, resp.Topics[0])
		}
		if got := n.stored(name, "t", id, 9); fmt.Sprint(got) != "[100 -1 102]" {
			t.Errorf("after the commit v%d partitions 0 to 2 have %v", version, got)
		}
		want := kafka.UnknownTopicOrPartition
		if version >= 10 {
			want = kafka.UnknownTopicId
		}
		resp = n.commit(version, name, "missing", kafka.TopicID{7}, 0)
		if code := kafka.Error(resp.Topics[0].Partitions[0].ErrorCode); code != want {
			t.Errorf("commit v%d to a topic that is not there: %v, want %v", version, code, want)
		}
	}
}

// stored reads partitions 0, 1 and 2 at a version from 8 on.
func (n *node) stored(name, topic string, id kafka.TopicID, version int16) (offsets []int64) {
	n.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.SetVersion(version)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = name
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, id, []int32{0, 1, 2}
	g.Topics = append(g.Topics, rt)
	req.Groups = append(req.Groups, g)
	resp := n.call(req).(*kmsg.OffsetFetchResponse)
	for _, p := range resp.Groups[0].Topics[0].Partitions {
		offsets = append(offsets, p.Offset)
	}
	return offsets
}

func TestOffsetFetchAtEveryVersion(t *testing.T) {
	n := newGroupNode(t)
	id := n.topic("t", 3)
	n.commit(10, "g", "", id, 0, 2)
	for version := range versions(kmsg.NewPtrOffsetFetchRequest()) {
		if version < 8 {
			n.fetchOne(version)
			continue
		}
		req := kmsg.NewPtrOffsetFetchRequest()
		req.SetVersion(version)
		for _, name := range []string{"g", "nobody", "g"} {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = name
			req.Groups = append(req.Groups, g)
		}
		known, unknown := kmsg.NewOffsetFetchRequestGroupTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		known.Topic, known.TopicID, known.Partitions = "t", id, []int32{2, 1}
		unknown.Topic, unknown.TopicID, unknown.Partitions = "missing", kafka.TopicID{7}, []int32{0}
		req.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{unknown, known}
		resp := n.call(req).(*kmsg.OffsetFetchResponse)
		want := kafka.None
		if version >= 10 {
			want = kafka.UnknownTopicId
		}
		first := resp.Groups[0].Topics
		if p := first[0].Partitions[0]; p.Offset != -1 || p.LeaderEpoch != -1 || p.Metadata == nil || kafka.Error(p.ErrorCode) != want {
			t.Errorf("v%d: a topic that is not there: %+v, want %v", version, p, want)
		}
		if p := first[1].Partitions[0]; p.Partition != 2 || p.Offset != 102 || p.LeaderEpoch != 3 || *p.Metadata != "note" || p.ErrorCode != 0 {
			t.Errorf("v%d: partition 2: %+v", version, p)
		}
		if p := first[1].Partitions[1]; p.Offset != -1 || p.LeaderEpoch != -1 || *p.Metadata != "" {
			t.Errorf("v%d: partition 1 without an offset: %+v", version, p)
		}
		if g := resp.Groups[1]; g.Group != "nobody" || len(g.Topics) != 0 || g.ErrorCode != 0 {
			t.Errorf("v%d: a group that is not there: %+v", version, g)
		}
		if all := resp.Groups[2].Topics; len(all) != 1 || len(all[0].Partitions) != 2 || all[0].Partitions[1].Offset != 102 {
			t.Errorf("v%d: all offsets: %+v", version, all)
		}
	}
}

func (n *node) fetchOne(version int16) {
	n.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.SetVersion(version)
	req.Group = "g"
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{2, 1}
	req.Topics = []kmsg.OffsetFetchRequestTopic{rt}
	resp := n.call(req).(*kmsg.OffsetFetchResponse)
	if p := resp.Topics[0].Partitions; p[0].Offset != 102 || *p[0].Metadata != "note" || p[1].Offset != -1 || *p[1].Metadata != "" {
		n.Errorf("v%d: %+v", version, resp.Topics)
	}
	if version < 2 {
		return
	}
	req.Topics = nil
	if resp := n.call(req).(*kmsg.OffsetFetchResponse); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		n.Errorf("v%d: all offsets: %+v", version, resp.Topics)
	}
	req.Topics = []kmsg.OffsetFetchRequestTopic{}
	if resp := n.call(req).(*kmsg.OffsetFetchResponse); len(resp.Topics) != 0 {
		n.Errorf("v%d: no topics: %+v", version, resp.Topics)
	}
}

// TestOffsetsOfADeletedTopicAreNotTheNewOnes holds even when the coordinator was not told of the deletion.
func TestOffsetsOfADeletedTopicAreNotTheNewOnes(t *testing.T) {
	n := newGroupNode(t)
	n.commit(10, "g", "", n.topic("t", 3), 0)
	if _, err := n.api.Quorum.DeleteTopics(t.Context(), meta.DeleteTopics{Names: []string{"t"}}); err != nil {
		t.Fatal(err)
	}
	id := n.topic("t", 3)
	for version := int16(8); version <= 10; version++ {
		if got := n.stored("g", "t", id, version); got[0] != -1 {
			t.Errorf("v%d: the new topic begins at the old one's offset %d", version, got[0])
		}
		req := kmsg.NewPtrOffsetFetchRequest()
		req.SetVersion(version)
		req.Groups = append(req.Groups, kmsg.OffsetFetchRequestGroup{Group: "g", MemberEpoch: -1})
		if all := n.call(req).(*kmsg.OffsetFetchResponse).Groups[0].Topics; len(all) != 0 {
			t.Errorf("v%d: all offsets: %+v, want none", version, all)
		}
	}
	for version := int16(2); version <= 7; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.SetVersion(version)
		req.Group = "g"
		if all := n.call(req).(*kmsg.OffsetFetchResponse).Topics; len(all) != 0 {
			t.Errorf("v%d: all offsets: %+v, want none", version, all)
		}
	}
}

func describe(n *node, version int16, operations bool, names ...string) []kmsg.DescribeGroupsResponseGroup {
	n.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.SetVersion(version)
	req.Groups, req.IncludeAuthorizedOperations = names, operations
	return n.call(req).(*kmsg.DescribeGroupsResponse).Groups
}

// TestRule87 is: who is described as dead, and what the filters of ListGroups leave.
func TestRule87(t *testing.T) {
	n := newGroupNode(t)
	id := n.topic("t", 3)
	n.commit(10, "offsets", "", id, 0)
	n.sync("live", 5, n.join("live", 9, new("i1")))
	for version := range versions(kmsg.NewPtrDescribeGroupsRequest()) {
		groups := describe(n, version, version%2 == 0, "live", "missing", "offsets")
		if g := groups[0]; g.ErrorCode != 0 || g.State != "Stable" || g.ProtocolType != "consumer" || g.Protocol != "range" ||
			len(g.Members) != 1 || g.Members[0].ClientID != "test" || g.Members[0].ClientHost != "/127.0.0.1" ||
			string(g.Members[0].MemberAssignment) != "all" || len(g.Members[0].ProtocolMetadata) == 0 {
			t.Errorf("v%d: live: %+v", version, g)
		}
		if version >= 4 && (groups[0].Members[0].InstanceID == nil || *groups[0].Members[0].InstanceID != "i1") {
			t.Errorf("v%d: no instance id", version)
		}
		g := groups[1]
		if version < 6 && (g.ErrorCode != 0 || g.State != "Dead") ||
			version >= 6 && (kafka.Error(g.ErrorCode) != kafka.GroupIdNotFound || g.State != "Dead" || g.ErrorMessage == nil) {
			t.Errorf("v%d: missing: %+v", version, g)
		}
		if g := groups[2]; g.State != "Empty" || g.ProtocolType != "" {
			t.Errorf("v%d: offsets: %+v", version, g)
		}
		want := int32(math.MinInt32)
		if version >= 3 && version%2 == 0 {
			want = 3400
		}
		if version >= 3 && groups[0].AuthorizedOperations != want {
			t.Errorf("v%d: authorized operations %d, want %d", version, groups[0].AuthorizedOperations, want)
		}
	}
	list := func(version int16, states, types []string) (names []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.SetVersion(version)
		req.StatesFilter, req.TypesFilter = states, types
		for _, g := range n.call(req).(*kmsg.ListGroupsResponse).Groups {
			names = append(names, g.Group)
			if version >= 5 && g.GroupType != "classic" {
				t.Errorf("v%d: type %q", version, g.GroupType)
			}
		}
		return names
	}
	for version := range versions(kmsg.NewPtrListGroupsRequest()) {
		if got := fmt.Sprint(list(version, nil, nil)); got != "[live offsets]" {
			t.Errorf("v%d: listed %s", version, got)
		}
	}
	for _, c := range []struct {
		version       int16
		states, types []string
		want          string
	}{
		{4, []string{"stable"}, nil, "[live]"},
		{4, []string{"Empty", "Dead"}, nil, "[offsets]"},
		{5, nil, []string{"Consumer"}, "[]"},
		{5, []string{"EMPTY"}, []string{"CLASSIC"}, "[offsets]"},
		{5, nil, []string{"nonsense"}, "[]"},
	} {
		if got := fmt.Sprint(list(c.version, c.states, c.types)); got != c.want {
			t.Errorf("v%d, states %v, types %v: listed %s, want %s", c.version, c.states, c.types, got, c.want)
		}
	}
	n.api.Coord.Apply(n.api.Quorum.Image(), meta.NewImage("cluster")) // this node coordinates nothing any more
	if g := describe(n, 6, false, "live")[0]; kafka.Error(g.ErrorCode) != kafka.NotCoordinator || g.State != "" {
		t.Errorf("asked of the wrong node: %+v, want NOT_COORDINATOR and no state", g)
	}
}

func TestDeleteGroupsAndOffsetsAtEveryVersion(t *testing.T) {
	n := newGroupNode(t)
	id := n.topic("t", 3)
	n.sync("live", 5, n.join("live", 9, nil))
	for version := range versions(kmsg.NewPtrDeleteGroupsRequest()) {
		n.commit(10, "offsets", "", id, 0)
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.SetVersion(version)
		req.Groups = []string{"live", "offsets", "missing", "offsets"}
		var got []string
		for _, g := range n.call(req).(*kmsg.DeleteGroupsResponse).Groups {
			got = append(got, g.Group, kafka.Error(g.ErrorCode).Error())
			if g.ErrorMessage != nil {
				t.Errorf("v%d: message %q", version, *g.ErrorMessage)
			}
		}
		if want := "[live NON_EMPTY_GROUP(68) offsets NONE(0) missing GROUP_ID_NOT_FOUND(69)]"; fmt.Sprint(got) != want {
			t.Errorf("v%d: %v, want %s", version, got, want)
		}
	}
	n.commit(10, "offsets", "", id, 0, 1)
	remove := func(name string) *kmsg.OffsetDeleteResponse {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = name
		for _, topic := range []string{"t", "missing"} {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = topic
			for _, p := range []int32{0, 44} {
				rp := kmsg.NewOffsetDeleteRequestTopicPartition()
				rp.Partition = p
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		return n.call(req).(*kmsg.OffsetDeleteResponse)
	}
	for name, want := range map[string]string{
		"offsets": "0 [0 3] [3 3]", "live": "0 [86 3] [3 3]", "missing": "69", "": "24",
	} {
		resp := remove(name)
		got := fmt.Sprint(resp.ErrorCode)
		for _, topic := range resp.Topics {
			var codes []int16
			for _, p := range topic.Partitions {
				codes = append(codes, p.ErrorCode)
			}
			got += fmt.Sprint(" ", codes)
		}
		if got != want {
			t.Errorf("offset delete of %q: %s, want %s", name, got, want)
		}
	}
	if got := fmt.Sprint(n.stored("offsets", "t", id, 9)); got != "[-1 101 -1]" {
		t.Errorf("after the deletion: %s", got)
	}
}

func TestFindCoordinator(t *testing.T) {
	n := newGroupNode(t)
	const share = "g1:Q0rsGMC2Q6qPM7KPUMNqzw:0"
	for version := range versions(kmsg.NewPtrFindCoordinatorRequest()) {
		for _, c := range []struct {
			kind int8
			key  string
			want kafka.Error
		}{
			{0, "g", kafka.None},
			{0, "", kafka.None},
			{1, "t", kafka.None},
			{2, "g1", kafka.InvalidRequest}, // rule 97
			{2, "g1:nonsense:0", kafka.InvalidRequest},
			{2, "g1:Q0rsGMC2Q6qPM7KPUMNqzw:x", kafka.InvalidRequest},
			{2, ":Q0rsGMC2Q6qPM7KPUMNqzw:0", kafka.InvalidRequest},
			{2, share, kafka.CoordinatorNotAvailable},
			{3, "g", kafka.InvalidRequest},
		} {
			if version == 0 && c.kind != 0 {
				continue
			}
			if version < 6 && c.key == share {
				c.want = kafka.InvalidRequest
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.SetVersion(version)
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = c.kind, c.key, []string{c.key}
			resp := n.call(req).(*kmsg.FindCoordinatorResponse)
			found := kmsg.FindCoordinatorResponseCoordinator{Key: c.key, NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port, ErrorCode: resp.ErrorCode}
			if version >= 4 {
				found = resp.Coordinators[0]
			}
			where := fmt.Sprint(found.NodeID, " ", found.Host, " ", found.Port)
			if kafka.Error(found.ErrorCode) != c.want || found.Key != c.key ||
				c.want == kafka.None && where != "1 broker.example 9092" || c.want != kafka.None && where != "-1  -1" {
				t.Errorf("v%d, type %d, key %q: %+v, want %v", version, c.kind, c.key, found, c.want)
			}
		}
	}
}

func TestClientHostIsWrittenAsJavaDoes(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:1": "/127.0.0.1", "[::ffff:10.0.0.1]:1": "/10.0.0.1", "[::1]:1": "/0:0:0:0:0:0:0:1", "[2001:db8::a0]:1": "/2001:db8:0:0:0:0:0:a0",
	} {
		if got := clientHost(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("host of %s is %s, want %s", address, got, want)
		}
	}
	if got := clientHost(netip.AddrPort{}); got != "/127.0.0.1" {
		t.Errorf("host of a connection in memory is %s", got)
	}
}

func TestParkedRequestsEndWithTheCoordinator(t *testing.T) {
	n := newGroupNode(t)
	joined := n.join("g", 3, nil)
	req := kmsg.NewPtrJoinGroupRequest()
	req.SetVersion(3)
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = "g", 10_000, 60_000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	waiting := n.send(req, "second")
	if err := n.api.Coord.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if resp := n.decode(req, n.wait(waiting)).(*kmsg.JoinGroupResponse); kafka.Error(resp.ErrorCode) != kafka.NotCoordinator {
		t.Errorf("a join that waited for %s: %+v, want NOT_COORDINATOR", joined.MemberID, resp)
	}
}
