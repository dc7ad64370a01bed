package clientmetrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// The longest texts that are shown.
const (
	nameMax   = 256  // a metric's name and unit together
	labelsMax = 1024 // all labels of one series together
	valueMax  = 256  // of what a client says of itself
)

// Pushed is what one push holds, read and ready to be kept.
type Pushed struct {
	series   []series
	resource []Label
	dropped  int64 // that have too long texts
}

// series is one series of a client and its newest value. Labels and spreads are not changed once they are here.
type series struct {
	key    string // family and labels
	family string
	kind   Kind
	delta  bool
	labels []Label
	value  float64
	spread *Spread
}

// Read decodes a push, of which it keeps nothing. At most seriesMax series of it are taken, the first ones.
func Read(push []byte, seriesMax int) (*Pushed, error) {
	pushed := &Pushed{}
	d := decoder{visit: func(p *point) { pushed.add(p, seriesMax) }}
	if err := d.push(push); err != nil {
		return nil, err
	}
	pushed.resource = shown(d.resource)
	if textBytes(pushed.resource) > labelsMax {
		pushed.resource = nil
	}
	return pushed, nil
}

func (a *Pushed) add(p *point, seriesMax int) {
	if len(p.metric.name)+len(p.metric.unit) > nameMax || textBytes(p.labels) > labelsMax || len(a.series) >= seriesMax {
		a.dropped++
		return
	}
	if p.metric.family == "" {
		p.metric.family = familyName(p.metric.name, p.metric.unit, p.metric.kind)
	}
	s := series{family: p.metric.family, kind: p.metric.kind, delta: p.delta, labels: shown(p.labels), value: p.value, spread: p.spread}
	if s.spread != nil { // these are Prometheus's own there
		s.labels = slices.DeleteFunc(s.labels, func(l Label) bool { return l.Name == "le" || l.Name == "quantile" })
	}
	var key strings.Builder
	key.WriteString(s.family)
	for _, l := range s.labels {
		key.WriteString("\x00" + l.Name + "\x00" + l.Value)
	}
	s.key = key.String()
	a.series = append(a.series, s)
}

func textBytes(labels []Label) (n int) {
	for _, l := range labels {
		n += len(l.Name) + len(l.Value)
	}
	return n
}

// shown returns attributes as labels, by name. Those without a value are left out, and so are those that say what the broker says of
// the client itself; of two that would have one name the first counts.
func shown(attributes []Label) []Label {
	var labels []Label
	for _, a := range attributes {
		if a.Name = labelName(a.Name); a.Value != "" && !slices.Contains(ownLabels, a.Name) {
			labels = append(labels, a)
		}
	}
	slices.SortStableFunc(labels, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return owned(slices.CompactFunc(labels, func(a, b Label) bool { return a.Name == b.Name }))
}

// store has the newest values of one client.
type store struct {
	byKey    map[string]*series
	keys     []string // sorted
	resource []Label
}

func (s *store) len() int { return len(s.keys) }

// keep takes a push over: what it adds is added to what was, gauges that it does not have are gone. It returns how many series had no
// place, as there may be so many only.
func (s *store) keep(pushed *Pushed, limit int) (dropped int64) {
	now := make(map[string]*series, max(len(s.keys), len(pushed.series)))
	for _, key := range s.keys {
		if was := s.byKey[key]; was.kind != Gauge || was.delta {
			now[key] = was
		}
	}
	dropped = pushed.dropped
	for i := range pushed.series {
		next := pushed.series[i]
		was, known := now[next.key]
		if !known && len(now) >= limit {
			dropped++
			continue
		}
		if known && next.delta && was.kind == next.kind {
			next.value += was.value
			if next.spread != nil {
				next.spread = next.spread.plus(was.spread)
			}
		}
		now[next.key] = &next
	}
	s.byKey, s.resource = now, pushed.resource
	s.keys = slices.Sorted(maps.Keys(now))
	return dropped
}

// plus is the sum of both; with other bounds what came before does not count.
func (s *Spread) plus(was *Spread) *Spread {
	if was == nil || !slices.Equal(s.Bounds, was.Bounds) || len(s.Values) != len(was.Values) {
		return s
	}
	sum := &Spread{Count: s.Count + was.Count, Sum: s.Sum + was.Sum, Bounds: s.Bounds, Values: slices.Clone(s.Values)}
	for i, v := range was.Values {
		sum.Values[i] += v
	}
	return sum
}

// ownLabels are those that the broker gives to each series of a client.
var ownLabels = []string{"client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address"}

// Sample is one series as it is shown.
type Sample struct {
	Family string
	Kind   Kind
	Client []Label // who it is of; the same for all its series
	Labels []Label
	Value  float64
	Spread *Spread
}

// Observation is what there is to see of all clients.
type Observation struct {
	Instances int
	Dropped   int64    // series that were not taken, since the start
	Pushes    [3]int64 // since the start, by what became of them
	Samples   []Sample
	Clients   [][]Label // of each that has pushed: who it is, and what it says of itself
}

// Observe returns the newest values of all clients. What it returns is the caller's, but not the labels and spreads in it.
func (s *Instances) Observe(nowMs int64) Observation {
	s.Expire(nowMs)
	o := Observation{Instances: len(s.byID), Dropped: s.dropped, Pushes: s.pushes, Samples: make([]Sample, 0, s.series)}
	for i := s.order.First(); i != nil; i = i.links.Next() {
		if i.store.byKey == nil {
			continue
		}
		own := i.labels()
		o.Clients = append(o.Clients, append(own[:len(own):len(own)], i.store.resource...))
		for _, key := range i.store.keys {
			one := i.store.byKey[key]
			o.Samples = append(o.Samples, Sample{one.family, one.kind, own, one.labels, one.value, one.spread})
		}
	}
	return o
}

func (i *instance) labels() []Label {
	values := []string{i.client.ID, i.id.String(), i.client.SoftwareName, i.client.SoftwareVersion, i.client.Address}
	labels := make([]Label, len(ownLabels))
	for n, name := range ownLabels {
		labels[n] = Label{name, values[n]}
	}
	return labels
}
