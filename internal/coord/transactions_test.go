package coord

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/txn"
)

func transact[R txn.Reply](w *world, id string, cmd txn.Command) R {
	ch := make(chan txn.Reply, 1)
	w.c.Transact(id, cmd, func(r txn.Reply) { ch <- r })
	return (<-ch).(R)
}

// producerOf is a client with a transactional id.
type producerOf struct {
	w  *world
	id string
	as txn.ID
}

func initOf() *txn.InitProducer {
	return &txn.InitProducer{TimeoutMs: 60_000, Expected: txn.NoID, Fresh: kafka.NoProducer}
}

// client begins with a transactional id, as many times as it takes.
func (w *world) client(id string) *producerOf {
	w.t.Helper()
	for {
		switch r := transact[*txn.InitProducerReply](w, id, initOf()); r.Code {
		case kafka.None:
			return &producerOf{w: w, id: id, as: r.ID}
		case kafka.ConcurrentTransactions:
			time.Sleep(20 * time.Millisecond) // as clients do
		default:
			w.t.Fatalf("InitProducerId of %s: %v", id, r.Code)
		}
	}
}

func at(topic string, partition int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: partition}
}

// add adds partitions to the transaction.
func (p *producerOf) add(partitions ...kafka.TopicPartition) kafka.Error {
	r := transact[*txn.AddPartitionsReply](p.w, p.id, &txn.AddPartitions{ID: p.as, Partitions: partitions, Protocol: 2})
	if r.Code != kafka.None {
		return r.Code
	}
	for _, code := range r.Codes {
		if code != kafka.None {
			return code
		}
	}
	return kafka.None
}

// end ends the transaction, and the producer goes on as it is told.
func (p *producerOf) end(commit bool) kafka.Error {
	r := transact[*txn.EndReply](p.w, p.id, &txn.End{ID: p.as, Commit: commit, Protocol: 2, Fresh: kafka.NoProducer})
	if r.Code == kafka.None {
		p.as = r.ID
	}
	return r.Code
}

// must fails the test for a code.
func (p *producerOf) must(what string, code kafka.Error) {
	p.w.t.Helper()
	if code != kafka.None {
		p.w.t.Fatalf("%s of %s: %v", what, p.id, code)
	}
}

func (p *producerOf) state() txn.State {
	p.w.t.Helper()
	r := transact[*txn.DescribeReply](p.w, p.id, &txn.Describe{})
	p.must("describe", r.Code)
	return r.State
}

// commitIn commits an offset of partition 0 of t in the transaction.
func (p *producerOf) commitIn(groupID string, offset kafka.Offset) kafka.Error {
	r := do[*group.CommitReply](p.w, groupID, &group.TxnCommit{
		ProducerID: p.as.Producer, ProducerEpoch: p.as.Epoch, Guard: 1, Generation: -1,
		Topics: []group.CommitTopic{{Topic: "t", ID: topicID(2), Partitions: []group.CommitPartition{{Offset: offset, LeaderEpoch: -1}}}},
	})
	if r.Code != kafka.None {
		return r.Code
	}
	return r.Codes[0]
}

func (w *world) offsetsOf(groupID string) kafka.TopicPartition {
	tp, ok := w.c.OffsetsPartition(groupID)
	if !ok {
		w.t.Fatal("no topic for offsets")
	}
	return tp
}

// wantMarkers compares the markers in a partition.
func (w *world) wantMarkers(tp kafka.TopicPartition, want ...int64) {
	w.t.Helper()
	if got := w.logs.markers(tp); !slices.Equal(got, want) {
		w.t.Errorf("markers in %s: %v, want %v", tp, got, want)
	}
}

// otherShard returns a transactional id that another shard answers for.
func otherShard(id string) string {
	for n := 0; ; n++ {
		if other := strconv.Itoa(n); kafka.PartitionFor(other, 2) != kafka.PartitionFor(id, 2) {
			return other
		}
	}
}

func TestATransactionEndsInAllItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		for _, commit := range []bool{true, false} {
			p := w.client(fmt.Sprint("p", commit))
			p.must("add", p.add(at("t", 0), at("t", 2), w.offsetsOf("g")))
			p.must("commit offset", p.commitIn("g", 7))
			p.must("end", p.end(commit))
			synctest.Wait()
			if got, want := p.state(), outcome(commit); got != want {
				t.Errorf("after the end: %v, want %v", got, want)
			}
			id := int64(p.as.Producer)
			if commit {
				w.wantMarkers(at("t", 0), 1)
			} else {
				w.wantMarkers(at("t", 0), 1, -id)
				w.wantMarkers(w.offsetsOf("g"), 1, -id)
			}
			w.wantMarkers(at("t", 1))
			if got := w.committed("g"); got != 7 {
				t.Errorf("the group has %d", got)
			}
			p.must("commit offset of an aborted transaction", kafka.None)
		}
	})
}

func outcome(commit bool) txn.State {
	if commit {
		return txn.CompleteCommit
	}
	return txn.CompleteAbort
}

// TestOffsetsOfATransactionAreNotSeenBeforeItsMarkerIsCommitted, and not at all when it aborts.
func TestOffsetsOfATransactionAreNotSeenBeforeItsMarkerIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		w.commit("g", 1)
		offsets := w.offsetsOf("g")
		p := w.client("p")
		p.must("add", p.add(offsets))
		p.must("commit offset", p.commitIn("g", 2))
		if got := w.committed("g"); got != 1 {
			t.Errorf("in the transaction: %d, want 1", got)
		}
		w.logs.set(func() { w.logs.holds[offsets] = true })
		p.must("end", p.end(true))
		synctest.Wait()
		w.wantMarkers(offsets, int64(p.as.Producer))
		fetch := w.ask("g", &group.Fetch{Topics: []group.FetchTopic{{Topic: "t", Partitions: []int32{0}}}})
		synctest.Wait()
		select {
		case r := <-fetch:
			t.Errorf("told before the marker is committed: %+v", r)
		default:
		}
		if got := p.state(); got != txn.PrepareCommit {
			t.Errorf("before the marker is committed: %v", got)
		}
		w.logs.release(nil)
		if got := (<-fetch).(*group.FetchReply).Topics[0].Partitions[0].Offset; got != 2 {
			t.Errorf("then: %d, want 2", got)
		}
		synctest.Wait()
		if got := p.state(); got != txn.CompleteCommit {
			t.Errorf("then: %v", got)
		}
		p.must("add", p.add(offsets))
		p.must("commit offset", p.commitIn("g", 3))
		p.must("abort", p.end(false))
		synctest.Wait()
		w.restart()
		if got := w.committed("g"); got != 2 {
			t.Errorf("after an abort: %d, want 2", got)
		}
	})
}

func TestAnOffsetWhoseGuardIsGoneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		r := do[*group.CommitReply](w, "g", &group.TxnCommit{
			ProducerID: 9, Guard: 2, Generation: -1,
			Topics: []group.CommitTopic{{Topic: "t", Partitions: []group.CommitPartition{{Offset: 5, LeaderEpoch: -1}}}},
		})
		if r.Code != kafka.InvalidTxnState {
			t.Errorf("refused with %v", r.Code)
		}
		if code := w.commit("g", 6); code != kafka.None {
			t.Errorf("the shard goes on: %v", code)
		}
	})
}

// TestSlowAndFailingPartitionsHoldNobodyElseUp: one refuses, one is slow, the group's coordinator is loading.
func TestSlowAndFailingPartitionsHoldNobodyElseUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		w.logs.set(func() {
			w.logs.refuses[at("t", 1)] = kafka.NotEnoughReplicas
			w.logs.holds[at("t", 2)] = true
		})
		slow, other := w.client("slow"), w.client("other")
		slow.must("add", slow.add(at("t", 0), at("t", 1), at("t", 2)))
		slow.must("end", slow.end(true))
		for range 3 {
			other.must("add", other.add(at("t", 0)))
			other.must("end", other.end(true))
			synctest.Wait()
		}
		if got := other.state(); got != txn.CompleteCommit {
			t.Errorf("the other: %v", got)
		}
		time.Sleep(time.Minute)
		if code := slow.add(at("t", 0)); code != kafka.ConcurrentTransactions {
			t.Errorf("the next transaction while the last one ends: %v", code)
		}
		w.logs.release(nil)
		synctest.Wait()
		if r := transact[*txn.DescribeReply](w, "slow", &txn.Describe{}); r.State != txn.PrepareCommit || !slices.Equal(r.Partitions, []kafka.TopicPartition{at("t", 1)}) {
			t.Errorf("one refuses still: %v %v", r.State, r.Partitions)
		}
		if n := w.c.Metrics().MarkersWaiting.Value(); n != 1 {
			t.Errorf("%d markers wait, want 1", n)
		}
		w.logs.set(func() { clear(w.logs.refuses) })
		time.Sleep(markerRetryMost)
		synctest.Wait()
		if got := slow.state(); got != txn.CompleteCommit {
			t.Errorf("nothing refuses: %v", got)
		}
		for p := range int32(3) {
			if got := w.logs.markers(at("t", p)); !slices.Contains(got, int64(slow.as.Producer)) {
				t.Errorf("markers in partition %d: %v", p, got)
			}
		}
		if n, markers, waiting := len(w.c.markers.queues), w.c.Metrics().Markers.Value(), w.c.Metrics().MarkersWaiting.Value(); n > 0 || markers != 6 || waiting != 0 {
			t.Errorf("%d queues are left, %d markers were written, %d wait; want 0, 6, 0", n, markers, waiting)
		}
	})
}

// TestAStuckWriteHoldsUpItsPartitionAlone, and the transaction that it is part of.
func TestAStuckWriteHoldsUpItsPartitionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		stall := make(chan struct{})
		w.logs.set(func() { w.logs.stalls[at("t", 0)] = stall })
		stuck, other := w.client("stuck"), w.client("other")
		stuck.must("add", stuck.add(at("t", 0), at("t", 1), at("t", 2)))
		stuck.must("end", stuck.end(true))
		synctest.Wait()
		other.must("add", other.add(at("t", 1), at("t", 2)))
		other.must("end", other.end(true))
		synctest.Wait()
		if got := other.state(); got != txn.CompleteCommit {
			t.Errorf("the other: %v", got)
		}
		if got := stuck.state(); got != txn.PrepareCommit {
			t.Errorf("while the write is stuck: %v", got)
		}
		close(stall)
		synctest.Wait()
		if got := stuck.state(); got != txn.CompleteCommit {
			t.Errorf("then: %v", got)
		}
	})
}

// TestTheNextTransactionMayWaitForTheLast, as long as its command may.
func TestTheNextTransactionMayWaitForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		p, other := w.client("p"), w.client("other")
		ask := func(p *producerOf) chan kafka.Error {
			code := make(chan kafka.Error, 1)
			cmd := &txn.AddPartitions{ID: p.as, Partitions: []kafka.TopicPartition{at("t", 0)}, Protocol: 2, Wait: 100 * time.Millisecond}
			w.c.Transact(p.id, cmd, func(r txn.Reply) { code <- r.(*txn.AddPartitionsReply).Code })
			return code
		}
		begin := func() {
			p.must("add", p.add(at("t", 1)))
			w.logs.set(func() { w.logs.holds[at("t", 1)] = true })
			p.must("end", p.end(true))
		}
		begin()
		asked := time.Now()
		soon := ask(p)
		other.must("add of another", <-ask(other))
		time.Sleep(90 * time.Millisecond)
		synctest.Wait()
		if len(soon) > 0 {
			t.Errorf("answered while the markers are written: %v", <-soon)
		}
		w.logs.release(nil)
		if code := <-soon; code != kafka.ConcurrentTransactions || time.Since(asked) != 90*time.Millisecond {
			t.Errorf("told %v after %v, want CONCURRENT_TRANSACTIONS when the markers are written", code, time.Since(asked))
		}
		p.must("add when they are", <-ask(p))

		begin()
		asked = time.Now()
		if code := <-ask(p); code != kafka.ConcurrentTransactions || time.Since(asked) != 100*time.Millisecond {
			t.Errorf("told %v after %v, want CONCURRENT_TRANSACTIONS after 100ms", code, time.Since(asked))
		}
		closed := ask(p)
		synctest.Wait()
		w.close()
		if code := <-closed; code != kafka.NotCoordinator {
			t.Errorf("closed: %v", code)
		}
		w.logs.release(nil)
	})
}

// TestAfterAReloadMarkersAreWrittenAgain whichever of them are there already.
func TestAfterAReloadMarkersAreWrittenAgain(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for there := range 5 {
			synctest.Test(t, func(t *testing.T) {
				w := newTxnWorld(t)
				p := w.client("p")
				partitions := []kafka.TopicPartition{at("t", 0), at("t", 1), at("t", 2), w.offsetsOf("g")}
				p.must("add", p.add(partitions...))
				p.must("commit offset", p.commitIn("g", 5))
				w.logs.set(func() {
					for _, tp := range partitions[there:] {
						w.logs.refuses[tp] = kafka.KafkaStorageError
					}
					if there == len(partitions) { // all are there, but the log does not say so
						w.logs.holds[w.txnPartition("p")] = true
					}
				})
				if there < len(partitions) {
					p.must("end", p.end(commit))
				} else {
					w.c.Transact("p", &txn.End{ID: p.as, Commit: commit, Protocol: 2}, func(txn.Reply) {})
				}
				synctest.Wait()
				w.logs.set(func() { w.logs.refuses = map[kafka.TopicPartition]error{} })
				w.restart()
				w.logs.release(nil)
				synctest.Wait()
				if got := p.state(); got != outcome(commit) {
					t.Errorf("%d markers were there: %v", there, got)
				}
				want := int64(p.as.Producer)
				if !commit {
					want = -want
				}
				for _, tp := range partitions {
					got := w.logs.markers(tp)
					if len(got) == 0 || slices.ContainsFunc(got, func(id int64) bool { return id != want }) {
						t.Errorf("%d markers were there: %s has %v", there, tp, got)
					}
				}
				if got := w.committed("g"); commit != (got == 5) {
					t.Errorf("%d markers were there: the group has %d", there, got)
				}
				w.close()
			})
		}
	}
}

func (w *world) txnPartition(id string) kafka.TopicPartition {
	return at(meta.TransactionsTopic, kafka.PartitionFor(id, 2))
}

// TestAFailedAppendEndsInOneOfTwoWays: the transaction is loaded again as it was, or as it was to be.
func TestAFailedAppendEndsInOneOfTwoWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		p := w.client("p")
		p.must("add", p.add(at("t", 0)))
		w.logs.set(func() { w.logs.refuse = kafka.NotEnoughReplicas })
		if code := p.end(true); code != kafka.CoordinatorNotAvailable {
			t.Errorf("refused: %v", code)
		}
		w.logs.set(func() { w.logs.refuse = nil })
		if got := p.state(); got != txn.Ongoing {
			t.Errorf("refused: %v", got)
		}
		w.logs.set(func() { w.logs.lost = kafka.KafkaStorageError })
		if code := p.end(true); code != kafka.NotCoordinator {
			t.Errorf("not known to be committed: %v", code)
		}
		w.logs.set(func() { w.logs.lost = nil })
		w.wantMarkers(at("t", 0))
		time.Sleep(reloadAfter)
		synctest.Wait()
		if got := p.state(); got != txn.CompleteCommit {
			t.Errorf("it was there after all: %v", got)
		}
		w.wantMarkers(at("t", 0), int64(p.as.Producer))
	})
}

// TestPartitionsThatAreNoMoreCountAsDone, also when others of their name are there.
func TestPartitionsThatAreNoMoreCountAsDone(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newTxnWorld(t)
			defer w.close()
			w.publish(addTopic(t, w.image.Load(), "kept", topicID(9), 1))
			p := w.client("p")
			p.must("add", p.add(at("t", 0), at("t", 1), at("kept", 0)))
			w.logs.set(func() {
				w.logs.refuses[at("t", 0)], w.logs.refuses[at("t", 1)] = kafka.KafkaStorageError, kafka.KafkaStorageError
			})
			p.must("end", p.end(true))
			time.Sleep(time.Minute)
			if got := p.state(); got != txn.PrepareCommit {
				t.Fatalf("while it cannot be written: %v", got)
			}
			image := removeTopic(t, w.image.Load(), topicID(2))
			if again {
				image = addTopic(t, image, "t", topicID(8), 3)
			}
			w.publish(image)
			synctest.Wait()
			if got := p.state(); got != txn.CompleteCommit {
				t.Errorf("the topic is gone: %v", got)
			}
			w.wantMarkers(at("kept", 0), int64(p.as.Producer))
			w.wantMarkers(at("t", 0))
		})
	}
}

// TestTransactionsPreparedForATopicThatIsGoneEndAfterARestart.
func TestTransactionsPreparedForATopicThatIsGoneEndAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		p := w.client("p")
		p.must("add", p.add(at("t", 0)))
		w.logs.set(func() { w.logs.refuses[at("t", 0)] = kafka.KafkaStorageError })
		p.must("end", p.end(true))
		w.close()
		w.image.Store(removeTopic(t, w.image.Load(), topicID(2)))
		w.start()
		synctest.Wait()
		if got := p.state(); got != txn.CompleteCommit {
			t.Errorf("after the restart: %v", got)
		}
		w.close()
	})
}

func TestAFreshProducerIDHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan error)
		w := newTxnWorld(t, func(w *world) {
			w.opts.NextProducerID = func(ctx context.Context) (kafka.ProducerID, error) {
				select {
				case err := <-gate:
					return kafka.ProducerID(w.ids.Add(1)), err
				case <-ctx.Done():
					return kafka.NoProducer, ctx.Err()
				}
			}
		})
		ask := func(id string) chan txn.Reply {
			ch := make(chan txn.Reply, 1)
			w.c.Transact(id, initOf(), func(r txn.Reply) { ch <- r })
			return ch
		}
		code := func(ch chan txn.Reply) kafka.Error { return (<-ch).(*txn.InitProducerReply).Code }
		first := ask("p")
		synctest.Wait()
		if r := transact[*txn.DescribeReply](w, "p", &txn.Describe{}); r.Code != kafka.TransactionalIdNotFound {
			t.Errorf("meanwhile: %v", r.Code)
		}
		gate <- nil
		if got := code(first); got != kafka.None {
			t.Errorf("with an id: %v", got)
		}
		second := ask("q")
		gate <- errors.New("no quorum")
		if got := code(second); got != kafka.CoordinatorLoadInProgress {
			t.Errorf("without an id: %v", got)
		}
		third := ask("r")
		synctest.Wait()
		w.close()
		if got := code(third); got != kafka.NotCoordinator {
			t.Errorf("closed: %v", got)
		}
	})
}

// TestCloseWhileMarkersAreWritten answers everybody and leaves nothing behind: synctest fails for a goroutine that is.
func TestCloseWhileMarkersAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		partitions := []kafka.TopicPartition{at("t", 0), at("t", 1), at("t", 2), w.offsetsOf("g")}
		for n := range 20 {
			p := w.client(fmt.Sprint("p", n))
			p.must("add", p.add(partitions...))
		}
		w.logs.set(func() {
			w.logs.refuses[at("t", 1)] = kafka.KafkaStorageError
			w.logs.holds[at("t", 2)], w.logs.holds[w.offsetsOf("g")] = true, true
		})
		for n := range 20 {
			w.c.Transact(fmt.Sprint("p", n), &txn.End{ID: txn.ID{Producer: kafka.ProducerID(n + 1)}, Commit: true, Protocol: 2}, func(r txn.Reply) {
				if code := r.(*txn.EndReply).Code; code != kafka.None {
					t.Errorf("end of p%d: %v", n, code)
				}
			})
		}
		answered := make(chan []kafka.Error, 1)
		w.c.WriteMarkers(replica.Marker{ProducerID: 99}, partitions, func(codes []kafka.Error) { answered <- codes })
		time.Sleep(time.Second)
		w.close()
		want := []kafka.Error{kafka.None, kafka.KafkaStorageError, kafka.NotLeaderOrFollower, kafka.NotLeaderOrFollower}
		if got := <-answered; !slices.Equal(got, want) {
			t.Errorf("who asked for markers is told %v, want %v", got, want)
		}
		w.logs.release(nil)
		w.c.WriteMarkers(replica.Marker{ProducerID: 99}, partitions[:1], func(codes []kafka.Error) { answered <- codes })
		if got := <-answered; got[0] != kafka.NotLeaderOrFollower {
			t.Errorf("after the end: %v", got)
		}
		w.logs.set(func() { clear(w.logs.refuses) })
		w.start()
		synctest.Wait()
		for n := range 20 {
			p := producerOf{w: w, id: fmt.Sprint("p", n)}
			if got := p.state(); got != txn.CompleteCommit {
				t.Errorf("p%d after a restart: %v", n, got)
			}
		}
		w.close()
	})
}

func TestForgedMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		ask := func(partitions ...kafka.TopicPartition) []kafka.Error {
			ch := make(chan []kafka.Error, 1)
			w.c.WriteMarkers(replica.Marker{ProducerID: 5, Commit: false}, partitions, func(codes []kafka.Error) { ch <- codes })
			return <-ch
		}
		p := producerOf{w: w, as: txn.ID{Producer: 5}}
		p.must("commit offset", p.commitIn("g", 3))
		w.logs.set(func() {
			w.logs.refuses[at("t", 1)] = kafka.InvalidProducerEpoch
			w.logs.refuses[at("t", 2)] = kafka.NotEnoughReplicas
		})
		got := ask(at("t", 0), at("t", 1), at("t", 2), at("t", 3), at("t", -1), at("nowhere", 0), w.offsetsOf("g"), at("t", 0))
		want := []kafka.Error{
			kafka.None, kafka.InvalidProducerEpoch, kafka.NotEnoughReplicas, kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition,
			kafka.UnknownTopicOrPartition, kafka.None, kafka.None,
		}
		if !slices.Equal(got, want) {
			t.Errorf("codes %v, want %v", got, want)
		}
		if got := ask(); len(got) != 0 {
			t.Errorf("nothing was asked: %v", got)
		}
		w.wantMarkers(at("t", 0), -5, -5)
		w.wantMarkers(w.offsetsOf("g"), -5)
		w.restart()
		if got := w.committed("g"); got != kafka.NoOffset {
			t.Errorf("the aborted offset is %d", got)
		}
		w.logs.set(func() { w.logs.leads = false })
		w.publishMove()
		if got := ask(w.offsetsOf("g")); got[0] != kafka.NotLeaderOrFollower {
			t.Errorf("a group's coordinator that is not here: %v", got)
		}
	})
}

// TestAFencedTransactionIsLeftToWhoIsNewer: no more markers are written, until the shard is loaded again.
func TestAFencedTransactionIsLeftToWhoIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		w.logs.set(func() {
			w.logs.refuses[at("t", 0)] = kafka.TransactionCoordinatorFenced
			w.logs.refuses[at("t", 1)] = kafka.NotEnoughReplicas
		})
		p := w.client("p")
		p.must("add", p.add(at("t", 0), at("t", 1)))
		p.must("end", p.end(true))
		synctest.Wait()
		w.logs.set(func() { clear(w.logs.refuses) })
		time.Sleep(time.Minute)
		w.wantMarkers(at("t", 1))
		if got := p.state(); got != txn.PrepareCommit {
			t.Errorf("fenced: %v", got)
		}
		w.restart()
		synctest.Wait()
		if got := p.state(); got != txn.CompleteCommit {
			t.Errorf("loaded again: %v", got)
		}
	})
}

func TestTransactionsOverTheirTimeAreAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		var late []*producerOf
		for n := range 10 {
			p := w.client(fmt.Sprint("p", n))
			p.must("add", p.add(at("t", 0)))
			late = append(late, p)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := late[0].state(); got != txn.Ongoing {
			t.Errorf("in time: %v", got)
		}
		w.logs.set(func() { w.logs.refuse = kafka.NotEnoughReplicas })
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if got := late[0].state(); got != txn.Ongoing {
			t.Errorf("nothing can be written: %v", got)
		}
		w.logs.set(func() { w.logs.refuse = nil })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for _, p := range late {
			if got := p.state(); got != txn.CompleteAbort {
				t.Errorf("%s late: %v", p.id, got)
			}
			if code := p.end(true); code != kafka.InvalidTxnState { // as Kafka: it could be an end that is asked for again
				t.Errorf("%s ends it: %v", p.id, code)
			}
		}
		if n := w.c.Metrics().TimedOut.Value(); n != 10 {
			t.Errorf("%d transactions were over their time, want 10", n)
		}
	})
}

func TestUnusedTransactionalIDsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		w.client("p")
		w.client(otherShard("p"))
		list := func() (ids []string) {
			ch := make(chan []txn.Listed, 1)
			w.c.ListTransactions(func(listed []txn.Listed, code kafka.Error) {
				if code != kafka.None {
					t.Errorf("list: %v", code)
				}
				ch <- listed
			})
			for _, l := range <-ch {
				ids = append(ids, l.TransactionalID)
			}
			return ids
		}
		want := []string{"p", otherShard("p")}
		slices.Sort(want)
		if got := list(); !slices.Equal(got, want) {
			t.Errorf("listed %q, want %q", got, want)
		}
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if got := list(); len(got) > 0 {
			t.Errorf("unused for a day: %q", got)
		}
		w.restart()
		if got := list(); len(got) > 0 {
			t.Errorf("after a restart: %q", got)
		}
	})
}

// TestTheFinalisedProtocolIsTold: below level 1 records are written in version 0.
func TestTheFinalisedProtocolIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTxnWorld(t)
		defer w.close()
		w.publish(atProtocol(t, w.image.Load(), 0))
		p := w.client("p")
		version := func() int16 {
			w.logs.mu.Lock()
			defer w.logs.mu.Unlock()
			batches := w.logs.batches[w.txnPartition("p")]
			for r, err := range batches[len(batches)-1].Records(record.DecompressedMaxDefault) {
				if err == nil {
					return int16(r.Value[1])
				}
			}
			return -1
		}
		if got := version(); got != 0 {
			t.Errorf("level 0 writes version %d", got)
		}
		w.publish(atProtocol(t, w.image.Load(), 2))
		p.must("add", p.add(at("t", 0)))
		if got := version(); got != 1 {
			t.Errorf("level 2 writes version %d", got)
		}
	})
}

func TestFindTransactionalCreatesItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		w := newWorld(t, func(w *world) {
			w.opts.CreateTopic = func(_ context.Context, name string) error {
				asked = append(asked, name)
				w.publish(addTopic(t, w.image.Load(), name, topicID(3), 2))
				return nil
			}
		})
		defer w.close()
		for range 2 {
			if node, err := w.c.FindTransactional(t.Context(), "p"); node != 1 || err != nil {
				t.Errorf("found %d, %v", node, err)
			}
		}
		if !slices.Equal(asked, []string{meta.TransactionsTopic}) {
			t.Errorf("created %q", asked)
		}
		w.client("p")
	})
}

// ends are the transactions that markers have ended in a partition, and whether they committed. It fails the test where two say
// different things, and where one comes after that of a later transaction; but for those that are not by the newest coordinator, which a
// partition refuses.
func (l *logs) ends(t *testing.T, tp kafka.TopicPartition) map[txn.ID]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends, coordinators, last := map[txn.ID]bool{}, map[kafka.ProducerID]int32{}, map[kafka.ProducerID]kafka.ProducerEpoch{}
	for _, b := range l.batches[tp] {
		m, ok, _ := b.Marker()
		id := txn.ID{Producer: b.ProducerID(), Epoch: b.ProducerEpoch()}
		if !ok || m.CoordinatorEpoch < coordinators[id.Producer] {
			continue
		}
		coordinators[id.Producer] = m.CoordinatorEpoch
		if before, again := ends[id]; again && before != m.Commit {
			t.Errorf("%s: transaction %v is committed and aborted", tp, id)
		}
		if id.Epoch < last[id.Producer] {
			t.Errorf("%s: the marker of epoch %d of producer %d comes after that of epoch %d", tp, id.Epoch, id.Producer, last[id.Producer])
		}
		ends[id], last[id.Producer] = m.Commit, id.Epoch
	}
	return ends
}

// TestManyTransactionsAtOnce ends transactions of many ids while partitions refuse, lose and hold what is written and leaders change. Each
// must end everywhere as its client was told. Its point is the race detector; chance is the scheduler's.
func TestManyTransactionsAtOnce(t *testing.T) {
	w := newTxnWorld(t, func(w *world) { w.opts.LoadGrace = time.Millisecond })
	stop := make(chan struct{})
	var trouble, clients sync.WaitGroup
	trouble.Go(func() {
		for n := 0; ; n++ {
			w.logs.set(func() {
				clear(w.logs.refuses)
				w.logs.lost = nil
				switch n % 5 {
				case 0:
					w.logs.refuses[at("t", int32(n%3))] = kafka.NotEnoughReplicas
				case 1:
					w.logs.lost = kafka.KafkaStorageError
				case 2:
					w.logs.holding = true
				case 3:
					w.logs.epoch++
				}
			})
			if n%5 == 3 {
				w.publishMove()
			}
			select {
			case <-stop:
				w.logs.set(func() { clear(w.logs.refuses); w.logs.lost = nil })
				w.logs.release(nil)
				return
			case <-time.After(time.Millisecond):
			}
			w.logs.release(nil)
		}
	})
	var mu sync.Mutex
	told := map[txn.ID]bool{} // by the epoch of the marker
	for n := range 16 {
		clients.Go(func() {
			id := fmt.Sprint("p", n)
			for done := 0; done < 20; {
				r := transact[*txn.InitProducerReply](w, id, initOf())
				p := producerOf{w: w, id: id, as: r.ID}
				if r.Code != kafka.None || p.add(at("t", 0), at("t", 1), at("t", 2), w.offsetsOf(id)) != kafka.None {
					time.Sleep(time.Millisecond) // clients wait before they ask again
					continue
				}
				p.commitIn(id, kafka.Offset(done))
				if commit := done%2 == 0; p.end(commit) == kafka.None {
					mu.Lock()
					told[p.as] = commit
					mu.Unlock()
					done++
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	trouble.Wait()
	w.opts.LoadGrace = time.Minute
	w.restart()
	for n := range 16 {
		w.client(fmt.Sprint("p", n)) // which waits until the last transaction has ended
	}
	w.close()
	first := w.logs.ends(t, at("t", 0))
	for p := range int32(3) {
		ends := w.logs.ends(t, at("t", p))
		if !maps.Equal(ends, first) {
			t.Errorf("partition %d has other markers than partition 0", p)
		}
		for id, commit := range told {
			if got, ok := ends[id]; !ok || got != commit {
				t.Errorf("the client was told that transaction %v has commit=%t; partition %d has %t, %t", id, commit, p, got, ok)
			}
		}
	}
	if n := len(w.c.markers.queues); n > 0 {
		t.Errorf("%d queues are left", n)
	}
}
