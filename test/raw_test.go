package test

import (
	enc "encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawConn is a connection on which a test says what no client would.
type rawConn struct {
	net.Conn
	t    testing.TB
	next int32 // correlation id
}

func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawConn{Conn: c, t: t}
}

// frame is the request with its length and header in front.
func (c *rawConn) frame(req kmsg.Request) []byte {
	c.next++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, c.next)
}

func (c *rawConn) send(req kmsg.Request) {
	c.t.Helper()
	if _, err := c.Write(c.frame(req)); err != nil {
		c.t.Fatalf("send %s: %v", kmsg.NameForKey(req.Key()), err)
	}
}

// ask sends the request and waits for its answer.
func ask[R kmsg.Response](c *rawConn, req kmsg.Request, limit time.Duration) R {
	c.t.Helper()
	c.send(req)
	resp, err := receive[R](c, req, limit)
	if err != nil {
		c.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

// receive reads the answer of a request that was sent.
func receive[R kmsg.Response](c *rawConn, req kmsg.Request, limit time.Duration) (resp R, err error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return resp, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return resp, err
	}
	body := make([]byte, enc.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return resp, err
	}
	skip := 4
	answer := req.ResponseKind()
	if answer.IsFlexible() && answer.Key() != int16(kmsg.ApiVersions) {
		if body[skip] != 0 {
			return resp, fmt.Errorf("tags in the response header: %x", body[:skip+1])
		}
		skip++
	}
	if err := answer.ReadFrom(body[skip:]); err != nil {
		return resp, err
	}
	return answer.(R), nil
}
