package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Options say how connections are made and how long one waits. A zero field takes its default.
type Options struct {
	// Dial connects to host:port. The default is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// ClientID is what the other node's log and quotas know this one by.
	ClientID string
	// DialTimeout bounds a connection's making, the exchange of versions included: 10 s (socket.connection.setup.timeout.ms).
	DialTimeout time.Duration
	// RequestTimeout bounds the wait for an answer, beside what the request itself asks the other node to wait: 30 s
	// (request.timeout.ms). A connection that does not answer in time is closed.
	RequestTimeout time.Duration
	// Backoff is how long no connection is tried after the n-th failure in a row. The default is 50 ms, doubled up to 1 s, and a fifth of
	// chance (reconnect.backoff.ms, reconnect.backoff.max.ms).
	Backoff func(failures int) time.Duration
	// AnswerBytesMax bounds an answer: 1 GiB, as a batch in a fetch's answer may be as long as message.max.bytes allows.
	AnswerBytesMax int
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if o.Backoff == nil {
		o.Backoff = defaultBackoff
	}
	o.ClientID = cmp.Or(o.ClientID, "raftsman")
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.AnswerBytesMax = cmp.Or(o.AnswerBytesMax, 1<<30)
	return o
}

func defaultBackoff(failures int) time.Duration {
	wait := min(50*time.Millisecond<<min(failures-1, 10), time.Second)
	return wait + time.Duration(rand.Int64N(int64(wait)/5))
}

var (
	errLate      = errors.New("not answered in time")
	errMalformed = errors.New("malformed answer")
)

// Client sends requests to one address, over one connection that is made when it is needed and made again when it was lost. All
// methods are safe for concurrent use. Its goroutines end with Close, which waits for them.
type Client struct {
	o       Options
	address string

	ctx    context.Context // ends attempts to connect
	cancel context.CancelFunc
	wg     sync.WaitGroup // attempts to connect, and connections

	mu        sync.Mutex // guards what follows; held for memory only
	conn      *conn      // the newest; nil before the first
	attempt   *attempt   // that is being made; nil for none
	failures  int        // in a row
	notBefore time.Time  // of the next attempt
	closed    bool
}

// attempt is a connection that is being made, for all that wait for it.
type attempt struct {
	done chan struct{}
	conn *conn // when done is closed: one of both
	err  error
}

// NewClient returns a client of host:port. Nothing is dialled before the first call.
func NewClient(address string, o Options) *Client {
	c := &Client{o: o.withDefaults(), address: address}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends the connection and all calls on it, and waits for the goroutines.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	if c.conn != nil {
		c.conn.close(ErrClosed)
	}
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Do sends a request at the newest version that both sides know, but at least at min, and returns the answer. The error is an
// *[Error].
func (c *Client) Do(ctx context.Context, request kmsg.Request, min int16) (kmsg.Response, error) {
	return c.send(ctx, request, exchange{min: min, max: request.MaxVersion()})
}

// send is do for answers that lend no memory.
func (c *Client) send(ctx context.Context, request kmsg.Request, x exchange) (kmsg.Response, error) {
	response, _, err := c.do(ctx, request, x)
	return response, err
}

// exchange says how a request is sent.
type exchange struct {
	min, max int16
	waitMs   int32 // that the request asks the other node to wait
	lend     bool  // the answer may be lent: release gives its memory back
	alone    bool  // the connection is closed when ctx ends the call: what comes next must not wait for the answer to it
}

// do is Do. release is not nil when err is nil.
func (c *Client) do(ctx context.Context, request kmsg.Request, x exchange) (response kmsg.Response, release func(), err error) {
	fail := func(doing string, err error) (kmsg.Response, func(), error) {
		return nil, nil, &Error{Address: c.address, Doing: doing, Err: err, dead: doing == dialling && refused(err)}
	}
	connection, err := c.connect(ctx)
	if err != nil {
		return fail(dialling, err)
	}
	name := kmsg.NameForKey(request.Key())
	version, ok := connection.version(request.Key(), x)
	if !ok {
		return fail(name, ErrUnsupported)
	}
	request.SetVersion(version)
	wait := c.o.RequestTimeout + time.Duration(x.waitMs)*time.Millisecond
	if filled, ok := request.(asVersion); ok {
		request = filled.Request
	}
	answered, err := connection.roundTrip(ctx, request, x.lend, wait)
	if err != nil {
		if x.alone && ctx.Err() != nil {
			connection.close(ErrClosed)
		}
		return fail(name, err)
	}
	response, release, err = answered.decode()
	if err != nil {
		connection.close(err)
		return fail(name, err)
	}
	return response, release, nil
}

const dialling = "dial"

// connect returns a connection that is open, as far as is known.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, ErrClosed
	case c.conn != nil && !c.conn.isClosed():
		defer c.mu.Unlock()
		return c.conn, nil
	case c.attempt == nil && time.Now().Before(c.notBefore):
		c.mu.Unlock()
		return nil, ErrBackoff
	case c.attempt == nil:
		c.attempt = &attempt{done: make(chan struct{})}
		try := c.attempt
		c.wg.Go(func() { c.try(try) })
	}
	try := c.attempt
	c.mu.Unlock()
	select {
	case <-try.done:
		return try.conn, try.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// try makes a connection, for whoever waits for the attempt, and stays until it closes.
func (c *Client) try(a *attempt) {
	made, err := c.dial()
	c.mu.Lock()
	switch {
	case err == nil && c.closed:
		made.close(ErrClosed)
		a.err = ErrClosed
	case err == nil:
		c.conn, c.failures = made, 0
		a.conn = made
	default:
		c.failures++
		c.notBefore = time.Now().Add(c.o.Backoff(c.failures))
		a.err = err
	}
	c.attempt = nil
	c.mu.Unlock()
	close(a.done)
	if made != nil {
		made.wg.Wait()
	}
}

// dial connects and learns what the other node serves.
func (c *Client) dial() (*conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.DialTimeout)
	defer cancel()
	nc, err := c.o.Dial(ctx, c.address)
	if err != nil {
		return nil, err
	}
	made := newConn(&c.o, nc)
	if err := made.learnVersions(ctx); err != nil {
		made.close(err)
		made.wg.Wait()
		return nil, err
	}
	return made, nil
}

// apiVersionsVersion is one that all brokers of our time know.
const apiVersionsVersion = 3

func apiVersions() *kmsg.ApiVersionsRequest {
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "raftsman", "1"
	return request
}

func (c *conn) learnVersions(ctx context.Context) error {
	request := apiVersions()
	request.SetVersion(apiVersionsVersion)
	answered, err := c.roundTrip(ctx, request, false, c.o.DialTimeout)
	if err != nil {
		return err
	}
	decoded, _, err := answered.decode()
	if err != nil {
		return err
	}
	response := decoded.(*kmsg.ApiVersionsResponse)
	if response.ErrorCode != 0 {
		return fmt.Errorf("ApiVersions: %w", kafka.Error(response.ErrorCode))
	}
	for _, row := range response.ApiKeys {
		if row.ApiKey >= 0 && int(row.ApiKey) < len(c.versions) {
			c.versions[row.ApiKey] = versionRange{true, row.MinVersion, row.MaxVersion}
		}
	}
	return nil
}

// version returns the newest version of an API that both sides know.
func (c *conn) version(key int16, x exchange) (int16, bool) {
	theirs := c.versions[key]
	newest := min(theirs.max, x.max)
	return newest, theirs.known && newest >= max(theirs.min, x.min)
}

// gone says of an error on a connection that the other side has closed it, keeping what the system said.
func gone(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || isReset(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// refused tells whether the other machine says that nobody serves the address.
func refused(err error) bool { return hasErrno(err, syscall.ECONNREFUSED, 10061) || isReset(err) }

// isReset tells whether a connection was reset, or broken for writing.
func isReset(err error) bool { return hasErrno(err, syscall.ECONNRESET, syscall.EPIPE, 10053, 10054) }

// hasErrno also knows Windows' numbers, which are nobody else's.
func hasErrno(err error, numbers ...syscall.Errno) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(numbers, errno)
}

// Probe makes a connection to an address, uses it for nothing, and returns nil or an *[Error] that says whether anybody is there.
func Probe(ctx context.Context, address string, o Options) error {
	c := NewClient(address, o)
	defer c.Close()
	if _, err := c.connect(ctx); err != nil {
		return &Error{Address: address, Doing: dialling, Err: err, dead: refused(err)}
	}
	return nil
}

// Address returns host:port as dialled.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }
