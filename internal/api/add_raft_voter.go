package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
)

// addRaftVoter makes a controller a voter of the quorum (key 80).
func (a *API) addRaftVoter(c call) {
	req := kmsg.NewPtrAddRaftVoterRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrAddRaftVoterResponse()
	if !a.ofThisCluster(req.ClusterID) {
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.InconsistentClusterId), a.anotherCluster()
		c.answer(resp)
		return
	}
	answer, ok := ask[*kraft.AddVoterResponse](a, c, &kraft.AddVoterRequest{
		TimeoutMs: req.TimeoutMillis, AckWhenCommitted: c.Version == 0 || req.AckWhenCommitted,
		Voter: kraft.Voter{
			ID: kafka.NodeID(req.VoterID), Directory: req.VoterDirectoryID,
			Endpoints: endpointsOf(req.Listeners, func(e *kmsg.AddRaftVoterRequestListener) kraft.Endpoint {
				return kraft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port}
			}),
		},
	})
	if !ok {
		return
	}
	resp.ErrorCode, resp.ErrorMessage = int16(answer.Error), messageOr(answer.Error, answer.Message)
	c.answer(resp)
}

// messageOr returns what is said beside a code: nothing beside None.
func messageOr(code kafka.Error, message string) *string {
	switch {
	case code == kafka.None:
		return nil
	case message == "":
		message = code.Error()
	}
	return &message
}
