package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// inCluster runs a test with n nodes in a bubble of time.
func inCluster(t *testing.T, n int, test func(c *cluster), settings ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, n, settings...)
		defer c.close()
		test(c)
	})
}

var three = []kafka.NodeID{1, 2, 3}

func TestFollowersHaveWhatTheLeaderAcknowledges(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 2, three)
		time.Sleep(time.Second)
		began := time.Now()
		for i := range 20 {
			c.mustProduce("t", int32(i%2), fmt.Sprint("v", i))
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("20 records were acknowledged in %v: somebody waits for a timeout", took)
		}
		for i := range int32(2) {
			c.waitSame("t", i)
			for _, id := range three {
				if got := c.values(id, "t", i); len(got) != 10 {
					t.Errorf("node %d has %d records of partition %d, want 10", id, len(got), i)
				}
			}
		}
		if isr := c.partition("t", 0).ISR; !slices.Equal(isr, three) {
			t.Errorf("in sync %v, want all", isr)
		}
	})
}

// TestHighWatermarkCountsFlushedBytes holds up the flushes of the followers: what they have written counts for nothing until then.
func TestHighWatermarkCountsFlushedBytes(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three)
		c.mustProduce("t", 0, "first")
		gates := map[kafka.NodeID]chan struct{}{}
		for _, id := range []kafka.NodeID{2, 3} {
			gate := make(chan struct{})
			gates[id] = gate
			c.nodes[id].fs.set(func(string) error { <-gate; return nil })
		}
		done := make(chan ProduceResult, 1)
		go func() { done <- c.produce("t", 0, -1, 60_000, plain("second")) }()
		for _, id := range []kafka.NodeID{2, 3} {
			time.Sleep(300 * time.Millisecond)
			none(t, done)
			if got := c.values(1, "t", 0); len(got) != 1 {
				t.Fatalf("consumers see %d records before the followers have flushed the second, want 1", len(got))
			}
			c.nodes[id].fs.set(nil)
			close(gates[id])
		}
		if r := answer(t, done); r.Err != kafka.None {
			t.Errorf("produce: %v", r.Err)
		}
	})
}

// TestFollowersAreServedWhatTheLeaderHasFlushed: a follower never has what the leader could lose.
func TestFollowersAreServedWhatTheLeaderHasFlushed(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2})
		c.mustProduce("t", 0, "first")
		gate := make(chan struct{})
		c.nodes[1].fs.set(func(string) error { <-gate; return nil })
		done := make(chan ProduceResult, 1)
		go func() { done <- c.produce("t", 0, -1, 60_000, plain("second")) }()
		time.Sleep(time.Second)
		if end := c.replica(2, "t", 0).log.EndOffset(); end != 1 {
			t.Errorf("the follower has %d records while the leader flushes the second, want 1", end)
		}
		c.nodes[1].fs.set(nil)
		close(gate)
		if r := answer(t, done); r.Err != kafka.None {
			t.Errorf("produce: %v", r.Err)
		}
	})
}

// TestTruncationGoesByEpochNotByHighWatermark is the first case of KIP-101: a follower that has a record, but does not know yet that it is
// committed, restarts, and is elected before it has heard from the leader. By its high watermark it would have cut the record off.
func TestTruncationGoesByEpochNotByHighWatermark(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "m1")
		c.mustProduce("t", 0, "m2")
		if high := c.replica(2, "t", 0).high.Load(); high >= 2 {
			t.Fatalf("the follower knows of the high watermark %d already", high)
		}
		// It restarts without a word to the leader, which dies meanwhile.
		c.cut(2, 1)
		c.bounce(2)
		c.stop(1, true)
		c.elect("t", 0, 2, 2)
		c.waitLeads(2)
		if got := c.values(2, "t", 0); !slices.Equal(got, []string{"m1", "m2"}) {
			t.Errorf("after the election: %v, want m1 and m2", got)
		}
		c.heal()
		c.nodes[1].start()
		c.waitInSync("t", 0, 1, 2)
		c.waitSame("t", 0)
	})
}

// TestLogsThatDivergedBecomeTheLeaders is the second case of KIP-101, and those of KIP-279: after unclean elections, in which each of two nodes
// wrote what the other has not, fast enough for several epochs, the follower cuts off where the logs part, in as many rounds as it takes.
func TestLogsThatDivergedBecomeTheLeaders(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "both")
		c.waitSame("t", 0)
		// In turn each is alone and writes: epochs 1, 3, 5 are of node 1, and 2, 4, 6 of node 2.
		for i := range 6 {
			alone, away := kafka.NodeID(1+i%2), kafka.NodeID(2-i%2)
			c.cut(away, alone)
			c.cut(alone, away)
			c.elect("t", 0, alone, alone)
			c.waitLeads(alone)
			for j := range i + 1 {
				c.mustProduce("t", 0, fmt.Sprintf("node %d, %d in epoch %d", alone, j, i+1))
			}
		}
		want := c.values(2, "t", 0)
		if got := c.replica(1, "t", 0).log.EndOffset(); got != 1+1+3+5 {
			t.Fatalf("node 1 ends at %d: the case is not what it should be", got)
		}
		c.heal()
		c.waitInSync("t", 0, 1, 2)
		c.waitSame("t", 0)
		if got := c.values(1, "t", 0); !slices.Equal(got, want) {
			t.Errorf("node 1 has %v, want what node 2 had: %v", got, want)
		}
	})
}

// TestShorterLeaderAfterAnUncleanElection: the follower is ahead of its leader, which has written nothing yet.
func TestShorterLeaderAfterAnUncleanElection(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "both")
		c.waitSame("t", 0)
		c.cut(2, 1)
		c.elect("t", 0, 1, 1)
		c.waitFor("alone", func() bool { return c.produce("t", 0, -1, 1000, plain("lost")).Err == kafka.None })
		c.heal()
		c.elect("t", 0, 2, 2)
		c.waitInSync("t", 0, 1, 2)
		c.waitSame("t", 0)
		if got := c.values(1, "t", 0); !slices.Equal(got, []string{"both"}) {
			t.Errorf("%v, want the first record alone", got)
		}
	})
}

// TestWipedFollowerComesBack: an empty disk is filled again, and counts for nothing until it is. Nothing acknowledged is lost.
func TestWipedFollowerComesBack(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=2")
		for i := range 50 {
			c.mustProduce("t", 0, fmt.Sprint(i))
		}
		c.stop(1, true)
		c.wipe(1)
		for i := range 50 {
			c.mustProduce("t", 0, fmt.Sprint(50+i))
		}
		c.nodes[1].start()
		c.waitInSync("t", 0, three...)
		c.waitSame("t", 0)
		if got := c.values(1, "t", 0); len(got) != 100 {
			t.Errorf("the wiped node has %d records, want 100", len(got))
		}
	})
}

// TestWipedFollowerIsNotTakenForWhatItWas: the node comes back with an empty disk so fast that the leader has not heard that it was away. What it
// had before does not count (KIP-903).
func TestWipedFollowerIsNotTakenForWhatItWas(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=2")
		for i := range 10 {
			c.mustProduce("t", 0, fmt.Sprint(i))
		}
		c.hold(1)
		c.cut(2, 1)
		c.cut(3, 1)
		c.stop(2, true)
		c.wipe(2)
		c.nodes[2].start()
		c.heal()
		time.Sleep(500 * time.Millisecond)
		if isr := c.partition("t", 0).ISR; slices.Contains(isr, 2) {
			t.Errorf("in sync %v while the leader knows of the old start alone", isr)
		}
		c.release(1)
		c.waitInSync("t", 0, three...)
		c.waitSame("t", 0)
	})
}

// TestSlowFollowerLeavesTheInSyncSetAndComesBack by replica.lag.time.max.ms, here 2 s.
func TestSlowFollowerLeavesTheInSyncSetAndComesBack(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=2")
		c.mustProduce("t", 0, "first")
		c.cut(3, 1)
		began := time.Now()
		if r := c.produce("t", 0, -1, 300, plain("late")); r.Err != kafka.RequestTimedOut {
			t.Errorf("while a follower in sync does not fetch: %v, want REQUEST_TIMED_OUT", r.Err.Name())
		}
		if r := c.produce("t", 0, 1, 300, plain("acks=1")); r.Err != kafka.None {
			t.Errorf("with acks=1: %v", r.Err.Name())
		}
		c.mustProduce("t", 0, "waits until it is out")
		if took := time.Since(began); took < 1500*time.Millisecond || took > 4*time.Second {
			t.Errorf("the follower was out after %v, want about 2 to 3 s", took)
		}
		c.waitInSync("t", 0, 1, 2)
		// With one of two it does not go on: neither before nor after the append.
		c.cut(2, 1)
		if r := c.produce("t", 0, -1, 10_000, plain("waits")); r.Err != kafka.RequestTimedOut {
			t.Errorf("appended with two in sync, of which one is out then: %v, want REQUEST_TIMED_OUT", r.Err.Name())
		}
		c.waitInSync("t", 0, 1)
		if r := c.produce("t", 0, -1, 1000, plain("refused")); r.Err != kafka.NotEnoughReplicas {
			t.Errorf("with one in sync: %v, want NOT_ENOUGH_REPLICAS", r.Err.Name())
		}
		seen := len(c.values(1, "t", 0))
		if r := c.produce("t", 0, 1, 1000, plain("acks=1 goes on")); r.Err != kafka.None {
			t.Errorf("acks=1 with one in sync: %v", r.Err.Name())
		}
		if now := len(c.values(1, "t", 0)); now != seen {
			t.Errorf("consumers see %d records, and %d with too few in sync", seen, now)
		}
		c.heal()
		c.waitInSync("t", 0, three...)
		c.mustProduce("t", 0, "last")
		c.waitSame("t", 0)
	})
}

// TestALeaderAcknowledgesNothingThatAnEligibleLeaderLacks: min.insync.replicas is raised, and then the set shrinks to the leader, which hears the
// answer to its AlterPartition long before the metadata. By that the follower is an eligible leader.
func TestALeaderAcknowledgesNothingThatAnEligibleLeaderLacks(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "a")
		c.waitSame("t", 0)
		c.hold(1)
		c.change(configRecord("t", "min.insync.replicas=2"))
		c.cut(2, 1)
		done := make(chan ProduceResult, 1)
		go func() { done <- c.produce("t", 0, -1, 120_000, plain("b")) }()
		c.waitInSync("t", 0, 1)
		time.Sleep(10 * time.Second)
		none(t, done)
		c.release(1)
		time.Sleep(10 * time.Second)
		none(t, done)
		c.heal()
		if r := answer(t, done); r.Err != kafka.None {
			t.Errorf("produce: %v", r.Err.Name())
		}
		c.waitInSync("t", 0, 1, 2)
		c.waitSame("t", 0)
	})
}

// TestLeaderMovesWhileFollowersFetch: nobody waits for the end of a long poll.
func TestLeaderMovesWhileFollowersFetch(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 3, three)
		for i := range 30 {
			c.mustProduce("t", int32(i%3), fmt.Sprint(i))
			time.Sleep(time.Duration(i) * time.Millisecond)
			leader := three[i%3]
			for p := range int32(3) {
				c.elect("t", p, leader)
			}
			c.waitFor("the next leader", func() bool {
				for p := range int32(3) {
					if _, leads := c.manager(leader).Leads(kafka.TopicPartition{Topic: "t", Partition: p}); !leads {
						return false
					}
				}
				return true
			})
			began := time.Now()
			c.mustProduce("t", int32(i%3), fmt.Sprint(i))
			if took := time.Since(began); took > 150*time.Millisecond {
				t.Errorf("election %d: a record was acknowledged after %v", i, took)
			}
		}
		for p := range int32(3) {
			c.waitSame("t", p)
		}
	})
}

// TestFollowersStartMovesWithTheLeaders, by DeleteRecords, and one that is behind the leader's start begins anew there.
func TestFollowersStartMovesWithTheLeaders(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2})
		for i := range 10 {
			c.mustProduce("t", 0, fmt.Sprint(i), fmt.Sprint(i)+"b", fmt.Sprint(i)+"c")
		}
		c.waitSame("t", 0)
		if _, err := c.on(1).deleteRecords(tp0, 7); err != nil {
			t.Fatal(err)
		}
		if start := c.replica(2, "t", 0).log.StartOffset(); start != 7 {
			t.Errorf("the follower's log begins at %d when the answer is there, want 7", start)
		}
		// The follower is away and the leader's log begins behind its end, in the middle of a batch.
		c.stop(2, false)
		c.mustProduce("t", 0, "30", "31", "32")
		if _, err := c.on(1).deleteRecords(tp0, 31); err != nil {
			t.Fatal(err)
		}
		c.nodes[2].start()
		c.waitInSync("t", 0, 1, 2)
		if start := c.replica(2, "t", 0).log.StartOffset(); start != 31 {
			t.Errorf("the follower's log starts at %d, want 31", start)
		}
		c.waitSame("t", 0)
		// The same with an empty disk.
		c.stop(2, false)
		c.wipe(2)
		c.nodes[2].start()
		c.waitInSync("t", 0, 1, 2)
		c.waitSame("t", 0)
		if got := c.fetch(2, "t", 0, 31, 0); got.Err != kafka.None || len(got.bytes) == 0 {
			t.Errorf("from the follower's start: %v, %d bytes", got.Err.Name(), len(got.bytes))
		}
	})
}

// TestConsumersReadFromAFollowerInTheirRack (KIP-392).
func TestConsumersReadFromAFollowerInTheirRack(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three)
		c.mustProduce("t", 0, "a")
		c.mustProduce("t", 0, "b")
		ask := func(id kafka.NodeID, rack string, fromFollower bool, offset kafka.Offset) fetched {
			return (<-c.on(id).readRequest(FetchRequest{
				ReplicaID: -1, FromFollower: fromFollower, Rack: rack, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", 0, offset)},
			}))[0]
		}
		if got := ask(1, "rack3", true, 1); got.Preferred != 3 || len(got.bytes) > 0 || got.HighWatermark != 2 {
			t.Errorf("in rack 3: preferred %d, %d bytes, high watermark %d, want node 3, none, 2", got.Preferred, len(got.bytes), got.HighWatermark)
		}
		for _, rack := range []string{"rack1", "", "elsewhere"} {
			if got := ask(1, rack, true, 1); got.Preferred != kafka.NoNode || len(got.bytes) == 0 {
				t.Errorf("in rack %q: preferred %d, %d bytes, want the leader's", rack, got.Preferred, len(got.bytes))
			}
		}
		if got := ask(1, "rack3", false, 1); got.Preferred != kafka.NoNode {
			t.Errorf("an old consumer is sent to node %d", got.Preferred)
		}
		if got := ask(3, "rack3", false, 0); got.Err != kafka.NotLeaderOrFollower {
			t.Errorf("an old consumer reads from a follower: %v", got.Err.Name())
		}
		c.waitSame("t", 0)
		if got := ask(3, "rack3", true, 0); got.Err != kafka.None || len(got.bytes) == 0 {
			t.Errorf("from the follower: %v, %d bytes", got.Err.Name(), len(got.bytes))
		}
		// A consumer that waits at a follower sees what is committed as soon as the follower hears of it.
		waits := make(chan fetched, 1)
		go func() { waits <- c.fetch(3, "t", 0, 2, 60_000) }()
		time.Sleep(time.Second)
		none(t, waits)
		c.mustProduce("t", 0, "c")
		began := time.Now()
		if got := answer(t, waits); got.Err != kafka.None || len(got.bytes) == 0 {
			t.Errorf("a consumer that waited at the follower: %v, %d bytes", got.Err.Name(), len(got.bytes))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it waited for %v", took)
		}
		// One that is not in sync is not preferred.
		c.cut(3, 1)
		c.mustProduce("t", 0, "d")
		c.waitInSync("t", 0, 1, 2)
		if got := ask(1, "rack3", true, 1); got.Preferred != kafka.NoNode {
			t.Errorf("sent to node %d, which is not in sync", got.Preferred)
		}
	}, "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector")
}

// TestDeletedAndRecreatedTopic: nobody goes on with the old one.
func TestDeletedAndRecreatedTopic(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		for round := range 4 {
			c.topic("t", 2, three)
			for i := range 4 {
				c.mustProduce("t", int32(i%2), fmt.Sprint(round, i))
			}
			c.waitSame("t", 0)
			if got := c.values(2, "t", 0); len(got) != 2 {
				t.Errorf("round %d: %v", round, got)
			}
			c.remove("t")
		}
	})
}

// TestReassignedPartitionIsTakenFromTheDisk, and comes back empty.
func TestReassignedPartitionIsTakenFromTheDisk(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2})
		c.mustProduce("t", 0, "a")
		c.reassign("t", 0, []kafka.NodeID{1, 2, 3}, nil)
		c.waitInSync("t", 0, three...)
		c.waitSame("t", 0)
		c.reassign("t", 0, []kafka.NodeID{1, 3}, []kafka.NodeID{1, 3})
		c.mustProduce("t", 0, "b")
		c.waitFor("node 2 has it no more", func() bool {
			_, err := c.manager(2).find(kafka.TopicID{}, "t", 0)
			return err == kafka.NotLeaderOrFollower
		})
		c.reassign("t", 0, three, nil)
		c.waitInSync("t", 0, three...)
		c.waitSame("t", 0)
	})
}

// TestFollowersDiskFails: the leader goes on when the follower is out, and after a restart with another disk it is back.
func TestFollowersDiskFails(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=2")
		c.mustProduce("t", 0, "a")
		c.nodes[3].fs.set(func(string) error { return errDown })
		c.mustProduce("t", 0, "b")
		c.waitInSync("t", 0, 1, 2)
		c.stop(3, true)
		c.wipe(3)
		c.nodes[3].start()
		c.waitInSync("t", 0, three...)
		c.waitSame("t", 0)
	})
}

// TestThrottledReplicasAreCopiedAtTheirRate (KIP-73): by the leader's rate, or the follower's, while they are not in sync.
func TestThrottledReplicasAreCopiedAtTheirRate(t *testing.T) {
	for _, side := range []string{"leader", "follower"} {
		t.Run(side, func(t *testing.T) {
			inCluster(t, 2, func(c *cluster) {
				const rate = 100_000
				c.topic("t", 1, []kafka.NodeID{1}, side+".replication.throttled.replicas=0:1,0:2")
				value := strings.Repeat("v", 10_000)
				for range 50 {
					c.mustProduce("t", 0, value)
				}
				limit := sysrecord.NewConfigRecord()
				text := strconv.Itoa(rate)
				limit.ResourceType, limit.Name, limit.Value = int8(meta.BrokerResource), side+".replication.throttled.rate", &text
				c.change(limit)
				began := time.Now()
				c.reassign("t", 0, []kafka.NodeID{1, 2}, nil)
				time.Sleep(time.Second)
				c.mustProduce("t", 0, "others are not held up")
				c.waitInSync("t", 0, 1, 2)
				if took := time.Since(began); took < 3500*time.Millisecond || took > 9*time.Second {
					t.Errorf("500 KB were copied in %v, want about 5 s", took)
				}
				began = time.Now()
				c.mustProduce("t", 0, value, value, value)
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("a follower in sync is throttled: %v for a record", took)
				}
				c.waitSame("t", 0)
			}, "replica.fetch.max.bytes=20000")
		})
	}
}

// TestControllerIsAway: a change of the in-sync set waits, and counts both ways until it is answered.
func TestControllerIsAway(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "a")
		c.setRefuse(kafka.NotController)
		c.cut(2, 1)
		if r := c.produce("t", 0, -1, 20_000, plain("b")); r.Err != kafka.RequestTimedOut {
			t.Errorf("without a controller: %v, want REQUEST_TIMED_OUT: nobody has said that node 2 is out", r.Err.Name())
		}
		c.mu.Lock()
		asked := c.asked
		c.mu.Unlock()
		if asked < 10 || asked > 100 {
			t.Errorf("the controller was asked %d times in 20 s", asked)
		}
		c.setRefuse(kafka.None)
		c.waitInSync("t", 0, 1)
		c.mustProduce("t", 0, "c")
	})
}

// TestLoadWaitsForTheHighWatermark: a coordinator is not told of what another leader may not have.
func TestLoadWaitsForTheHighWatermark(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=2")
		c.mustProduce("t", 0, "a")
		c.waitSame("t", 0)
		c.cut(3, 2)
		c.cut(1, 2)
		c.elect("t", 0, 2)
		c.waitLeads(2)
		if _, err := c.manager(2).ListOffset(tp0, OffsetQuery{TimestampMs: Latest, CurrentLeaderEpoch: kafka.NoEpoch}); err != nil {
			t.Errorf("latest offset: %v", err) // its high watermark was the end
		}
		// The same with a record that is not known to be committed.
		c.heal()
		c.mustProduce("t", 0, "b")
		c.cut(1, 3)
		c.cut(2, 3)
		c.elect("t", 0, 3)
		c.waitLeads(3)
		if _, err := c.manager(3).ListOffset(tp0, OffsetQuery{TimestampMs: Latest, CurrentLeaderEpoch: kafka.NoEpoch}); err != kafka.OffsetNotAvailable {
			t.Errorf("latest offset: %v, want OFFSET_NOT_AVAILABLE", err)
		}
		loaded := make(chan error, 1)
		batches := 0
		go func() {
			if err := c.manager(3).AwaitCommitted(tp0, nil, nil); err != nil {
				loaded <- err
				return
			}
			loaded <- c.manager(3).Load(tp0, func(record.Batch) error { batches++; return nil })
		}()
		time.Sleep(500 * time.Millisecond)
		none(t, loaded)
		c.heal()
		if err := answer(t, loaded); err != nil || batches != 2 {
			t.Errorf("loaded %d batches: %v", batches, err)
		}
		// Who loses the leadership meanwhile is told so.
		c.mustProduce("t", 0, "c")
		c.cut(2, 1)
		c.cut(3, 1)
		c.elect("t", 0, 1)
		c.waitLeads(1)
		stop := make(chan struct{})
		go func() { loaded <- c.manager(1).AwaitCommitted(tp0, nil, stop) }()
		close(stop)
		if err := answer(t, loaded); err != kafka.NotLeaderOrFollower {
			t.Errorf("load of a coordinator that stops: %v", err)
		}
		go func() { loaded <- c.manager(1).AwaitCommitted(tp0, nil, nil) }()
		time.Sleep(100 * time.Millisecond)
		none(t, loaded)
		c.elect("t", 0, 2)
		if err := answer(t, loaded); err != kafka.NotLeaderOrFollower {
			t.Errorf("load of who leads no more: %v", err)
		}
	})
}

// TestTransactionsAfterTheLeaderMoved: a follower knows of open transactions and producers what the leader does.
func TestTransactionsAfterTheLeaderMoved(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{1, 2})
		c.mustProduce("t", 0, "plain")
		by := record.Producer{ID: 77, Epoch: 1}
		if r := c.on(1).begin(0, by, "in a transaction"); r.Err != kafka.None {
			t.Fatalf("in a transaction: %v %s", r.Err.Name(), r.Message)
		}
		c.elect("t", 0, 2)
		c.waitLeads(2)
		c.mustProduce("t", 0, "behind it")
		committed := func(id kafka.NodeID) FetchResult {
			return (<-c.on(id).readRequest(FetchRequest{
				ReplicaID: -1, FromFollower: true, Committed: true, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{at("t", 0, 1)},
			}))[0].FetchResult
		}
		if got := committed(2); got.LastStable != 1 || got.HighWatermark != 3 {
			t.Errorf("last stable offset %d of %d at the new leader, want 1 of 3", got.LastStable, got.HighWatermark)
		}
		if r := c.on(2).inTransaction(0, by, producer.NoGuard, "in a transaction"); r.Err != kafka.None || r.BaseOffset != 1 {
			t.Errorf("a duplicate at the new leader: %v at %d, want the original's place, 1", r.Err.Name(), r.BaseOffset)
		}
		c.on(2).want("the marker", c.on(2).mark(0, Marker{ProducerID: 77, ProducerEpoch: 1}), kafka.None)
		c.waitSame("t", 0)
		for _, id := range []kafka.NodeID{1, 2} {
			if got := committed(id); got.LastStable != 4 || len(got.Aborted) != 1 {
				t.Errorf("node %d: last stable offset %d, %d aborted, want 4 and 1", id, got.LastStable, len(got.Aborted))
			}
		}
	})
}
