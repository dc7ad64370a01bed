package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
