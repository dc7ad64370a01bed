// Package telemetry shows the broker's numbers to Prometheus, under the names that dashboards made for Apache Kafka (through the JMX
// exporter) and for kafka_exporter know, and tells by HTTP whether the broker lives and serves. Nothing is counted here: a scrape
// looks at what the other packages keep, and between two scrapes nothing happens. table.go has all metrics.
package telemetry

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/clientmetrics"
	"github.com/raftsman/raftsman/internal/coord"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/otlp"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/server"
)

// Sources are where the numbers come from.
type Sources struct {
	NodeID   kafka.NodeID
	Image    func() *meta.Image
	Server   *server.Server
	Replicas *replica.Manager
	Coord    *coord.Coordinator
	// Throttled counts what had to wait because of client quotas. nil: there are none.
	Throttled *[quota.Kinds]metric.Counter
	// Clients are the clients that push metrics of their own. nil: there are none.
	Clients func() clientmetrics.Observation
	// Forwarded counts what of these goes to a collector. nil: nothing does.
	Forwarded *otlp.Metrics
}

// Telemetry answers /metrics, /healthz and /readyz. Its methods are safe for concurrent use.
type Telemetry struct {
	mux     *http.ServeMux
	since   started
	scrapes chan struct{}           // holds one token for each that is being answered
	bytes   atomic.Int64            // how large the last text was
	serves  atomic.Pointer[Sources] // nil: the node starts or stops
	failed  atomic.Pointer[string]  // why the node can't go on
}

// scrapesAtOnce is how many may be answered at the same time, those that are slow to read among them; more are told to come again.
const scrapesAtOnce = 8

// New returns a Telemetry that has no numbers yet. now is when the broker started.
func New(now time.Time) *Telemetry {
	t := &Telemetry{mux: http.NewServeMux(), since: started(now), scrapes: make(chan struct{}, scrapesAtOnce)}
	t.mux.HandleFunc("GET /metrics", t.metrics)
	t.mux.HandleFunc("GET /healthz", t.health)
	t.mux.HandleFunc("GET /readyz", t.ready)
	return t
}

// Serves tells that the node serves, or with nil that it does not any more.
func (t *Telemetry) Serves(s *Sources) { t.serves.Store(s) }

// Fail tells that the node can't go on.
func (t *Telemetry) Fail(why string) { t.failed.CompareAndSwap(nil, &why) }

func (t *Telemetry) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.mux.ServeHTTP(w, r) }

// metrics answers a scrape. A node that starts or stops has the numbers of its process only.
func (t *Telemetry) metrics(w http.ResponseWriter, _ *http.Request) {
	select {
	case t.scrapes <- struct{}{}:
		defer func() { <-t.scrapes }()
	default:
		answer(w, http.StatusServiceUnavailable, "others are being answered: come again")
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(t.text()) // who asked may have gone
}

// text returns all metrics in Prometheus's text format.
func (t *Telemetry) text() []byte {
	out := make([]byte, 0, t.bytes.Load()+t.bytes.Load()/16)
	write := func(families []family, s *scene) {
		for i := range families {
			e := emit{of: &families[i], out: &out}
			e.begin()
			families[i].read(s, e)
		}
	}
	if from := t.serves.Load(); from != nil {
		s := look(from, t.since)
		write(table, s)
		write(clientsTable, s)
		writeClients(s.clients.Samples, &out)
	}
	write(processTable, &scene{started: t.since})
	t.bytes.Store(int64(len(out)))
	return out
}

// health is for who restarts a process that hangs: one that recovers its logs for long lives.
func (t *Telemetry) health(w http.ResponseWriter, _ *http.Request) {
	if why := t.failed.Load(); why != nil {
		answer(w, http.StatusServiceUnavailable, *why)
		return
	}
	answer(w, http.StatusOK, "ok")
}

// ready is for who sends clients here.
func (t *Telemetry) ready(w http.ResponseWriter, _ *http.Request) {
	switch why := t.failed.Load(); {
	case why != nil:
		answer(w, http.StatusServiceUnavailable, *why)
	case t.serves.Load() == nil:
		answer(w, http.StatusServiceUnavailable, "the node starts or stops")
	default:
		answer(w, http.StatusOK, "ok")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // who asked may have gone
}
