package quota

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// set is quotas by entity.
type set map[Entity]map[Kind]float64

func (s set) Limit(e Entity, k Kind) (float64, bool) {
	limit, ok := s[e][k]
	return limit, ok
}

func (s set) ConnectionRate(ip netip.Addr) (float64, bool) {
	if limit, ok := s.Limit(Entity{IP: Named(ip.String())}, Connections); ok {
		return limit, true
	}
	return s.Limit(Entity{IP: Default}, Connections)
}

// one is a single quota, of the client id c.
func one(k Kind, limit float64) set { return set{{ClientID: Named("c")}: {k: limit}} }

// find is the quota of a client that has one.
func (s set) find(t *testing.T, k Kind, user, clientID string) Held {
	t.Helper()
	h, ok := Find(s, k, user, clientID)
	if !ok {
		t.Fatalf("user %q, client %q: no quota", user, clientID)
	}
	return h
}

// at is the quota of an address that has one.
func (s set) at(t *testing.T, ip netip.Addr) Held {
	t.Helper()
	h, ok := FindAddress(s, ip)
	if !ok {
		t.Fatalf("%v: no quota", ip)
	}
	return h
}

func newMeters() *Meters { return NewMeters(Window{11, 1000}, Window{11, 1000}) }

func scan(t *testing.T, name string, each func(line string)) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		each(s.Text())
	}
	if lines == 0 {
		t.Fatalf("%s is empty", name)
	}
}

// TestPrecedenceIsKafkas goes through all 256 ways of setting a quota or none for each of the eight entities that a client has.
// testdata/precedence.txt is what the ClientQuotaManager of Apache Kafka 4.4 says: which quota holds for five clients, and by what
// its use is added up. Bit i of the mask sets the quota 100+i.
func TestPrecedenceIsKafkas(t *testing.T) {
	entities := []Entity{
		{User: Named("u"), ClientID: Named("c")},
		{User: Named("u"), ClientID: Default},
		{User: Named("u")},
		{User: Default, ClientID: Named("c")},
		{User: Default, ClientID: Default},
		{User: Default},
		{ClientID: Named("c")},
		{ClientID: Default},
	}
	scan(t, "testdata/precedence.txt", func(line string) {
		first, rest, _ := strings.Cut(line, " | ")
		var mask int
		if _, err := fmt.Sscanf(first, "mask %d", &mask); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		quotas := set{}
		for i, e := range entities {
			if mask>>i&1 == 1 {
				quotas[e] = map[Kind]float64{FetchBytes: float64(100 + i)}
			}
		}
		for _, said := range strings.Split(rest, " | ") {
			who, want, _ := strings.Cut(said, ": ")
			user, clientID, _ := strings.Cut(who, ",")
			got := "-"
			if h, ok := Find(quotas, FetchBytes, user, clientID); ok {
				got = fmt.Sprintf("%v by %s,%s", h.limit, h.user, h.clientID)
			} else if strings.HasPrefix(want, "- ") {
				want = "-"
			}
			if got != want {
				t.Errorf("mask %d, user %q, client %q: %s, Kafka has %s", mask, user, clientID, got, want)
			}
			if _, ok := Find(quotas, ProduceBytes, user, clientID); ok {
				t.Errorf("mask %d: a quota of another kind holds", mask)
			}
		}
	})
}

// TestRatesAndBucketsAreKafkas feeds the amounts of testdata/rates.txt, which Apache Kafka 4.4's Rate, TokenBucket and QuotaUtils
// were fed, and compares what each of them made.
func TestRatesAndBucketsAreKafkas(t *testing.T) {
	var limit float64
	var w Window
	var r *rate
	var m *Meters
	near := func(line string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s: got %v", line, got)
		}
	}
	tokens := func() float64 {
		return m.order.Last().bucket.tokens
	}
	scan(t, "testdata/rates.txt", func(line string) {
		var at, wait, bounded int64
		var amount, want float64
		switch kind, _, _ := strings.Cut(line, " "); kind {
		case "rate", "bucket":
			mustScan(t, line, kind+" quota=%g samples=%d window=%ds", &limit, &w.Count, &w.SizeMs)
			w.SizeMs *= 1000
			r, m = &rate{}, NewMeters(Window{1, 1}, w)
		case "record":
			mustScan(t, line, "record %d %g -> throttle %d bounded %d rate %g", &at, &amount, &wait, &bounded, &want)
			r.record(w, amount, at)
			if got := r.excess(w, limit, at); got != wait {
				t.Errorf("%s: got %d", line, got)
			}
			if min(wait, w.SizeMs) != bounded {
				t.Errorf("%s: a wait is bounded by one sample of %d ms", line, w.SizeMs)
			}
			got, _ := r.measure(w, at)
			near(line, got, want)
		case "unrecord":
			mustScan(t, line, "unrecord %d %g", &at, &amount)
			r.record(w, amount, at)
		case "permissive":
			mustScan(t, line, "permissive %d %g -> throttle %d tokens %g", &at, &amount, &wait, &want)
			if amount != math.Trunc(amount) { // of partitions there are no parts
				return
			}
			if got := m.ChargeAnyway(one(Mutations, limit).find(t, Mutations, "u", "c"), int(amount), at); got != wait {
				t.Errorf("%s: got %d", line, got)
			}
			near(line, tokens(), want)
		case "strict":
			verdict, _, _ := strings.Cut(line[strings.Index(line, "-> ")+3:], " ")
			format := "strict %d %g -> taken tokens %g"
			into := []any{&at, &amount, &want}
			if verdict == "refused" {
				format, into = "strict %d %g -> refused %d tokens %g", []any{&at, &amount, &wait, &want}
			}
			mustScan(t, line, format, into...)
			if got := m.Charge(one(Mutations, limit).find(t, Mutations, "u", "c"), int(amount), at); got != wait {
				t.Errorf("%s: got %d", line, got)
			}
			near(line, tokens(), want)
		default:
			t.Fatalf("what is %q?", line)
		}
	})
}

func mustScan(t *testing.T, line, format string, into ...any) {
	t.Helper()
	if _, err := fmt.Sscanf(line, format, into...); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
}

// TestAClientThatWaitsIsHeldToItsRate lets clients with requests of many sizes send as soon as they may. Whatever the sizes, over a
// minute they get the quota and not more above it than the burst, one sample, and two requests: the one that goes beyond the
// quota before its wait is known, and one more because a sample is forgotten whole, at the latest with its last request.
func TestAClientThatWaitsIsHeldToItsRate(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	const limit = 1_000_000
	for _, largest := range []int{5000, 100_000, 1_000_000, 3_000_000} {
		m, sent, now := newMeters(), 0.0, int64(0)
		for now < 60_000 {
			amount := float64(1 + random.IntN(largest))
			sent += amount
			now += m.Record(one(ProduceBytes, limit).find(t, ProduceBytes, "u", "c"), amount, now) + int64(random.IntN(3))
		}
		burst := m.window.Burst(one(ProduceBytes, limit).find(t, ProduceBytes, "u", "c"))
		sample := limit * float64(m.window.SizeMs) / 1000
		if most := limit*float64(now)/1000 + burst + sample + 2*float64(largest); sent > most || sent < 0.9*limit*60 {
			t.Errorf("requests of up to %d bytes: %.0f bytes in %d ms, want 54000000 to %.0f (seed %d)", largest, sent, now, most, seed)
		}
	}
}

func TestRequestTimeCostsOneSampleAtMost(t *testing.T) {
	m, quotas := newMeters(), one(RequestTime, 1)
	if got := m.Record(quotas.find(t, RequestTime, "u", "c"), 500, 0); got != 1000 {
		t.Errorf("5 s of time under a quota of 1 %%: wait %d ms, want 1000", got)
	}
	if got := m.Record(one(ProduceBytes, 1).find(t, ProduceBytes, "u", "c"), 500, 0); got != 490_000 {
		t.Errorf("500 bytes under a quota of 1 a second: wait %d ms, want 490000", got)
	}
}

func TestWhatWasNotSentIsTakenBack(t *testing.T) {
	m, quotas := newMeters(), one(FetchBytes, 100)
	if m.Record(quotas.find(t, FetchBytes, "u", "c"), 1000, 0) != 0 {
		t.Fatal("the burst is refused")
	}
	if got := m.Record(quotas.find(t, FetchBytes, "u", "c"), 500, 0); got != 5000 {
		t.Fatalf("wait %d ms, want 5000", got)
	}
	m.Add(quotas.find(t, FetchBytes, "u", "c"), -500, 0)
	if got := m.Record(quotas.find(t, FetchBytes, "u", "c"), 0, 0); got != 0 {
		t.Errorf("wait %d ms for what was not sent", got)
	}
	if burst := m.window.Burst(quotas.find(t, FetchBytes, "u", "c")); burst != 1000 {
		t.Errorf("burst %v, want 1000 bytes", burst)
	}
	if _, limited := Find(quotas, FetchBytes, "u", "d"); limited {
		t.Error("a client without a quota is limited")
	}
}

// Listeners are measured each for itself, and all together; what waits is counted as well.
func TestAcceptedConnectionsWait(t *testing.T) {
	m := newMeters()
	var waits []int64
	for range 14 {
		waits = append(waits, m.Accept("A", 1, 0))
	}
	if want := []int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000, 1000, 1000, 1000}; !slices.Equal(waits, want) {
		t.Errorf("waits %d, want %d", waits, want)
	}
	for _, listener := range []string{"B", ""} {
		if wait := m.Accept(listener, 100, 0); wait != 0 {
			t.Errorf("listener %q waits %d ms because of another one", listener, wait)
		}
	}
	if wait := m.Accept("A", 10, 5_000); wait != 0 {
		t.Errorf("15 connections in 10 s wait %d ms with 10 a second, want none", wait)
	}
}

func TestARefusedConnectionIsNotCounted(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::1")
	quotas := set{{IP: Default}: {Connections: 1}, {IP: Named("::1")}: {Connections: 100}}
	m, allowed := newMeters(), 0
	for range 100 {
		if m.Connect(quotas.at(t, a), 0) == 0 {
			allowed++
		}
		if wait := m.Connect(quotas.at(t, b), 0); wait != 0 {
			t.Fatalf("an address with a quota of its own waits %d ms", wait)
		}
	}
	if allowed != 10 {
		t.Errorf("%d connections at once, want the burst of 10", allowed)
	}
	if wait := m.Connect(quotas.at(t, a), 0); wait != 1000 {
		t.Errorf("refused for %d ms, want 1000", wait)
	}
	if m.Connect(quotas.at(t, a), 10_999) == 0 || m.Connect(quotas.at(t, a), 11_000) != 0 {
		t.Error("the burst is to be allowed again after 11 s, not sooner")
	}
	if _, limited := FindAddress(set{}, a); limited {
		t.Error("limited without a quota")
	}
}

func TestClientsThatShareAQuotaAreMeasuredTogether(t *testing.T) {
	quotas := set{{User: Named("u")}: {ProduceBytes: 100}, {ClientID: Default}: {ProduceBytes: 100}}
	m := newMeters()
	m.Record(quotas.find(t, ProduceBytes, "u", "a"), 1000, 0)
	if m.Record(quotas.find(t, ProduceBytes, "u", "b"), 100, 0) != 1000 {
		t.Error("two client ids of a user do not share the user's quota")
	}
	m.Record(quotas.find(t, ProduceBytes, "v", "a"), 1000, 0)
	if m.Record(quotas.find(t, ProduceBytes, "w", "a"), 100, 0) != 1000 {
		t.Error("two users of a client id do not share the client id's quota")
	}
	if m.Record(quotas.find(t, ProduceBytes, "v", "b"), 1000, 0) != 0 {
		t.Error("another client id has no quota of its own")
	}
	if m.Len() != 3 {
		t.Errorf("%d meters, want 3", m.Len())
	}
}

// A record of a Kafka, or one made to do harm, may say what no request can set. It is as if it was not there: the next in line holds.
func TestALimitThatIsNoneHoldsNobody(t *testing.T) {
	ip := netip.MustParseAddr("10.0.0.1")
	for _, odd := range []float64{math.NaN(), 0, -1, math.Inf(-1)} {
		quotas := set{{User: Named("u")}: {FetchBytes: odd}, {IP: Default}: {Connections: odd}}
		if h, ok := Find(quotas, FetchBytes, "u", "c"); ok {
			t.Errorf("a quota of %v holds: %+v", odd, h)
		}
		if h, ok := FindAddress(quotas, ip); ok {
			t.Errorf("a quota of %v holds for an address: %+v", odd, h)
		}
		quotas[Entity{ClientID: Default}] = map[Kind]float64{FetchBytes: 7}
		if h := quotas.find(t, FetchBytes, "u", "c"); h.limit != 7 {
			t.Errorf("beside a quota of %v: %+v, want the one of 7", odd, h)
		}
	}
	// The largest and the smallest that can be set make long waits and large bursts, never ones below 0.
	for _, edge := range []float64{math.SmallestNonzeroFloat64, 1e-4, math.MaxFloat64} {
		m, bytes, tokens := newMeters(), one(FetchBytes, edge).find(t, FetchBytes, "u", "c"), one(Mutations, edge).find(t, Mutations, "u", "c")
		large := edge == math.MaxFloat64
		for now := int64(0); now < 30_000; now += 700 {
			if wait := m.Record(bytes, 1e9, now); wait < 0 || (wait == 0) != large {
				t.Errorf("quota %v: wait %d ms", edge, wait)
			}
			if wait := m.ChargeAnyway(tokens, 1000, now); wait < 0 || (wait == 0) != large {
				t.Errorf("quota %v: wait %d ms for a mutation", edge, wait)
			}
		}
		if burst := m.window.Burst(bytes); !(burst >= 0) {
			t.Errorf("quota %v: burst %v", edge, burst)
		}
	}
}

func TestMetersAreForgotten(t *testing.T) {
	quotas := set{{ClientID: Default}: {ProduceBytes: 1}}
	m := newMeters()
	record := func(clientID string, amount float64, now int64) int64 {
		return m.Record(quotas.find(t, ProduceBytes, "u", clientID), amount, now)
	}
	const most = bytesMax / (meterBytes + sampleBytes + 5) // with ids of five bytes
	for i := range most + 100 {
		record(fmt.Sprint(10_000+i), 1, 0)
	}
	if m.Len() != most {
		t.Errorf("%d meters, want %d at most", m.Len(), most)
	}
	record(fmt.Sprint(10_000+most+50), 100, silentMs-1)
	if got := record(fmt.Sprint(10_000+most+50), 1, silentMs-1); got == 0 {
		t.Error("one in use was forgotten")
	}
	for i := range most {
		record(fmt.Sprint("x", i%5), 1, silentMs)
	}
	if m.Len() != 6 {
		t.Errorf("%d meters after an hour, want the 6 in use", m.Len())
	}
}

// A client that calls itself something else with each request, as long as can be, takes the place of others, and no more memory.
func TestLongNamesTakeNoMoreMemory(t *testing.T) {
	quotas := set{{ClientID: Default}: {ProduceBytes: 1}}
	m, long := newMeters(), strings.Repeat("x", math.MaxInt16-5)
	held := 0
	for i := range 5000 {
		m.Record(quotas.find(t, ProduceBytes, "", long+fmt.Sprint(10_000+i)), 1, 0)
		if i%7 == 0 {
			m.Record(quotas.find(t, ProduceBytes, "", "in use"), 1, 0)
		}
	}
	for _, x := range m.meters {
		held += x.bytes()
	}
	if held != m.bytes || held > bytesMax || held < bytesMax-2*len(long) {
		t.Errorf("%d meters hold %d bytes and count %d, want just under %d", m.Len(), held, m.bytes, bytesMax)
	}
	if got := m.Record(quotas.find(t, ProduceBytes, "", "in use"), 1, 0); got == 0 {
		t.Error("a client in use was forgotten")
	}
}

// quota.window.num has no upper limit: many samples count as what they are.
func TestManySamplesTakeNoMoreMemory(t *testing.T) {
	quotas := set{{ClientID: Default}: {ProduceBytes: 1}}
	window := Window{Count: 50_000, SizeMs: 1}
	m := NewMeters(window, window)
	for i := range 30 {
		held := quotas.find(t, ProduceBytes, "", fmt.Sprint("client ", i))
		for ms := range int64(window.Count) {
			m.Add(held, 1, ms)
		}
	}
	samples := 0
	for _, x := range m.meters {
		samples += cap(x.rate.samples)
	}
	if most := bytesMax / sampleBytes; m.Len() < 5 || samples > most+2*window.Count {
		t.Errorf("%d meters have %d samples, want %d at most", m.Len(), samples, most)
	}
}
