package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// validate returns what a key of the scope has as its value; the error is a [kafka.Refusal] with InvalidConfig.
func validate(scope Scope, name, text string) (value, error) {
	k, ok := Lookup(scope, name)
	if !ok && scope == ScopeBroker {
		k, ok = listenerKey(name)
	}
	if !ok {
		return value{}, unknownRefused(scope, name)
	}
	v, err := k.parse(text)
	if err != nil {
		if k.Sensitive() {
			text = "[hidden]"
		}
		return v, invalid(name, text, "%v", err)
	}
	return v, nil
}

// unknownRefused begins with Kafka's words, which scripts look for.
func unknownRefused(scope Scope, name string) error {
	code, text := kafka.InvalidConfig, "Unknown config name: "+name
	switch scope {
	case ScopeTopic:
		text = "Unknown topic config name: " + name
	case ScopeGroup:
		text = "Unknown group config name: " + name
	case ScopeClientMetrics:
		code, text = kafka.InvalidRequest, "Unknown client metrics configuration: "+name
	}
	if nearest := Nearest(scope, name); nearest != "" {
		text += ". Did you mean " + nearest + "?"
	}
	return kafka.Refuse(code, "%s", text)
}

// invalid begins with Kafka's words, which scripts look for.
func invalid(name, text, format string, args ...any) error {
	if text == "" {
		text = `""`
	}
	return kafka.Refuse(kafka.InvalidConfig, "Invalid value %s for configuration %s: "+format, append([]any{text, name}, args...)...)
}

// CheckTopic tells whether a topic may have exactly these settings.
func (b *Broker) CheckTopic(settings map[string]string) error {
	values, err := validateAll(ScopeTopic, settings)
	if err != nil {
		return err
	}
	low, high := b.topicValue(values, "min.compaction.lag.ms").i, b.topicValue(values, "max.compaction.lag.ms").i
	if low > high {
		return kafka.Refuse(kafka.InvalidConfig, "min.compaction.lag.ms (%d) must not be above max.compaction.lag.ms (%d)", low, high)
	}
	if values["remote.storage.enable"].b {
		return invalid("remote.storage.enable", "true", "this broker has no remote storage")
	}
	return nil
}

func (b *Broker) topicValue(values map[string]value, name string) value {
	if v, ok := values[name]; ok {
		return v
	}
	k, _ := Lookup(ScopeTopic, name)
	return b.inherited(k)
}

func validateAll(scope Scope, settings map[string]string) (map[string]value, error) {
	values := make(map[string]value, len(settings))
	for _, name := range sortedNames(settings) {
		if _, ok := Lookup(scope, name); !ok {
			return nil, unknownRefused(scope, name)
		}
	}
	for _, name := range sortedNames(settings) {
		v, err := validate(scope, name, settings[name])
		if err != nil {
			return nil, err
		}
		values[name] = v
	}
	return values, nil
}

// groupLimits say between which broker keys a group's setting must lie; "" is no limit on that side.
var groupLimits = []struct{ name, min, max string }{
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
	{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
}

// CheckGroup tells whether a group may have exactly these settings.
func (b *Broker) CheckGroup(settings map[string]string) error {
	values, err := validateAll(ScopeGroup, settings)
	if err != nil {
		return err
	}
	for _, l := range groupLimits {
		v, ok := values[l.name]
		if !ok {
			continue
		}
		if low := b.resolved[l.min]; l.min != "" && v.i < low.i {
			return invalid(l.name, v.text, "must be at least %d, which %s says", low.i, l.min)
		}
		if high := b.resolved[l.max]; l.max != "" && v.i > high.i {
			return invalid(l.name, v.text, "must be at most %d, which %s says", high.i, l.max)
		}
	}
	if topic := values["errors.deadletterqueue.topic.name"].text; strings.HasPrefix(topic, "__") {
		return invalid("errors.deadletterqueue.topic.name", topic, "must not begin with __, as internal topics do")
	}
	if v, ok := values["streams.assignor.name"]; ok && !slices.Contains(b.resolved["group.streams.assignors"].list, v.text) {
		return invalid("streams.assignor.name", v.text, "must be one of %s", b.resolved["group.streams.assignors"].text)
	}
	if tags := splitList(trim(settings["streams.rack.aware.assignment.tags"])); len(tags) > len(values["streams.rack.aware.assignment.tags"].list) {
		return invalid("streams.rack.aware.assignment.tags", strings.Join(tags, ","), "must not have a tag twice")
	}
	return nil
}

// clientMatches are what a client-metrics subscription can ask of a client.
var clientMatches = []string{
	"client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

// CheckClientMetrics tells whether a client-metrics subscription may have exactly these settings.
func CheckClientMetrics(settings map[string]string) error {
	for _, name := range sortedNames(settings) {
		if _, ok := Lookup(ScopeClientMetrics, name); !ok {
			return unknownRefused(ScopeClientMetrics, name)
		}
	}
	values, err := validateAll(ScopeClientMetrics, settings)
	if err != nil {
		return err
	}
	const shortest, longest = 100, 3_600_000
	if v, ok := values["interval.ms"]; ok && (v.i < shortest || v.i > longest) {
		return kafka.Refuse(kafka.InvalidRequest, "Invalid value %d for configuration interval.ms: must be from %d to %d", v.i, shortest, longest)
	}
	for _, item := range values["match"].list {
		name, pattern, _ := strings.Cut(item, "=")
		name, pattern = trim(name), trim(pattern)
		if !slices.Contains(clientMatches, name) || pattern == "" || strings.Contains(pattern, "=") {
			return invalid("match", item, "must be NAME=PATTERN, with a name of %s", strings.Join(clientMatches, ", "))
		}
		if _, err := regexp.Compile(pattern); err != nil {
			return invalid("match", item, "not a regular expression that RE2 knows")
		}
	}
	return nil
}
