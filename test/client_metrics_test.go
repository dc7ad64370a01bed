package test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	otlp "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OpenTelemetry collector: it reads what comes with OpenTelemetry's own library.
type collector struct {
	mu   sync.Mutex                 // guards seen
	seen map[string]map[string]bool // names of metrics by the client that they are of: id, instance and software
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var pushed otlp.MetricsData // which is as the request of OTLP
	packed, err := gzip.NewReader(r.Body)
	if err == nil {
		var body []byte
		if body, err = io.ReadAll(packed); err == nil {
			err = proto.Unmarshal(body, &pushed)
		}
	}
	if err != nil || r.URL.Path != "/v1/metrics" || r.Header.Get("X-Token") != "let me in" {
		http.Error(w, fmt.Sprint("cannot read it: ", err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range pushed.ResourceMetrics {
		var who []string
		for _, name := range []string{"client_id", "client_instance_id", "client_software_name"} {
			for _, a := range resource.Resource.Attributes {
				if a.Key == name {
					who = append(who, a.Value.GetStringValue())
				}
			}
		}
		of := strings.Join(who, " ")
		if c.seen[of] == nil {
			c.seen[of] = map[string]bool{}
		}
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				c.seen[of][m.Name] = true
			}
		}
	}
}

// metricsOf returns what has come of a client.
func (c *collector) metricsOf(who string) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.seen[who] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// pushing are series of clients' metrics by software and metric, of all instances together.
func pushing(values map[string]float64, software, metric string) (instance string, v float64, there bool) {
	for series, value := range values {
		if strings.HasPrefix(series, metric+"{") && strings.Contains(series, `client_software_name="`+software+`"`) {
			_, rest, _ := strings.Cut(series, `client_instance_id="`)
			instance, _, _ = strings.Cut(rest, `"`)
			v, there = v+value, true
		}
	}
	return instance, v, there
}

// TestClientsPushTheirMetrics: clients of Java, librdkafka and Go push their metrics as they do by themselves (KIP-714), once Kafka's
// tool has asked for them. /metrics shows them, what is counted grows, a collector gets them, and they go with the client.
func TestClientsPushTheirMetrics(t *testing.T) {
	t.Parallel()
	sink := &collector{seen: map[string]map[string]bool{}}
	web := httptest.NewServer(sink)
	defer web.Close()
	port := freePort(t)
	address := fmt.Sprint("127.0.0.1:", port+1)
	p := startBrokerAt(t, t.TempDir(), port, "--override", "raftsman.http.listener="+address,
		"--override", "raftsman.client.metrics.otlp.endpoint="+web.URL+"/v1/metrics", "--override", "raftsman.client.metrics.otlp.headers=x-token=let me in")
	const topic = "pushed"
	cl := must(kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.ClientID("go"), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation()))(t)
	defer cl.Close()
	produce := func() {
		t.Helper()
		for range 10 {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := kafkaTool(t, "", "client-metrics", "--bootstrap-server", p.addr, "--alter", "--generate-name", "--metrics", "org.apache.kafka.", "--interval", "300")
	if !strings.Contains(out, "Altered client metrics config for ") {
		t.Errorf("the tool says %s", out)
	}
	produce()

	members := map[string]*member{}
	counted := map[string]string{} // a counter of each that grows
	for _, lib := range libraries(t) {
		switch lib.name {
		case "java":
			members["apache-kafka-java"], counted["apache-kafka-java"] = startMember(t, lib, p.addr, lib.name, topic), "org_apache_kafka_consumer_fetch_manager_fetch_total"
		case "confluent-kafka":
			members["confluent-kafka-python"], counted["confluent-kafka-python"] = startMember(t, lib, p.addr, lib.name, topic), "org_apache_kafka_consumer_connection_creation_total"
		}
	}
	counted["kgo"] = "org_apache_kafka_producer_connection_creation_total"
	instances, before := map[string]string{}, map[string]float64{}
	for software, metric := range counted {
		eventually(t, atLast, software+" pushes", func() error {
			produce()
			values := scrape(t, address)
			instance, v, there := pushing(values, software, metric)
			if !there {
				var of []string
				for series := range values {
					if strings.Contains(series, "client_instance_id") {
						of = append(of, series)
					}
				}
				return fmt.Errorf("of %d series none is its %s:\n%s", len(values), metric, strings.Join(of, "\n"))
			}
			instances[software], before[software] = instance, v
			return nil
		})
	}
	t.Logf("counted %v", before)
	eventually(t, atLast, "Java's counter grows", func() error {
		produce()
		if _, v, _ := pushing(scrape(t, address), "apache-kafka-java", counted["apache-kafka-java"]); v <= before["apache-kafka-java"] {
			return fmt.Errorf("it stays at %v", v)
		}
		return nil
	})
	for software, instance := range instances {
		t.Logf("%s %s", software, instance)
	}
	eventually(t, atLast, "the collector has metrics of all", func() error {
		sink.mu.Lock()
		var who []string
		for of := range sink.seen {
			who = append(who, of)
		}
		sink.mu.Unlock()
		for software, instance := range instances {
			n := slices.IndexFunc(who, func(of string) bool { return strings.HasSuffix(of, " "+instance+" "+software) })
			if n < 0 || len(sink.metricsOf(who[n])) == 0 {
				return fmt.Errorf("none of %s %s: %q", software, instance, who)
			}
		}
		return nil
	})

	for software, m := range members {
		_ = m.process.command.Process.Signal(syscall.SIGTERM)
		<-m.process.exited
		eventually(t, atLast, "the series of "+software+" are gone", func() error {
			if _, _, there := pushing(scrape(t, address), software, counted[software]); there {
				return fmt.Errorf("they are there")
			}
			return nil
		})
	}
	p.terminate()
}
