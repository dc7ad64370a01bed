package server

import (
	"bufio"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/wire"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 takes a new one")

// shuffler answers in an order of its own, from goroutines of its own, and counts what it gave and what came back.
type shuffler struct {
	mu      sync.Mutex // guards what follows
	rng     *rand.Rand
	waiting []func()

	given, released atomic.Int64
}

// handle echoes the correlation id. acks=0 gets no answer.
func (h *shuffler) handle(req *wire.Request, reply func(*wire.Response)) {
	none := kmsg.Key(req.Key) == kmsg.Produce && binary.BigEndian.Uint16(req.Body[1:]) == 0
	h.mu.Lock()
	size, late := h.rng.IntN(60_000), h.rng.IntN(3) > 0 && !none
	h.mu.Unlock()
	h.given.Add(1)
	answer := func() {
		r := req.Response()
		r.None = none
		r.Head = binary.BigEndian.AppendUint32(r.Head, uint32(req.CorrelationID))
		r.Parts = append(r.Parts, wire.Part{Bytes: make([]byte, size)})
		r.Release = func() { h.released.Add(1) }
		reply(r)
	}
	if !late {
		answer()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, answer)
}

// answerOne answers a request at random and returns false when none waits.
func (h *shuffler) answerOne() bool {
	h.mu.Lock()
	n := len(h.waiting)
	if n == 0 {
		h.mu.Unlock()
		return false
	}
	i := h.rng.IntN(n)
	answer := h.waiting[i]
	h.waiting[i] = h.waiting[n-1]
	h.waiting = h.waiting[:n-1]
	h.mu.Unlock()
	answer()
	return true
}

// TestManyConnectionsUnderLoad: pipelining clients, some of which vanish, against a budget that is too small for them all.
// Every answer arrives in order, everything is released once, and nothing is left in use.
func TestManyConnectionsUnderLoad(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with: go test ./internal/server -run TestManyConnectionsUnderLoad -seed %d", seed)
	h := &shuffler{rng: rand.New(rand.NewPCG(seed, 0))}
	ts := start(t, Config{BudgetBytes: 300 << 10}, h.handle)
	ending := make(chan struct{})
	var answering, clients sync.WaitGroup
	for range 3 {
		answering.Go(func() {
			for {
				if h.answerOne() {
					continue
				}
				select {
				case <-ending:
					return
				case <-time.After(100 * time.Microsecond):
				}
			}
		})
	}
	for i := range 12 {
		nc, err := net.Dial("tcp", ts.addr)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() { pipeline(t, nc, rand.New(rand.NewPCG(seed, uint64(i+1)))) })
	}
	clients.Wait()
	awaitTrue(t, "every connection has ended and every answer is released", func() bool {
		return ts.Metrics().Connections.Value() == 0 && h.released.Load() == h.given.Load()
	})
	close(ending)
	answering.Wait()
	for h.answerOne() {
	}
	if g, r := h.given.Load(), h.released.Load(); g != r || g == 0 {
		t.Errorf("%d answers given, %d released", g, r)
	}
}

// pipeline sends requests while it checks answers, and may leave in the middle.
func pipeline(t *testing.T, nc net.Conn, rng *rand.Rand) {
	defer nc.Close() //nolint:errcheck // the test looks at the server
	const requests = 150
	c := &client{t: t}
	var frames [][]byte
	var expected []int32
	for range requests {
		req := request(kmsg.Metadata, 1)
		if rng.IntN(4) > 0 {
			p := produce(int16(rng.IntN(3) - 1)).(*kmsg.ProduceRequest)
			topic := kmsg.NewProduceRequestTopic()
			topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, rng.IntN(1<<(4+rng.IntN(14))))}}
			p.Topics = append(p.Topics, topic)
			req = p
		}
		frames = append(frames, c.frame(req))
		if p, ok := req.(*kmsg.ProduceRequest); !ok || p.Acks != 0 {
			expected = append(expected, c.next)
		}
	}
	leaveAfter := len(expected)
	if rng.IntN(3) == 0 {
		leaveAfter = rng.IntN(len(expected))
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		for _, f := range frames {
			if _, err := nc.Write(f); err != nil {
				return // left
			}
		}
	})
	in := &client{t: t, in: bufio.NewReader(nc)}
	for _, want := range expected[:leaveAfter] {
		if id, body, err := in.tryReceive(); err != nil || id != want || int32(binary.BigEndian.Uint32(body[bodyAt(frames[want-1]):])) != want {
			t.Errorf("answer to %d, error %v; want to %d", id, err, want)
			break
		}
	}
	_ = nc.Close()
}

// bodyAt returns where an answer's body begins behind the correlation id: flexible answers have tags in their header.
func bodyAt(frame []byte) int {
	if wire.Flexible(int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))) {
		return 1
	}
	return 0
}

func TestInvariantViolationIsNotContained(t *testing.T) {
	ts := start(t, Config{}, nil)
	ours, theirs := net.Pipe()
	defer ours.Close() //nolint:errcheck // nothing was sent
	c := newConn(ts.Server, theirs, "TEST")
	defer func() {
		if _, ok := recover().(invariant.Violation); !ok {
			t.Error("a violated invariant was contained as a connection's own affair")
		}
	}()
	defer c.contain(nil)
	invariant.Check(false, "state is wrong")
}

func TestBudgetIsFairAndNeverStandsStill(t *testing.T) {
	b := newBudget(100)
	done := make(chan struct{})
	take := func(l *lease, n int64) chan bool {
		got := make(chan bool, 1)
		before := b.waits.Value()
		go func() { got <- l.take(n, done) }()
		awaitTrue(t, "it is granted or waits", func() bool { return len(got) > 0 || b.waits.Value() > before })
		return got
	}
	leases := make([]lease, 6)
	for i := range leases {
		leases[i].budget = b
	}
	granted := func(got chan bool) bool {
		select {
		case ok := <-got:
			return ok
		default:
			return false
		}
	}
	first, second := take(&leases[0], 60), take(&leases[1], 30)
	if !granted(first) || !granted(second) {
		t.Fatal("90 of 100 were not granted")
	}
	large, small := take(&leases[2], 50), take(&leases[3], 5)
	if granted(large) || granted(small) {
		t.Fatal("who comes later must not overtake who waits, nor the capacity be exceeded")
	}
	if !granted(take(&leases[0], 40)) { // holds bytes already: the one overdraft
		t.Fatal("a half-read frame must be able to go on")
	}
	growing := take(&leases[1], 20)
	if granted(growing) {
		t.Fatal("a second overdraft was granted")
	}
	leases[0].giveBack() // 100 given back: 30 in use
	if !<-large || !<-small {
		t.Fatal("who waited was not served")
	}
	if !<-growing {
		t.Fatal("the overdraft did not pass on")
	}
	huge := take(&leases[4], 1000)
	if granted(huge) {
		t.Fatal("1000 of 100 were granted beside others")
	}
	for i := range 4 {
		leases[i].giveBack()
	}
	if !<-huge {
		t.Fatal("the only one must be served, whatever it asks for")
	}
	waiting := take(&leases[5], 1)
	close(done)
	if <-waiting {
		t.Fatal("a grant after the connection was closed")
	}
	leases[4].giveBack()
	if b.inUse() != 0 || len(b.waiting) != 0 {
		t.Errorf("%d in use, %d waiting", b.inUse(), len(b.waiting))
	}
}

// BenchmarkConnection is what a new connection costs: opened, asked one thing, closed.
func BenchmarkConnection(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{}, &fakeHandler{})
	s.Serve(Listener{Listener: l, Name: "BENCH"})
	defer s.Shutdown(b.Context()) //nolint:errcheck // the benchmark is over
	for b.Loop() {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		c := newClient(b, nc)
		c.send(c.frame(request(kmsg.Heartbeat, 0)))
		c.expect(1)
		_ = nc.Close()
	}
}
