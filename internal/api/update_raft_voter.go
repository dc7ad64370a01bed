package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
)

// updateRaftVoter hears from a voter where it listens and what it supports (key 82).
func (a *API) updateRaftVoter(c call) {
	req := kmsg.NewPtrUpdateRaftVoterRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrUpdateRaftVoterResponse()
	if !a.ofThisCluster(req.ClusterID) {
		resp.ErrorCode = int16(kafka.InconsistentClusterId)
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.UpdateVoterResponse](a, c, &kraft.UpdateVoterRequest{
		Epoch: kafka.Epoch(req.CurrentLeaderEpoch),
		Voter: kraft.Voter{
			ID: kafka.NodeID(req.VoterID), Directory: req.VoterDirectoryID,
			MinVersion: req.KRaftVersionFeature.MinSupportedVersion, MaxVersion: req.KRaftVersionFeature.MaxSupportedVersion,
			Endpoints: endpointsOf(req.Listeners, func(e *kmsg.UpdateRaftVoterRequestListener) kraft.Endpoint {
				return kraft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port}
			}),
		},
	})
	if !ok {
		return
	}
	resp.ErrorCode = int16(answer.Error)
	leader := &resp.CurrentLeader
	leader.LeaderID, leader.LeaderEpoch = int32(answer.Current.Leader), int32(answer.Current.Epoch)
	if at, known := leaderAddressOn(c, answer.Current); known {
		leader.Host, leader.Port = at.Host, int32(at.Port)
	}
	c.answer(resp)
}
