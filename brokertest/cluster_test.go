package brokertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
)

// Three nodes replicate a topic; its leader dies; what was acknowledged is there, and the producer goes on.
func TestAClusterOutlivesALeader(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3, brokertest.Verbose())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 3, map[string]*string{"min.insync.replicas": new("2")}, "t"); err != nil {
		t.Fatal(err)
	}
	produce := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := client.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
	}
	produce(0, 100)
	topics, err := admin.ListTopics(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	leader := int(topics["t"].Partitions[0].Leader)
	if replicas := topics["t"].Partitions[0].Replicas; leader < 1 || len(replicas) != 3 {
		t.Fatalf("leader %d, replicas %v; want three", leader, replicas)
	}
	c.Kill(leader)
	began := time.Now()
	produce(100, 101)
	t.Logf("the first record after the death of node %d was acknowledged after %s", leader, time.Since(began))
	produce(101, 200)
	var got []string
	for len(got) < 200 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", len(got), err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	for i, value := range got {
		if value != fmt.Sprint(i) {
			t.Fatalf("record %d is %s: %s", i, value, strings.Join(got, " "))
		}
	}
	c.Restart(leader)
	produce(200, 201)
}
