package server

import (
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/wire"
)

// Metrics are the server's numbers.
type Metrics struct {
	Keys [wire.MaxKey + 1]KeyMetrics // by API key

	BytesIn, BytesOut metric.Counter

	Connections         metric.Gauge
	ConnectionsAccepted metric.Counter
	ConnectionsRefused  metric.Counter // over the limit of one address
	ConnectionsIdle     metric.Counter // closed for being idle
	ConnectionsSlow     metric.Counter // closed in the middle of a frame or an answer

	Oversized   metric.Counter // frames of a length that is not allowed
	Malformed   metric.Counter // requests that could not be decoded, or not in the memory allowed
	Unsupported metric.Counter // requests of a key or version that is not served
	Panics      metric.Counter
}

// KeyMetrics are the numbers of one API.
type KeyMetrics struct {
	Requests metric.Counter
	Micros   metric.Histogram // from the frame's arrival until its answer was written

	parts atomic.Pointer[PartMetrics]
}

// PartMetrics tell where the time of an API's requests went: their histograms add up to that of the whole.
type PartMetrics struct {
	QueuedMicros   metric.Histogram // until it was handled: the answers to those before it on the connection come first
	LocalMicros    metric.Histogram // in the handler
	RemoteMicros   metric.Histogram // waiting for what the handler has begun: the disk, records, other members
	AnsweredMicros metric.Histogram // until its answer could be written: those to requests before it come first
	SendMicros     metric.Histogram // writing the answer
}

// Parts are where the time of the API's requests went; nil when there were none.
func (k *KeyMetrics) Parts() *PartMetrics { return k.parts.Load() }

// observe counts a request whose answer was written when end had passed since it was read. The histograms of the parts are made when the
// first is counted: most APIs have none.
func (k *KeyMetrics) observe(at *moments, end time.Duration) {
	k.Micros.Observe(end.Microseconds())
	parts := k.parts.Load()
	if parts == nil {
		k.parts.CompareAndSwap(nil, new(PartMetrics))
		parts = k.parts.Load()
	}
	handled := min(at.handled, at.answered)
	parts.QueuedMicros.Observe(at.begun.Microseconds())
	parts.LocalMicros.Observe((handled - at.begun).Microseconds())
	parts.RemoteMicros.Observe((at.answered - handled).Microseconds())
	parts.AnsweredMicros.Observe((at.writing - at.answered).Microseconds())
	parts.SendMicros.Observe((end - at.writing).Microseconds())
}

// moments are when a request has come to what, since its frame had arrived.
type moments struct {
	begun    time.Duration // it is handled
	handled  time.Duration // the handler has returned
	answered time.Duration // the answer is there, perhaps before
	writing  time.Duration // it is being written
}
