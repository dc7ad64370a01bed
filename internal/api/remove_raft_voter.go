package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
)

// removeRaftVoter takes a voter out of the quorum (key 81).
func (a *API) removeRaftVoter(c call) {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrRemoveRaftVoterResponse()
	if !a.ofThisCluster(req.ClusterID) {
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.InconsistentClusterId), a.anotherCluster()
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.RemoveVoterResponse](a, c, &kraft.RemoveVoterRequest{
		Voter: kraft.ReplicaKey{ID: kafka.NodeID(req.VoterID), Directory: req.VoterDirectoryID},
	})
	if !ok {
		return
	}
	resp.ErrorCode, resp.ErrorMessage = int16(answer.Error), messageOr(answer.Error, answer.Message)
	c.answer(resp)
}
