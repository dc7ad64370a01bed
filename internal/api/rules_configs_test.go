package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// The sources of a setting, as DescribeConfigs numbers them.
const (
	fromTopic   = kmsg.ConfigSourceDynamicTopicConfig
	fromCluster = kmsg.ConfigSourceDynamicDefaultBrokerConfig
	fromFile    = kmsg.ConfigSourceStaticBrokerConfig
	builtIn     = kmsg.ConfigSourceDefaultConfig
)

// setting describes one key of a resource, with its chain of synonyms.
func (l *link) setting(version int16, kind kmsg.ConfigResourceType, name, key string) kmsg.DescribeConfigsResponseResourceConfig {
	l.Helper()
	for _, c := range l.settings(version, kind, name, key) {
		if c.Name == key {
			return c
		}
	}
	l.Fatalf("DescribeConfigs v%d of %s: no %s", version, name, key)
	return kmsg.DescribeConfigsResponseResourceConfig{}
}

// settings describes the given keys of a resource, all of them when none is given.
func (l *link) settings(version int16, kind kmsg.ConfigResourceType, name string, keys ...string) []kmsg.DescribeConfigsResponseResourceConfig {
	l.Helper()
	req := raw.At(version, kmsg.NewPtrDescribeConfigsRequest())
	req.IncludeSynonyms = true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	got := l.Ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
	if got.ErrorCode != 0 {
		l.Fatalf("DescribeConfigs v%d of %s: %v", version, name, kafka.Error(got.ErrorCode))
	}
	return got.Configs
}

// change is an IncrementalAlterConfigs of one key of a topic.
func (l *link) change(version int16, topic, key string, op kmsg.IncrementalAlterConfigOp, value string) kafka.Error {
	l.Helper()
	req := raw.At(version, kmsg.NewPtrIncrementalAlterConfigsRequest())
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	entry.Name, entry.Op, entry.Value = key, op, &value
	if op == kmsg.IncrementalAlterConfigOpDelete {
		entry.Value = nil
	}
	r.Configs = append(r.Configs, entry)
	req.Resources = append(req.Resources, r)
	return kafka.Error(l.Ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
}

// replace is an AlterConfigs of a topic, with settings as name, value.
func (l *link) replace(version int16, topic string, settings ...string) kafka.Error {
	l.Helper()
	req := raw.At(version, kmsg.NewPtrAlterConfigsRequest())
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for i := 0; i < len(settings); i += 2 {
		entry := kmsg.NewAlterConfigsRequestResourceConfig()
		entry.Name, entry.Value = settings[i], &settings[i+1]
		r.Configs = append(r.Configs, entry)
	}
	req.Resources = append(req.Resources, r)
	return kafka.Error(l.Ask(req).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode)
}

// What is set on the topic comes from the topic, also where it equals what it would be without.
func TestRule27SourceOfASetting(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("log.retention.ms", "1000000"))
	l := connect(t, b.Addr())
	l.Create("t", 1, "cleanup.policy", "delete")
	for version := int16(1); version <= 4; version++ {
		for key, want := range map[string]kmsg.ConfigSource{"cleanup.policy": fromTopic, "retention.ms": fromFile, "segment.ms": builtIn} {
			if got := l.setting(version, kmsg.ConfigResourceTypeTopic, "t", key).Source; got != want {
				t.Errorf("v%d: %s comes from %v, want %v", version, key, got, want)
			}
		}
	}
	if c := l.change(1, "t", "cleanup.policy", kmsg.IncrementalAlterConfigOpDelete, ""); c != kafka.None {
		t.Fatal(c)
	}
	if got := l.setting(4, kmsg.ConfigResourceTypeTopic, "t", "cleanup.policy"); got.Source != builtIn || deref(got.Value) != "delete" {
		t.Errorf("deleted: %s from %v", deref(got.Value), got.Source)
	}
	all := raw.At(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.retention.ms", Value: new("2000000")}}
	all.Resources = append(all.Resources, r)
	code(t, "a default of the cluster", l.Ask(all).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode, kafka.None)
	if got := l.setting(4, kmsg.ConfigResourceTypeTopic, "t", "retention.ms"); got.Source != fromCluster || deref(got.Value) != "2000000" {
		t.Errorf("after a default of the cluster: %s from %v", deref(got.Value), got.Source)
	}
}

// All keys are described, or exactly those asked for, and the chain of synonyms begins with what counts.
func TestRule28SynonymsOfASetting(t *testing.T) {
	l := connect(t, brokertest.Start(t, brokertest.Property("message.max.bytes", "2000000")).Addr())
	l.Create("t", 1, "max.message.bytes", "5000")
	for version := int16(1); version <= 4; version++ {
		if all := l.settings(version, kmsg.ConfigResourceTypeTopic, "t"); len(all) < 30 {
			t.Errorf("v%d: %d keys of a topic", version, len(all))
		}
		if all := l.settings(version, kmsg.ConfigResourceTypeBroker, "1"); len(all) < 150 {
			t.Errorf("v%d: %d keys of a broker", version, len(all))
		}
		if two := l.settings(version, kmsg.ConfigResourceTypeTopic, "t", "segment.ms", "retention.ms"); len(two) != 2 {
			t.Errorf("v%d: %d keys where two were asked for", version, len(two))
		}
		got := l.setting(version, kmsg.ConfigResourceTypeTopic, "t", "max.message.bytes")
		var chain []string
		for _, s := range got.ConfigSynonyms {
			chain = append(chain, fmt.Sprintf("%s=%s from %d", s.Name, deref(s.Value), s.Source))
		}
		want := []string{"max.message.bytes=5000 from 1", "message.max.bytes=2000000 from 4", "message.max.bytes=1048588 from 5"}
		if deref(got.Value) != "5000" || !slices.Equal(chain, want) {
			t.Errorf("v%d: %s, chain\n%s\nwant\n%s", version, deref(got.Value), strings.Join(chain, "\n"), strings.Join(want, "\n"))
		}
		for _, c := range l.settings(version, kmsg.ConfigResourceTypeBroker, "1") {
			if c.IsSensitive && c.Value != nil {
				t.Errorf("v%d: %s is sensitive and tells %q", version, c.Name, *c.Value)
			}
		}
	}
}

// The legacy request replaces everything, the newer one only what it names.
func TestRule29ReplacingAndChanging(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for version := range int16(3) {
		name := fmt.Sprint("old", version)
		l.Create(name, 1, "cleanup.policy", "compact", "retention.ms", "5000")
		if c := l.replace(version, name, "retention.ms", "6000"); c != kafka.None {
			t.Fatal(c)
		}
		policy, retention := l.setting(4, kmsg.ConfigResourceTypeTopic, name, "cleanup.policy"), l.setting(4, kmsg.ConfigResourceTypeTopic, name, "retention.ms")
		if policy.Source != builtIn || deref(policy.Value) != "delete" || deref(retention.Value) != "6000" {
			t.Errorf("v%d: replaced: cleanup.policy %s, retention.ms %s", version, deref(policy.Value), deref(retention.Value))
		}
	}
	for version := range int16(2) {
		name := fmt.Sprint("new", version)
		l.Create(name, 1, "cleanup.policy", "compact", "retention.ms", "5000")
		if c := l.change(version, name, "retention.ms", kmsg.IncrementalAlterConfigOpSet, "6000"); c != kafka.None {
			t.Fatal(c)
		}
		policy, retention := l.setting(4, kmsg.ConfigResourceTypeTopic, name, "cleanup.policy"), l.setting(4, kmsg.ConfigResourceTypeTopic, name, "retention.ms")
		if deref(policy.Value) != "compact" || deref(retention.Value) != "6000" {
			t.Errorf("v%d: changed: cleanup.policy %s, retention.ms %s", version, deref(policy.Value), deref(retention.Value))
		}
	}
}

func TestRule30AppendAndSubtract(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	const add, take = kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	for version := range int16(2) {
		name := fmt.Sprint("t", version)
		l.Create(name, 1)
		for _, step := range []struct {
			key   string
			op    kmsg.IncrementalAlterConfigOp
			value string
			want  kafka.Error
			then  string
		}{
			{"cleanup.policy", add, "compact", kafka.None, "delete,compact"},
			{"cleanup.policy", add, "compact", kafka.None, "delete,compact"},
			{"cleanup.policy", take, "delete", kafka.None, "compact"},
			{"cleanup.policy", take, "delete", kafka.None, "compact"},
			{"cleanup.policy", add, "nonsense", kafka.InvalidConfig, "compact"},
			{"retention.ms", add, "1", kafka.InvalidConfig, "compact"},
			{"retention.ms", take, "1", kafka.InvalidConfig, "compact"},
		} {
			got := l.change(version, name, step.key, step.op, step.value)
			now := deref(l.setting(4, kmsg.ConfigResourceTypeTopic, name, "cleanup.policy").Value)
			if got != step.want || now != step.then {
				t.Errorf("v%d: %s, %v %s: %v, then %q; want %v, %q", version, step.key, step.op, step.value, got, now, step.want, step.then)
			}
		}
	}
}
