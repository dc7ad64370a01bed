package api

import (
	"math"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// consumerGroupDescribe describes groups of the consumer protocol (key 69); others are not found.
func (a *API) consumerGroupDescribe(c call) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(req.Groups))
	var left atomic.Int64
	left.Store(int64(len(req.Groups)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			c.answer(resp)
		}
	}
	served := a.consumersServed()
	named := newRepeats[string](len(req.Groups))
	for i, name := range req.Groups {
		refused := kafka.None
		switch {
		case !served:
			refused = kafka.UnsupportedVersion
		case named.tooMany(name):
			refused = kafka.InvalidRequest
		}
		if refused != kafka.None {
			resp.Groups[i] = describedConsumers(name, &group.ConsumerDescribeReply{Code: refused}, false)
			done()
			continue
		}
		a.Coord.Do(name, &group.ConsumerDescribe{}, func(r group.Reply) {
			resp.Groups[i] = describedConsumers(name, r.(*group.ConsumerDescribeReply), req.IncludeAuthorizedOperations)
			done()
		})
	}
	done()
}

func describedConsumers(name string, r *group.ConsumerDescribeReply, operations bool) kmsg.ConsumerGroupDescribeResponseGroup {
	resp := kmsg.NewConsumerGroupDescribeResponseGroup()
	resp.Group, resp.ErrorCode, resp.AuthorizedOperations = name, int16(r.Code), math.MinInt32
	if r.Code != kafka.None {
		_, resp.ErrorMessage = answerOf(&kafka.Refusal{Code: r.Code, Message: r.Message})
		return resp
	}
	resp.State, resp.Epoch, resp.AssignmentEpoch, resp.AssignorName = r.State.String(), r.Epoch, r.AssignmentEpoch, r.Assignor
	if operations {
		resp.AuthorizedOperations = groupOperations
	}
	resp.Members = make([]kmsg.ConsumerGroupDescribeResponseGroupMember, len(r.Members))
	for i := range r.Members {
		m, member := &r.Members[i], kmsg.NewConsumerGroupDescribeResponseGroupMember()
		member.MemberID, member.InstanceID, member.RackID, member.MemberEpoch = m.MemberID, m.InstanceID, m.RackID, m.Epoch
		member.ClientID, member.ClientHost = m.ClientID, m.ClientHost
		member.SubscribedTopics, member.SubscribedTopicRegex = m.Topics, &m.Regex
		member.Assignment, member.TargetAssignment = partitionsNamed(m.Assigned), partitionsNamed(m.Target)
		if member.MemberType = 1; m.Classic {
			member.MemberType = 0
		}
		resp.Members[i] = member
	}
	return resp
}

func partitionsNamed(list []group.NamedPartitions) kmsg.Assignment {
	a := kmsg.NewAssignment()
	for _, t := range list {
		topic := kmsg.NewAssignmentTopicPartition()
		topic.Topic, topic.TopicID, topic.Partitions = t.Topic, t.ID, t.Partitions
		a.TopicPartitions = append(a.TopicPartitions, topic)
	}
	return a
}
