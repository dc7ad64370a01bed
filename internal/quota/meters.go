package quota

import "github.com/raftsman/raftsman/internal/chain"

const (
	// silentMs is after how long without use a client is forgotten.
	silentMs = 3_600_000
	// bytesMax is what all that are remembered may take; who was silent for longest goes first. They are 20,000 and more, unless
	// clients give themselves long names, or windows have many samples.
	bytesMax = 16 << 20
	// meterBytes is what one takes beside its names and its samples, sampleBytes what a sample does.
	meterBytes  = 320
	sampleBytes = 24
)

// Meters measure what those use who have a quota. A quota that changes leaves what was measured as it is.
type Meters struct {
	window    Window // quota.window.num and .size.seconds
	mutations Window // controller.quota.window.num and .size.seconds
	meters    map[subject]*meter
	bytes     int
	order     chain.List[meter, *meter] // those that are silent for longest first
}

type meter struct {
	subject
	rate   rate
	bucket bucket
	usedMs int64
	links  chain.Links[meter]
}

func (x *meter) Links() *chain.Links[meter] { return &x.links }

// NewMeters returns meters that have seen nobody yet.
func NewMeters(window, mutations Window) *Meters {
	return &Meters{window: window, mutations: mutations, meters: map[subject]*meter{}}
}

// Len returns how many meters there are.
func (m *Meters) Len() int { return len(m.meters) }

// Record notes that a client has used an amount, and returns how long it is to wait. Produce and fetch bytes may cost any time; of
// request time it is one sample at most, as the client is not alone to blame for it.
func (m *Meters) Record(h Held, amount float64, nowMs int64) (waitMs int64) {
	r := m.use(h.subject, amount, nowMs)
	waitMs = r.excess(m.window, h.limit, nowMs)
	if h.kind == RequestTime {
		waitMs = min(waitMs, m.window.SizeMs)
	}
	return waitMs
}

// Add notes what a client has used, or with an amount below 0 what it did not get after all, without asking what follows from it.
func (m *Meters) Add(h Held, amount float64, nowMs int64) {
	m.use(h.subject, amount, nowMs)
}

// Burst returns what a client that was silent may use at once without having to wait.
func (w Window) Burst(h Held) (amount float64) {
	return h.limit * float64(w.Count-1) * float64(w.SizeMs) / 1000
}

// Charge takes tokens for a mutation that is about to be made, or returns how long it is until it may be asked for again: then
// nothing was taken. One mutation may overdraw the bucket, whatever its size.
func (m *Meters) Charge(h Held, partitions int, nowMs int64) (refusedMs int64) {
	b := &m.find(h.subject, nowMs).bucket
	b.refill(m.mutations, h.limit, nowMs)
	if refusedMs = b.debtMs(h.limit); refusedMs == 0 {
		b.tokens -= float64(partitions)
	}
	return refusedMs
}

// ChargeAnyway takes tokens for a mutation that is made in any case, for clients that do not know of a refusal, and returns how
// long they are to wait.
func (m *Meters) ChargeAnyway(h Held, partitions int, nowMs int64) (waitMs int64) {
	b := &m.find(h.subject, nowMs).bucket
	b.refill(m.mutations, h.limit, nowMs)
	b.tokens -= float64(partitions)
	return b.debtMs(h.limit)
}

// Connect counts a connection from an address, or returns how long it is until one is allowed, a sample at most: then it was not
// counted.
func (m *Meters) Connect(h Held, nowMs int64) (refusedMs int64) {
	r := m.use(h.subject, 1, nowMs)
	if refusedMs = r.excess(m.window, h.limit, nowMs); refusedMs > 0 {
		r.record(m.window, -1, nowMs)
	}
	return min(refusedMs, m.window.SizeMs)
}

// Accept counts a connection that a listener has accepted, or with an empty name any, and returns how long it is to wait, a sample at
// most, until it is served: it is not refused.
func (m *Meters) Accept(listener string, limit float64, nowMs int64) (waitMs int64) {
	r := m.use(subject{kind: Connections, listener: listener}, 1, nowMs)
	return min(r.excess(m.window, limit, nowMs), m.window.SizeMs)
}

// use adds an amount to a subject's rate, which it returns.
func (m *Meters) use(s subject, amount float64, nowMs int64) *rate {
	x := m.find(s, nowMs)
	m.bytes -= x.bytes()
	x.rate.record(m.window, amount, nowMs)
	m.bytes += x.bytes()
	return &x.rate
}

// find returns the subject's meter, now the newest of all. Those that were silent for too long go, at most two a call, and as many as
// are in the way of a new one.
func (m *Meters) find(s subject, nowMs int64) *meter {
	found, ok := m.meters[s]
	if ok {
		m.order.Remove(found)
	} else {
		found = &meter{subject: s}
		m.meters[s] = found
		m.bytes += found.bytes()
	}
	found.usedMs = nowMs
	m.order.Add(found)
	for range 2 {
		if nowMs-m.order.First().usedMs >= silentMs {
			m.forget(m.order.First())
		}
	}
	for m.bytes > bytesMax && m.order.First() != found {
		m.forget(m.order.First())
	}
	return found
}

func (x *meter) bytes() int {
	return meterBytes + sampleBytes*cap(x.rate.samples) + len(x.user) + len(x.clientID)
}

func (m *Meters) forget(x *meter) {
	m.order.Remove(x)
	delete(m.meters, x.subject)
	m.bytes -= x.bytes()
}
