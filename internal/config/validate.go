package config

import (
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Validate tells whether a key of the scope may have the value; the error is a [kafka.Refusal] with InvalidConfig.
func Validate(scope Scope, name, text string) error {
	k, ok := Lookup(scope, name)
	if !ok && scope == ScopeBroker {
		k, ok = listenerKey(name)
	}
	if !ok {
		if nearest := Nearest(scope, name); nearest != "" {
			return kafka.Refuse(kafka.InvalidConfig, "unknown configuration %s; did you mean %s?", name, nearest)
		}
		return kafka.Refuse(kafka.InvalidConfig, "unknown configuration %s", name)
	}
	if _, err := k.parse(text); err != nil {
		if k.Sensitive() {
			text = "[hidden]"
		}
		return kafka.Refuse(kafka.InvalidConfig, "invalid value %s for configuration %s: %v", text, name, err)
	}
	return nil
}

// CheckTopic tells whether a topic may have exactly these settings.
func CheckTopic(settings map[string]string) error {
	if err := checkEach(ScopeTopic, settings); err != nil {
		return err
	}
	return nil
}

// CheckGroup tells whether a group may have exactly these settings.
func CheckGroup(settings map[string]string) error { return checkEach(ScopeGroup, settings) }

// CheckClientMetrics tells whether a client-metrics subscription may have exactly these settings.
func CheckClientMetrics(settings map[string]string) error { return checkEach(ScopeClientMetrics, settings) }

// CheckBroker tells whether one broker, or all of them with forAll, may have exactly these dynamic settings.
func CheckBroker(settings map[string]string, forAll bool) error {
	for _, name := range sortedNames(settings) {
		k, ok := lookupBroker(name)
		switch {
		case !ok:
			continue // Kafka stores what it does not know, for plug-ins
		case k.Mode == ReadOnly:
			return kafka.Refuse(kafka.InvalidRequest, "configuration %s cannot be changed while the broker runs", name)
		case k.Mode == PerBroker && forAll:
			return kafka.Refuse(kafka.InvalidRequest, "configuration %s can only be set for one broker at a time", name)
		case strings.HasPrefix(name, "listener.name.") && forAll:
			return kafka.Refuse(kafka.InvalidRequest, "configuration %s can only be set for one broker at a time", name)
		}
		if err := Validate(ScopeBroker, name, settings[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkEach(scope Scope, settings map[string]string) error {
	for _, name := range sortedNames(settings) {
		if err := Validate(scope, name, settings[name]); err != nil {
			return err
		}
	}
	return nil
}
