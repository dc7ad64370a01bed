package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestABrokerBesideKafkas has a Raftsman broker in a cluster of Apache Kafka's: a controller and a broker, each on its own. Both brokers lead
// and follow, keep groups and transactions, die, end in order and come back, and so does the controller, under a producer and a group.
// In the end both have every acknowledged record, once and in order.
func TestABrokerBesideKafkas(t *testing.T) {
	t.Parallel()
	c := startMixed(t, votersJoin, mixedNode{"controller", true}, mixedNode{"broker", true}, mixedNode{"broker", false})
	controller, theirs, ours := c.nodes[0], c.nodes[1], c.nodes[2]
	w := c.startTraffic()
	l := c.startLedger()
	c.healed()
	c.leads(theirs, ours)
	l.write()
	c.agree()

	both := func(what string, n *clusterNode, fault func(*clusterNode)) {
		t.Helper()
		w.step(what, n, func(n *clusterNode) {
			fault(n)
			l.write()
		}, (*clusterNode).start)
		c.leads(theirs, ours)
		l.write()
	}
	both("the broker of Raftsman's is killed", ours, (*clusterNode).kill)
	both("the broker of Kafka's is killed", theirs, (*clusterNode).kill)
	both("the broker of Raftsman's ends in order", ours, func(n *clusterNode) { n.process.terminate() })
	both("the broker of Kafka's ends in order", theirs, func(n *clusterNode) { n.process.terminate() })
	w.step("the controller is killed", controller, (*clusterNode).kill, (*clusterNode).start)
	l.write()
	c.agree()

	w.finish()
	l.check()
	c.stop()
	for _, n := range c.brokers() {
		w.check(n)
	}
	t.Logf("acknowledged, and on both brokers: %v", w.acked)
}

// TestAVoterAmongKafkas has Raftsman vote with two Apache Kafkas, each node a controller and a broker. Each kind leads the quorum and is
// killed as its leader, each loses its disk and gets a snapshot that the other kind has made.
func TestAVoterAmongKafkas(t *testing.T) {
	t.Parallel()
	c := startMixed(t, votersJoin, mixedNode{"broker,controller", true}, mixedNode{"broker,controller", true}, mixedNode{"broker,controller", false})
	w := c.startTraffic()
	l := c.startLedger()
	c.healed()
	theirs, ours := c.nodes[:2], c.nodes[2:]
	c.leads(c.nodes...)
	l.write()

	c.ledBy(ours)
	c.outgrowTheLog("first")
	for _, n := range theirs {
		w.step("a Kafka loses its disk and gets Raftsman's snapshot", n, (*clusterNode).lose, (*clusterNode).start)
		c.beganWithASnapshot(n)
	}
	c.leads(c.nodes...)
	l.write()
	c.agree()
	w.step("Raftsman is killed as leader of the quorum", ours[0], (*clusterNode).kill, (*clusterNode).start)
	c.ledBy(theirs)
	c.outgrowTheLog("second")
	l.write()
	w.step("Raftsman loses its disk and gets Kafka's snapshot", ours[0], (*clusterNode).lose, (*clusterNode).start)
	c.beganWithASnapshot(ours[0])
	c.leads(c.nodes...)
	w.step("Kafka is killed as leader of the quorum", c.controller(), (*clusterNode).kill, (*clusterNode).start)
	c.leads(c.nodes...)
	l.write()
	c.agree()

	w.finish()
	l.check()
	c.stop()
	for _, n := range c.nodes {
		w.check(n)
	}
	t.Logf("acknowledged, and on every node: %v", w.acked)
}

// TestAFixedQuorumOfBothKinds has Raftsman among two controllers of Kafka's in a quorum that the configuration names (kraft.version 0). Each kind
// leads it, and is killed. In the end all three have the same log.
func TestAFixedQuorumOfBothKinds(t *testing.T) {
	t.Parallel()
	c := startMixed(t, votersFixed, mixedNode{"controller", true}, mixedNode{"controller", true}, mixedNode{"broker,controller", false})
	theirs, ours := c.nodes[:2], c.nodes[2:]
	c.healed()
	for i, nodes := range [][]*clusterNode{ours, theirs, ours} {
		c.ledBy(nodes)
		c.create(fmt.Sprint("topic-", i))
		leader := c.controller()
		leader.kill()
		leader.start()
		c.healed()
	}
	c.create("last")
	c.stop()
	var logs [][]byte
	for _, n := range c.nodes {
		log, err := os.ReadFile(filepath.Join(n.dir, "__cluster_metadata-0", fmt.Sprintf("%020d.log", 0)))
		if err != nil || !bytes.Contains(log, []byte("topic-2")) {
			t.Fatalf("node %d: the log of %d bytes lacks a topic: %v", n.id, len(log), err)
		}
		logs = append(logs, log)
	}
	for i, log := range logs[1:] {
		if same := min(len(log), len(logs[0])); !bytes.Equal(log[:same], logs[0][:same]) {
			t.Errorf("the logs of nodes 1 and %d differ", i+2)
		}
	}
}

// create makes a topic.
func (c *cluster) create(topic string) {
	c.t.Helper()
	eventually(c.t, atLast, "topic "+topic+" is made", func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.CreateTopic(ctx, 3, int16(len(c.brokers())), nil, topic)
			return unlessThere(err)
		})
	})
}

// voting is how the controllers of a mixed cluster know each other.
type voting int8

const (
	votersJoin  voting = iota // the first ones are in the log, others may come (KIP-853)
	votersFixed               // controller.quorum.voters
)

// mixedNode is a node of a mixed cluster.
type mixedNode struct {
	roles string
	kafka bool // it runs Apache Kafka
}

// newID is the id of a cluster or of a directory.
func newID() string { return kafka.NewUUID(func(b []byte) { _, _ = rand.Read(b) }).String() }

// jvmStarts is how long a JVM may take on a machine that has others to do.
const jvmStarts = 5 * time.Minute

// startMixed starts a cluster of both kinds, with ids from 1 on, which begins with all of its controllers as voters. Raftsman makes the log
// directories of all.
func startMixed(t *testing.T, how voting, members ...mixedNode) *cluster {
	t.Helper()
	c := &cluster{t: t, heals: jvmStarts, patience: []kgo.Opt{kgo.RequestTimeoutOverhead(10 * time.Second), kgo.RetryTimeout(time.Minute)}}
	root := t.TempDir()
	var bootstrap, initial, fixed []string
	listeners := map[int32]string{}
	brokers := 0
	for i, m := range members {
		port := freePort(t)
		n := &clusterNode{t: t, id: int32(i + 1), roles: m.roles, addr: fmt.Sprintf("127.0.0.1:%d", port)}
		home := filepath.Join(root, fmt.Sprint("node-", n.id))
		n.dir = filepath.Join(home, "data")
		n.launch = func(n *clusterNode) *process {
			if m.kafka {
				return startKafka(t, n.addr, home, "-Xms128m -Xmx512m")
			}
			return startProcess(t, n.addr, exec.Command(binary(t), "serve", filepath.Join(home, "server.properties"), "--log-level", "debug"))
		}
		var at []string
		if n.isBroker() {
			at = append(at, "PLAINTEXT://"+n.addr)
			brokers++
		}
		if n.isController() {
			controller := fmt.Sprintf("127.0.0.1:%d", port+1)
			at, bootstrap = append(at, "CONTROLLER://"+controller), append(bootstrap, controller)
			fixed = append(fixed, fmt.Sprintf("%d@%s", n.id, controller))
			initial = append(initial, fmt.Sprintf("%d@%s:%s", n.id, controller, newID()))
		}
		listeners[n.id] = strings.Join(at, ",")
		c.nodes = append(c.nodes, n)
	}
	id := newID()
	for i, n := range c.nodes {
		settings := []string{
			"process.roles=" + n.roles, fmt.Sprint("node.id=", n.id), "log.dirs=" + n.dir, "listeners=" + listeners[n.id],
			"controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
			"controller.quorum.election.timeout.ms=2000", "controller.quorum.fetch.timeout.ms=4000", "controller.quorum.request.timeout.ms=4000",
			"initial.broker.registration.timeout.ms=300000", "broker.session.timeout.ms=5000", "broker.heartbeat.interval.ms=500", "group.initial.rebalance.delay.ms=0",
			"offsets.topic.num.partitions=3", fmt.Sprint("offsets.topic.replication.factor=", brokers),
			"transaction.state.log.num.partitions=3", fmt.Sprint("transaction.state.log.replication.factor=", brokers),
			fmt.Sprint("transaction.state.log.min.isr=", max(brokers-1, 1)),
		}
		if how == votersFixed {
			settings = append(settings, "controller.quorum.voters="+strings.Join(fixed, ","))
		} else {
			settings = append(settings, "controller.quorum.bootstrap.servers="+strings.Join(bootstrap, ","),
				"metadata.log.max.record.bytes.between.snapshots=5000", "metadata.max.retention.bytes=5000")
			if n.isController() {
				settings = append(settings, "controller.quorum.auto.join.enable=true")
			}
		}
		if n.isBroker() {
			settings = append(settings, "inter.broker.listener.name=PLAINTEXT")
		}
		home := filepath.Dir(n.dir)
		if err := os.MkdirAll(home, 0o755); err != nil {
			t.Fatal(err)
		}
		properties := filepath.Join(home, "server.properties")
		write(t, properties, strings.Join(settings, "\n")+"\n")
		format := []string{"storage", "format", "-t", id, "-c", properties}
		if n.isController() && how == votersJoin {
			run(t, atLast, nil, binary(t), append(format, "--initial-controllers", strings.Join(initial, ","))...)
		} else {
			run(t, atLast, nil, binary(t), format...)
		}
		if members[i].kafka {
			launch := n.launch
			n.launch = func(n *clusterNode) *process {
				if _, err := os.Stat(n.dir); errors.Is(err, os.ErrNotExist) { // its disk was lost
					run(t, atLast, nil, binary(t), append(format, "--no-initial-controllers")...)
				}
				return launch(n)
			}
		}
		n.start()
	}
	c.client = clusterClient(t, c.seeds(), c.patience...)
	for _, n := range c.brokers() {
		n.process.awaitServing(jvmStarts)
	}
	return c
}

// leads waits until each of the nodes leads what it is the first replica of, and has it so if somebody else leads.
func (c *cluster) leads(nodes ...*clusterNode) {
	c.t.Helper()
	eventually(c.t, atLast, "each broker leads", func() error {
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			if _, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil); err != nil {
				return err
			}
			topics, err := admin.ListTopicsWithInternal(ctx)
			if err != nil {
				return err
			}
			led := map[int32]int{}
			for _, topic := range topics.TopicsList().Topics() {
				for _, p := range topics[topic].Partitions {
					if p.Leader != p.Replicas[0] {
						return fmt.Errorf("%s-%d is led by %d, its replicas are %v", topic, p.Partition, p.Leader, p.Replicas)
					}
					led[p.Leader]++
				}
			}
			for _, n := range nodes {
				if led[n.id] == 0 {
					return fmt.Errorf("%d leads nothing: %v", n.id, led)
				}
			}
			return nil
		})
	})
}

// ledBy has one of some nodes lead the quorum: the others are killed, and come back, until one of these is elected.
func (c *cluster) ledBy(nodes []*clusterNode) {
	c.t.Helper()
	others := slices.DeleteFunc(c.voters(), func(n *clusterNode) bool { return slices.Contains(nodes, n) })
	for range 10 {
		if slices.Contains(nodes, c.controller()) {
			return
		}
		for _, n := range others {
			n.kill()
		}
		for _, n := range others {
			n.start()
		}
		c.healed()
	}
	c.t.Fatal("they were never elected")
}

// outgrowTheLog makes topics until the active controller has a snapshot, and nothing of its log from before that.
func (c *cluster) outgrowTheLog(name string) {
	c.t.Helper()
	leader := c.controller()
	made := 0
	eventually(c.t, atLast, "the log of the active controller begins with a snapshot", func() error {
		from, err := begin(leader)
		if err != nil || from > 0 {
			return err
		}
		made++
		return c.ask(func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.CreateTopic(ctx, 20, 1, nil, fmt.Sprintf("%s-%d", name, made))
			return errors.Join(err, errors.New("it begins with the first record"))
		})
	})
}

// begin returns where the oldest snapshot of a node's metadata log ends, 0 while nothing is missing before.
func begin(n *clusterNode) (int64, error) { return oldest(n, ".checkpoint") }

// beganWithASnapshot checks that a node whose disk was lost did not get the quorum's log from its first record on.
func (c *cluster) beganWithASnapshot(n *clusterNode) {
	c.t.Helper()
	if from, err := oldest(n, ".log"); err != nil || from == 0 {
		c.t.Errorf("the metadata log of node %d begins with %d, %v", n.id, from, err)
	}
}

// oldest returns the number of the oldest file of a kind in a node's metadata log, 0 if there is none.
func oldest(n *clusterNode, kind string) (from int64, err error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "__cluster_metadata-0", "*"+kind))
	if err != nil || len(files) == 0 {
		return 0, err
	}
	_, err = fmt.Sscanf(filepath.Base(files[0]), "%d", &from)
	return from, err
}

// agree waits until all brokers answer the same when each is asked about what the metadata log has.
func (c *cluster) agree() {
	c.t.Helper()
	eventually(c.t, atLast, "all brokers tell the same", func() error {
		told := map[string][]int32{}
		err := c.ask(func(ctx context.Context, _ *kadm.Client) error {
			for _, n := range c.brokers() {
				tells, err := c.tells(ctx, n)
				if err != nil {
					return fmt.Errorf("node %d: %w", n.id, err)
				}
				told[tells] = append(told[tells], n.id)
			}
			return nil
		})
		if err == nil && len(told) > 1 {
			for what, who := range told {
				err = errors.Join(err, fmt.Errorf("%v tell %s", who, what))
			}
		}
		return err
	})
}

// tells is what one broker tells about the cluster's metadata.
func (c *cluster) tells(ctx context.Context, n *clusterNode) (string, error) {
	broker := c.client.Broker(int(n.id))
	metadata := kmsg.NewPtrMetadataRequest()
	resp, err := metadata.RequestWith(ctx, broker)
	if err != nil {
		return "", err
	}
	resp.ThrottleMillis, resp.ControllerID = 0, 0 // any broker is named as controller
	slices.SortFunc(resp.Brokers, func(a, b kmsg.MetadataResponseBroker) int { return int(a.NodeID - b.NodeID) })
	slices.SortFunc(resp.Topics, func(a, b kmsg.MetadataResponseTopic) int { return strings.Compare(*a.Topic, *b.Topic) })
	configs := kmsg.NewPtrDescribeConfigsRequest()
	partitions := kmsg.NewPtrDescribeTopicPartitionsRequest()
	partitions.ResponsePartitionLimit = 2000
	for i := range resp.Topics {
		t := &resp.Topics[i]
		slices.SortFunc(t.Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, *t.Topic
		configs.Resources = append(configs.Resources, resource)
		topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
		topic.Topic = *t.Topic
		partitions.Topics = append(partitions.Topics, topic)
	}
	own, err := configs.RequestWith(ctx, broker)
	if err != nil {
		return "", err
	}
	set := map[string]string{}
	for _, r := range own.Resources {
		for _, entry := range r.Configs {
			if entry.Source == kmsg.ConfigSourceDynamicTopicConfig && entry.Value != nil {
				set[r.ResourceName+" "+entry.Name] = *entry.Value
			}
		}
	}
	eligible, err := partitions.RequestWith(ctx, broker)
	if err != nil {
		return "", err
	}
	eligible.ThrottleMillis = 0
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "test", "1"
	versions, err := ask.RequestWith(ctx, broker)
	if err != nil {
		return "", err
	}
	slices.SortFunc(versions.FinalizedFeatures, func(a, b kmsg.ApiVersionsResponseFinalizedFeature) int { return strings.Compare(a.Name, b.Name) })
	quotas, err := kmsg.NewPtrDescribeClientQuotasRequest().RequestWith(ctx, broker)
	if err != nil {
		return "", err
	}
	for _, code := range []int16{firstError(eligible), versions.ErrorCode, quotas.ErrorCode} {
		if err := kerr.ErrorForCode(code); err != nil {
			return "", err
		}
	}
	all, err := json.MarshalIndent([]any{resp, set, eligible, versions.FinalizedFeatures, quotas.Entries}, "", " ")
	return string(all), err
}

// firstError is the first error in an answer.
func firstError(resp *kmsg.DescribeTopicPartitionsResponse) int16 {
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return t.ErrorCode
		}
	}
	return 0
}
