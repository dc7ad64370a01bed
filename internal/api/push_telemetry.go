package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pushTelemetry takes a client's own metrics (key 72).
func (a *API) pushTelemetry(c call) {
	req := kmsg.NewPtrPushTelemetryRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrPushTelemetryResponse()
	resp.ErrorCode = int16(a.ClientMetrics.push(req, c.from()))
	c.answer(resp)
}
