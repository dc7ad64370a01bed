package quorum

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// ask sends a request to whoever leads, until the answer is another one than that it does not.
func (c *cluster) ask(req kraft.Request) (resp kraft.Response) {
	c.t.Helper()
	c.until("a request is answered", func() bool {
		answer, err := c.active().running().Handle(c.t.Context(), req)
		resp = answer
		return err == nil
	})
	return resp
}

func (c *cluster) addVoter(cn *clusterNode) kafka.Error {
	c.t.Helper()
	return c.change(func() kafka.Error {
		return c.ask(&kraft.AddVoterRequest{TimeoutMs: 30_000, Voter: cn.key, AckWhenCommitted: true}).(*kraft.AddVoterResponse).Error
	})
}

func (c *cluster) removeVoter(key kraft.Voter) kafka.Error {
	c.t.Helper()
	return c.change(func() kafka.Error {
		return c.ask(&kraft.RemoveVoterRequest{Voter: kraft.ReplicaKey{ID: key.ID, Directory: key.Directory}}).(*kraft.RemoveVoterResponse).Error
	})
}

// change tries a change of the voters again while another one is under way.
func (c *cluster) change(try func() kafka.Error) (code kafka.Error) {
	c.t.Helper()
	c.until("no other change of the voters is under way", func() bool {
		code = try()
		return code != kafka.RequestTimedOut
	})
	return code
}

// voters waits until all nodes that are up agree on so many voters.
func (c *cluster) voters(count int) {
	c.t.Helper()
	c.until("all know the voters", func() bool {
		for _, cn := range c.nodes {
			if node := cn.running(); node != nil && len(node.Membership().Voters) != count {
				return false
			}
		}
		return true
	})
}

// TestOneNodeGrowsToThree: it is a quorum of one, and serves before others join, which may take its place afterwards.
func TestOneNodeGrowsToThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1, func(o *Options) { o.AutoJoin = o.NodeID == 2 })
		defer c.stopAll()
		c.startAll()
		c.create("alone")
		for range 2 {
			c.must(c.add().format(nil))
		}
		c.startAll()
		c.voters(2) // the second one by itself
		if code := c.addVoter(c.nodes[2]); code != kafka.None {
			c.fatal("a third voter: %v", code)
		}
		c.voters(3)
		if code := c.addVoter(c.nodes[2]); code != kafka.DuplicateVoter {
			c.fatal("the same voter again: %v, want %v", code, kafka.DuplicateVoter)
		}
		c.settle()
		c.nodes[0].kill(true)
		c.create("without-the-first")
		c.startAll()
		if text := c.settle(); !strings.Contains(text, "topic alone") || !strings.Contains(text, "topic without-the-first") {
			c.fatal("got\n%s", text)
		}
	})
}

// TestAVoterWithAnEmptiedDiskIsAnotherOne: it votes no more, and follows; the old one is removed, the new one added.
func TestAVoterWithAnEmptiedDiskIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 3, nil)
		defer c.stopAll()
		c.startAll()
		c.create("before")
		wiped := c.active()
		old := wiped.key
		wiped.kill(true)
		wiped.disk, wiped.key.Directory = faultfs.NewDisk(99), kafka.NewUUID(c.fill)
		c.must(wiped.format(nil))
		c.startAll()
		c.settle()
		if role := wiped.running().role.Load(); role.Voter {
			c.fatal("a node with an emptied disk votes: %+v", role)
		}
		if code := c.removeVoter(old); code != kafka.None {
			c.fatal("remove the old voter: %v", code)
		}
		if code := c.addVoter(wiped); code != kafka.None {
			c.fatal("add the new one: %v", code)
		}
		c.voters(3)
		for _, cn := range c.nodes {
			if cn != wiped {
				cn.kill(true)
				break
			}
		}
		c.create("with-its-vote")
		c.startAll()
		if text := c.settle(); !strings.Contains(text, "topic before") || !strings.Contains(text, "topic with-its-vote") {
			c.fatal("got\n%s", text)
		}
	})
}

// TestALeaderThatIsRemovedHandsOver when its removal is committed, and follows from then on.
func TestALeaderThatIsRemovedHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 3, nil)
		defer c.stopAll()
		c.startAll()
		leader := c.active()
		if code := c.removeVoter(leader.key); code != kafka.None {
			c.fatal("remove the leader: %v", code)
		}
		if next := c.active(leader.id); next == leader {
			c.fatal("it leads on")
		}
		c.create("after")
		c.voters(2)
		c.settle()
	})
}

// TestBrokersThatAreNoControllersFollow and are never voters.
func TestBrokersThatAreNoControllersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, 1, func(o *Options) {
			if o.ControllerOnly = o.NodeID == 1; !o.ControllerOnly {
				o.Controller = meta.Endpoint{}
			}
		})
		defer c.stopAll()
		c.must(c.nodes[0].start(t.Context()))
		for range 2 {
			c.must(c.add().format(nil))
		}
		c.startAll()
		c.create("one")
		text := c.settle()
		if strings.Contains(text, "broker 1 ") || strings.Count(text, "fenced false") != 2 {
			c.fatal("got\n%s", text)
		}
		d, err := c.nodes[0].running().Describe()
		c.must(err)
		if len(d.Voters) != 1 || len(d.Observers) != 2 || d.Observers[0].End == 0 {
			c.fatal("the quorum is %+v", d)
		}
		// The controller alone starts anew: brokers are not fenced for that.
		c.nodes[0].kill(true)
		c.must(c.nodes[0].start(t.Context()))
		c.create("two")
		if text := c.settle(); strings.Count(text, "fenced false") != 2 {
			c.fatal("got\n%s", text)
		}
	})
}

// TestVotersOfTheConfiguration: under kraft.version 0 the log does not name them, as Kafka formats with controller.quorum.voters.
func TestVotersOfTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *cluster
		c = newCluster(t, 5, 0, func(o *Options) {
			for _, cn := range c.nodes {
				o.StaticVoters = append(o.StaticVoters, kraft.Voter{ID: cn.id, Endpoints: cn.key.Endpoints})
			}
			o.Bootstrap = nil
		})
		defer c.stopAll()
		for range 3 {
			cn := c.add()
			c.must(cn.disk.MkdirAll(cn.path()))
			c.must(commitlog.FormatDir(cn.disk, cn.path(), commitlog.MetaProperties{ClusterID: "c1uster", NodeID: cn.id, ID: cn.key.Directory}))
		}
		c.startAll()
		c.create("one")
		c.active().kill(true)
		c.create("two")
		c.startAll()
		c.settle()
		raise := meta.UpdateFeatures{Updates: []meta.FeatureUpdate{{Name: meta.KRaftVersion, Level: 1, Type: meta.UpgradeOnly}}}
		c.until("kraft.version is raised", func() bool {
			err := c.active().running().UpdateFeatures(t.Context(), raise)
			if err != nil && !errors.Is(err, kafka.NotController) {
				t.Log(err)
			}
			return err == nil
		})
		c.until("all know it", func() bool {
			for _, cn := range c.nodes {
				m := cn.running().Membership()
				if m.Version != 1 || len(m.Voters) != 3 || m.Voters[0].Directory != c.nodes[0].key.Directory {
					return false
				}
			}
			return true
		})
		c.settle()
	})
}
