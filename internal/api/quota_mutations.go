package api

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/quota"
)

// mutation is a request that changes topics, as far as its client's quota is concerned. From the version on at which clients know
// of it, too much is refused with THROTTLING_QUOTA_EXCEEDED; older ones are only told to wait.
type mutation struct {
	quotas *Quotas
	who    requester
	strict bool
	until  time.Time // the client is to wait
}

func (q *Quotas) mutation(c call, strictFrom int16) *mutation {
	return &mutation{quotas: q, who: c.who(), strict: c.Version >= strictFrom}
}

// charge is a [meta.Charge].
func (m *mutation) charge(partitions int) error {
	q := m.quotas
	held, ok := q.held(quota.Mutations, m.who)
	if !ok {
		return nil
	}
	q.mu.Lock()
	ask := q.meters.ChargeAnyway
	if m.strict {
		ask = q.meters.Charge
	}
	waitMs := ask(held, partitions, q.nowMs())
	q.mu.Unlock()
	if q.count(quota.Mutations, waitMs) == 0 {
		return nil
	}
	m.until = time.Now().Add(time.Duration(waitMs) * time.Millisecond)
	if !m.strict {
		return nil
	}
	return kafka.Refuse(kafka.ThrottlingQuotaExceeded, "The throttling quota has been exceeded.")
}

// waitMs is how long the client is to wait still.
func (m *mutation) waitMs() int32 {
	if m.until.IsZero() {
		return 0
	}
	rest := time.Until(m.until) + time.Millisecond - 1 // rounded up
	return int32(max(rest.Milliseconds(), 0))
}
