package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// controllerRegistration makes a controller known (key 70).
func (a *API) controllerRegistration(c call) {
	req := kmsg.NewPtrControllerRegistrationRequest()
	if !c.decode(req) {
		return
	}
	cmd := meta.RegisterController{ID: kafka.NodeID(req.ControllerID), Incarnation: req.IncarnationID}
	for _, l := range req.Listeners {
		cmd.Endpoints = append(cmd.Endpoints, meta.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, Security: meta.SecurityName(l.SecurityProtocol)})
	}
	for _, f := range req.Features {
		cmd.Features = append(cmd.Features, meta.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	code, message := answerOf(a.Controller.RegisterController(context.Background(), cmd))
	resp := kmsg.NewPtrControllerRegistrationResponse()
	resp.ErrorCode, resp.ErrorMessage = int16(code), message
	c.answer(resp)
}
