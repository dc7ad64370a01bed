package clientmetrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
)

// client is a client of a test and the clock of its broker.
type client struct {
	*testing.T
	all   *Instances
	nowMs int64
	id    kafka.UUID
	from  From
	sub   int32
}

func newClient(t *testing.T, settings ...map[string]string) *client {
	c := &client{T: t, all: NewInstances(Limits{PushBytes: 1000, Series: 100, SeriesPerClient: 50}), nowMs: 1_000_000, id: kafka.UUID{0: 10, 15: 2}}
	c.from = From{Conn: 1, Client: Client{ID: "raw", SoftwareName: "apache-kafka-java", SoftwareVersion: "4.4.0", Address: "127.0.0.1", Port: "4711"}}
	c.subscribe(settings...)
	return c
}

func (c *client) subscribe(settings ...map[string]string) {
	var all []Subscription
	for _, s := range settings {
		all = append(all, NewSubscription(config.ReadClientMetrics(s)))
	}
	c.all.Subscribe(all)
}

func (c *client) get(want kafka.Error) Asked {
	c.Helper()
	a := c.all.Get(c.nowMs, c.id, c.from, func() kafka.UUID { return kafka.UUID{15: 99} })
	if a.Code != want {
		c.Fatalf("get: %v, want %v", a.Code, want)
	}
	if a.Code == kafka.None {
		c.sub = a.Subscription
	}
	return a
}

func (c *client) push(want kafka.Error, change ...func(*Push)) {
	c.Helper()
	p := Push{ClientInstance: c.id, Subscription: c.sub, KnownCodec: true, Bytes: 10}
	for _, f := range change {
		f(&p)
	}
	if got := c.all.Begin(c.nowMs, p, c.from); got != want {
		c.Fatalf("push %+v: %v, want %v", p, got, want)
	}
}

func terminating(p *Push) { p.Terminating = true }
func otherSub(p *Push)    { p.Subscription++ }
func badCodec(p *Push)    { p.KnownCodec = false }
func large(p *Push)       { p.Bytes = 1001 }

// The ids are those that Apache Kafka 4.4 gave for the same.
func TestSubscriptionIDIsKafkas(t *testing.T) {
	for _, c := range []struct {
		id       byte
		settings map[string]string
		want     int32
	}{
		{2, nil, -557360164},
		{0x1e, map[string]string{"metrics": "", "interval.ms": "600"}, 1481571327},
		{0x14, map[string]string{"metrics": "org.apache.kafka.x", "interval.ms": "1000"}, -194963599},
		{0x15, map[string]string{"metrics": "*,org.apache.kafka.x", "interval.ms": "700"}, -298906973},
	} {
		cl := newClient(t, c.settings)
		cl.id = kafka.UUID{0: 10, 15: c.id}
		if a := cl.get(kafka.None); a.Subscription != c.want {
			t.Errorf("%v: %d, want %d", c.settings, a.Subscription, c.want)
		}
	}
}

// A client without an id gets one, and keeps it.
func TestFirstRequestGetsAnID(t *testing.T) {
	c := newClient(t)
	c.id = kafka.UUID{}
	if a := c.get(kafka.None); a.ClientInstance != (kafka.UUID{15: 99}) || a.IntervalMs != 300_000 || len(a.Metrics) != 0 || a.Metrics == nil {
		t.Errorf("%+v", a)
	}
	c.push(kafka.InvalidRequest)
	c.id = kafka.UUID{15: 1}
	c.push(kafka.InvalidRequest)
}

// The order and the codes are those that Apache Kafka 4.4 gave for the same.
func TestWhenAClientMayPush(t *testing.T) {
	c := newClient(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	c.get(kafka.None)
	c.get(kafka.ThrottlingQuotaExceeded)
	c.push(kafka.None) // at once after it has asked
	c.push(kafka.ThrottlingQuotaExceeded)
	c.push(kafka.ThrottlingQuotaExceeded, otherSub)
	c.push(kafka.ThrottlingQuotaExceeded, badCodec)
	c.nowMs += 999
	c.push(kafka.ThrottlingQuotaExceeded)
	c.get(kafka.ThrottlingQuotaExceeded)
	c.nowMs++
	c.push(kafka.None)
	c.nowMs += 1000
	c.push(kafka.TelemetryTooLarge, large)
	c.push(kafka.ThrottlingQuotaExceeded) // what was refused counts
	c.get(kafka.ThrottlingQuotaExceeded)
	c.nowMs += 1000
	c.push(kafka.UnknownSubscriptionId, otherSub)
	c.get(kafka.None) // at once, as it has to ask
	c.get(kafka.ThrottlingQuotaExceeded)
	c.nowMs += 1000
	c.push(kafka.UnsupportedCompressionType, badCodec)
	c.get(kafka.None)
	c.push(kafka.ThrottlingQuotaExceeded)

	c.push(kafka.None, terminating) // at any time
	c.push(kafka.InvalidRequest, terminating)
	c.nowMs += 1000
	c.push(kafka.InvalidRequest, terminating)
	c.push(kafka.InvalidRequest)
	c.push(kafka.None) // it says that it goes on
}

func TestRefusedPushThatTerminates(t *testing.T) {
	c := newClient(t)
	for want, wrong := range map[kafka.Error]func(*Push){
		kafka.TelemetryTooLarge: large, kafka.UnknownSubscriptionId: otherSub, kafka.UnsupportedCompressionType: badCodec,
	} {
		c.id[15]++
		c.get(kafka.None)
		c.push(want, terminating, wrong)
		c.push(kafka.InvalidRequest, terminating) // it is over all the same
	}
}

// A client is told of a change when it pushes next, and of one that is not about it not at all.
func TestChangeOfSubscriptions(t *testing.T) {
	mine := map[string]string{"metrics": "org.a", "interval.ms": "1000", "match": "client_id=r.w,client_software_name=apache.*"}
	c := newClient(t, mine)
	if a := c.get(kafka.None); !slices.Equal(a.Metrics, []string{"org.a"}) || a.IntervalMs != 1000 {
		t.Fatalf("%+v", a)
	}
	c.push(kafka.None)
	c.subscribe(mine, map[string]string{"metrics": "org.b", "interval.ms": "500", "match": "client_id=other"})
	c.push(kafka.None) // a change lets all begin anew
	c.push(kafka.ThrottlingQuotaExceeded)
	c.subscribe(mine, map[string]string{"metrics": "org.c", "interval.ms": "5000", "match": "client_source_address=127[.].*"})
	c.push(kafka.UnknownSubscriptionId)
	if a := c.get(kafka.None); !slices.Equal(a.Metrics, []string{"org.a", "org.c"}) || a.IntervalMs != 1000 {
		t.Errorf("%+v", a)
	}
	c.subscribe(mine, map[string]string{"metrics": "*"})
	c.push(kafka.UnknownSubscriptionId)
	if a := c.get(kafka.None); !slices.Equal(a.Metrics, []string{"*"}) || a.IntervalMs != 1000 {
		t.Errorf("%+v", a)
	}
}

func TestPatternsMatchWholeAttributes(t *testing.T) {
	for _, c := range []struct {
		match   string
		matches bool
	}{
		{"client_id=raw", true},
		{"client_id=ra", false},
		{"client_id=aw", false},
		{"client_id=ra|raw", true},
		{"client_id = .* ", true},
		{"client_id=(", false},
		{"client_instance_id=[A-Za-z0-9_-]{22}", true},
		{"client_software_version=4[.].*", true},
		{"client_software_version=3[.].*", false},
		{"client_source_port=47..", true},
		{"client_source_port=47", false},
		{"client_source_address=127.0.0.1,client_id=raw", true},
		{"client_source_address=127.0.0.2,client_id=raw", false},
	} {
		settings := map[string]string{"metrics": "m", "match": c.match}
		cl := newClient(t, settings)
		if got := len(cl.get(kafka.None).Metrics) == 1; got != c.matches {
			t.Errorf("%s matches: %v", c.match, got)
		}
		cl.from.Client.Anonymous, cl.from.Client.ID, cl.id[15] = true, "", 7
		if got := len(cl.get(kafka.None).Metrics) == 1; got != (c.matches && !strings.Contains(c.match, "client_id")) {
			t.Errorf("%s matches who has no client id: %v", c.match, got)
		}
	}
}

// A silent client is forgotten after a minute or three intervals, whichever is longer.
func TestSilentClientsAreForgotten(t *testing.T) {
	for interval, expires := range map[string]int64{"1000": 60_000, "30000": 90_000} {
		c := newClient(t, map[string]string{"metrics": "*", "interval.ms": interval})
		c.get(kafka.None)
		c.nowMs += expires - 1
		if c.all.Expire(c.nowMs); c.all.Len() != 1 {
			t.Errorf("interval %s: forgotten too early", interval)
		}
		c.push(kafka.None) // which counts as being heard of
		c.nowMs += expires - 1
		c.all.Expire(c.nowMs)
		if c.nowMs += 1000; c.all.Len() != 1 {
			t.Errorf("interval %s: forgotten too early after a push", interval)
		}
		if c.all.Expire(c.nowMs); c.all.Len() != 0 || c.all.order.First() != nil || c.all.order.Last() != nil || len(c.all.byConn) != 0 {
			t.Errorf("interval %s: not forgotten", interval)
		}
	}
}

func TestTheEndOfAConnectionForgetsItsClient(t *testing.T) {
	c := newClient(t)
	c.get(kafka.None)
	c.from.Conn, c.id[15] = 2, 5
	c.get(kafka.None)
	c.all.Disconnected(3)
	c.all.Disconnected(1)
	c.all.Disconnected(1)
	if c.all.Len() != 1 {
		t.Errorf("%d clients are known, want 1", c.all.Len())
	}
	c.get(kafka.ThrottlingQuotaExceeded)
	c.all.Disconnected(2)
	if c.all.Len() != 0 {
		t.Errorf("%d clients are known, want none", c.all.Len())
	}
}

func TestNumberOfClientsIsBounded(t *testing.T) {
	c := newClient(t)
	for n := range instancesMax + 10 {
		c.id = kafka.UUID{1: 1, 14: byte(n >> 8), 15: byte(n)}
		c.from.Conn = uint64(n)
		c.get(kafka.None)
		if n == 1 || n == instancesMax-1 {
			c.id = kafka.UUID{1: 1}
			c.get(kafka.ThrottlingQuotaExceeded) // the first one stays
		}
	}
	if c.all.Len() != instancesMax || len(c.all.byConn) != instancesMax {
		t.Fatalf("%d clients, %d connections", c.all.Len(), len(c.all.byConn))
	}
	c.id = kafka.UUID{1: 1}
	c.get(kafka.ThrottlingQuotaExceeded)
	c.id = kafka.UUID{1: 1, 15: 1}
	c.get(kafka.None) // this one went
}

// What a client calls itself may have 32 KiB: of 16,384 clients it would be half a gigabyte.
func TestLongNamesAreCutAndMatchedWhole(t *testing.T) {
	c := newClient(t, map[string]string{"metrics": "m", "match": "client_id=x+y"})
	c.from.Client.ID = strings.Repeat("x", 30_000) + "y"
	if a := c.get(kafka.None); len(a.Metrics) != 1 {
		t.Error("a long client id is not matched as a whole")
	}
	c.subscribe(map[string]string{"metrics": "m,n", "match": "client_id=x+y"})
	c.push(kafka.UnknownSubscriptionId)
	if a := c.get(kafka.None); len(a.Metrics) != 2 {
		t.Error("a long client id is not matched as a whole when subscriptions change")
	}
	if n := len(c.all.byID[c.id].client.ID); n != valueMax {
		t.Errorf("%d bytes of a client id are kept", n)
	}
}

// A counter that is scraped never falls, so that a push counts when it is known what becomes of it.
func TestPushesAreCountedOnce(t *testing.T) {
	c := newClient(t, map[string]string{"metrics": "*", "interval.ms": "1000"})
	counts := func(taken, tooEarly, refused int64) {
		t.Helper()
		if got, want := c.all.Observe(c.nowMs).Pushes, [3]int64{Taken: taken, TooEarly: tooEarly, Refused: refused}; got != want {
			t.Errorf("%v pushes, want %v", got, want)
		}
	}
	c.get(kafka.None)
	c.push(kafka.None)
	counts(0, 0, 0)
	c.all.Fail(c.id)
	counts(0, 0, 1)
	c.push(kafka.ThrottlingQuotaExceeded)
	counts(0, 1, 1)
	c.nowMs += 1000
	c.push(kafka.None)
	c.all.Keep(c.id, &Pushed{})
	counts(1, 1, 1)
	c.nowMs += 1000
	c.push(kafka.None, func(p *Push) { p.Bytes = 0 })
	counts(2, 1, 1)
	c.push(kafka.None, terminating)
	c.all.Disconnected(c.from.Conn)
	c.all.Keep(c.id, &Pushed{})
	counts(3, 1, 1)
}
