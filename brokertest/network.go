package brokertest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// network is what lies between the nodes of a cluster: real connections, whose bytes stop where the switch is open. A connection belongs to
// who has dialled it, and so all of the switch is at that end.
type network struct {
	mu     sync.Mutex // guards what follows
	owners map[string]int
	cuts   map[[2]int]bool // from, to
	dead   map[int]bool
	links  map[*link]struct{}
	turned chan struct{} // closed and made anew when a cut is made or mended
}

func newNetwork() *network {
	return &network{
		owners: map[string]int{}, cuts: map[[2]int]bool{}, dead: map[int]bool{}, links: map[*link]struct{}{}, turned: make(chan struct{}),
	}
}

// name says whose an address is.
func (n *network) name(address string, node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners[address] = node
}

// passes returns whether bytes go from one node to another, and what is closed when that may change.
func (n *network) passes(from, to int) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cuts[[2]int{from, to}], n.turned
}

func (n *network) turn(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.turned)
	n.turned = make(chan struct{})
}

func (n *network) cut(from, to int) { n.turn(func() { n.cuts[[2]int{from, to}] = true }) }
func (n *network) heal()            { n.turn(func() { clear(n.cuts) }) }
func (n *network) revive(node int)  { n.turn(func() { delete(n.dead, node) }) }

// kill breaks all connections of a node and refuses new ones.
func (n *network) kill(node int) {
	n.turn(func() {
		n.dead[node] = true
		for l := range n.links {
			if l.from == node || l.to == node {
				_ = l.Conn.Close()
			}
		}
	})
}

// dial connects a node to an address. While the way is cut it takes as long as ctx allows.
func (n *network) dial(ctx context.Context, from int, address string) (net.Conn, error) {
	n.mu.Lock()
	to := n.owners[address]
	n.mu.Unlock()
	for {
		there, turned := n.passes(from, to)
		back, _ := n.passes(to, from)
		if there && back {
			break
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, network: n, from: from, to: to, closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead[from] {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if n.dead[to] {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	n.links[l] = struct{}{}
	return l, nil
}

// link is a connection as its dialler has it.
type link struct {
	net.Conn
	network  *network
	from, to int

	once     sync.Once // guards closing
	closed   chan struct{}
	mu       sync.Mutex // guards the deadline
	deadline time.Time  // of writing
}

// Read returns nothing while the way back is cut.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if waited := l.wait(l.to, l.from, time.Time{}); waited != nil {
		return 0, waited
	}
	return n, err
}

// Write waits while the way there is cut.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	deadline := l.deadline
	l.mu.Unlock()
	if err := l.wait(l.from, l.to, deadline); err != nil {
		return 0, err
	}
	return l.Conn.Write(p)
}

// SetWriteDeadline also bounds the wait of Write.
func (l *link) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	l.deadline = t
	l.mu.Unlock()
	return l.Conn.SetWriteDeadline(t)
}

// wait returns when bytes pass, or an error when the connection is closed or the time is over.
func (l *link) wait(from, to int, until time.Time) error {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	for {
		ok, turned := l.network.passes(from, to)
		if ok {
			return nil
		}
		select {
		case <-turned:
		case <-l.closed:
			return net.ErrClosed
		case <-late:
			return os.ErrDeadlineExceeded
		}
	}
}

// Close ends the connection, also the waiting in it.
func (l *link) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		delete(l.network.links, l)
		l.network.mu.Unlock()
	})
	return l.Conn.Close()
}
