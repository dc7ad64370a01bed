package api

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/server"
	"github.com/raftsman/raftsman/internal/vfs"
)

// client is one connection, one request after the other.
type client struct {
	testing.TB
	conn net.Conn
	in   *bufio.Reader
	buf  []byte
	id   int32
}

// serve puts a server in front of a node on disk and returns its address.
func serve(t testing.TB) (*node, string) {
	t.Helper()
	n := newNodeOn(t, vfs.OS(), t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Config{}, n.api)
	s.Serve(server.Listener{Listener: l, Name: "PLAINTEXT"})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return n, l.Addr().String()
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{TB: t, conn: conn, in: bufio.NewReader(conn)}
}

// write sends a request without waiting.
func (c *client) write(req kmsg.Request) {
	c.Helper()
	c.id++
	if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		c.Fatal(err)
	}
	c.buf = kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(c.buf[:0], req, c.id)
	if _, err := c.conn.Write(c.buf); err != nil {
		c.Fatal(err)
	}
}

// read receives the next answer's body.
func (c *client) read(req kmsg.Request) []byte {
	c.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		c.Fatal(err)
	}
	size := int(binary.BigEndian.Uint32(head[:4])) - 4
	c.buf = slices.Grow(c.buf[:0], size)[:size]
	if _, err := io.ReadFull(c.in, c.buf); err != nil {
		c.Fatal(err)
	}
	if req.IsFlexible() {
		return c.buf[1:]
	}
	return c.buf
}

func (c *client) call(req kmsg.Request) kmsg.Response {
	c.Helper()
	c.write(req)
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(c.read(req)); err != nil {
		c.Fatal(err)
	}
	return resp
}

func TestRule10And9OverTCP(t *testing.T) {
	n, address := serve(t)
	id := n.topic("t", 1)
	c := dial(t, address)
	c.write(produceRequest(9, 0, "t", id, 0, batchOf("a")))
	for i := range 5 {
		c.write(produceRequest(9, -1, "t", id, 0, batchOf("b", "c")))
		if i == 2 {
			c.write(fetchRequest(12, "t", id, 0, 0))
		}
	}
	base := int64(1)
	for i := range 5 {
		req := produceRequest(9, -1, "t", id, 0, nil)
		resp := req.ResponseKind()
		resp.SetVersion(9)
		if err := resp.ReadFrom(c.read(req)); err != nil {
			t.Fatal(err)
		}
		if row := produced(resp); row.BaseOffset != base || row.ErrorCode != 0 {
			t.Errorf("answer %d: %+v, want offset %d", i, row, base)
		}
		base += 2
		if i == 2 {
			fetch := fetchRequest(12, "t", id, 0, 0)
			got := fetch.ResponseKind()
			got.SetVersion(12)
			if err := got.ReadFrom(c.read(fetch)); err != nil {
				t.Fatal(err)
			}
			if row := fetchedRow(got); row.HighWatermark != 7 || len(row.RecordBatches) == 0 {
				t.Errorf("fetch after three produces: high watermark %d, want 7", row.HighWatermark)
			}
		}
	}
	if s := c.call(produceRequest(9, -1, "t", kafka.TopicID{}, 0, batchOf("d"))); produced(s).BaseOffset != 11 {
		t.Errorf("%+v", produced(s))
	}
}

// BenchmarkProduceToConsume measures how long one record takes from its producer to a consumer that waits for it, flushed to
// disk on the way.
func BenchmarkProduceToConsume(b *testing.B) {
	n, address := serve(b)
	id := n.topic("t", 1)
	producer, consumer := dial(b, address), dial(b, address)
	records := batchOf(strings.Repeat("x", 100))
	took := make([]time.Duration, 0, b.N)
	var offset int64
	for b.Loop() {
		start := time.Now()
		fetch := fetchRequest(12, "t", id, 0, offset)
		fetch.MaxWaitMillis = 10_000
		consumer.write(fetch)
		producer.write(produceRequest(9, -1, "t", id, 0, records))
		consumer.read(fetch)
		took = append(took, time.Since(start))
		producer.read(produceRequest(9, -1, "t", id, 0, nil))
		offset++
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
