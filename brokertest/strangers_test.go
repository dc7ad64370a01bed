package brokertest_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
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
	voters := votersOf(ctx, t, client)
	leads := activeController(ctx, t, client, []int{1, 2, 3})
	follows := leads%3 + 1
	elsewhere := kafka.NewUUID(func(b []byte) { b[0] = 1 }).String()
	for _, stranger := range []struct {
		name           string
		id             int
		roles, cluster string
		tries          time.Duration
		says           string
	}{
		{"a broker with the id of another", follows, "broker", "", time.Second, fmt.Sprintf("another broker with the id %d is registered", follows)},
		{"a node with the id of another", follows, "broker,controller", "", 4 * time.Second, fmt.Sprintf("another broker with the id %d is registered", follows)},
		{"a broker with the id of the active controller", leads, "broker", "", time.Second, "another node has the same id"},
		{"a broker of another cluster", 4, "broker", elsewhere, time.Second, "is not of the cluster " + elsewhere},
		{"a node of another cluster", 4, "broker,controller", elsewhere, time.Second, "is not of the cluster " + elsewhere},
	} {
		port := raw.FreePort(t)
		said := &logged{}
		config := broker.Config{FS: vfs.NewMemory(), Log: slog.New(slog.NewTextHandler(said, nil)), Properties: map[string]string{
			"node.id": strconv.Itoa(stranger.id), "process.roles": stranger.roles, "log.dirs": "/data",
			"controller.quorum.fetch.timeout.ms": "500", // also when it asks to vote
			"listeners":                          fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", port), "controller.quorum.bootstrap.servers": strings.Join(c.Controllers(), ","),
		}}
		if stranger.roles != "broker" {
			config.Properties["listeners"] += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", port+1)
		}
		if stranger.cluster != "" {
			if _, err := broker.Format(config, broker.Quorum{ClusterID: stranger.cluster, None: stranger.roles != "broker"}); err != nil {
				t.Fatal(err)
			}
		}
		starting, enough := context.WithTimeout(ctx, stranger.tries)
		node, err := broker.Start(starting, config)
		enough()
		if err == nil {
			node.Kill()
			t.Errorf("%s serves", stranger.name)
		}
		if !strings.Contains(said.String(), stranger.says) {
			t.Errorf("%s said\n%s\nwant %q", stranger.name, said.String(), stranger.says)
		}
		for id := 1; id <= 3; id++ {
			select {
			case <-c.Node(id).Ended():
				t.Errorf("%s ended node %d: %v", stranger.name, id, c.Node(id).Err())
			default:
			}
		}
		produce()
		if now := votersOf(ctx, t, client); !maps.Equal(now, voters) {
			t.Errorf("%s: the voters are %v, and were %v before", stranger.name, now, voters)
		}
	}
}

// votersOf are the directories of the quorum's voters.
func votersOf(ctx context.Context, t *testing.T, client *kgo.Client) map[int32][16]byte {
	t.Helper()
	quorum, err := describeQuorum().RequestWith(ctx, client)
	if err != nil || len(quorum.Topics) != 1 {
		t.Fatalf("describe the quorum: %+v, %v", quorum, err)
	}
	voters := map[int32][16]byte{}
	for _, v := range quorum.Topics[0].Partitions[0].CurrentVoters {
		voters[v.ReplicaID] = v.ReplicaDirectoryID
	}
	return voters
}
