package test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestClusterIsOperated does to three nodes of the shipped binary what operators do, by its own commands, while clients go on: replicas are
// taken away and given back, leaders moved, every node restarted. In the end every acknowledged record is on each node, once and in order.
func TestClusterIsOperated(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := c.startTraffic()
	c.healed()

	operate := func(args ...string) {
		t.Helper()
		began := time.Now()
		c.raftsman(args...)
		done := time.Since(began)
		w.goesOn(strings.Join(args, " "))
		t.Logf("%s: done after %v, clients went on by %v", strings.Join(args, " "), done.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
	operate("topic", "reassign", clusterTopic, "-r", "2", "--execute")
	operate("topic", "reassign", clusterTopic, "-r", "3", "--execute", "--throttle", "10MB")
	operate("topic", "reassign", clusterTopic, "--replicas", "2,3,1", "--execute")
	for p := range int32(clusterPartitions) {
		if leader := c.partition(p).Leader; leader != 2 {
			t.Errorf("partition %d is led by %d, not by the first replica", p, leader)
		}
	}
	operate("cluster", "drain", "2", "--leaders", "--execute")
	for p := range int32(clusterPartitions) {
		if leader := c.partition(p).Leader; leader == 2 {
			t.Errorf("partition %d is led by the broker that is to lead nothing", p)
		}
	}
	operate("rebalance", "--execute")
	leads := map[int32]int{}
	for p := range int32(clusterPartitions) {
		leads[c.partition(p).Leader]++
	}
	if leads[1] != 1 || leads[2] != 1 || leads[3] != 1 {
		t.Errorf("of three partitions each broker was to lead one: %v", leads)
	}

	for _, n := range c.nodes { // as docs/operations.md has it
		c.well()
		took := n.process.terminate()
		if took > stopSeen {
			t.Errorf("node %d took %v to stop", n.id, took)
		}
		n.start()
		n.process.awaitServing(atLast)
		w.goesOn(fmt.Sprintf("node %d was restarted", n.id))
	}
	c.well()
	c.healed()

	w.finish()
	c.stop()
	for _, n := range c.nodes {
		w.check(n)
	}
}

// raftsman runs a command of the binary against the cluster.
func (c *cluster) raftsman(args ...string) string {
	c.t.Helper()
	return run(c.t, atLast, nil, binary(c.t), append(args, "-b", c.bootstrap())...)
}

func (c *cluster) bootstrap() string {
	var seeds []string
	for _, n := range c.nodes {
		seeds = append(seeds, n.addr)
	}
	return strings.Join(seeds, ",")
}

// well waits until `raftsman cluster health` has nothing to tell.
func (c *cluster) well() {
	c.t.Helper()
	eventually(c.t, atLast, "the cluster is well", func() error {
		out, err := exec.Command(binary(c.t), "cluster", "health", "-b", c.bootstrap()).Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return fmt.Errorf("it ends with %d: %s", exit.ExitCode(), out)
		}
		return err
	})
}
