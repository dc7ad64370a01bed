package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterTopic is what is written while the nodes of the cluster meet their faults. Each node leads one of its partitions, until it does not.
const (
	clusterTopic      = "orders"
	clusterPartitions = 3
)

// TestCluster runs three nodes under a producer that never gives up and a group that never leaves, and does to them what happens to nodes. In
// the end every acknowledged record is in the log of each of them, once and in order.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := c.startTraffic()
	c.healed()

	w.step("a leader is killed that alone has what was written last", c.leader(0), w.killAhead, (*clusterNode).start)
	w.step("the active controller is killed", c.controller(), (*clusterNode).kill, (*clusterNode).start)
	w.step("a leader stops for longer than its session", c.leader(1), c.pause, (*clusterNode).proceed)
	w.step("a node ends in order", c.leader(2), func(n *clusterNode) { n.process.terminate() }, (*clusterNode).start)
	w.step("a follower loses its disk", c.follower(0), (*clusterNode).lose, (*clusterNode).start)
	w.step("all nodes are killed", c.leader(0), c.blackout, func(*clusterNode) {})

	w.finish()
	c.stop()
	for _, n := range c.nodes {
		w.check(n)
	}
	t.Logf("acknowledged, and on every node: %v", w.acked)
}

// cluster is some nodes, of the shipped binary or of Apache Kafka.
type cluster struct {
	t        *testing.T
	nodes    []*clusterNode
	client   *kgo.Client   // asks, and neither produces nor consumes
	patience []kgo.Opt     // of all clients
	heals    time.Duration // how long the cluster may take to be whole again
}

// clusterNode is one of them, running or not.
type clusterNode struct {
	t          *testing.T
	id         int32
	roles      string // process.roles
	addr       string // of its broker
	controller string // where it listens for other controllers
	dir        string
	launch     func(*clusterNode) *process // starts the process
	process    *process
}

func (n *clusterNode) isBroker() bool     { return strings.Contains(n.roles, "broker") }
func (n *clusterNode) isController() bool { return strings.Contains(n.roles, "controller") }

func (c *cluster) brokers() (nodes []*clusterNode) {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *clusterNode) bool { return !n.isBroker() })
}

func (c *cluster) voters() (nodes []*clusterNode) {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *clusterNode) bool { return !n.isController() })
}

func (c *cluster) seeds() (addrs []string) {
	for _, n := range c.brokers() {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// startCluster starts three nodes of the shipped binary, each a broker and a controller, with blank disks: the first begins a cluster, and the
// others join.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, heals: atLast}
	var controllers []string
	settings := map[int32][]string{}
	dir := t.TempDir()
	for id := int32(1); id <= 3; id++ {
		port := freePort(t)
		n := &clusterNode{
			t: t, id: id, roles: "broker,controller", addr: fmt.Sprintf("127.0.0.1:%d", port), controller: fmt.Sprintf("127.0.0.1:%d", port+1),
			dir: filepath.Join(dir, fmt.Sprint("node-", id)),
		}
		settings[id] = []string{
			fmt.Sprint("node.id=", id), "log.dirs=" + n.dir, fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", n.addr, n.controller),
			"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
			"offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0",
		}
		if id == 1 {
			settings[id] = append(settings[id], "raftsman.cluster.bootstrap=true")
		}
		c.nodes, controllers = append(c.nodes, n), append(controllers, n.controller)
	}
	for _, n := range c.nodes {
		args := []string{"serve", "--log-level", "warn", "--override", "controller.quorum.bootstrap.servers=" + strings.Join(controllers, ",")}
		for _, setting := range settings[n.id] {
			args = append(args, "--override", setting)
		}
		n.launch = func(n *clusterNode) *process { return startProcess(t, n.addr, exec.Command(binary(t), args...)) }
		n.start()
	}
	c.client = clusterClient(t, c.seeds())
	for _, n := range c.nodes {
		n.process.awaitServing(atLast)
	}
	return c
}

// clusterClient has no long patience with a node that does not answer, unless an option says so: another may have its place.
func clusterClient(t *testing.T, seeds []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.RequestTimeoutOverhead(time.Second), kgo.ProduceRequestTimeout(2 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryTimeout(10 * time.Second),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// start starts the node, and leaves it to the others to say that it is there.
func (n *clusterNode) start() {
	n.t.Helper()
	n.process = n.launch(n)
}

func (n *clusterNode) kill() { n.process.kill() }

// lose kills the node and empties its disk.
func (n *clusterNode) lose() {
	n.kill()
	if err := os.RemoveAll(n.dir); err != nil {
		n.t.Fatal(err)
	}
}

func (n *clusterNode) signal(s syscall.Signal) {
	if err := n.process.command.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// pause stops the process without a word, and waits until the others go on without it.
func (c *cluster) pause(n *clusterNode) {
	c.t.Helper()
	n.signal(syscall.SIGSTOP)
	eventually(c.t, atLast, fmt.Sprintf("node %d is fenced", n.id), func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			all, err := admin.Metadata(ctx)
			if err != nil {
				return err
			}
			for _, b := range all.Brokers {
				if b.NodeID == n.id {
					return errors.New("it is among the brokers")
				}
			}
			return nil
		})
	})
}

// blackout kills all nodes before one of them is started again.
func (c *cluster) blackout(*clusterNode) {
	c.t.Helper()
	for _, n := range c.nodes {
		n.kill()
	}
	for _, n := range c.nodes {
		n.start()
	}
}

func (n *clusterNode) proceed() { n.signal(syscall.SIGCONT) }

// stop ends all nodes in order, at once.
func (c *cluster) stop() {
	var wg sync.WaitGroup
	for _, n := range c.nodes {
		wg.Go(func() { n.process.terminate() })
	}
	wg.Wait()
}

// ask asks the cluster something, for a time that leaves another try.
func (c *cluster) ask(question func(context.Context, *kadm.Client) error) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	defer cancel()
	return question(ctx, kadm.NewClient(c.client))
}

// partition returns who leads a partition of the topic, and who is in sync.
func (c *cluster) partition(index int32) (detail kadm.PartitionDetail) {
	c.t.Helper()
	eventually(c.t, atLast, fmt.Sprintf("partition %d has a leader", index), func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			topics, err := admin.ListTopics(ctx, clusterTopic)
			if err != nil {
				return err
			}
			if detail = topics[clusterTopic].Partitions[index]; detail.Leader < 1 {
				return fmt.Errorf("leader %d: %w", detail.Leader, detail.Err)
			}
			return nil
		})
	})
	return detail
}

func (c *cluster) leader(index int32) *clusterNode {
	c.t.Helper()
	return c.nodes[c.partition(index).Leader-1]
}

// follower returns a node that follows the partition's leader, and is not the active controller either.
func (c *cluster) follower(index int32) *clusterNode {
	c.t.Helper()
	leader, controller := c.leader(index), c.controller()
	for _, n := range c.nodes {
		if n != leader && n != controller {
			return n
		}
	}
	panic("three nodes are more than two")
}

// quorum returns what the active controller says about the quorum.
func (c *cluster) quorum() (described kmsg.DescribeQuorumResponseTopicPartition, err error) {
	err = c.ask(func(ctx context.Context, _ *kadm.Client) error {
		req := kmsg.NewPtrDescribeQuorumRequest()
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic = "__cluster_metadata"
		topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(ctx, c.client)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return fmt.Errorf("one partition was asked for: %+v", resp)
		}
		described = resp.Topics[0].Partitions[0]
		return kerr.ErrorForCode(described.ErrorCode)
	})
	return described, err
}

func (c *cluster) controller() *clusterNode {
	c.t.Helper()
	var leader int32
	eventually(c.t, atLast, "there is an active controller", func() error {
		q, err := c.quorum()
		if err == nil && q.LeaderID < 1 {
			err = errors.New("nobody leads the quorum")
		}
		leader = q.LeaderID
		return err
	})
	return c.nodes[leader-1]
}

// healed waits until all controllers vote, and all brokers are in sync in all partitions, those of the groups' coordinators too.
func (c *cluster) healed() {
	c.t.Helper()
	eventually(c.t, c.heals, "all controllers vote and have the quorum's log", func() error {
		q, err := c.quorum()
		if err != nil {
			return err
		}
		voters := map[int32]bool{}
		for _, v := range q.CurrentVoters {
			if v.LogEndOffset < q.HighWatermark {
				return fmt.Errorf("voter %d has the log up to %d of %d", v.ReplicaID, v.LogEndOffset, q.HighWatermark)
			}
			voters[v.ReplicaID] = true
		}
		if want := len(c.voters()); len(voters) != want || len(q.CurrentVoters) != want {
			return fmt.Errorf("voters %+v", q.CurrentVoters)
		}
		return nil
	})
	eventually(c.t, c.heals, "all replicas are in sync", func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			topics, err := admin.ListTopicsWithInternal(ctx)
			if err != nil {
				return err
			}
			for _, p := range topics.TopicsList().Topics() {
				for _, d := range topics[p].Partitions {
					if d.Err != nil || len(d.ISR) != len(c.brokers()) {
						return fmt.Errorf("%s-%d: leader %d, in sync %v: %v", p, d.Partition, d.Leader, d.ISR, d.Err)
					}
				}
			}
			return nil
		})
	})
}
