package broker_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/broker"
)

// TestScrapesDuringAStop: whoever scrapes while the node stops, or while it starts, is answered with what there is to tell yet, is told
// that the node does not serve, or finds nobody. Nothing panics, and the stop stays in order.
func TestScrapesDuringAStop(t *testing.T) {
	const scrapers, rounds = 8, 4
	dir := filepath.Join(t.TempDir(), "data")
	var whole atomic.Int64
	for round := range rounds {
		var log lockedBuilder
		node, err := broker.Start(t.Context(), broker.Config{
			Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": dir, "raftsman.http.listener": "127.0.0.1:0"},
			Log:        slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		work(t, node.Addrs()[0].String(), round)
		url := "http://" + node.HTTPAddr().String() + "/metrics"
		begun, all := make(chan struct{}, scrapers), sync.WaitGroup{}
		for range scrapers {
			all.Go(func() {
				for first := true; ; first = false {
					code, text, err := get(url)
					switch {
					case first && (err != nil || code != http.StatusOK):
						t.Errorf("before the stop: %d, %v", code, err)
					case err != nil && !strings.HasPrefix(text, "#"): // refused, or cut off before it said anything
					case err == nil && code == http.StatusOK && strings.HasSuffix(text, "\n"): // all that the node has to tell, or its process alone
						groups := strings.Contains(text, "kafka_consumergroup_lag{")
						if node := strings.Contains(text, "kafka_controller_kafkacontroller_globalpartitioncount"); groups != node {
							t.Errorf("the node tells of itself: %t, and of its groups: %t", node, groups)
						}
						if groups {
							whole.Add(1)
						}
					case err == nil && code == http.StatusServiceUnavailable:
					default:
						t.Errorf("%d, %v: %d bytes that end in %q", code, err, len(text), text[max(0, len(text)-100):])
					}
					if first {
						begun <- struct{}{}
					}
					if err != nil {
						return
					}
				}
			})
		}
		for range scrapers {
			<-begun
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := node.Close(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		cancel()
		all.Wait()
		if said := log.String(); strings.Contains(said, "panic") {
			t.Errorf("the log:\n%s", said)
		}
	}
	if whole.Load() < rounds*scrapers {
		t.Errorf("%d scrapes told of everything", whole.Load())
	}
}

func get(url string) (code int, text string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

// work leaves records and a group's offsets in each of some partitions.
func work(t *testing.T, addr string, round int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if round == 0 {
		if _, err := adm.CreateTopic(t.Context(), 50, 1, nil, "t"); err != nil {
			t.Fatal(err)
		}
	}
	var records []*kgo.Record
	var offsets kadm.Offsets
	for p := range int32(50) {
		records = append(records, &kgo.Record{Topic: "t", Partition: p, Value: []byte("x")})
		offsets.AddOffset("t", p, int64(round), -1)
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for g := range 5 {
		if err := adm.CommitAllOffsets(t.Context(), fmt.Sprint("g", g), offsets); err != nil {
			t.Fatal(err)
		}
	}
}

// lockedBuilder is a log that several write to.
type lockedBuilder struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
