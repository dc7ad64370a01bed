// Package config is the configuration: one generated table of every key that Apache Kafka 4.4 has, with ours beside them, and
// what follows from it. It parses server.properties, overrides and environment ([Parse]), resolves what a broker and a topic
// are configured to ([Broker], [Topic]), checks changes as Kafka does ([Broker.Check], [Broker.CheckTopic], …) and says where each value
// comes from ([Broker.DescribeTopic], …).
//
// It is pure: text in, values out. Files and the process's environment are read by the command.
package config

//go:generate go run ./gen -dir gen -out table.go
//go:generate go test -run TestDocsAreFresh . -update-docs

import (
	"cmp"
	"slices"
	"strings"
)

// Scope says what a key configures; a name may exist in several.
type Scope uint8

// The scopes.
const (
	ScopeBroker Scope = iota
	ScopeTopic
	ScopeGroup
	ScopeClientMetrics
	ScopeClientQuota
	ScopeIPQuota
)

// Type is the type of a key's value, by the number that DescribeConfigs sends.
type Type int8

// The types.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String returns the type's name in small letters.
func (t Type) String() string {
	names := [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	if t < 0 || int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// DefaultState says whether a key has a default: Kafka has keys that must be given, and keys whose default is null.
type DefaultState uint8

// The states of a default.
const (
	DefaultValue DefaultState = iota
	DefaultNull
	DefaultNone
)

// Importance is Kafka's word for how likely a key needs attention.
type Importance uint8

// The importances.
const (
	High Importance = iota
	Medium
	Low
)

// Mode says whether a broker's key may be changed while it runs.
type Mode uint8

// The modes. A cluster-wide key may also be set for one broker; a per-broker key not for all of them.
const (
	ReadOnly Mode = iota
	PerBroker
	ClusterWide
)

// String returns Kafka's word for the mode.
func (m Mode) String() string {
	switch m {
	case PerBroker:
		return "per-broker"
	case ClusterWide:
		return "cluster-wide"
	}
	return "read-only"
}

// Effect says what this broker does with a key.
type Effect uint8

// The effects. Every key is checked and stored, whatever its effect.
const (
	NotYet       Effect = iota // nothing reads it yet
	Acts                       // the broker acts on it
	NeverMatters               // it tunes something that this broker does not have, as a thread pool
)

// BrokerSynonym is a broker key that stands in for a topic's or group's key; Factor turns its value into the key's unit.
type BrokerSynonym struct {
	Name   string
	Factor int64
}

// Key is one row of the table.
type Key struct {
	Scope        Scope
	Name         string
	Type         Type
	DefaultState DefaultState
	Default      string // Kafka's; what this broker takes instead is in [Broker]
	Valid        string // the values allowed, as Kafka prints them
	Importance   Importance
	Internal     bool // Kafka hides it
	Mode         Mode // of a broker's key
	DynamicOnly  bool // a broker's key that cannot be in the properties
	ListenerOnly bool // a broker's key that can be changed for one listener only, as listener.name.NAME.KEY
	Synonyms     []BrokerSynonym
	Effect       Effect
	Doc          string // ours; empty where this broker does not act on the key

	check check
}

// Sensitive tells whether the value must not be shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// documentation is what DescribeConfigs says of the key: something of every one, as Kafka.
func (k *Key) documentation() string {
	switch {
	case k.Doc != "":
		return k.Doc
	case k.Effect == NeverMatters:
		return "Checked and kept for Kafka's sake; it tunes something that this broker does not have."
	}
	return "Checked and kept; this broker does not act on it yet."
}

// Lookup returns the key of that exact name.
func Lookup(scope Scope, name string) (*Key, bool) {
	i, ok := slices.BinarySearchFunc(table, name, func(k Key, name string) int {
		return cmp.Or(cmp.Compare(k.Scope, scope), cmp.Compare(k.Name, name))
	})
	if !ok {
		return nil, false
	}
	return &table[i], true
}

// Keys returns the keys of a scope by name. The slice is the caller's, the keys are not.
func Keys(scope Scope) []*Key {
	var keys []*Key
	for i := range table {
		if table[i].Scope == scope {
			keys = append(keys, &table[i])
		}
	}
	return keys
}

// Nearest returns the key of the scope whose name is closest to name, or "" when none is near enough to have been meant.
func Nearest(scope Scope, name string) string {
	best, distance := "", len(name)/3+1
	for _, k := range Keys(scope) {
		if d := editDistance(strings.ToLower(name), k.Name, distance); d < distance {
			best, distance = k.Name, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, substitutions and swaps of neighbours between a and b, and stops at limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit)
}
