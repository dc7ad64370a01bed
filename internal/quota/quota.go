// Package quota decides how long a client is to wait because of what it has used: which of the quotas that are set holds for it
// (precedence as in Kafka), at what rate it goes, and when it will be back under its quota. Time is an argument, and the caller's
// lock serialises all calls.
package quota

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Kind is what a quota limits.
type Kind uint8

// The kinds. Mutations are counted by a token bucket (KIP-599), all others by a rate.
const (
	ProduceBytes Kind = iota // bytes of Produce requests a second
	FetchBytes               // bytes of answers to Fetch a second
	RequestTime              // percents of one processor's time that requests take
	Mutations                // partitions that are created, added or deleted a second
	Connections              // connections from an address a second

	Kinds = iota
)

// keys are the names of the kinds, in their order.
var keys = [Kinds]string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"}

// Key is the kind's name, as Kafka's.
func (k Kind) Key() string { return keys[k] }

// KindOf returns the kind of that name.
func KindOf(key string) (Kind, bool) {
	i := slices.Index(keys[:], key)
	return Kind(max(i, 0)), i >= 0
}

// Part is one part of an entity: the zero value where the entity has none, Default for all that have no quota of their own, or a
// name.
type Part struct {
	set  bool
	deft bool
	name string
}

// Default is the part that stands for every user, client id or address without a quota of its own.
var Default = Part{set: true, deft: true}

// Named is the part that stands for one user, client id or address.
func Named(name string) Part { return Part{set: true, name: name} }

// IsSet tells whether the entity has the part.
func (p Part) IsSet() bool { return p.set }

// Name returns the name, nil for the default.
func (p Part) Name() *string {
	if p.deft {
		return nil
	}
	return &p.name
}

func (p Part) compare(q Part) int {
	return cmp.Or(compareBools(p.set, q.set), compareBools(q.deft, p.deft), strings.Compare(p.name, q.name))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Entity is what can have quotas: a user, a client id, both, or an address.
type Entity struct{ User, ClientID, IP Part }

// Compare orders entities.
func Compare(a, b Entity) int {
	return cmp.Or(a.User.compare(b.User), a.ClientID.compare(b.ClientID), a.IP.compare(b.IP))
}

// Limits are the quotas that are set.
type Limits interface {
	// Limit returns what is set for exactly that entity.
	Limit(e Entity, k Kind) (limit float64, set bool)
	// ConnectionRate returns what holds for the address: its own quota, or the default.
	ConnectionRate(ip netip.Addr) (limit float64, set bool)
}

// precedence are the entities whose quota a client may have, the first that is set counts; group tells for whom what it uses is
// added up.
var precedence = []struct {
	user, clientID choice
	group          group
}{
	{own, own, byBoth},
	{own, deft, byBoth},
	{own, none, byUser},
	{deft, own, byBoth},
	{deft, deft, byBoth},
	{deft, none, byUser},
	{none, own, byClientID},
	{none, deft, byClientID},
}

type choice uint8

const (
	none choice = iota
	own
	deft
)

func (c choice) part(name string) Part {
	switch c {
	case own:
		return Named(name)
	case deft:
		return Default
	}
	return Part{}
}

type group uint8

const (
	byBoth group = iota
	byUser
	byClientID
)

// subject is who shares a quota: all its connections are measured together.
type subject struct {
	kind           Kind
	user, clientID string
	ip             netip.Addr
	listener       string // of connections to it; they and those to any listener have no address
}

// Held is the quota that holds for a client or an address, and whose it is.
type Held struct {
	subject
	limit float64
}

// Find returns the quota that holds for a client, false where there is none. As in Kafka a client without an id has quotas as a user
// only. It takes no lock and needs none.
func Find(l Limits, k Kind, user, clientID string) (h Held, ok bool) {
	for _, p := range precedence {
		if clientID == "" && p.clientID != none {
			continue
		}
		limit, ok := l.Limit(Entity{User: p.user.part(user), ClientID: p.clientID.part(clientID)}, k)
		if !ok || !limits(limit) {
			continue
		}
		h := Held{subject{kind: k, user: user, clientID: clientID}, limit}
		switch p.group {
		case byUser:
			h.clientID = ""
		case byClientID:
			h.user = ""
		case byBoth:
		}
		return h, true
	}
	return Held{}, false
}

// FindAddress returns how many connections a second may come from an address, false where there is no quota.
func FindAddress(l Limits, ip netip.Addr) (h Held, ok bool) {
	limit, ok := l.ConnectionRate(ip)
	return Held{subject{kind: Connections, ip: ip}, limit}, ok && limits(limit)
}

// limits tells whether a quota is one that can be set. A record in the metadata may say anything, as that it is no number.
func limits(limit float64) bool { return limit > 0 }
