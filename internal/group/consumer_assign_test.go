package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// crowd is a group of so many members that its assignments are made aside.
type crowd struct {
	*testing.T
	cluster *testCluster
	m       *Machine
	now     time.Time
	epochs  []int32
	aside   []Aside
	most    int // records that one command has written
}

func newCrowd(t *testing.T, members int) *crowd {
	c := &crowd{T: t, cluster: newTestCluster(), now: scenarioStart, epochs: make([]int32, members)}
	c.cluster.settings.AssignmentInterval, c.cluster.settings.AssignorOffload = time.Second, true
	c.cluster.set("t", 1000)
	c.m = New(testConfig(), func([]byte) {})
	c.m.Learn(c.cluster, []string{"t"}, true)
	return c
}

// do carries effects out, and keeps what is to be done aside.
func (c *crowd) do(e Effects, refused kafka.Error) []Sent {
	if refused == kafka.None {
		for _, r := range e.Records {
			c.m.Apply(r)
		}
	}
	replies := e.Replies
	c.aside = append(c.aside, e.Aside...)
	if len(e.Records) > 0 {
		after := c.m.Settle(c.now, e, refused)
		replies, c.aside = append(replies, after.Replies...), append(c.aside, after.Aside...)
	}
	return replies
}

func (c *crowd) beat(i int, epoch int32) {
	c.Helper()
	beat := &ConsumerHeartbeat{MemberID: fmt.Sprintf("member-%04d", i), Epoch: epoch, RebalanceTimeoutMs: -1, HasKnown: true}
	if epoch == 0 {
		beat.RebalanceTimeoutMs, beat.Topics = 60_000, []string{"t"}
	}
	c.now = c.now.Add(2 * time.Millisecond)
	e := c.m.Handle(c.now, 1, "g", beat)
	c.most = max(c.most, len(e.Records))
	r := c.do(e, kafka.None)[0].Reply.(*ConsumerHeartbeatReply)
	if r.Code != kafka.None {
		c.Fatalf("member %d at epoch %d: %v %s", i, epoch, r.Code, r.Message)
	}
	c.epochs[i] = r.Epoch
}

// all lets all members that have not left beat.
func (c *crowd) all() {
	c.Helper()
	for i, epoch := range c.epochs {
		if epoch >= 0 {
			c.beat(i, epoch)
		}
	}
}

func (c *crowd) finish(a Aside, refused kafka.Error) {
	c.do(c.m.Finish(c.now, "g", a.Work(always)), refused)
}

func (c *crowd) group() *consumerGroup { return c.m.groups["g"].consumer }

// TestLargeAssignmentIsMadeAside: no command to a group of 1,000 members writes more than one to a small group does; members are led to the
// target before until the next is there; and that comes to those who are still members then.
func TestLargeAssignmentIsMadeAside(t *testing.T) {
	c := newCrowd(t, 1000)
	for i := range inPlaceMax / 2 {
		c.beat(i, 0)
	}
	if len(c.aside) > 0 {
		t.Errorf("the assignment of a group of %d is made aside", inPlaceMax/2)
	}
	c.most = 0
	for i := inPlaceMax / 2; i < 1000; i++ {
		c.beat(i, 0)
	}
	g := c.group()
	before := g.targetAt
	if len(c.aside) != 1 || g.assigning == nil {
		t.Fatalf("%d assignments have begun, want one that is being made", len(c.aside))
	}
	c.now = c.now.Add(2 * time.Second)
	c.all()
	for i, epoch := range c.epochs {
		if epoch > before {
			t.Fatalf("member %d is at epoch %d, where no target was made since %d", i, epoch, before)
		}
	}
	c.beat(100, -1)
	begun := g.assigning.epoch
	c.finish(c.aside[0], kafka.None)
	if _, has := g.target["member-0100"]; g.targetAt != begun || has {
		t.Errorf("the target is for epoch %d, want %d; it has something for a member that has left: %v", g.targetAt, begun, has)
	}
	records := len(c.m.Finish(c.now, "g", c.aside[0].Work(always)).Records)
	if records > 0 {
		t.Errorf("the same assignment, come twice, writes %d records", records)
	}
	for done := 1; g.state() != Stable; {
		if c.now.Sub(scenarioStart) > time.Minute {
			t.Fatalf("the group is %v, at epoch %d with a target for %d", g.state(), g.epoch, g.targetAt)
		}
		c.now = c.now.Add(2 * time.Second)
		c.all()
		for ; done < len(c.aside); done++ {
			c.finish(c.aside[done], kafka.None)
		}
	}
	if c.most > 6 {
		t.Errorf("one command of a member has written %d records", c.most)
	}
}

// TestRefusedAssignmentIsMadeAgain: one that could not be written is made again, but not by each heartbeat that follows.
func TestRefusedAssignmentIsMadeAgain(t *testing.T) {
	c := newCrowd(t, inPlaceMax)
	c.cluster.settings.AssignmentInterval = 0
	for i := range c.epochs {
		c.beat(i, 0)
	}
	for len(c.aside) > 0 { // what has begun while they joined
		a := c.aside
		c.aside = nil
		for _, each := range a {
			c.finish(each, kafka.NotEnoughReplicas)
		}
		c.beat(0, c.epochs[0])
	}
	if g := c.group(); g.targetAt == g.epoch || g.assigning != nil {
		t.Fatalf("the target for epoch %d of %d is being made", g.targetAt, g.epoch)
	}
	c.now = c.now.Add(assignAgainAfter)
	c.beat(0, c.epochs[0])
	if len(c.aside) != 1 {
		t.Fatalf("%d assignments have begun, want one", len(c.aside))
	}
	c.finish(c.aside[0], kafka.None)
	if g := c.group(); g.targetAt != g.epoch {
		t.Errorf("the target is for epoch %d, want %d", g.targetAt, g.epoch)
	}
}

// TestAssignmentOfAGroupThatHasGone: it comes to nothing, also where another group has the name and the epoch now.
func TestAssignmentOfAGroupThatHasGone(t *testing.T) {
	c := newCrowd(t, inPlaceMax)
	for i := range c.epochs {
		c.beat(i, 0)
	}
	c.now = c.now.Add(2 * time.Second)
	c.beat(0, c.epochs[0])
	late := c.aside[0].Work(always)
	for i := range c.epochs {
		c.beat(i, -1)
	}
	if e := c.m.Finish(c.now, "g", late); len(e.Records) > 0 {
		t.Errorf("all members have left: %d records", len(e.Records))
	}
	c.do(c.m.Handle(c.now, 1, "g", &Delete{}), kafka.None)
	if e := c.m.Finish(c.now, "g", late); len(e.Records) > 0 || c.m.Groups() > 0 {
		t.Errorf("the group was deleted: %d records, %d groups", len(e.Records), c.m.Groups())
	}
	for i := range c.epochs {
		c.beat(i, 0)
	}
	c.now = c.now.Add(2 * time.Second)
	c.beat(0, c.epochs[0])
	if e := c.m.Finish(c.now, "g", late); len(e.Records) > 0 {
		t.Errorf("another group has the name: %d records", len(e.Records))
	}
}
