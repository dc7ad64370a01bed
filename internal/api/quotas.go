package api

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/quota"
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

// Throttled returns how many requests had to wait, and connections had to wait or were closed, by the kind of the quota. The numbers keep changing.
func (q *Quotas) Throttled() *[quota.Kinds]metric.Counter { return &q.throttled }

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
