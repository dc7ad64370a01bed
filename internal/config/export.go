package config

import (
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Installation is what a node's data directories say about themselves.
type Installation struct {
	ClusterID      string
	LogDirs        []string // absolute
	DirectoryIDs   []kafka.UUID
	MetadataLogDir string  // absolute; "" when it is the first of LogDirs
	Controller     Address // of the controller listener, as the voters know it
}

// Export renders the server.properties with which Apache Kafka 4.4 opens the node's data directories: what is set, without what
// is ours, and what Kafka needs said that we do not.
func (b *Broker) Export(i Installation) string {
	controllerName, _ := b.ControllerEndpoint()
	var lines []Property
	add := func(name, text string) { lines = append(lines, Property{Name: name, Value: text}) }

	add("process.roles", "broker,controller")
	add("node.id", itoa(int(b.NodeID())))
	listeners, advertised := b.exportListeners(controllerName, i.Controller)
	add("listeners", listeners)
	add("advertised.listeners", advertised)
	add("controller.listener.names", controllerName)
	add("inter.broker.listener.name", b.InterBrokerListener())
	add("listener.security.protocol.map", b.exportProtocols(controllerName))
	if voters := b.resolved["controller.quorum.voters"]; len(voters.list) > 0 {
		add("controller.quorum.voters", voters.text)
	} else {
		add("controller.quorum.bootstrap.servers", joinHostPort(i.Controller.Host, i.Controller.Port))
	}
	add("log.dirs", strings.Join(i.LogDirs, ","))
	if i.MetadataLogDir != "" {
		add("metadata.log.dir", i.MetadataLogDir)
	}
	lines = append(lines, b.exportRest(lines)...)

	text := "# For Apache Kafka 4.4. The data directories are formatted already: start Kafka with this file, without kafka-storage.\n" +
		"# Cluster id " + i.ClusterID + "\n"
	for n, id := range i.DirectoryIDs {
		text += "# Directory id " + id.String() + " of " + i.LogDirs[n] + "\n"
	}
	return text + FormatProperties(lines)
}

// exportListeners returns the listeners for Kafka, which takes one address for each name and needs the controller's, and what
// they are advertised as: an address that is every address, or that follows the client here, becomes the one of this machine.
func (b *Broker) exportListeners(controllerName string, controller Address) (listeners, advertised string) {
	var listening, told []string
	seen := map[string]bool{}
	for _, l := range b.listeners {
		if seen[l.Name] {
			continue
		}
		seen[l.Name] = true
		listening = append(listening, l.String())
		address := l.Advertised
		if address == (Address{}) {
			address = Address{l.Host, l.Port}
		}
		if address.Host == "" || address.Host == "0.0.0.0" || address.Host == "::" {
			address.Host = "localhost"
		}
		if !l.Controller {
			told = append(told, l.Name+"://"+joinHostPort(address.Host, address.Port))
		}
	}
	if !seen[controllerName] {
		listening = append(listening, controllerName+"://"+joinHostPort(controller.Host, controller.Port))
	}
	return strings.Join(listening, ","), strings.Join(told, ",")
}

func (b *Broker) exportProtocols(controllerName string) string {
	var pairs []string
	for _, l := range b.listeners {
		if pair := l.Name + ":" + l.Security; !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
	}
	if pair := controllerName + ":PLAINTEXT"; !slices.Contains(pairs, pair) {
		pairs = append(pairs, pair)
	}
	return strings.Join(pairs, ",")
}

// exportRest returns what is set beyond the lines given, and the defaults of ours that Kafka would take otherwise.
func (b *Broker) exportRest(lines []Property) []Property {
	written := map[string]bool{"broker.id": true, "log.dir": true, "log.dirs": true, "metadata.log.dir": true, "security.inter.broker.protocol": true}
	for _, line := range lines {
		written[line.Name] = true
	}
	var rest []Property
	for _, d := range b.quorumDefaults() {
		if !b.isStatic(d.name) {
			rest = append(rest, Property{Name: d.name, Value: d.text})
		}
	}
	for _, name := range sortedNames(b.static) {
		if !written[name] && !strings.HasPrefix(name, "raftsman.") && name != "controller.quorum.bootstrap.servers" {
			rest = append(rest, Property{Name: name, Value: b.static[name]})
		}
	}
	return rest
}
