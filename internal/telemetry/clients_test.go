package telemetry_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/raw"
)

// pusher is a client that pushes metrics as the test says.
type pusher struct {
	*raw.Conn
	id  [16]byte
	sub int32
}

// newPusher asks on a connection of its own, after the broker was told to ask for all metrics.
func newPusher(t *testing.T, b *brokertest.Broker, id byte) *pusher {
	t.Helper()
	p := &pusher{Conn: raw.Dial(t, b.Addr()), id: [16]byte{id}}
	named := raw.At(3, kmsg.NewPtrApiVersionsRequest())
	named.ClientSoftwareName, named.ClientSoftwareVersion = "test", "1.0"
	p.Ask(named)
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	req.ClientInstanceID = p.id
	p.sub = p.Ask(req).(*kmsg.GetTelemetrySubscriptionsResponse).SubscriptionID
	return p
}

func (p *pusher) push(terminating bool, metrics ...raw.Field) {
	p.Helper()
	req := kmsg.NewPtrPushTelemetryRequest()
	req.ClientInstanceID, req.SubscriptionID, req.Terminating, req.Metrics = p.id, p.sub, terminating, raw.OTLPPush([]raw.Field{raw.OTLPAttribute(1, "group_id", "g")}, metrics...)
	if got := p.Ask(req).(*kmsg.PushTelemetryResponse); got.ErrorCode != 0 {
		p.Fatalf("push: %d", got.ErrorCode)
	}
}

// Whatever clients push, the page can be read, and nobody's metric passes for the broker's or another client's.
func TestAScrapeShowsWhatClientsPush(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	p, other := newPusher(t, b, 4), newPusher(t, b, 5)
	histogram := raw.Within(9, raw.Within(1, raw.Fixed64(4, 6), raw.Double(5, 7.5), raw.Fixed64(6, 1), raw.Fixed64(6, 2), raw.Fixed64(6, 3),
		raw.Double(7, 1), raw.Double(7, 10), raw.OTLPAttribute(9, "le", "5")))
	summary := raw.Within(11, raw.Within(1, raw.Fixed64(4, 9), raw.Double(5, 90), raw.Within(6, raw.Double(1, 0.5), raw.Double(2, 3))))
	hostile := []raw.Field{
		raw.OTLPGauge("kafka_brokers", 77), raw.OTLPGauge("odd \n# TYPE\"{}", 1, raw.OTLPAttribute(7, "a\"b\n", "c\"d\n\\"), raw.OTLPAttribute(7, "client_id", "x")),
		raw.OTLPGauge("spread.count", 5), raw.Within(2, raw.Bytes(1, "spread"), histogram), raw.Within(2, raw.Bytes(1, "quantiles"), summary),
		raw.OTLPGauge("", 3), raw.OTLPGauge("mixed", 1),
	}
	p.push(false, append(hostile, raw.OTLPCounter("org.apache.kafka.consumer.records.total", raw.OTLPDelta, 5, raw.OTLPAttribute(7, "topic", "t")))...)
	other.push(false, raw.Within(2, raw.Bytes(1, "mixed"), histogram), raw.OTLPCounter("org.apache.kafka.consumer.records.total", raw.OTLPDelta, 8))
	const mine = `client_id="raw",client_instance_id="BAAAAAAAAAAAAAAAAAAAAA",client_software_name="test",client_software_version="1.0",client_source_address="127.0.0.1"`
	others := strings.Replace(mine, "BAAA", "BQAA", 1)
	got := scrape(t, b)
	for series, want := range map[string]float64{
		"kafka_brokers":                                                   1,
		"client_kafka_brokers{" + mine + "}":                              77,
		`client_odd_TYPE{` + mine + `,a_b_="c\"d\n\\"}`:                   1,
		"client_spread_sum{" + mine + "}":                                 7.5,
		"client_spread_count{" + mine + "}":                               6,
		"client_spread_bucket{" + mine + `,le="10"}`:                      3,
		"client_spread_bucket{" + mine + `,le="+Inf"}`:                    6,
		"client_quantiles{" + mine + `,quantile="0.5"}`:                   3,
		"client_mixed{" + mine + "}":                                      1,
		"org_apache_kafka_consumer_records_total{" + mine + `,topic="t"}`: 5,
		"org_apache_kafka_consumer_records_total{" + others + "}":         8,
		"raftsman_client_info{" + mine + `,group_id="g"}`:                 1,
		"raftsman_client_metrics_instances":                               2,
		"raftsman_client_metrics_series":                                  10,
		`raftsman_client_metrics_pushes_total{result="taken"}`:            2,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if _, there := got["client_mixed_sum{"+others+"}"]; there {
		t.Error("one name has two types")
	}
	p.push(true)
	_ = other.Net.Close()
	for deadline := time.Now().Add(raw.Patience); ; {
		if got := scrape(t, b); got["raftsman_client_metrics_series"] == 0 && got["raftsman_client_metrics_instances"] == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the series of clients that are gone stay")
		}
	}
}

// franz-go pushes by itself, in the test's own process.
func TestAClientPushesByItself(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	l := raw.Dial(t, b.Addr())
	l.Ask(raw.IncrementalAlterConfigs(1, false, raw.Assignments{Kind: config.KindClientMetrics, Name: "all", Sets: []string{"metrics=org.apache.kafka.", "interval.ms=200"}}))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ClientID("franz"), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for deadline := time.Now().Add(raw.Patience); ; {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for series := range scrape(t, b) {
			if strings.HasPrefix(series, "org_apache_kafka_producer_") && strings.Contains(series, `client_id="franz"`) {
				seen++
			}
		}
		if seen > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is pushed")
		}
	}
}

// BenchmarkAScrapeOfClients scrapes as many series as there may be.
func BenchmarkAScrapeOfClients(b *testing.B) {
	broker := brokertest.Start(b, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	for id := range byte(20) {
		p := &pusher{Conn: raw.Dial(b, broker.Addr()), id: [16]byte{1 + id}}
		req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
		req.ClientInstanceID = p.id
		p.sub = p.Ask(req).(*kmsg.GetTelemetrySubscriptionsResponse).SubscriptionID
		var all []raw.Field
		for i := range 1000 {
			all = append(all, raw.OTLPGauge(fmt.Sprint("org.apache.kafka.producer.topic.rate.", i%100), 1.5, raw.OTLPAttribute(7, "topic", fmt.Sprint("topic-", i))))
		}
		p.push(false, all...)
	}
	for b.Loop() {
		resp, err := http.Get("http://" + broker.Node().HTTPAddr().String() + "/metrics")
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n), "bytes/op")
	}
}
