// Package telemetry shows the broker's numbers to Prometheus, under the names that dashboards made for Apache Kafka (through the JMX
// exporter) and for kafka_exporter know, and tells by HTTP whether the broker lives and serves. Nothing is counted here: a scrape
// looks at what the other packages keep, and between two scrapes nothing happens. table.go has all metrics.
package telemetry

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

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
	// FetchSessions returns how many there are, and how many had to make place for others.
	FetchSessions func() (open int, evicted int64)
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
	scrapes chan struct{} // holds one token for each that is being answered
	unread  unreadTimes
	serves  atomic.Pointer[Sources] // nil: the node starts or stops
	looking sync.RWMutex            // held for reading while the coordinators are asked
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

// Serves tells that the node serves, or with nil that it does not any more. Then it returns when nobody asks the coordinators any more, who
// may be closed: what they have answered is told as if all of it was there.
func (t *Telemetry) Serves(s *Sources) {
	t.serves.Store(s)
	if s == nil {
		t.looking.Lock()
		defer t.looking.Unlock()
	}
}

// Fail tells that the node can't go on.
func (t *Telemetry) Fail(why string) { t.failed.CompareAndSwap(nil, &why) }

func (t *Telemetry) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.mux.ServeHTTP(w, r) }

// metrics answers a scrape. A node that starts or stops has the numbers of its process only.
func (t *Telemetry) metrics(w http.ResponseWriter, r *http.Request) {
	select {
	case t.scrapes <- struct{}{}:
		defer func() { <-t.scrapes }()
	default:
		answer(w, http.StatusServiceUnavailable, "others are being answered: come again")
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Vary", "Accept-Encoding")
	if r.Method == http.MethodHead {
		return
	}
	if !takesGzip(r.Header.Values("Accept-Encoding")) {
		t.write(newPage(w))
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	// The fastest: a tenth of the bytes for half as much processor time again.
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is one
	t.write(newPage(packed))
	_ = packed.Close() // who asked may have gone
}

// takesGzip tells whether a client wants its answer packed.
func takesGzip(accepts []string) bool {
	for coding := range strings.SplitSeq(strings.Join(accepts, ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		q, weighed := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		return !weighed || strings.Trim(q, "0.") != ""
	}
	return false
}

// write writes all metrics in Prometheus's text format. No lock is held while who asked takes what was written, which may be slow; or has
// gone: then the rest is not made.
func (t *Telemetry) write(to *page) {
	write := func(families []family, s *scene) {
		for i := range families {
			if to.err != nil {
				return
			}
			e := emit{of: &families[i], to: to}
			e.begin()
			families[i].read(s, e)
		}
	}
	if s := t.look(); s != nil {
		write(table, s)
		write(clientsTable, s)
		writeClients(s.clients.Samples, to)
	}
	write(processTable, &scene{started: t.since})
	to.flush()
}

// look returns what the node tells of itself; nil while it does not serve.
func (t *Telemetry) look() *scene {
	t.looking.RLock()
	defer t.looking.RUnlock()
	from := t.serves.Load()
	if from == nil {
		return nil
	}
	return look(from, t.since, &t.unread)
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
	from := t.serves.Load()
	switch why := t.failed.Load(); {
	case why != nil:
		answer(w, http.StatusServiceUnavailable, *why)
	case from == nil:
		answer(w, http.StatusServiceUnavailable, "the node starts or stops")
	default:
		answer(w, http.StatusOK, readiness(from.Replicas.OfflineDirs()))
	}
}

// readiness says that the node serves, and what it does not: with one of several log directories gone it is still of use.
func readiness(offline []string) string {
	if len(offline) == 0 {
		return "ok"
	}
	return "ok, but partitions in these log directories answer KAFKA_STORAGE_ERROR, as the directories failed: " + strings.Join(offline, ", ")
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // who asked may have gone
}
