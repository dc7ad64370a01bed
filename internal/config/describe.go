package config

import (
	"slices"
	"strings"
)

// Source says where a value comes from, by the number that DescribeConfigs sends.
type Source int8

// The sources.
const (
	SourceTopic         Source = 1 // set on the topic
	SourceNode          Source = 2 // dynamic, for this broker
	SourceCluster       Source = 3 // dynamic, for all brokers
	SourceStatic        Source = 4 // properties, environment or overrides
	SourceDefault       Source = 5
	SourceLogger        Source = 6
	SourceClientMetrics Source = 7
	SourceGroup         Source = 8
)

// Entry is one key of a resource as DescribeConfigs shows it.
type Entry struct {
	Name      string
	Value     *string // nil when the key is sensitive or its value is null
	ReadOnly  bool
	Source    Source
	Sensitive bool
	Type      Type
	Doc       string
	Synonyms  []Synonym // in order of precedence: the first one is in effect
}

// Synonym is a value that the key has, or would have without those before it.
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// DescribeTopic returns every key of a topic, in order of name. overrides is what is set on the topic.
func (b *Broker) DescribeTopic(d Dynamic, overrides map[string]string) []Entry {
	effective := topicResolver{b.With(d), overrides}
	var entries []Entry
	for _, k := range Keys(ScopeTopic) {
		if _, ok := overrides[k.Name]; k.Internal && !ok {
			continue
		}
		e := Entry{Name: k.Name, Value: show(effective.value(k.Name)), Source: SourceDefault, Type: k.Type, Doc: k.documentation()}
		if _, ok := overrides[k.Name]; ok {
			e.Synonyms = append(e.Synonyms, Synonym{k.Name, e.Value, SourceTopic})
		}
		if len(k.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, b.synonyms(d, k.Synonyms[0].Name)...)
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// DescribeBroker returns every key of this broker, and what is set beyond the table.
func (b *Broker) DescribeBroker(d Dynamic) []Entry {
	effective := b.With(d)
	var entries []Entry
	for _, name := range b.brokerNames(d) {
		e := describeBrokerKey(name)
		e.Synonyms = b.synonyms(d, name)
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
			e.Value = e.Synonyms[0].Value
		}
		if v, ok := effective.resolved[name]; ok && !e.Sensitive {
			e.Value = show(v)
		}
		entries = append(entries, e)
	}
	return entries
}

// describeBrokerKey returns what is known of a key whatever its value. What is not known at all may be a password.
func describeBrokerKey(name string) Entry {
	k, ok := lookupBroker(name)
	if !ok {
		return Entry{Name: name, Source: SourceDefault, ReadOnly: true, Sensitive: true}
	}
	return Entry{
		Name: name, Source: SourceDefault, ReadOnly: k.Mode == ReadOnly || k.Name != name, Sensitive: k.Sensitive(),
		Type: k.Type, Doc: k.documentation(),
	}
}

// lookupBroker finds a key of the broker scope, also under a listener's prefix.
func lookupBroker(name string) (*Key, bool) {
	if k, ok := Lookup(ScopeBroker, name); ok {
		return k, true
	}
	return listenerKey(name)
}

// DescribeCluster returns what is set for all brokers at once.
func (b *Broker) DescribeCluster(d Dynamic) []Entry {
	var entries []Entry
	for _, name := range sortedNames(d.Cluster) {
		e := describeBrokerKey(name)
		e.Source = SourceCluster
		if text := d.Cluster[name]; !e.Sensitive {
			e.Value = &text
		}
		e.Synonyms = []Synonym{{name, e.Value, SourceCluster}}
		entries = append(entries, e)
	}
	return entries
}

// DescribeGroup returns every key of a group, in order of name. overrides is what is set on the group.
func (b *Broker) DescribeGroup(d Dynamic, overrides map[string]string) []Entry {
	effective := b.With(d)
	var entries []Entry
	for _, k := range Keys(ScopeGroup) {
		if _, ok := overrides[k.Name]; k.Internal && !ok {
			continue
		}
		e := Entry{Name: k.Name, Value: show(effective.inherited(k)), Source: SourceDefault, Type: k.Type, Doc: k.documentation()}
		if text, ok := overrides[k.Name]; ok {
			e.Value = k.tidy(text)
			e.Synonyms = append(e.Synonyms, Synonym{k.Name, e.Value, SourceGroup})
		}
		if len(k.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, b.synonyms(d, k.Synonyms[0].Name)...)
		} else if v := k.defaultValue(); !v.null {
			e.Synonyms = append(e.Synonyms, Synonym{k.Name, &v.text, SourceDefault})
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// DescribeClientMetrics returns every key of a client-metrics subscription.
func DescribeClientMetrics(overrides map[string]string) []Entry {
	var entries []Entry
	for _, k := range Keys(ScopeClientMetrics) {
		e := Entry{Name: k.Name, Value: show(k.defaultValue()), Source: SourceDefault, Type: k.Type, Doc: k.documentation()}
		if text, ok := overrides[k.Name]; ok {
			e.Value, e.Source = k.tidy(text), SourceClientMetrics
			e.Synonyms = []Synonym{{k.Name, e.Value, SourceClientMetrics}}
		}
		entries = append(entries, e)
	}
	return entries
}

// brokerNames returns the names that a description of the broker has, sorted: the table's, but what Kafka hides or what can
// only be set while running is named only when set, and all others that are set.
func (b *Broker) brokerNames(d Dynamic) []string {
	var names []string
	for _, k := range Keys(ScopeBroker) {
		if !k.Internal && !k.DynamicOnly {
			names = append(names, k.Name)
		}
	}
	for _, settings := range []map[string]string{b.static, d.Cluster, d.Node} {
		names = append(names, sortedNames(settings)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *Broker) isStatic(name string) bool {
	_, ok := b.static[name]
	return ok
}

// families are broker keys of which the earlier wins over the later; the key's own name leads its chain.
var families = [][]string{
	{"log.roll.ms", "log.roll.hours"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
}

// familyOf returns the names that may give a broker's key its value, in order of precedence.
func familyOf(name string) []string {
	for _, f := range families {
		if slices.Contains(f, name) {
			return f
		}
	}
	switch {
	case name == "log.flush.interval.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	case strings.HasPrefix(name, "listener.name."):
		if k, ok := listenerKey(name); ok {
			return []string{name, k.Name}
		}
	}
	return []string{name}
}

// synonyms returns the chain of a broker's key: what is set for this broker, for all, in the properties, and the default, each
// in the order of the key's family. As in Kafka the chain begins with the key's own name.
func (b *Broker) synonyms(d Dynamic, name string) []Synonym {
	var chain []Synonym
	family := familyOf(name)
	add := func(source Source, find func(name string) (string, bool)) {
		for _, member := range family {
			text, ok := find(member)
			if !ok {
				continue
			}
			s := Synonym{Name: member, Source: source}
			if k, known := lookupBroker(member); known && !k.Sensitive() {
				s.Value = &text
			}
			chain = append(chain, s)
		}
	}
	in := func(settings map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { text, ok := settings[name]; return text, ok }
	}
	add(SourceNode, in(d.Node))
	add(SourceCluster, in(d.Cluster))
	add(SourceStatic, in(b.static))
	add(SourceDefault, b.defaultText)
	own := slices.IndexFunc(chain, func(s Synonym) bool { return s.Name == name })
	if own < 0 {
		return nil
	}
	return chain[own:]
}

// defaultText returns the default of a broker's key where it has one that is not null: Kafka's, or ours while the key is unset.
func (b *Broker) defaultText(name string) (string, bool) {
	if text, ok := b.ownDefaultOf(name); ok && !b.isStatic(name) {
		return text, true
	}
	k, ok := Lookup(ScopeBroker, name)
	if !ok || k.DefaultState != DefaultValue || k.DynamicOnly {
		return "", false
	}
	return k.Default, true
}

// tidy returns the text of a value as its type prints it, or as it is when it does not parse.
func (k *Key) tidy(text string) *string {
	if v, err := k.parse(text); err == nil {
		return &v.text
	}
	return &text
}

// show returns the text of a value as DescribeConfigs has it.
func show(v value) *string {
	if v.null {
		return nil
	}
	return &v.text
}
