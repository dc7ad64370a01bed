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

// Cluster is a running cluster of a test: several nodes in one process, each a broker and a controller, with real sockets on the loopback
// and a switch between each pair of them.
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
	client, quorum string // HOST:PORT
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
		m := &member{id: id, client: fmt.Sprintf("127.0.0.1:%d", port), quorum: fmt.Sprintf("127.0.0.1:%d", port+1)}
		c.network.name(m.client, id)
		c.network.name(m.quorum, id)
		if c.options.dir == "" {
			m.fs = vfs.NewMemory()
		}
		c.nodes, c.servers = append(c.nodes, m), append(c.servers, m.quorum)
	}
	t.Cleanup(c.Close)
	c.format()
	c.together(c.start)
	return c
}

// format makes all disks ready, with all nodes as voters: a cluster that was joined by one node after the other would come to that too, later.
func (c *Cluster) format() {
	c.t.Helper()
	var quorum broker.Quorum
	random := func(b []byte) { _, _ = cryptorand.Read(b) } // never fails
	for _, m := range c.nodes {
		at := netip.MustParseAddrPort(m.quorum)
		quorum.Initial = append(quorum.Initial, broker.InitialController{
			ID: kafka.NodeID(m.id), Host: at.Addr().String(), Port: at.Port(), Directory: kafka.NewUUID(random),
		})
	}
	quorum.ClusterID = kafka.NewUUID(random).String()
	for _, m := range c.nodes {
		if _, err := broker.Format(broker.Config{Properties: c.properties(m), FS: m.fs}, quorum); err != nil {
			c.t.Fatalf("format node %d: %v", m.id, err)
		}
	}
}

// together does something with all nodes at once.
func (c *Cluster) together(do func(*member) error) {
	c.t.Helper()
	var wg sync.WaitGroup
	failed := make([]error, len(c.nodes))
	for i, m := range c.nodes {
		wg.Go(func() { failed[i] = do(m) })
	}
	wg.Wait()
	for i, err := range failed {
		if err != nil {
			c.t.Fatalf("node %d: %v", i+1, err)
		}
	}
}

// properties are a node's server.properties.
func (c *Cluster) properties(m *member) map[string]string {
	properties := map[string]string{
		"node.id":                             strconv.Itoa(m.id),
		"listeners":                           "PLAINTEXT://" + m.client + ",CONTROLLER://" + m.quorum,
		"controller.quorum.bootstrap.servers": strings.Join(c.servers, ","),
		"log.dirs":                            "data",
		"raftsman.config.strict":              "true",
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

// Seeds returns the addresses of all nodes for bootstrap.servers.
func (c *Cluster) Seeds() (seeds []string) {
	for _, m := range c.nodes {
		seeds = append(seeds, m.client)
	}
	return seeds
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

// Restart starts a node again that was killed or stopped, and returns when it serves.
func (c *Cluster) Restart(id int) {
	c.t.Helper()
	c.network.revive(id)
	if err := c.start(c.nodes[id-1]); err != nil {
		c.t.Fatalf("start node %d again: %v", id, err)
	}
}

// Wipe empties the disk of a node that does not run.
func (c *Cluster) Wipe(id int) {
	c.t.Helper()
	m := c.nodes[id-1]
	if m.node != nil {
		c.t.Fatalf("node %d runs: its disk can't be emptied", id)
	}
	if m.fs != nil {
		m.fs = vfs.NewMemory()
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
