// Package brokertest starts brokers inside a test's process: a real node with real sockets on the loopback, in milliseconds.
//
//	func TestMine(t *testing.T) {
//		b := brokertest.Start(t)
//		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
//		…
//	}
//
// The data is in memory unless the test asks for a directory, and the broker is closed when the test ends.
package brokertest

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Option changes how a broker is started.
type Option func(*options)

type options struct {
	properties map[string]string
	dir        string
	verbose    bool

	// Of a cluster.
	controllers int // that are nothing else; 0: all nodes are both
	static      bool
	newDisk     func() vfs.FS
}

func newOptions(opts []Option) options {
	o := options{properties: map[string]string{}, newDisk: func() vfs.FS { return vfs.NewMemory() }}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Dir keeps the data in a directory, so that another Start finds it again. Its path has no comma: log.dirs, which it becomes,
// separates paths with commas.
func Dir(path string) Option { return func(o *options) { o.dir = path } }

// Property sets a key of server.properties. One that does not exist fails the test.
func Property(name, value string) Option {
	return func(o *options) { o.properties[name] = value }
}

// Verbose writes the broker's log into the test's log.
func Verbose() Option { return func(o *options) { o.verbose = true } }

// Controllers makes the first n nodes of a cluster controllers and nothing else, and the rest brokers and nothing else.
func Controllers(n int) Option { return func(o *options) { o.controllers = n } }

// StaticVoters names a cluster's controllers by controller.quorum.voters, and not in their log.
func StaticVoters() Option { return func(o *options) { o.static = true } }

// Disks gives each node of a cluster a disk of its own, and a new one when it is wiped. Without it they are in memory.
func Disks(newDisk func() vfs.FS) Option { return func(o *options) { o.newDisk = newDisk } }

// Broker is a running broker of a test.
type Broker struct {
	t      testing.TB
	node   *broker.Node
	closed bool
}

// Start starts a broker and closes it when the test ends. It fails the test if the broker does not start.
func Start(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	o := newOptions(opts)
	if strings.Contains(o.dir, ",") {
		t.Fatalf("brokertest.Dir(%q): a path with a comma can't be a log directory, as log.dirs separates paths with commas", o.dir)
	}
	// Strict: nobody reads the warning that a misspelt key gets.
	c := broker.Config{Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "raftsman.config.strict": "true"}, Memory: o.dir == ""}
	maps.Copy(c.Properties, o.properties)
	if o.dir == "" {
		c.Properties["log.dirs"] = "data"
	} else {
		c.Properties["log.dirs"] = o.dir
	}
	if o.verbose {
		c.Log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	node, err := broker.Start(ctx, c)
	if err != nil {
		t.Fatalf("start a broker: %v", err)
	}
	b := &Broker{t: t, node: node}
	t.Cleanup(b.Close)
	return b
}

// Addr returns the address for bootstrap.servers.
func (b *Broker) Addr() string { return b.node.Addrs()[0].String() }

// Node returns the node itself.
func (b *Broker) Node() *broker.Node { return b.node }

// Close stops the broker in order. It may be called again.
func (b *Broker) Close() {
	if b.closed {
		return
	}
	b.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.node.Close(ctx); err != nil {
		b.t.Errorf("close the broker: %v", err)
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("broker: %s", p)
	return len(p), nil
}
