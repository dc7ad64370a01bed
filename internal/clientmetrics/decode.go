package clientmetrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/VictoriaMetrics/easyproto"
)

// Kind is what a metric is to Prometheus.
type Kind uint8

// The kinds of metrics.
const (
	Gauge Kind = iota
	Counter
	Histogram
	Summary
)

// point is one value of one metric of a push. Its strings are borrowed from the push.
type point struct {
	metric *metric
	labels []Label
	delta  bool // what has come since the last push, to be added up
	value  float64
	spread *Spread // of histograms and summaries
}

// Label is the name of an attribute and its value.
type Label struct{ Name, Value string }

// Spread is the value of a histogram or a summary: buckets or quantiles, none where the client told of none.
type Spread struct {
	Count  uint64
	Sum    float64
	Bounds []float64 // upper bounds of a histogram's buckets, the last one being +Inf; the quantiles of a summary
	Values []float64 // of buckets how many are in each alone; of a summary the quantile
}

// metric is what all points of a metric have in common.
type metric struct {
	name, unit string
	kind       Kind
	family     string // its name to Prometheus, made when it is first needed
}

// Limits of what is read from one push. A push of a real client has some hundred metrics with a few attributes each.
const (
	attributesMax = 24
	bucketsMax    = 200
)

// errMalformed is wrapped by what decode returns of bytes that are no OTLP metrics.
var errMalformed = errors.New("not the metrics of OTLP in protobuf")

// decoder walks the messages of a push. Fields that it does not know are passed over, as protobuf wants it.
type decoder struct {
	resource []Label
	visit    func(p *point)
}

// each visits the fields of a message.
func each(message []byte, visit func(f *easyproto.FieldContext) error) error {
	var f easyproto.FieldContext
	for len(message) > 0 {
		var err error
		if message, err = f.NextField(message); err != nil {
			return fmt.Errorf("%w: %w", errMalformed, err)
		}
		if f.FieldNum == 0 {
			return fmt.Errorf("%w: a field without a number", errMalformed)
		}
		if err := visit(&f); err != nil {
			return err
		}
	}
	return nil
}

// message reads a field that holds a message.
func message(f *easyproto.FieldContext, read func(m []byte) error) error {
	m, ok := f.MessageData()
	if !ok {
		return wrongType(f)
	}
	return read(m)
}

func text(f *easyproto.FieldContext, into *string) error {
	s, ok := f.String()
	if !ok {
		return wrongType(f)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: field %d is not UTF-8", errMalformed, f.FieldNum)
	}
	*into = s
	return nil
}

func double(f *easyproto.FieldContext, into *float64) error {
	v, ok := f.Double()
	if !ok {
		return wrongType(f)
	}
	*into = v
	return nil
}

func integer(f *easyproto.FieldContext, into *uint64) error {
	v, ok := f.Uint64()
	if !ok {
		return wrongType(f)
	}
	*into = v
	return nil
}

func fixed64(f *easyproto.FieldContext, into *uint64) error {
	v, ok := f.Fixed64()
	if !ok {
		return wrongType(f)
	}
	*into = v
	return nil
}

func wrongType(f *easyproto.FieldContext) error {
	return fmt.Errorf("%w: field %d has another type", errMalformed, f.FieldNum)
}

// push reads MetricsData, which has the fields of ExportMetricsServiceRequest too.
func (d *decoder) push(m []byte) error {
	return each(m, func(f *easyproto.FieldContext) error {
		if f.FieldNum == 1 {
			return message(f, d.resourceMetrics)
		}
		return nil
	})
}

func (d *decoder) resourceMetrics(m []byte) error {
	d.resource = nil // that of the last one counts: clients say the same in each
	return each(m, func(f *easyproto.FieldContext) error {
		switch f.FieldNum {
		case 1: // resource
			return message(f, func(m []byte) error {
				return each(m, func(f *easyproto.FieldContext) error {
					if f.FieldNum == 1 {
						return attribute(f, &d.resource)
					}
					return nil
				})
			})
		case 2: // scope_metrics
			return message(f, func(m []byte) error {
				return each(m, func(f *easyproto.FieldContext) error {
					if f.FieldNum == 2 {
						return message(f, d.metric)
					}
					return nil
				})
			})
		}
		return nil
	})
}

// metric reads its name and unit first, wherever they stand, then its points.
func (d *decoder) metric(m []byte) error {
	var is metric
	var data []byte
	var read func(is *metric, m []byte) error
	err := each(m, func(f *easyproto.FieldContext) error {
		switch f.FieldNum {
		case 1:
			return text(f, &is.name)
		case 3:
			return text(f, &is.unit)
		case 5:
			read = d.gauge
		case 7:
			read = d.sum
		case 9:
			read = d.histogram
		case 10:
			read = d.exponential
		case 11:
			read = d.summary
		default:
			return nil
		}
		return message(f, func(m []byte) error { data = m; return nil })
	})
	if err != nil || read == nil {
		return err
	}
	return read(&is, data)
}

func (d *decoder) gauge(is *metric, m []byte) error {
	is.kind = Gauge
	return each(m, func(f *easyproto.FieldContext) error {
		if f.FieldNum == 1 {
			return d.number(f, point{metric: is})
		}
		return nil
	})
}

// deltas is AGGREGATION_TEMPORALITY_DELTA.
const deltas = 1

func (d *decoder) sum(is *metric, m []byte) error {
	var temporality, monotonic uint64
	err := each(m, func(f *easyproto.FieldContext) error {
		switch f.FieldNum {
		case 2:
			return integer(f, &temporality)
		case 3:
			return integer(f, &monotonic)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if is.kind = Gauge; monotonic != 0 {
		is.kind = Counter
	}
	return each(m, func(f *easyproto.FieldContext) error {
		if f.FieldNum == 1 {
			return d.number(f, point{metric: is, delta: temporality == deltas})
		}
		return nil
	})
}

// noValue is the flag of a point that has none.
const noValue = 1

// number reads a NumberDataPoint.
func (d *decoder) number(f *easyproto.FieldContext, p point) error {
	var flags uint64
	has := false
	err := message(f, func(m []byte) error {
		return each(m, func(f *easyproto.FieldContext) error {
			switch f.FieldNum {
			case 4:
				has = true
				return double(f, &p.value)
			case 6:
				var bits uint64
				err := fixed64(f, &bits)
				has, p.value = true, float64(int64(bits))
				return err
			case 7:
				return attribute(f, &p.labels)
			case 8:
				return integer(f, &flags)
			}
			return nil
		})
	})
	if err == nil && has && flags&noValue == 0 {
		d.visit(&p)
	}
	return err
}

func (d *decoder) histogram(is *metric, m []byte) error {
	is.kind = Histogram
	return d.spreads(m, is, spreadFields{count: 4, sum: 5, buckets: 6, bounds: 7, attributes: 9, flags: 10})
}

// exponential is shown with its count and its sum alone.
func (d *decoder) exponential(is *metric, m []byte) error {
	is.kind = Summary
	return d.spreads(m, is, spreadFields{count: 4, sum: 5, attributes: 1, flags: 10})
}

func (d *decoder) summary(is *metric, m []byte) error {
	is.kind = Summary
	return d.spreads(m, is, spreadFields{count: 4, sum: 5, quantiles: 6, attributes: 7, flags: 8})
}

// spreadFields are the numbers of the fields in one of the three messages with a Spread; 0: it has none.
type spreadFields struct{ count, sum, buckets, bounds, quantiles, attributes, flags uint32 }

// spreads reads the points of a histogram or a summary.
func (d *decoder) spreads(m []byte, is *metric, at spreadFields) error {
	var temporality uint64
	err := each(m, func(f *easyproto.FieldContext) error {
		if f.FieldNum == 2 {
			return integer(f, &temporality)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return each(m, func(f *easyproto.FieldContext) error {
		if f.FieldNum != 1 {
			return nil
		}
		p := point{metric: is, delta: temporality == deltas, spread: &Spread{}}
		var flags uint64
		err := message(f, func(m []byte) error { return readSpread(m, at, &p, &flags) })
		if err == nil && flags&noValue == 0 {
			if err = p.spread.settle(is.kind); err == nil {
				d.visit(&p)
			}
		}
		return err
	})
}

func readSpread(m []byte, at spreadFields, p *point, flags *uint64) error {
	s := p.spread
	return each(m, func(f *easyproto.FieldContext) (err error) {
		ok := true
		switch f.FieldNum {
		case at.count:
			return fixed64(f, &s.Count)
		case at.sum:
			return double(f, &s.Sum)
		case at.buckets:
			var counts []uint64
			counts, ok = f.UnpackFixed64s(nil)
			for _, n := range counts {
				s.Values = append(s.Values, float64(n))
			}
		case at.bounds:
			s.Bounds, ok = f.UnpackDoubles(s.Bounds)
		case at.quantiles:
			var quantile, value float64
			err = message(f, func(m []byte) error {
				return each(m, func(f *easyproto.FieldContext) error {
					switch f.FieldNum {
					case 1:
						return double(f, &quantile)
					case 2:
						return double(f, &value)
					}
					return nil
				})
			})
			s.Bounds, s.Values = append(s.Bounds, quantile), append(s.Values, value)
		case at.attributes:
			return attribute(f, &p.labels)
		case at.flags:
			return integer(f, flags)
		}
		switch {
		case !ok:
			return wrongType(f)
		case len(s.Values) > bucketsMax || len(s.Bounds) > bucketsMax:
			return fmt.Errorf("%w: more than %d buckets or quantiles", errMalformed, bucketsMax)
		}
		return err
	})
}

// settle checks that buckets and bounds fit together. Of a summary it keeps the quantiles that are some, each once: two would be the same
// series.
func (s *Spread) settle(kind Kind) error {
	if kind == Summary {
		n := 0
		for i, quantile := range s.Bounds {
			if quantile >= 0 && quantile <= 1 && !slices.Contains(s.Bounds[:n], quantile) {
				s.Bounds[n], s.Values[n] = quantile, s.Values[i]
				n++
			}
		}
		s.Bounds, s.Values = s.Bounds[:n], s.Values[:n]
	}
	if kind != Histogram || len(s.Values)+len(s.Bounds) == 0 {
		return nil
	}
	if len(s.Values) != len(s.Bounds)+1 {
		return fmt.Errorf("%w: %d buckets between %d bounds", errMalformed, len(s.Values), len(s.Bounds))
	}
	s.Bounds = append(s.Bounds, math.Inf(1))
	for i := 1; i < len(s.Bounds); i++ {
		if !(s.Bounds[i-1] < s.Bounds[i]) { // NaN too
			return fmt.Errorf("%w: the bounds of buckets do not rise", errMalformed)
		}
	}
	return nil
}

// attribute reads a KeyValue. Values that are lists or bytes are shown as nothing.
func attribute(f *easyproto.FieldContext, into *[]Label) error {
	var l Label
	err := message(f, func(m []byte) error {
		return each(m, func(f *easyproto.FieldContext) error {
			switch f.FieldNum {
			case 1:
				return text(f, &l.Name)
			case 2:
				return message(f, func(m []byte) error { return anyValue(m, &l.Value) })
			}
			return nil
		})
	})
	if err == nil && len(*into) == attributesMax {
		return fmt.Errorf("%w: more than %d attributes", errMalformed, attributesMax)
	}
	*into = append(*into, l)
	return err
}

func anyValue(m []byte, into *string) error {
	return each(m, func(f *easyproto.FieldContext) error {
		switch f.FieldNum {
		case 1:
			return text(f, into)
		case 2:
			var is uint64
			err := integer(f, &is)
			*into = strconv.FormatBool(is != 0)
			return err
		case 3:
			var is uint64
			err := integer(f, &is)
			*into = strconv.FormatInt(int64(is), 10)
			return err
		case 4:
			var is float64
			err := double(f, &is)
			*into = strconv.FormatFloat(is, 'g', -1, 64)
			return err
		}
		return nil
	})
}

// owned returns labels that outlive the push: their texts are copied, together.
func owned(labels []Label) []Label {
	var all strings.Builder
	for _, l := range labels {
		all.WriteString(l.Name)
		all.WriteString(l.Value)
	}
	whole, at := all.String(), 0
	cut := func(s string) string {
		at += len(s)
		return whole[at-len(s) : at]
	}
	for i, l := range labels {
		labels[i] = Label{cut(l.Name), cut(l.Value)}
	}
	return labels
}
