package api

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// consumerGroupHeartbeat is how members of the consumer protocol (KIP-848) join, live and leave (key 68).
func (a *API) consumerGroupHeartbeat(c call) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	if !c.decode(req) {
		return
	}
	if !a.consumersServed() {
		c.answer(consumerHeartbeatResponse(&group.ConsumerHeartbeatReply{Code: kafka.UnsupportedVersion}))
		return
	}
	beat := &group.ConsumerHeartbeat{
		MemberID: req.MemberID, Epoch: req.MemberEpoch, InstanceID: req.InstanceID, RackID: req.RackID,
		RebalanceTimeoutMs: req.RebalanceTimeoutMillis, Topics: req.SubscribedTopicNames, Assignor: req.ServerAssignor,
		ClientHost: clientHost(c.Peer.Remote), OwnMemberID: c.Version >= 1,
	}
	if c.Version >= 1 {
		beat.Regex = req.SubscribedTopicRegex
	}
	if c.ClientID != nil {
		beat.ClientID = *c.ClientID
	}
	if req.Topics != nil {
		beat.HasKnown, beat.Has = true, assignmentOf(req.Topics)
	}
	a.Coord.Do(req.Group, beat, func(r group.Reply) {
		c.answer(consumerHeartbeatResponse(r.(*group.ConsumerHeartbeatReply)))
	})
}

// consumersServed tells whether the cluster has agreed on the consumer protocol, and the configuration does not turn it off.
func (a *API) consumersServed() bool {
	return a.Coord.Image().Features()[meta.GroupVersion] > 0 && slices.Contains(a.Config.List("group.coordinator.rebalance.protocols"), "consumer")
}

// assignmentOf puts what a client has in order.
func assignmentOf(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) assign.Assignment {
	byID := make(map[kafka.TopicID][]int32, len(topics))
	for i := range topics {
		if t := &topics[i]; len(t.Partitions) > 0 {
			byID[t.TopicID] = append(byID[t.TopicID], t.Partitions...)
		}
	}
	var a assign.Assignment
	for _, id := range slices.SortedFunc(maps.Keys(byID), assign.CompareIDs) {
		slices.Sort(byID[id])
		a = append(a, assign.Topic{ID: id, Partitions: slices.Compact(byID[id])})
	}
	return a
}

func consumerHeartbeatResponse(r *group.ConsumerHeartbeatReply) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	if resp.ErrorCode = int16(r.Code); r.Code != kafka.None {
		_, resp.ErrorMessage = answerOf(&kafka.Refusal{Code: r.Code, Message: r.Message})
		return resp
	}
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &r.MemberID, r.Epoch, r.HeartbeatIntervalMs
	if r.Assigned {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{
			Topics: make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, len(r.Assignment)),
		}
		for i, t := range r.Assignment {
			topic := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			topic.TopicID, topic.Partitions = t.ID, t.Partitions
			resp.Assignment.Topics[i] = topic
		}
	}
	return resp
}
