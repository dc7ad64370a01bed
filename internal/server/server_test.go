package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

// fakeHandler answers Heartbeats at once, and everything else as its function says.
type fakeHandler struct {
	handle func(req *wire.Request, reply func(*wire.Response))
}

func (h *fakeHandler) Serves(key, version int16) bool {
	switch kmsg.Key(key) {
	case kmsg.Produce:
		return version >= 3 && version <= 13
	case kmsg.ApiVersions:
		return true
	case kmsg.Fetch:
		return version >= 4 && version <= 18
	case kmsg.Metadata, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.OffsetCommit:
		return version >= 0 && version <= kmsg.RequestForKey(key).MaxVersion()
	}
	return false
}

func (h *fakeHandler) Carries(key int16) bool { return key == int16(kmsg.Produce) }

func (h *fakeHandler) Overlaps(key int16) bool {
	return key == int16(kmsg.Produce) || key == int16(kmsg.OffsetCommit)
}

func (h *fakeHandler) Handle(req *wire.Request, reply func(*wire.Response)) {
	if h.handle == nil || kmsg.Key(req.Key) == kmsg.Heartbeat {
		answerEmpty(req, reply)
		return
	}
	h.handle(req, reply)
}

// answerEmpty answers with the key's response without any content.
func answerEmpty(req *wire.Request, reply func(*wire.Response)) {
	resp := kmsg.ResponseForKey(req.Key)
	resp.SetVersion(req.Version)
	r := req.Response()
	r.Body = resp
	reply(r)
}

// lineLog keeps log lines for tests that look for them.
type lineLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lineLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

type testServer struct {
	*Server
	handler *fakeHandler
	addr    string
	log     *lineLog
}

// start serves on a port of the loopback interface. At the end of the test the server must stop and leave no goroutine.
func start(t testing.TB, c Config, handle func(*wire.Request, func(*wire.Response))) *testServer {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ts := &testServer{handler: &fakeHandler{handle}, addr: l.Addr().String(), log: &lineLog{}}
	c.Log = slog.New(slog.NewTextHandler(ts.log, nil))
	ts.Server = New(c, ts.handler)
	ts.Serve(Listener{Listener: l, Name: "PLAINTEXT"})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := ts.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if used := ts.BytesInFlight(); used != 0 {
			t.Errorf("%d bytes of the budget are still in use", used)
		}
		awaitTrue(t, "every goroutine has ended", func() bool { return runtime.NumGoroutine() <= before })
	})
	return ts
}

// patience is how long a test waits for what must come: far more than a busy machine needs.
const patience = time.Minute

// awaitTrue waits until the condition holds.
func awaitTrue(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(time.Millisecond) // and not in the way of what is awaited
	}
}

// client is a raw connection.
type client struct {
	t testing.TB
	net.Conn
	in   *bufio.Reader
	next int32
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, Conn: nc, in: bufio.NewReader(nc)}
}

// frame encodes a request with the next correlation id.
func (c *client) frame(req kmsg.Request) []byte {
	c.next++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, req, c.next)
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the correlation id and the rest of the next answer.
func (c *client) receive() (int32, []byte) {
	c.t.Helper()
	id, body, err := c.tryReceive()
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return id, body
}

func (c *client) tryReceive() (int32, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err := io.ReadFull(c.in, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

func (c *client) expect(want int32) []byte {
	c.t.Helper()
	id, body := c.receive()
	if id != want {
		c.t.Fatalf("answer to request %d, want to %d", id, want)
	}
	return body
}

// expectClosed fails unless the server closes the connection without another byte.
func (c *client) expectClosed() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.Copy(io.Discard, c.in); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%d bytes and %v, want the connection closed", n, err)
	}
}

func request(key kmsg.Key, version int16) kmsg.Request {
	req := key.Request()
	req.SetVersion(version)
	return req
}

func produce(acks int16) kmsg.Request {
	req := request(kmsg.Produce, 9).(*kmsg.ProduceRequest)
	req.Acks = acks
	return req
}

// parking keeps the replies of requests of one key until the test gives them.
type parking struct {
	keys    []kmsg.Key
	arrived chan parkedRequest
}

type parkedRequest struct {
	correlation int32
	answer      func()
}

func newParking(keys ...kmsg.Key) *parking {
	return &parking{keys: keys, arrived: make(chan parkedRequest, 1000)}
}

func (p *parking) handle(req *wire.Request, reply func(*wire.Response)) {
	if !slices.Contains(p.keys, kmsg.Key(req.Key)) {
		answerEmpty(req, reply)
		return
	}
	p.arrived <- parkedRequest{req.CorrelationID, func() { answerEmpty(req, reply) }}
}

func TestRequestsAreAnswered(t *testing.T) {
	ts := start(t, Config{}, nil)
	c := dial(t, ts.addr)
	for _, req := range []kmsg.Request{request(kmsg.Heartbeat, 0), request(kmsg.Heartbeat, 4), produce(1), request(kmsg.ApiVersions, 3)} {
		c.send(c.frame(req))
		body := c.expect(c.next)
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		want := resp.AppendTo(nil)
		if req.IsFlexible() && kmsg.Key(req.Key()) != kmsg.ApiVersions {
			want = append([]byte{0}, want...)
		}
		if !bytes.Equal(body, want) {
			t.Errorf("%s v%d: %x, want %x", kmsg.NameForKey(req.Key()), req.GetVersion(), body, want)
		}
	}
	m := ts.Metrics()
	if n := m.Keys[kmsg.Heartbeat].Requests.Value(); n != 2 {
		t.Errorf("%d heartbeats counted, want 2", n)
	}
	if in := m.BytesIn.Value(); in < 100 {
		t.Errorf("%d bytes in counted", in)
	}
	awaitTrue(t, "the bytes of all answers are counted", func() bool { return m.BytesOut.Value() > 40 }) // after they are written
}

// Rule 9: answers go out in request order, even when later work is done first.
func TestRule09AnswersInRequestOrder(t *testing.T) {
	parked := newParking(kmsg.Fetch)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	c.send(append(c.frame(request(kmsg.Fetch, 12)), c.frame(request(kmsg.Metadata, 12))...))
	fetch := <-parked.arrived
	if n := ts.Metrics().Keys[kmsg.Metadata].Requests.Value(); n != 0 {
		t.Error("Metadata was handled before the Fetch in front of it was answered")
	}
	fetch.answer()
	c.expect(1)
	c.expect(2)
}

func TestProduceOverlapsInRequestOrder(t *testing.T) {
	parked := newParking(kmsg.Produce)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	var all []byte
	for range 5 {
		all = append(all, c.frame(produce(-1))...)
	}
	c.send(append(all, c.frame(request(kmsg.Heartbeat, 4))...))
	var waiting []parkedRequest
	for range 5 { // all five are handled before any is answered
		waiting = append(waiting, <-parked.arrived)
	}
	if n := ts.Metrics().Keys[kmsg.Heartbeat].Requests.Value(); n != 0 {
		t.Error("a Heartbeat was handled before the Produces in front of it were answered")
	}
	for _, i := range []int{3, 1, 4, 0, 2} {
		waiting[i].answer()
	}
	for id := int32(1); id <= 6; id++ {
		c.expect(id)
	}
}

// What overlaps does so among its own kind: a Produce never starts before the commits in front of it are answered, nor a commit before
// the Produces are.
func TestOnlyRequestsOfOneKeyOverlap(t *testing.T) {
	parked := newParking(kmsg.Produce, kmsg.OffsetCommit)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	count := func(key kmsg.Key) int64 { return ts.Metrics().Keys[key].Requests.Value() }
	var all []byte
	for _, r := range []kmsg.Request{
		request(kmsg.OffsetCommit, 8), request(kmsg.OffsetCommit, 8), produce(-1), produce(-1), request(kmsg.OffsetCommit, 8),
	} {
		all = append(all, c.frame(r)...)
	}
	c.send(all)
	first, second := <-parked.arrived, <-parked.arrived
	second.answer()
	if n := count(kmsg.Produce); n != 0 {
		t.Errorf("%d Produces were handled before the commits in front of them were answered", n)
	}
	first.answer()
	c.expect(1)
	c.expect(2)
	first, second = <-parked.arrived, <-parked.arrived
	if n := count(kmsg.OffsetCommit); n != 2 {
		t.Errorf("%d commits were handled, want 2 before the Produces in front of the third are answered", n)
	}
	first.answer()
	second.answer()
	c.expect(3)
	c.expect(4)
	(<-parked.arrived).answer()
	c.expect(5)
}

// What was decoded of a request that overlaps counts until it is answered, not until the client has taken the answers before it: else a
// connection could have 64 times what one request may hold.
func TestOverlappingRequestsCountUntilAnswered(t *testing.T) {
	const size = 20 * 30_000
	parked := newParking(kmsg.OffsetCommit)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	big := request(kmsg.OffsetCommit, 8).(*kmsg.OffsetCommitRequest)
	for range 20 {
		big.Topics = append(big.Topics, kmsg.OffsetCommitRequestTopic{Topic: strings.Repeat("t", 30_000)})
	}
	// After a small one in whose packet more has come, the reader does not wait for answers.
	c.send(slices.Concat(c.frame(request(kmsg.OffsetCommit, 8)), c.frame(big), c.frame(big)))
	small, first, second := <-parked.arrived, <-parked.arrived, <-parked.arrived
	awaitTrue(t, "the frames are dropped, and the requests count", func() bool { return ts.BytesInFlight() >= 2*size })
	second.answer()
	awaitTrue(t, "the answered one does not count, though its answer waits", func() bool { n := ts.BytesInFlight(); return n >= size && n < 4*size })
	first.answer()
	awaitTrue(t, "none of them counts", func() bool { return ts.BytesInFlight() < size })
	small.answer()
	for id := range int32(3) {
		c.expect(id + 1)
	}
}

func TestAtMost64RequestsAreUnanswered(t *testing.T) {
	parked := newParking(kmsg.Produce)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	for range 100 {
		c.send(c.frame(produce(-1)))
	}
	var waiting []parkedRequest
	for range unansweredMax {
		waiting = append(waiting, <-parked.arrived)
	}
	waiting[0].answer()
	c.expect(1)
	waiting = append(waiting[1:], <-parked.arrived)
	if n := ts.Metrics().Keys[kmsg.Produce].Requests.Value(); n != unansweredMax+1 {
		t.Errorf("%d requests were handled with one answered, want %d", n, unansweredMax+1)
	}
	for id := int32(2); id <= 100; id++ {
		waiting[0].answer()
		c.expect(id)
		if waiting = waiting[1:]; id <= 100-unansweredMax {
			waiting = append(waiting, <-parked.arrived)
		}
	}
}

// Rule 10: acks=0 gets no answer, and after an error the connection is closed.
func TestRule10NoAnswerToAcks0(t *testing.T) {
	failing := false
	ts := start(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		if kmsg.Key(req.Key) != kmsg.Produce {
			answerEmpty(req, reply)
			return
		}
		r := req.Response()
		r.None, r.Close = true, failing
		reply(r)
	})
	c := dial(t, ts.addr)
	c.send(append(c.frame(produce(0)), c.frame(request(kmsg.Metadata, 12))...))
	c.expect(2)
	c.send(append(c.frame(produce(0)), c.frame(produce(0))...))
	c.send(c.frame(request(kmsg.Metadata, 12)))
	c.expect(5)
	failing = true
	c.send(c.frame(produce(0)))
	c.expectClosed()
}

// Rule 6: a version that is not served ends the connection, with one line that names what an operator looks for.
func TestRule06UnsupportedVersionCloses(t *testing.T) {
	for _, req := range []kmsg.Request{request(kmsg.Produce, 0), request(kmsg.Produce, 2), request(kmsg.OffsetDelete, 0)} {
		ts := start(t, Config{}, nil)
		c := dial(t, ts.addr)
		c.send(c.frame(req))
		c.expectClosed()
		lines := ts.log.lines()
		if n := ts.Metrics().Unsupported.Value(); n != 1 || len(lines) != 1 {
			t.Errorf("%d counted, log %q; want one of each", n, lines)
		}
		for _, part := range []string{"api=" + kmsg.NameForKey(req.Key()), "version=", "client.id=tester", c.LocalAddr().String()} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("log line %q lacks %q", lines[0], part)
			}
		}
	}
}

func TestPanicIsContained(t *testing.T) {
	ts := start(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		if kmsg.Key(req.Key) == kmsg.Metadata {
			panic("a bug")
		}
		r := req.Response()
		r.Body = (*kmsg.ProduceResponse)(nil) // panics when it is encoded
		reply(r)
	})
	other := dial(t, ts.addr)
	for i, req := range []kmsg.Request{request(kmsg.Metadata, 1), produce(1)} {
		c := dial(t, ts.addr)
		c.send(c.frame(req))
		c.expectClosed()
		if n := ts.Metrics().Panics.Value(); n != int64(i+1) {
			t.Errorf("%d panics counted, want %d", n, i+1)
		}
	}
	other.send(other.frame(request(kmsg.Heartbeat, 0)))
	other.expect(1)
}

func TestReleaseIsCalledOnce(t *testing.T) {
	var mu sync.Mutex
	released := map[int32]int{}
	var late []func()
	ts := start(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		id := req.CorrelationID
		answer := func() {
			r := req.Response()
			r.Head = append(r.Head, make([]byte, 10)...)
			r.Parts = append(r.Parts, wire.Part{Bytes: make([]byte, 40_000)})
			r.Release = func() {
				mu.Lock()
				defer mu.Unlock()
				released[id]++
			}
			reply(r)
		}
		if id%2 == 1 {
			answer()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		late = append(late, answer)
	})
	c := dial(t, ts.addr)
	for range 6 {
		c.send(c.frame(produce(1)))
	}
	c.expect(1)
	awaitTrue(t, "three requests are parked", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(late) == 3
	})
	late[0]()
	c.expect(2)
	c.expect(3)
	if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil { // Close resets the connection
		t.Fatal(err)
	}
	_ = c.Close() // 4 is parked, 5 is answered behind it, 6 is parked
	awaitTrue(t, "the connection has ended", func() bool { return ts.Metrics().Connections.Value() == 0 })
	late[1]()
	late[2]()
	mu.Lock()
	defer mu.Unlock()
	for id := int32(1); id <= 6; id++ {
		if released[id] != 1 {
			t.Errorf("answer %d was released %d times", id, released[id])
		}
	}
}

func TestConnectionsPerAddress(t *testing.T) {
	ts := start(t, Config{Limits: Limits{PerIP: 2}}, nil)
	a, b := dial(t, ts.addr), dial(t, ts.addr)
	for _, c := range []*client{a, b} {
		c.send(c.frame(request(kmsg.Heartbeat, 0)))
		c.expect(1)
	}
	dial(t, ts.addr).expectClosed()
	if n := ts.Metrics().ConnectionsRefused.Value(); n != 1 {
		t.Errorf("%d connections refused, want 1", n)
	}
	_ = a.Close()
	awaitTrue(t, "the first connection has ended", func() bool { return ts.Metrics().Connections.Value() == 1 })
	again := dial(t, ts.addr)
	again.send(again.frame(request(kmsg.Heartbeat, 0)))
	again.expect(1)
}

func TestConnectionsPerAddressOverride(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	served := func(c Config) bool {
		conn := dial(t, start(t, c, nil).addr)
		conn.send(conn.frame(request(kmsg.Heartbeat, 0)))
		_, _, err := conn.tryReceive()
		return err == nil
	}
	if !served(Config{Limits: Limits{PerIP: -1, ByIP: map[netip.Addr]int{loopback: 1}}}) {
		t.Error("an address with an override is refused")
	}
	if served(Config{Limits: Limits{ByIP: map[netip.Addr]int{loopback: 0}}}) {
		t.Error("an address whose override is 0 is served")
	}
	if served(Config{Limits: Limits{PerIP: -1}}) {
		t.Error("an address is served where none is allowed")
	}
}

func TestConnectionsMaxLetsOthersWait(t *testing.T) {
	ts := start(t, Config{Limits: Limits{Connections: 1}}, nil)
	a := dial(t, ts.addr)
	a.send(a.frame(request(kmsg.Heartbeat, 0)))
	a.expect(1)
	b := dial(t, ts.addr) // in the listener's queue
	b.send(b.frame(request(kmsg.Heartbeat, 0)))
	if n := ts.Metrics().ConnectionsAccepted.Value(); n != 1 {
		t.Errorf("%d connections accepted, want 1", n)
	}
	_ = a.Close()
	b.expect(1)
}

// TestLimitsMayChange, and all listeners learn of room that is there again.
func TestLimitsMayChange(t *testing.T) {
	ts := start(t, Config{Limits: Limits{Connections: 1}}, nil)
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := dial(t, ts.addr)
	a.send(a.frame(request(kmsg.Heartbeat, 0)))
	a.expect(1)
	ts.Serve(Listener{Listener: second, Name: "SECOND"}) // finds no room
	b, c := dial(t, ts.addr), dial(t, second.Addr().String())
	for _, waits := range []*client{b, c} {
		waits.send(waits.frame(request(kmsg.Heartbeat, 0)))
	}
	ts.SetLimits(Limits{Connections: 3})
	b.expect(1)
	c.expect(1)
	ts.SetLimits(Limits{PerIP: 3})
	dial(t, ts.addr).expectClosed()
}

// TestOneListenerIsFull: others go on, and what ends on one wakes who waits on another.
func TestOneListenerIsFull(t *testing.T) {
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ts := start(t, Config{Limits: Limits{Connections: 3, ByListener: map[string]int{"SECOND": 1}}}, nil)
	ts.Serve(Listener{Listener: second, Name: "SECOND"})
	ask := func(address string) *client {
		c := dial(t, address)
		c.send(c.frame(request(kmsg.Heartbeat, 0)))
		return c
	}
	a := ask(second.Addr().String())
	a.expect(1)
	b := ask(second.Addr().String())
	awaitTrue(t, "the server says that the listener is full", func() bool {
		return strings.Contains(strings.Join(ts.log.lines(), ""), "listener.name.second.max.connections reached")
	})
	c, d := ask(ts.addr), ask(ts.addr)
	c.expect(1)
	d.expect(1)
	e := ask(ts.addr) // the server is full
	_ = c.Close()
	e.expect(1)
	_ = a.Close()
	b.expect(1)
}

// TestConnectionsMaxHoldsUnderLoad: clients come by two listeners and go, all at once; there are never more than may be, and each is
// served in the end.
func TestConnectionsMaxHoldsUnderLoad(t *testing.T) {
	const most, clients, times = 3, 16, 20
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var now, seen atomic.Int64
	ts := start(t, Config{
		Limits: Limits{Connections: most},
		Admit: func(netip.Addr) time.Duration { // asked before each is counted
			seen.Store(max(seen.Load(), now.Add(1)))
			return 0
		},
		Gone: func(uint64) { now.Add(-1) },
	}, nil)
	ts.Serve(Listener{Listener: second, Name: "SECOND"})
	var all sync.WaitGroup
	for i := range clients {
		address := []string{ts.addr, second.Addr().String()}[i%2]
		all.Go(func() {
			for range times {
				c := dial(t, address)
				c.send(c.frame(request(kmsg.Heartbeat, 0)))
				c.expect(1)
				_ = c.Close()
			}
		})
	}
	all.Wait()
	if n := seen.Load(); n != most {
		t.Errorf("%d connections at once, want %d", n, most)
	}
}

// TestNoConnectionsAllowed: whoever comes waits until some are.
func TestNoConnectionsAllowed(t *testing.T) {
	ts := start(t, Config{Limits: Limits{Connections: -1}}, nil)
	a := dial(t, ts.addr)
	a.send(a.frame(request(kmsg.Heartbeat, 0)))
	awaitTrue(t, "the server says that nobody may come", func() bool {
		return strings.Contains(strings.Join(ts.log.lines(), ""), "max.connections reached")
	})
	ts.SetLimits(Limits{Connections: 1})
	a.expect(1)
}

func TestShutdownAnswersWhatWasRead(t *testing.T) {
	parked := newParking(kmsg.JoinGroup)
	ts := start(t, Config{}, parked.handle)
	c, idle := dial(t, ts.addr), dial(t, ts.addr)
	c.send(c.frame(request(kmsg.JoinGroup, 5)))
	join := <-parked.arrived
	stopped := make(chan error)
	go func() { stopped <- ts.Shutdown(context.Background()) }()
	idle.expectClosed()
	select {
	case err := <-stopped:
		t.Fatalf("stopped with an answer outstanding: %v", err)
	default:
	}
	join.answer()
	c.expect(1)
	c.expectClosed()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", ts.addr); err == nil {
		t.Error("a stopped server accepts connections")
	}
}

func TestShutdownEndsAtItsDeadline(t *testing.T) {
	parked := newParking(kmsg.JoinGroup)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	c.send(c.frame(request(kmsg.JoinGroup, 5)))
	join := <-parked.arrived
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := ts.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
	c.expectClosed()
	join.answer() // too late, and harmless
}

// A client that closes its side for writing still gets the answers to what it sent, as from Kafka.
func TestHalfClosedClientGetsItsAnswers(t *testing.T) {
	parked := newParking(kmsg.Produce)
	ts := start(t, Config{}, parked.handle)
	c := dial(t, ts.addr)
	c.send(c.frame(produce(-1)))
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	(<-parked.arrived).answer()
	c.expect(1)
	c.expectClosed()
}
