package api

import (
	"math"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/wire"
)

// Quotas measure what the clients of this broker use. A client over its quota gets its answer at once, with the time that it is to
// wait, and nothing more is read from its connection for that long. Where nobody has a quota of a kind, nothing is measured.
type Quotas struct {
	image     func() *meta.Image
	began     time.Time
	window    quota.Window // of all but mutations
	throttled [quota.Kinds]metric.Counter
	accepting atomic.Pointer[connectionRates]

	mu     sync.Mutex // guards meters; held for memory only
	meters *quota.Meters
}

// NewQuotas returns the meters of a broker; image returns the newest metadata.
func NewQuotas(b *config.Broker, image func() *meta.Image) *Quotas {
	window := quota.Window{Count: b.Int("quota.window.num"), SizeMs: 1000 * b.Int64("quota.window.size.seconds")}
	mutations := quota.Window{Count: b.Int("controller.quota.window.num"), SizeMs: 1000 * b.Int64("controller.quota.window.size.seconds")}
	q := &Quotas{image: image, began: time.Now(), window: window, meters: quota.NewMeters(window, mutations)}
	q.SetConnectionRates(b)
	return q
}

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

// Throttled returns how many requests had to wait, and connections had to wait or were closed, by the kind of the quota. The numbers keep changing.
func (q *Quotas) Throttled() *[quota.Kinds]metric.Counter { return &q.throttled }

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

// limits returns the image if anybody in it has a quota of the kind. A nil q has none.
func (q *Quotas) limits(k quota.Kind) *meta.Image {
	if q == nil {
		return nil
	}
	if image := q.image(); image.HasQuotas(k) {
		return image
	}
	return nil
}

// nowMs counts from the start of the process: the clock of the wall may be set back.
func (q *Quotas) nowMs() int64 { return time.Since(q.began).Milliseconds() }

func (q *Quotas) count(k quota.Kind, waitMs int64) int64 {
	if waitMs > 0 {
		q.throttled[k].Inc()
	}
	return waitMs
}

// held returns the quota of the kind that holds for a client, false where there is none. It takes no lock.
func (q *Quotas) held(k quota.Kind, who requester) (h quota.Held, ok bool) {
	if image := q.limits(k); image != nil {
		return quota.Find(image, k, who.user, who.clientID)
	}
	return quota.Held{}, false
}

// record notes what a client has used and returns how long it is to wait, in milliseconds.
func (q *Quotas) record(k quota.Kind, who requester, amount float64) (waitMs int32) {
	held, ok := q.held(k, who)
	if !ok {
		return 0
	}
	q.mu.Lock()
	wait := q.meters.Record(held, amount, q.nowMs())
	q.mu.Unlock()
	return int32(q.count(k, wait))
}

// add notes what a client has used without asking what follows; an amount below 0 takes back what was recorded.
func (q *Quotas) add(k quota.Kind, who requester, amount float64) {
	held, ok := q.held(k, who)
	if !ok {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.meters.Add(held, amount, q.nowMs())
}

// fetchMax bounds what one Fetch asks for by what it could get without waiting: with more it would wait every time.
func (q *Quotas) fetchMax(who requester, bytesMax int32) int32 {
	held, ok := q.held(quota.FetchBytes, who)
	if !ok {
		return bytesMax
	}
	return int32(min(q.window.Burst(held), float64(bytesMax)))
}

// requester is who has sent a request, as quotas name it.
type requester struct{ user, clientID string }

func (c call) who() (who requester) {
	_, who.user, _ = strings.Cut(c.Peer.Principal, ":")
	if c.ClientID != nil {
		who.clientID = *c.ClientID
	}
	return who
}

// bytes is the size of the request, header included.
func (c call) bytes() int {
	if c.Frame == nil { // made by hand
		return len(c.Body)
	}
	return len(c.Frame.Bytes())
}

// throttle returns how long the client is to wait: waitMs, or longer if the time that its requests take says so. Nothing more is
// read from its connection for that long.
func (c call) throttle(waitMs int32) int32 {
	if c.timing != nil {
		waitMs = max(waitMs, c.timing.answering())
	}
	if waitMs > 0 {
		c.Peer.Mute(time.Duration(waitMs) * time.Millisecond)
	}
	return waitMs
}

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
	c := call{Request: req, reply: reply, timing: t}
	t.who = c.who()
	e.handle(a, c)
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
