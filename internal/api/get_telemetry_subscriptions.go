package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// telemetryCodecs are those that pushes may have, the ones that clients should rather take first.
var telemetryCodecs = []int8{int8(compress.Zstd), int8(compress.LZ4), int8(compress.Gzip), int8(compress.Snappy)}

// getTelemetrySubscriptions tells a client which of its metrics to push, and how often (key 71). A client that no subscription
// matches is asked for none, and asks again after a while.
func (a *API) getTelemetrySubscriptions(c call) {
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	asked := a.ClientMetrics.ask(req.ClientInstanceID, c.from())
	if resp.ErrorCode = int16(asked.Code); asked.Code == kafka.None {
		resp.ClientInstanceID, resp.SubscriptionID, resp.PushIntervalMillis = asked.ClientInstance, asked.Subscription, asked.IntervalMs
		resp.RequestedMetrics = asked.Metrics
		resp.AcceptedCompressionTypes = telemetryCodecs
		resp.TelemetryMaxBytes = int32(a.ClientMetrics.bytesMax)
		resp.DeltaTemporality = true
	}
	c.answer(resp)
}
