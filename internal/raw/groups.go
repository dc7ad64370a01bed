package raw

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Subscription is what a member of the classic protocol says that it reads: version 0, one topic.
func Subscription(topic string) []byte {
	b := append([]byte{0, 0, 0, 0, 0, 1, 0, byte(len(topic))}, topic...)
	return append(b, 0, 0, 0, 0)
}

// Join is a member, or with an empty member id a newcomer, of a group of consumers, which can do with any of the protocols.
func Join(version int16, group, member string, protocols ...string) *kmsg.JoinGroupRequest {
	req := At(version, kmsg.NewPtrJoinGroupRequest())
	req.Group, req.MemberID, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, member, 300_000, 300_000, "consumer"
	for _, name := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, Subscription("r")
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

// Sync asks for the member's assignment, and brings those of the members in assigned.
func Sync(version int16, group, member string, generation int32, assigned ...string) *kmsg.SyncGroupRequest {
	req := At(version, kmsg.NewPtrSyncGroupRequest())
	req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = group, member, generation, new("consumer"), new("range")
	for _, id := range assigned {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte("assignment")
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

// Heartbeat is a member's sign of life.
func Heartbeat(version int16, group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := At(version, kmsg.NewPtrHeartbeatRequest())
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

// Leave names one member up to version 2 and all of them from 3 on.
func Leave(version int16, group string, members ...string) *kmsg.LeaveGroupRequest {
	req := At(version, kmsg.NewPtrLeaveGroupRequest())
	req.Group = group
	for _, id := range members {
		req.MemberID = id
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		req.Members = append(req.Members, m)
	}
	return req
}

// CommitRow is one partition's offset.
type CommitRow struct {
	Topic     string
	ID        [16]byte
	Partition int32
	Offset    int64
}

// Commit stores offsets for a group; rows of one topic that follow each other go under one name.
func Commit(version int16, group, member string, generation int32, rows ...CommitRow) *kmsg.OffsetCommitRequest {
	req := At(version, kmsg.NewPtrOffsetCommitRequest())
	req.Group, req.MemberID, req.Generation = group, member, generation
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.Topic || req.Topics[n-1].TopicID != r.ID {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = r.Topic, r.ID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = r.Partition, r.Offset, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// Offsets asks for the offsets of one group, in the shape of its version. Topics of nil are all.
func Offsets(version int16, group string, topics []CommitRow) *kmsg.OffsetFetchRequest {
	req := At(version, kmsg.NewPtrOffsetFetchRequest())
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if topics != nil {
		req.Topics, g.Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, r := range topics {
		one := kmsg.NewOffsetFetchRequestTopic()
		one.Topic, one.Partitions = r.Topic, []int32{r.Partition}
		req.Topics = append(req.Topics, one)
		many := kmsg.NewOffsetFetchRequestGroupTopic()
		many.Topic, many.TopicID, many.Partitions = r.Topic, r.ID, []int32{r.Partition}
		g.Topics = append(g.Topics, many)
	}
	if version >= 8 {
		req.Groups = append(req.Groups, g)
	}
	return req
}

// DescribeGroups asks for groups by name.
func DescribeGroups(version int16, names ...string) *kmsg.DescribeGroupsRequest {
	req := At(version, kmsg.NewPtrDescribeGroupsRequest())
	req.Groups = names
	return req
}

// Found tells whether the coordinators' topic is there.
func Found(resp kmsg.Response) bool {
	r := resp.(*kmsg.FindCoordinatorResponse)
	for _, one := range r.Coordinators {
		if one.ErrorCode == 15 {
			return false
		}
	}
	return r.ErrorCode != 15
}
