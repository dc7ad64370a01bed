// Package clientmetrics decides about the metrics that clients push (KIP-714): which ones a client is asked for, when it may push, how
// long it is remembered, and what its metrics look like to Prometheus. It is pure: time and new ids are arguments.
//
//	subscription.go   which clients a subscription means
//	instances.go      the clients that are known, and what they are answered
//	decode.go         what a push holds: OTLP's metrics, in protobuf
//	names.go          their names as Prometheus has them
//	series.go         the newest values of each client
//	forward.go        a push as it goes on to a collector
package clientmetrics

import (
	"hash/crc32"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Client is what a broker knows of who sends a request, as subscriptions match it.
type Client struct {
	ID                            string
	Anonymous                     bool // no client id at all: no pattern matches it
	SoftwareName, SoftwareVersion string
	Address, Port                 string
}

// shown returns the client as it is shown and kept: its texts have 256 bytes at most, all of them UTF-8, as a collector refuses others,
// and share no memory with what they came from.
func (c Client) shown() Client {
	for _, text := range []*string{&c.ID, &c.SoftwareName, &c.SoftwareVersion, &c.Address, &c.Port} {
		*text = strings.Clone(strings.ToValidUTF8((*text)[:min(len(*text), valueMax)], "?"))
	}
	return c
}

// Subscription asks the clients that match it for metrics.
type Subscription struct {
	intervalMs int64
	metrics    []string
	match      map[string]*regexp.Regexp // by attribute
}

// NewSubscription reads the settings of a client-metrics resource. A pattern that cannot be compiled, as one that Kafka stored may
// be, matches nothing.
func NewSubscription(c config.ClientMetrics) Subscription {
	s := Subscription{intervalMs: c.IntervalMs, metrics: c.Metrics, match: map[string]*regexp.Regexp{}}
	for _, item := range c.Match {
		name, pattern, _ := strings.Cut(item, "=")
		compiled, err := regexp.Compile(`\A(?:` + strings.TrimSpace(pattern) + `)\z`)
		if err != nil {
			compiled = nothing
		}
		s.match[strings.TrimSpace(name)] = compiled
	}
	return s
}

// nothing matches no text.
var nothing = regexp.MustCompile(`\z.`)

// matches tells whether the client is meant: every pattern has to match its attribute as a whole.
func (s *Subscription) matches(id kafka.UUID, c *Client) bool {
	for _, attribute := range slices.Sorted(maps.Keys(s.match)) {
		if text, known := attributeOf(attribute, id, c); !known || !s.match[attribute].MatchString(text) {
			return false
		}
	}
	return true
}

func attributeOf(name string, id kafka.UUID, c *Client) (text string, known bool) {
	switch name {
	case "client_instance_id":
		return id.String(), true
	case "client_id":
		return c.ID, !c.Anonymous
	case "client_software_name":
		return c.SoftwareName, true
	case "client_software_version":
		return c.SoftwareVersion, true
	case "client_source_address":
		return c.Address, true
	case "client_source_port":
		return c.Port, true
	}
	return "", false
}

// everything stands for all metrics of a client.
const everything = "*"

// defaultIntervalMs is how often a client pushes that no subscription matches: it pushes nothing, and asks again after that time.
const defaultIntervalMs = 300_000

// asked is what a client is asked for by all subscriptions that match it.
type asked struct {
	id         int32
	intervalMs int64
	metrics    []string // sorted; none: it is to push nothing
}

func ask(subscriptions []Subscription, id kafka.UUID, c *Client) asked {
	a := asked{intervalMs: defaultIntervalMs, metrics: []string{}}
	for i := range subscriptions {
		if s := &subscriptions[i]; s.matches(id, c) {
			a.metrics = append(a.metrics, s.metrics...)
			a.intervalMs = min(a.intervalMs, s.intervalMs)
		}
	}
	slices.Sort(a.metrics)
	if a.metrics = slices.Compact(a.metrics); slices.Contains(a.metrics, everything) {
		a.metrics = []string{everything}
	}
	a.id = subscriptionID(a.metrics, a.intervalMs, id)
	return a
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// subscriptionID is Kafka's, so that clients that go from one broker to the other keep what they have: a checksum of metrics and
// interval, and the instance's own number. Kafka's order of several metrics is not ours.
func subscriptionID(metrics []string, intervalMs int64, id kafka.UUID) int32 {
	text := "[" + strings.Join(metrics, ", ") + "]" + strconv.FormatInt(intervalMs, 10)
	var folded uint32
	for i, b := range id {
		folded ^= uint32(b) << (8 * (3 - i%4))
	}
	return int32(crc32.Checksum([]byte(text), castagnoli) ^ folded)
}
