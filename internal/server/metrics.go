package server

import (
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
}
