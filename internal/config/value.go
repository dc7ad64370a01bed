package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// value is the text of a key, parsed as its type. Integers of every width are in i.
type value struct {
	text string // trimmed, as the key shows it
	null bool
	i    int64
	f    float64
	b    bool
	list []string
}

// parse reads text as the key's type, as Kafka's ConfigDef does, and checks it against what the key allows. The error says
// what is allowed, without key and value.
func (k *Key) parse(text string) (value, error) {
	v, err := parseType(k.Type, text)
	if err != nil {
		return v, k.wanted(err)
	}
	if err := k.check.admit(k.Type, v); err != nil {
		return v, err
	}
	return v.unique(k), nil
}

// wanted says which number a key takes, where text was none; other errors say it by themselves.
func (k *Key) wanted(err error) error {
	what, c := "must be a whole number", k.check
	switch k.Type {
	case Short, Int, Long:
	case Double:
		what = "must be a number"
	case Boolean, String, List, Class, Password:
		return err
	}
	most := map[Type]float64{Short: math.MaxInt16, Int: math.MaxInt32}[k.Type] // of longer ones nobody knows the end by heart
	switch c.kind {
	case gzipLevel:
		return fmt.Errorf("%s from 1 to 9, or -1 for the codec's own default", what)
	case between:
		return fmt.Errorf("%s from %s to %s", what, plainNumber(c.min), plainNumber(c.max))
	case atLeast:
		if most == 0 {
			return fmt.Errorf("%s, %s or more", what, plainNumber(c.min))
		}
		return fmt.Errorf("%s from %s to %s", what, plainNumber(c.min), plainNumber(most))
	}
	switch {
	case k.Type == Long:
		return fmt.Errorf("%s of 64 bits", what)
	case most == 0:
		return fmt.Errorf("%s", what)
	}
	return fmt.Errorf("%s from %s to %s", what, plainNumber(-most-1), plainNumber(most))
}

// plainNumber writes a bound without an exponent.
func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// unique returns a checked list without what comes twice: Kafka drops repeated items where it checks a list's items.
func (v value) unique(k *Key) value {
	if k.check.kind != listOf {
		return v
	}
	var items []string
	for _, item := range v.list {
		if !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	v.list, v.text = items, strings.Join(items, ",")
	return v
}

func parseType(t Type, text string) (value, error) {
	text = trim(text)
	v := value{text: text}
	var err error
	switch t {
	case Boolean:
		switch strings.ToLower(text) {
		case "true":
			v.b = true
		case "false":
		default:
			return v, fmt.Errorf("must be true or false")
		}
		v.text = strings.ToLower(text)
	case Short:
		v.i, err = parseInt(text, 16)
		v.text = strconv.FormatInt(v.i, 10)
	case Int:
		v.i, err = parseInt(text, 32)
		v.text = strconv.FormatInt(v.i, 10)
	case Long:
		v.i, err = parseInt(text, 64)
		v.text = strconv.FormatInt(v.i, 10)
	case Double:
		v.f, err = parseDouble(text)
		v.text = formatDouble(v.f)
	case List:
		v.list = splitList(text)
		v.text = strings.Join(v.list, ",")
	case String, Class, Password:
	}
	return v, err
}

// trim removes what Java's String.trim does: everything up to and including the space.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

func parseInt(text string, bits int) (int64, error) {
	i, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("must be a whole number of %d bits", bits)
	}
	return i, nil
}

// parseDouble reads what Java's Double.parseDouble does: a suffix d or f and hexadecimal numbers are allowed, short words for
// infinity are not.
func parseDouble(text string) (float64, error) {
	number := text
	if n := len(text); n > 1 && strings.ContainsRune("dDfF", rune(text[n-1])) && (text[n-2] == '.' || isDigits(text[n-2:n-1])) {
		number = text[:n-1]
	}
	word := strings.TrimLeft(number, "+-")
	if word != "NaN" && word != "Infinity" && (word == "" || !strings.ContainsRune(".0123456789", rune(word[0]))) || strings.Contains(word, "_") {
		return 0, fmt.Errorf("must be a number")
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, fmt.Errorf("must be a number")
	}
	return f, nil
}

// formatDouble writes a number as Java's Double.toString does: 0.5, 1.0E-5.
func formatDouble(f float64) string {
	size := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64), "+") + "inity"
	case size == 0 || size >= 1e-3 && size < 1e7:
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	n, _ := strconv.Atoi(exponent) // FormatFloat wrote it
	return digits + "E" + itoa(n)
}

// splitList cuts at commas with the space around them; an empty text is an empty list.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i, item := range items {
		items[i] = strings.Trim(item, " \t\n\v\f\r")
	}
	return items
}

// check is a rule that a value must keep, beyond its type.
type check struct {
	kind         checkKind
	min, max     float64
	words        []string
	emptyAllowed bool
}

type checkKind uint8

const (
	anything checkKind = iota
	atLeast
	between
	oneOf
	oneOfAnyCase
	listOf
	nonEmpty
	nonNull
	gzipLevel
	throttledReplicas
	quorumVoters
	quorumServers
	shareReset
)

// admit returns what is wrong with v, or nil.
func (c check) admit(t Type, v value) error {
	switch c.kind {
	case atLeast, between:
		return c.admitNumber(t, v)
	case oneOf:
		if !slices.Contains(c.words, v.text) {
			return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
		}
	case oneOfAnyCase:
		if !slices.Contains(c.words, strings.ToUpper(v.text)) {
			return fmt.Errorf("must be one of %s", strings.ToLower(strings.Join(c.words, ", ")))
		}
	case listOf:
		return c.admitList(v.list)
	case nonEmpty:
		if v.text == "" {
			return fmt.Errorf("must not be empty")
		}
	case gzipLevel:
		if v.i != -1 && (v.i < 1 || v.i > 9) {
			return fmt.Errorf("must be from 1 to 9, or -1 for the codec's own default")
		}
	case throttledReplicas:
		return admitThrottled(v.list)
	case quorumVoters:
		_, err := parseVoters(v.list)
		return err
	case quorumServers:
		for _, server := range v.list {
			if _, _, err := splitHostPort(server); err != nil {
				return err
			}
		}
	case shareReset:
		return admitShareReset(v.text)
	case anything, nonNull:
	}
	return nil
}

func (c check) admitNumber(t Type, v value) error {
	n := v.f
	if t != Double {
		n = float64(v.i)
	}
	switch {
	case n < c.min:
		return fmt.Errorf("must be at least %s", plainNumber(c.min))
	case c.kind == between && n > c.max:
		return fmt.Errorf("must be at most %s", plainNumber(c.max))
	}
	return nil
}

func (c check) admitList(items []string) error {
	if len(items) == 0 && !c.emptyAllowed {
		return fmt.Errorf("must not be empty")
	}
	for _, item := range items {
		switch {
		case item == "":
			return fmt.Errorf("must not have an empty item")
		case c.words != nil && !slices.Contains(c.words, item):
			return fmt.Errorf("may hold only %s", strings.Join(c.words, ", "))
		}
	}
	return nil
}

// admitThrottled takes * or partition:broker pairs, between which Kafka lets empty items pass.
func admitThrottled(items []string) error {
	if len(items) == 1 && items[0] == "*" {
		return nil
	}
	for _, item := range items {
		partition, broker, ok := strings.Cut(item, ":")
		if item != "" && (!ok || !isDigits(partition) || !isDigits(broker)) {
			return fmt.Errorf("must be * or a list of partition:broker such as 0:1,1:2")
		}
	}
	return nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// admitShareReset takes latest, earliest, and by_duration: with a duration of Java that is not negative.
func admitShareReset(text string) error {
	if text == "latest" || text == "earliest" {
		return nil
	}
	if duration, ok := strings.CutPrefix(text, "by_duration:"); ok {
		if seconds, ok := parseDuration(duration); ok && seconds >= 0 {
			return nil
		}
	}
	return fmt.Errorf("must be latest, earliest, or by_duration: and a duration such as PT1H")
}

var durationPattern = regexp.MustCompile(`(?i)^([+-]?)P(?:([+-]?[0-9]+)D)?(T(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?(?:([+-]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

// parseDuration reads java.time.Duration's text, pnDTnHnMn.nS, as seconds.
func parseDuration(text string) (seconds float64, ok bool) {
	m := durationPattern.FindStringSubmatch(text)
	if m == nil || strings.EqualFold(m[3], "T") || m[2]+m[4]+m[5]+m[6] == "" {
		return 0, false
	}
	for _, unit := range durationUnits {
		if m[unit.group] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[unit.group], 10, 64)
		if err != nil {
			return 0, false
		}
		seconds += float64(n) * unit.seconds
	}
	if m[1] == "-" {
		seconds = -seconds
	}
	const longest = 1 << 63
	return seconds, math.Abs(seconds) < longest
}

// durationUnits are the numbers of durationPattern.
var durationUnits = []struct {
	group   int
	seconds float64
}{{2, 86400}, {4, 3600}, {5, 60}, {6, 1}}
