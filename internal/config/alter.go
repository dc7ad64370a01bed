package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Kind is the type of a resource that has a configuration, by the protocol's number.
type Kind int8

// The kinds.
const (
	KindTopic         Kind = 2
	KindBroker        Kind = 4
	KindLogger        Kind = 8
	KindClientMetrics Kind = 16
	KindGroup         Kind = 32
)

// scope returns the scope of a kind's keys.
func (k Kind) scope() (Scope, bool) {
	switch k {
	case KindTopic:
		return ScopeTopic, true
	case KindBroker:
		return ScopeBroker, true
	case KindClientMetrics:
		return ScopeClientMetrics, true
	case KindGroup:
		return ScopeGroup, true
	case KindLogger:
	}
	return 0, false
}

// OpKind is what an [Op] does, by the number of IncrementalAlterConfigs.
type OpKind int8

// The operations.
const (
	Set      OpKind = 0
	Delete   OpKind = 1
	Append   OpKind = 2
	Subtract OpKind = 3
)

// Op changes one key of a resource.
type Op struct {
	Name  string
	Kind  OpKind
	Value *string
}

// Resource is what a change starts from.
type Resource struct {
	Kind    Kind
	Name    string
	Current map[string]string // what is set on the resource
	Cluster map[string]string // for one broker: what is set for all
	// EligibleLeaders says that the cluster has KIP-966 on, which keeps min.insync.replicas the same on all brokers.
	EligibleLeaders bool
}

// Alter returns what is set on the resource after the operations, as IncrementalAlterConfigs makes them: all of them or none.
// The error is a [kafka.Refusal]. Whether a topic exists is for the caller to know.
func (b *Broker) Alter(r Resource, ops []Op) (map[string]string, error) {
	if err := checkOps(ops); err != nil {
		return nil, err
	}
	next := maps.Clone(r.Current)
	if next == nil {
		next = map[string]string{}
	}
	for _, op := range ops {
		if r.Kind == KindBroker && r.Name != "" && r.EligibleLeaders && op.Name == minISR {
			return nil, nodeMinISRRefused()
		}
		if err := applyOp(r, next, op); err != nil {
			return nil, err
		}
	}
	return next, b.CheckChange(r, next)
}

// Replace returns what is set on the resource when exactly these keys are to be, as the legacy AlterConfigs makes them.
func (b *Broker) Replace(r Resource, ops []Op) (map[string]string, error) {
	if err := checkOps(ops); err != nil {
		return nil, err
	}
	next := make(map[string]string, len(ops))
	for _, op := range ops {
		if op.Value == nil {
			return nil, nullRefused(op.Name)
		}
		next[op.Name] = *op.Value
	}
	return next, b.CheckChange(r, next)
}

// checkOps refuses what no resource takes.
func checkOps(ops []Op) error {
	seen := make(map[string]bool, len(ops))
	for _, op := range ops {
		if seen[op.Name] {
			return kafka.Refuse(kafka.InvalidRequest, "configuration %s comes more than once", op.Name)
		}
		seen[op.Name] = true
	}
	for _, op := range ops {
		if op.Kind != Delete && op.Value == nil {
			return nullRefused(op.Name)
		}
	}
	for _, op := range ops {
		if op.Kind < Set || op.Kind > Subtract {
			return kafka.Refuse(kafka.UnknownServerError, "unknown operation %d on configuration %s", op.Kind, op.Name)
		}
	}
	return nil
}

func nullRefused(name string) error {
	return kafka.Refuse(kafka.InvalidRequest, "configuration %s cannot be set to null: delete it instead", name)
}

func applyOp(r Resource, settings map[string]string, op Op) error {
	switch op.Kind {
	case Set:
		settings[op.Name] = *op.Value
	case Delete:
		delete(settings, op.Name)
	case Append, Subtract:
		current, err := r.listOf(settings, op.Name)
		if err != nil {
			return err
		}
		settings[op.Name] = strings.Join(changeList(current, *op.Value, op.Kind), ",")
	}
	return nil
}

// listOf returns the items of a list key: what is set, or else its built-in default, whatever the broker has for it. As in
// Kafka the lists of groups and client metrics are only ever set as a whole.
func (r Resource) listOf(settings map[string]string, name string) ([]string, error) {
	scope, _ := r.Kind.scope()
	k, ok := Lookup(scope, name)
	if !ok || k.Type != List || scope != ScopeTopic && scope != ScopeBroker {
		return nil, kafka.Refuse(kafka.InvalidConfig, "configuration %s is not a list: it can be set, but not appended to "+
			"or subtracted from", name)
	}
	text, ok := settings[name]
	if !ok && k.DefaultState == DefaultValue {
		text = k.Default
	}
	if trim(text) == "" {
		return nil, nil
	}
	return strings.Split(text, ","), nil
}

// changeList appends the items of text that are not there yet, or removes those that are.
func changeList(items []string, text string, kind OpKind) []string {
	for item := range strings.SplitSeq(text, ",") {
		there := slices.Index(items, item)
		switch {
		case kind == Append && there < 0:
			items = append(items, item)
		case kind == Subtract && there >= 0:
			items = slices.Delete(items, there, there+1)
		}
	}
	return items
}

// CheckChange tells whether the resource may have exactly the given settings next. The error is a [kafka.Refusal].
func (b *Broker) CheckChange(r Resource, next map[string]string) error {
	switch r.Kind {
	case KindTopic:
		if r.Name == "" {
			return kafka.Refuse(kafka.InvalidRequest, "there are no defaults for all topics: set the broker's configuration")
		}
		return b.CheckTopic(next)
	case KindGroup:
		if r.Name == "" {
			return kafka.Refuse(kafka.InvalidRequest, "there are no defaults for all groups: set the broker's configuration")
		}
		return b.CheckGroup(next)
	case KindClientMetrics:
		if r.Name == "" {
			return kafka.Refuse(kafka.InvalidRequest, "a client-metrics subscription needs a name")
		}
		return CheckClientMetrics(next)
	case KindBroker:
		return b.checkBrokerChange(r, next)
	case KindLogger:
	}
	return kafka.Refuse(kafka.InvalidRequest, "unknown resource type %d", r.Kind)
}
