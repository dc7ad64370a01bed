package api

import (
	"net/netip"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/wire"
)

// forwardedBytesMax is how much memory a request in an envelope may take when it is decoded.
const forwardedBytesMax = 64 << 20

// envelope answers a request that a broker forwards for a client (key 58), as the client's.
func (a *API) envelope(c call) {
	req := kmsg.NewPtrEnvelopeRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrEnvelopeResponse()
	inner, code := a.openEnvelope(c, req)
	if code != kafka.None {
		resp.ErrorCode = int16(code)
		c.answer(resp)
		return
	}
	a.servedToControllers.entry(inner.Key).handle(a, call{Request: inner, served: c.served, reply: func(r *wire.Response) {
		switch {
		case r.Body == nil: // its handler could not read it
			resp.ErrorCode = int16(kafka.InvalidRequest)
		case saysNotController(r.Body):
			resp.ErrorCode = int16(kafka.NotController)
		default:
			resp.ResponseData = wire.AppendResponseHeader(nil, inner.Key, r.Body.GetVersion(), inner.CorrelationID)
			resp.ResponseData = r.Body.AppendTo(resp.ResponseData)
		}
		c.answer(resp)
	}})
}

// openEnvelope returns the request in an envelope, if it is one that may be forwarded.
func (a *API) openEnvelope(c call, req *kmsg.EnvelopeRequest) (*wire.Request, kafka.Error) {
	principal, err := peer.ReadPrincipal(req.RequestPrincipal)
	if err != nil {
		return nil, kafka.PrincipalDeserializationFailure
	}
	address, ok := netip.AddrFromSlice(req.ClientHostAddress)
	if !ok {
		return nil, kafka.InvalidRequest
	}
	var h wire.Header
	if err := wire.ParseHeader(req.RequestData, &h); err != nil {
		return nil, kafka.InvalidRequest
	}
	row := a.servedToControllers.entry(h.Key)
	if row == nil || !row.forwarded {
		return nil, kafka.InvalidRequest
	}
	if h.Version < row.min || h.Version > row.max {
		return nil, kafka.UnsupportedVersion
	}
	if _, err := wire.Measure(h.Key, h.Version, h.Body, forwardedBytesMax); err != nil {
		return nil, kafka.InvalidRequest
	}
	inner := &wire.Request{
		Key: h.Key, Version: h.Version, CorrelationID: h.CorrelationID, Body: h.Body, Received: time.Now(),
		Peer: &wire.Peer{
			Listener: c.Peer.Listener, Remote: netip.AddrPortFrom(address.Unmap(), 0), ConnID: c.Peer.ConnID,
			Principal: principal.Type + ":" + principal.Name,
		},
	}
	if h.ClientID != nil {
		inner.ClientID = new(string(h.ClientID))
	}
	return inner, kafka.None
}
