package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestStartRefuses: what can't be served is refused with a line that says what to do, and nothing is written.
func TestStartRefuses(t *testing.T) {
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		properties map[string]string
		want       string
	}{
		"a directory of something else":     {map[string]string{"log.dirs": foreign}, "nothing was touched"},
		"a directory that can't be made":    {map[string]string{"log.dirs": "/proc/raftsman"}, "--data DIR"},
		"a broker that knows no controller": {map[string]string{"process.roles": "broker"}, "controller.quorum.bootstrap.servers"},
		"a blank directory in a fixed quorum": {
			map[string]string{
				"log.dirs": filepath.Join(t.TempDir(), "new"), "controller.quorum.voters": "1@localhost:9093,2@other:9093",
				"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1",
			},
			"storage format",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.properties["listeners"] == "" {
				c.properties["listeners"] = "PLAINTEXT://127.0.0.1:0"
			}
			_, err := broker.Start(t.Context(), broker.Config{Properties: c.properties})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("start with %v: got %v, want an error with %q", c.properties, err, c.want)
			}
		})
	}
	entries, err := os.ReadDir(foreign)
	if err != nil || len(entries) != 1 {
		t.Errorf("the foreign directory holds %v (%v), want what it held", entries, err)
	}
}

// TestOneLogDirectoryUnderTwoNames is not the fault of another process.
func TestOneLogDirectoryUnderTwoNames(t *testing.T) {
	one := filepath.Join(t.TempDir(), "one")
	two := filepath.Join(filepath.Dir(one), "two")
	if err := errors.Join(os.Mkdir(one, 0o755), os.Symlink(one, two)); err != nil {
		t.Fatal(err)
	}
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": one + "," + two}
	_, err := broker.Start(t.Context(), broker.Config{Properties: properties})
	if err == nil || !strings.Contains(err.Error(), "name it once") {
		t.Fatalf("start with a directory and a link to it: got %v, want an error that says so", err)
	}
}

// TestOneLogDirectoryOfTwoIsNotMounted: a blank directory among formatted ones may be a disk that is missing.
func TestOneLogDirectoryOfTwoIsNotMounted(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": one + "," + two}
	node, err := broker.Start(t.Context(), broker.Config{Properties: properties})
	if err != nil {
		t.Fatal(err)
	}
	cluster := node.ClusterID()
	stop(t, node)
	if err := os.RemoveAll(two); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Start(t.Context(), broker.Config{Properties: properties}); err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Fatalf("start without the second directory: got %v, want an error that asks for its disk", err)
	}
	properties["log.dirs"] = one
	if node, err = broker.Start(t.Context(), broker.Config{Properties: properties}); err != nil {
		t.Fatal(err)
	}
	if node.ClusterID() != cluster {
		t.Errorf("cluster id %s after a restart, was %s", node.ClusterID(), cluster)
	}
	stop(t, node)
}

// TestMetadataLogInADirectoryOfItsOwn: partitions go to log.dirs alone, where Kafka would look for them.
func TestMetadataLogInADirectoryOfItsOwn(t *testing.T) {
	data, metadata := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "metadata")
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data, "metadata.log.dir": metadata}
	for range 2 {
		node, err := broker.Start(t.Context(), broker.Config{Properties: properties})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(node.Addrs()[0].String()))
		if err != nil {
			t.Fatal(err)
		}
		admin := kadm.NewClient(client)
		created, err := admin.CreateTopic(t.Context(), 4, 1, nil, "t")
		if err != nil && !errors.Is(created.Err, kerr.TopicAlreadyExists) {
			t.Fatal(err)
		}
		dirs, err := admin.DescribeAllLogDirs(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if paths := slices.Sorted(maps.Keys(dirs[1])); !slices.Equal(paths, []string{data}) {
			t.Errorf("log directories %v, want %s", paths, data)
		}
		client.Close()
		stop(t, node)
	}
	entries, err := os.ReadDir(metadata)
	if err != nil {
		t.Fatal(err)
	}
	clean := false
	for _, e := range entries {
		clean = clean || e.Name() == ".kafka_cleanshutdown"
		if e.IsDir() && e.Name() != "__cluster_metadata-0" {
			t.Errorf("%s is in the metadata log's directory", e.Name())
		}
	}
	if !clean {
		t.Error("the metadata log's directory was not marked as cleanly closed")
	}
}

// TestConnectionLimitsMayChange while the node runs, as the table of configurations says.
func TestConnectionLimitsMayChange(t *testing.T) {
	node, err := broker.Start(t.Context(), broker.Config{Memory: true, Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, node)
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Addrs()[0].String()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	one := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.connections.per.ip", Value: new("1")}}
	answers, err := kadm.NewClient(client).AlterBrokerConfigs(t.Context(), one)
	if err != nil || len(answers) != 1 || answers[0].Err != nil {
		t.Fatalf("alter: %v, %v", answers, err)
	}
	conn, err := net.Dial("tcp", node.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a second connection was taken where one is allowed: %v", err)
	}
}

// TestAListenersConnectionLimitMayChange: it holds beside the one for all.
func TestAListenersConnectionLimitMayChange(t *testing.T) {
	said := make(lines, 1000)
	node, err := broker.Start(t.Context(), broker.Config{
		Memory: true, Log: slog.New(slog.NewTextHandler(said, nil)),
		Properties: map[string]string{
			"listeners": "PLAINTEXT://127.0.0.1:0,NARROW://127.0.0.1:0", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NARROW:PLAINTEXT",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, node)
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Addrs()[0].String()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "listener.name.narrow.max.connections", Value: new("1")}}
	answers, err := kadm.NewClient(client).AlterBrokerConfigs(t.Context(), set, 1)
	if err != nil || len(answers) != 1 || answers[0].Err != nil {
		t.Fatalf("alter: %v, %v", answers, err)
	}
	for range 2 { // the accept that waited for a connection when the limit came takes the first, whatever the limit
		conn, err := net.Dial("tcp", node.Addrs()[1].String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for {
		select {
		case line := <-said:
			if strings.Contains(line, "listener.name.narrow.max.connections reached") {
				return
			}
		case <-time.After(patience):
			t.Fatal("the listener takes as many as come")
		}
	}
}

// lines gets what is logged.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestMaxConnectionsOfZero lets nobody in, as in Kafka.
func TestMaxConnectionsOfZero(t *testing.T) {
	said := make(lines, 1000)
	node, err := broker.Start(t.Context(), broker.Config{
		Memory: true, Log: slog.New(slog.NewTextHandler(said, nil)),
		Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "max.connections": "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, node)
	for {
		select {
		case line := <-said:
			if strings.Contains(line, "max.connections reached") {
				return
			}
		case <-time.After(patience):
			t.Fatal("connections are accepted")
		}
	}
}

// patience is how long a test waits for what must come: far more than a busy machine needs.
const patience = time.Minute

func stop(t *testing.T, node *broker.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := node.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestStartThatFailsLeavesNothing: a program that tries again, as a test does, must not gather what failed starts left.
func TestStartThatFailsLeavesNothing(t *testing.T) {
	fs := vfs.NewMemory()
	c := broker.Config{Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data"}, FS: fs}
	node, err := broker.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, node)
	before := runtime.NumGoroutine()
	broken := errors.New("broken disk")
	fails := 0
	for n := range 60 {
		disk := faultfs.Inject(fs)
		disk.Add(faultfs.Rule{Op: faultfs.OpChange, After: n, Times: -1, Err: broken})
		c.FS = disk
		node, err := broker.Start(t.Context(), c)
		if err == nil {
			_ = node.Close(t.Context())
			continue
		}
		if fails++; !errors.Is(err, broken) {
			t.Errorf("start with a disk that breaks at change %d: %v", n, err)
		}
	}
	if fails < 5 {
		t.Fatalf("only %d starts failed: the disk breaks too late", fails)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(patience); runtime.NumGoroutine() > before; <-tick.C {
		if time.Now().After(late) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines after starts that failed, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
