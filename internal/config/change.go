package config

import (
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

// ListDefault returns the built-in default of a key of list type, to which APPEND and SUBTRACT of a key that is not set apply,
// and false for a key that they do not apply to. As in Kafka the lists of groups and client metrics are only set as a whole.
func ListDefault(kind Kind, name string) (string, bool) {
	scope, _ := kind.scope()
	k, ok := Lookup(scope, name)
	if !ok || k.Type != List || scope != ScopeTopic && scope != ScopeBroker {
		return "", false
	}
	return k.Default, true
}

// Change is the change of one resource, as it would be.
type Change struct {
	Kind    Kind
	Name    string
	Changed []string          // the names that are set, changed or deleted
	Next    map[string]string // all that is set on the resource afterwards
	// Before and After are, for a broker's resource, what is set for brokers around the change.
	Before, After Dynamic
}

// Check tells whether a change is allowed, by the value of each key and by what keys say together. The error is a
// [kafka.Refusal]. Whether the resource exists is for the caller to know.
func (b *Broker) Check(c Change) error {
	switch c.Kind {
	case KindTopic:
		return b.CheckTopic(c.Next)
	case KindGroup:
		return b.CheckGroup(c.Next)
	case KindClientMetrics:
		return CheckClientMetrics(c.Next)
	case KindBroker:
		return b.checkBrokerChange(c)
	case KindLogger:
	}
	return kafka.Refuse(kafka.InvalidRequest, "unknown resource type %d", c.Kind)
}
