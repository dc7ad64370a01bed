package brokertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// quorumTold is the quorum as a node describes it to a client.
type quorumTold struct {
	kmsg.DescribeQuorumResponseTopicPartition
	listeners map[int32]kmsg.AddRaftVoterRequestListener
}

// roles are the voters' and the observers' nodes, in order.
func (q *quorumTold) roles() string {
	ids := func(rows []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) (ids []int32) {
		for _, r := range rows {
			ids = append(ids, r.ReplicaID)
		}
		slices.Sort(ids)
		return ids
	}
	return fmt.Sprintf("voters %v observers %v", ids(q.CurrentVoters), ids(q.Observers))
}

func (q *quorumTold) replica(t *testing.T, id int32) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	t.Helper()
	for _, r := range slices.Concat(q.CurrentVoters, q.Observers) {
		if r.ReplicaID == id {
			return r
		}
	}
	t.Fatalf("node %d is not in the quorum: %+v", id, q)
	panic("unreachable")
}

// Clients take a voter out of the quorum and put it back, whichever node they ask, and each node tells them the same of it.
func TestVotersComeAndGoThroughAnyNode(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3, brokertest.Property("controller.quorum.auto.join.enable", "false"))
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
	describe := func(node int) quorumTold {
		t.Helper()
		resp, err := describeQuorum().RequestWith(ctx, client.Broker(node))
		if err != nil || resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("node %d describes the quorum with %+v, %v", node, resp, err)
		}
		q := quorumTold{resp.Topics[0].Partitions[0], map[int32]kmsg.AddRaftVoterRequestListener{}}
		for _, n := range resp.Nodes {
			q.listeners[n.NodeID] = kmsg.AddRaftVoterRequestListener{Name: n.Listeners[0].Name, Host: n.Listeners[0].Host, Port: n.Listeners[0].Port}
		}
		return q
	}
	// settled waits until all nodes tell of these replicas, and that all of them have what the leader has.
	settled := func(roles string) (q quorumTold) {
		t.Helper()
		for node := 1; node <= 3; {
			q = describe(node)
			behind := slices.ContainsFunc(slices.Concat(q.CurrentVoters, q.Observers), func(r kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool {
				return r.LogEndOffset < q.HighWatermark || r.LastCaughtUpTimestamp <= 0 || r.LastFetchTimestamp < r.LastCaughtUpTimestamp || r.ReplicaDirectoryID == [16]byte{}
			})
			switch {
			case q.roles() == roles && !behind && q.HighWatermark > 0 && len(q.listeners) == len(q.CurrentVoters):
				node++
			case ctx.Err() != nil:
				t.Fatalf("node %d describes the quorum with %+v, not with %s that have all", node, q, roles)
			}
		}
		return q
	}
	remove := func(node int, id int32, directory [16]byte) kafka.Error {
		t.Helper()
		resp, err := raw.RemoveVoter(0, id, directory).RequestWith(ctx, client.Broker(node))
		if err != nil {
			t.Fatalf("remove voter %d through node %d: %v", id, node, err)
		}
		return kafka.Error(resp.ErrorCode)
	}
	add := func(node int, id int32, directory [16]byte, at kmsg.AddRaftVoterRequestListener) kafka.Error {
		t.Helper()
		resp, err := raw.AddVoter(1, id, directory, at).RequestWith(ctx, client.Broker(node))
		if err != nil {
			t.Fatalf("add voter %d through node %d: %v", id, node, err)
		}
		return kafka.Error(resp.ErrorCode)
	}
	before := settled("voters [1 2 3] observers []")
	left := before.LeaderID%3 + 1
	other := left%3 + 1
	directory, at := before.replica(t, left).ReplicaDirectoryID, before.listeners[left]
	for node := 1; node <= 3; node++ {
		if code := remove(node, left, raw.StrangeID); code != kafka.VoterNotFound {
			t.Errorf("a voter's other directory was removed through node %d with %v", node, code)
		}
		if code := add(node, left, directory, at); code != kafka.DuplicateVoter {
			t.Errorf("a voter was added through node %d with %v", node, code)
		}
	}
	voters := []int32{before.LeaderID, other}
	slices.Sort(voters)
	for _, through := range []int32{left, other, before.LeaderID} {
		if code := remove(int(through), left, directory); code != kafka.None {
			t.Fatalf("voter %d was removed through node %d with %v", left, through, code)
		}
		q := settled(fmt.Sprintf("voters %v observers [%d]", voters, left))
		if got := q.replica(t, left).ReplicaDirectoryID; got != directory {
			t.Errorf("the observer's directory is %v, the voter's was %v", got, directory)
		}
		if code := remove(int(through), left, directory); code != kafka.VoterNotFound {
			t.Errorf("an observer was removed through node %d with %v", through, code)
		}
		if code := add(int(through), left, directory, at); code != kafka.None {
			t.Fatalf("voter %d was added through node %d with %v", left, through, code)
		}
		settled("voters [1 2 3] observers []")
	}
	// A leader that votes no more hands over to another.
	leader := before.LeaderID
	if code := remove(int(left), leader, before.replica(t, leader).ReplicaDirectoryID); code != kafka.None {
		t.Fatalf("the leader was removed through node %d with %v", left, code)
	}
	for q := describe(int(other)); q.LeaderID == leader || q.LeaderEpoch <= before.LeaderEpoch; q = describe(int(other)) {
		if ctx.Err() != nil {
			t.Fatalf("node %d votes no more and leads: %+v", leader, q)
		}
	}
	voters = []int32{left, other}
	slices.Sort(voters)
	settled(fmt.Sprintf("voters %v observers [%d]", voters, leader))
	if code := add(int(leader), leader, before.replica(t, leader).ReplicaDirectoryID, before.listeners[leader]); code != kafka.None {
		t.Errorf("the former leader was added again with %v", code)
	}
	settled("voters [1 2 3] observers []")
}
