// Package proxy stands between clients and a broker and does to their requests what a network may: it delays them, loses them or
// their answers, and delivers them twice, the second time late and on another connection.
package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what happens to a request.
type Fault int

// The faults.
const (
	None        Fault = iota
	Delay             // it reaches the broker later, as do those behind it
	DropRequest       // it never reaches the broker, and the connection ends
	DropAnswer        // it reaches the broker, and the connection ends when the answer comes
	Duplicate         // it is answered, and later reaches the broker again, on a connection of its own
	Repeat            // it reaches the broker again, on a connection of its own, before the client sees the answer
	Late              // the connection ends, and later it reaches the broker on another one, when the client has sent it again
)

func (f Fault) String() string {
	return [...]string{"none", "delay", "drop request", "drop answer", "duplicate", "repeat", "late"}[f]
}

// Request is what the proxy knows of a request.
type Request struct {
	Key, Version  int16
	Transactional bool // it is of a transaction; of Produce, that it has a transactional id
}

// Choice is a fault, and for how long it delays what is late.
type Choice struct {
	Fault Fault
	After time.Duration
}

// Count is how often a fault befell requests of a key.
type Count struct {
	Key   int16
	Fault Fault
}

const (
	frameMax    = 100 << 20 // bytes of a request or an answer
	dialTimeout = 10 * time.Second
)

// Proxy is a listener and its connections. Close ends them all.
type Proxy struct {
	address string
	target  string
	choose  func(Request) Choice
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex // guards the rest, and calls of choose
	listener net.Listener
	faults   bool
	counts   map[Count]int
	open     map[net.Conn]bool
}

// Start listens on an address and forwards to the target. It asks choose, one request at a time, what is to happen to each request
// of a transaction, once Faults has turned faults on.
func Start(address, target string, choose func(Request) Choice) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for clients: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		address: listener.Addr().String(), target: target, choose: choose, ctx: ctx, cancel: cancel,
		listener: listener, counts: map[Count]int{}, open: map[net.Conn]bool{},
	}
	p.running.Go(func() { p.accept(listener) })
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.address }

// Refuse has new connections refused, as the system does when the broker is not there. Those that are open stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
}

// Accept ends Refuse.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("listen for clients again: %w", err)
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

// Faults turns faults on or off. Off, the proxy passes everything on as it comes.
func (p *Proxy) Faults(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = on
}

// Counts tells what has happened.
func (p *Proxy) Counts() map[Count]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Close ends the listener and all connections, forgets what is late, and waits.
func (p *Proxy) Close() {
	p.cancel()
	p.mu.Lock()
	_ = p.listener.Close()
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// keep registers a connection, or closes it when the proxy is closed.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		_ = c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		if p.keep(client) {
			p.running.Go(func() { p.serve(client) })
		}
	}
}

func (p *Proxy) dial() (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	broker, err := dialer.DialContext(p.ctx, "tcp", p.target)
	if err == nil && !p.keep(broker) {
		err = net.ErrClosed
	}
	return broker, err
}

// serve forwards one connection until either side ends it, or a fault does. The client sees the end when the broker is through with all that
// has reached it: what the client then sends again comes after it.
func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	broker, err := p.dial()
	if err != nil {
		return
	}
	defer p.drop(broker)
	c := &connection{p: p, client: client, broker: broker, requests: bufio.NewReader(client), ended: make(chan struct{}), answers: map[int32]answer{}}
	var answers sync.WaitGroup
	answers.Go(c.passAnswers)
	c.passRequests()
	c.lose()
	answers.Wait()
}

// connection is one client connection and the one to the broker for it.
type connection struct {
	p              *Proxy
	client, broker net.Conn
	requests       *bufio.Reader // of client
	ended          chan struct{} // closed with client by who passes answers
	lost           atomic.Bool   // what the broker still answers is lost
	mu             sync.Mutex    // guards answers
	answers        map[int32]answer
}

// lose sends the broker nothing more, and the client none of its answers. It may take a while to end the connection, but not for ever.
func (c *connection) lose() {
	c.lost.Store(true)
	_ = c.broker.SetReadDeadline(time.Now().Add(dialTimeout))
	if half, ok := c.broker.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}

// answer is what is to happen when the answer to a request comes.
type answer struct {
	fault   Fault
	request []byte
}

func (c *connection) passRequests() {
	for {
		frame, err := readFrame(c.requests)
		if err != nil {
			return
		}
		choice := c.p.decide(frame)
		switch choice.Fault {
		case Delay:
			if !c.lasts(choice.After) {
				return
			}
		case DropRequest:
			return
		case Late:
			c.p.sendAfter(choice.After, frame)
			return
		case DropAnswer, Repeat:
			c.mu.Lock()
			c.answers[correlation(frame, 8)] = answer{choice.Fault, frame}
			c.mu.Unlock()
		case None, Duplicate:
		}
		if _, err := c.broker.Write(frame); err != nil {
			return
		}
		if choice.Fault == Duplicate {
			c.p.sendAfter(choice.After, frame)
		}
	}
}

// lasts waits, and tells whether the connection is still there then: what is delayed does not reach the broker after the client has
// seen the connection end and may have sent it again. That is what Late is for, which spares what can't bear it.
func (c *connection) lasts(d time.Duration) bool {
	more := make(chan error, 1)
	go func() {
		_, err := c.requests.Peek(1)
		more <- err
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	var read, there bool
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-more:
			read, more = true, nil
			waiting = err == nil
		case <-timer.C:
			there, waiting = true, false
		case <-c.ended:
			waiting = false
		case <-c.p.ctx.Done():
			waiting = false
		}
	}
	if !read {
		_ = c.client.SetReadDeadline(time.Unix(0, 1))
		err = <-more
		_ = c.client.SetReadDeadline(time.Time{})
	}
	return there && (err == nil || errors.Is(err, os.ErrDeadlineExceeded))
}

func (c *connection) passAnswers() {
	defer func() { // which ends passRequests too
		close(c.ended)
		_ = c.client.Close()
	}()
	for {
		frame, err := readFrame(c.broker)
		if err != nil {
			return
		}
		c.mu.Lock()
		of := c.answers[correlation(frame, 4)]
		delete(c.answers, correlation(frame, 4))
		c.mu.Unlock()
		switch of.fault {
		case DropAnswer:
			c.lose()
		case Repeat:
			c.p.send(of.request)
		default:
		}
		if c.lost.Load() {
			continue
		}
		if _, err := c.client.Write(frame); err != nil {
			c.lose()
		}
	}
}

// decide asks what is to happen to a request, and counts it.
func (p *Proxy) decide(frame []byte) Choice {
	request := parse(frame)
	if !request.Transactional {
		return Choice{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.faults {
		return Choice{}
	}
	choice := p.choose(request)
	p.counts[Count{request.Key, choice.Fault}]++
	return choice
}

// wait returns false when the proxy is closed before.
func (p *Proxy) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

func (p *Proxy) sendAfter(d time.Duration, frame []byte) {
	p.running.Go(func() {
		if p.wait(d) {
			p.send(frame)
		}
	})
}

// send sends a request on a connection of its own and waits for the answer, which nobody sees. A broker that is not there is not
// sent anything: the network has lost it.
func (p *Proxy) send(frame []byte) {
	broker, err := p.dial()
	if err != nil {
		return
	}
	defer p.drop(broker)
	if err := broker.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return
	}
	if _, err := broker.Write(frame); err == nil {
		_, _ = readFrame(broker)
	}
}

// readFrame reads a request or an answer with its length in front.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	frame := make([]byte, 4+size)
	copy(frame, head[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return frame, nil
}

// correlation is the correlation id of a frame, which stands at 8 of a request and at 4 of an answer. A frame without one has 0.
func correlation(frame []byte, at int) int32 {
	if len(frame) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(frame[at:]))
}

// The kinds of requests that make up transactions.
const (
	Produce         = 0
	FindCoordinator = 10
	InitProducerID  = 22
	AddPartitions   = 24
	AddOffsets      = 25
	EndTxn          = 26
	TxnOffsetCommit = 28
)

// Kinds are their keys.
func Kinds() []int16 {
	return []int16{Produce, FindCoordinator, InitProducerID, AddPartitions, AddOffsets, EndTxn, TxnOffsetCommit}
}

// parse reads the header of a request; of what is no request nothing is known, and nothing befalls it.
func parse(frame []byte) (r Request) {
	const clientID = 12 // bytes before its length
	if len(frame) < clientID+2 {
		return Request{Key: -1}
	}
	r.Key, r.Version = int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
	r.Transactional = slices.Contains(Kinds(), r.Key)
	if r.Key != Produce || r.Version < 3 {
		return r
	}
	body := clientID + 2 + max(0, int(int16(binary.BigEndian.Uint16(frame[clientID:]))))
	switch {
	case r.Version >= 9: // no tags in the header, then a compact string
		r.Transactional = len(frame) > body+1 && frame[body] == 0 && frame[body+1] > 1
	default:
		r.Transactional = len(frame) > body+1 && int16(binary.BigEndian.Uint16(frame[body:])) > 0
	}
	return r
}

// Describe lists counts for people: a line for each kind of request.
func Describe(counts map[Count]int, name func(int16) string) string {
	var b strings.Builder
	for _, key := range Kinds() {
		fmt.Fprintf(&b, "%s:", name(key))
		for fault := None; fault <= Late; fault++ {
			if n := counts[Count{key, fault}]; n > 0 {
				fmt.Fprintf(&b, " %s %d", fault, n)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
