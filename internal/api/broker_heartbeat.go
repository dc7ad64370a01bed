package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// brokerHeartbeat hears that a broker lives (key 63), and remembers on which connection: its end may be the broker's.
func (a *API) brokerHeartbeat(c call) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	if !c.decode(req) {
		return
	}
	beat := meta.Heartbeat{
		Broker: kafka.NodeID(req.BrokerID), Epoch: kafka.BrokerEpoch(req.BrokerEpoch), MetadataOffset: kafka.Offset(req.CurrentMetadataOffset),
		WantFence: req.WantFence, WantShutDown: req.WantShutdown,
		OfflineDirs: fromRawIDs(req.OfflineLogDirs), CordonedDirs: fromRawIDs(req.CordonedLogDirs),
	}
	result, err := a.Controller.Heartbeat(context.Background(), beat)
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	if resp.ErrorCode = codeOf(err); err == nil {
		a.Heartbeats.heardOn(c.Peer.ConnID, beat.Broker, beat.Epoch)
		resp.IsCaughtUp, resp.IsFenced, resp.ShouldShutdown = result.CaughtUp, result.Fenced, result.ShouldShutDown
	}
	c.answer(resp)
}
