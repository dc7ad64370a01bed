package brokertest_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long an answer, or anything else that must come, is waited for. It is far more than what a busy machine needs.
const patience = time.Minute

// link is one connection to a broker, with requests made by hand: pipelined, and answered in order.
type link struct {
	conn net.Conn

	mu      sync.Mutex // guards the rest, and the order of writes
	last    int32      // correlation id
	waiting []*asked   // sent and not answered, oldest first
	broken  error      // why nothing more will come
}

// asked is a request that was sent. Its fields are set before done is closed.
type asked struct {
	req  kmsg.Request
	id   int32
	resp kmsg.Response
	err  error
	done chan struct{}
}

// errUnanswered is what a request gets whose answer did not come in time.
var errUnanswered = errors.New("no answer in time")

// wrongAnswer is an answer that no broker may give.
type wrongAnswer struct{ what string }

func (e *wrongAnswer) Error() string { return e.what }

func dialLink(address string) (*link, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn}
	go l.receive()
	return l, nil
}

// close ends the connection; what waits gets an error.
func (l *link) close() { l.conn.Close() }

// receive reads answers until the connection ends.
func (l *link) receive() {
	in := bufio.NewReaderSize(l.conn, 1<<16)
	for {
		id, body, err := readAnswer(in)
		l.mu.Lock()
		switch {
		case err == nil && len(l.waiting) == 0:
			err = &wrongAnswer{fmt.Sprintf("an answer (correlation id %d) that nobody asked for", id)}
		case err == nil && l.waiting[0].id != id:
			err = &wrongAnswer{fmt.Sprintf("answer with correlation id %d, want %d", id, l.waiting[0].id)}
		}
		if err != nil {
			l.broken = err
			for _, a := range l.waiting {
				a.err = err
				close(a.done)
			}
			l.waiting = nil
			l.mu.Unlock()
			l.conn.Close()
			return
		}
		a := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		a.resp, a.err = decodeAnswer(a.req, body)
		close(a.done)
	}
}

func readAnswer(in io.Reader) (id int32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint32(head[:]))-4)
	_, err = io.ReadFull(in, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

func decodeAnswer(req kmsg.Request, body []byte) (kmsg.Response, error) {
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, &wrongAnswer{fmt.Sprintf("answer to key %d version %d without the tags of its header", req.Key(), req.GetVersion())}
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		return nil, &wrongAnswer{fmt.Sprintf("answer to key %d version %d: %v", req.Key(), req.GetVersion(), err)}
	}
	return resp, nil
}

// frame is a request as it goes over the wire.
func frame(req kmsg.Request, id int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("chaos")).AppendRequest(nil, req, id)
}

// send writes a request without waiting for its answer. A Produce with acks=0 is done at once: it has none.
func (l *link) send(req kmsg.Request) *asked {
	a := &asked{req: req, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		a.err = l.broken
		close(a.done)
		return a
	}
	l.last++
	a.id = l.last
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		close(a.done)
	} else {
		l.waiting = append(l.waiting, a)
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := l.conn.Write(frame(req, a.id)); err != nil {
		l.conn.Close() // receive tells those that wait
	}
	return a
}

// answer waits for the answer.
func (a *asked) answer() (kmsg.Response, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-a.done:
		return a.resp, a.err
	case <-late.C:
		return nil, errUnanswered
	}
}
