package meta

import (
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// A new controller has heard of nobody: each broker in service has a full session first, and the one silent longest is first.
func TestSessionsBeginWithTheLeadership(t *testing.T) {
	s := newScenario(t)
	s.run("brokers 1 2 3 4!")
	epoch := func(id kafka.NodeID) kafka.BrokerEpoch {
		b, _ := s.im.Broker(id)
		return b.Epoch
	}
	l := NewLiveness(s.im, 9000, 1000)
	if at, some := l.Deadline(s.im, 1000); at != 10_000 || !some {
		t.Errorf("deadline %d, want 10000", at)
	}
	l.Touch(1, epoch(1), 3000)
	l.Touch(2, epoch(2), 2000)
	l.Touch(3, epoch(3)+1, 5000) // of another registration
	for _, want := range []struct {
		atMs int64
		id   kafka.NodeID
		due  bool
	}{{9999, 0, false}, {10_000, 3, true}, {20_000, 3, true}} {
		if id, due := l.Expired(s.im, want.atMs); due != want.due || due && id != want.id {
			t.Errorf("at %d: broker %d, %v; want %d, %v", want.atMs, id, due, want.id, want.due)
		}
	}
	s.apply(DecideFence(s.im, 3, s.env))
	if at, _ := l.Deadline(s.im, 10_000); at != 11_000 {
		t.Errorf("deadline %d, want 11000", at)
	}
	if id, due := l.Expired(s.im, 20_000); id != 2 || !due {
		t.Errorf("after 3: %d, %v; want 2", id, due)
	}
	if l.Valid(1, epoch(1), 12_000) || !l.Valid(1, epoch(1), 11_999) || l.Valid(4, epoch(4), 1000) {
		t.Error("a session is 9000 ms, and a fenced broker has none")
	}
}
