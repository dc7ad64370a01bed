package config

import "fmt"

// unsupported are settings that change what is safe or what can be read. A broker that passed over them would do harm, so it
// does not start with them.
var unsupported = []struct {
	name   string
	is     func(value) bool
	reason string
}{
	{
		"authorizer.class.name", func(v value) bool { return v.text != "" },
		"access rules are not enforced yet; leave the key out to serve everyone who can connect",
	},
	{
		"config.providers", func(v value) bool { return len(v.list) > 0 },
		"providers of configuration values are not supported: write the values out",
	},
	{
		"remote.log.storage.system.enable", func(v value) bool { return v.b },
		"remote storage is not supported: topics could not be read",
	},
}

// notRun are classes of Java that would decide about requests. Without them more is allowed than was meant.
var notRun = []string{"alter.config.policy.class.name", "client.quota.callback.class", "create.topic.policy.class.name"}

// checkSupported returns what the properties ask for that this broker must not pass over.
func (b *Broker) checkSupported() []error {
	var faults []error
	for _, u := range unsupported {
		if v := b.resolved[u.name]; u.is(v) {
			faults = append(faults, fault(u.name, v.text, "%s", u.reason))
		}
	}
	return faults
}

// warnNotRun returns a warning for each class that is configured and does not run.
func (b *Broker) warnNotRun() []Warning {
	var warnings []Warning
	for _, name := range notRun {
		if v := b.resolved[name]; !v.null && v.text != "" {
			warnings = append(warnings, Warning{Name: name, Message: name + "=" + v.text + ": this broker does not run Java classes, " +
				"so what the class would refuse is allowed"})
		}
	}
	return warnings
}

// warnNoOffsetsTopic returns a warning where the topic of the groups could not be created: as in Kafka the broker starts, and
// clients wait for their coordinator without end. A topic that exists already is served.
func (b *Broker) warnNoOffsetsTopic() []Warning {
	const name = "offsets.topic.segment.bytes"
	v, least := b.resolved[name], int64(0)
	if k, ok := Lookup(ScopeTopic, "segment.bytes"); ok {
		least = int64(k.check.min)
	}
	if v.null || v.i >= least {
		return nil
	}
	return []Warning{{Name: name, Message: fmt.Sprintf("%s=%d: topics have segments of %d bytes or more, so that __consumer_offsets cannot "+
		"be created and groups wait for their coordinator; set %d or more", name, v.i, least, least)}}
}

// WithoutEffect returns the keys that properties, environment and overrides set and that nothing reads, by name: those to come
// ([NotYet]) and those that never matter here ([NeverMatters]).
func (b *Broker) WithoutEffect() []*Key {
	var keys []*Key
	for _, name := range sortedNames(b.static) {
		if k, ok := Lookup(ScopeBroker, name); ok && k.Effect != Acts {
			keys = append(keys, k)
		}
	}
	return keys
}
