package config

import "slices"

// checkTogether returns what is wrong with keys that are right one by one.
func (b *Broker) checkTogether() []error {
	var faults []error
	add := func(name, format string, args ...any) {
		faults = append(faults, fault(name, b.resolved[name].text, format, args...))
	}
	if id := b.resolved["broker.id"].i; id >= 0 && id != b.resolved["node.id"].i {
		add("broker.id", "must equal node.id (%d) or be left out", b.resolved["node.id"].i)
	}
	roles := b.resolved["process.roles"].list
	if !slices.Contains(roles, "broker") {
		add("process.roles", "a node without the role broker is not supported yet")
	}
	if len(b.resolved["config.providers"].list) > 0 {
		add("config.providers", "providers of configuration values are not supported: write the values out")
	}
	for _, pair := range ordered {
		low, high := b.resolved[pair.low], b.resolved[pair.high]
		if !low.null && !high.null && low.i > high.i {
			add(pair.low, "must not be above %s (%d)", pair.high, high.i)
		}
	}
	return faults
}

// ordered are pairs of broker keys of which the first must not be above the second.
var ordered = []struct{ low, high string }{
	{"group.min.session.timeout.ms", "group.max.session.timeout.ms"},
	{"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"},
	{"group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"},
	{"group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"replica.fetch.wait.max.ms", "replica.lag.time.max.ms"},
}
