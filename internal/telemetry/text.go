package telemetry

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/metric"
)

// contentType is Prometheus's text format. ADR 11 says why it is written here and not by Prometheus's own library, which the tests
// read it with.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// pageBytes is how much of the text is collected before it is written.
const pageBytes = 64 << 10

// page writes the text to who scrapes, in pieces: a large broker has megabytes of it.
type page struct {
	to  io.Writer
	buf []byte
	err error // of a write; what comes after it goes nowhere
}

func newPage(to io.Writer) *page { return &page{to: to, buf: make([]byte, 0, pageBytes+pageBytes/8)} }

func (p *page) flush() {
	if p.err == nil && len(p.buf) > 0 {
		_, p.err = p.to.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

// emit writes the values of one metric.
type emit struct {
	of *family
	to *page
}

// begin writes what stands above the values.
func (e emit) begin() {
	e.to.buf = append(e.to.buf, "# HELP "+e.of.name+" "+helpEscapes.Replace(e.of.help)+"\n# TYPE "+e.of.name+" "+kindNames[e.of.kind]+"\n"...)
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// value writes a value; labels are in the order of the family's.
func (e emit) value(v float64, labels ...string) { e.line("", v, e.of.labels, labels) }

func (e emit) count(n int64, labels ...string) { e.value(float64(n), labels...) }

// all writes the value that has no labels, as it is of everything.
func (e emit) all(n int64) { e.line("", float64(n), nil, nil) }

func (e emit) line(suffix string, v float64, names, labels []string) {
	e.write(appendLabels(append(append(e.to.buf, e.of.name...), suffix...), names, labels...), v)
}

// labelled writes a value whose labels are text already.
func (e emit) labelled(v float64, labels []byte) {
	e.write(append(append(e.to.buf, e.of.name...), labels...), v)
}

// appendLabels writes labels behind a metric's name.
func appendLabels(out []byte, names []string, labels ...string) []byte {
	for i, name := range names {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		out = append(append(out, separator), name...)
		out = append(append(append(out, '=', '"'), escaped(labels[i])...), '"')
	}
	if len(names) > 0 {
		out = append(out, '}')
	}
	return out
}

// write ends a line.
func (e emit) write(out []byte, v float64) {
	out = append(out, ' ')
	if n := int64(v); float64(n) == v && n > -maxExact && n < maxExact {
		out = strconv.AppendInt(out, n, 10) // most are, and it costs a third
	} else {
		out = strconv.AppendFloat(out, v, 'g', -1, 64)
	}
	e.to.buf = append(out, '\n')
	if len(e.to.buf) >= pageBytes {
		e.to.flush()
	}
}

// maxExact is up to where a float has all whole numbers.
const maxExact = 1 << 53

// escaped writes a label's value as the format wants it.
func escaped(label string) string {
	for i := range len(label) {
		if c := label[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return labelEscapes.Replace(strings.ToValidUTF8(label, "\uFFFD"))
		}
	}
	return label
}

// quantiles are those of a summary, written as the JMX exporter writes them.
var quantiles = []struct {
	q     float64
	label string
}{{0.5, "0.50"}, {0.75, "0.75"}, {0.95, "0.95"}, {0.98, "0.98"}, {0.99, "0.99"}, {0.999, "0.999"}}

// summary writes a histogram's quantiles, sum and count, in another unit of so many of its own.
func (e emit) summary(h *metric.Histogram, unit float64, labels ...string) {
	d := h.Read()
	names := append(e.of.labels[:len(e.of.labels):len(e.of.labels)], "quantile")
	for _, of := range quantiles {
		e.line("", float64(d.Quantile(of.q))/unit, names, append(labels[:len(labels):len(labels)], of.label))
	}
	e.line("_sum", float64(d.Sum)/unit, e.of.labels, labels)
	e.line("_count", float64(d.Count), e.of.labels, labels)
}
