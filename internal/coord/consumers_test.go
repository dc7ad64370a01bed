package coord

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// consumersWorld leaves so much time between two assignments.
func consumersWorld(t testing.TB, interval time.Duration) *world {
	return newWorld(t, func(w *world) {
		w.opts.Consumers = func(*meta.Image, string) group.ConsumerSettings {
			return group.ConsumerSettings{
				SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second, AssignmentInterval: interval, AssignorOffload: true,
			}
		}
		w.opts.Group.ConsumersMax, w.opts.Group.Assignors, w.opts.Group.RegexRefresh = 10_000, []string{"uniform", "range"}, time.Hour
	})
}

func consumerBeat(member string, epoch int32, topics ...string) *group.ConsumerHeartbeat {
	b := &group.ConsumerHeartbeat{MemberID: member, Epoch: epoch, RebalanceTimeoutMs: -1, ClientID: "c", ClientHost: "/h", OwnMemberID: true}
	if epoch == 0 {
		b.RebalanceTimeoutMs, b.Topics, b.HasKnown = 60_000, topics, true
	}
	return b
}

func (w *world) consumer(groupID string, beat *group.ConsumerHeartbeat) *group.ConsumerHeartbeatReply {
	w.t.Helper()
	r := do[*group.ConsumerHeartbeatReply](w, groupID, beat)
	if r.Code != kafka.None {
		w.t.Fatalf("%s in %s at epoch %d: %v %s", beat.MemberID, groupID, beat.Epoch, r.Code, r.Message)
	}
	return r
}

// TestConsumersLearnOfTopics: a topic that comes is assigned by the next heartbeat, also one that a regular expression matches.
func TestConsumersLearnOfTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consumersWorld(t, 0)
		r := w.consumer("g", consumerBeat("m", 0, "t", "later"))
		if r.Epoch != 2 || !r.Assignment.Equal(assign.Assignment{{ID: topicID(2), Partitions: []int32{0, 1, 2}}}) {
			t.Fatalf("joined: %+v", r)
		}
		regex := consumerBeat("m", 0)
		regex.Topics, regex.Regex = nil, new("la.*")
		if r := w.consumer("h", regex); r.Epoch != 1 || len(r.Assignment) != 0 {
			t.Fatalf("joined by an expression: %+v", r)
		}
		synctest.Wait() // it is resolved: nothing matches
		time.Sleep(11 * time.Second)
		w.publish(addTopic(t, w.image.Load(), "later", topicID(9), 1))
		if r := w.consumer("g", consumerBeat("m", 2)); r.Epoch != 3 || !r.Assignment.Has(topicID(9), 0) {
			t.Errorf("the topic has come: %+v", r)
		}
		w.consumer("h", consumerBeat("m", 1))
		synctest.Wait()
		if r := w.consumer("h", consumerBeat("m", 1)); !r.Assignment.Has(topicID(9), 0) {
			t.Errorf("the topic that matches has come: %+v", r)
		}
		w.restart()
		if r := w.consumer("g", consumerBeat("m", 3)); r.Epoch != 3 || !r.Steady {
			t.Errorf("after a restart: %+v", r)
		}
		w.publish(removeTopic(t, w.image.Load(), topicID(9)))
		if r := w.consumer("g", consumerBeat("m", 3)); r.Epoch != 3 || r.Assignment.Has(topicID(9), 0) {
			t.Errorf("the topic has gone: %+v", r) // it has to say first that it works on it no more
		}
		w.close()
	})
}

// TestSteadyHeartbeatsNeverWait: a heartbeat that tells nothing new is answered while the disk is stuck; one that joins is not.
func TestSteadyHeartbeatsNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consumersWorld(t, 0)
		w.consumer("g", consumerBeat("m", 0, "t"))
		w.logs.hold()
		joins := w.ask("g", consumerBeat("n", 0, "t"))
		still(t, "a member that joins", joins)
		described := w.ask("g", &group.ConsumerDescribe{})
		still(t, "a description of what is not committed", described)
		beat := consumerBeat("m", 2)
		beat.HasKnown, beat.Has = true, assign.Assignment{{ID: topicID(2), Partitions: []int32{0, 1, 2}}}
		still(t, "a member that has to give back", w.ask("g", beat))
		r := do[*group.ConsumerHeartbeatReply](w, "g", consumerBeat("m", 2))
		if r.Code != kafka.None || !r.Steady {
			t.Errorf("a steady heartbeat: %+v", r)
		}
		w.logs.release(nil)
		if r := (<-joins).(*group.ConsumerHeartbeatReply); r.Code != kafka.None || r.Epoch != 3 {
			t.Errorf("joined: %+v", r)
		}
		<-described
		w.close()
	})
}

// TestLargeGroupLeavesOthersAlone: while 1,000 members join one group, a commit of another group of the same partition waits for a
// few commands of it at most.
func TestLargeGroupLeavesOthersAlone(t *testing.T) {
	w := consumersWorld(t, time.Second)
	defer w.close()
	w.publish(addTopic(t, w.image.Load(), "large", topicID(9), 1000))
	small := "s0"
	for i := 0; kafka.PartitionFor(small, 4) != kafka.PartitionFor("large", 4); i++ {
		small = fmt.Sprint("s", i)
	}
	joined := make(chan error, 1)
	go func() {
		for i := range 1000 {
			r, ok := (<-w.ask("large", consumerBeat(fmt.Sprintf("member-%04d", i), 0, "large"))).(*group.ConsumerHeartbeatReply)
			if !ok || r.Code != kafka.None {
				joined <- fmt.Errorf("member %d: %+v", i, r)
				return
			}
		}
		joined <- nil
	}()
	var waits []time.Duration
	for {
		select {
		case err := <-joined:
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(waits)
			if len(waits) == 0 {
				t.Fatal("no commit was made meanwhile")
			}
			t.Logf("%d commits meanwhile, the median took %v, the longest %v", len(waits), waits[len(waits)/2], waits[len(waits)-1])
			// Kafka's clients give up on a request after 30 s; what is fast is measured, not tested.
			if longest := waits[len(waits)-1]; longest > 10*time.Second {
				t.Errorf("a commit took %v", longest)
			}
			return
		default:
			begun := time.Now()
			if code := w.commit(small, 1); code != kafka.None {
				t.Fatal(code)
			}
			waits = append(waits, time.Since(begun))
		}
	}
}

// TestAssignmentsHoldUpNobody: as long as nobody gets round to assign a large group, its members and all other groups of the partition are
// answered; then it is assigned.
func TestAssignmentsHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consumersWorld(t, time.Second)
		w.publish(addTopic(t, w.image.Load(), "large", topicID(9), 1000))
		small := "s0"
		for i := 0; kafka.PartitionFor(small, 4) != kafka.PartitionFor("large", 4); i++ {
			small = fmt.Sprint("s", i)
		}
		classic := w.member(small)
		for range asidesAtOnce {
			w.c.asides <- struct{}{} // others are at work
		}
		member := func(i int) string { return fmt.Sprintf("member-%04d", i) }
		for i := range 1000 {
			w.consumer("large", consumerBeat(member(i), 0, "large"))
		}
		target := func() int32 {
			return do[*group.ConsumerDescribeReply](w, "large", &group.ConsumerDescribe{}).AssignmentEpoch
		}
		before := target()
		time.Sleep(2 * time.Second)
		for i := range 1000 {
			w.consumer("large", consumerBeat(member(i), 0, "large"))
			if code := w.beat(small, classic, 1); code != kafka.None {
				t.Fatalf("a heartbeat of another group: %v", code)
			}
		}
		if now := target(); now != before || now > 600 {
			t.Errorf("the target is for epoch %d, and was for %d before: who has made it?", now, before)
		}
		for range asidesAtOnce {
			<-w.c.asides
		}
		synctest.Wait()
		if now := target(); now <= before {
			t.Errorf("the target is for epoch %d still", now)
		}
		w.close()
	})
}

// TestPanicAsideEndsTheShard: it is loaded again, as after a panic of a request.
func TestPanicAsideEndsTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 7)
		s := w.c.groups.of("g")
		s.doAside([]group.Aside{{Group: "g", Work: func(func() bool) any { panic("odd") }}})
		synctest.Wait()
		if s == w.c.groups.of("g") && !s.failed.Load() {
			t.Error("the shard goes on")
		}
		time.Sleep(reloadAfter)
		synctest.Wait()
		if got := w.committed("g"); got != 7 {
			t.Errorf("loaded again: %d", got)
		}
		w.close()
	})
}

// TestWorkAsideIsLimited: regular expressions wait for their turn, while heartbeats go on; and a coordinator that closes does not wait for
// them.
func TestWorkAsideIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consumersWorld(t, 0)
		for range asidesAtOnce {
			w.c.asides <- struct{}{} // others are at work
		}
		regex := consumerBeat("m", 0)
		regex.Topics, regex.Regex = nil, new("t")
		w.consumer("g", regex)
		synctest.Wait()
		if r := w.consumer("g", consumerBeat("m", 1)); r.Assigned {
			t.Errorf("it was not its turn: %+v", r)
		}
		<-w.c.asides
		synctest.Wait()
		if r := w.consumer("g", consumerBeat("m", 1)); !r.Assignment.Has(topicID(2), 0) {
			t.Errorf("its turn has come: %+v", r)
		}
		w.c.asides <- struct{}{}
		w.consumer("h", regex)
		w.close()
	})
}

// TestGroupsAreToldWhatMatters: who leads a partition, and who is in sync, does not make groups look at their topics.
func TestGroupsAreToldWhatMatters(t *testing.T) {
	topic := func(id byte, replicas ...kafka.NodeID) *meta.Topic {
		return &meta.Topic{ID: topicID(id), Partitions: []meta.Partition{{Replicas: []kafka.NodeID{1, 2}}, {Replicas: replicas}}}
	}
	before, shrunk := topic(1, 1, 2), topic(1, 1, 2)
	shrunk.Partitions[0].ISR, shrunk.Partitions[0].Leader = []kafka.NodeID{2}, 2
	if !sameForGroups(before, shrunk) {
		t.Error("other replicas in sync, another leader: told")
	}
	larger := topic(1, 1, 2)
	larger.Partitions = append(larger.Partitions, meta.Partition{Replicas: []kafka.NodeID{1, 2}})
	for what, after := range map[string]*meta.Topic{"deleted": nil, "created anew": topic(2, 1, 2), "moved": topic(1, 1, 3), "enlarged": larger} {
		if sameForGroups(before, after) || sameForGroups(after, before) {
			t.Errorf("%s: not told", what)
		}
	}
}
