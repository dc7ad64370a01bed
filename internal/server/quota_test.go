package server

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

// A muted connection gets its answer at once, and its next request is read when the time is over; the longest of several times counts.
func TestAMutedConnectionIsNotRead(t *testing.T) {
	inFakeTime(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		req.Peer.Mute(time.Minute)
		req.Peer.Mute(time.Millisecond)
		answerEmpty(req, reply)
	}, func(t *testing.T, _ *Server, dial func() *client) {
		c := dial()
		began := time.Now()
		c.send(c.frame(request(kmsg.Metadata, 9)))
		c.expect(1)
		if since := time.Since(began); since != 0 {
			t.Errorf("the answer took %v: it is not to wait", since)
		}
		c.send(c.frame(request(kmsg.Heartbeat, 3)))
		c.expect(2)
		if since := time.Since(began); since != time.Minute {
			t.Errorf("the next request was read after %v, want a minute", since)
		}
	})
}

// A Produce that is parked is answered while its connection is muted.
func TestAnswersGoOutWhileMuted(t *testing.T) {
	var park *wire.Request
	answer := make(chan func(), 1)
	s := start(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		park = req
		req.Peer.Mute(time.Hour)
		answer <- func() { answerEmpty(park, reply) }
	})
	c := dial(t, s.addr)
	c.send(c.frame(produce(1)))
	(<-answer)()
	c.expect(1)
}

// A muted connection does not hold up a stop, and ends with its client.
func TestAMutedConnectionEnds(t *testing.T) {
	s := start(t, Config{ParkedCheck: 10 * time.Millisecond}, func(req *wire.Request, reply func(*wire.Response)) {
		req.Peer.Mute(time.Hour)
		answerEmpty(req, reply)
	})
	gone, stays := dial(t, s.addr), dial(t, s.addr)
	for _, c := range []*client{gone, stays} {
		c.send(c.frame(request(kmsg.Metadata, 9)))
		c.expect(1)
	}
	gone.Close()
	awaitTrue(t, "the connection of a client that has gone to end", func() bool { return s.Metrics().Connections.Value() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	stays.expectClosed()
}

// A connection that is not admitted is closed after its time, unserved.
func TestConnectionsAreAdmitted(t *testing.T) {
	const wait = 200 * time.Millisecond
	refuse := make(chan bool, 2)
	s := start(t, Config{Admit: func(ip netip.Addr) time.Duration {
		if ip != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("asked about %v", ip)
		}
		if <-refuse {
			return wait
		}
		return 0
	}}, answerEmpty)
	refuse <- true
	began := time.Now()
	c := dial(t, s.addr)
	c.send(c.frame(request(kmsg.Metadata, 9)))
	c.expectClosed()
	if since := time.Since(began); since < wait {
		t.Errorf("closed after %v, want %v", since, wait)
	}
	refuse <- false
	c = dial(t, s.addr)
	c.send(c.frame(request(kmsg.Metadata, 9)))
	c.expect(1)
}

// A connection that is paced is served after its time, and a stop does not wait for it.
func TestConnectionsArePaced(t *testing.T) {
	const wait = 200 * time.Millisecond
	paces := make(chan time.Duration, 2)
	s := start(t, Config{Pace: func(string) time.Duration { return <-paces }}, answerEmpty)
	began := time.Now()
	paces <- wait
	c := dial(t, s.addr)
	c.send(c.frame(request(kmsg.Metadata, 9)))
	c.expect(1)
	if since := time.Since(began); since < wait {
		t.Errorf("served after %v, want %v", since, wait)
	}
	paces <- time.Hour
	waits := dial(t, s.addr)
	awaitTrue(t, "the connection to be accepted", func() bool { return len(paces) == 0 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	waits.expectClosed()
}
