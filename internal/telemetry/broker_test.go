package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
)

// scrape returns all values, by name and labels as the text has them.
func scrape(t testing.TB, b *brokertest.Broker) map[string]float64 {
	t.Helper()
	resp, err := http.Get("http://" + b.Node().HTTPAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(string(text))); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); line[0] != '#' {
			var v float64
			if _, err := fmt.Sscan(line[at+1:], &v); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			values[line[:at]] = v
		}
	}
	return values
}

func client(t testing.TB, b *brokertest.Broker) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// A partition that nobody has used since the start has no series of its own and is not opened for a scrape; a group's lag there
// is known all the same.
func TestAScrapeWakesNothing(t *testing.T) {
	dir := t.TempDir()
	start := func() *brokertest.Broker {
		return brokertest.Start(t, brokertest.Dir(dir), brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	}
	b := start()
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopics(t.Context(), 1, 1, nil, "quiet"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "quiet", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	offsets.AddOffset("quiet", 0, 2, -1)
	if err := adm.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	b.Close()
	b = start()
	for range 2 {
		var got map[string]float64
		for got = scrape(t, b); len(got) == 0 || got["kafka_coordinator_group_groupmetadatamanager_numgroups"] != 1; got = scrape(t, b) {
			if t.Context().Err() != nil {
				t.Fatal("the group is not loaded")
			}
		}
		if lag, ok := got[`kafka_consumergroup_lag{consumergroup="g",topic="quiet",partition="0"}`]; !ok || lag != 3 {
			t.Errorf("the lag is %v (there: %v), want 3", lag, ok)
		}
		if end, ok := got[`kafka_topic_partition_current_offset{topic="quiet",partition="0"}`]; !ok || end != 5 {
			t.Errorf("the current offset is %v (there: %v), want 5", end, ok)
		}
		if _, there := got[`kafka_log_log_size{topic="quiet",partition="0"}`]; there || got["raftsman_partitions_asleep"] != 1 {
			t.Errorf("%v partitions sleep, and this one has a size: %v", got["raftsman_partitions_asleep"], there)
		}
	}
}

func TestAScrapeShowsWhatABrokerDid(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := adm.CreateTopics(ctx, 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r := &kgo.Record{Topic: "orders", Partition: 1, Value: make([]byte, 1000)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	offsets.AddOffset("orders", 1, 4, -1)
	for _, group := range []string{"billing", `od"d` + "\n"} {
		if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	const answered = `kafka_network_requestmetrics_totaltimems_count{request="CreateTopics"}`
	got := scrape(t, b)
	for ; got[answered] == 0 && ctx.Err() == nil; got = scrape(t, b) { // which is counted when the answer is on its way
	}
	for name, want := range map[string]float64{
		"kafka_brokers":                                                                            1,
		`kafka_topic_partitions{topic="orders"}`:                                                   2,
		`kafka_topic_partition_leader{topic="orders",partition="1"}`:                               1,
		`kafka_topic_partition_current_offset{topic="orders",partition="1"}`:                       10,
		`kafka_topic_partition_current_offset{topic="orders",partition="0"}`:                       0,
		`kafka_topic_partition_oldest_offset{topic="orders",partition="1"}`:                        0,
		`kafka_topic_partition_in_sync_replica{topic="orders",partition="1"}`:                      1,
		`kafka_topic_partition_under_replicated_partition{topic="orders",partition="1"}`:           0,
		`kafka_log_log_logendoffset{topic="orders",partition="1"}`:                                 10,
		`kafka_log_log_numlogsegments{topic="orders",partition="1"}`:                               1,
		`kafka_consumergroup_current_offset{consumergroup="billing",topic="orders",partition="1"}`: 4,
		`kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="1"}`:            6,
		`kafka_consumergroup_lag{consumergroup="od\"d\n",topic="orders",partition="1"}`:            6,
		"kafka_coordinator_group_groupmetadatamanager_numgroups":                                   2,
		"kafka_controller_kafkacontroller_activecontrollercount":                                   1,
		"kafka_controller_kafkacontroller_offlinepartitionscount":                                  0,
		"kafka_server_replicamanager_underreplicatedpartitions":                                    0,
		"kafka_server_replicamanager_offlinereplicacount":                                          0,
		"kafka_log_logmanager_offlinelogdirectorycount":                                            0,
		`kafka_log_logcleanermanager_uncleanable_partitions_count{logdirectory="data"}`:            0,
		`kafka_network_requestmetrics_requests_total{request="Produce"}`:                           10,
		answered: 1,
		`raftsman_log_dir_online{logdirectory="data"}`:           1,
		`raftsman_log_dir_refuses_produces{logdirectory="data"}`: 0,
		`raftsman_damaged_partitions{logdirectory="data"}`:       0,
		"raftsman_group_commits_total":                           2,
		"raftsman_partitions_left_out":                           0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	for name, least := range map[string]float64{
		`kafka_log_log_size{topic="orders",partition="1"}`:              10_000,
		`kafka_server_brokertopicmetrics_bytesin_total{topic="orders"}`: 10_000,
		"raftsman_network_received_bytes_total":                         10_000,
		"kafka_server_socket_server_metrics_connection_count":           1,
		"go_goroutines": 5,
		`raftsman_log_dir_usable_bytes{logdirectory="data"}`: -1,
	} {
		if v, ok := got[name]; !ok || v < least {
			t.Errorf("%s is %v (there: %v), want at least %v", name, v, ok, least)
		}
	}
	if _, there := got[`kafka_network_requestmetrics_requests_total{request="DeleteTopics"}`]; there {
		t.Error("an API that nobody has asked has a series")
	}
}

// BenchmarkScrape is a scrape of 5,000 partitions and 200 groups.
func BenchmarkScrape(b *testing.B) {
	broker := brokertest.Start(b, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	adm := kadm.NewClient(client(b, broker))
	for i := range 50 {
		if _, err := adm.CreateTopics(b.Context(), 100, 1, nil, fmt.Sprint("t", i)); err != nil {
			b.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	for p := range int32(25) {
		offsets.AddOffset("t0", p, 0, -1)
	}
	for i := range 200 {
		if err := adm.CommitAllOffsets(b.Context(), fmt.Sprint("g", i), offsets); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		resp, err := http.Get("http://" + broker.Node().HTTPAddr().String() + "/metrics")
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || n < 1<<20 {
			b.Fatal(n, err)
		}
		b.SetBytes(n)
	}
}
