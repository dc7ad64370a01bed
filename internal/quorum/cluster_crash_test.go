package quorum

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// TestAPowerCutOfOneOfThreeAtEachOperation of its disk, be it the leader or a follower, while topics are made and snapshots are written or
// downloaded: everything that was acknowledged is on all three afterwards.
func TestAPowerCutOfOneOfThreeAtEachOperation(t *testing.T) {
	for _, victim := range []string{"leader", "follower", "follower that is behind"} {
		t.Run(victim, func(t *testing.T) {
			step, reached := 1, true
			if testing.Short() {
				step = 7
			}
			n := 0
			for ; reached; n += step {
				synctest.Test(t, func(t *testing.T) { reached = cutAt(t, victim, n) })
				if t.Failed() {
					t.Fatalf("the power was cut at operation %d", n)
				}
			}
			if n < 20 {
				t.Errorf("%d operations of a disk show little", n)
			}
		})
	}
}

// cutAt tells whether the victim came to its n-th operation at all.
func cutAt(t *testing.T, victim string, n int) (reached bool) {
	c := newCluster(t, uint64(n), 3, func(o *Options) {
		o.SegmentBytes, o.RetentionBytes, o.snapshotsByCaller, o.SnapshotFetchBytes = 3000, 1, true, 2000
	})
	defer func() {
		for _, cn := range c.nodes {
			cn.end(true)
		}
	}()
	c.startAll()
	c.settle()
	leader := c.active()
	cn := leader
	if victim != "leader" {
		cn = c.nodes[leader.id%3]
	}
	made := 0
	create := func(count int) {
		for range count {
			c.create(fmt.Sprint("topic-", made))
			made++
		}
	}
	if victim == "follower that is behind" {
		cn.end(false)
		create(6)
		c.must(leader.running().Snapshot())
		create(2)
		c.must(leader.running().Snapshot()) // what comes before it is removed
	}
	cn.disk.CutAt(n)
	cn.mend()
	create(5)
	for _, each := range c.nodes {
		if node := each.running(); node != nil {
			if err := node.Snapshot(); err != nil && each != cn {
				c.must(err)
			}
		}
	}
	create(5)
	c.until("the victim has it all, or its disk has failed", func() bool {
		node, active := cn.running(), c.active().running()
		return cn.cutAtStart || cn.disk.Off() || node != nil && node.Image().Offset() == active.Image().Offset()
	})
	reached = cn.cutAtStart || cn.disk.Off()
	cn.end(true)
	create(1)
	cn.mend()
	text := c.settle()
	for i := range made {
		if !strings.Contains(text, fmt.Sprintf("topic topic-%d ", i)) {
			c.fatal("topic-%d was acknowledged and is gone:\n%s", i, text)
		}
	}
	return reached
}
