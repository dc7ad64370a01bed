package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/raw"
)

// configs changes settings in every way there is and looks at them.
func (c *conversation) configs() {
	u := raw.NewTopic("u", 1, 1, "retention.bytes", "100")
	c.add("for settings", raw.CreateTopics(7, raw.NewTopic("t", 1, 1), u))
	c.waitFor("t", "u")
	add := func(name string, req kmsg.Request) {
		if req.Key() == int16(kmsg.DescribeConfigs) {
			c.settle()
		}
		c.add(name, req)
	}
	topic := func(keys ...string) raw.Resource { return raw.Resource{Kind: config.KindTopic, Name: "t", Keys: keys} }
	for version := int16(1); version <= 4; version++ {
		add("describe resources that are wrong", raw.DescribeConfigs(
			version,
			raw.Resource{Kind: config.KindTopic, Name: "absent"}, raw.Resource{Kind: config.KindTopic, Name: "bad name"},
			raw.Resource{Kind: config.KindTopic, Name: ""}, raw.Resource{Kind: config.KindBroker, Name: "2"}, raw.Resource{Kind: config.KindBroker, Name: "x"},
			raw.Resource{Kind: config.KindLogger, Name: "2"}, raw.Resource{Kind: config.KindLogger, Name: ""}, raw.Resource{Kind: config.KindLogger, Name: "x"},
			raw.Resource{Kind: config.KindClientMetrics, Name: ""}, raw.Resource{Kind: config.KindGroup, Name: ""},
			raw.Resource{Kind: config.KindTopic, Name: "t", Keys: []string{"no.such.key"}},
		))
		add("an unknown type spoils the request", raw.DescribeConfigs(version, topic("retention.ms"), raw.Resource{Name: "x"}, topic("segment.ms")))
		add("another unknown type", raw.DescribeConfigs(version, topic("retention.ms"), raw.Resource{Kind: 99, Name: "x"}))
		add("describe nothing", raw.DescribeConfigs(version))
		add("describe a topic", raw.DescribeConfigs(version, topic()))
		add("describe some keys, none, and twice", raw.DescribeConfigs(version, topic("retention.ms", "cleanup.policy", "no.such"), topic([]string{}...), topic("retention.ms", "retention.ms"), topic("retention.ms")))
		some := []string{"log.retention.ms", "node.id", "ssl.key.password", "message.max.bytes"}
		if version == 4 {
			some = nil
		}
		add("describe the broker", raw.DescribeConfigs(version, raw.Resource{Kind: config.KindBroker, Name: "1", Keys: some}, raw.Resource{Kind: config.KindBroker, Name: ""}))
		add("describe group and client metrics", raw.DescribeConfigs(version, raw.Resource{Kind: config.KindGroup, Name: "g"}, raw.Resource{Kind: config.KindClientMetrics, Name: "m"}))
		add("describe the logger", raw.DescribeConfigs(version, raw.Resource{Kind: config.KindLogger, Name: "1", Keys: []string{"root"}}))
	}
	noSynonyms := raw.DescribeConfigs(4, topic("retention.ms", "segment.bytes")).(*kmsg.DescribeConfigsRequest)
	noSynonyms.IncludeSynonyms = false
	add("describe without synonyms", noSynonyms)

	t := func(sets ...string) raw.Assignments {
		return raw.Assignments{Kind: config.KindTopic, Name: "t", Sets: sets}
	}
	node := func(sets ...string) raw.Assignments {
		return raw.Assignments{Kind: config.KindBroker, Name: "1", Sets: sets}
	}
	all := func(sets ...string) raw.Assignments {
		return raw.Assignments{Kind: config.KindBroker, Name: "", Sets: sets}
	}
	few := []string{"cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms"}
	shown := []raw.Resource{topic(few...), {Kind: config.KindTopic, Name: "u", Keys: few}, {Kind: config.KindBroker, Name: "1", Keys: []string{"log.retention.ms", "max.connections"}}, {Kind: config.KindBroker}}
	for version := range int16(3) {
		add("replace: set two", raw.AlterConfigs(version, false, t("cleanup.policy=delete", "retention.ms=604800000")))
		add("rule 27: equal to the default, but set", raw.DescribeConfigs(4, shown...))
		add("replace: one of two", raw.AlterConfigs(version, false, t("retention.ms=5")))
		add("rule 29: the other one is gone", raw.DescribeConfigs(4, shown...))
		add("replace: validate only", raw.AlterConfigs(version, true, t("segment.bytes=1048576")))
		add("replace: validate only, wrong", raw.AlterConfigs(version, true, t("segment.bytes=1")))
		add("replace: nothing changed", raw.DescribeConfigs(4, shown...))
		add("replace: some are wrong", raw.AlterConfigs(version, false, t("retention.ms=x"), raw.Assignments{Kind: config.KindTopic, Name: "u", Sets: []string{"retention.ms=7"}},
			raw.Assignments{Kind: config.KindTopic, Name: "absent", Sets: []string{"retention.ms=7"}}, raw.Assignments{Name: ""}, node("node.id=5")))
		add("replace: the others are done", raw.DescribeConfigs(4, shown...))
		add("replace: a null", raw.AlterConfigs(version, false, t("retention.ms")))
		add("replace: broker", raw.AlterConfigs(version, false, node("log.retention.ms=50")))
		add("replace: broker seen", raw.DescribeConfigs(4, shown...))
		add("replace: all gone", raw.AlterConfigs(version, false, t(), raw.Assignments{Kind: config.KindTopic, Name: "u"}, node()))
		add("replace: nothing", raw.AlterConfigs(version, false))
	}
	for version := range int16(2) {
		add("change: set two", raw.IncrementalAlterConfigs(version, false, t("cleanup.policy=delete", "retention.ms=604800000")))
		add("change: set one more", raw.IncrementalAlterConfigs(version, false, t("segment.ms=1000")))
		add("rule 29: the others are kept", raw.DescribeConfigs(4, shown...))
		add("rule 27: delete goes back to the default", raw.IncrementalAlterConfigs(version, false, t("-cleanup.policy", "-retention.ms")))
		add("change: deleted", raw.DescribeConfigs(4, shown...))
		add("rule 30: append to what is not set", raw.IncrementalAlterConfigs(version, false, t("cleanup.policy+=compact")))
		add("rule 30: appended to the built-in default", raw.DescribeConfigs(4, topic("cleanup.policy")))
		add("rule 30: subtract", raw.IncrementalAlterConfigs(version, false, t("cleanup.policy-=delete")))
		add("rule 30: subtracted", raw.DescribeConfigs(4, topic("cleanup.policy")))
		add("rule 30: subtract what is not there", raw.IncrementalAlterConfigs(version, false, t("cleanup.policy-=delete,x")))
		add("rule 30: the same", raw.DescribeConfigs(4, topic("cleanup.policy")))
		add("rule 30: append what is there", raw.IncrementalAlterConfigs(version, false, t("cleanup.policy+=compact")))
		add("rule 30: still the same", raw.DescribeConfigs(4, topic("cleanup.policy")))
		add("rule 30: append to what is no list", raw.IncrementalAlterConfigs(version, false, t("retention.ms+=1")))
		add("change: validate only", raw.IncrementalAlterConfigs(version, true, t("segment.bytes=1048576"), raw.Assignments{Kind: config.KindTopic, Name: "absent", Sets: []string{"segment.bytes=1048576"}}))
		add("change: half of one resource is wrong", raw.IncrementalAlterConfigs(version, false, t("retention.ms=5", "retention.bytes=x")))
		add("change: nothing of it is done", raw.DescribeConfigs(4, shown...))
		add("change: a resource twice", raw.IncrementalAlterConfigs(version, false, t("retention.ms=8"), t("retention.bytes=9")))
		add("change: broker and all", raw.IncrementalAlterConfigs(version, false, all("log.retention.ms=70", "max.connections=1000"), node("max.connections=2000")))
		add("rule 28: the chain of synonyms", raw.DescribeConfigs(4, shown...))
		add("change: other brokers", raw.IncrementalAlterConfigs(version, false, raw.Assignments{Kind: config.KindBroker, Name: "2", Sets: []string{"max.connections=5"}}, raw.Assignments{Kind: config.KindBroker, Name: "x", Sets: []string{"max.connections=5"}}))
		add("change: broker undone", raw.IncrementalAlterConfigs(version, false, all("-log.retention.ms", "-max.connections"), node("-max.connections"), t("-cleanup.policy", "-segment.ms")))
		add("change: undone", raw.DescribeConfigs(4, shown...))
		add("change: logger", raw.IncrementalAlterConfigs(version, false, raw.Assignments{Kind: config.KindLogger, Name: "1", Sets: []string{"root=DEBUG"}}))
		add("change: logger seen", raw.DescribeConfigs(4, raw.Resource{Kind: config.KindLogger, Name: "1", Keys: []string{"root"}}))
		add("change: logger back", raw.IncrementalAlterConfigs(version, false, raw.Assignments{Kind: config.KindLogger, Name: "1", Sets: []string{"root=INFO"}}, raw.Assignments{Kind: config.KindLogger, Name: "2", Sets: []string{"root=INFO"}}))
		add("change: group and metrics", raw.IncrementalAlterConfigs(version, false, raw.Assignments{Kind: config.KindGroup, Name: "g", Sets: []string{"consumer.session.timeout.ms=50000"}},
			raw.Assignments{Kind: config.KindClientMetrics, Name: "m", Sets: []string{"interval.ms=5000", "match=client_id=a"}}))
		add("change: group and metrics seen", raw.DescribeConfigs(4, raw.Resource{Kind: config.KindGroup, Name: "g"}, raw.Resource{Kind: config.KindClientMetrics, Name: "m"}))
		add("change: group and metrics back", raw.IncrementalAlterConfigs(version, false, raw.Assignments{Kind: config.KindGroup, Name: "g", Sets: []string{"-consumer.session.timeout.ms"}},
			raw.Assignments{Kind: config.KindClientMetrics, Name: "m", Sets: []string{"-interval.ms", "-match"}}))
	}
}

// settings asks of topics that another conversation made.
func (c *conversation) settings() {
	for _, v := range raw.VersionsOf(kmsg.DescribeConfigs) {
		made := raw.Resource{Kind: config.KindTopic, Name: "made2"}
		c.add("right", raw.DescribeConfigs(v, made, raw.Resource{Kind: config.KindTopic, Name: "made3", Keys: []string{"segment.ms"}}))
		documented := raw.DescribeConfigs(v, made, raw.Resource{Kind: config.KindBroker, Name: "1"}, raw.Resource{Kind: config.KindBroker},
			raw.Resource{Kind: config.KindGroup, Name: "g"}, raw.Resource{Kind: config.KindClientMetrics, Name: "m"}, raw.Resource{Kind: config.KindLogger, Name: "1", Keys: []string{"root"}}).(*kmsg.DescribeConfigsRequest)
		documented.IncludeDocumentation, documented.IncludeSynonyms = true, false
		c.add("with documentation", documented)
		c.add("wrong", raw.DescribeConfigs(v, raw.Resource{Kind: config.KindTopic, Name: "nope"}, raw.Resource{Kind: config.KindBroker, Name: "x"}, raw.Resource{Kind: 99}))
	}
	for _, value := range []string{"604800000", "soon"} {
		set := func(topic string) raw.Assignments {
			return raw.Assignments{Kind: config.KindTopic, Name: topic, Sets: []string{"retention.ms=" + value}}
		}
		for _, v := range raw.VersionsOf(kmsg.AlterConfigs) {
			c.add("retention "+value, raw.AlterConfigs(v, true, set("made2"), set("nope")))
			c.add("one topic's retention "+value, raw.AlterConfigs(v, true, set("made2")))
		}
		for _, v := range raw.VersionsOf(kmsg.IncrementalAlterConfigs) {
			c.add("retention "+value, raw.IncrementalAlterConfigs(v, true, set("made2")))
		}
	}
}

// values tries every setting that can be changed, with values that it may and may not have. Nothing is changed.
func (c *conversation) values() {
	for _, of := range []struct {
		scope config.Scope
		kind  config.Kind
		name  string
	}{
		{config.ScopeTopic, config.KindTopic, "made2"},
		{config.ScopeGroup, config.KindGroup, "some-group"},
		{config.ScopeClientMetrics, config.KindClientMetrics, "some-metrics"},
		{config.ScopeBroker, config.KindBroker, "1"},
		{config.ScopeBroker, config.KindBroker, ""},
	} {
		for _, key := range config.Keys(of.scope) {
			if key.Internal || strings.HasPrefix(key.Name, "raftsman.") {
				continue
			}
			for _, value := range append(tries[key.Type], key.Default) {
				if of.scope == config.ScopeBroker && key.Mode == config.ReadOnly && value != key.Default {
					continue // it may have no value
				}
				set := raw.Assignments{Kind: of.kind, Name: of.name, Sets: []string{key.Name + "=" + value}}
				c.add(fmt.Sprintf("%s %q: %s=%q", strings.ToLower(kmsg.ConfigResourceType(of.kind).String()), of.name, key.Name, value), raw.IncrementalAlterConfigs(1, true, set))
			}
		}
	}
}

// tries are values by the type of the setting.
var tries = map[config.Type][]string{
	config.Boolean:  {"x", "", "TRUE", "0"},
	config.String:   {"x", ""},
	config.Class:    {"x", ""},
	config.Password: {"x", ""},
	config.List:     {"x", "", "x,x", "delete,compact", "compact,compact", ",", "*"},
	config.Int:      {"x", "", "-2", "-1", "0", "1", "2147483647", "2147483648", " 7 ", "1.5", "0x10"},
	config.Short:    {"x", "", "-2", "-1", "0", "1", "32767", "32768"},
	config.Long:     {"x", "", "-2", "-1", "0", "1", "9223372036854775807", "9223372036854775808", "1e3"},
	config.Double:   {"x", "", "-1", "0", "0.5", "1", "1.5", "NaN", "Infinity", "1e-3"},
}

// alterations are settings changed in ways that no client means.
func (c *conversation) alterations() {
	row := func(key string, op int8, value *string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
		return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOp(op), Value: value}
	}
	for _, v := range raw.VersionsOf(kmsg.IncrementalAlterConfigs) {
		alter := func(name string, rows ...kmsg.IncrementalAlterConfigsRequestResourceConfig) {
			req := raw.IncrementalAlterConfigs(v, true, raw.Assignments{Kind: config.KindTopic, Name: "made2"}).(*kmsg.IncrementalAlterConfigsRequest)
			req.Resources[0].Configs = rows
			c.add(name, req)
		}
		for op := int8(0); op < 4; op++ {
			alter(fmt.Sprintf("op %d with null", op), row("cleanup.policy", op, nil))
			alter(fmt.Sprintf("op %d with nothing", op), row("cleanup.policy", op, new("")))
			alter(fmt.Sprintf("op %d with a list", op), row("cleanup.policy", op, new("compact,delete")))
			alter(fmt.Sprintf("op %d of a number", op), row("retention.ms", op, new("7")))
			alter(fmt.Sprintf("op %d of an unknown setting", op), row("nonsense", op, new("7")))
			alter(fmt.Sprintf("op %d of a setting without a name", op), row("", op, new("7")))
		}
		for _, set := range []string{"retention.ms=7", "retention.ms+=7", "cleanup.policy+=compact", "nonsense+=7", "-retention.ms"} {
			for _, kind := range []config.Kind{config.KindTopic, config.KindGroup, config.KindClientMetrics, config.KindBroker, config.KindLogger, 0, 99} {
				for _, name := range []string{"", "a b", "nope", "9"} {
					c.add(fmt.Sprintf("%s of resource %d %q", set, kind, name), raw.IncrementalAlterConfigs(v, true, raw.Assignments{Kind: kind, Name: name, Sets: []string{set}}))
				}
			}
		}
		unknown := raw.IncrementalAlterConfigs(v, true, raw.Assignments{Kind: config.KindBroker, Name: ""}, raw.Assignments{Kind: config.KindLogger, Name: "1"}).(*kmsg.IncrementalAlterConfigsRequest)
		unknown.Resources[0].Configs = append(unknown.Resources[0].Configs, row("retention.ms", 3, new("7")), row("log.retention.ms", 9, new("7")))
		unknown.Resources[1].Configs = append(unknown.Resources[1].Configs, row("nonsense", 9, new("DEBUG")))
		c.add("op 9 of brokers", unknown)
		alter("a setting twice", row("retention.ms", 0, new("7")), row("retention.ms", 0, new("8")))
		alter("a setting set and deleted", row("retention.ms", 0, new("7")), row("retention.ms", 1, nil))
		alter("no setting")
		alter("retention.bytes and an unknown setting", row("retention.bytes", 0, new("7")), row("nonsense", 0, new("7")))
	}
	for _, v := range raw.VersionsOf(kmsg.AlterConfigs) {
		replace := func(name string, resources ...raw.Assignments) { c.add(name, raw.AlterConfigs(v, true, resources...)) }
		on := func(kind config.Kind, name string, sets ...string) raw.Assignments {
			return raw.Assignments{Kind: kind, Name: name, Sets: sets}
		}
		replace("a setting twice", on(config.KindTopic, "made2", "retention.ms=7", "retention.ms=8"))
		replace("a topic twice", on(config.KindTopic, "made2", "retention.ms=7"), on(config.KindTopic, "made2", "retention.ms=8"))
		replace("no such topic", on(config.KindTopic, "nope", "retention.ms=7"))
		replace("a bad name", on(config.KindTopic, "a b", "retention.ms=7"))
		replace("no name", on(config.KindTopic, "", "retention.ms=7"))
		replace("an unknown setting", on(config.KindTopic, "made2", "nonsense=7"))
		replace("another broker", on(config.KindBroker, "2", "max.connections=7"))
		replace("a broker that is no number", on(config.KindBroker, "x", "max.connections=7"))
		replace("all brokers", on(config.KindBroker, "", "max.connections=7"))
		replace("loggers", on(config.KindLogger, "1", "root=DEBUG"))
		replace("a group", on(config.KindGroup, "g", "consumer.session.timeout.ms=50000"))
		replace("a group without a name", on(config.KindGroup, "", "consumer.session.timeout.ms=50000"))
		replace("client metrics", on(config.KindClientMetrics, "m", "interval.ms=5000"))
		replace("client metrics without a name", on(config.KindClientMetrics, "", "interval.ms=5000"))
	}
}
