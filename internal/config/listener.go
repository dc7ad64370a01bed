package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Listener is an address that the node listens on, and the one that it tells clients.
type Listener struct {
	Name       string
	Host       string // "" is every address
	Port       uint16 // 0 lets the system choose
	Security   string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Controller bool   // it speaks to controllers, not to clients
	// Advertised is what advertised.listeners says; its zero value means the address that each client connected to.
	Advertised Address
}

// Address is a host and port that clients dial.
type Address struct {
	Host string
	Port uint16
}

// String returns the listener as it is written in listeners.
func (l Listener) String() string { return l.Name + "://" + joinHostPort(l.Host, l.Port) }

// Voter is one entry of controller.quorum.voters.
type Voter struct {
	ID kafka.NodeID
	Address
}

// securityProtocols are Kafka's; only the first is served.
var securityProtocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// resolveListeners reads everything that concerns listeners and returns them, or what is wrong, one error a fault.
func (b *Broker) resolveListeners() ([]Listener, []error) {
	security, err := b.securityMap()
	if err != nil {
		return nil, []error{err}
	}
	var listeners []Listener
	var faults []error
	for _, item := range b.resolved["listeners"].list {
		l, err := parseListener("listeners", item)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		protocol, ok := security[l.Name]
		switch {
		case !ok:
			faults = append(faults, fault("listeners", item,
				"listener %s needs a protocol: add %s:PLAINTEXT to listener.security.protocol.map", l.Name, l.Name))
		case protocol != "PLAINTEXT":
			faults = append(faults, fault("listeners", item, "listeners of protocol %s are not served yet, only those of PLAINTEXT", protocol))
		case slices.ContainsFunc(listeners, func(other Listener) bool { return clash(l, other) }):
			faults = append(faults, fault("listeners", item, "listener names and ports must differ, except that a name may "+
				"have one IPv4 and one IPv6 address"))
		}
		l.Security = protocol
		l.Controller = slices.Contains(b.ControllerListeners(), l.Name)
		listeners = append(listeners, l)
	}
	if address := b.String("raftsman.http.listener"); address != "" {
		if _, _, err := splitHostPort(address); err != nil {
			faults = append(faults, fault("raftsman.http.listener", address, "%v", err))
		}
	}
	if err := b.checkCollector(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) == 0 {
		faults = b.advertise(listeners)
	}
	if len(faults) == 0 {
		if err := b.checkInterBroker(listeners); err != nil {
			faults = append(faults, err)
		}
	}
	return listeners, faults
}

// clash tells whether two listeners cannot exist beside each other.
func clash(a, b Listener) bool {
	families := isIPv6(a.Host) != isIPv6(b.Host)
	return a.Name == b.Name && !families || a.Port == b.Port && a.Port != 0 && !families && a.Host == b.Host ||
		a.Port == b.Port && a.Port != 0 && (a.Host == "" || b.Host == "")
}

func isIPv6(host string) bool { return strings.Contains(host, ":") }

// advertise fills in Advertised.
func (b *Broker) advertise(listeners []Listener) []error {
	var faults []error
	var told []string
	for _, item := range b.resolved["advertised.listeners"].list {
		a, err := parseListener("advertised.listeners", item)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if a.Host == "0.0.0.0" || a.Host == "::" {
			faults = append(faults, fault("advertised.listeners", item, "clients cannot connect to %s: name an address that "+
				"they reach, or leave the key out and each is told the address that it connected to", a.Host))
			continue
		}
		if slices.Contains(told, a.Name) {
			faults = append(faults, fault("advertised.listeners", item, "listener %s comes twice", a.Name))
			continue
		}
		told = append(told, a.Name)
		found := false
		for i := range listeners {
			if listeners[i].Name == a.Name {
				found = true
				listeners[i].Advertised = Address{a.Host, a.Port}
			}
		}
		if !found {
			faults = append(faults, fault("advertised.listeners", item, "listener %s is not in listeners", a.Name))
		}
	}
	return faults
}

// checkInterBroker makes sure that other brokers have a listener to connect to.
func (b *Broker) checkInterBroker(listeners []Listener) error {
	if b.IsSet("inter.broker.listener.name") && b.IsSet("security.inter.broker.protocol") {
		return fault("inter.broker.listener.name", b.String("inter.broker.listener.name"),
			"security.inter.broker.protocol is set as well: only one of both may be")
	}
	name := b.InterBrokerListener()
	serves := slices.ContainsFunc(listeners, func(l Listener) bool { return l.Name == name && !l.Controller })
	if !serves && slices.Contains(b.resolved["process.roles"].list, "broker") {
		return fault("inter.broker.listener.name", name, "no such listener for brokers in listeners")
	}
	return nil
}

// InterBrokerListener returns the name of the listener that other brokers connect to.
func (b *Broker) InterBrokerListener() string {
	if v := b.resolved["inter.broker.listener.name"]; !v.null {
		return strings.ToUpper(v.text)
	}
	return b.resolved["security.inter.broker.protocol"].text
}

// ControllerEndpoint returns the name and address of the controller listener that the quorum knows this node by. Where none is
// configured it is CONTROLLER on the loopback, one above the first port of the broker.
func (b *Broker) ControllerEndpoint() (name string, address Address) {
	for _, l := range b.listeners {
		if !l.Controller {
			continue
		}
		address = l.Advertised
		if address == (Address{}) {
			address = Address{l.Host, l.Port}
		}
		if address.Host == "" || address.Host == "0.0.0.0" || address.Host == "::" {
			address.Host = "localhost"
		}
		return l.Name, address
	}
	address = Address{"127.0.0.1", 9093}
	if len(b.listeners) > 0 && b.listeners[0].Port > 0 {
		address.Port = b.listeners[0].Port + 1
	}
	return b.ControllerListeners()[0], address
}

// ControllerListeners returns the names of controller.listener.names, normalised as all listener names are.
func (b *Broker) ControllerListeners() []string {
	return splitList(strings.ToUpper(b.resolved["controller.listener.names"].text))
}

// securityMap returns the protocol of each listener name. Names of controller listeners are PLAINTEXT without being mapped,
// where the map was left alone and nothing asks for TLS or SASL.
func (b *Broker) securityMap() (map[string]string, error) {
	const key = "listener.security.protocol.map"
	protocols := map[string]string{}
	for _, item := range splitList(b.resolved[key].text) {
		name, protocol, ok := strings.Cut(item, ":")
		name, protocol = strings.ToUpper(trim(name)), strings.ToUpper(trim(protocol))
		if !ok || name == "" || !slices.Contains(securityProtocols, protocol) {
			return nil, fault(key, item, "must be NAME:PROTOCOL, with one of %s", strings.Join(securityProtocols, ", "))
		}
		protocols[name] = protocol
	}
	if b.IsSet(key) {
		return protocols, nil
	}
	for _, name := range b.ControllerListeners() {
		if _, ok := protocols[name]; !ok {
			protocols[name] = "PLAINTEXT"
		}
	}
	return protocols, nil
}

// parseListener reads NAME://HOST:PORT. The host may be empty or an IPv6 address in brackets.
func parseListener(key, item string) (Listener, error) {
	name, rest, ok := strings.Cut(item, "://")
	if !ok || name == "" || strings.Trim(name, listenerLetters) != "" {
		return Listener{}, fault(key, item, "must be NAME://HOST:PORT, as in PLAINTEXT://localhost:9092")
	}
	host, port, err := splitHostPort(rest)
	if err != nil {
		return Listener{}, fault(key, item, "%v", err)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: port}, nil
}

const listenerLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// splitHostPort reads HOST:PORT, with brackets around an IPv6 address.
func splitHostPort(text string) (host string, port uint16, err error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", 0, fmt.Errorf("%q must be HOST:PORT", text)
	}
	host = text[:i]
	n, err := strconv.ParseUint(text[i+1:], 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q must be a number from 0 to 65535", text[i+1:])
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok || !isIPv6(host) {
			return "", 0, fmt.Errorf("%q must be HOST:PORT, with an IPv6 address in brackets", text)
		}
		return host, uint16(n), nil
	}
	if isIPv6(host) {
		return "", 0, fmt.Errorf("%q must have its IPv6 address in brackets, as in [::1]:9092", text)
	}
	if strings.ContainsAny(host, " \t/[]@") {
		return "", 0, fmt.Errorf("%q is not the name of a host", host)
	}
	return host, uint16(n), nil
}

func joinHostPort(host string, port uint16) string {
	if isIPv6(host) {
		host = "[" + host + "]"
	}
	return host + ":" + itoa(int(port))
}

// parseVoters reads the items of controller.quorum.voters: ID@HOST:PORT.
func parseVoters(items []string) ([]Voter, error) {
	voters := make([]Voter, 0, len(items))
	for _, item := range items {
		id, rest, ok := strings.Cut(item, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%q must be ID@HOST:PORT", item)
		}
		host, port, err := splitHostPort(rest)
		if err != nil {
			return nil, err
		}
		voters = append(voters, Voter{kafka.NodeID(n), Address{host, port}})
	}
	return voters, nil
}

// Voters returns controller.quorum.voters.
func (b *Broker) Voters() []Voter {
	voters, _ := parseVoters(b.resolved["controller.quorum.voters"].list) // checked when it was set
	return voters
}

// BootstrapServers returns controller.quorum.bootstrap.servers.
func (b *Broker) BootstrapServers() []Address {
	var servers []Address
	for _, server := range b.resolved["controller.quorum.bootstrap.servers"].list {
		if host, port, err := splitHostPort(server); err == nil { // checked when it was set
			servers = append(servers, Address{host, port})
		}
	}
	return servers
}

// OtherControllers returns the addresses of controllers that are configured and not this node's own.
func (b *Broker) OtherControllers() []Address {
	var others []Address
	for _, v := range b.Voters() {
		if v.ID != b.NodeID() || !b.IsController() {
			others = append(others, v.Address)
		}
	}
	for _, server := range b.BootstrapServers() {
		if !b.ownsAddress(joinHostPort(server.Host, server.Port)) && !slices.Contains(others, server) {
			others = append(others, server)
		}
	}
	return others
}

// String returns HOST:PORT.
func (a Address) String() string { return joinHostPort(a.Host, a.Port) }

// IsBroker tells whether the node serves clients.
func (b *Broker) IsBroker() bool { return slices.Contains(b.resolved["process.roles"].list, "broker") }

// IsController tells whether the node is a member of the metadata quorum.
func (b *Broker) IsController() bool {
	return slices.Contains(b.resolved["process.roles"].list, "controller")
}

func itoa(n int) string { return strconv.Itoa(n) }
