package telemetry

import (
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/clientmetrics"
)

// perResult are the words for what becomes of a push.
var perResult = [...]string{clientmetrics.Taken: "taken", clientmetrics.TooEarly: "throttled", clientmetrics.Refused: "refused"}

// clientsTable has what the broker says of the clients that push metrics of their own (KIP-714). The metrics themselves follow: see
// writeClients.
var clientsTable = []family{
	{"raftsman_client_metrics_instances", gauge, nil, "Clients that are known to push their metrics, or to ask whether they should.", one(func(s *scene) int64 { return int64(s.clients.Instances) })},
	{"raftsman_client_metrics_pushes_total", counter, []string{"result"}, "Pushes of clients by what became of them.", func(s *scene, e emit) {
		for result, name := range perResult {
			e.count(s.clients.Pushes[result], name)
		}
	}},
	{"raftsman_client_metrics_series", gauge, nil, "Series of clients' metrics that are shown.", one(func(s *scene) int64 { return int64(len(s.clients.Samples)) })},
	{"raftsman_client_metrics_series_dropped_total", counter, nil, "Series that clients have pushed and that are not shown, as there are too many or their labels are too long.", one(func(s *scene) int64 { return s.clients.Dropped })},
	{"raftsman_client_metrics_forwarded_total", counter, nil, "Pushes that the collector has taken, where one is configured.", eachForwarded(func(f *forwardScene) int64 { return f.Sent.Value() })},
	{"raftsman_client_metrics_forward_rejected_points_total", counter, nil, "Data points of these that the collector says it has left out.", eachForwarded(func(f *forwardScene) int64 { return f.Rejected.Value() })},
	{"raftsman_client_metrics_forward_dropped_total", counter, nil, "Pushes that were not forwarded: too many waited, or the collector does not want them.", eachForwarded(func(f *forwardScene) int64 { return f.Dropped.Value() })},
	{"raftsman_client_metrics_forward_failures_total", counter, nil, "Requests that the collector did not answer as it should.", eachForwarded(func(f *forwardScene) int64 { return f.Failed.Value() })},
	{"raftsman_client_info", gauge, nil, "1 for each client that has pushed, with what it says of itself, as group_id or client_rack, in labels beside those of its metrics.", func(s *scene, e emit) {
		for _, labels := range s.clients.Clients {
			var p pairs
			p.set(labels)
			e.line("", 1, p.names, p.values)
		}
	}},
}

func eachForwarded(read func(f *forwardScene) int64) func(*scene, emit) {
	return func(s *scene, e emit) {
		if f := s.from.Forwarded; f != nil {
			e.count(read(f))
		}
	}
}

// pairs are labels as emit wants them, in memory that is used again.
type pairs struct{ names, values []string }

func (p *pairs) set(labels ...[]clientmetrics.Label) {
	p.names, p.values = p.names[:0], p.values[:0]
	for _, some := range labels {
		for _, l := range some {
			p.add(l.Name, l.Value)
		}
	}
}

func (p *pairs) add(name, value string) {
	p.names, p.values = append(p.names, name), append(p.values, value)
}

// writeClients writes what clients have pushed, one family after the other. What two clients push under one name has one type: that
// of most of them.
func writeClients(all []clientmetrics.Sample, to *page) {
	samples := make([]*clientmetrics.Sample, len(all))
	for i := range all {
		samples[i] = &all[i]
	}
	slices.SortStableFunc(samples, func(a, b *clientmetrics.Sample) int { return strings.Compare(a.Family, b.Family) })
	taken := map[string]bool{}
	var labels pairs
	for len(samples) > 0 && to.err == nil {
		n := slices.IndexFunc(samples, func(s *clientmetrics.Sample) bool { return s.Family != samples[0].Family })
		if n < 0 {
			n = len(samples)
		}
		of := samples[:n]
		samples = samples[n:]
		name, kind := of[0].Family, commonest(of)
		if taken[name] {
			continue // a histogram's or a summary's, which came before as it is shorter
		}
		if kind == clientmetrics.Histogram || kind == clientmetrics.Summary {
			taken[name+"_bucket"], taken[name+"_sum"], taken[name+"_count"] = true, true, true
		}
		to.buf = append(to.buf, "# HELP "+name+" What clients of this broker push of themselves.\n# TYPE "+name+" "+pushedKinds[kind]+"\n"...)
		e := emit{of: &family{name: name}, to: to}
		for _, s := range of {
			if s.Kind == kind {
				e.pushed(s, &labels)
			}
		}
	}
}

var pushedKinds = [...]string{clientmetrics.Gauge: "gauge", clientmetrics.Counter: "counter", clientmetrics.Histogram: "histogram", clientmetrics.Summary: "summary"}

func commonest(samples []*clientmetrics.Sample) clientmetrics.Kind {
	var counts [len(pushedKinds)]int
	for _, s := range samples {
		counts[s.Kind]++
	}
	most := 0
	for kind, n := range counts {
		if n > counts[most] {
			most = kind
		}
	}
	return clientmetrics.Kind(most)
}

// pushed writes a client's series; scratch is where its labels are put together.
func (e emit) pushed(s *clientmetrics.Sample, scratch *pairs) {
	scratch.set(s.Client, s.Labels)
	names, values := scratch.names, scratch.values
	if s.Spread == nil {
		e.line("", s.Value, names, values)
		return
	}
	suffix, label := "", "quantile"
	if s.Kind == clientmetrics.Histogram {
		suffix, label = "_bucket", "le"
	}
	with := append(names[:len(names):len(names)], label)
	below := 0.0
	for i, bound := range s.Spread.Bounds {
		v := s.Spread.Values[i]
		if s.Kind == clientmetrics.Histogram { // a bucket of Prometheus has those below it in it
			below += v
			v = below
		}
		e.line(suffix, v, with, append(values[:len(values):len(values)], strconv.FormatFloat(bound, 'g', -1, 64)))
	}
	e.line("_sum", s.Spread.Sum, names, values)
	e.line("_count", float64(s.Spread.Count), names, values)
}
