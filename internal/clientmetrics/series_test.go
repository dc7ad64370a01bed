package clientmetrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// keep pushes and returns what is shown then, a line for each series, without the labels of the client.
func (c *client) keep(push []byte) string {
	c.Helper()
	c.nowMs += 300_000
	c.get(kafka.None)
	c.push(kafka.None)
	p, err := Read(push, 50)
	if err != nil {
		c.Fatal(err)
	}
	c.all.Keep(c.id, p)
	return c.shown()
}

func (c *client) shown() string {
	var lines []string
	for _, s := range c.all.Observe(c.nowMs).Samples {
		line := s.Family
		for _, l := range s.Labels {
			line += fmt.Sprintf(" %s=%s", l.Name, l.Value)
		}
		line += fmt.Sprintf(" %c %v", "gchs"[s.Kind], s.Value)
		if s.Spread != nil {
			line += fmt.Sprint(" ", *s.Spread)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestNewestValues(t *testing.T) {
	const gauge, counter = "org.apache.kafka.producer.rate", "org.apache.kafka.producer.record.total"
	topic := raw.OTLPAttribute(7, "topic", "a")
	c := newClient(t)
	for i, step := range []struct {
		push []byte
		want string
	}{
		{
			raw.OTLPPush(nil, raw.OTLPGauge(gauge, 2.5), raw.OTLPCounter(counter, raw.OTLPDelta, 5, topic)),
			"org_apache_kafka_producer_rate g 2.5\norg_apache_kafka_producer_record_total topic=a c 5",
		},
		{
			raw.OTLPPush(nil, raw.OTLPGauge(gauge, 3), raw.OTLPCounter(counter, raw.OTLPDelta, 7, topic)),
			"org_apache_kafka_producer_rate g 3\norg_apache_kafka_producer_record_total topic=a c 12",
		},
		{raw.OTLPPush(nil, raw.OTLPCounter(counter, raw.OTLPDelta, 1)), // a gauge that is not there is gone, a counter stays
			"org_apache_kafka_producer_record_total c 1\norg_apache_kafka_producer_record_total topic=a c 12"},
		{
			raw.OTLPPush(nil, raw.OTLPCounter(counter, raw.OTLPCumulative, 40)),
			"org_apache_kafka_producer_record_total c 40\norg_apache_kafka_producer_record_total topic=a c 12",
		},
		{nil, "org_apache_kafka_producer_record_total c 40\norg_apache_kafka_producer_record_total topic=a c 12"},
	} {
		if got := c.keep(step.push); got != step.want {
			t.Fatalf("push %d: got\n%s\nwant\n%s", i, got, step.want)
		}
	}
	c.push(kafka.None, terminating)
	if got := c.shown(); got != "" || c.all.series != 0 {
		t.Errorf("after the client's end there is\n%s", got)
	}
}

// A unit is part of the name, and as bounded: it stands in the key of each series.
func TestLongUnitsAreNotTaken(t *testing.T) {
	p, err := Read(raw.OTLPPush(nil, raw.Within(2, raw.Bytes(1, "m"), raw.Bytes(3, strings.Repeat("u", 256)), raw.Within(5, raw.Within(1, raw.Double(4, 1))))), 50)
	if err != nil || len(p.series) != 0 || p.dropped != 1 {
		t.Errorf("%d series, %d dropped, %v; want the one dropped", len(p.series), p.dropped, err)
	}
}

// Two equal quantiles, or one that is none, would make a page that Prometheus refuses.
func TestQuantilesStandOnce(t *testing.T) {
	point := raw.Field{}
	for i, q := range []float64{0.5, 1, 0.5, math.NaN(), -1, math.Inf(1), 1.5, 0, math.Copysign(0, -1), math.NaN()} {
		point = append(point, raw.Within(6, raw.Double(1, q), raw.Double(2, float64(i)))...)
	}
	got := newClient(t).keep(raw.OTLPPush(nil, raw.Within(2, raw.Bytes(1, "s"), raw.Within(11, raw.Within(1, point)))))
	if want := "client_s s 0 {0 0 [0.5 1 0] [0 1 7]}"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// packed are fixed64 values in one field.
func packed(number int, values ...uint64) raw.Field {
	var all raw.Field
	for _, v := range values {
		all = append(all, raw.Fixed64(1, v)[1:]...)
	}
	return raw.Bytes(number, string(all))
}

func TestSpreads(t *testing.T) {
	histogram := func(sum float64, counts ...uint64) []byte {
		total := uint64(0)
		for _, n := range counts {
			total += n
		}
		point := raw.Within(1, packed(6, counts...), packed(7, math.Float64bits(1), math.Float64bits(10)), raw.Fixed64(4, total), raw.Double(5, sum),
			raw.OTLPAttribute(9, "le", "mine"), raw.OTLPAttribute(9, "z", "y"))
		return raw.OTLPPush(nil, raw.Within(2, raw.Within(9, point, raw.Varint(2, raw.OTLPDelta)), raw.Bytes(3, "ms"), raw.Bytes(1, "org.apache.kafka.latency")))
	}
	c := newClient(t)
	c.keep(histogram(7, 1, 2, 3))
	if got, want := c.keep(histogram(8, 1, 0, 1)), "org_apache_kafka_latency_milliseconds z=y h 0 {8 15 [1 10 +Inf] [2 2 4]}"; got != want {
		t.Errorf("histogram:\n%s\nwant\n%s", got, want)
	}
	quantile := func(q, v float64) raw.Field { return raw.Within(6, raw.Double(1, q), raw.Double(2, v)) }
	summary := raw.Within(11, raw.Within(1, raw.Fixed64(4, 9), raw.Double(5, 90), quantile(0.5, 3), quantile(0.99, 8)))
	exponential := raw.Within(10, raw.Within(1, raw.Fixed64(4, 2), raw.Double(5, 3), raw.OTLPAttribute(1, "a", "b")), raw.Varint(2, raw.OTLPCumulative))
	got := newClient(t).keep(raw.OTLPPush(nil, raw.Within(2, raw.Bytes(1, "s"), summary), raw.Within(2, raw.Bytes(1, "x"), exponential)))
	if want := "client_s s 0 {9 90 [0.5 0.99] [3 8]}\nclient_x a=b s 0 {2 3 [] []}"; got != want {
		t.Errorf("summaries:\n%s\nwant\n%s", got, want)
	}
}

// No push can take more than its share, and together they can't either.
func TestSeriesAreBounded(t *testing.T) {
	many := func(n int, prefix string) []byte {
		var all []raw.Field
		for i := range n {
			all = append(all, raw.OTLPCounter(fmt.Sprint("org.apache.kafka.", prefix, i), raw.OTLPDelta, 1))
		}
		return raw.OTLPPush(nil, all...)
	}
	c := newClient(t)
	for n := range 3 {
		c.id[15]++
		c.keep(many(60, "a"))
		c.keep(many(60, "b"))
		if got, want := c.all.series, min(50*(n+1), 100); got != want {
			t.Errorf("%d clients have %d series, want %d", n+1, got, want)
		}
	}
	if o := c.all.Observe(c.nowMs); len(o.Samples) != 100 || o.Dropped == 0 {
		t.Errorf("%d series are shown, %d dropped", len(o.Samples), o.Dropped)
	}
	c.nowMs += 1_000_000
	if c.all.Expire(c.nowMs); c.all.series != 0 {
		t.Errorf("%d series outlive their clients", c.all.series)
	}
	long := strings.Repeat("x", 300)
	c.id[15]++
	if got := c.keep(raw.OTLPPush(nil, raw.OTLPGauge(long, 1), raw.OTLPGauge("a", 1, raw.OTLPAttribute(7, "k", strings.Repeat("v", 2000))))); got != "" {
		t.Errorf("too long, and shown: %s", got)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		name, unit string
		kind       Kind
		want       string
	}{
		{"org.apache.kafka.producer.record.send.total", "", Counter, "org_apache_kafka_producer_record_send_total"},
		{"org.apache.kafka.consumer.coordinator.heartbeat.rate", "", Gauge, "org_apache_kafka_consumer_coordinator_heartbeat_rate"},
		{"org.apache.kafka.x", "ms", Gauge, "org_apache_kafka_x_milliseconds"},
		{"org.apache.kafka.x", "By/s", Gauge, "org_apache_kafka_x_bytes_per_second"},
		{"org.apache.kafka.x.bytes", "By", Counter, "org_apache_kafka_x_bytes_total"},
		{"org.apache.kafka.x", "1", Gauge, "org_apache_kafka_x_ratio"},
		{"org.apache.kafka.x", "1", Counter, "org_apache_kafka_x_total"},
		{"org.apache.kafka.x", "{records}", Gauge, "org_apache_kafka_x"},
		{"kafka_brokers", "", Gauge, "client_kafka_brokers"},
		{"total", "", Counter, "client_total"},
		{"", "", Gauge, "client_"},
		{"9lives-ä\n", "", Gauge, "client_9lives"},
	} {
		if got := familyName(c.name, c.unit, c.kind); got != c.want {
			t.Errorf("%q in %q: %s, want %s", c.name, c.unit, got, c.want)
		}
	}
	for name, want := range map[string]string{"topic": "topic", "a.b": "a_b", "0": "key_0", "": "key_", "__name__": "key___name__", "ä": "_"} {
		if got := labelName(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// What a client says of itself does not stand in the way of what the broker knows of it.
func TestClientCannotPassForAnother(t *testing.T) {
	push := raw.OTLPPush([]raw.Field{raw.OTLPAttribute(1, "client_id", "admin"), raw.OTLPAttribute(1, "group_id", "g")},
		raw.OTLPGauge("m", 1, raw.OTLPAttribute(7, "client.id", "admin"), raw.OTLPAttribute(7, "x", "1"), raw.OTLPAttribute(7, "x", "2")))
	c := newClient(t)
	if got := c.keep(push); got != "client_m x=1 g 1" {
		t.Error(got)
	}
	o := c.all.Observe(c.nowMs)
	want := []Label{
		{"client_id", "raw"},
		{"client_instance_id", c.id.String()},
		{"client_software_name", "apache-kafka-java"},
		{"client_software_version", "4.4.0"},
		{"client_source_address", "127.0.0.1"},
		{"group_id", "g"},
	}
	if !slices.Equal(o.Clients[0], want) || !slices.Equal(o.Samples[0].Client, want[:5]) {
		t.Errorf("%v\nwant\n%v", o.Clients[0], want)
	}
	forwarded, err := Forwarded(push, c.id, &c.from.Client)
	if err != nil {
		t.Fatal(err)
	}
	d := decoder{visit: func(*point) {}}
	if err := d.push(append(forwarded, forwarded...)); err != nil {
		t.Fatal(err)
	}
	got := owned(d.resource)
	slices.SortFunc(got, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	if want := slices.Insert(slices.Clone(want), 5, Label{"client_source_port", "4711"}); !slices.Equal(got, want) {
		t.Errorf("a collector gets\n%v\nwant\n%v", got, want)
	}
}

// A collector refuses a message with a text that is not UTF-8.
func TestWhatIsForwardedIsUTF8(t *testing.T) {
	push := raw.OTLPPush(nil, raw.OTLPGauge("a", 1))
	for _, id := range []string{"\xff\xfe", strings.Repeat("x", valueMax-1) + "ä"} {
		forwarded, err := Forwarded(push, kafka.UUID{1}, &Client{ID: id, SoftwareName: id, SoftwareVersion: id, Address: id, Port: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(forwarded, 10); err != nil { // which looks at it
			t.Errorf("client id %.10q: %v", id, err)
		}
	}
}

func TestForwardingDoesNotMultiply(t *testing.T) {
	empty := []byte(strings.Repeat("\x0a\x00", 500_000))
	if _, err := Read(empty, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := Forwarded(empty, kafka.UUID{1}, &Client{}); !errors.Is(err, errManyResources) {
		t.Errorf("%v, want %v", err, errManyResources)
	}
}

func TestWhatIsNoOTLP(t *testing.T) {
	for name, push := range map[string][]byte{
		"text": []byte("garbage"), "zeros": make([]byte, 100), "cut": raw.OTLPPush(nil, raw.OTLPGauge("a", 1))[:20],
		"group":              raw.Message(raw.Field("\x0b\x0c")),
		"text that is none":  raw.OTLPPush(nil, raw.OTLPGauge("\xff", 1)),
		"name is a number":   raw.OTLPPush(nil, raw.Within(2, raw.Varint(1, 5))),
		"buckets and bounds": raw.OTLPPush(nil, raw.Within(2, raw.Within(9, raw.Within(1, packed(6, 1, 2), packed(7, 1, 2))))),
		"falling bounds":     raw.OTLPPush(nil, raw.Within(2, raw.Within(9, raw.Within(1, packed(6, 1, 2, 3), packed(7, math.Float64bits(2), math.Float64bits(1)))))),
		"many attributes":    raw.OTLPPush(nil, raw.OTLPGauge("a", 1, slices.Repeat([]raw.Field{raw.OTLPAttribute(7, "a", "b")}, 25)...)),
	} {
		if _, err := Read(push, 10); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRead: no push stops the broker, and what was understood is understood by a collector too.
func FuzzRead(f *testing.F) {
	f.Add(raw.OTLPPush([]raw.Field{raw.OTLPAttribute(1, "client_id", "c")}, raw.OTLPGauge("a", 1, raw.OTLPAttribute(7, "k", "v")), raw.OTLPCounter("b", 1, 2)))
	f.Add(raw.OTLPPush(nil, raw.Within(2, raw.Within(9, raw.Within(1, packed(6, 1, 2, 3), packed(7, 1, 2))))))
	f.Add(raw.OTLPPush(nil, raw.Within(2, raw.Bytes(1, "s"), raw.Within(11, raw.Within(1, raw.Within(6, raw.Double(1, 0.5), raw.Double(2, 1)))))))
	f.Fuzz(func(t *testing.T, push []byte) {
		p, err := Read(push, 100)
		if err != nil {
			return
		}
		if len(p.series) > 100 {
			t.Fatalf("%d series", len(p.series))
		}
		c := Client{ID: "c", SoftwareName: "n", SoftwareVersion: "v", Address: "a", Port: "p"}
		forwarded, err := Forwarded(push, kafka.UUID{1}, &c)
		if errors.Is(err, errManyResources) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		again, err := Read(forwarded, 100)
		if err != nil && !strings.Contains(err.Error(), "attributes") { // ours come on top
			t.Fatalf("what is forwarded can't be read: %v", err)
		}
		if err == nil && len(again.series) != len(p.series) {
			t.Fatalf("%d series of %d are forwarded", len(again.series), len(p.series))
		}
		all := NewInstances(Limits{PushBytes: 1 << 20, Series: 50, SeriesPerClient: 20})
		id := kafka.UUID{1}
		a := all.Get(0, id, From{Client: c}, nil)
		for range 2 {
			all.Begin(0, Push{ClientInstance: id, Subscription: a.Subscription, KnownCodec: true}, From{Client: c})
			all.Keep(id, p)
		}
		if o := all.Observe(0); len(o.Samples) > 20 {
			t.Fatalf("%d series are shown", len(o.Samples))
		}
	})
}
