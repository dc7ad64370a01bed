package server

import (
	"sync/atomic"
	"time"
)

// deadline is a moment in the server's steps at which the sweep acts; 0 is never. It is set on every request and so must be
// cheap: one store.
type deadline struct{ at atomic.Int64 }

func (d *deadline) clear() { d.at.Store(0) }

func (d *deadline) passed(now int64) bool {
	at := d.at.Load()
	return at != 0 && now >= at
}

// expire lets d pass after the duration, rounded up to a step.
func (s *Server) expire(d *deadline, after time.Duration) {
	d.at.Store(s.now.Load() + int64((after+s.tick-1)/s.tick) + 1)
}

// sweep closes connections whose deadlines have passed, step by step, until the last one has ended at Shutdown.
func (s *Server) sweep() {
	ticker := time.NewTicker(s.tick)
	defer ticker.Stop()
	var all []*conn
	for {
		select {
		case <-ticker.C:
		case <-s.swept:
			return
		}
		now := s.now.Add(1)
		all = s.connections(all[:0])
		for _, c := range all {
			c.sweep(now)
		}
		clear(all)
	}
}
