package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

// fakeNode serves ApiVersions on every connection, and leaves all other requests to answer. It closes a connection when that returns
// nil.
type fakeNode struct {
	answer func(request kmsg.Request) kmsg.Response
	serves []kmsg.ApiVersionsResponseApiKey

	mu    sync.Mutex // guards conns and dials
	conns []net.Conn
	dials int
	wg    sync.WaitGroup
}

// dial connects in memory.
func (n *fakeNode) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	n.serve(theirs)
	return ours, nil
}

func (n *fakeNode) serve(nc net.Conn) {
	n.mu.Lock()
	n.conns, n.dials = append(n.conns, nc), n.dials+1
	n.mu.Unlock()
	n.wg.Go(func() {
		defer nc.Close()
		for n.one(nc) {
		}
	})
}

func (n *fakeNode) one(nc net.Conn) bool {
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return false
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(nc, frame); err != nil {
		return false
	}
	var h wire.Header
	if err := wire.ParseHeader(frame, &h); err != nil {
		return false
	}
	request := kmsg.RequestForKey(h.Key)
	request.SetVersion(h.Version)
	if err := request.ReadFrom(h.Body); err != nil {
		return false
	}
	var response kmsg.Response
	if _, ok := request.(*kmsg.ApiVersionsRequest); ok {
		versions := request.ResponseKind().(*kmsg.ApiVersionsResponse)
		versions.ApiKeys = n.serves
		response = versions
	} else if response = n.answer(request); response == nil {
		return false
	}
	answer := wire.AppendResponseHeader(make([]byte, 4), h.Key, h.Version, h.CorrelationID)
	answer = response.AppendTo(answer)
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	_, err := nc.Write(answer)
	return err == nil
}

// kill closes all connections, as a process that dies does.
func (n *fakeNode) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, nc := range n.conns {
		_ = nc.Close()
	}
	n.conns = nil
}

func allKeys() (rows []kmsg.ApiVersionsResponseApiKey) {
	for key := range kmsg.MaxKey + 1 {
		if request := kmsg.RequestForKey(int16(key)); request != nil {
			rows = append(rows, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MaxVersion: request.MaxVersion()})
		}
	}
	return rows
}

// describe is a call with an answer that tells which request it belongs to.
func describe(id string) *kmsg.DescribeGroupsRequest {
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{id}
	return request
}

func echo(request kmsg.Request) kmsg.Response {
	response := request.ResponseKind().(*kmsg.DescribeGroupsResponse)
	group := kmsg.NewDescribeGroupsResponseGroup()
	group.Group = request.(*kmsg.DescribeGroupsRequest).Groups[0]
	response.Groups = append(response.Groups, group)
	return response
}

func ask(ctx context.Context, c *Client, id string) (string, error) {
	response, err := c.Do(ctx, describe(id), 0)
	if err != nil {
		return "", err
	}
	return response.(*kmsg.DescribeGroupsResponse).Groups[0].Group, nil
}

func TestCallsArePipelinedAndFindTheirAnswers(t *testing.T) {
	node := &fakeNode{serves: allKeys(), answer: echo}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node.wg.Go(func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			node.serve(nc)
		}
	})
	c := NewClient(listener.Addr().String(), Options{})
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			id := fmt.Sprint(i)
			if got, err := ask(t.Context(), c, id); err != nil || got != id {
				t.Errorf("call %s was answered with %q, %v", id, got, err)
			}
		})
	}
	calls.Wait()
	if node.dials != 1 {
		t.Errorf("%d connections were made for 100 calls at once, want 1", node.dials)
	}
	c.Close()
	if _, err := ask(t.Context(), c, "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after Close: %v, want ErrClosed", err)
	}
	_ = listener.Close()
	node.wg.Wait()
}

// A process that dies closes its sockets: the call that waits learns of it, and the next one that nobody is there any more.
func TestADeadNodeIsKnownAtOnce(t *testing.T) {
	node := &fakeNode{serves: allKeys()}
	asked := make(chan struct{})
	node.answer = func(kmsg.Request) kmsg.Response {
		close(asked)
		select {}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(listener.Addr().String(), Options{})
	defer c.Close()
	go func() {
		nc, err := listener.Accept()
		if err == nil {
			node.serve(nc)
			<-asked
			_ = listener.Close()
			node.kill()
		}
	}()
	begin := time.Now()
	if _, err = ask(t.Context(), c, "x"); !errors.Is(err, ErrGone) || IsDead(err) {
		t.Errorf("the call on the way got %v, want ErrGone, and not yet dead", err)
	}
	if _, err = ask(t.Context(), c, "x"); !IsDead(err) {
		t.Errorf("the next call got %v, want that nobody is there", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %s to learn that", took)
	}
	if err := Probe(t.Context(), listener.Addr().String(), Options{}); !IsDead(err) {
		t.Errorf("the probe got %v, want that nobody is there", err)
	}
}

func TestFailedConnectionsAreNotTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := NewClient("node:1", Options{
			Dial: func(context.Context, string) (net.Conn, error) {
				dials++
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			},
			Backoff: func(failures int) time.Duration { return time.Duration(failures) * time.Second },
		})
		defer c.Close()
		for _, step := range []struct {
			after time.Duration
			dials int
			dead  bool
		}{{0, 1, true}, {999 * time.Millisecond, 1, false}, {time.Millisecond, 2, true}, {time.Second, 2, false}, {time.Second, 3, true}} {
			time.Sleep(step.after)
			_, err := ask(t.Context(), c, "x")
			if dials != step.dials || IsDead(err) != step.dead || errors.Is(err, ErrBackoff) == step.dead {
				t.Errorf("after %s more: %d dials, %v; want %d dials, dead %v", step.after, dials, err, step.dials, step.dead)
			}
		}
	})
}

func TestALateAnswerEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{serves: allKeys()}
		var silent atomic.Bool
		silent.Store(true)
		node.answer = func(request kmsg.Request) kmsg.Response {
			if silent.Load() {
				time.Sleep(time.Hour)
				return nil
			}
			return echo(request)
		}
		c := NewClient("node:1", Options{Dial: node.dial, RequestTimeout: 3 * time.Second})
		begin := time.Now()
		if _, err := ask(t.Context(), c, "x"); !errors.Is(err, errLate) || time.Since(begin) != 3*time.Second {
			t.Errorf("after %s: %v, want that it is late after 3s", time.Since(begin), err)
		}
		silent.Store(false)
		if got, err := ask(t.Context(), c, "y"); err != nil || got != "y" || node.dials != 2 {
			t.Errorf("the next call: %q, %v on connection %d; want an answer on the second", got, err, node.dials)
		}
		c.Close()
		node.wg.Wait()
	})
}

// A call that its caller gives up leaves the connection to others, except where what comes next must not wait for it.
func TestACallMayBeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{serves: allKeys()}
		node.answer = func(request kmsg.Request) kmsg.Response {
			time.Sleep(time.Second)
			return echo(request)
		}
		c := NewClient("node:1", Options{Dial: node.dial})
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := ask(short, c, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call that was given up got %v", err)
		}
		if got, err := ask(t.Context(), c, "y"); err != nil || got != "y" || node.dials != 1 {
			t.Errorf("the call behind it: %q, %v, connection %d; want an answer on the first", got, err, node.dials)
		}
		short, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := c.do(short, describe("x"), exchange{max: 5, alone: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call that was given up alone got %v", err)
		}
		begin := time.Now()
		if _, err := ask(t.Context(), c, "y"); err != nil || node.dials != 2 || time.Since(begin) != time.Second {
			t.Errorf("the call behind it: %v, connection %d after %s; want one on the second, at once", err, node.dials, time.Since(begin))
		}
		c.Close()
		node.wg.Wait()
	})
}

func TestVersionsAreAgreedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{answer: echo, serves: []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(kmsg.DescribeGroups), MinVersion: 2, MaxVersion: 4}}}
		c := NewClient("node:1", Options{Dial: node.dial})
		request := describe("x")
		if _, err := c.Do(t.Context(), request, 0); err != nil || request.Version != 4 {
			t.Errorf("sent version %d, %v; want 4", request.Version, err)
		}
		if _, err := c.Do(t.Context(), request, 5); !errors.Is(err, ErrUnsupported) {
			t.Errorf("a request that needs version 5: %v", err)
		}
		if _, err := c.Do(t.Context(), kmsg.NewPtrVoteRequest(), 0); !errors.Is(err, ErrUnsupported) {
			t.Errorf("an api that is not served: %v", err)
		}
		c.Close()
		node.wg.Wait()
	})
}

// What comes back is not believed: lengths, correlation ids and bodies that make no sense end the connection.
func TestBadAnswersEndTheConnection(t *testing.T) {
	for name, answer := range map[string][]byte{
		"too long":      {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"too short":     {0, 0, 0, 3, 0, 0, 0},
		"negative":      {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"other request": {0, 0, 0, 5, 0, 0, 0, 9, 0},
		"malformed":     {0, 0, 0, 5, 0, 0, 0, 1, 0},
		"cut short":     {0, 0, 1, 0, 0, 0, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := &fakeNode{serves: allKeys()}
				node.answer = func(kmsg.Request) kmsg.Response {
					node.mu.Lock()
					nc := node.conns[0]
					node.mu.Unlock()
					_, _ = nc.Write(answer)
					return nil
				}
				c := NewClient("node:1", Options{Dial: node.dial})
				if _, err := ask(t.Context(), c, "x"); err == nil {
					t.Error("the answer was taken")
				}
				c.Close()
				node.wg.Wait()
			})
		})
	}
}
