package config

import (
	"fmt"
	"math"
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
		return v, err
	}
	return v, k.check.admit(k.Type, v)
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
	case Int:
		v.i, err = parseInt(text, 32)
	case Long:
		v.i, err = parseInt(text, 64)
	case Double:
		v.f, err = strconv.ParseFloat(strings.TrimRight(text, "dDfF"), 64)
		if err != nil || strings.ContainsAny(text, "_xX") {
			return v, fmt.Errorf("must be a number")
		}
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
		limit := int64(1)<<(bits-1) - 1
		return 0, fmt.Errorf("must be a whole number from %d to %d", -limit-1, limit)
	}
	return i, nil
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
	if math.IsNaN(n) {
		return fmt.Errorf("must be a number")
	}
	switch {
	case n < c.min:
		return fmt.Errorf("must be at least %s", strconv.FormatFloat(c.min, 'f', -1, 64))
	case c.kind == between && n > c.max:
		return fmt.Errorf("must be at most %s", strconv.FormatFloat(c.max, 'f', -1, 64))
	}
	return nil
}

func (c check) admitList(items []string) error {
	if len(items) == 0 && !c.emptyAllowed {
		return fmt.Errorf("must not be empty")
	}
	for i, item := range items {
		switch {
		case item == "":
			return fmt.Errorf("must not have an empty item")
		case slices.Contains(items[:i], item):
			return fmt.Errorf("must not have %s twice", item)
		case c.words != nil && !slices.Contains(c.words, item):
			return fmt.Errorf("may hold only %s", strings.Join(c.words, ", "))
		}
	}
	return nil
}

// admitThrottled takes *, none, or partition:broker pairs.
func admitThrottled(items []string) error {
	if len(items) == 1 && (items[0] == "*" || strings.EqualFold(items[0], "none")) {
		return nil
	}
	for _, item := range items {
		partition, broker, ok := strings.Cut(item, ":")
		if !ok || !isDigits(partition) || !isDigits(broker) {
			return fmt.Errorf("must be *, none, or a list of partition:broker such as 0:1,1:2")
		}
	}
	return nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// admitShareReset takes latest, earliest, and by_duration: with an ISO 8601 duration that is not negative.
func admitShareReset(text string) error {
	text = strings.ToLower(text)
	if text == "latest" || text == "earliest" {
		return nil
	}
	if duration, ok := strings.CutPrefix(text, "by_duration:"); ok && isDuration(duration) {
		return nil
	}
	return fmt.Errorf("must be latest, earliest, or by_duration: and a duration such as PT1H")
}

// isDuration tells whether s, in small letters, is a java.time.Duration that is not negative: pnDTnHnMn.nS.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "p")
	if !ok {
		return false
	}
	days, clock, timed := strings.Cut(s, "t")
	parts := 0
	if days != "" {
		number, ok := strings.CutSuffix(days, "d")
		if !ok || !isDigits(number) {
			return false
		}
		parts++
	}
	if timed && clock == "" {
		return false
	}
	for _, unit := range []string{"h", "m", "s"} {
		number, rest, ok := strings.Cut(clock, unit)
		if !ok {
			continue
		}
		if unit == "s" {
			number, _, _ = strings.Cut(number, ".")
		}
		if !isDigits(number) {
			return false
		}
		clock = rest
		parts++
	}
	return clock == "" && parts > 0
}
