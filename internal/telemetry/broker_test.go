package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
		`kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"}`:                      6,
		`kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="orders"}`:           4,
		`kafka_consumergroup_group_max_lag{group="billing"}`:                                       6,
		`kafka_consumergroup_members{consumergroup="billing"}`:                                     0,
		`raftsman_group_state{consumergroup="billing",type="classic",state="Empty"}`:               1,
		"kafka_coordinator_group_groupmetadatamanager_numgroupsempty":                              2,
		"kafka_coordinator_group_groupmetadatamanager_numgroupsstable":                             0,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="orders"}`:                         10,
		`kafka_server_brokertopicmetrics_totalproducerequests_total{topic="orders"}`:               10,
		`kafka_server_brokertopicmetrics_failedproducerequests_total{topic="orders"}`:              0,
		`kafka_server_brokertopicmetrics_bytesout_total{topic="orders"}`:                           0,
		`kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Produce"}`:         0,
		"kafka_server_replicamanager_atminisrpartitioncount":                                       52, // 2 and those of __consumer_offsets
		`kafka_cluster_partition_underminisr{topic="orders",partition="1"}`:                        0,
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
	for _, request := range []string{"Produce", "CreateTopics"} {
		sum := 0.0
		for _, part := range []string{"requestqueue", "local", "remote", "responsequeue", "responsesend"} {
			name := "kafka_network_requestmetrics_" + part + "timems"
			sum += got[name+`_sum{request="`+request+`"}`]
			if n := got[name+`_count{request="`+request+`"}`]; n != got[`kafka_network_requestmetrics_totaltimems_count{request="`+request+`"}`] {
				t.Errorf("%s of %v %s", name, n, request)
			}
		}
		if whole := got[`kafka_network_requestmetrics_totaltimems_sum{request="`+request+`"}`]; sum > whole || sum < whole-0.06 { // microseconds are cut off
			t.Errorf("the parts of the time of %s are %v ms, the whole %v", request, sum, whole)
		}
	}
	if waited := got[`kafka_network_requestmetrics_remotetimems_sum{request="Produce"}`]; waited <= 0 {
		t.Errorf("produces have waited for the disk for %v ms", waited)
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

// Lag in seconds is the age of the first record that was not read; members count in both protocols.
func TestLagIsToldInSecondsToo(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := adm.CreateTopics(ctx, 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for _, age := range []time.Duration{3000, 2000, 1000} {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Timestamp: begun.Add(-age * time.Second)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const lag, longest = `kafka_consumergroup_group_lag_seconds{group="g",topic="t",partition="0"}`, `kafka_consumergroup_group_max_lag_seconds{group="g"}`
	for committed, want := range map[int64]float64{0: 3000, 1: 2000, 2: 1000, 3: 0} {
		var offsets kadm.Offsets
		offsets.AddOffset("t", 0, committed, -1)
		offsets.AddOffset("t", 1, 0, -1)
		if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second from memory
			got := scrape(t, b)
			age, ok := got[lag]
			if late := time.Since(begun).Seconds(); !ok || age < want || want == 0 && age > 0 || age > want+late+1 || got[longest] < age {
				t.Errorf("%d are read: the lag is %v s (there: %v), want %v; the longest is %v", committed, age, ok, want, got[longest])
			}
		}
	}
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Group, join.MemberID, join.RebalanceTimeoutMillis = "c", "AAAAAAAAAAAAAAAAAAAAAA", 60_000
	join.SubscribedTopicNames, join.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if resp, err := join.RequestWith(ctx, cl); err != nil || resp.ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	member, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("k"))
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	for member.PollFetches(ctx).NumRecords() == 0 && ctx.Err() == nil {
	}
	got := scrape(t, b)
	for name, want := range map[string]float64{
		`kafka_consumergroup_members{consumergroup="c"}`:                        1,
		`kafka_consumergroup_members{consumergroup="k"}`:                        1,
		`kafka_consumergroup_members{consumergroup="g"}`:                        0,
		`raftsman_group_state{consumergroup="k",type="classic",state="Stable"}`: 1,
		`raftsman_group_state{consumergroup="g",type="classic",state="Empty"}`:  1,
		"kafka_coordinator_group_groupmetadatamanager_numgroups":                3,
		"kafka_coordinator_group_groupmetadatamanager_numgroupsempty":           1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	if read := got[`kafka_server_brokertopicmetrics_bytesout_total{topic="t"}`]; read != got[`kafka_server_brokertopicmetrics_bytesin_total{topic="t"}`] {
		t.Errorf("%v bytes were read", read)
	}
	if state := `raftsman_group_state{consumergroup="c",type="consumer",state=`; got[state+`"Stable"}`]+got[state+`"Reconciling"}`]+got[state+`"Assigning"}`] != 1 {
		t.Error("the group of the consumer protocol has no state")
	}
}

// Many scrape at once while records come and go, and one that reads nothing: everybody is answered.
func TestScrapesBesideTraffic(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	cl := client(t, b)
	if _, err := kadm.NewClient(cl).CreateTopics(t.Context(), 500, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	deaf, err := net.Dial("tcp", b.Node().HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	_ = deaf.(*net.TCPConn).SetReadBuffer(1 << 10)
	if _, err := io.WriteString(deaf, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var scrapers sync.WaitGroup
	for range 4 {
		scrapers.Go(func() {
			before := 0.0
			for range 5 {
				got := scrape(t, b)
				in := got["kafka_server_brokertopicmetrics_messagesin_total"]
				if in < before || got[`kafka_topic_partitions{topic="t"}`] != 500 {
					t.Errorf("%v records after %v", in, before)
				}
				before = in
			}
		})
	}
	for i := range int32(200) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: i, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	scrapers.Wait()
	if in := scrape(t, b)[`kafka_server_brokertopicmetrics_messagesin_total{topic="t"}`]; in != 200 {
		t.Errorf("%v records came in, want 200", in)
	}
}
