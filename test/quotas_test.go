package test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// quotasOf lists the client quotas of a broker.
func quotasOf(t testing.TB, addr string) string {
	t.Helper()
	client := must(kgo.NewClient(kgo.SeedBrokers(addr)))(t)
	defer client.Close()
	var lines []string
	for _, q := range must(kadm.NewClient(client).DescribeClientQuotas(context.Background(), false, nil))(t) {
		var words []string
		for _, part := range q.Entity {
			if part.Name == nil {
				words = append(words, part.Type)
			} else {
				words = append(words, part.Type+" "+*part.Name)
			}
		}
		slices.Sort(words)
		var values []string
		for _, v := range q.Values {
			values = append(values, fmt.Sprintf("%s=%v", v.Key, v.Value))
		}
		slices.Sort(values)
		lines = append(lines, strings.Join(words, ", ")+": "+strings.Join(values, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sentPerSecond finds the mean in what producer-perf prints last.
var sentPerSecond = regexp.MustCompile(`(?m)^\d+ records sent, ([\d.]+) records/sec .* 50th`)

// TestQuotasOfKafkasTool sets client quotas with Kafka's kafka-configs. They hold for Kafka's producer, outlast kill -9, and go with
// the directory to Apache Kafka and back.
func TestQuotasOfKafkasTool(t *testing.T) {
	t.Parallel()
	d := newSwapDir(t, "--override", "quota.window.num=2") // the bursts are short
	p := d.raftsman(t)
	alter := func(args ...string) {
		t.Helper()
		kafkaTool(t, "", "configs", append([]string{"--bootstrap-server", d.addr(), "--alter"}, args...)...)
	}
	alter("--add-config", "producer_byte_rate=1000000,consumer_byte_rate=2000000", "--entity-type", "clients", "--entity-name", "perf")
	alter("--add-config", "producer_byte_rate=3000000", "--entity-type", "clients", "--entity-default")
	alter("--add-config", "request_percentage=150.5", "--entity-type", "users", "--entity-name", "al ice")
	alter("--add-config", "controller_mutation_rate=1000", "--entity-type", "users", "--entity-default")
	alter("--add-config", "consumer_byte_rate=4000000", "--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default")
	alter("--add-config", "connection_creation_rate=500", "--entity-type", "ips", "--entity-name", "10.0.0.1")
	alter("--add-config", "connection_creation_rate=600", "--entity-type", "ips", "--entity-default")
	want := strings.Join([]string{
		"client-id perf: consumer_byte_rate=2e+06 producer_byte_rate=1e+06",
		"client-id, user bob: consumer_byte_rate=4e+06",
		"client-id: producer_byte_rate=3e+06",
		"ip 10.0.0.1: connection_creation_rate=500",
		"ip: connection_creation_rate=600",
		"user al ice: request_percentage=150.5",
		"user: controller_mutation_rate=1000",
	}, "\n")
	same := func(when string) {
		t.Helper()
		if got := quotasOf(t, d.addr()); got != want {
			t.Fatalf("%s:\n%s\nwant\n%s", when, got, want)
		}
	}
	same("after the tool")
	out := kafkaTool(t, "", "configs", "--bootstrap-server", d.addr(), "--describe", "--entity-type", "clients", "--entity-name", "perf")
	if !strings.Contains(out, "Quota configs for client-id 'perf' are consumer_byte_rate=2000000.0, producer_byte_rate=1000000.0") {
		t.Errorf("the tool describes:\n%s", out)
	}

	kafkaTool(t, "", "topics", "--bootstrap-server", d.addr(), "--create", "--topic", "perf", "--partitions", "1")
	out = kafkaTool(t, "", "producer-perf", "--topic", "perf", "--num-records", "12000", "--record-size", "1000", "--throughput", "-1",
		"--command-property", "bootstrap.servers="+d.addr(), "client.id=perf")
	m := sentPerSecond.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("producer-perf says:\n%s", out)
	}
	if rate := must(strconv.ParseFloat(m[1], 64))(t); rate < 650 || rate > 1100 { // Apache Kafka lets it have 750 to 800
		t.Errorf("%v records of 1 kB a second under a quota of 1 MB/s:\n%s", rate, out)
	}

	p.kill()
	p = d.raftsman(t)
	same("after kill -9")
	p.terminate()

	k := d.kafka(t)
	same("Kafka after Raftsman")
	alter("--add-config", "producer_byte_rate=5000000", "--delete-config", "consumer_byte_rate", "--entity-type", "clients", "--entity-name", "perf")
	alter("--delete-config", "connection_creation_rate", "--entity-type", "ips", "--entity-default")
	want = strings.Replace(want, "client-id perf: consumer_byte_rate=2e+06 producer_byte_rate=1e+06", "client-id perf: producer_byte_rate=5e+06", 1)
	want = strings.Replace(want, "ip: connection_creation_rate=600\n", "", 1)
	k.terminate()

	p = d.raftsman(t)
	same("Raftsman after Kafka")
	p.terminate()
	dumpAll(t, d.data)
}
