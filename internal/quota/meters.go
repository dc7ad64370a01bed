package quota

import "net/netip"

const (
	// silentMs is after how long without use a client is forgotten.
	silentMs = 3_600_000
	// metersMax is how many are remembered at once; the one that was silent for longest goes first. Each takes about 700 bytes.
	metersMax = 20_000
)

// Meters measure what clients use, those alone that have a quota. A quota that changes leaves what was measured as it is.
type Meters struct {
	window    Window // quota.window.num and .size.seconds
	mutations Window // controller.quota.window.num and .size.seconds
	meters    map[subject]*meter
	oldest    *meter // silent for longest
	newest    *meter
}

type meter struct {
	subject
	rate         rate
	bucket       bucket
	usedMs       int64
	older, newer *meter
}

// NewMeters returns meters that have seen nobody yet.
func NewMeters(window, mutations Window) *Meters {
	return &Meters{window: window, mutations: mutations, meters: map[subject]*meter{}}
}

// Len returns how many meters there are.
func (m *Meters) Len() int { return len(m.meters) }

// Record notes that a client has used an amount, and returns how long it is to wait. Produce and fetch bytes may cost any time; of
// request time it is one sample at most, as the client is not alone to blame for it.
func (m *Meters) Record(l Limits, k Kind, user, clientID string, amount float64, nowMs int64) (waitMs int64) {
	s, limit, ok := holds(l, k, user, clientID)
	if !ok {
		return 0
	}
	r := &m.find(s, nowMs).rate
	r.record(m.window, amount, nowMs)
	waitMs = r.excess(m.window, limit, nowMs)
	if k == RequestTime {
		waitMs = min(waitMs, m.window.SizeMs)
	}
	return waitMs
}

// Add notes what a client has used, or with an amount below 0 what it did not get after all, without asking what follows from it.
func (m *Meters) Add(l Limits, k Kind, user, clientID string, amount float64, nowMs int64) {
	if s, _, ok := holds(l, k, user, clientID); ok {
		m.find(s, nowMs).rate.record(m.window, amount, nowMs)
	}
}

// Burst returns what a client that was silent may use at once without having to wait. It is false for a client without a quota.
func (m *Meters) Burst(l Limits, k Kind, user, clientID string) (amount float64, limited bool) {
	_, limit, ok := holds(l, k, user, clientID)
	return limit * float64(m.window.Count-1) * float64(m.window.SizeMs) / 1000, ok
}

// Charge takes tokens for a mutation that is about to be made, or returns how long it is until it may be asked for again: then
// nothing was taken. One mutation may overdraw the bucket, whatever its size.
func (m *Meters) Charge(l Limits, user, clientID string, partitions int, nowMs int64) (refusedMs int64) {
	s, limit, ok := holds(l, Mutations, user, clientID)
	if !ok {
		return 0
	}
	b := &m.find(s, nowMs).bucket
	b.refill(m.mutations, limit, nowMs)
	if refusedMs = b.debtMs(limit); refusedMs == 0 {
		b.tokens -= float64(partitions)
	}
	return refusedMs
}

// ChargeAnyway takes tokens for a mutation that is made in any case, for clients that do not know of a refusal, and returns how
// long they are to wait.
func (m *Meters) ChargeAnyway(l Limits, user, clientID string, partitions int, nowMs int64) (waitMs int64) {
	s, limit, ok := holds(l, Mutations, user, clientID)
	if !ok {
		return 0
	}
	b := &m.find(s, nowMs).bucket
	b.refill(m.mutations, limit, nowMs)
	b.tokens -= float64(partitions)
	return b.debtMs(limit)
}

// Connect counts a connection from an address, or returns how long it is until one is allowed, a sample at most: then it was not
// counted.
func (m *Meters) Connect(l Limits, ip netip.Addr, nowMs int64) (refusedMs int64) {
	limit, ok := l.ConnectionRate(ip)
	if !ok {
		return 0
	}
	r := &m.find(subject{kind: Connections, ip: ip}, nowMs).rate
	r.record(m.window, 1, nowMs)
	if refusedMs = r.excess(m.window, limit, nowMs); refusedMs > 0 {
		r.record(m.window, -1, nowMs)
	}
	return min(refusedMs, m.window.SizeMs)
}

// Accept counts a connection that a listener has accepted, or with an empty name any, and returns how long it is to wait, a sample at
// most, until it is served: it is not refused.
func (m *Meters) Accept(listener string, limit float64, nowMs int64) (waitMs int64) {
	r := &m.find(subject{kind: Connections, listener: listener}, nowMs).rate
	r.record(m.window, 1, nowMs)
	return min(r.excess(m.window, limit, nowMs), m.window.SizeMs)
}

// find returns the subject's meter, now the newest of all. Those that were silent for too long go, at most two a call.
func (m *Meters) find(s subject, nowMs int64) *meter {
	found, ok := m.meters[s]
	if ok {
		m.unlink(found)
	} else {
		found = &meter{subject: s}
		m.meters[s] = found
	}
	found.usedMs = nowMs
	m.link(found)
	for range 2 {
		if last := m.oldest; nowMs-last.usedMs >= silentMs || len(m.meters) > metersMax {
			m.unlink(last)
			delete(m.meters, last.subject)
		}
	}
	return found
}

func (m *Meters) link(x *meter) {
	x.older = m.newest
	if m.newest != nil {
		m.newest.newer = x
	} else {
		m.oldest = x
	}
	m.newest = x
}

func (m *Meters) unlink(x *meter) {
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		m.oldest = x.newer
	}
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		m.newest = x.older
	}
	x.older, x.newer = nil, nil
}
