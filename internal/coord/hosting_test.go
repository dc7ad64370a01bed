package coord

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/txn"
)

// TestAPartitionThatOpensLateIsHosted: when the metadata came its log could not be opened, as the disk was full.
func TestAPartitionThatOpensLateIsHosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.logs.set(func() { w.logs.leads = false })
		w.publish(addTopic(t, w.image.Load(), meta.TransactionsTopic, topicID(9), 2))
		ask := func() kafka.Error { return transact[*txn.InitProducerReply](w, "p", initOf()).Code }
		time.Sleep(10 * time.Second)
		if code := ask(); code != kafka.NotCoordinator {
			t.Errorf("while it is not open: %v, want NOT_COORDINATOR", code)
		}
		w.logs.set(func() { w.logs.leads = true })
		time.Sleep(2 * followAgainAfter)
		synctest.Wait()
		if code := ask(); code != kafka.None {
			t.Errorf("when it is: %v", code)
		}
	})
}

// TestATopicMadeAnewIsReadAnew, if it was deleted and created in one step of the metadata, and its leader epoch is what it was.
func TestATopicMadeAnewIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		now := addTopic(t, w.image.Load(), meta.TransactionsTopic, topicID(9), 2)
		w.publish(now)
		p := w.client("p")
		p.must("add", p.add(at("t", 0)))
		w.logs.set(func() {
			for n := range int32(2) {
				delete(w.logs.batches, at(meta.TransactionsTopic, n))
			}
		})
		w.publish(addTopic(t, removeTopic(t, now, topicID(9)), meta.TransactionsTopic, topicID(10), 2))
		synctest.Wait()
		if r := transact[*txn.DescribeReply](w, "p", &txn.Describe{}); r.Code != kafka.TransactionalIdNotFound {
			t.Errorf("of the topic before: %v, %v", r.Code, r.State)
		}
	})
}
