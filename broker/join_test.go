package broker_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/vfs"
)

func freeAddress(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", raw.FreePort(t)) }

// founder is a node that is told to begin a cluster with another controller at an address.
func founder(t *testing.T, other string) (broker.Config, string) {
	t.Helper()
	own := freeAddress(t)
	return broker.Config{FS: vfs.NewMemory(), Properties: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://" + own, "log.dirs": "data",
		"controller.quorum.bootstrap.servers": own + "," + other, "raftsman.cluster.bootstrap": "true",
	}}, own
}

// A node begins no cluster while it can't know whether there is one: a controller that listens and says nothing may be a member of it.
func TestNoClusterIsBegunBesideASilentController(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	config, _ := founder(t, silent.Addr().String())
	if node, err := broker.Start(t.Context(), config); err == nil {
		node.Kill()
		t.Error("a cluster was begun beside a controller that said nothing")
	} else if !strings.Contains(err.Error(), "no cluster is begun") {
		t.Errorf("the start ended with %v", err)
	}
}

// A node whose disk was emptied joins the cluster that is there, though it is still told to begin one; one that is not told to waits.
func TestAnEmptiedDiskMakesNoSecondCluster(t *testing.T) {
	t.Parallel()
	other := freeAddress(t)
	config, own := founder(t, other)
	first, err := broker.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Kill()
	config.FS = vfs.NewMemory()
	config.Properties["node.id"] = "2"
	config.Properties["listeners"] = "PLAINTEXT://127.0.0.1:0,CONTROLLER://" + other
	second, err := broker.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill()
	if first.ClusterID() != second.ClusterID() {
		t.Errorf("two clusters, %s and %s", first.ClusterID(), second.ClusterID())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	nobody := freeAddress(t)
	lonely := broker.Config{FS: vfs.NewMemory(), Properties: map[string]string{
		"node.id": "3", "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "log.dirs": "data",
		"controller.quorum.bootstrap.servers": nobody,
	}}
	if node, err := broker.Start(ctx, lonely); err == nil {
		node.Kill()
		t.Errorf("a node that finds nobody at %s serves cluster %s beside that of %s", nobody, node.ClusterID(), own)
	}
}
