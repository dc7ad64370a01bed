package server

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/wire"
)

// benchHandler handles Produce and Fetch as the API does, without a log behind it.
type benchHandler struct {
	fakeHandler
	produce wire.ProduceRequest
	fetch   wire.FetchRequest
	fetched wire.FetchResponse
	late    chan func(*wire.Response)
	lateReq chan *wire.Request
}

func (h *benchHandler) Handle(req *wire.Request, reply func(*wire.Response)) {
	switch kmsg.Key(req.Key) {
	case kmsg.Produce:
		if h.produce.Decode(req.Version, req.Body, &req.Peer.Names) != nil {
			panic("produce")
		}
		if h.late != nil {
			h.lateReq <- req
			h.late <- reply
			return
		}
		h.acknowledge(req, reply)
	case kmsg.Fetch:
		if h.fetch.Decode(req.Version, req.Body, &req.Peer.Names) != nil {
			panic("fetch")
		}
		r := req.Response()
		h.fetched.Encode(r, req.Version)
		reply(r)
	}
}

func (h *benchHandler) acknowledge(req *wire.Request, reply func(*wire.Response)) {
	r := req.Response()
	r.Head = append(r.Head, 0, 0, 0, 0, 0, 0, 0, 0)
	reply(r)
}

func benchmark(b *testing.B, h *benchHandler, req kmsg.Request, pipelined int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{}, h)
	s.Serve(Listener{Listener: l, Name: "BENCH"})
	defer s.Shutdown(b.Context()) //nolint:errcheck // the benchmark is over
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close() //nolint:errcheck // the benchmark is over
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
	in := make([]byte, 4<<20)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	window := make(chan struct{}, pipelined)
	go func() {
		for range b.N {
			window <- struct{}{}
			if _, err := nc.Write(frame); err != nil {
				return
			}
		}
	}()
	b.ResetTimer()
	for range b.N {
		if _, err := io.ReadFull(nc, in[:4]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(nc, in[:binary.BigEndian.Uint32(in)]); err != nil {
			b.Fatal(err)
		}
		<-window
	}
}

func benchProduce(n int) kmsg.Request {
	p := produce(-1).(*kmsg.ProduceRequest)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "orders"
	topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, n)}}
	p.Topics = append(p.Topics, topic)
	return p
}

func BenchmarkProduce(b *testing.B) {
	for name, n := range map[string]int{"200B": 200, "16KiB": 16 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) { benchmark(b, &benchHandler{}, benchProduce(n), 1) })
	}
	b.Run("200B/pipelined", func(b *testing.B) { benchmark(b, &benchHandler{}, benchProduce(200), 5) })
}

// BenchmarkProduceAnsweredLater has another goroutine answer, as the flusher does.
func BenchmarkProduceAnsweredLater(b *testing.B) {
	h := &benchHandler{late: make(chan func(*wire.Response), 100), lateReq: make(chan *wire.Request, 100)}
	go func() {
		for req := range h.lateReq {
			h.acknowledge(req, <-h.late)
		}
	}()
	defer close(h.lateReq)
	benchmark(b, h, benchProduce(200), 5)
}

func BenchmarkFetch(b *testing.B) {
	req := request(kmsg.Fetch, 12).(*kmsg.FetchRequest)
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = "orders", make([]kmsg.FetchRequestTopicPartition, 6)
	req.Topics = append(req.Topics, topic)
	file, content := randomFile(b, 2<<20)
	for name, parts := range map[string][]wire.Part{
		"empty":       nil,
		"memory-300B": {{Bytes: content[:300]}},
		"memory-1MiB": {{Bytes: content[:1<<20]}},
		"file-4KiB":   {{File: wire.FileRange{File: file, Len: 4 << 10}}},
		"file-32KiB":  {{File: wire.FileRange{File: file, Len: 32 << 10}}},
		"file-1MiB":   {{File: wire.FileRange{File: file, Len: 1 << 20}}},
	} {
		b.Run(name, func(b *testing.B) {
			h := &benchHandler{}
			row := wire.FailedFetch(0, kafka.None)
			row.Records = parts
			h.fetched.Topics = []wire.FetchedTopic{{Name: "orders", Partitions: []wire.FetchedPartition{row}}}
			benchmark(b, h, req, 1)
		})
	}
}
