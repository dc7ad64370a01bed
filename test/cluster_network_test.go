package test

import (
	bigendian "encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// clusterNetwork is what lies between the nodes of a cluster: a door in front of each listener that other nodes connect to, and a switch
// for each way from one node to another. Where a way is cut nothing passes, not even the end of a connection, and nobody is told.
type clusterNetwork struct {
	running sync.WaitGroup

	mu     sync.Mutex // guards the rest
	cuts   map[way]bool
	turned chan struct{} // closed and made anew when cuts change
	doors  []*door
	open   map[net.Conn]bool
	closed bool
	passed map[way]int64 // bytes
}

// way leads from one node to another.
type way struct{ from, to int32 }

// door is the address of a node's listener that other nodes know.
type door struct {
	network      *clusterNetwork
	node         int32
	addr, target string
	listener     net.Listener // nil while it is shut
}

func newClusterNetwork(t testing.TB) *clusterNetwork {
	n := &clusterNetwork{cuts: map[way]bool{}, turned: make(chan struct{}), open: map[net.Conn]bool{}, passed: map[way]int64{}}
	t.Cleanup(n.close)
	return n
}

// door opens one before a listener of a node, and returns its address.
func (n *clusterNetwork) door(t testing.TB, node int32, target string) string {
	t.Helper()
	d := &door{network: n, node: node, addr: fmt.Sprintf("127.0.0.1:%d", freePort(t)), target: target}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.doors = append(n.doors, d)
	return d.addr
}

// shut has connections to a node refused, as the system does when the node is not there.
func (n *clusterNetwork) shut(node int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.doors {
		if d.node == node && d.listener != nil {
			_ = d.listener.Close()
			d.listener = nil
		}
	}
}

// admit ends shut, which is how doors begin.
func (n *clusterNetwork) admit(t testing.TB, node int32) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.doors {
		if d.node != node || d.listener != nil {
			continue
		}
		listener, err := net.Listen("tcp", d.addr)
		if err != nil {
			t.Fatalf("listen before node %d: %v", node, err)
		}
		d.listener = listener
		n.running.Go(func() { d.accept(listener) })
	}
}

func (n *clusterNetwork) turn(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.turned)
	n.turned = make(chan struct{})
}

func (n *clusterNetwork) cut(from, to int32) { n.turn(func() { n.cuts[way{from, to}] = true }) }
func (n *clusterNetwork) heal()              { n.turn(func() { clear(n.cuts) }) }

func (n *clusterNetwork) close() {
	n.turn(func() {
		n.closed = true
		for _, d := range n.doors {
			if d.listener != nil {
				_ = d.listener.Close()
			}
		}
		for c := range n.open {
			_ = c.Close()
		}
	})
	n.running.Wait()
}

// keep registers a connection, or closes it when it comes too late.
func (n *clusterNetwork) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.Close()
		return false
	}
	n.open[c] = true
	return true
}

// reset ends a connection as the system of a process that was killed does.
func (n *clusterNetwork) reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
}

// pass waits until the way is open, and returns false when the network is closed before.
func (n *clusterNetwork) pass(w way, bytes int) bool {
	for {
		n.mu.Lock()
		cut, closed, turned := n.cuts[w], n.closed, n.turned
		if !cut {
			n.passed[w] += int64(bytes)
		}
		n.mu.Unlock()
		switch {
		case closed:
			return false
		case !cut:
			return true
		}
		<-turned
	}
}

func (d *door) accept(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		if d.network.keep(c) {
			d.network.running.Go(func() { d.serve(c) })
		}
	}
}

// serve passes on what comes. The first request says whose connection it is: nodes have client ids of their own.
func (d *door) serve(from net.Conn) {
	defer d.network.reset(from)
	to, err := net.Dial("tcp", d.target)
	if err != nil || !d.network.keep(to) {
		return
	}
	defer d.network.reset(to)
	first, node := firstRequest(from)
	there, back := way{node, d.node}, way{d.node, node}
	if !d.network.pass(there, len(first)) {
		return
	}
	if _, err := to.Write(first); err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() { d.network.pump(to, from, back) })
	d.network.pump(from, to, there)
	answers.Wait()
}

// pump passes on bytes of one way until it ends, and then ends the connection at the other side.
func (n *clusterNetwork) pump(from, to net.Conn, w way) {
	buffer := make([]byte, 64<<10)
	for {
		size, err := from.Read(buffer)
		if !n.pass(w, size) {
			return
		}
		if size > 0 {
			if _, err := to.Write(buffer[:size]); err != nil {
				n.reset(from)
				return
			}
		}
		if err != nil {
			n.reset(to)
			return
		}
	}
}

// firstRequest reads the first request of a connection, and tells which node has sent it: 0 for none.
func firstRequest(c net.Conn) (frame []byte, node int32) {
	frame = make([]byte, 4)
	if size, err := io.ReadFull(c, frame); err != nil {
		return frame[:size], 0
	}
	const sizeMax = 1 << 20
	size := bigendian.BigEndian.Uint32(frame)
	if size > sizeMax {
		return frame, 0
	}
	frame = append(frame, make([]byte, size)...)
	if size, err := io.ReadFull(c, frame[4:]); err != nil {
		return frame[:4+size], 0
	}
	const clientID = 12 // where its length stands, two bytes
	if len(frame) < clientID+2 {
		return frame, 0
	}
	length := int(bigendian.BigEndian.Uint16(frame[clientID:]))
	if len(frame) < clientID+2+length {
		return frame, 0
	}
	name, is := strings.CutPrefix(string(frame[clientID+2:clientID+2+length]), "raftsman-")
	if id, err := strconv.Atoi(name); is && err == nil {
		return frame, int32(id)
	}
	return frame, 0
}
