// Package raw asks brokers in tests what no client would: requests in one line each, frames made and read by hand, and the table of
// what Apache Kafka 4.4 takes. Whoever imports it is a test.
package raw

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Patience is how long a test waits for what must come: far more than a busy machine needs.
const Patience = time.Minute

// Conn is one raw connection to a broker: frames are made and read by hand, so that a test sees what is on the wire.
type Conn struct {
	testing.TB
	Net      net.Conn
	Last     int32         // correlation id
	Patience time.Duration // how long an answer is waited for; 0: as long as Patience
	address  string
	in       *bufio.Reader
}

// Dial opens a connection and closes it when the test ends.
func Dial(t testing.TB, address string) *Conn {
	t.Helper()
	l := &Conn{TB: t, address: address}
	l.Redial()
	t.Cleanup(func() { l.Net.Close() })
	return l
}

// On is a connection that is open already, and that the caller closes. t may be nil where only Receive is called.
func On(t testing.TB, conn net.Conn) *Conn {
	return &Conn{TB: t, address: conn.RemoteAddr().String(), Net: conn, in: newReader(conn)}
}

// Redial opens a connection in place of the one that has ended.
func (l *Conn) Redial() {
	l.Helper()
	conn, err := net.Dial("tcp", l.address)
	if err != nil {
		l.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		l.Fatal(err)
	}
	l.Net, l.in = conn, newReader(conn)
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReaderSize(conn, 1<<16) }

// Send writes a request and does not wait.
func (l *Conn) Send(req kmsg.Request) {
	l.Helper()
	l.Last++
	l.SendBytes(kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, l.Last))
}

// SendBytes writes what may be no frame at all.
func (l *Conn) SendBytes(b []byte) {
	l.Helper()
	if err := l.Net.SetDeadline(time.Now().Add(cmp.Or(l.Patience, Patience))); err != nil {
		l.Fatal(err)
	}
	if _, err := l.Net.Write(b); err != nil {
		l.Fatal(err)
	}
}

// Receive reads one frame and returns its correlation id and what follows it.
func (l *Conn) Receive() (correlation int32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint32(head[:]))-4)
	_, err = io.ReadFull(l.in, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// Answer reads the next answer, which must be to req, the correlation-th request, and must hold nothing that its version's
// schema does not.
func (l *Conn) Answer(req kmsg.Request, correlation int32) kmsg.Response {
	l.Helper()
	got, body, err := l.Receive()
	if err != nil {
		l.Fatalf("answer to %s: %v", Describe(req), err)
	}
	if got != correlation {
		l.Fatalf("answer to %s has correlation id %d, want %d", Describe(req), got, correlation)
	}
	resp, err := Decode(req, body)
	if err != nil {
		l.Fatal(err)
	}
	return resp
}

// Ask sends a request and reads its answer.
func (l *Conn) Ask(req kmsg.Request) kmsg.Response {
	l.Helper()
	l.Send(req)
	return l.Answer(req, l.Last)
}

// TryAsk is ask for a request that may end the connection: it then returns io.EOF, or os.ErrDeadlineExceeded if nothing at all
// comes, and opens another connection.
func (l *Conn) TryAsk(req kmsg.Request) (kmsg.Response, error) {
	l.Helper()
	l.Send(req)
	got, body, err := l.Receive()
	if err != nil {
		l.Net.Close()
		l.Redial()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, os.ErrDeadlineExceeded
		}
		return nil, io.EOF
	}
	if got != l.Last {
		l.Fatalf("answer to %s has correlation id %d, want %d", Describe(req), got, l.Last)
	}
	resp, err := Decode(req, body)
	if err != nil {
		l.Fatal(err)
	}
	return resp, nil
}

// HasAnswer tells whether anything has come that was not read yet.
func (l *Conn) HasAnswer() bool {
	l.Helper()
	if err := l.Net.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		l.Fatal(err)
	}
	_, err := l.in.Peek(1)
	if err := l.Net.SetReadDeadline(time.Now().Add(cmp.Or(l.Patience, Patience))); err != nil {
		l.Fatal(err)
	}
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// Ended waits until the broker closes the connection, and tells how many bytes came before.
func (l *Conn) Ended() int {
	l.Helper()
	rest, err := io.Copy(io.Discard, l.in)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.Fatal("the broker did not close the connection")
	}
	return int(rest)
}

// Decode reads a response, header included, and refuses bytes that are left over.
func Decode(req kmsg.Request, body []byte) (kmsg.Response, error) {
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("answer to %s: header of a flexible version without its empty list of tags: %x", Describe(req), Head(body))
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("answer to %s: %w: %x", Describe(req), err, Head(body))
	}
	// kmsg does not tell what it left unread; what it writes again is what it has read.
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("answer to %s: %d bytes, its content is %d: got %x want %x", Describe(req), len(body), len(again), Head(body), Head(again))
	}
	return resp, nil
}

// Head is the beginning of bytes, for messages.
func Head(b []byte) []byte { return b[:min(len(b), 200)] }

// Describe names a request in messages.
func Describe(req kmsg.Request) string {
	return fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion())
}

// Frame makes a request by hand: header version 1 or 2 and whatever body.
func Frame(key kmsg.Key, version int16, correlation int32, flexible bool, body string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, "\x00\x03raw"...)
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// At sets a request's version.
func At[R kmsg.Request](version int16, req R) R {
	req.SetVersion(version)
	return req
}

// Until asks again until the answer is as wanted.
func Until[R kmsg.Response](l *Conn, req kmsg.Request, what string, wanted func(R) bool) R {
	l.Helper()
	for deadline := time.Now().Add(Patience); ; {
		resp := l.Ask(req).(R)
		if wanted(resp) {
			return resp
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: %s never comes: %+v", Describe(req), what, resp)
		}
	}
}
