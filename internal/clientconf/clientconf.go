// Package clientconf reads what Kafka's clients are configured with (client.properties): which brokers to ask, under what name, and how
// long to wait. It decides; nothing is opened.
package clientconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/config"
)

// Settings are the settings of a client that have an effect here. A zero value is one that was not given.
type Settings struct {
	Servers        string // bootstrap.servers: host:port, with commas
	ClientID       string
	RequestTimeout time.Duration // of one request
	APITimeout     time.Duration // of all that a command asks for, repeats included
	DialTimeout    time.Duration
	Group          string // group.id
	Instance       string // group.instance.id
	Rack           string // client.rack
	OffsetReset    string // auto.offset.reset: earliest, latest, none
	Isolation      string // isolation.level: read_uncommitted, read_committed
	NoAutoCommit   bool   // enable.auto.commit=false
	Acks           string // acks: 0, 1, -1
	Compression    string // compression.type
	Linger         time.Duration
	RequestBytes   int32 // max.request.size
}

// Problem is a property that cannot be taken.
type Problem struct {
	Key    string
	Reason string
}

func (p *Problem) Error() string { return p.Key + ": " + p.Reason }

// Parse reads the text of a properties file. Unknown are the names of keys that no client of Kafka's has, in order: they have no
// effect. The error is a *Problem, or one of the form of the file.
func Parse(text string) (s Settings, unknown []string, err error) {
	properties, err := config.ParseProperties(text)
	if err != nil {
		return Settings{}, nil, err
	}
	values := map[string]string{}
	for _, p := range properties {
		values[p.Name] = p.Value
	}
	return Read(values)
}

// Read is Parse for properties that have been taken apart.
func Read(values map[string]string) (s Settings, unknown []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		known, err := s.take(key, strings.TrimSpace(values[key]))
		if err != nil {
			return Settings{}, nil, err
		}
		if !known {
			unknown = append(unknown, key)
		}
	}
	return s, unknown, nil
}

// take puts one property in its place.
func (s *Settings) take(key, value string) (known bool, err error) {
	switch key {
	case "bootstrap.servers":
		s.Servers = value
	case "client.id":
		s.ClientID = value
	case "group.id":
		s.Group = value
	case "group.instance.id":
		s.Instance = value
	case "client.rack":
		s.Rack = value
	case "request.timeout.ms":
		s.RequestTimeout, err = milliseconds(key, value)
	case "default.api.timeout.ms":
		s.APITimeout, err = milliseconds(key, value)
	case "socket.connection.setup.timeout.ms":
		s.DialTimeout, err = milliseconds(key, value)
	case "linger.ms":
		s.Linger, err = milliseconds(key, value)
	case "max.request.size":
		s.RequestBytes, err = size(key, value)
	case "auto.offset.reset":
		s.OffsetReset, err = oneOf(key, value, "earliest", "latest", "none")
	case "isolation.level":
		s.Isolation, err = oneOf(key, value, "read_uncommitted", "read_committed")
	case "compression.type":
		s.Compression, err = oneOf(key, value, "none", "gzip", "snappy", "lz4", "zstd")
	case "acks":
		if s.Acks, err = oneOf(key, value, "all", "-1", "0", "1"); s.Acks == "all" {
			s.Acks = "-1"
		}
	case "enable.auto.commit":
		value, err = oneOf(key, value, "true", "false")
		s.NoAutoCommit = value == "false"
	case "security.protocol":
		if !strings.EqualFold(value, "PLAINTEXT") {
			err = &Problem{key, value + " is not supported yet: only PLAINTEXT is, so name a listener of that kind"}
		}
	default:
		return other(key, value)
	}
	return true, err
}

// other judges the properties that have no effect here: those of security are refused, as somebody relies on them.
func other(key, value string) (known bool, err error) {
	for _, prefix := range []string{"ssl.", "sasl."} {
		if strings.HasPrefix(key, prefix) && value != "" {
			return true, &Problem{key, "encryption and logins are not supported yet: take the key out and name a PLAINTEXT listener"}
		}
	}
	known = slices.Contains(passedOver, key) || strings.HasPrefix(key, "ssl.") || strings.HasPrefix(key, "sasl.")
	return known, nil
}

func milliseconds(key, value string) (time.Duration, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, &Problem{key, fmt.Sprintf("%q is no number of milliseconds", value)}
	}
	return time.Duration(n) * time.Millisecond, nil
}

func size(key, value string) (int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, &Problem{key, fmt.Sprintf("%q is no number of bytes", value)}
	}
	return int32(n), nil
}

func oneOf(key, value string, allowed ...string) (string, error) {
	if !slices.Contains(allowed, strings.ToLower(value)) {
		return "", &Problem{key, fmt.Sprintf("%q is none of %s", value, strings.Join(allowed, ", "))}
	}
	return strings.ToLower(value), nil
}

// passedOver are the other keys of Kafka's admin clients, producers and consumers. They tune what works differently here, or name
// classes of Java.
var passedOver = strings.Fields(`
	allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter batch.size bootstrap.controllers buffer.memory check.crcs
	client.dns.lookup compression.gzip.level compression.lz4.level compression.zstd.level config.providers connections.max.idle.ms
	delivery.timeout.ms enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
	group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes internal.leave.group.on.close key.deserializer
	key.serializer max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records
	metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
	metrics.num.samples metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
	partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
	receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
	security.providers send.buffer.bytes session.timeout.ms share.acknowledgement.mode socket.connection.setup.timeout.max.ms
	throw.on.fetch.stable.offset.unsupported transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
	value.deserializer value.serializer`)
