package brokertest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
)

// Nodes of one role each: three controllers and two brokers. One of each kind dies, first the active controller, and they go on without.
func TestControllersAndBrokersApart(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 5, brokertest.Controllers(3))
	goesOnWithout(t, c, []int{4, 5})
}

// A fixed quorum, which the configuration names: three nodes of both roles.
func TestVotersOfTheConfiguration(t *testing.T) {
	t.Parallel()
	goesOnWithout(t, brokertest.StartCluster(t, 3, brokertest.StaticVoters()), []int{1, 2, 3})
}

// A fixed quorum of controllers alone, which brokers alone find by the configuration too.
func TestVotersOfTheConfigurationApart(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 5, brokertest.Controllers(3), brokertest.StaticVoters())
	goesOnWithout(t, c, []int{4, 5})
}

// goesOnWithout writes to a topic of all brokers while the active controller is dead, and then the leader of its partition, and reads all
// of it when they are back.
func goesOnWithout(t *testing.T, c *brokertest.Cluster, brokers []int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	create := func(topic string, replicas int) {
		t.Helper()
		for { // a controller that is elected is not active at once
			_, err := admin.CreateTopic(ctx, 1, int16(replicas), map[string]*string{"min.insync.replicas": new("1")}, topic)
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("create topic %s: %v", topic, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	sent := 0
	produce := func(n int) {
		t.Helper()
		for range n {
			if err := client.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(sent))).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", sent, err)
			}
			sent++
		}
	}
	create("t", len(brokers))
	produce(20)

	controller := activeController(ctx, t, client, brokers)
	c.Kill(controller)
	create("without-a-controller", 1)
	produce(20)
	if now := activeController(ctx, t, client, without(brokers, controller)); now == controller {
		t.Errorf("node %d is the active controller, and is dead", now)
	}
	c.Restart(controller)

	topics, err := admin.ListTopics(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	leader := int(topics["t"].Partitions[0].Leader)
	c.Kill(leader)
	produce(20)
	create("without-a-broker", 1)
	c.Restart(leader)
	produce(20)

	for got := 0; got < sent; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records of %d: %v", got, sent, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(got) {
				t.Errorf("record %d is %s", got, r.Value)
			}
			got++
		})
	}
}

func without(ids []int, id int) (others []int) {
	for _, other := range ids {
		if other != id {
			others = append(others, other)
		}
	}
	return others
}

// activeController asks brokers who leads the quorum.
func activeController(ctx context.Context, t *testing.T, client *kgo.Client, brokers []int) int {
	t.Helper()
	for ctx.Err() == nil {
		for _, id := range brokers {
			quorum, err := describeQuorum().RequestWith(ctx, client.Broker(id))
			if err != nil || len(quorum.Topics) != 1 || quorum.Topics[0].Partitions[0].ErrorCode != 0 {
				continue
			}
			if leader := quorum.Topics[0].Partitions[0].LeaderID; leader >= 0 {
				return int(leader)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("nobody knew an active controller")
	return 0
}
