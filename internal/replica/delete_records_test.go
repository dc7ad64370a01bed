package replica

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// deleted is the answer to a DeleteRecords.
type deleted struct {
	low kafka.Offset
	err error
}

// deleting asks for what lies before an offset to be deleted.
func (w *world) deleting(tp kafka.TopicPartition, to kafka.Offset, timeoutMs int32) <-chan deleted {
	done := make(chan deleted, 2) // room for one too many
	w.m.DeleteRecords(tp, to, timeoutMs, func(low kafka.Offset, err error) { done <- deleted{low, err} })
	return done
}

// deleteRecords deletes what lies before an offset, and waits for the answer.
func (w *world) deleteRecords(tp kafka.TopicPartition, to kafka.Offset) (low kafka.Offset, err error) {
	w.Helper()
	got := answer(w, w.deleting(tp, to, 50_000))
	return got.low, got.err
}

// starts are the offsets at which the logs of a partition begin on nodes.
func (c *cluster) starts(ids ...kafka.NodeID) (starts []kafka.Offset) {
	c.Helper()
	for _, id := range ids {
		starts = append(starts, c.replica(id, "t", 0).log.StartOffset())
	}
	return starts
}

func TestDeleteRecordsIsAnsweredWhenTheyAreGoneEverywhere(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=1")
		for i := range 20 {
			c.mustProduce("t", 0, fmt.Sprint(i))
		}
		c.waitSame("t", 0)
		time.Sleep(100 * time.Millisecond) // so that followers wait at the leader
		began := time.Now()
		low, err := c.on(1).deleteRecords(tp0, 7)
		if low != 7 || err != nil || fmt.Sprint(c.starts(three...)) != "[7 7 7]" {
			t.Errorf("low watermark %d, %v, and logs begin at %v; want 7", low, err, c.starts(three...))
		}
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("it took %v: a follower was not told, or has not told, before its fetch was over", took)
		}
		if low, err := c.on(1).deleteRecords(tp0, 5); low != 7 || err != nil {
			t.Errorf("what is gone: low watermark %d, %v; want 7", low, err)
		}

		c.cut(3, 1)
		if got := answer(t, c.on(1).deleting(tp0, 8, 300)); got.low != 7 || !errors.Is(got.err, kafka.RequestTimedOut) {
			t.Errorf("while a follower says nothing: low watermark %d, %v; want 7 and REQUEST_TIMED_OUT", got.low, got.err)
		}
		done := c.on(1).deleting(tp0, 9, 60_000)
		if r := c.produce("t", 0, 1, 1000, plain("20")); r.Err != kafka.None {
			t.Fatal(r.Err.Name())
		}
		c.waitInSync("t", 0, 1, 2) // it is out, and alive
		time.Sleep(time.Second)
		none(t, done)
		if n := c.manager(1).Observe(0, 0).WaitingDeletes; n != 1 {
			t.Errorf("%d wait, want 1", n)
		}
		if earliest := c.starts(1, 2); earliest[0] != 9 || earliest[1] != 9 {
			t.Errorf("logs begin at %v, want 9 where the leader is heard of", earliest)
		}
		c.stop(3, false)
		if got := answer(t, done); got.low != 9 || got.err != nil {
			t.Errorf("when it is fenced: low watermark %d, %v; want 9", got.low, got.err)
		}
		if n := c.manager(1).Observe(0, 0).WaitingDeletes; n != 0 {
			t.Errorf("%d wait in the end", n)
		}
		c.heal()
		c.nodes[3].start()
		c.waitInSync("t", 0, three...)
		if low, err := c.on(1).deleteRecords(tp0, -1); low != 21 || err != nil || fmt.Sprint(c.starts(three...)) != "[21 21 21]" {
			t.Errorf("all: low watermark %d, %v, and logs begin at %v; want 21", low, err, c.starts(three...))
		}
	})
}

// TestDeleteRecordsEndsWithTheLeader, who is followed by another, or stops.
func TestDeleteRecordsEndsWithTheLeader(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.topic("t", 1, three, "min.insync.replicas=1")
		c.mustProduce("t", 0, "a", "b", "c")
		c.waitSame("t", 0)
		for i, end := range []func(){
			func() { c.elect("t", 0, 2) },
			func() { c.manager(2).Stop() },
		} {
			leader := three[i]
			c.waitLeads(leader)
			c.cut(3, leader)
			done := c.on(leader).deleting(tp0, kafka.Offset(i+1), 60_000)
			time.Sleep(time.Second)
			none(t, done)
			began := time.Now()
			end()
			if got := answer(t, done); got.low != kafka.NoOffset || !errors.Is(got.err, kafka.NotLeaderOrFollower) || time.Since(began) > 100*time.Millisecond {
				t.Errorf("node %d: low watermark %d, %v after %v; want NOT_LEADER_OR_FOLLOWER at once", leader, got.low, got.err, time.Since(began))
			}
			c.heal()
		}
	})
}

// TestDeleteRecordsCountsWhatFollowersDeletedThemselves: retention on a follower was faster.
func TestDeleteRecordsCountsWhatFollowersDeletedThemselves(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.stop(2, false)
		c.nodes[2].props["log.retention.check.interval.ms"] = "1000" // of the leader it is 5 minutes
		c.nodes[2].start()
		c.topic("t", 1, []kafka.NodeID{1, 2}, "segment.ms=1", "retention.ms=3000")
		for i := range 5 {
			c.mustProduce("t", 0, fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		c.waitFor("retention on the follower", func() bool { return c.starts(2)[0] >= 3 })
		if starts := c.starts(1); starts[0] != 0 {
			t.Fatalf("the leader's log begins at %d, want 0", starts[0])
		}
		if got := answer(t, c.on(1).deleting(tp0, 2, 1000)); got.low != 2 || got.err != nil {
			t.Errorf("low watermark %d, %v; want 2", got.low, got.err)
		}
	})
}
