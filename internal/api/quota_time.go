package api

import (
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/wire"
)

// timing measures how long a request occupies its connection's goroutine: what its handler does, not what it waits for or sends. It
// exists while somebody has a quota of request time.
type timing struct {
	quotas   *Quotas
	who      requester
	began    time.Time
	whole    atomic.Int64 // nanoseconds, when the handler has returned
	recorded atomic.Int64 // nanoseconds, when the answer was made
}

// percentOf is the time as a percentage of a second of one processor.
func percentOf(nanoseconds int64) float64 { return float64(nanoseconds) * 100 / float64(time.Second) }

// handle measures a request.
func (q *Quotas) handle(a *API, e *entry, req *wire.Request, reply func(*wire.Response)) {
	t := &timing{quotas: q, began: time.Now()}
	c := call{Request: req, reply: reply, timing: t, served: &a.served}
	t.who = c.who()
	a.start(e, c)
	whole := time.Since(t.began).Nanoseconds()
	t.whole.Store(whole)
	if recorded := t.recorded.Load(); recorded != 0 && recorded < whole {
		q.add(quota.RequestTime, t.who, percentOf(whole-recorded))
	}
}

// answering records the time of a request that is about to be answered. What its handler does after that is recorded when it
// returns.
func (t *timing) answering() (waitMs int32) {
	spent := t.whole.Load()
	if spent == 0 {
		spent = time.Since(t.began).Nanoseconds()
	}
	if !t.recorded.CompareAndSwap(0, spent) {
		return 0
	}
	return t.quotas.record(quota.RequestTime, t.who, percentOf(spent))
}
