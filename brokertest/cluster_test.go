package brokertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Three nodes replicate a topic; its leader dies; what was acknowledged is there, and the producer goes on.
func TestAClusterOutlivesALeader(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3)
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

// Whichever node a client asks, the active controller answers, and the answer is the same.
func TestEachNodeAnswersForTheController(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 3; id++ {
		create := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprint("by-", id), 2, 3
		create.Topics, create.TimeoutMillis = append(create.Topics, topic), 10_000
		created, err := create.RequestWith(ctx, client.Broker(id))
		if err != nil || len(created.Topics) != 1 || created.Topics[0].ErrorCode != 0 || created.Topics[0].NumPartitions != 2 {
			t.Fatalf("node %d created a topic with %+v, %v", id, created, err)
		}
		again, err := create.RequestWith(ctx, client.Broker(id))
		if err != nil || kafka.Error(again.Topics[0].ErrorCode) != kafka.TopicAlreadyExists {
			t.Errorf("node %d created it again with %+v, %v", id, again, err)
		}
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic.Topic
		resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: new("1000")}}
		other := kmsg.NewIncrementalAlterConfigsRequestResource()
		other.ResourceType, other.ResourceName = kmsg.ConfigResourceTypeBroker, fmt.Sprint(id%3+1)
		alter.Resources = append(alter.Resources, resource, other)
		altered, err := alter.RequestWith(ctx, client.Broker(id))
		if err != nil || len(altered.Resources) != 2 || altered.Resources[0].ErrorCode != 0 || kafka.Error(altered.Resources[1].ErrorCode) != kafka.InvalidRequest {
			t.Errorf("node %d changed configurations with %+v, %v", id, altered, err)
		}
		quorum, err := describeQuorum().RequestWith(ctx, client.Broker(id))
		if err != nil || len(quorum.Topics) != 1 || len(quorum.Topics[0].Partitions[0].CurrentVoters) != 3 {
			t.Errorf("node %d describes the quorum with %+v, %v", id, quorum, err)
		}
	}
}

func describeQuorum() *kmsg.DescribeQuorumRequest {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	request.Topics = append(request.Topics, topic)
	return request
}

// A transaction spans partitions that all nodes lead, and groups' offsets; its coordinator is on one of them, and dies between two.
func TestTransactionsSpanNodes(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	const partitions = 6
	created, err := admin.CreateTopic(ctx, partitions, 3, nil, "t")
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	groups := []string{"g0", "g1", "g2", "g3", "g4", "g5"} // whose coordinators are on all nodes
	committed := map[string]int64{}
	transact := func(commit kgo.TransactionEndTry) {
		t.Helper()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(partitions) {
			value := fmt.Sprint(sent)
			if !commit {
				value = "aborted"
			}
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
				t.Fatalf("partition %d: %v", p, err)
			}
			if commit {
				sent++
			}
		}
		for _, group := range groups {
			at := int64(sent)
			if !commit {
				at = -2
			} else {
				committed[group] = at
			}
			commitInTransaction(ctx, t, client, created.ID, group, at)
		}
		if err := client.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			if at := stableOffset(ctx, t, admin, group); at != committed[group] {
				t.Errorf("group %s has committed %d, want %d", group, at, committed[group])
			}
		}
	}
	transact(kgo.TryCommit)
	transact(kgo.TryAbort)
	coordinators := admin.FindTxnCoordinators(ctx, "x")
	c.Kill(int(coordinators["x"].NodeID))
	transact(kgo.TryCommit)
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got := map[string]int{}
	for read := 0; read < sent; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records of %d: %v", read, sent, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got[string(r.Value)]++; read++ })
	}
	for i := range sent {
		if got[fmt.Sprint(i)] != 1 {
			t.Errorf("record %d was read %d times: %v", i, got[fmt.Sprint(i)], got)
		}
	}
}

// commitInTransaction commits an offset of partition 0 of topic t in the client's transaction. Its coordinator may be on another node than
// that of the group.
func commitInTransaction(ctx context.Context, t *testing.T, client *kgo.Client, topic [16]byte, group string, at int64) {
	t.Helper()
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = "x", group, id, epoch
	of := kmsg.NewTxnOffsetCommitRequestTopic()
	of.Topic, of.TopicID = "t", topic
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = at
	of.Partitions = append(of.Partitions, partition)
	req.Topics = append(req.Topics, of)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	if code := kafka.Error(resp.Topics[0].Partitions[0].ErrorCode); code != kafka.None {
		t.Errorf("commit for group %s: %v", group, code)
	}
}

// stableOffset returns what a group has committed of partition 0 of topic t, when no transaction is about to change it.
func stableOffset(ctx context.Context, t *testing.T, admin *kadm.Client, group string) int64 {
	t.Helper()
	for {
		offsets, err := admin.FetchOffsets(kadm.RequireStable(ctx), group)
		if at, ok := offsets.Lookup("t", 0); err == nil && ok && at.Err == nil {
			return at.At
		} else if ctx.Err() != nil {
			t.Fatalf("group %s: %+v, %v", group, at, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
