package config

import "slices"

// ownDefault is a value that this broker takes where Kafka has another default or none.
type ownDefault struct {
	name, text string
	why        string
}

// ownDefaults hold for every node.
var ownDefaults = []ownDefault{
	{"controller.listener.names", "CONTROLLER", "Kafka has no default"},
	{"listeners", "PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092", "reachable from this machine only"},
	{"log.dir", "raftsman-data", "a folder that survives a restart of the machine"},
	{"node.id", "1", "Kafka has no default"},
	{"process.roles", "broker,controller", "Kafka has no default"},
}

// singleNodeDefaults hold for a node that is the whole quorum: Kafka's own would wait for brokers that never come.
var singleNodeDefaults = []ownDefault{
	{"group.initial.rebalance.delay.ms", "0", "groups start at once"},
	{"offsets.topic.replication.factor", "1", "there is one broker"},
	{"share.coordinator.state.topic.min.isr", "1", "there is one broker"},
	{"share.coordinator.state.topic.replication.factor", "1", "there is one broker"},
	{"transaction.state.log.min.isr", "1", "there is one broker"},
	{"transaction.state.log.replication.factor", "1", "there is one broker"},
}

// clusterDefaults hold for a node of a quorum that may have other members.
var clusterDefaults = []ownDefault{
	{"controller.quorum.auto.join.enable", "true", "nobody has to add a controller that was started"},
}

// resolveDefaults fills in what is not set.
func (b *Broker) resolveDefaults() {
	b.copyWhereUnset("node.id", "broker.id")
	b.copyWhereUnset("broker.id", "node.id")
	for _, d := range ownDefaults {
		if _, ok := b.ownDefaultOf(d.name); ok {
			b.setDefault(d)
		}
	}
	for _, k := range Keys(ScopeBroker) {
		if _, ok := b.resolved[k.Name]; !ok {
			b.resolved[k.Name] = k.defaultValue()
		}
	}
}

// quorumDefaults are those that hold for this node's quorum.
func (b *Broker) quorumDefaults() []ownDefault {
	if b.single {
		return singleNodeDefaults
	}
	return clusterDefaults
}

func (b *Broker) resolveQuorumDefaults() {
	for _, d := range b.quorumDefaults() {
		if _, set := b.static[d.name]; !set {
			delete(b.resolved, d.name)
			b.setDefault(d)
		}
	}
}

func (b *Broker) setDefault(d ownDefault) {
	if _, ok := b.resolved[d.name]; ok {
		return
	}
	k, _ := Lookup(ScopeBroker, d.name)
	v, _ := k.parse(d.text)
	b.resolved[d.name] = v
}

// copyWhereUnset gives a key the value of another one, which is its older name.
func (b *Broker) copyWhereUnset(name, from string) {
	if _, ok := b.resolved[name]; ok {
		return
	}
	if v, ok := b.resolved[from]; ok {
		b.resolved[name] = v
		b.static[name] = v.text
	}
}

// ownDefaultOf returns what this broker takes for a key that is not set, where that is not Kafka's default.
func (b *Broker) ownDefaultOf(name string) (string, bool) {
	if name == "log.dir" && b.isStatic("log.dirs") {
		return "", false
	}
	for _, d := range ownDefaults {
		if d.name == name {
			return d.text, true
		}
	}
	defaults := b.quorumDefaults()
	i := slices.IndexFunc(defaults, func(d ownDefault) bool { return d.name == name })
	if i < 0 {
		return "", false
	}
	return defaults[i].text, true
}

// alone tells whether the quorum is this node and has no other member: no voters or servers are named, or all that are named are this node.
func (b *Broker) alone() bool {
	if !b.IsController() {
		return false
	}
	for _, v := range b.Voters() {
		if v.ID != b.NodeID() {
			return false
		}
	}
	for _, server := range b.resolved["controller.quorum.bootstrap.servers"].list {
		if !b.ownsAddress(server) {
			return false
		}
	}
	return true
}

// ownsAddress tells whether HOST:PORT is a controller listener of this node.
func (b *Broker) ownsAddress(server string) bool {
	host, port, err := splitHostPort(server)
	if err != nil {
		return false
	}
	local := host == "localhost" || host == "127.0.0.1" || host == "::1"
	return slices.ContainsFunc(b.listeners, func(l Listener) bool {
		if !l.Controller || l.Port != port {
			return l.Controller && l.Advertised == Address{host, port}
		}
		anyHost := l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::"
		return l.Host == host || l.Advertised.Host == host ||
			local && (anyHost || l.Host == "localhost" || l.Host == "127.0.0.1" || l.Host == "::1")
	})
}
