package api

import (
	"math"
	"net/netip"
	"time"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/quota"
)

// connectionRates are how many connections may come in a second.
type connectionRates struct {
	all       int
	of        map[string]int // by listener
	protected string         // the listener between brokers where there are others: all does not count for it
}

// SetConnectionRates takes over max.connection.creation.rate, of the broker and of each listener.
func (q *Quotas) SetConnectionRates(b *config.Broker) {
	const key = "max.connection.creation.rate"
	r := &connectionRates{all: b.Int(key), of: map[string]int{}}
	forClients := 0
	for _, l := range b.Listeners() {
		r.of[l.Name] = b.ListenerInt(l.Name, key)
		if !l.Controller {
			forClients++
		}
	}
	if forClients > 1 {
		r.protected = b.InterBrokerListener()
	}
	q.accepting.Store(r)
}

// Pace counts a connection that a listener has accepted and returns how long it is to wait until it is served.
func (q *Quotas) Pace(listener string) (wait time.Duration) {
	r := q.accepting.Load()
	waitMs := q.accept(listener, r.of[listener])
	if listener != r.protected {
		waitMs = max(waitMs, q.accept("", r.all))
	}
	return time.Duration(q.count(quota.Connections, waitMs)) * time.Millisecond
}

// accept does not measure where there is no limit, which is the largest number.
func (q *Quotas) accept(listener string, limit int) (waitMs int64) {
	if limit == math.MaxInt32 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.meters.Accept(listener, float64(limit), q.nowMs())
}

// Admit tells whether a connection from the address comes too soon after others; it is to be closed after that time then.
func (q *Quotas) Admit(ip netip.Addr) (refusedFor time.Duration) {
	image := q.limits(quota.Connections)
	if image == nil {
		return 0
	}
	held, ok := quota.FindAddress(image, ip)
	if !ok {
		return 0
	}
	q.mu.Lock()
	refusedMs := q.meters.Connect(held, q.nowMs())
	q.mu.Unlock()
	return time.Duration(q.count(quota.Connections, refusedMs)) * time.Millisecond
}
