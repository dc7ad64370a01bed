package clientmetrics

import (
	"strings"
)

// kafkas is how the metrics begin that KIP-714 names. Others get a word of ours in front of them, so that no client can name a
// metric as one of the broker's.
const (
	kafkas = "org_apache_kafka_"
	others = "client_"
)

// units are those of UCUM that Prometheus writes out.
var units = map[string]string{
	"d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
	"By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes", "GiBy": "gibibytes", "TiBy": "tibibytes",
	"KBy": "kilobytes", "MBy": "megabytes", "GBy": "gigabytes", "TBy": "terabytes",
	"m": "meters", "V": "volts", "A": "amperes", "J": "joules", "W": "watts", "g": "grams",
	"Cel": "celsius", "Hz": "hertz", "%": "percent",
}

// perUnits are those behind a slash.
var perUnits = map[string]string{"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}

// familyName is a metric's name as OpenTelemetry's rules for Prometheus make it: words of letters and digits, then the unit, then
// "total" if it is a counter or "ratio" if its unit is 1.
func familyName(name, unit string, kind Kind) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !letterOrDigit(r) && r != ':' })
	main, per, _ := strings.Cut(unit, "/")
	if word := unitWord(main, units); word != "" && !contains(words, word) {
		words = append(words, word)
	}
	if word := unitWord(per, perUnits); word != "" && !contains(words, word) {
		words = append(words, "per", word)
	}
	switch {
	case kind == Counter:
		words = append(without(words, "total"), "total")
	case kind == Gauge && unit == "1":
		words = append(without(words, "ratio"), "ratio")
	}
	full := strings.Join(words, "_")
	if !strings.HasPrefix(full, kafkas) {
		full = others + full
	}
	return full
}

// unitWord is a unit as a word; what stands in braces is none, and neither is 1.
func unitWord(unit string, known map[string]string) string {
	if unit = strings.TrimSpace(unit); unit == "1" || strings.ContainsAny(unit, "{}") {
		return ""
	}
	if word, ok := known[unit]; ok {
		return word
	}
	return strings.Join(strings.FieldsFunc(unit, func(r rune) bool { return !letterOrDigit(r) }), "_")
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

func without(words []string, word string) []string {
	kept := words[:0]
	for _, w := range words {
		if w != word {
			kept = append(kept, w)
		}
	}
	return kept
}

func letterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// labelName is an attribute's name as a label's.
func labelName(name string) string {
	name = strings.Map(func(r rune) rune {
		if letterOrDigit(r) {
			return r
		}
		return '_'
	}, name)
	if name == "" || name[0] >= '0' && name[0] <= '9' || strings.HasPrefix(name, "__") {
		return "key_" + name
	}
	return name
}
