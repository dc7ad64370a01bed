package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

// decoding answers every request after decoding it as the API does.
func decoding(t testing.TB) func(*wire.Request, func(*wire.Response)) {
	return func(req *wire.Request, reply func(*wire.Response)) {
		var err error
		switch kmsg.Key(req.Key) {
		case kmsg.Produce:
			var p wire.ProduceRequest
			err = p.Decode(req.Version, req.Body, &req.Peer.Names)
		case kmsg.Fetch:
			var f wire.FetchRequest
			err = f.Decode(req.Version, req.Body, &req.Peer.Names)
		case kmsg.ApiVersions: // answered at any version
		default:
			err = wire.DecodeKmsg(req, kmsg.RequestForKey(req.Key))
		}
		if err != nil {
			t.Errorf("Measure let pass what can't be decoded: %v", err)
		}
		answerEmpty(req, reply)
	}
}

// framed puts a length in front.
func framed(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

// header begins a request by hand.
func header(key kmsg.Key, version int16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 7, 0, 1, 'x')
	if wire.Flexible(int16(key), version) {
		b = append(b, 0)
	}
	return append(b, body...)
}

// elements is a body with an array of n elements of e in front.
func elements(n uint32, e string, count int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, n), bytes.Repeat([]byte(e), count)...)
}

// Rules 11 and 12, and the list of bad input: each ends the connection without an answer, says why in one line, and
// takes no memory to speak of beyond the bytes that arrived.
func TestRule11Rule12HostileInputClosesAndMemoryStaysFlat(t *testing.T) {
	million := 1_000_000
	for _, c := range []struct {
		name string
		sent []byte
		line string
	}{
		{"HTTP", []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP"},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), "TLS"},
		{"length of zero", []byte{0, 0, 0, 0, 1, 1, 1, 1}, "length"},
		{"negative length", []byte{0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1}, "length"},
		{"2 GB length", []byte{0x7f, 0xff, 0xff, 0xff, 1, 1, 1, 1}, "length"},
		{"length above the limit", binary.BigEndian.AppendUint32(nil, 100<<20+1), "length"},
		{"cut header", framed([]byte{0, 3, 0, 1}), "can't be read"},
		{"key 200", framed(header(200, 1)), "not served"},
		{"key -1", framed(header(-1, 1)), "can't be read"},
		{"version 99", framed(header(kmsg.Metadata, 99)), "not served"},
		{"version -1", framed(header(kmsg.Metadata, -1)), "not served"},
		{"cut body", framed(header(kmsg.Metadata, 1, 0, 0, 0, 1, 0, 9, 'a')), "can't be read"},
		{"array of 2^31-1 in 40 bytes", framed(header(kmsg.Metadata, 1, elements(math.MaxInt32, "ab", 10)...)), "can't be read"},
		{"compact array of 2^32-1", framed(header(kmsg.Metadata, 9, 0xff, 0xff, 0xff, 0xff, 0x0f)), "can't be read"},
		{"four billion tags", framed(header(kmsg.ApiVersions, 3, 2, 'a', 2, '1', 0xff, 0xff, 0xff, 0xff, 0x0f)), "can't be read"},
		{"a million topics", framed(header(kmsg.Metadata, 1, elements(uint32(2*million), "\x00\x00", 2*million)...)), "too much memory"},
		{"a million protocols", framed(header(kmsg.JoinGroup, 0, append([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
			elements(uint32(million), "\x00\x00\x00\x00\x00\x00", million)...)...)), "too much memory"},
		{"a million topics produced to", framed(header(kmsg.Produce, 3, append([]byte("\xff\xff\x00\x01\x00\x00\x00\x00"),
			elements(uint32(million), "\x00\x00\x00\x00\x00\x00", million)...)...)), "too much memory"},
		{"a million partitions fetched", framed(header(kmsg.Fetch, 4, append(append(make([]byte, 17), "\x00\x00\x00\x01\x00\x01t"...),
			elements(uint32(million), strings.Repeat("\x00", 16), million)...)...)), "too much memory"},
		{"a million unknown tags", framed(header(kmsg.Heartbeat, 4, append([]byte{1, 0, 0, 0, 0, 1, 0},
			append(binary.AppendUvarint(nil, uint64(million)), bytes.Repeat([]byte{99, 0}, million)...)...)...)), "too much memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts := start(t, Config{}, decoding(t))
			warm := dial(t, ts.addr)
			warm.send(warm.frame(request(kmsg.Heartbeat, 0)))
			warm.expect(1)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			bad := dial(t, ts.addr)
			go bad.Write(c.sent) //nolint:errcheck // the server may close before all was written
			bad.expectClosed()
			runtime.ReadMemStats(&after)
			const some = 512 << 10
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(5*len(c.sent))+some {
				t.Errorf("%d bytes sent made %d bytes of allocations", len(c.sent), used)
			}
			if lines := ts.log.lines(); len(lines) != 1 || !strings.Contains(lines[0], c.line) {
				t.Errorf("log %q, want one line with %q", lines, c.line)
			}
			warm.send(warm.frame(request(kmsg.Heartbeat, 0)))
			warm.expect(2)
		})
	}
}

// What is large but honest passes: ten thousand topics, a megabyte of records.
func TestLargeHonestRequestsPass(t *testing.T) {
	ts := start(t, Config{}, decoding(t))
	c := dial(t, ts.addr)
	metadata := request(kmsg.Metadata, 12).(*kmsg.MetadataRequest)
	for range 10_000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr("a-topic-of-some-length")
		metadata.Topics = append(metadata.Topics, topic)
	}
	p := produce(1).(*kmsg.ProduceRequest)
	topic := kmsg.NewProduceRequestTopic()
	topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 20<<20)}}
	p.Topics = append(p.Topics, topic)
	c.send(c.frame(metadata))
	c.expect(1)
	c.send(c.frame(p))
	c.expect(2)
}

// A frame that claims much and sends little occupies little.
func TestMemoryGrowsOnlyWithBytesReceived(t *testing.T) {
	ts := start(t, Config{}, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		c := dial(t, ts.addr)
		c.send(append(binary.BigEndian.AppendUint32(nil, 100<<20), header(kmsg.Produce, 9)...))
	}
	awaitTrue(t, "a hundred frames have begun", func() bool { return ts.BytesInFlight() == 100*(64<<10) })
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 100*(80<<10) {
		t.Errorf("a hundred frames of 100 MiB that had sent 20 bytes occupy %d bytes", used)
	}
}

func TestBudgetHoldsReadersBack(t *testing.T) {
	const frame = 1 << 20
	parked := newParking(kmsg.Fetch)
	ts := start(t, Config{BudgetBytes: 8 * frame}, parked.handle)
	big := func() []byte { // a Fetch that forgets topics of the longest names, a megabyte in all, decoded into as much again
		const topics, name = 32, frame/32 - 10
		body := append(make([]byte, 25), 1, topics+1)
		for range topics {
			body = append(binary.AppendUvarint(body, name+1), make([]byte, name)...)
			body = append(body, 1, 0)
		}
		return header(kmsg.Fetch, 12, append(body, 1, 0)...)
	}
	before := ts.BytesInFlight()
	for range 10 {
		c := dial(t, ts.addr)
		go c.Write(framed(big())) //nolint:errcheck // the test ends before all was taken
	}
	first := <-parked.arrived
	awaitTrue(t, "the others wait for memory", func() bool { return ts.BudgetWaits() >= 8 })
	if used := ts.BytesInFlight(); used-before > 2*frame+2*frame+frame {
		t.Errorf("%d bytes in flight with a budget of %d for such requests and one overdraft", used, 2*frame)
	}
	first.answer()
	for range 9 {
		(<-parked.arrived).answer()
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 1})
	f.Add(framed(header(kmsg.Metadata, 1, elements(math.MaxInt32, "ab", 10)...)))
	c := &client{}
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.Metadata, kmsg.JoinGroup, kmsg.ApiVersions, kmsg.Heartbeat} {
		f.Add(append(c.frame(request(key, 3)), c.frame(request(key, 4))...))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := New(Config{FrameTimeout: time.Minute}, &fakeHandler{decoding(t)})
		l := newMemoryListener()
		s.Serve(Listener{Listener: l, Name: "FUZZ"})
		nc := l.dial()
		go func() {
			_, _ = nc.Write(sent)
			_ = nc.Close()
		}()
		_, _ = io.Copy(io.Discard, nc)
		awaitTrue(t, "the connection has ended", func() bool { return s.Metrics().Connections.Value() == 0 })
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if used := s.BytesInFlight(); used != 0 {
			t.Errorf("%d bytes of the budget are still in use", used)
		}
		if n := s.Metrics().Panics.Value(); n > 0 {
			t.Errorf("%d panics", n)
		}
	})
}

// memoryListener hands out net.Pipe connections, for tests in fake time.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
	case <-l.closed:
		_ = theirs.Close()
	}
	return ours
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error { close(l.closed); return nil }

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }
