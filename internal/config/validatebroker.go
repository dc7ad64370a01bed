package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// checkBrokerChange tells whether one broker, or all of them, may be changed so. Kafka answers InvalidRequest to all of it.
func (b *Broker) checkBrokerChange(c Change) error {
	for _, name := range c.Changed {
		text, ok := c.Next[name]
		if !ok {
			continue
		}
		if err := checkBrokerKey(name, text, c.Name == ""); err != nil {
			return err
		}
	}
	before, after := b.With(c.Before), b.With(c.After)
	if err := checkThreads(before, after, c.Changed); err != nil {
		return err
	}
	faults := after.checkTogether()
	if slices.Contains(c.Changed, "listener.security.protocol.map") {
		_, more := after.resolveListeners()
		faults = append(faults, more...)
	}
	if len(faults) > 0 {
		return kafka.Refuse(kafka.InvalidRequest, "%v", faults[0])
	}
	return nil
}

// checkBrokerKey judges one dynamic setting by itself.
func checkBrokerKey(name, text string, forAll bool) error {
	if base, ok := ofListener(name); ok && forAll && !slices.Contains(clusterWideOfListener, base) {
		return kafka.Refuse(kafka.InvalidRequest, "%s can only be set for one broker at a time, as a listener belongs to one", name)
	}
	k, ok := lookupBroker(name)
	if !ok {
		return nil // as Kafka, which keeps what it does not know for plug-ins
	}
	prefixed := k.Name != name
	switch {
	case name == "listeners":
		return kafka.Refuse(kafka.InvalidRequest, "listeners cannot be changed while the broker runs")
	case k.Mode == ReadOnly && !prefixed:
		return kafka.Refuse(kafka.InvalidRequest, "Cannot update these configs dynamically: [%s]. They are read at the start only", name)
	case k.ListenerOnly && !prefixed:
		return kafka.Refuse(kafka.InvalidRequest, "configuration %s can be changed for one listener only, as listener.name.NAME.%s", name, name)
	case k.Mode == PerBroker && forAll && !prefixed:
		return kafka.Refuse(kafka.InvalidRequest, "configuration %s can only be set for one broker at a time", name)
	}
	v, err := validate(ScopeBroker, name, text)
	if err != nil {
		_, message := kafka.Answer(err)
		return kafka.Refuse(kafka.InvalidRequest, "%s", message)
	}
	switch {
	case k.Type == Class && (v.text == "" || v.text != k.Default), name == "metric.reporters" && v.text != "" && v.text != k.Default:
		return kafka.Refuse(kafka.InvalidRequest, "Invalid value %s for configuration %s: this broker does not run Java classes", text, name)
	case k.Type == List && name != "config.providers" && twice(splitList(text)): // which Kafka takes
		return kafka.Refuse(kafka.InvalidRequest, "Invalid value %s for configuration %s: must not have an item twice", text, name)
	case (k.Name == "max.connections" || k.Name == "max.connection.creation.rate") && v.i < 1:
		return kafka.Refuse(kafka.InvalidRequest, "Invalid value %s for configuration %s: nobody could connect any more, not even to change it", text, name)
	}
	return nil
}

// clusterWideOfListener are the keys of a listener that can be set for all brokers at once.
var clusterWideOfListener = []string{"max.connections", "max.connection.creation.rate", "num.network.threads"}

func twice(items []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(items)))) < len(items)
}

// threadCounts are the sizes of Kafka's thread pools. Most do nothing here, but tools expect that they move by a factor of two
// at most, and Kafka does not apply what is stored of a broker where one is 0.
var threadCounts = []string{
	"background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers",
	"remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.follower.thread.pool.size",
	"remote.log.reader.threads",
}

func checkThreads(before, after *Broker, changed []string) error {
	for _, name := range threadCounts {
		if err := checkThreadCount(name, before.Int(name), after.Int(name)); err != nil {
			return err
		}
	}
	const ofNetwork = "num.network.threads"
	for _, name := range changed {
		if base, ok := ofListener(name); ok && base == ofNetwork {
			listener := strings.TrimSuffix(strings.TrimPrefix(name, listenerPrefix), "."+base)
			if err := checkThreadCount(name, before.ListenerInt(listener, base), after.ListenerInt(listener, base)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkThreadCount(name string, was, is int) error {
	if least := max(1, was/2); is != was && (is > 2*was || is < least) {
		return kafka.Refuse(kafka.InvalidRequest, "%s is %d now: it can be changed to from %d to %d at once", name, was, least, 2*was)
	}
	return nil
}

// checkTogether returns what is wrong with keys that are right one by one.
func (b *Broker) checkTogether() []error {
	var faults []error
	add := func(name, format string, args ...any) {
		faults = append(faults, fault(name, b.resolved[name].text, format, args...))
	}
	if id := b.resolved["broker.id"].i; id >= 0 && id != b.resolved["node.id"].i {
		add("broker.id", "must equal node.id (%d) or be left out", b.resolved["node.id"].i)
	}
	if voters := b.Voters(); len(voters) > 0 && !slices.ContainsFunc(voters, func(v Voter) bool { return v.ID == b.NodeID() }) &&
		slices.Contains(b.resolved["process.roles"].list, "controller") {
		add("controller.quorum.voters", "must have node.id (%d), as process.roles has controller", b.NodeID())
	} else {
		b.checkRoles(add)
	}
	for _, pair := range ordered {
		low, high := b.resolved[pair.low], b.resolved[pair.high]
		if !low.null && !high.null && low.i > high.i {
			add(pair.low, "must not be above %s (%d)", pair.high, high.i)
		}
	}
	if v := b.resolved["log.roll.ms"]; !v.null && v.i < 1 {
		add("log.roll.ms", "must be at least 1")
	}
	if v := b.resolved["log.roll.jitter.ms"]; !v.null && v.i < 0 {
		add("log.roll.jitter.ms", "must be at least 0")
	}
	if name := firstSet(b, "log.retention.ms", "log.retention.minutes", "log.retention.hours"); name != "" && b.resolved[name].i == 0 {
		add(name, "must be at least 1, or -1 to keep records for ever")
	}
	const mebibyte = 1 << 20
	if size := b.resolved["log.cleaner.dedupe.buffer.size"].i; size/max(1, b.resolved["log.cleaner.threads"].i) <= mebibyte {
		add("log.cleaner.dedupe.buffer.size", "must be more than 1 MiB for each of log.cleaner.threads")
	}
	if queued := b.resolved["queued.max.request.bytes"].i; queued > 0 && queued < b.resolved["socket.request.max.bytes"].i {
		add("queued.max.request.bytes", "must not be below socket.request.max.bytes, or be -1")
	}
	if b.resolved["max.connections.per.ip"].i == 0 && b.resolved["max.connections.per.ip.overrides"].text == "" {
		add("max.connections.per.ip", "nobody could connect: 0 is for use with max.connections.per.ip.overrides")
	}
	if protocols := "group.coordinator.rebalance.protocols"; !slices.Contains(b.resolved[protocols].list, "classic") {
		add(protocols, "must have classic")
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		heartbeat, session := "group."+kind+".heartbeat.interval.ms", "group."+kind+".session.timeout.ms"
		if b.resolved[heartbeat].i >= b.resolved[session].i {
			add(heartbeat, "must be below %s (%d)", session, b.resolved[session].i)
		}
	}
	if name := "max.connections.per.ip.overrides"; !validOverrides(b.resolved[name].text) {
		add(name, "must be a list of ADDRESS:COUNT")
	}
	if one, two, ok := b.sameLogDir(); ok {
		faults = append(faults, sameLogDirFault(b, one, two))
	}
	if item, ok := b.unknownLogDir(); ok {
		add("cordoned.log.dirs", "%s is not in log.dirs", item)
	}
	return faults
}

// checkRoles looks for what a node of its roles can't do without, and what it can't have.
func (b *Broker) checkRoles(add func(name, format string, args ...any)) {
	serves := func(controller bool) bool {
		return slices.ContainsFunc(b.listeners, func(l Listener) bool { return l.Controller == controller })
	}
	switch isBroker, isController := b.IsBroker(), b.IsController(); {
	case !isBroker && !serves(true):
		add("listeners", "a node that is a controller needs a listener of controller.listener.names (%s)", b.resolved["controller.listener.names"].text)
	case !isBroker && serves(false):
		add("listeners", "a node that is a controller and no broker has listeners of controller.listener.names (%s) alone",
			b.resolved["controller.listener.names"].text)
	case !isController && serves(true):
		add("listeners", "a node that is no controller has no listener of controller.listener.names (%s)", b.resolved["controller.listener.names"].text)
	case isController && !b.single && !serves(true):
		add("listeners", "other controllers are configured, so that this one needs a listener of controller.listener.names (%s)",
			b.resolved["controller.listener.names"].text)
	case !isController && len(b.Voters()) == 0 && len(b.BootstrapServers()) == 0:
		add("controller.quorum.bootstrap.servers", "a node that is no controller must know some: name them as HOST:PORT")
	}
}

// firstSet returns the first of the names that is set to a value, or "".
func firstSet(b *Broker, names ...string) string {
	for _, name := range names {
		if b.IsSet(name) && !b.resolved[name].null {
			return name
		}
	}
	return ""
}

// validOverrides tells whether text is a list of ADDRESS:COUNT.
func validOverrides(text string) bool {
	for _, item := range splitList(text) {
		colon := strings.LastIndexByte(item, ':')
		if colon < 0 {
			return false
		}
		if _, err := strconv.ParseInt(trim(item[colon+1:]), 10, 32); err != nil {
			return false
		}
	}
	return true
}

// sameLogDir returns two spellings of one log directory.
func (b *Broker) sameLogDir() (one, two string, ok bool) {
	written, dirs := b.resolved[b.logDirsKey()].list, b.LogDirs()
	for i := range dirs {
		if first := slices.Index(dirs, dirs[i]); first < i {
			return written[first], written[i], true
		}
	}
	return "", "", false
}

func sameLogDirFault(b *Broker, one, two string) *Fault {
	name := b.logDirsKey()
	return fault(name, b.resolved[name].text, "%s and %s are one directory: name it once", one, two)
}

func (b *Broker) unknownLogDir() (string, bool) {
	for _, item := range b.resolved["cordoned.log.dirs"].list {
		if item != "*" && !slices.Contains(b.LogDirs(), b.path(item)) {
			return item, true
		}
	}
	return "", false
}

// ordered are pairs of broker keys of which the first must not be above the second.
var ordered = []struct{ low, high string }{
	{"group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"},
	{"group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"},
	{"group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"},
	{"group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"group.share.min.session.timeout.ms", "group.share.session.timeout.ms"},
	{"group.share.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"},
	{"group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"},
	{"group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"group.share.min.delivery.count.limit", "group.share.delivery.count.limit"},
	{"group.share.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"group.share.min.partition.max.record.locks", "group.share.partition.max.record.locks"},
	{"group.share.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"},
	{"group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"},
	{"group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"},
	{"group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"group.streams.min.assignment.interval.ms", "group.streams.assignment.interval.ms"},
	{"group.streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"group.streams.num.standby.replicas", "group.streams.max.standby.replicas"},
	{"group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"},
	{"replica.fetch.wait.max.ms", "replica.lag.time.max.ms"},
	{"replica.fetch.wait.max.ms", "replica.socket.timeout.ms"},
}
