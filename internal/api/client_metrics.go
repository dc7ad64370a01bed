package api

import (
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/clientmetrics"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// ClientMetrics take what clients push of their own metrics (KIP-714). Its methods are safe for concurrent use.
type ClientMetrics struct {
	began           time.Time
	bytesMax        int // of one push, also when it is decompressed
	seriesPerClient int
	forward         func(push []byte) // nil: nowhere
	random          func([]byte)
	log             *slog.Logger

	// reading is held while a push is decompressed and decoded: one at a time, so that many clients do not take many times its memory
	// and every processor.
	reading sync.Mutex

	mu    sync.Mutex // guards known; held for memory only
	known *clientmetrics.Instances
}

// NewClientMetrics returns one that knows no client. forward gets what clients push, as OTLP, and must not block; nil: nobody does.
func NewClientMetrics(b *config.Broker, forward func(push []byte), random func([]byte), log *slog.Logger) *ClientMetrics {
	m := &ClientMetrics{
		began: time.Now(), bytesMax: b.Int("telemetry.max.bytes"), seriesPerClient: b.Int("raftsman.client.metrics.series.per.client.max"),
		forward: forward, random: random, log: log,
	}
	m.known = clientmetrics.NewInstances(clientmetrics.Limits{
		PushBytes: m.bytesMax, Series: b.Int("raftsman.client.metrics.series.max"), SeriesPerClient: m.seriesPerClient,
	})
	return m
}

// Apply takes the subscriptions over when the metadata changes them.
func (m *ClientMetrics) Apply(old, now *meta.Image) {
	were, are := clientSubscriptions(old), clientSubscriptions(now)
	if len(were) == len(are) {
		same := true
		for i := range are {
			same = same && were[i].name == are[i].name && maps.Equal(were[i].settings, are[i].settings)
		}
		if same {
			return
		}
	}
	var all []clientmetrics.Subscription
	for _, s := range are {
		all = append(all, clientmetrics.NewSubscription(config.ReadClientMetrics(s.settings)))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.Subscribe(all)
}

type clientSubscription struct {
	name     string
	settings map[string]string
}

func clientSubscriptions(im *meta.Image) (all []clientSubscription) {
	for r := range im.Resources(meta.ClientMetricsResource) {
		all = append(all, clientSubscription{r.Name, im.Config(r)})
	}
	return all
}

// Disconnected forgets the client of a connection that has ended.
func (m *ClientMetrics) Disconnected(conn uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.Disconnected(conn)
}

// Observe returns what there is to see.
func (m *ClientMetrics) Observe() clientmetrics.Observation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.Observe(m.nowMs())
}

// nowMs counts from the start of the process: the clock of the wall may be set back.
func (m *ClientMetrics) nowMs() int64 { return time.Since(m.began).Milliseconds() }

func (m *ClientMetrics) ask(id kafka.UUID, from clientmetrics.From) clientmetrics.Asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.Get(m.nowMs(), id, from, func() kafka.UUID { return kafka.NewUUID(m.random) })
}

// push takes a push, or says why not.
func (m *ClientMetrics) push(req *kmsg.PushTelemetryRequest, from clientmetrics.From) kafka.Error {
	codec := compress.Codec(req.CompressionType)
	m.mu.Lock()
	code := m.known.Begin(m.nowMs(), clientmetrics.Push{
		ClientInstance: req.ClientInstanceID, Subscription: req.SubscriptionID, Terminating: req.Terminating,
		KnownCodec: codec.Known(), Bytes: len(req.Metrics),
	}, from)
	m.mu.Unlock()
	if code != kafka.None || len(req.Metrics) == 0 {
		return code
	}
	pushed, err := m.read(req, codec, &from.Client)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.log.Debug("metrics of a client are refused", "client", from.Client.ID, "instance", kafka.UUID(req.ClientInstanceID), "error", err)
		m.known.Fail(req.ClientInstanceID)
		return kafka.InvalidRecord
	}
	m.known.Keep(req.ClientInstanceID, pushed)
	return kafka.None
}

// read decodes a push and sends it on.
func (m *ClientMetrics) read(req *kmsg.PushTelemetryRequest, codec compress.Codec, client *clientmetrics.Client) (*clientmetrics.Pushed, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	metrics := req.Metrics
	if codec != compress.None {
		var err error
		if metrics, err = compress.Decompress(nil, codec, metrics, int64(m.bytesMax)); err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
	}
	pushed, err := clientmetrics.Read(metrics, m.seriesPerClient)
	if err != nil || m.forward == nil {
		return pushed, err
	}
	sent, err := clientmetrics.Forwarded(metrics, req.ClientInstanceID, client)
	if err == nil {
		m.forward(sent)
	}
	return pushed, err
}

// from is who sends a request, as subscriptions match it. What is not known has the name that Kafka gives it.
func (c call) from() clientmetrics.From {
	f := clientmetrics.From{Conn: c.Peer.ConnID, Client: clientmetrics.Client{SoftwareName: "unknown", SoftwareVersion: "unknown"}}
	if c.Peer.SoftwareName != "" {
		f.Client.SoftwareName, f.Client.SoftwareVersion = c.Peer.SoftwareName, c.Peer.SoftwareVersion
	}
	if f.Client.Anonymous = c.ClientID == nil; !f.Client.Anonymous {
		f.Client.ID = *c.ClientID
	}
	if remote := c.Peer.Remote; remote.IsValid() {
		f.Client.Address, f.Client.Port = remote.Addr().Unmap().String(), fmt.Sprint(remote.Port())
	}
	return f
}
