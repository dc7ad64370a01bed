package test

import (
	"cmp"
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
	w.step("a node ends in order", c.leader(2), (*clusterNode).end, (*clusterNode).start)
	w.step("a follower loses its disk", c.follower(0), (*clusterNode).lose, (*clusterNode).start)
	w.step("all nodes are killed", c.leader(0), c.blackout, func(*clusterNode) {})

	w.end()
}

// TestClusterOfControllersAndBrokers is as TestCluster, with nodes of one role each.
func TestClusterOfControllersAndBrokers(t *testing.T) {
	t.Parallel()
	c := clusterPlan{roles: []string{onlyController, onlyController, onlyController, onlyBroker, onlyBroker, onlyBroker}}.start(t)
	w := c.startTraffic()
	c.healed()
	w.step("the active controller is killed", c.controller(), (*clusterNode).kill, (*clusterNode).start)
	w.step("a leader is killed that alone has what was written last", c.leader(0), w.killAhead, (*clusterNode).start)
	w.step("the active controller loses its disk", c.controller(), (*clusterNode).lose, (*clusterNode).start)
	w.step("a broker ends in order", c.leader(1), (*clusterNode).end, (*clusterNode).start)
	w.end()
}

// TestClusterWithAFullDisk: a follower whose disk is full leaves the in-sync sets, and nobody waits for it any more. With room again it
// has all in the end.
func TestClusterWithAFullDisk(t *testing.T) {
	t.Parallel()
	const full = 3
	disk := smallDisk(t)
	c := clusterPlan{dirs: map[int32]string{full: filepath.Join(disk, "data")}, settings: []string{"replica.lag.time.max.ms=2000"}}.start(t)
	c.createPlaced(clusterTopic, []int32{1, 2, full}, []int32{2, 1, full}, []int32{1, 2, full})
	w := c.startTraffic()
	c.healed()
	ballast := filepath.Join(disk, "ballast")
	w.step("a follower's disk is full", c.nodes[full-1], func(*clusterNode) {
		if err := os.WriteFile(ballast, make([]byte, free(t, disk)-2<<20), 0o600); err != nil { // which the reserve is more than
			t.Fatal(err)
		}
		eventually(t, atLast, "the follower is in no in-sync set", func() error {
			for p := range int32(clusterPartitions) {
				if isr := c.partition(p).ISR; slices.Contains(isr, full) {
					return fmt.Errorf("partition %d has %v in sync", p, isr)
				}
			}
			return nil
		})
	}, func(*clusterNode) {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
	w.end()
}

// cluster is some nodes of the shipped binary.
type cluster struct {
	t       testing.TB
	nodes   []*clusterNode
	network *clusterNetwork // nil: the nodes connect to each other as they are
	client  *kgo.Client     // asks, and neither produces nor consumes
}

// clusterNode is one of them, running or not.
type clusterNode struct {
	t          testing.TB
	id         int32
	roles      string // process.roles
	addr       string // for clients, of a broker; else for controllers
	controller string // where other controllers find it, if it is one
	dir        string
	log        *os.File // all that it says
	settings   []string
	network    *clusterNetwork // the cluster's
	process    *process
}

func (n *clusterNode) isBroker() bool     { return strings.Contains(n.roles, onlyBroker) }
func (n *clusterNode) isController() bool { return strings.Contains(n.roles, onlyController) }

func (c *cluster) brokers() (nodes []*clusterNode) {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *clusterNode) bool { return !n.isBroker() })
}

func (c *cluster) voters() (nodes []*clusterNode) {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *clusterNode) bool { return !n.isController() })
}

// seeds are the brokers' addresses for clients.
func (c *cluster) seeds() (addrs []string) {
	for _, n := range c.brokers() {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// clusterPlan is what a cluster is to be like.
type clusterPlan struct {
	doors    bool             // between the nodes, to be shut and cut
	roles    []string         // of each node, in the order of their ids: none are three of both
	dirs     map[int32]string // of nodes whose data are not to be in dir
	settings []string         // of all nodes
}

const (
	bothRoles      = "broker,controller"
	onlyBroker     = "broker"
	onlyController = "controller"
)

// startCluster starts the nodes with blank disks: the first begins a cluster, and the others join.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	return clusterPlan{}.start(t)
}

func (p clusterPlan) start(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := keptDir(t)
	if p.doors {
		c.network = newClusterNetwork(t)
	}
	if p.roles == nil {
		p.roles = []string{bothRoles, bothRoles, bothRoles}
	}
	for i, roles := range p.roles {
		c.plan(p, dir, int32(i+1), roles)
	}
	var controllers []string
	for _, n := range c.voters() {
		controllers = append(controllers, n.controller)
	}
	for _, n := range c.nodes {
		n.settings = append(n.settings, "controller.quorum.bootstrap.servers="+strings.Join(controllers, ","))
		n.start()
	}
	c.client = clusterClient(t, c.seeds())
	for _, n := range c.brokers() {
		n.process.awaitServing(atLast)
	}
	return c
}

// plan adds a node of the shipped binary.
func (c *cluster) plan(p clusterPlan, dir string, id int32, roles string) {
	c.t.Helper()
	port := freePort(c.t)
	first, second := fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", port+1)
	n := &clusterNode{
		t: c.t, id: id, roles: roles, addr: first, dir: cmp.Or(p.dirs[id], filepath.Join(dir, fmt.Sprint("node-", id))), network: c.network,
	}
	n.log = must(os.Create(filepath.Join(dir, fmt.Sprintf("node-%d.log", id))))(c.t)
	c.t.Cleanup(func() { _ = n.log.Close() })
	var listeners, advertised []string
	door := func(listener, target string) string {
		if c.network != nil {
			target = c.network.door(c.t, id, target)
		}
		advertised = append(advertised, listener+"://"+target)
		return target
	}
	if n.isBroker() {
		listeners, advertised = append(listeners, "PLAINTEXT://"+first), append(advertised, "PLAINTEXT://"+first)
		if c.network != nil {
			between := fmt.Sprintf("127.0.0.1:%d", freePort(c.t))
			listeners = append(listeners, "BETWEEN://"+between)
			door("BETWEEN", between)
		}
	}
	if n.isController() {
		if !n.isBroker() {
			second = first
		}
		listeners = append(listeners, "CONTROLLER://"+second)
		n.controller = door("CONTROLLER", second)
	}
	n.settings = append([]string{
		fmt.Sprint("node.id=", id), "process.roles=" + roles, "log.dirs=" + n.dir,
		"listeners=" + strings.Join(listeners, ","), "advertised.listeners=" + strings.Join(advertised, ","),
		"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
		"offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0",
	}, p.settings...)
	if c.network != nil {
		n.settings = append(n.settings, "inter.broker.listener.name=BETWEEN", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT,CONTROLLER:PLAINTEXT")
	}
	if id == 1 {
		n.settings = append(n.settings, "raftsman.cluster.bootstrap=true")
	}
	c.nodes = append(c.nodes, n)
}

// keptDir is a folder that is there after a test that failed.
func keptDir(t testing.TB) string {
	t.Helper()
	dir := must(os.MkdirTemp("", "raftsman-cluster-"))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the nodes' logs and disks are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// clusterClient has no long patience with a node that does not answer, unless an option says so: another may have its place.
func clusterClient(t testing.TB, seeds []string, opts ...kgo.Opt) *kgo.Client {
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
	if n.network != nil {
		n.network.admit(n.t, n.id)
	}
	args := []string{"serve", "--log-level", "info"}
	for _, setting := range n.settings {
		args = append(args, "--override", setting)
	}
	command := exec.Command(binary(n.t), args...)
	command.Stderr = n.log
	n.process = startProcess(n.t, n.addr, command)
}

func (n *clusterNode) kill() {
	if n.network != nil {
		n.network.shut(n.id)
	}
	n.process.kill()
}

// end ends the node in order.
func (n *clusterNode) end() {
	n.process.terminate()
	if n.network != nil {
		n.network.shut(n.id)
	}
}

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

// partition is where the node keeps a partition.
func (n *clusterNode) partition(topic string, index int) string {
	return filepath.Join(n.dir, fmt.Sprintf("%s-%d", topic, index))
}

// stop ends all nodes in order, at once: but brokers before those that are only controllers.
func (c *cluster) stop() {
	for _, brokers := range []bool{true, false} {
		var wg sync.WaitGroup
		for _, n := range c.nodes {
			if n.isBroker() == brokers {
				wg.Go(n.end)
			}
		}
		wg.Wait()
	}
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
	eventually(c.t, atLast, "all controllers vote and have the quorum's log", func() error {
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
	eventually(c.t, atLast, "all replicas are in sync", func() error {
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
