package brokertest

import (
	"context"
	cryptorand "crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Cluster is a running cluster of a test: several nodes in one process, each a broker and a controller unless [Controllers] says otherwise,
// with real sockets on the loopback and a switch between each pair of them.
type Cluster struct {
	t       testing.TB
	options options
	network *network
	servers []string // controllers, HOST:PORT
	nodes   []*member
}

// member is one node of a cluster, running or not.
type member struct {
	id             int
	client, quorum string // HOST:PORT, empty for what it does not serve
	fs             vfs.FS
	node           *broker.Node // nil while it does not run
}

// startMax bounds how long a node may take to become a working member of the cluster.
const startMax = time.Minute

// StartCluster starts n nodes, with the ids 1 to n, and returns when all of them serve. They are closed when the test ends. With [Dir] each
// node has a folder of its own below it.
func StartCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: newOptions(opts), network: newNetwork()}
	for id := 1; id <= n; id++ {
		port := raw.FreePort(t)
		m := &member{id: id}
		if dedicated := c.options.controllers; dedicated == 0 || id > dedicated {
			m.client = fmt.Sprintf("127.0.0.1:%d", port)
			c.network.name(m.client, id)
		}
		if dedicated := c.options.controllers; dedicated == 0 || id <= dedicated {
			m.quorum = fmt.Sprintf("127.0.0.1:%d", port+1)
			c.network.name(m.quorum, id)
			c.servers = append(c.servers, m.quorum)
		}
		if c.options.dir == "" {
			m.fs = c.options.newDisk()
		}
		c.nodes = append(c.nodes, m)
	}
	t.Cleanup(c.Close)
	c.format()
	c.together(c.nodes, c.start)
	return c
}

// format makes all disks ready, with all controllers as voters: a cluster that was joined by one node after the other would come to that
// too, later.
func (c *Cluster) format() {
	c.t.Helper()
	var initial []broker.InitialController
	random := func(b []byte) { _, _ = cryptorand.Read(b) } // never fails
	for _, m := range c.nodes {
		if m.quorum != "" && !c.options.static {
			at := netip.MustParseAddrPort(m.quorum)
			initial = append(initial, broker.InitialController{
				ID: kafka.NodeID(m.id), Host: at.Addr().String(), Port: at.Port(), Directory: kafka.NewUUID(random),
			})
		}
	}
	id := kafka.NewUUID(random).String()
	for _, m := range c.nodes {
		quorum := broker.Quorum{ClusterID: id}
		if m.quorum != "" {
			quorum.Initial = initial
		}
		if _, err := broker.Format(broker.Config{Properties: c.properties(m), FS: m.fs}, quorum); err != nil {
			c.t.Fatalf("format node %d: %v", m.id, err)
		}
	}
}

// together does something with several nodes at once.
func (c *Cluster) together(nodes []*member, do func(*member) error) {
	c.t.Helper()
	var wg sync.WaitGroup
	failed := make([]error, len(nodes))
	for i, m := range nodes {
		wg.Go(func() { failed[i] = do(m) })
	}
	wg.Wait()
	for i, err := range failed {
		if err != nil {
			c.t.Fatalf("start node %d: %v", nodes[i].id, err)
		}
	}
}

// properties are a node's server.properties.
func (c *Cluster) properties(m *member) map[string]string {
	properties := map[string]string{
		"node.id":                strconv.Itoa(m.id),
		"log.dirs":               "/data",
		"raftsman.config.strict": "true",
	}
	var roles, listeners []string
	if m.client != "" {
		roles, listeners = append(roles, "broker"), append(listeners, "PLAINTEXT://"+m.client)
	}
	if m.quorum != "" {
		roles, listeners = append(roles, "controller"), append(listeners, "CONTROLLER://"+m.quorum)
	}
	properties["process.roles"], properties["listeners"] = strings.Join(roles, ","), strings.Join(listeners, ",")
	if c.options.static {
		var voters []string
		for _, m := range c.nodes {
			if m.quorum != "" {
				voters = append(voters, fmt.Sprintf("%d@%s", m.id, m.quorum))
			}
		}
		properties["controller.quorum.voters"] = strings.Join(voters, ",")
	} else {
		properties["controller.quorum.bootstrap.servers"] = strings.Join(c.servers, ",")
	}
	if c.options.dir != "" {
		properties["log.dirs"] = filepath.Join(c.options.dir, "node"+strconv.Itoa(m.id))
	}
	maps.Copy(properties, c.options.properties)
	return properties
}

// start starts a node that does not run.
func (c *Cluster) start(m *member) error {
	config := broker.Config{Properties: c.properties(m), FS: m.fs, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return c.network.dial(ctx, m.id, address)
	}}
	if c.options.verbose {
		config.Log = slog.New(slog.NewTextHandler(testWriter{c.t}, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", m.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	var err error
	m.node, err = broker.Start(ctx, config)
	return err
}

// Seeds returns the addresses of all brokers for bootstrap.servers.
func (c *Cluster) Seeds() (seeds []string) {
	for _, m := range c.nodes {
		if m.client != "" {
			seeds = append(seeds, m.client)
		}
	}
	return seeds
}

// Controllers returns the addresses of all controllers for controller.quorum.bootstrap.servers.
func (c *Cluster) Controllers() []string { return c.servers }

// Disk returns a node's file system, nil with [Dir], and its log directory there.
func (c *Cluster) Disk(id int) (fs vfs.FS, dir string) {
	m := c.nodes[id-1]
	return m.fs, c.properties(m)["log.dirs"]
}

// Addr returns a node's address for clients.
func (c *Cluster) Addr(id int) string { return c.nodes[id-1].client }

// Node returns a node, nil while it does not run.
func (c *Cluster) Node(id int) *broker.Node { return c.nodes[id-1].node }

// Kill ends a node as kill -9 does: its connections break, and it tells nobody. What it had written is still there for [Cluster.Restart].
func (c *Cluster) Kill(id int) {
	m := c.nodes[id-1]
	if m.node == nil {
		return
	}
	c.network.kill(id)
	m.node.Kill()
	m.node = nil
}

// Stop ends a node in order.
func (c *Cluster) Stop(id int) {
	c.t.Helper()
	if err := c.stop(c.nodes[id-1]); err != nil {
		c.t.Fatalf("stop node %d: %v", id, err)
	}
}

func (c *Cluster) stop(m *member) error {
	if m.node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := m.node.Close(ctx)
	m.node = nil
	return err
}

// Restart starts nodes again that were killed or stopped, at once, and returns when they serve.
func (c *Cluster) Restart(ids ...int) {
	c.t.Helper()
	var again []*member
	for _, id := range ids {
		c.network.revive(id)
		again = append(again, c.nodes[id-1])
	}
	c.together(again, c.start)
}

// Wipe empties the disk of a node that does not run.
func (c *Cluster) Wipe(id int) {
	c.t.Helper()
	m := c.nodes[id-1]
	if m.node != nil {
		c.t.Fatalf("node %d runs: its disk can't be emptied", id)
	}
	if m.fs != nil {
		m.fs = c.options.newDisk()
		return
	}
	if err := os.RemoveAll(filepath.Join(c.options.dir, "node"+strconv.Itoa(id))); err != nil {
		c.t.Fatal(err)
	}
}

// Cut keeps what one node says from another, without a word to either. Clients are not concerned.
func (c *Cluster) Cut(from, to int) { c.network.cut(from, to) }

// Isolate cuts a node off all others, both ways.
func (c *Cluster) Isolate(id int) {
	for _, m := range c.nodes {
		if m.id != id {
			c.Cut(id, m.id)
			c.Cut(m.id, id)
		}
	}
}

// Heal mends all cuts.
func (c *Cluster) Heal() { c.network.heal() }

// Close stops all nodes, at once. It may be called again.
func (c *Cluster) Close() {
	c.network.heal()
	var wg sync.WaitGroup
	for _, m := range c.nodes {
		wg.Go(func() {
			if m.node != nil {
				c.network.kill(m.id)
				m.node.Kill()
				m.node = nil
			}
		})
	}
	wg.Wait()
}
