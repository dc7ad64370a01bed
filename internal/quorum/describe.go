package quorum

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
)

// Description is the state of the quorum as its leader sees it.
type Description struct {
	Leader        kafka.NodeID
	Epoch         kafka.Epoch
	HighWatermark kafka.Offset
	// Times are in ms since the epoch, or -1 for never.
	Voters, Observers []kraft.ReplicaStatus
	Nodes             []kraft.Voter // the voters, with their addresses where the log or this node knows them
}

// Describe returns the state of the quorum. The error is kafka.NotLeaderOrFollower on a node that does not lead it.
func (n *Node) Describe() (Description, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running {
		return Description{}, kafka.NotLeaderOrFollower
	}
	nowMs := n.nowMs()
	s, leads := n.member.Describe(nowMs)
	if !leads {
		return Description{}, kafka.NotLeaderOrFollower
	}
	began := n.o.Now().UnixMilli() - nowMs
	d := Description{
		Leader: s.Leader, Epoch: s.Epoch, HighWatermark: s.HighWatermark,
		Voters: onWallClock(s.Voters, began), Observers: onWallClock(s.Observers, began),
	}
	for _, v := range s.Membership.Voters {
		if v.ID == n.o.NodeID && len(v.Endpoints) == 0 {
			v.Endpoints = n.o.controllerEndpoints()
		}
		d.Nodes = append(d.Nodes, v)
	}
	return d, nil
}

// onWallClock turns times of the member's clock into times of day.
func onWallClock(replicas []kraft.ReplicaStatus, began int64) []kraft.ReplicaStatus {
	moved := make([]kraft.ReplicaStatus, len(replicas))
	for i, r := range replicas {
		if r.LastFetchMs >= 0 {
			r.LastFetchMs += began
		}
		if r.LastCaughtMs >= 0 {
			r.LastCaughtMs += began
		}
		moved[i] = r
	}
	return moved
}
