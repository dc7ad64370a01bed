package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// brokerRegistration makes a starting broker known (key 62).
func (a *API) brokerRegistration(c call) {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrBrokerRegistrationResponse()
	resp.BrokerEpoch = int64(meta.NoBrokerEpoch)
	if req.ClusterID != a.ClusterID() {
		resp.ErrorCode = int16(kafka.InconsistentClusterId)
		c.answer(resp)
		return
	}
	cmd := meta.Registration{
		ID: kafka.NodeID(req.BrokerID), Incarnation: req.IncarnationID, Rack: req.Rack, Migrating: req.IsMigratingZkBroker,
		LogDirs: fromRawIDs(req.LogDirs), PreviousEpoch: meta.NoBrokerEpoch,
	}
	if c.Version >= 3 {
		cmd.PreviousEpoch = kafka.BrokerEpoch(req.PreviousBrokerEpoch)
	}
	for _, l := range req.Listeners {
		cmd.Endpoints = append(cmd.Endpoints, meta.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, Security: meta.SecurityName(l.SecurityProtocol)})
	}
	for _, f := range req.Features {
		cmd.Features = append(cmd.Features, meta.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	epoch, err := a.Controller.RegisterBroker(context.Background(), cmd)
	if resp.ErrorCode = codeOf(err); err == nil {
		resp.BrokerEpoch = int64(epoch)
	}
	c.answer(resp)
}

func fromRawIDs(raw [][16]byte) []kafka.UUID {
	if raw == nil {
		return nil
	}
	ids := make([]kafka.UUID, len(raw))
	for i, id := range raw {
		ids[i] = id
	}
	return ids
}
