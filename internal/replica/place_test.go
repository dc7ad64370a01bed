package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// TestAnEmptyLogTakesNoPlaceThatCounts: where the directory of a log is not there, an empty one takes its place only if others have all of its
// records and this node does not count as one that does.
func TestAnEmptyLogTakesNoPlaceThatCounts(t *testing.T) {
	nodes := func(ids ...kafka.NodeID) []kafka.NodeID { return ids }
	for _, c := range []struct {
		what     string
		isr, elr []kafka.NodeID
		failed   bool // a directory of this node
		want     bool
	}{
		{what: "others are in sync", isr: nodes(2, 3), want: true},
		{what: "another is eligible", elr: nodes(2), want: true},
		{what: "this node alone is in sync", isr: nodes(testNode)},
		{what: "this node is in sync with others", isr: nodes(2, testNode)},
		{what: "this node is eligible, nobody is in sync", elr: nodes(testNode)},
		{what: "this node is eligible, another is in sync", isr: nodes(2), elr: nodes(testNode)},
		{what: "nobody is known to have its records"},
		{what: "it may be in a directory that can't be read now", isr: nodes(2, 3), failed: true},
	} {
		w := newWorld(t)
		if c.failed {
			w.m.dirs[0].fail("read", errDown)
		}
		if got := w.m.mayRefill(&meta.Partition{ISR: c.isr, ELR: c.elr}); got != c.want {
			t.Errorf("%s: an empty log may take the place: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestALostLogIsNotReplaced while this node is in sync, and is copied anew once it is not.
func TestALostLogIsNotReplaced(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.topic("t", 1, []kafka.NodeID{2, 1}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "a")
		c.waitSame("t", 0)
		c.hold(2) // else the leader takes the node out of the in-sync set
		c.stop(1, false)
		c.wipe(1)
		c.elect("t", 0, 2, 2, 1)
		c.nodes[1].start()
		c.elect("t", 0, 2, 2, 1)
		time.Sleep(time.Second)
		if got := c.fetch(1, "t", 0, 0, 0); got.Err != kafka.KafkaStorageError {
			t.Errorf("a node in sync whose log is gone answers %v, want KAFKA_STORAGE_ERROR", got.Err.Name())
		}
		if !strings.Contains(c.log.String(), "is none of log.dirs; put the directory back") {
			t.Errorf("the log does not say that the directory is missing:\n%s", c.log)
		}
		c.elect("t", 0, 2, 2)
		c.release(2)
		c.waitInSync("t", 0, 1, 2)
		c.waitSame("t", 0)
	})
}

// TestTheInSyncSetChangesAfterAMove: the partition moves to another log directory while what its leader wants waits to be asked for again.
func TestTheInSyncSetChangesAfterAMove(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.stop(1, false)
		c.nodes[1].dirs = 2
		c.wipe(1)
		c.nodes[1].start()
		c.topic("t", 1, []kafka.NodeID{1, 2}, "min.insync.replicas=1")
		c.mustProduce("t", 0, "a")
		c.waitSame("t", 0)
		m := c.manager(1)
		topic, _ := c.image.Topic("t")
		assigned := sysrecord.NewPartitionChangeRecord()
		assigned.TopicID, assigned.PartitionID, assigned.Directories = topic.ID, 0, []kafka.UUID{m.dirs[1].disk.ID(), c.nodes[2].firstDir}
		c.change(assigned)
		c.setRefuse(kafka.NotController)
		c.cut(2, 1)
		if r := c.produce("t", 0, 1, 1000, plain("b")); r.Err != kafka.None {
			t.Fatal(r.Err.Name())
		}
		began := c.partition("t", 0).PartitionEpoch
		c.waitFor("the controller is asked", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.asked >= 8
		})
		tp := kafka.TopicPartition{Topic: "t"}
		if err := m.MoveReplica(tp, "/data1"); err != nil {
			t.Fatal(err)
		}
		c.waitFor("it has moved", func() bool { return c.replica(1, "t", 0).dir == m.dirs[1] })
		if now := c.partition("t", 0).PartitionEpoch; now != began {
			t.Fatalf("the metadata has changed, from %d to %d", began, now)
		}
		c.setRefuse(kafka.None)
		c.waitInSync("t", 0, 1)
	})
}
