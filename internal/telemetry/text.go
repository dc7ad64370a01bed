package telemetry

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/metric"
)

// contentType is Prometheus's text format. ADR 11 says why it is written here and not by Prometheus's own library, which the tests
// read it with.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// emit writes the values of one metric.
type emit struct {
	of  *family
	out *[]byte
}

// begin writes what stands above the values.
func (e emit) begin() {
	*e.out = append(*e.out, "# HELP "+e.of.name+" "+helpEscapes.Replace(e.of.help)+"\n# TYPE "+e.of.name+" "+kindNames[e.of.kind]+"\n"...)
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// value writes a value; labels are in the order of the family's.
func (e emit) value(v float64, labels ...string) { e.line("", v, e.of.labels, labels) }

func (e emit) count(n int64, labels ...string) { e.value(float64(n), labels...) }

func (e emit) line(suffix string, v float64, names, labels []string) {
	out := append(append(*e.out, e.of.name...), suffix...)
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
	out = append(out, ' ')
	if n := int64(v); float64(n) == v && n > -maxExact && n < maxExact {
		out = strconv.AppendInt(out, n, 10) // most are, and it costs a third
	} else {
		out = strconv.AppendFloat(out, v, 'g', -1, 64)
	}
	*e.out = append(out, '\n')
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

// quantiles are those of a summary.
var quantiles = []float64{0.5, 0.95, 0.99, 0.999}

// summary writes a histogram's quantiles, sum and count, in another unit of so many of its own.
func (e emit) summary(h *metric.Histogram, unit float64, labels ...string) {
	d := h.Read()
	names := append(e.of.labels[:len(e.of.labels):len(e.of.labels)], "quantile")
	for _, q := range quantiles {
		with := append(labels[:len(labels):len(labels)], strconv.FormatFloat(q, 'g', -1, 64))
		e.line("", float64(d.Quantile(q))/unit, names, with)
	}
	e.line("_sum", float64(d.Sum)/unit, e.of.labels, labels)
	e.line("_count", float64(d.Count), e.of.labels, labels)
}
