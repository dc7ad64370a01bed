package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/server"
	"github.com/raftsman/raftsman/internal/vfs"
)

// listen opens the sockets. Nobody is accepted before the node can serve.
func (n *Node) listen() error {
	for _, l := range n.config.Listeners() {
		if l.Controller && n.config.SingleNode() {
			n.log.Info("controller listener is not opened: this node is its own quorum", "listener", l.String())
			continue
		}
		address := net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
		socket, err := server.Listen(context.Background(), address)
		switch {
		case err == nil && l.Controller:
			n.controlListeners = append(n.controlListeners, server.Listener{Listener: socket, Name: l.Name})
		case err == nil:
			n.listeners = append(n.listeners, server.Listener{Listener: socket, Name: l.Name})
		case !n.config.IsSet("listeners") && l.Host == "::1" && !errors.Is(err, syscall.EADDRINUSE):
			n.log.Debug("no IPv6 on this machine", "listener", l.String(), "error", err)
		default:
			n.closeListeners()
			return listenError(address, "--listen HOST:PORT", err)
		}
	}
	if len(n.listeners) == 0 && n.config.IsBroker() {
		return errors.New("listeners has no listener for clients: add one, as listeners=PLAINTEXT://:9092")
	}
	return nil
}

// listenError says what to do about an address that can't be had, which a setting names.
func listenError(address, setting string, err error) error {
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return fmt.Errorf("listen on %s: there is no host %s; name an address of this machine, or 0.0.0.0 for all (%s)", address, lookup.Name, setting)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port in use: something listens on %s already; stop it, or choose another address (%s)", address, setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listen on %s: this machine has no such address; choose one that it has, or 0.0.0.0 for all (%s)", address, setting)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("not allowed to listen on %s: ports below 1024 are for root; choose another (%s)", address, setting)
	default:
		return fmt.Errorf("listen on %s: %w", address, err)
	}
}

func (n *Node) closeListeners() {
	for _, l := range slices.Concat(n.listeners, n.controlListeners) {
		_ = l.Close()
	}
}

// controllerEndpoint is where other controllers reach this one.
func (n *Node) controllerEndpoint() meta.Endpoint {
	name, address := n.config.ControllerEndpoint()
	e := meta.Endpoint{Name: name, Host: address.Host, Port: address.Port, Security: "PLAINTEXT"}
	for _, open := range n.controlListeners {
		if addr, ok := open.Addr().(*net.TCPAddr); ok && e.Port == 0 && open.Name == name {
			e.Port = uint16(addr.Port)
		}
	}
	return e
}

// endpoints are what the node registers: what is advertised, or else where it listens, once for each listener's name.
func (n *Node) endpoints() []meta.Endpoint {
	var endpoints []meta.Endpoint
	named := map[string]bool{}
	for _, l := range n.config.Listeners() {
		if l.Controller || named[l.Name] {
			continue
		}
		for _, open := range n.listeners {
			if open.Name != l.Name || named[l.Name] {
				continue
			}
			named[l.Name] = true
			e := meta.Endpoint{Name: l.Name, Host: l.Advertised.Host, Port: l.Advertised.Port, Security: l.Security}
			if e.Host == "" {
				e.Host = hostOr(l.Host, "localhost")
			}
			if e.Port == 0 {
				if addr, ok := open.Addr().(*net.TCPAddr); ok {
					e.Port = uint16(addr.Port)
				}
			}
			endpoints = append(endpoints, e)
		}
	}
	return endpoints
}

func serverConfig(b *config.Broker, log *slog.Logger) server.Config {
	c := server.Config{
		RequestBytesMax: b.Int("socket.request.max.bytes"),
		IdleMax:         b.Duration("connections.max.idle.ms"),
		Limits:          connectionLimits(b),
		BudgetBytes:     b.Int64("raftsman.requests.memory.bytes.max"),
		DecodedBytesMax: b.Int64("raftsman.request.decoded.bytes.max"),
		FrameTimeout:    b.Duration("raftsman.frame.timeout.ms"),
		WriteTimeout:    b.Duration("raftsman.write.timeout.ms"),
		Log:             log,
	}
	if b.IsSet("socket.send.buffer.bytes") {
		c.SendBufferBytes = b.Int("socket.send.buffer.bytes")
	}
	if b.IsSet("socket.receive.buffer.bytes") {
		c.ReceiveBufferBytes = b.Int("socket.receive.buffer.bytes")
	}
	return c
}

// limitConnections takes over limits that the metadata sets while the node runs.
func (n *Node) limitConnections(old, now *meta.Image) {
	wereAll, wereOwn := old.BrokerConfig(n.config.NodeID())
	all, own := now.BrokerConfig(n.config.NodeID())
	if !maps.Equal(wereAll, all) || !maps.Equal(wereOwn, own) {
		b := n.config.With(config.Dynamic{Cluster: all, Node: own})
		n.server.SetLimits(connectionLimits(b))
		n.quotas.SetConnectionRates(b)
	}
}

func connectionLimits(b *config.Broker) server.Limits {
	l := server.Limits{
		Connections: b.Int("max.connections"), PerIP: b.Int("max.connections.per.ip"),
		ByIP: map[netip.Addr]int{}, ByListener: map[string]int{},
	}
	for _, listener := range b.Listeners() {
		l.ByListener[listener.Name] = b.ListenerInt(listener.Name, "max.connections")
	}
	if l.Connections == 0 {
		l.Connections = -1 // nobody, until it is changed in the configuration
	}
	l.Connections = min(l.Connections, openConnectionsMax(vfs.OpenFilesMax()))
	if l.PerIP == 0 {
		l.PerIP = -1 // nobody but the overrides
	}
	for _, item := range strings.Split(b.String("max.connections.per.ip.overrides"), ",") {
		colon := strings.LastIndexByte(item, ':') // the last: IPv6 has more
		if colon < 0 {
			continue
		}
		count, err := strconv.Atoi(strings.TrimSpace(item[colon+1:]))
		if err != nil {
			continue
		}
		for _, ip := range addresses(strings.Trim(item[:colon], " []")) {
			l.ByIP[ip] = count
		}
	}
	return l
}

// openSegmentsMax and openConnectionsMax share out the file descriptors of the process, of which there are so many. An eighth is for
// what is open for a moment only: checkpoints, indexes, segments beyond their share that are being read, and directories, without
// which nothing can be flushed. Clients must not be able to take that: more connections wait until others are closed.
func openSegmentsMax(files int) int    { return files / 4 }
func openConnectionsMax(files int) int { return files / 8 * 5 }

// addresses returns those of a host, none if it is not known.
func addresses(host string) []netip.Addr {
	ips, err := net.LookupIP(host)
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, ip := range ips {
		if a, ok := netip.AddrFromSlice(ip); ok {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// newMemberJoinTimeout is Kafka's: a new member's JoinGroup that is parked for longer belongs to a client that is gone.
const newMemberJoinTimeout = 5 * time.Minute

func groupConfig(b *config.Broker) group.Config {
	return group.Config{
		SessionTimeoutMin:     b.Duration("group.min.session.timeout.ms"),
		SessionTimeoutMax:     b.Duration("group.max.session.timeout.ms"),
		InitialRebalanceDelay: b.Duration("group.initial.rebalance.delay.ms"),
		MembersMax:            b.Int("group.max.size"),
		OffsetMetadataMax:     b.Int("offset.metadata.max.bytes"),
		OffsetsRetention:      b.Duration("offsets.retention.minutes"),
		NewMemberJoinTimeout:  newMemberJoinTimeout,

		ConsumersMax: b.Int("group.consumer.max.size"),
		Assignors:    assignors(b),
		RegexRefresh: b.Duration("group.consumer.regex.refresh.interval.ms"),
		Migration:    migrationPolicy(b.String("group.consumer.migration.policy")),
	}
}

// assignors are those of group.consumer.assignors that are known here, by name or by the class in which Kafka has them.
func assignors(b *config.Broker) []string {
	var known []string
	for _, name := range b.List("group.consumer.assignors") {
		switch name {
		case "org.apache.kafka.coordinator.group.assignor.UniformAssignor":
			name = assign.UniformName
		case "org.apache.kafka.coordinator.group.assignor.RangeAssignor":
			name = assign.RangeName
		}
		if _, ok := assign.ByName(name); ok && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	return known
}

func migrationPolicy(policy string) group.MigrationPolicy {
	switch strings.ToLower(policy) {
	case "bidirectional":
		return group.MigrationPolicy{Upgrade: true, Downgrade: true}
	case "upgrade":
		return group.MigrationPolicy{Upgrade: true}
	case "downgrade":
		return group.MigrationPolicy{Downgrade: true}
	}
	return group.MigrationPolicy{}
}

// consumerSettings returns what is set for consumer groups at the moment of an image.
func consumerSettings(b *config.Broker) func(*meta.Image, string) group.ConsumerSettings {
	return func(im *meta.Image, name string) group.ConsumerSettings {
		all, own := im.BrokerConfig(b.NodeID())
		c := b.Consumers(config.Dynamic{Cluster: all, Node: own}, im.Config(meta.Resource{Type: meta.GroupResource, Name: name}))
		return group.ConsumerSettings{
			SessionTimeout: c.SessionTimeout, HeartbeatInterval: c.HeartbeatInterval, AssignmentInterval: c.AssignmentInterval,
			AssignorOffload: c.AssignorOffload,
		}
	}
}
