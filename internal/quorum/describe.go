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
	End           kafka.Offset
	Voters        []kraft.Voter
}

// Describe returns the state of the quorum. Voters have no endpoints where neither the log nor this node knows them.
func (n *Node) Describe() (Description, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.started {
		return Description{}, kafka.NotLeaderOrFollower
	}
	state := n.core.State()
	d := Description{Leader: state.Leader, Epoch: state.Epoch, HighWatermark: n.core.HighWatermark(), End: n.log.EndOffset()}
	for _, v := range n.core.Membership().Voters {
		if v.ID == n.o.NodeID && len(v.Endpoints) == 0 {
			v.Endpoints = n.o.controllerEndpoints()
		}
		d.Voters = append(d.Voters, v)
	}
	return d, nil
}
