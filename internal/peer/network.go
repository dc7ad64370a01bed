package peer

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Network has the clients of a node: one for each address and line. All methods are safe for concurrent use.
type Network struct {
	o Options

	mu      sync.Mutex // guards what follows
	clients map[line]*Client
	closed  bool
}

// line names one of several connections to an address.
type line struct {
	address string
	number  int
}

// The lines beside those of fetchers, which count from 0. What may wait long at the other node has a line of its own.
const (
	callLine       = -1 // short calls between brokers
	markerLine     = -9 // WriteTxnMarkers, which waits until the markers are committed
	raftLine       = -2 // short calls between controllers
	raftFetchLine  = -3 // the metadata log's fetch
	raftVoterLine  = -4 // AddRaftVoter and the like, which wait until the voters have changed
	heartbeatLine  = -5 // a broker's registration and heartbeats: their connection tells the controller that the broker lives
	controllerLine = -6 // what else a broker asks the active controller
	forwardLine    = -7 // Envelope
	dirsLine       = -8 // AssignReplicasToDirs: large, and not urgent
)

// NewNetwork returns a node's connections. None is made before it is needed.
func NewNetwork(o Options) *Network {
	return &Network{o: o.withDefaults(), clients: map[line]*Client{}}
}

// Close ends all connections and the calls on them, and waits for the goroutines.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	clients := n.clients
	n.clients = nil
	n.mu.Unlock()
	for _, c := range clients {
		c.Close()
	}
}

// client returns the one client of a line. After Close it is one that is closed.
func (n *Network) client(address string, number int) *Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := line{address, number}
	c, ok := n.clients[at]
	if ok {
		return c
	}
	c = NewClient(address, n.o)
	if n.closed {
		c.Close()
		return c
	}
	n.clients[at] = c
	return c
}

// asVersion is a request that knows what to say only when it knows in which version.
type asVersion struct {
	kmsg.Request
	fill func(version int16)
}

// SetVersion also fills the request.
func (r asVersion) SetVersion(version int16) {
	r.Request.SetVersion(version)
	r.fill(version)
}
