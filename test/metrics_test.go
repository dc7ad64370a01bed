package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// scrape returns the values that a broker's /metrics shows.
func scrape(t testing.TB, address string) map[string]float64 {
	t.Helper()
	status, text := httpGet(t, address, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics is answered %d: %s", status, text)
	}
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		values[line[:at]] = v
	}
	return values
}

func httpGet(t testing.TB, address, path string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: atLast}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestScrapeShowsCompactionAndDamage: an operator sees from outside that a topic is compacted, and that another one is damaged and
// not compacted any more: by Prometheus, and with `raftsman topic describe` where and what to do.
func TestScrapeShowsCompactionAndDamage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	port := freePort(t)
	address := fmt.Sprint("127.0.0.1:", port+1)
	start := func(settings ...string) *process {
		args := []string{"--override", "raftsman.http.listener=" + address, "--override", "log.cleaner.backoff.ms=20"}
		for _, s := range settings {
			args = append(args, "--override", s)
		}
		return startBrokerAt(t, dir, port, args...)
	}
	p := start("log.cleaner.enable=false")
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, text := httpGet(t, address, path); status != http.StatusOK {
			t.Errorf("%s is answered %d: %s", path, status, text)
		}
	}
	settings := map[string]*string{}
	for name, value := range map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "internal.segment.bytes": "4000"} {
		settings[name] = &value
	}
	cl := crashClient(t, p.addr, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for _, topic := range []string{"hurt", "well"} {
		must(kadm.NewClient(cl).CreateTopics(t.Context(), 1, 1, settings, topic))(t)
		for i := range 40 {
			r := kgo.KeyStringRecord(fmt.Sprint("key ", i%3), strings.Repeat("x", 500))
			r.Topic = topic
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := scrape(t, address); got[`kafka_topic_partition_current_offset{topic="well",partition="0"}`] != 40 ||
		got[`kafka_log_log_numlogsegments{topic="well",partition="0"}`] < 4 || got["raftsman_cleaner_cleanings_total"] != 0 ||
		got[`kafka_server_brokertopicmetrics_bytesin_total{topic="well"}`] < 40*500 {
		t.Fatalf("before a cleaning: %v", got)
	}
	cl.Close()
	p.terminate()
	name := filepath.Join(dir, "hurt-0", "00000000000000000000.log")
	content := must(os.ReadFile(name))(t)
	content[100] ^= 4
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}

	p = start()
	dirLabel := `{logdirectory="` + dir + `"}`
	eventually(t, atLast, "the cleaner cleans the one and gives the other up", func() error {
		got := scrape(t, address)
		if got["raftsman_cleaner_cleanings_total"] < 1 || got["raftsman_cleaner_failures_total"] != 1 ||
			got["kafka_log_logcleanermanager_uncleanable_partitions_count"+dirLabel] != 1 || got["raftsman_damaged_partitions"+dirLabel] != 1 ||
			got["kafka_server_replicamanager_offlinereplicacount"] != 1 {
			return fmt.Errorf("%d values, of them cleanings %v, failures %v, uncleanable %v, damaged %v, offline %v", len(got),
				got["raftsman_cleaner_cleanings_total"], got["raftsman_cleaner_failures_total"],
				got["kafka_log_logcleanermanager_uncleanable_partitions_count"+dirLabel], got["raftsman_damaged_partitions"+dirLabel],
				got["kafka_server_replicamanager_offlinereplicacount"])
		}
		return nil
	})
	got := scrape(t, address)
	if read, kept := got["raftsman_cleaner_read_records_total"], got["raftsman_cleaner_kept_records_total"]; read < 20 || kept >= read {
		t.Errorf("of %v records %v were kept", read, kept)
	}
	if size := got[`kafka_log_log_size{topic="well",partition="0"}`]; size <= 0 || size > 20*500 {
		t.Errorf("the compacted log has %v bytes", size)
	}
	var told []struct {
		Partitions []struct {
			Compaction *struct {
				CleanedOffset int64
				LastCleaned   string
			}
			Uncleanable string
			Damage      *struct{ File, Reason, Remedy string }
		}
	}
	text := run(t, atLast, nil, binary(t), "topic", "describe", "hurt", "well", "-b", p.addr, "-o", "json")
	if err := json.Unmarshal([]byte(text), &told); err != nil || len(told) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	if hurt := told[0].Partitions[0]; hurt.Damage == nil || hurt.Damage.File != name || hurt.Damage.Remedy == "" || !strings.Contains(hurt.Uncleanable, "crc") {
		t.Errorf("the damaged partition is described as\n%s", text)
	}
	if well := told[1].Partitions[0]; well.Damage != nil || well.Compaction == nil || well.Compaction.CleanedOffset <= 0 || well.Compaction.LastCleaned == "" {
		t.Errorf("the compacted partition is described as\n%s", text)
	}
	if took := p.terminate(); took > stopSeen {
		t.Errorf("the stop took %v", took)
	}
}

// TestTrafficCountsAsKafkas puts the same load on Raftsman and on Apache Kafka and compares what both have counted of the topic: here
// /metrics, there JMX, under the names that the JMX exporter makes of it.
func TestTrafficCountsAsKafkas(t *testing.T) {
	t.Parallel()
	d := newSwapDir(t)
	jmx := freePort(t)
	d.args = []string{"--override", "raftsman.http.listener=" + fmt.Sprint("127.0.0.1:", d.port+1)}
	d.jvm = fmt.Sprint("-Dcom.sun.management.jmxremote.port=", jmx, " -Dcom.sun.management.jmxremote.rmi.port=", jmx,
		" -Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false -Dcom.sun.management.jmxremote.host=127.0.0.1",
		" -Djava.rmi.server.hostname=127.0.0.1")
	names := []string{"MessagesIn", "BytesIn", "BytesOut", "BytesRejected", "TotalProduceRequests", "FailedProduceRequests"}

	p := d.raftsman(t)
	countedLoad(t, p.addr, "here")
	shown := scrape(t, fmt.Sprint("127.0.0.1:", d.port+1))
	p.terminate()

	d.args = nil
	k := d.kafka(t)
	countedLoad(t, k.addr, "there")
	out := run(t, atLast, nil, "kafka/kafka", "class", "org.apache.kafka.tools.JmxTool", "--one-time", "--attributes", "Count", "--report-format", "properties",
		"--jmx-url", fmt.Sprint("service:jmx:rmi:///jndi/rmi://127.0.0.1:", jmx, "/jmxrmi"),
		"--object-name", "kafka.server:type=BrokerTopicMetrics,name=*,topic=there")
	k.terminate()
	for _, name := range names {
		m := regexp.MustCompile(`(?m)name=` + name + `PerSec.*:Count=(\d+)`).FindStringSubmatch(out)
		want := 0.0 // a meter that was never marked is not there
		if m != nil {
			want = must(strconv.ParseFloat(m[1], 64))(t)
		}
		series := "kafka_server_brokertopicmetrics_" + strings.ToLower(name) + `_total{topic="here"}`
		got, there := shown[series]
		if !there || got != want {
			t.Errorf("%s is %v (there: %v), and Kafka's %sPerSec %v", series, got, there, name, want)
		}
		t.Logf("%s: %v here, %v there", name, got, want)
	}
	if !strings.Contains(out, "name=MessagesInPerSec") {
		t.Errorf("Kafka's JMX says:\n%s", out)
	}
}

// countedLoad produces 500 records in 50 batches, of which none is compressed, one record that is too large and one with a timestamp that
// the topic does not take, and reads what there is.
func countedLoad(t testing.TB, addr, topic string) {
	t.Helper()
	cl := crashClient(t, addr, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(8<<20), kgo.DisableIdempotentWrite(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ProducerLinger(time.Minute), kgo.RecordRetries(0)) // a batch leaves when it is flushed
	age := "1000"
	must(kadm.NewClient(cl).CreateTopics(t.Context(), 2, 1, map[string]*string{"message.timestamp.after.max.ms": &age}, topic))(t)
	for i := range int32(50) {
		for range 10 {
			cl.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: i % 2, Value: make([]byte, 100)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for what, r := range map[string]*kgo.Record{
		"too large":     {Topic: topic, Value: make([]byte, 2<<20)},
		"in the future": {Topic: topic, Timestamp: time.Now().Add(time.Hour), Value: make([]byte, 100)},
	} {
		var failed error
		cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) { failed = err })
		if err := cl.Flush(t.Context()); err != nil || failed == nil {
			t.Fatalf("a record that is %s is taken: %v, %v", what, err, failed)
		}
	}
	for read := 0; read < 500; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetches.NumRecords()
	}
}
