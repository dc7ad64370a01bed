// Package server owns the sockets: it accepts, reads frames, hands each request to a [Handler], and writes the answers.
//
// # The connection
//
// One goroutine per connection reads. It takes a frame's length, judges it before it allocates anything, reads the body into a
// pooled buffer that grows with the bytes that really arrive, parses the header, lets [wire.Measure] judge the body, and calls
// the handler. An answer that is there when the handler returns is written at once by the same goroutine. Any other request
// than Produce starts only when everything before it on the connection was answered, and holds the connection until it is
// answered itself, as in Kafka. Only Produce overlaps: its records are appended when the handler returns, in order, the frame
// goes back to the pool, and the next request is read while the answer waits for the disk; a second goroutine, started when
// the first such answer is late, writes those in request order. At most 64 requests of a connection are unanswered.
//
// # Limits
//
// Frames, connections (in all and by address), the time between requests and the time that a frame or an answer may take are
// bounded by [Config]; so are the bytes in flight: all frames and large answers together share a budget, and who finds it used
// up does not read its socket until there is room. Produce has most of it and everything else a part of its own, so that
// producers that wait for replication cannot keep the replicas from fetching. Deadlines are kept by one goroutine that looks
// at all connections about once a second: arming a timer for each request would cost more than the request's bookkeeping.
//
// A connection is closed, with a line in the log that is not repeated without end, on a length that is not allowed, a request
// that does not fit its schema or would take too much memory decoded, a key or version that is not served, and a panic in the
// handler. An [invariant.Violation] is not contained: it ends the process before harm is done to stored data.
package server

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/wire"
)

// Handler answers requests.
type Handler interface {
	// Serves tells whether a request of that version can be handled; any other closes the connection. It must be true for
	// ApiVersions at every version.
	Serves(key, version int16) bool
	// Carries tells whether a request of that key carries records: such requests have a budget of their own, so that they can't keep
	// the others out.
	Carries(key int16) bool
	// Overlaps tells whether the next request, if it is of the same key, may be handled before this one was answered.
	Overlaps(key int16) bool
	// Handle is called on the connection's goroutine, in request order. It calls reply exactly once, on any goroutine, then or
	// later; reply does not block, and after it the request belongs to the server again. For keys that overlap req.Body must
	// not be used after Handle returned, for all others not after reply was called.
	Handle(req *wire.Request, reply func(*wire.Response))
}

// Listener is one address to serve.
type Listener struct {
	net.Listener
	Name string // of the listener in Kafka's configuration, as PLAINTEXT
}

// Config is how a server behaves. A zero field takes its default, which is Kafka's where Kafka has the setting.
type Config struct {
	RequestBytesMax int           // socket.request.max.bytes: 100 MiB
	IdleMax         time.Duration // connections.max.idle.ms: 10 min; negative for ever
	Limits          Limits        // until SetLimits

	// SendBufferBytes and ReceiveBufferBytes are socket.send.buffer.bytes and socket.receive.buffer.bytes. Up to 0, the
	// default, they are left to the system, which sizes them by the traffic.
	SendBufferBytes, ReceiveBufferBytes int

	// BudgetBytes bounds the bytes in flight: a quarter of GOMEMLIMIT, of the control group's limit or of the machine's memory.
	BudgetBytes int64
	// DecodedBytesMax bounds what one request may take beside its frame when decoded: 64 MiB.
	DecodedBytesMax int64

	// FrameTimeout is how long a frame may take that has begun to arrive, and one second for each 64 KiB of it: 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long an answer that occupies memory may wait for the client to take more of it: 60 s. One that is
	// sent from files may wait for IdleMax.
	WriteTimeout time.Duration
	// ParkedCheck is how long a request waits, or a client that is muted, until somebody looks whether the client is still there: 5 s.
	ParkedCheck time.Duration

	// Pace is asked at each connection that a listener accepts how long that is to wait until it is served, and the next one until
	// it is accepted. nil: none waits.
	Pace func(listener string) (wait time.Duration)
	// Admit is asked about each connection that is accepted. One that it does not admit is not served, and closed after that time.
	// nil: all are admitted. It must not block, nor call the server: a lock is held.
	Admit func(peer netip.Addr) (refusedFor time.Duration)
	// Gone is told of each connection that was accepted when it has ended, by its number, on the connection's goroutine. nil: nobody is.
	Gone func(conn uint64)

	Log *slog.Logger
}

// Limits bound the connections. They may change while the server runs.
type Limits struct {
	// Connections is max.connections: no limit. When reached, nothing is accepted until one closes. A negative one allows none.
	Connections int

	// ByListener has the listeners that have a limit of their own beside the one for all, 0 of which allows none there.
	ByListener map[string]int

	// PerIP is max.connections.per.ip: no limit. A negative one allows none but the overrides in ByIP, 0 of which allows none
	// from there.
	PerIP int
	ByIP  map[netip.Addr]int
}

func (c Config) withDefaults() Config {
	defaultTo(&c.RequestBytesMax, 100<<20)
	defaultTo(&c.IdleMax, 10*time.Minute)
	if c.IdleMax < 0 {
		c.IdleMax = forEver
	}
	defaultTo(&c.DecodedBytesMax, 64<<20)
	defaultTo(&c.FrameTimeout, 30*time.Second)
	defaultTo(&c.WriteTimeout, time.Minute)
	defaultTo(&c.ParkedCheck, 5*time.Second)
	if c.BudgetBytes == 0 {
		c.BudgetBytes = defaultBudget()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

const forEver = 100 * 365 * 24 * time.Hour

func defaultTo[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Server serves Kafka's protocol on any number of listeners. Its goroutines are those that accept, one or two for each
// connection, and one that keeps deadlines; Shutdown waits for all of them.
type Server struct {
	config  Config
	handler Handler
	metrics Metrics
	limits  atomic.Pointer[Limits]

	produceBudget, otherBudget *budget

	tick        time.Duration // the step of the deadlines
	now         atomic.Int64  // steps taken so far
	lastConn    atomic.Uint64
	serving     sync.WaitGroup // connections
	goroutines  sync.WaitGroup // the others
	stopping    chan struct{}  // closed when Shutdown begins
	swept       chan struct{}  // closed to end the sweep
	sweptOnce   sync.Once
	closedLimit logLimit // lines about connections closed for what they sent
	fullLimit   logLimit // lines about limits on connections

	mu        sync.Mutex // guards what follows
	stopped   bool
	listeners []net.Listener
	conns     map[*conn]struct{}
	perIP     map[netip.Addr]int
	// perListener counts the connections by the name of the listener, which several may have.
	perListener map[string]int
	// turnedAway counts the connections that are kept waiting without being served.
	turnedAway int
	rooms      []chan struct{} // one for each accept: gets a value when a connection ends
}

// New returns a server that hands requests to h.
func New(c Config, h Handler) *Server {
	s := &Server{
		config: c.withDefaults(), handler: h,
		stopping: make(chan struct{}), swept: make(chan struct{}),
		conns: make(map[*conn]struct{}), perIP: make(map[netip.Addr]int), perListener: make(map[string]int),
	}
	s.SetLimits(s.config.Limits)
	s.otherBudget = newBudget(s.config.BudgetBytes / 4)
	s.produceBudget = newBudget(s.config.BudgetBytes - s.otherBudget.capacity)
	shortest := min(s.config.IdleMax, s.config.FrameTimeout, s.config.WriteTimeout)
	s.tick = min(max(shortest/8, time.Millisecond), s.config.ParkedCheck, time.Second)
	s.goroutines.Go(s.sweep)
	return s
}

// SetLimits changes what holds for new connections. Those that are open stay.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.tellRoom()
}

// Metrics returns the server's numbers, which keep changing.
func (s *Server) Metrics() *Metrics { return &s.metrics }

// BytesInFlight returns how much of the budget is in use.
func (s *Server) BytesInFlight() int64 { return s.produceBudget.inUse() + s.otherBudget.inUse() }

// BudgetWaits returns how often a connection had to wait for memory.
func (s *Server) BudgetWaits() int64 {
	return s.produceBudget.waits.Value() + s.otherBudget.waits.Value()
}

// Serve accepts on the listeners until Shutdown, which closes them. It returns at once.
func (s *Server) Serve(listeners ...Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range listeners {
		if s.stopped {
			_ = l.Close()
			continue
		}
		s.listeners = append(s.listeners, l)
		room := make(chan struct{}, 1)
		s.rooms = append(s.rooms, room)
		s.goroutines.Go(func() { s.accept(l, room) })
	}
}

// Shutdown stops accepting and reading, waits until every request read so far was answered, and closes the connections. When
// ctx ends first they are closed at once and its error is returned. The server can't be used again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stopping)
	}
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.listeners = nil
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends when the last goroutine of the server does, which the closing below sees to
		s.serving.Wait()
		s.sweptOnce.Do(func() { close(s.swept) }) // not sooner: slow peers must not hold up Shutdown
		s.goroutines.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.connections(nil) {
		c.close()
	}
	select {
	case <-done:
	case <-time.After(handlerGrace):
	}
	return ctx.Err()
}

// handlerGrace is how long Shutdown waits for handlers that are in the middle of Handle when their connections are gone.
const handlerGrace = time.Second

// connections appends those that are open to all.
func (s *Server) connections(all []*conn) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}
