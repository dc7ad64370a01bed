package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/txn"
)

// Versions of TxnOffsetCommit from which on something is so.
const (
	txnOffsetsLoadKnown = 2 // its clients know COORDINATOR_LOAD_IN_PROGRESS
	txnOffsetsAbortable = 4 // and TRANSACTION_ABORTABLE
	txnOffsetsAdds      = 5 // it adds the group's partition to the transaction
	txnOffsetsByID      = 6 // topics are named by id, and a group or an epoch that is not there has its own code
)

// noSequence is the sequence of what a coordinator writes for a producer.
const noSequence kafka.Sequence = -1

// txnOffsetCommit stores offsets in a producer's transaction (key 28): they count when it commits. Of partitions that exist; the others are
// answered without asking anybody. Whether the group's partition is in the transaction, the transaction's coordinator knows; who may commit
// for the group, the group's.
func (a *API) txnOffsetCommit(c call) {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	if !c.decode(req) {
		return
	}
	t := &txnOffsets{a: a, call: c, req: req}
	t.prepare(a.Coord.Image())
	switch {
	case len(t.commit.Topics) == 0:
		t.answer()
	case req.Group == "":
		t.refuse(kafka.InvalidGroupId)
	default:
		t.verify()
	}
}

// txnOffsets is one TxnOffsetCommit on its way.
type txnOffsets struct {
	a      *API
	call   call
	req    *kmsg.TxnOffsetCommitRequest
	codes  []kafka.Error // of all partitions, in request order
	stored []int         // the place in codes of each partition in commit
	commit group.TxnCommit
}

// prepare makes the commit of what may be stored, and answers for the rest.
func (t *txnOffsets) prepare(image *meta.Image) {
	t.commit = group.TxnCommit{
		ProducerID: kafka.ProducerID(t.req.ProducerID), ProducerEpoch: kafka.ProducerEpoch(t.req.ProducerEpoch),
		Generation: t.req.Generation, MemberID: t.req.MemberID, InstanceID: t.req.InstanceID,
		UnknownGroup: kafka.IllegalGeneration, StaleEpoch: kafka.IllegalGeneration,
	}
	if t.call.Version >= txnOffsetsByID {
		t.commit.UnknownGroup, t.commit.StaleEpoch = kafka.GroupIdNotFound, kafka.StaleMemberEpoch
	}
	for i := range t.req.Topics {
		from := &t.req.Topics[i]
		topic, missing := t.topic(image, from)
		var parts []group.CommitPartition
		for j := range from.Partitions {
			p := &from.Partitions[j]
			code := missing
			if topic != nil && (p.Partition < 0 || int(p.Partition) >= len(topic.Partitions)) {
				code = kafka.UnknownTopicOrPartition
			}
			if code == kafka.None {
				t.stored = append(t.stored, len(t.codes))
				parts = append(parts, group.CommitPartition{
					Partition: p.Partition, Offset: kafka.Offset(p.Offset), LeaderEpoch: kafka.Epoch(p.LeaderEpoch), Metadata: p.Metadata,
				})
			}
			t.codes = append(t.codes, code)
		}
		if len(parts) > 0 {
			t.commit.Topics = append(t.commit.Topics, group.CommitTopic{Topic: topic.Name, ID: topic.ID, Partitions: parts})
		}
	}
}

func (t *txnOffsets) topic(image *meta.Image, from *kmsg.TxnOffsetCommitRequestTopic) (*meta.Topic, kafka.Error) {
	topic, known := image.Topic(from.Topic)
	missing := kafka.UnknownTopicOrPartition
	if t.call.Version >= txnOffsetsByID {
		topic, known = image.TopicByID(from.TopicID)
		missing = kafka.UnknownTopicId
	}
	if !known {
		return nil, missing
	}
	return topic, kafka.None
}

// verify asks whether the partition that the group's offsets go to is in the producer's open transaction, or adds it, unless the producer has
// written to it in this transaction.
func (t *txnOffsets) verify() {
	tp, there := t.a.Coord.OffsetsPartition(t.req.Group)
	if !there {
		t.refuse(kafka.CoordinatorNotAvailable)
		return
	}
	by := record.Producer{ID: t.commit.ProducerID, Epoch: t.commit.ProducerEpoch, BaseSequence: noSequence}
	adds, guarded := t.call.Version >= txnOffsetsAdds, t.a.verifiesPartitions()
	if !guarded {
		t.commit.Guard = uint64(producer.Unguarded)
	}
	if !adds && !guarded {
		t.store()
		return
	}
	guard, needed, err := t.a.Replicas.Verification(tp.Topic, kafka.TopicID{}, tp.Partition, by, adds)
	if err != nil {
		code, _ := kafka.Answer(err)
		t.refuse(code)
		return
	}
	if !needed {
		t.store()
		return
	}
	if guarded {
		t.commit.Guard = uint64(guard)
	}
	ask := &txn.AddPartitions{ID: txn.ID{Producer: by.ID, Epoch: by.Epoch}, Partitions: []kafka.TopicPartition{tp}, VerifyOnly: !adds}
	if adds {
		ask.Protocol = 2
	}
	t.a.askCoordinator(t.req.TransactionalID, ask, func(r txn.Reply) {
		said := r.(*txn.AddPartitionsReply)
		code := said.Code
		if code == kafka.None {
			code = said.Codes[0]
		}
		if code == kafka.None && adds && t.a.isVoid(guard, tp.Topic, kafka.TopicID{}, tp.Partition, by) { // as in produceCall.recheck
			code = kafka.ConcurrentTransactions
		}
		if code != kafka.None {
			t.refuse(code)
			return
		}
		t.store()
	})
}

func (t *txnOffsets) store() {
	t.a.Coord.Do(t.req.Group, &t.commit, func(r group.Reply) {
		committed := r.(*group.CommitReply)
		if committed.Code != kafka.None {
			t.refuse(committed.Code)
			return
		}
		for i, at := range t.stored {
			t.codes[at] = committed.Codes[i]
		}
		t.answer()
	})
}

// refuse answers all partitions that exist with a code.
func (t *txnOffsets) refuse(code kafka.Error) {
	code = t.codeFor(code)
	for _, at := range t.stored {
		t.codes[at] = code
	}
	t.answer()
}

// codeFor is what a client of the request's version is told of what its commit came to.
func (t *txnOffsets) codeFor(code kafka.Error) kafka.Error {
	switch code {
	case kafka.ProducerFenced:
		return kafka.InvalidProducerEpoch
	case kafka.TransactionAbortable:
		if t.call.Version < txnOffsetsAbortable {
			return kafka.InvalidTxnState
		}
	case kafka.NetworkException: // clients repeat what is loading, without looking for the group's coordinator, which is here
		return t.codeFor(kafka.CoordinatorLoadInProgress)
	case kafka.CoordinatorLoadInProgress:
		if t.call.Version < txnOffsetsLoadKnown {
			return kafka.CoordinatorNotAvailable
		}
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut:
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	}
	return code
}

func (t *txnOffsets) answer() {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(t.req.Topics))
	rest := t.codes
	for i := range t.req.Topics {
		from, to := &t.req.Topics[i], &resp.Topics[i]
		*to = kmsg.NewTxnOffsetCommitResponseTopic()
		to.Topic, to.TopicID = from.Topic, from.TopicID
		to.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = from.Partitions[j].Partition, int16(rest[0])
			to.Partitions[j], rest = p, rest[1:]
		}
	}
	t.call.answer(resp)
}
