package clientmetrics

import (
	"github.com/raftsman/raftsman/internal/chain"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Limits bound what clients can make a broker remember.
type Limits struct {
	PushBytes       int // of one push, compressed and not
	Series          int // shown, of all clients
	SeriesPerClient int
}

// What Kafka has fixed.
const (
	instancesMax = 16_384
	expiryMinMs  = 60_000
	expiryPushes = 3 // that a client may leave out before it is forgotten
)

// Never is a time before all others.
const never = -1 << 62

// Instances are the clients that are known, at most 16,384 of them: then the one that was not heard of for longest goes. A client is
// also forgotten when its connection ends, and when three of its intervals have passed without a request, though not before a
// minute has. Times are milliseconds of any clock that never goes back. Not safe for concurrent use.
type Instances struct {
	limits        Limits
	subscriptions []Subscription
	version       int // of the subscriptions
	byID          map[kafka.UUID]*instance
	byConn        map[uint64]kafka.UUID
	order         chain.List[instance, *instance] // those heard of last at the end
	sweptMs       int64
	series        int // of all instances
	dropped       int64
	pushes        [3]int64 // by what became of them
}

// What becomes of a push.
const (
	Taken = iota
	TooEarly
	Refused
)

type instance struct {
	id      kafka.UUID
	client  Client // as it is shown; patterns match the client of the request
	conn    uint64
	version int // of the subscriptions that asked comes from
	asked   asked

	lastGetMs, lastPushMs int64
	expiresMs             int64
	terminating           bool
	lastError             kafka.Error

	links chain.Links[instance]
	store store
}

func (i *instance) Links() *chain.Links[instance] { return &i.links }

// NewInstances returns an empty set.
func NewInstances(limits Limits) *Instances {
	return &Instances{limits: limits, byID: map[kafka.UUID]*instance{}, byConn: map[uint64]kafka.UUID{}}
}

// Subscribe replaces the subscriptions. Every client is told of what changes for it when it pushes next.
func (s *Instances) Subscribe(all []Subscription) {
	s.subscriptions = all
	s.version++
}

// Len returns how many clients are known.
func (s *Instances) Len() int { return len(s.byID) }

// From is where a request comes from.
type From struct {
	Conn   uint64
	Client Client
}

// Asked is the answer to GetTelemetrySubscriptions.
type Asked struct {
	Code           kafka.Error // the rest is meant if it is kafka.None
	ClientInstance kafka.UUID
	Subscription   int32
	IntervalMs     int32
	Metrics        []string // shared: not to be changed
}

// Get answers what a client is asked for; newID makes an id for one that has none. A client that asks sooner than it may push is
// told to wait, unless its last push was refused in a way that needs a new answer.
func (s *Instances) Get(nowMs int64, id kafka.UUID, from From, newID func() kafka.UUID) Asked {
	if id.IsZero() {
		id = newID()
	}
	i := s.instance(nowMs, id, from)
	if nowMs-max(i.lastGetMs, i.lastPushMs) >= i.asked.intervalMs {
		i.lastGetMs = nowMs
	} else if i.lastError != kafka.UnknownSubscriptionId && i.lastError != kafka.UnsupportedCompressionType {
		return Asked{Code: kafka.ThrottlingQuotaExceeded}
	}
	i.lastError = kafka.None
	return Asked{ClientInstance: id, Subscription: i.asked.id, IntervalMs: int32(i.asked.intervalMs), Metrics: i.asked.metrics}
}

// Push is what a client says of the metrics that it pushes.
type Push struct {
	ClientInstance kafka.UUID
	Subscription   int32
	Terminating    bool
	KnownCodec     bool
	Bytes          int // as they came
}

// Begin tells whether a client may push now. If it may and there are bytes, Keep or Fail follows.
func (s *Instances) Begin(nowMs int64, p Push, from From) kafka.Error {
	if p.ClientInstance.IsZero() || p.ClientInstance == kafka.MetadataTopicID {
		return kafka.InvalidRequest // Kafka keeps both for itself
	}
	i := s.instance(nowMs, p.ClientInstance, from)
	i.lastError = s.judge(i, nowMs, p)
	i.terminating = p.Terminating
	if i.terminating {
		s.forgetSeries(i)
	}
	switch i.lastError {
	case kafka.None:
		if p.Bytes == 0 {
			s.pushes[Taken]++ // others count when they were read
		}
	case kafka.ThrottlingQuotaExceeded:
		s.pushes[TooEarly]++
	default:
		s.pushes[Refused]++
	}
	return i.lastError
}

// judge checks in Kafka's order. A client that has just asked need not wait, and one that terminates never does.
func (s *Instances) judge(i *instance, nowMs int64, p Push) kafka.Error {
	if i.terminating {
		return kafka.InvalidRequest
	}
	if i.lastGetMs > i.lastPushMs || nowMs-i.lastPushMs >= i.asked.intervalMs {
		i.lastPushMs = nowMs
	} else if !p.Terminating {
		return kafka.ThrottlingQuotaExceeded
	}
	switch {
	case p.Subscription != i.asked.id:
		return kafka.UnknownSubscriptionId
	case !p.KnownCodec:
		return kafka.UnsupportedCompressionType
	case p.Bytes > s.limits.PushBytes:
		return kafka.TelemetryTooLarge
	}
	return kafka.None
}

// Fail notes that what the client pushed could not be read.
func (s *Instances) Fail(id kafka.UUID) {
	s.pushes[Refused]++
	if i := s.byID[id]; i != nil {
		i.lastError = kafka.InvalidRecord
	}
}

// Keep makes what a client has pushed its newest values. Those of a client that terminates are not kept: it is gone when somebody looks.
func (s *Instances) Keep(id kafka.UUID, pushed *Pushed) {
	s.pushes[Taken]++
	if i := s.byID[id]; i != nil && !i.terminating {
		s.series -= i.store.len()
		s.dropped += i.store.keep(pushed, min(s.limits.SeriesPerClient, s.limits.Series-s.series))
		s.series += i.store.len()
	}
}

// Disconnected forgets the client that was first heard of on the connection.
func (s *Instances) Disconnected(conn uint64) {
	if id, ok := s.byConn[conn]; ok {
		delete(s.byConn, conn)
		s.forget(s.byID[id])
	}
}

// Expire forgets those that were silent for too long. It looks for them once a second at most.
func (s *Instances) Expire(nowMs int64) {
	if nowMs-s.sweptMs < 1000 {
		return
	}
	s.sweptMs = nowMs
	for i := s.order.First(); i != nil; {
		next := i.links.Next()
		if nowMs >= i.expiresMs {
			s.forget(i)
		}
		i = next
	}
}

// instance finds a client, or gets to know it, and notes that it was heard of. When the subscriptions have changed since it was
// looked at, it begins anew, as what is asked of it may be something else.
func (s *Instances) instance(nowMs int64, id kafka.UUID, from From) *instance {
	s.Expire(nowMs)
	i := s.byID[id]
	switch {
	case i == nil:
		if len(s.byID) == instancesMax {
			s.forget(s.order.First())
		}
		i = &instance{id: id, client: from.Client.shown()}
		s.byID[id] = i
		s.begin(i, from)
	case i.version != s.version:
		s.order.Remove(i)
		s.begin(i, from)
	default:
		s.order.Remove(i)
	}
	s.order.Add(i)
	i.expiresMs = nowMs + max(expiryMinMs, expiryPushes*i.asked.intervalMs)
	return i
}

// begin makes an instance one that was never heard of, under the newest subscriptions.
func (s *Instances) begin(i *instance, from From) {
	s.leave(i)
	i.conn = from.Conn
	s.byConn[i.conn] = i.id // the last one of each connection, as in Kafka: others expire
	i.version, i.asked = s.version, ask(s.subscriptions, i.id, &from.Client)
	i.lastGetMs, i.lastPushMs, i.terminating, i.lastError = never, never, false, kafka.None
}

func (s *Instances) forget(i *instance) {
	if i == nil {
		return
	}
	s.forgetSeries(i)
	s.order.Remove(i)
	s.leave(i)
	delete(s.byID, i.id)
}

// leave takes an instance from its connection.
func (s *Instances) leave(i *instance) {
	if s.byConn[i.conn] == i.id {
		delete(s.byConn, i.conn)
	}
}

func (s *Instances) forgetSeries(i *instance) {
	s.series -= i.store.len()
	i.store = store{}
}
