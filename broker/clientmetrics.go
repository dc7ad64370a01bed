package broker

import (
	"github.com/raftsman/raftsman/internal/api"
	"github.com/raftsman/raftsman/internal/otlp"
)

// takeClientMetrics makes what takes the metrics that clients push, and what sends them on where a collector is configured.
func (n *Node) takeClientMetrics(handler *api.API) {
	b := n.config
	var forward func([]byte)
	if endpoint := b.String("raftsman.client.metrics.otlp.endpoint"); endpoint != "" {
		n.forwarder = otlp.Start(otlp.Options{
			Endpoint: endpoint, Headers: b.CollectorHeaders(), QueueBytes: b.Int("raftsman.client.metrics.otlp.queue.bytes.max"), Log: n.log,
		})
		forward = n.forwarder.Offer
	}
	n.clientMetrics = api.NewClientMetrics(b, forward, random, n.log)
	n.quorum.Watch(n.clientMetrics.Apply)
	handler.ClientMetrics = n.clientMetrics
}

// stopForwarding ends what sends clients' metrics on. What was not sent is lost.
func (n *Node) stopForwarding() {
	if n.forwarder != nil {
		n.forwarder.Close()
	}
}

// forwarded are the numbers of what is sent on, nil where nothing is.
func (n *Node) forwarded() *otlp.Metrics {
	if n.forwarder == nil {
		return nil
	}
	return n.forwarder.Metrics()
}
