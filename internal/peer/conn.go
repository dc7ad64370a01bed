package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

const (
	// inFlightMax is how many requests of a connection may be unanswered. A server of ours reads no more than 64.
	inFlightMax = 32
	// trustedBytes is how large a buffer an answer gets before its bytes arrive.
	trustedBytes = 8 << 20
	readBytes    = 16 << 10
)

// conn is one connection. Two goroutines serve it, one that writes requests and one that reads answers; both end when it closes.
type conn struct {
	o        *Options
	nc       net.Conn
	versions [kmsg.MaxKey + 1]versionRange // of the other node; written before the first request but ApiVersions

	requests chan *call    // to the writer
	pending  chan *call    // written, in order, to the reader
	closed   chan struct{} // closed with the connection

	once sync.Once // guards closing
	err  error     // why it closed; set before closed is closed
	wg   sync.WaitGroup
}

type versionRange struct {
	known    bool
	min, max int16
}

// call is one request on its way. The reader closes done when answer holds what came.
type call struct {
	request     kmsg.Request
	correlation int32
	lend        bool // the answer may lie in a pooled frame
	done        chan struct{}
	body        []byte // what follows the correlation id
	frame       *wire.Frame
}

// newConn serves a connection that was made.
func newConn(o *Options, nc net.Conn) *conn {
	c := &conn{
		o: o, nc: nc,
		requests: make(chan *call), pending: make(chan *call, inFlightMax), closed: make(chan struct{}),
	}
	c.wg.Go(c.write)
	c.wg.Go(c.read)
	return c
}

// close ends the connection. The first cause counts.
func (c *conn) close(cause error) {
	c.once.Do(func() {
		c.err = cause
		close(c.closed)
		_ = c.nc.Close()
	})
}

// isClosed tells whether nothing can be sent any more.
func (c *conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// write sends requests until the connection closes.
func (c *conn) write() {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.o.ClientID))
	var buf []byte
	for correlation := int32(0); ; correlation++ {
		var next *call
		select {
		case next = <-c.requests:
		case <-c.closed:
			return
		}
		next.correlation = correlation
		select {
		case c.pending <- next:
		case <-c.closed:
			return
		}
		buf = formatter.AppendRequest(buf[:0], next.request, correlation)
		_ = c.nc.SetWriteDeadline(time.Now().Add(c.o.RequestTimeout))
		if _, err := c.nc.Write(buf); err != nil {
			c.close(gone(err))
			return
		}
		if cap(buf) > readBytes {
			buf = nil
		}
	}
}

// read hands answers to their calls until the connection closes.
func (c *conn) read() {
	in := bufio.NewReaderSize(c.nc, readBytes)
	for {
		if err := c.readAnswer(in); err != nil {
			c.close(err)
			return
		}
	}
}

func (c *conn) readAnswer(in *bufio.Reader) error {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return gone(err)
	}
	size, correlation := int(int32(binary.BigEndian.Uint32(head[:]))), int32(binary.BigEndian.Uint32(head[4:]))
	if size < 4 || size > c.o.AnswerBytesMax {
		return fmt.Errorf("an answer of %d bytes: from 4 to %d are taken", size, c.o.AnswerBytesMax)
	}
	var asked *call
	select {
	case asked = <-c.pending: // it is put there before it is sent
	default:
		return fmt.Errorf("an answer to nothing, with correlation id %d", correlation)
	}
	if asked.correlation != correlation {
		return fmt.Errorf("an answer with correlation id %d where %d is due", correlation, asked.correlation)
	}
	if err := asked.readBody(in, size-4); err != nil {
		return gone(err)
	}
	close(asked.done)
	return nil
}

// readBody reads n bytes, believing in more than a few megabytes only as they come.
func (a *call) readBody(in io.Reader, n int) error {
	if a.lend && n <= trustedBytes {
		a.frame = wire.NewFrame(n)
		a.body = a.frame.Room()[:n]
		_, err := io.ReadFull(in, a.body)
		return err
	}
	a.body = make([]byte, min(n, trustedBytes))
	for at := 0; ; {
		if _, err := io.ReadFull(in, a.body[at:]); err != nil {
			return err
		}
		if at = len(a.body); at == n {
			return nil
		}
		longer := make([]byte, min(n, 2*at))
		copy(longer, a.body)
		a.body = longer
	}
}

// roundTrip sends a request, whose version is set, and waits for the answer. A call that takes longer than wait closes the
// connection, as all behind it would wait too; one whose ctx ends before leaves it open, and the answer is dropped when it comes.
func (c *conn) roundTrip(ctx context.Context, request kmsg.Request, lend bool, wait time.Duration) (*call, error) {
	a := &call{request: request, lend: lend, done: make(chan struct{})}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case c.requests <- a:
	case <-c.closed:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		c.close(errLate)
		return nil, errLate
	}
	select {
	case <-a.done:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		c.close(errLate)
		return nil, errLate
	case <-c.closed:
	}
	select {
	case <-a.done: // it came before the connection closed
		return a, nil
	default:
		return nil, c.err
	}
}

// decode reads the answer into a response and returns what gives its memory back, if that is lent.
func (a *call) decode() (kmsg.Response, func(), error) {
	response := a.request.ResponseKind()
	body := a.body
	if key := a.request.Key(); key != wire.KeyApiVersions && a.request.IsFlexible() {
		rest, ok := skipTags(body)
		if !ok {
			a.release()
			return nil, nil, errMalformed
		}
		body = rest
	}
	if err := response.ReadFrom(body); err != nil {
		a.release()
		return nil, nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return response, a.release, nil
}

func (a *call) release() {
	if a.frame != nil {
		a.frame.Release()
		a.frame, a.body = nil, nil
	}
}

// skipTags passes over the tags of a response's header.
func skipTags(b []byte) (rest []byte, ok bool) {
	count, n := binary.Uvarint(b)
	for b = b[max(n, 0):]; count > 0 && n > 0; count-- {
		if _, n = binary.Uvarint(b); n <= 0 {
			break
		}
		b = b[n:]
		var size uint64
		if size, n = binary.Uvarint(b); n <= 0 || size > uint64(len(b)-n) {
			return nil, false
		}
		b = b[n+int(size):]
	}
	return b, n > 0
}
