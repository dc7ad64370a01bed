package brokertest_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A node that does not belong to a cluster is refused in a line that says why, and the cluster does not notice.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	produce := func() {
		t.Helper()
		if err := client.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce()
	for _, stranger := range []struct {
		name, id, roles, cluster, says string
	}{
		{"a broker with the id of another", "2", "broker", "", "another broker with the id 2 is registered"},
		{"a node with the id of another", "2", "broker,controller", "", "another"},
		{"a broker of another cluster", "4", "broker", kafka.NewUUID(func(b []byte) { b[0] = 1 }).String(), "cluster"},
		{"a node of another cluster", "4", "broker,controller", kafka.NewUUID(func(b []byte) { b[0] = 1 }).String(), "cluster"},
	} {
		port := raw.FreePort(t)
		said := &lines{}
		config := broker.Config{FS: vfs.NewMemory(), Log: slog.New(slog.NewTextHandler(said, nil)), Properties: map[string]string{
			"node.id": stranger.id, "process.roles": stranger.roles, "log.dirs": "/data",
			"listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", port), "controller.quorum.bootstrap.servers": strings.Join(c.Controllers(), ","),
		}}
		if stranger.roles != "broker" {
			config.Properties["listeners"] += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", port+1)
		}
		if stranger.cluster != "" {
			if _, err := broker.Format(config, broker.Quorum{ClusterID: stranger.cluster, None: stranger.roles != "broker"}); err != nil {
				t.Fatal(err)
			}
		}
		starting, enough := context.WithTimeout(ctx, 3*time.Second)
		node, err := broker.Start(starting, config)
		enough()
		if err == nil {
			node.Kill()
			t.Errorf("%s serves", stranger.name)
		} else if !strings.Contains(err.Error(), stranger.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line with %q", stranger.name, err, stranger.says)
		}
		t.Logf("%s: %v\n%s", stranger.name, err, said.text())
		for id := 1; id <= 3; id++ {
			select {
			case <-c.Node(id).Ended():
				t.Errorf("%s ended node %d: %v", stranger.name, id, c.Node(id).Err())
			default:
			}
		}
		produce()
	}
	q,_ := describeQuorum().RequestWith(ctx, client.Broker(1))
	t.Logf("%+v", q)
}

// lines keeps what is written.
type lines struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
