package config

import "time"

// Consumers is what is set for members of the consumer protocol in one group.
type Consumers struct {
	SessionTimeout, HeartbeatInterval, AssignmentInterval time.Duration
	AssignorOffload                                       bool
}

// Consumers returns what is set for a group. settings is what is set on the group itself: a value that the broker's limits do not
// allow any more counts as the nearest that they do.
func (b *Broker) Consumers(d Dynamic, settings map[string]string) Consumers {
	c := Consumers{
		SessionTimeout:     b.Duration("group.consumer.session.timeout.ms"),
		HeartbeatInterval:  b.Duration("group.consumer.heartbeat.interval.ms"),
		AssignmentInterval: b.Duration("group.consumer.assignment.interval.ms"),
		AssignorOffload:    b.Bool("group.consumer.assignor.offload.enable"),
	}
	// The two that change without a restart.
	const interval, offload = "group.consumer.assignment.interval.ms", "group.consumer.assignor.offload.enable"
	for _, dynamic := range [...]map[string]string{d.Cluster, d.Node} {
		if text, set := dynamic[interval]; set {
			if v, err := validate(ScopeBroker, interval, text); err == nil {
				c.AssignmentInterval = time.Duration(v.i) * time.Millisecond
			}
		}
		c.offload(ScopeBroker, offload, dynamic)
	}
	c.offload(ScopeGroup, "consumer.assignor.offload.enable", settings)
	for _, l := range groupLimits {
		var at *time.Duration
		switch l.name {
		case "consumer.session.timeout.ms":
			at = &c.SessionTimeout
		case "consumer.heartbeat.interval.ms":
			at = &c.HeartbeatInterval
		case "consumer.assignment.interval.ms":
			at = &c.AssignmentInterval
		default:
			continue
		}
		text, ok := settings[l.name]
		if !ok {
			continue
		}
		if v, err := validate(ScopeGroup, l.name, text); err == nil {
			*at = min(max(time.Duration(v.i)*time.Millisecond, b.Duration(l.min)), b.Duration(l.max))
		}
	}
	return c
}

// offload takes over whether large assignments are made aside, where that is set.
func (c *Consumers) offload(scope Scope, name string, settings map[string]string) {
	if text, set := settings[name]; set {
		if v, err := validate(scope, name, text); err == nil {
			c.AssignorOffload = v.b
		}
	}
}
