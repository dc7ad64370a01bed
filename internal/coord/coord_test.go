package coord

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
)

// still fails the test if an answer has come.
func still(t *testing.T, what string, ch <-chan group.Reply) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		t.Fatalf("%s was answered: %+v", what, r)
	default:
	}
}

func TestGroupIsThereAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.member("g")
		if code := w.commit("h", 7); code != kafka.None {
			t.Fatal(code)
		}
		w.restart()
		if got := w.committed("h"); got != 7 {
			t.Errorf("committed 7, after the restart it is %d", got)
		}
		d := do[*group.DescribeReply](w, "g", &group.Describe{})
		if d.State != group.Stable || len(d.Members) != 1 || d.Members[0].MemberID != id || string(d.Members[0].Assignment) != "all" {
			t.Errorf("after the restart the group is %+v", d)
		}
		if code := w.beat("g", id, 1); code != kafka.None {
			t.Errorf("heartbeat after the restart: %v", code)
		}
		w.close()
	})
}

func TestAnswersWaitForTheCommitAndHeartbeatsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.member("g")
		w.logs.hold()
		commit := commitOf(5)
		commit.Generation, commit.MemberID = 1, id
		committed := w.ask("g", commit)
		fetched := w.ask("g", &group.Fetch{})
		still(t, "the commit", committed)
		still(t, "a fetch of what is not committed yet", fetched)
		if code := w.beat("g", id, 1); code != kafka.None {
			t.Errorf("heartbeat: %v", code)
		}
		w.logs.release(nil)
		if r := (<-committed).(*group.CommitReply); r.Code != kafka.None {
			t.Errorf("commit: %v", r.Code)
		}
		if r := (<-fetched).(*group.FetchReply); r.Topics[0].Partitions[0].Offset != 5 {
			t.Errorf("fetched %+v", r)
		}
		w.close()
	})
}

func TestCommitsThatComeTogetherAreOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 0) // the partition is loaded
		synctest.Wait()  // and nobody works for it: the next commits go to the log as soon as nobody has more
		before := w.logs.count()
		w.logs.hold()
		var answers []<-chan group.Reply
		for i := range 100 {
			answers = append(answers, w.ask("g", commitOf(kafka.Offset(i))))
		}
		synctest.Wait()
		w.logs.release(nil)
		for _, a := range answers {
			if r := (<-a).(*group.CommitReply); r.Code != kafka.None {
				t.Fatal(r.Code)
			}
		}
		if got := w.logs.count() - before; got > 2 {
			t.Errorf("100 commits made %d batches, want one, or two where some came while the first was on its way", got)
		}
		if got := w.committed("g"); got != 99 {
			t.Errorf("committed %d, want 99", got)
		}
		w.close()
	})
}

func TestRefusedAppendFailsOnlyThatCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.member("g")
		w.commit("h", 1)
		w.logs.set(func() { w.logs.refuse = kafka.NotEnoughReplicas })
		if code := w.commit("h", 2); code != kafka.CoordinatorNotAvailable {
			t.Errorf("commit below min ISR: %v, want COORDINATOR_NOT_AVAILABLE", code)
		}
		if r := do[*group.JoinReply](w, "new", joinOf("")); r.Code != kafka.CoordinatorNotAvailable {
			t.Errorf("first join below min ISR: %v", r.Code)
		}
		if code := w.beat("g", id, 1); code != kafka.None {
			t.Errorf("heartbeat below min ISR: %v", code)
		}
		w.logs.set(func() { w.logs.refuse = nil })
		if got := w.committed("h"); got != 1 {
			t.Errorf("offset is %d after a refused commit, want 1", got)
		}
		if code := w.commit("h", 3); code != kafka.None {
			t.Errorf("commit after the trouble: %v", code)
		}
		w.close()
	})
}

func TestFullDiskFailsOnlyThatCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.opts.Group.InitialRebalanceDelay = time.Minute })
		w.commit("g", 1)
		neighbour := ""
		for i := 0; neighbour == "" || kafka.PartitionFor(neighbour, 4) != kafka.PartitionFor("g", 4); i++ {
			neighbour = fmt.Sprint("neighbour", i)
		}
		joining := w.ask(neighbour, joinOf(""))
		still(t, "a join in the initial delay", joining)
		w.logs.set(func() { w.logs.refuse = kafka.KafkaStorageError })
		if code := w.commit("g", 2); code != kafka.NotCoordinator {
			t.Errorf("commit on a full disk: %v, want NOT_COORDINATOR", code)
		}
		w.logs.set(func() { w.logs.refuse = nil })
		still(t, "the join, after the full disk", joining)
		if got := w.committed("g"); got != 1 {
			t.Errorf("offset %d, want 1", got)
		}
		if code := w.commit("g", 3); code != kafka.None {
			t.Errorf("commit when there is room again: %v", code)
		}
		// The same error of a directory that went offline: this node leads no more.
		w.logs.set(func() { w.logs.refuse, w.logs.leads = kafka.KafkaStorageError, false })
		if code := w.commit("g", 4); code != kafka.NotCoordinator {
			t.Errorf("commit on a failed disk: %v, want NOT_COORDINATOR", code)
		}
		if r := (<-joining).(*group.JoinReply); r.Code != kafka.NotCoordinator {
			t.Errorf("the join, after the disk failed: %v, want NOT_COORDINATOR", r.Code)
		}
		w.close()
	})
}

func TestFailedAppendLoadsThePartitionAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 1)
		w.logs.set(func() { w.logs.lost, w.logs.leads = kafka.KafkaStorageError, false })
		if code := w.commit("g", 2); code != kafka.NotCoordinator {
			t.Errorf("commit on a failing disk: %v, want NOT_COORDINATOR", code)
		}
		w.logs.set(func() { w.logs.lost, w.logs.leads = nil, true })
		time.Sleep(2 * reloadAfter) // fake time
		synctest.Wait()
		if got := w.committed("g"); got != 2 {
			t.Errorf("loaded again, the offset is %d; the log says 2", got)
		}
		if code := w.commit("g", 3); code != kafka.None {
			t.Errorf("commit after loading again: %v", code)
		}
		w.close()
	})
}

// TestPanicOfOneRequestIsNotTheEndOfItsGroups: the request is answered, and the groups of its partition are loaded again.
func TestPanicOfOneRequestIsNotTheEndOfItsGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 1)
		answer := make(chan group.Reply, 1)
		w.c.Do("g", (*group.Commit)(nil), func(r group.Reply) { answer <- r })
		synctest.Wait()
		select {
		case r := <-answer:
			if code := r.(*group.CommitReply).Code; code != kafka.UnknownServerError {
				t.Errorf("answered %v, want UNKNOWN_SERVER_ERROR", code)
			}
		default:
			t.Error("the request was not answered")
		}
		time.Sleep(2 * reloadAfter) // fake time
		synctest.Wait()
		if got := w.committed("g"); got != 1 {
			t.Errorf("loaded again, the offset is %d; the log says 1", got)
		}
		if code := w.commit("g", 2); code != kafka.None {
			t.Errorf("commit after loading again: %v", code)
		}
		w.close()
	})
}

// TestRule46 is: a commit whose write is of an earlier leadership is never acknowledged.
func TestRule46(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.hold()
		committed := w.ask("g", commitOf(1))
		joined := w.ask("other", joinOf(""))
		still(t, "the commit", committed)
		w.logs.set(func() { w.logs.epoch++; w.logs.batches = map[kafka.TopicPartition][]record.Batch{} })
		w.publishMove()
		if r := (<-committed).(*group.CommitReply); r.Code != kafka.NotCoordinator {
			t.Errorf("commit across a change of leader: %v, want NOT_COORDINATOR", r.Code)
		}
		if r := (<-joined).(*group.JoinReply); r.Code != kafka.NotCoordinator {
			t.Errorf("join across a change of leader: %v, want NOT_COORDINATOR", r.Code)
		}
		w.logs.release(nil)
		synctest.Wait()
		if got := w.committed("g"); got != kafka.NoOffset {
			t.Errorf("offset %d came back, which the log does not have", got)
		}
		w.logs.set(func() { w.logs.leads = false })
		w.publishMove()
		if code := w.commit("g", 2); code != kafka.NotCoordinator {
			t.Errorf("commit at a node that does not lead: %v, want NOT_COORDINATOR", code)
		}
		w.close()
	})
}

// TestTheNextShardReadsWhatTheLastOneAppends: a leader epoch begins while an append is stuck in the disk, and its client is told that
// it is stored.
func TestTheNextShardReadsWhatTheLastOneAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		stall := make(chan struct{})
		w.logs.set(func() { w.logs.stalls[w.offsetsOf("g")] = stall })
		told := make(chan kafka.Error)
		go func() { told <- w.commit("g", 7) }()
		synctest.Wait()
		w.logs.set(func() { clear(w.logs.stalls); w.logs.epoch++ })
		w.publishMove()
		synctest.Wait()
		close(stall)
		if code := <-told; code != kafka.None {
			t.Fatalf("the commit: %v", code)
		}
		if got := w.committed("g"); got != 7 {
			t.Errorf("the next leader epoch has %d, want 7", got)
		}
	})
}

func TestWhileLoadingClientsAreToldToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := newWorld(t, func(w *world) { w.logs.gate, w.opts.LoadGrace = gate, 0 })
		begun := time.Now()
		if code := w.commit("g", 1); code != kafka.CoordinatorLoadInProgress {
			t.Errorf("commit while loading: %v, want COORDINATOR_LOAD_IN_PROGRESS", code)
		}
		if waited := time.Since(begun); waited != 500*time.Millisecond {
			t.Errorf("told so after %v, want the 500ms of grace", waited)
		}
		if code := w.beat("g", "m", 1); code != kafka.None {
			t.Errorf("heartbeat while loading: %v, want ok", code)
		}
		if code := w.commit("g", 2); code != kafka.CoordinatorLoadInProgress || time.Since(begun) != 500*time.Millisecond {
			t.Errorf("the next commit: %v after %v, want COORDINATOR_LOAD_IN_PROGRESS at once", code, time.Since(begun))
		}
		synctest.Wait()
		w.c.List(func(_ []group.Listed, code kafka.Error) {
			if code != kafka.CoordinatorLoadInProgress {
				t.Errorf("list while loading: %v, want COORDINATOR_LOAD_IN_PROGRESS", code)
			}
		})
		close(gate)
		synctest.Wait()
		if code := w.commit("g", 3); code != kafka.None {
			t.Errorf("commit when loaded: %v", code)
		}
		w.close()
	})
}

func TestLoadThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 1)
		synctest.Wait()
		w.logs.set(func() { w.logs.failing = 8 }) // each of the four partitions twice
		w.restart()
		synctest.Wait()
		if code := w.commit("g", 2); code != kafka.CoordinatorLoadInProgress {
			t.Errorf("commit between failed loads: %v, want COORDINATOR_LOAD_IN_PROGRESS", code)
		}
		if got := w.committed("g"); got != 1 {
			t.Errorf("committed %d, want 1", got)
		}
		w.close()
	})
}

func TestCloseAnswersAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.opts.Group.InitialRebalanceDelay = time.Minute })
		joining := w.ask("g", joinOf(""))
		still(t, "a join in the initial delay", joining)
		w.logs.hold()
		committing := w.ask("h", commitOf(1))
		still(t, "a commit", committing)
		w.close()
		if r := (<-joining).(*group.JoinReply); r.Code != kafka.NotCoordinator {
			t.Errorf("join: %v, want NOT_COORDINATOR", r.Code)
		}
		if r := (<-committing).(*group.CommitReply); r.Code != kafka.NotCoordinator {
			t.Errorf("commit: %v, want NOT_COORDINATOR", r.Code)
		}
		if code := w.commit("g", 1); code != kafka.NotCoordinator {
			t.Errorf("commit after the end: %v, want NOT_COORDINATOR", code)
		}
		w.logs.release(nil)
	})
}

func TestCommitThatIsNotCommittedInTimeIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.hold()
		begun := time.Now()
		committing, fetching := w.ask("g", commitOf(1)), w.ask("g", &group.Fetch{})
		if r := (<-committing).(*group.CommitReply); r.Code != kafka.CoordinatorNotAvailable {
			t.Errorf("commit: %v, want COORDINATOR_NOT_AVAILABLE", r.Code)
		}
		if r := (<-fetching).(*group.FetchReply); r.Code != kafka.NotCoordinator {
			t.Errorf("fetch: %v, want NOT_COORDINATOR", r.Code)
		}
		if waited := time.Since(begun); waited != 5*time.Second {
			t.Errorf("waited %v, want offsets.commit.timeout.ms", waited)
		}
		w.logs.release(nil)
		synctest.Wait()
		if got := w.committed("g"); got != 1 {
			t.Errorf("offset %d, want 1: it was written after all", got)
		}
		w.close()
	})
}

func TestSessionsEndAndAreSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.member("g")
		for range 5 {
			time.Sleep(9 * time.Second) // fake time
			if code := w.beat("g", id, 1); code != kafka.None {
				t.Fatalf("heartbeat: %v", code)
			}
		}
		time.Sleep(11 * time.Second) // fake time
		synctest.Wait()
		if code := w.beat("g", id, 1); code != kafka.UnknownMemberId {
			t.Errorf("heartbeat after the session: %v, want UNKNOWN_MEMBER_ID", code)
		}
		if d := do[*group.DescribeReply](w, "g", &group.Describe{}); d.State != group.Empty {
			t.Errorf("the group is %v, want Empty", d.State)
		}
		w.close()
	})
}

// TestWhatHappensToGroupsIsLoggedAndCounted, in the order in which it happens.
func TestWhatHappensToGroupsIsLoggedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder // the executor alone writes, and the test reads when all wait
		w := newWorld(t, func(w *world) {
			w.opts.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		})
		expires := w.member("g")
		w.ask("g", joinOf(""))       // and waits for the first, which does not come
		time.Sleep(11 * time.Second) // fake time
		synctest.Wait()
		w.commit("other", 1, 2)
		w.commit("other", 3)
		w.logs.set(func() { w.logs.refuse = kafka.NotEnoughReplicas })
		w.commit("other", 4)
		synctest.Wait()
		want := []string{
			`level=INFO msg="member joined group" group=g generation=0 members=1 member=`,
			`level=DEBUG msg="group rebalances" group=g generation=0 members=1`,
			`level=DEBUG msg="group has a new generation" group=g generation=1 members=1`,
			`level=INFO msg="member joined group" group=g generation=1 members=2 member=`,
			`level=DEBUG msg="group rebalances" group=g generation=1 members=2`,
			`level=INFO msg="member was removed from group: its session ended" group=g generation=1 members=1 member=` + expires,
			`level=DEBUG msg="group has a new generation" group=g generation=2 members=1`,
		}
		var got []string
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, " group=g ") {
				got = append(got, line)
			}
		}
		for i, line := range want {
			if i >= len(got) || !strings.HasPrefix(got[i], line) {
				t.Fatalf("logged\n%s\nwant line %d to begin with\n%s", said.String(), i+1, line)
			}
		}
		m := w.c.Metrics()
		counted := fmt.Sprint(m.MembersJoined.Value(), m.Rebalances.Value(), m.Generations.Value(), m.MembersExpired.Value(), m.MembersLeft.Value(),
			m.Commits.Value(), m.CommitBatches.Value(), m.Groups.Loads.Value())
		if counted != "2 2 2 1 0 2 2 4" {
			t.Errorf("joined, rebalances, generations, expired, left, commits, batches, loads: %s; want 2 2 2 1 0 2 2 4", counted)
		}
		w.close()
	})
}

func TestDeletedTopicsTakeTheirOffsetsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 5)
		w.publish(removeTopic(t, w.image.Load(), topicID(2)))
		synctest.Wait()
		w.publish(addTopic(t, w.image.Load(), "t", topicID(3), 3))
		if got := w.committed("g"); got != kafka.NoOffset {
			t.Errorf("the new topic begins at the old one's offset %d", got)
		}
		w.restart()
		if got := w.committed("g"); got != kafka.NoOffset {
			t.Errorf("after a restart the new topic begins at the old one's offset %d", got)
		}
		w.close()
	})
}

func TestOffsetsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 5)
		time.Sleep(23 * time.Hour) // fake time
		w.restart()
		if got := w.committed("g"); got != 5 {
			t.Errorf("after 23 hours: %d, want 5", got)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := w.committed("g"); got != kafka.NoOffset {
			t.Errorf("after 25 hours: %d, want none", got)
		}
		w.close()
	})
}

func TestFindCreatesTheTopicOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var created atomic.Int32
		w := newWorld(t, func(w *world) {
			w.image.Store(meta.NewImage("test"))
			w.opts.CreateTopic = func(context.Context, string) error {
				created.Add(1)
				time.Sleep(20 * time.Millisecond) // fake time
				w.publish(addTopic(t, w.image.Load(), meta.OffsetsTopic, topicID(1), 50))
				return nil
			}
		})
		if code := w.commit("g", 1); code != kafka.NotCoordinator {
			t.Errorf("commit without a topic: %v, want NOT_COORDINATOR", code)
		}
		found := make(chan string, 10)
		for i := range 10 {
			go func() {
				node, err := w.c.Find(t.Context(), fmt.Sprint("group", i))
				found <- fmt.Sprint(node, err)
			}()
		}
		for range 10 {
			if got := <-found; got != "1 <nil>" {
				t.Errorf("found %s, want node 1", got)
			}
		}
		if n := created.Load(); n != 1 {
			t.Errorf("created %d times", n)
		}
		if code := w.commit("g", 1); code != kafka.None {
			t.Errorf("commit after the topic was found: %v", code)
		}
		w.close()
	})
}

func TestFindWithoutALeader(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.image.Store(meta.NewImage("test"))
		w.opts.CreateTopic = func(context.Context, string) error { return kafka.InvalidReplicationFactor }
	})
	if _, err := w.c.Find(t.Context(), "g"); err != kafka.CoordinatorNotAvailable {
		t.Errorf("found without a topic: %v, want COORDINATOR_NOT_AVAILABLE", err)
	}
	w.close()
}

func TestTransactionalOffsetsCountWhenTheirMarkerCommits(t *testing.T) {
	w := newWorld(t)
	tp := kafka.TopicPartition{Topic: meta.OffsetsTopic, Partition: kafka.PartitionFor("g", 4)}
	for producer, commit := range []bool{true, false} {
		b := record.Builder{Producer: &record.Producer{ID: kafka.ProducerID(producer)}, Transactional: true}
		r := &group.OffsetRecord{Group: "g", Topic: "t", Partition: int32(producer), Value: &group.OffsetValue{Offset: 9, ExpiresMs: -1}}
		value, _ := group.AppendValue(nil, r)
		b.Add(group.AppendKey(nil, r), value, nil, 1)
		w.logs.Append(tp, b.Build(), func(kafka.Offset, error) {})
		w.logs.Append(tp, record.EndTransaction(kafka.ProducerID(producer), 0, record.Marker{Commit: commit}, 1), func(kafka.Offset, error) {})
	}
	w.restart()
	r := do[*group.FetchReply](w, "g", &group.Fetch{})
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].Offset != 9 {
		t.Errorf("offsets %+v, want the committed transaction's only", r.Topics)
	}
	w.close()
}

// TestCommitBesideExpiryStays: a commit that was decided but not appended yet, when expired offsets are looked for, is not taken
// for the old one that it replaces.
func TestCommitBesideExpiryStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.opts.RetentionCheck = 1000 * time.Hour })
		w.commit("g", 1)
		time.Sleep(25 * time.Hour) // fake time, longer than offsets are kept
		w.logs.hold()
		elsewhere := commitOf(0, 7)
		elsewhere.Topics[0].Partitions = elsewhere.Topics[0].Partitions[1:]
		other := w.ask("g", elsewhere) // its append is on its way, so that the next commit gathers
		synctest.Wait()
		late := w.ask("g", commitOf(2))
		synctest.Wait()
		w.c.expire()
		synctest.Wait()
		w.logs.release(nil)
		<-other
		<-late
		if got := w.committed("g"); got != 2 {
			t.Errorf("committed %d, want the 2 that was acknowledged", got)
		}
		w.close()
	})
}

// TestOtherTopicsCostNothing: a change that is not one of __consumer_offsets is not looked at partition by partition, and one
// that is, is.
func TestOtherTopicsCostNothing(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	asked := func() (n int) {
		w.logs.set(func() { n, w.logs.asked = w.logs.asked, 0 })
		return n
	}
	asked()
	w.publish(addTopic(t, w.image.Load(), "u", topicID(3), 1))
	if n := asked(); n != 0 {
		t.Errorf("another topic was created: %d partitions of %s were looked at, want none", n, meta.OffsetsTopic)
	}
	w.publishMove()
	if n := asked(); n != 4 {
		t.Errorf("a partition of %s changed: %d of it were looked at, want all 4", meta.OffsetsTopic, n)
	}
}

// TestTopicDeletedWhileOthersAreCreated: several changes of the metadata may be seen as one.
func TestTopicDeletedWhileOthersAreCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.commit("g", 1)
		now := removeTopic(t, w.image.Load(), topicID(2))
		now = addTopic(t, addTopic(t, now, "u", topicID(3), 1), "v", topicID(4), 1)
		w.publish(now)
		synctest.Wait()
		if got := w.committed("g"); got != kafka.NoOffset {
			t.Errorf("committed %d in a topic that is no more", got)
		}
		w.close()
	})
}

func TestLargeDeletesAreSeveralBatchesAndLargeCommitsAreRefused(t *testing.T) {
	w := newWorld(t, func(w *world) { w.logs.most = 2000 })
	for i := range 10 {
		c := commitOf(make([]kafka.Offset, 10)...)
		c.Topics[0].Topic = fmt.Sprint("t", i)
		if r := do[*group.CommitReply](w, "g", c); r.Code != kafka.None {
			t.Fatal(r.Code)
		}
	}
	if r := do[*group.CommitReply](w, "g", commitOf(make([]kafka.Offset, 100)...)); r.Code != kafka.UnknownServerError {
		t.Errorf("a commit above the limit of a batch: %v, want UNKNOWN_SERVER_ERROR", r.Code)
	}
	before := w.logs.count()
	if r := do[*group.DeleteReply](w, "g", &group.Delete{}); r.Code != kafka.None {
		t.Errorf("delete: %v", r.Code)
	}
	if n := w.logs.count() - before; n < 3 {
		t.Errorf("101 tombstones made %d batches", n)
	}
	w.restart()
	if r := do[*group.DescribeReply](w, "g", &group.Describe{}); r.Found {
		t.Errorf("the deleted group is back: %+v", r)
	}
	w.close()
}

func TestListGathersAllShards(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("g%02d", i)
		want = append(want, name)
		w.commit(name, 1)
	}
	found := make(chan []string, 1)
	w.c.List(func(list []group.Listed, code kafka.Error) {
		if code != kafka.None {
			t.Error(code)
		}
		var names []string
		for _, g := range list {
			names = append(names, g.Group)
		}
		found <- names
	})
	if got := <-found; !slices.Equal(got, want) {
		t.Errorf("listed %v", got)
	}
	w.close()
}
