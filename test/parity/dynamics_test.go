package parity

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/raw"
)

// unsettable are settings that the rest of the conversation needs as they are, or that can't be taken back.
var unsettable = []string{"listeners", "listener.security.protocol.map", "min.insync.replicas", "metric.reporters"}

// dynamics sets each setting that can be changed while a broker runs, for all brokers, for one, for a topic, a group and client
// metrics, and shows what holds then.
func (c *conversation) dynamics() {
	all, one := raw.Assignments{Kind: config.KindBroker}, raw.Assignments{Kind: config.KindBroker, Name: "1"}
	for _, key := range config.Keys(config.ScopeBroker) {
		if key.Mode != config.ReadOnly && !slices.Contains(unsettable, key.Name) && !key.Internal {
			c.setAndShow(key, all, one)
			c.setAndShow(key, one, all)
		}
	}
	for _, of := range []raw.Assignments{
		{Kind: config.KindTopic, Name: "made2"},
		{Kind: config.KindGroup, Name: "some-group"},
		{Kind: config.KindClientMetrics, Name: "some-metrics"},
	} {
		scope := map[config.Kind]config.Scope{
			config.KindTopic: config.ScopeTopic, config.KindGroup: config.ScopeGroup, config.KindClientMetrics: config.ScopeClientMetrics,
		}[of.Kind]
		for _, key := range config.Keys(scope) {
			if !key.Internal {
				c.setAndShow(key, of, of)
			}
		}
	}
}

// setAndShow sets a key of one resource, shows what two resources have then, and takes it back.
func (c *conversation) setAndShow(key *config.Key, of, other raw.Assignments) {
	alter := func(what string) {
		of.Sets = []string{what}
		c.add(fmt.Sprintf("of %d %q: %s", of.Kind, of.Name, what), raw.IncrementalAlterConfigs(1, false, of))
	}
	alter(key.Name + "=" + anotherValue(key))
	c.settle()
	c.add(fmt.Sprintf("with %s of %d %q", key.Name, of.Kind, of.Name), raw.DescribeConfigs(4,
		raw.Resource{Kind: of.Kind, Name: of.Name, Keys: []string{key.Name}}, raw.Resource{Kind: other.Kind, Name: other.Name, Keys: []string{key.Name}}))
	alter("-" + key.Name)
}

// anotherValue is one that the key may have, if there is any beside its default.
func anotherValue(key *config.Key) string {
	if key.Name == "num.network.threads" {
		return "4" // one thread less ends Kafka's connections that it had
	}
	if n, err := strconv.ParseInt(key.Default, 10, 64); err == nil && n > 1 {
		return strconv.FormatInt(n-1, 10)
	} else if err == nil && n == 1 {
		return "2"
	}
	switch {
	case key.Type == config.Boolean && key.Default == "false":
		return "true"
	case key.Type == config.Boolean:
		return "false"
	case key.Name == "compression.type":
		return "zstd"
	case key.Default == "" && (key.Type == config.Long || key.Type == config.Int):
		return "604800000"
	}
	return key.Default
}
