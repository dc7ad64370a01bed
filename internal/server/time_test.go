package server

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

// inFakeTime runs the test in a bubble, with a server on an in-memory listener.
func inFakeTime(t *testing.T, c Config, handle func(*wire.Request, func(*wire.Response)), test func(t *testing.T, s *Server, dial func() *client)) {
	synctest.Test(t, func(t *testing.T) {
		s := New(c, &fakeHandler{handle})
		l := newMemoryListener()
		s.Serve(Listener{Listener: l, Name: "MEMORY"})
		test(t, s, func() *client { return newClient(t, l.dial()) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// closesWithin returns how long the server kept the connection open.
func closesWithin(t *testing.T, c *client) time.Duration {
	t.Helper()
	began := time.Now()
	if n, err := io.Copy(io.Discard, c.in); n > 0 || err != nil {
		t.Fatalf("%d bytes, error %v; want the connection closed", n, err)
	}
	return time.Since(began)
}

func TestIdleConnectionIsClosed(t *testing.T) {
	inFakeTime(t, Config{}, nil, func(t *testing.T, s *Server, dial func() *client) {
		c := dial()
		for range 3 { // each request begins the time anew
			time.Sleep(9 * time.Minute)
			c.send(c.frame(request(kmsg.Heartbeat, 0)))
			c.receive()
		}
		if d := closesWithin(t, c); d < 10*time.Minute || d > 10*time.Minute+3*time.Second {
			t.Errorf("an idle connection was closed after %v, want 10 min", d)
		}
		if n := s.Metrics().ConnectionsIdle.Value(); n != 1 {
			t.Errorf("%d idle connections counted", n)
		}
	})
}

func TestConnectionIsNotIdleWhileItsRequestIsParked(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.Produce} {
		parked := newParking(key)
		inFakeTime(t, Config{}, parked.handle, func(t *testing.T, _ *Server, dial func() *client) {
			c := dial()
			c.send(c.frame(request(key, 3)))
			r := <-parked.arrived
			time.Sleep(time.Hour)
			r.answer()
			c.receive()
		})
	}
}

// A client that is made to wait for longer than it may be idle is not idle, whether it sends meanwhile or not.
func TestAMutedConnectionIsNotIdle(t *testing.T) {
	inFakeTime(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		if req.Key == int16(kmsg.Metadata) {
			req.Peer.Mute(time.Hour)
		}
		answerEmpty(req, reply)
	}, func(t *testing.T, _ *Server, dial func() *client) {
		listens, deaf := dial(), dial()
		for _, c := range []*client{listens, deaf} {
			c.send(c.frame(request(kmsg.Metadata, 9)))
			c.expect(1)
		}
		began := time.Now()
		deaf.send(deaf.frame(request(kmsg.Heartbeat, 0)))
		deaf.expect(2)
		if took := time.Since(began); took < time.Hour {
			t.Errorf("read after %v, want an hour", took)
		}
		listens.send(listens.frame(request(kmsg.Heartbeat, 0)))
		listens.expect(2)
		if d := closesWithin(t, listens); d < 10*time.Minute || d > 10*time.Minute+3*time.Second {
			t.Errorf("idle after its wait, it was closed after %v, want 10 min", d)
		}
	})
}

func TestSlowFrameIsClosed(t *testing.T) {
	inFakeTime(t, Config{}, nil, func(t *testing.T, s *Server, dial func() *client) {
		drip := func(c *client, frame []byte, every time.Duration) {
			go func() {
				for i := range frame {
					time.Sleep(every)
					if _, err := c.Write(frame[i : i+1]); err != nil {
						return
					}
				}
			}()
		}
		slow := dial()
		drip(slow, slow.frame(request(kmsg.Heartbeat, 0)), 5*time.Second)
		if d := closesWithin(t, slow) - 5*time.Second; d < 30*time.Second || d > 33*time.Second {
			t.Errorf("a frame of one byte every 5 s was given %v from its first byte, want 30 s", d)
		}
		if n := s.Metrics().ConnectionsSlow.Value(); n != 1 {
			t.Errorf("%d slow connections counted", n)
		}
		honest := dial()
		drip(honest, honest.frame(request(kmsg.Heartbeat, 0)), 500*time.Millisecond)
		honest.receive()
	})
}

// A large frame gets time by its size: 64 KiB a second are enough.
func TestLargeFrameGetsTimeByItsSize(t *testing.T) {
	inFakeTime(t, Config{}, decoding(t), func(_ *testing.T, _ *Server, dial func() *client) {
		c := dial()
		p := produce(1).(*kmsg.ProduceRequest)
		topic := kmsg.NewProduceRequestTopic()
		topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 10<<20)}}
		p.Topics = append(p.Topics, topic)
		for frame := c.frame(p); len(frame) > 0; time.Sleep(time.Second) {
			n := min(len(frame), 80<<10)
			c.send(frame[:n])
			frame = frame[n:]
		}
		c.receive()
	})
}

func TestClientThatDoesNotReadIsClosed(t *testing.T) {
	for _, c := range []struct {
		name string
		part wire.Part
		want time.Duration
	}{
		{"memory", wire.Part{Bytes: make([]byte, 1<<20)}, time.Minute},
		{"file", wire.Part{File: wire.FileRange{File: plainFile{strings.NewReader(strings.Repeat("x", 1<<20))}, Len: 1 << 20}}, 10 * time.Minute},
	} {
		inFakeTime(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
			r := req.Response()
			r.Parts = append(r.Parts, c.part)
			reply(r)
		}, func(t *testing.T, s *Server, dial func() *client) {
			conn := dial()
			conn.send(conn.frame(request(kmsg.Fetch, 4)))
			began := time.Now()
			for s.Metrics().ConnectionsSlow.Value() == 0 {
				time.Sleep(time.Second)
			}
			if d := time.Since(began); d < c.want || d > c.want+4*time.Second {
				t.Errorf("%s: closed after %v, want %v", c.name, d, c.want)
			}
		})
	}
}

func TestShutdownOfIdleServerIsImmediate(t *testing.T) {
	inFakeTime(t, Config{}, nil, func(t *testing.T, s *Server, dial func() *client) {
		c := dial()
		c.send(c.frame(request(kmsg.Heartbeat, 0)))
		c.receive()
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("it took %v, error %v", time.Since(began), err)
		}
	})
}

// A client that goes away while its request is parked is noticed before the request's own time is over.
func TestGoneClientOfParkedRequestIsNoticed(t *testing.T) {
	parked := newParking(kmsg.JoinGroup)
	ts := start(t, Config{WriteTimeout: 80 * time.Millisecond}, parked.handle) // so that the sweep comes often
	c := dial(t, ts.addr)
	c.send(c.frame(request(kmsg.JoinGroup, 5)))
	r := <-parked.arrived
	_ = c.Close()
	ts.now.Add(1 << 20) // as if hours had passed
	awaitTrue(t, "the connection has ended", func() bool { return ts.Metrics().Connections.Value() == 0 })
	r.answer()
}

func TestLogLimitSaysWhatItHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := &lineLog{}
		log := slog.New(slog.NewTextHandler(lines, nil))
		var l logLimit
		for range 100 {
			l.log(log, slog.LevelWarn, "noise")
		}
		time.Sleep(logInterval)
		l.log(log, slog.LevelWarn, "noise")
		got := lines.lines()
		if len(got) != logLinesMax+1 || !strings.HasSuffix(got[logLinesMax], "similar=95") {
			t.Errorf("%d lines, the last %q; want %d, the last with similar=95", len(got), got[len(got)-1], logLinesMax+1)
		}
	})
}
