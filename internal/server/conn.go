package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/wire"
)

const (
	// readAheadBytes is how much is read without knowing what it is: a whole small request, or the beginning of a large one.
	readAheadBytes = 2 << 10
	// firstFrameBytes and trustedBytesMax bound the buffer that is given to a frame before it arrived: the first, and what a
	// connection can earn with frames that it did send.
	firstFrameBytes = 64 << 10
	trustedBytesMax = 8 << 20
	// smallBytes is what is not worth a charge of its own to the budget.
	smallBytes = 64 << 10
	// stackBytes is what handling a small request needs of the stack.
	stackBytes = 9 << 10
)

// conn is one connection. Its reading goroutine runs serve; the fields up to mu belong to it.
type conn struct {
	server *Server
	nc     net.Conn
	peer   wire.Peer

	in       [readAheadBytes]byte // in[inStart:inEnd] is read and not yet used
	inStart  int
	inEnd    int
	trusted  int // how large a buffer a frame gets before its bytes arrive
	clientID *string
	header   wire.Header
	inLine   int16 // the key of the requests that are unanswered, if any
	spare    *slot // for the next request

	output output // belongs to who may write: see order
	writer sync.WaitGroup
	done   chan struct{} // closed with the connection

	// The sweep looks at these.
	reading, writing, parked deadline
	inFrame                  atomic.Bool // the deadline of reading is a frame's; else it is the end of idleness
	draining                 atomic.Bool // nothing more is read

	mu     sync.Mutex // guards what follows
	order  order
	closed bool
}

func newConn(s *Server, nc net.Conn, listener string) *conn {
	s.tune(nc)
	c := &conn{server: s, nc: nc, trusted: firstFrameBytes, done: make(chan struct{})}
	c.peer = wire.Peer{
		Listener: listener, ConnID: s.lastConn.Add(1), Principal: "User:ANONYMOUS",
		Local: addrPort(nc.LocalAddr()), Remote: addrPort(nc.RemoteAddr()),
	}
	c.output.init(c)
	c.order.init(&c.mu)
	return c
}

// serve handles the connection's requests until it ends, and then waits for its writer.
func (c *conn) serve() {
	defer c.server.farewell(c)
	defer c.end()
	defer c.contain(nil)
	growStack(0)
	for c.request() {
	}
}

// growStack makes room on the goroutine's stack for a whole request at once, while there is next to nothing to move. Growing
// when it is needed, deep in the first request, moves it three times. The index is there so that the compiler keeps the room.
//
//go:noinline
func growStack(i uint) byte {
	var room [stackBytes]byte
	room[i%stackBytes]++
	return room[i/2%stackBytes]
}

// end closes the connection and lets go of all that it holds.
func (c *conn) end() {
	c.close()
	c.writer.Wait()
	c.abandonAll()
}

// close ends the connection as soon as possible. Any goroutine may call it, also more than once.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.done)
	_ = c.nc.Close()
	c.order.wakeAll()
}

// drain lets the connection end when what was read is answered: the read that is waiting for more fails at once.
func (c *conn) drain() {
	if c.draining.CompareAndSwap(false, true) {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// sweep closes the connection when it kept the server waiting for too long.
func (c *conn) sweep(now int64) {
	switch {
	case c.writing.passed(now):
		c.server.metrics.ConnectionsSlow.Inc()
		c.server.closedLimit.log(c.server.config.Log, slog.LevelWarn, "closed a connection: its answers are not taken", c.describe()...)
		c.close()
	case c.reading.passed(now):
		switch {
		case c.inFrame.Load():
			c.server.metrics.ConnectionsSlow.Inc()
			c.server.closedLimit.log(c.server.config.Log, slog.LevelWarn, "closed a connection: a request did not arrive in time", c.describe()...)
			c.close()
		case c.busy(): // the answer to a Produce is on its way
			c.server.expire(&c.reading, c.server.config.IdleMax)
		default:
			c.server.metrics.ConnectionsIdle.Inc()
			c.server.config.Log.Debug("closed an idle connection", c.describe()...)
			c.close()
		}
	case c.parked.passed(now):
		if peerGone(c.nc) {
			c.close()
		} else {
			c.server.expire(&c.parked, c.server.config.ParkedCheck)
		}
	}
}

func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.unanswered > 0
}

func (c *conn) describe() []any {
	peer := any(c.peer.Remote)
	if !c.peer.Remote.IsValid() {
		peer = c.nc.RemoteAddr()
	}
	return []any{"peer", peer, "listener", c.peer.Listener}
}

// contain keeps a panic on this connection from ending the process, unless it says that our own state is wrong. The slot is
// the request that was being handled, if any.
func (c *conn) contain(s *slot) {
	reason := recover()
	if reason == nil {
		return
	}
	if _, ours := reason.(invariant.Violation); ours {
		panic(reason)
	}
	c.server.metrics.Panics.Inc()
	args := append(c.describe(), "panic", reason, "stack", string(debug.Stack()))
	if s != nil {
		args = append(args, "api", wire.KeyName(s.req.Key), "version", s.req.Version)
	}
	c.server.config.Log.Error("closed a connection: its request caused a panic", args...)
	c.close()
}

// request reads and handles one request. It returns false when the connection ends.
func (c *conn) request() bool {
	s := c.takeSlot()
	c.awaitUnmuted()
	err := errEnding
	if !c.draining.Load() {
		err = c.readFrame(s)
	}
	if err != nil {
		s.dropFrame()
		c.readFailed(err)
		return false
	}
	if !c.accept(s) {
		s.dropFrame()
		return false
	}
	return c.handle(s)
}

// awaitUnmuted waits while the client has to because of its quotas. Answers go out meanwhile.
func (c *conn) awaitUnmuted() {
	rest := c.peer.Muted()
	if rest <= 0 {
		return
	}
	c.server.expire(&c.parked, c.server.config.ParkedCheck)
	defer c.parked.clear()
	for ; rest > 0; rest = c.peer.Muted() {
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
			continue
		case <-c.done:
		case <-c.server.stopping:
			c.drain()
		}
		timer.Stop()
		return
	}
}

var (
	errLength = errors.New("frame length is not allowed")
	errEnding = errors.New("connection is ending")
)

// readFrame reads the next frame into the slot's buffer.
func (c *conn) readFrame(s *slot) error {
	if c.inEnd == c.inStart {
		c.setReading(false, c.server.config.IdleMax)
	}
	if err := c.fill(1); err != nil {
		return err
	}
	c.setReading(true, c.server.config.FrameTimeout)
	if err := c.fill(4); err != nil {
		return cutShort(err)
	}
	length := int(int32(binary.BigEndian.Uint32(c.in[c.inStart:])))
	if length <= 0 || length > c.server.config.RequestBytesMax {
		return errLength
	}
	if err := c.fill(min(4+2, 4+length)); err != nil { // the key, which says what budget the frame belongs to
		return cutShort(err)
	}
	c.inStart += 4
	s.lease.budget = c.server.otherBudget
	if c.inEnd-c.inStart >= 2 && c.server.handler.Carries(int16(binary.BigEndian.Uint16(c.in[c.inStart:]))) {
		s.lease.budget = c.server.produceBudget
	}
	if err := c.growFrame(s, min(length, c.trusted)); err != nil {
		return err
	}
	if length > smallBytes {
		c.setReading(true, c.server.config.FrameTimeout+time.Duration(length/smallBytes)*time.Second)
	}
	if err := c.readBody(s, length); err != nil {
		return err
	}
	c.reading.clear()
	c.trusted = max(c.trusted, min(length, trustedBytesMax))
	s.req.Received = time.Now()
	c.server.metrics.BytesIn.Add(int64(4 + length))
	return nil
}

func (c *conn) setReading(inFrame bool, after time.Duration) {
	c.inFrame.Store(inFrame)
	c.server.expire(&c.reading, after)
}

// readBody reads until the frame has length bytes, giving it a larger buffer only when the one that it has is full.
func (c *conn) readBody(s *slot, length int) error {
	n := copy(s.frame.Room(), c.in[c.inStart:min(c.inEnd, c.inStart+length)])
	s.frame.Extend(n)
	c.inStart += n
	for {
		have := len(s.frame.Bytes())
		if have == length {
			return nil
		}
		if have == s.frame.Cap() {
			if err := c.growFrame(s, min(length, 2*have)); err != nil {
				return err
			}
		}
		room := s.frame.Room()
		n, err := c.nc.Read(room[:min(len(room), length-have)])
		s.frame.Extend(n)
		if err != nil {
			return cutShort(err)
		}
	}
}

// growFrame gives the slot a buffer of at least n bytes, with the content of the one before. It waits for the budget; the
// client is not to blame for that time.
func (c *conn) growFrame(s *slot, n int) error {
	frame := wire.NewFrame(n)
	more := int64(frame.Cap())
	if s.frame != nil {
		more -= int64(s.frame.Cap())
	}
	at := c.reading.at.Load()
	c.reading.clear()
	if !s.lease.take(more, c.done) {
		frame.Release()
		return errEnding
	}
	c.reading.at.Store(max(at, c.server.now.Load()+1))
	if s.frame != nil {
		frame.Extend(copy(frame.Room(), s.frame.Bytes()))
		s.frame.Release()
	}
	s.frame = frame
	return nil
}

// fill reads until at least n bytes, few, are there.
func (c *conn) fill(n int) error {
	if c.inStart == c.inEnd {
		c.inStart, c.inEnd = 0, 0
	}
	if c.inStart+n > len(c.in) {
		c.inEnd = copy(c.in[:], c.in[c.inStart:c.inEnd])
		c.inStart = 0
	}
	for c.inEnd-c.inStart < n {
		got, err := c.nc.Read(c.in[c.inEnd:])
		c.inEnd += got
		if err != nil && c.inEnd-c.inStart < n {
			return err
		}
	}
	return nil
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readFailed ends the reading. Answers that are on their way are still sent when the client, or Shutdown, ended it between
// two requests.
func (c *conn) readFailed(err error) {
	c.reading.clear()
	switch {
	case c.draining.Load() || errors.Is(err, io.EOF):
		c.server.expire(&c.parked, c.server.config.WriteTimeout)
		c.mu.Lock()
		c.order.awaitBelow(1, &c.closed)
		c.mu.Unlock()
	case errors.Is(err, errLength):
		c.server.metrics.Oversized.Inc()
		front := c.in[c.inStart:c.inEnd]
		c.server.closedLimit.log(c.server.config.Log, slog.LevelWarn, "closed a connection: "+whatItLooksLike(front),
			append(c.describe(), "length", int32(binary.BigEndian.Uint32(front)), "max", c.server.config.RequestBytesMax)...)
	default:
		c.server.config.Log.Debug("connection ended", append(c.describe(), "error", err)...)
	}
}

// accept judges the request in the slot's frame before anything of it is decoded.
func (c *conn) accept(s *slot) bool {
	err := wire.ParseHeader(s.frame.Bytes(), &c.header)
	if h := &c.header; h.Key >= 0 && !c.server.handler.Serves(h.Key, h.Version) {
		c.server.metrics.Unsupported.Inc()
		c.server.closedLimit.log(c.server.config.Log, slog.LevelWarn, "closed a connection: its request is of a version that is not served",
			append(c.describe(), "api", wire.KeyName(h.Key), "key", h.Key, "version", h.Version, "client.id", string(h.ClientID))...)
		return false
	}
	cost := int64(0)
	if err == nil {
		cost, err = wire.Measure(c.header.Key, c.header.Version, c.header.Body, c.server.config.DecodedBytesMax)
	}
	if err != nil {
		c.server.metrics.Malformed.Inc()
		c.server.closedLimit.log(c.server.config.Log, slog.LevelWarn, "closed a connection: its request can't be read",
			append(c.describe(), "error", err, "client.id", string(c.header.ClientID))...)
		return false
	}
	if cost > smallBytes && !s.lease.take(cost, c.done) {
		return false
	}
	s.fill(&c.header)
	return true
}

// clientIDString returns the client id as a string that is the same from request to request.
func (c *conn) clientIDString(b []byte) *string {
	if b == nil {
		return nil
	}
	if c.clientID == nil || *c.clientID != string(b) {
		c.clientID = new(string(b))
	}
	return c.clientID
}

// whatItLooksLike names the likely mistake behind a length that is not allowed.
func whatItLooksLike(front []byte) string {
	switch string(front[:4]) {
	case "GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "TRAC", "PRI ":
		return "it sent an HTTP request, but this is a port for Kafka clients"
	}
	if front[0] == 0x16 && front[1] == 3 && front[2] <= 4 {
		return "it began a TLS handshake, but this listener is not encrypted: set the client's security.protocol accordingly"
	}
	return fmt.Sprintf("its request claims a length that is not allowed (%d bytes seen: % x)", len(front), front[:min(len(front), 16)])
}
