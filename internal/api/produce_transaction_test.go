package api

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/txn"
)

// asked is a node whose transaction coordinator is the test.
type asked struct {
	*node
	mu     sync.Mutex // guards all below
	cmds   []txn.AddPartitions
	answer func(txn.AddPartitions) txn.AddPartitionsReply
}

func newAsked(t *testing.T) *asked {
	a := &asked{node: newNode(t)}
	a.topic("t", 3)
	a.api.Transact = func(transactionalID string, cmd txn.Command, reply func(txn.Reply)) {
		if transactionalID != "tx" {
			t.Errorf("asked about %q", transactionalID)
		}
		a.mu.Lock()
		add := *cmd.(*txn.AddPartitions)
		a.cmds = append(a.cmds, add)
		answer := a.answer
		a.mu.Unlock()
		r := answer(add)
		go reply(&r) // on another goroutine, as the coordinator may
	}
	a.say()
	return a
}

// say sets the answer for each partition of a question, the last for all that follow: by default NONE.
func (a *asked) say(codes ...kafka.Error) {
	a.answer = func(cmd txn.AddPartitions) txn.AddPartitionsReply {
		r := txn.AddPartitionsReply{}
		for i := range cmd.Partitions {
			code := kafka.None
			if len(codes) > 0 {
				code = codes[min(i, len(codes)-1)]
			}
			r.Codes = append(r.Codes, code)
		}
		return r
	}
}

func (a *asked) questions() []txn.AddPartitions {
	a.mu.Lock()
	defer a.mu.Unlock()
	cmds := a.cmds
	a.cmds = nil
	return cmds
}

func inTxn(p record.Producer, transactional bool) []byte {
	b := record.Builder{Producer: &p, Transactional: transactional}
	b.Add([]byte("k"), []byte("v"), nil, time.Now().UnixMilli())
	return b.Build()
}

// put sends a batch to each of some partitions and returns their rows.
func (a *asked) put(version int16, id *string, batches map[int32][]byte) map[int32]kmsg.ProduceResponseTopicPartition {
	a.Helper()
	topic, _ := a.api.Quorum.Image().Topic("t")
	var req *kmsg.ProduceRequest
	for _, index := range slices.Sorted(func(yield func(int32) bool) {
		for i := range batches {
			if !yield(i) {
				return
			}
		}
	}) {
		one := produceRequest(version, -1, "t", topic.ID, index, batches[index])
		if req == nil {
			req = one
			continue
		}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, one.Topics[0].Partitions...)
	}
	req.TransactionID = id
	rows := map[int32]kmsg.ProduceResponseTopicPartition{}
	for _, row := range a.call(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		rows[row.Partition] = row
	}
	return rows
}

func (a *asked) putOne(version int16, p record.Producer) kafka.Error {
	a.Helper()
	return kafka.Error(a.put(version, new("tx"), map[int32][]byte{0: inTxn(p, true)})[0].ErrorCode)
}

func (a *asked) end(m replica.Marker) {
	a.Helper()
	done := make(chan error, 1)
	a.api.Replicas.EndTransaction(kafka.TopicPartition{Topic: "t"}, m, func(err error) { done <- err })
	if err := <-done; err != nil {
		a.Fatalf("marker %+v: %v", m, err)
	}
}

// TestRule67TheCoordinatorIsAskedOnce: about the first batch of a transaction in a partition, in the way of the request's version.
func TestRule67TheCoordinatorIsAskedOnce(t *testing.T) {
	a := newAsked(t)
	for version := int16(3); version <= 13; version++ {
		id := record.Producer{ID: 7, Epoch: kafka.ProducerEpoch(version), BaseSequence: 0}
		for i := range 2 {
			if got := a.putOne(version, id); got != kafka.None {
				t.Fatalf("v%d, batch %d: %v", version, i, got)
			}
			id.BaseSequence++
		}
		want := txn.AddPartitions{
			ID: txn.ID{Producer: 7, Epoch: id.Epoch}, VerifyOnly: version < 12, Partitions: []kafka.TopicPartition{{Topic: "t"}},
		}
		if version >= 12 {
			want.Protocol = 2
		}
		got := a.questions()
		if len(got) != 1 || got[0].ID != want.ID || got[0].VerifyOnly != want.VerifyOnly || got[0].Protocol != want.Protocol ||
			!slices.Equal(got[0].Partitions, want.Partitions) {
			t.Errorf("v%d: asked %+v, want %+v once", version, got, want)
		}
		a.end(replica.Marker{ProducerID: 7, ProducerEpoch: id.Epoch, Commit: true})
	}
}

// TestTheCoordinatorsAnswerByVersion: what the client is told when its batch is not to be appended.
func TestTheCoordinatorsAnswerByVersion(t *testing.T) {
	a := newAsked(t)
	for _, c := range []struct {
		code             kafka.Error
		v10, v11, v12and kafka.Error
	}{
		{kafka.TransactionAbortable, kafka.InvalidTxnState, kafka.TransactionAbortable, kafka.TransactionAbortable},
		{kafka.InvalidTxnState, kafka.InvalidTxnState, kafka.InvalidTxnState, kafka.InvalidTxnState},
		{kafka.ProducerFenced, kafka.InvalidProducerEpoch, kafka.InvalidProducerEpoch, kafka.InvalidProducerEpoch},
		{kafka.InvalidProducerIdMapping, kafka.InvalidProducerIdMapping, kafka.InvalidProducerIdMapping, kafka.InvalidProducerIdMapping},
		{kafka.ConcurrentTransactions, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas, kafka.ConcurrentTransactions},
		{kafka.NotCoordinator, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas},
		{kafka.CoordinatorNotAvailable, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas},
		{kafka.CoordinatorLoadInProgress, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas, kafka.NotEnoughReplicas},
	} {
		for version, want := range map[int16]kafka.Error{9: c.v10, 10: c.v10, 11: c.v11, 12: c.v12and, 13: c.v12and} {
			a.say(c.code)
			rows := a.put(version, new("tx"), map[int32][]byte{0: inTxn(record.Producer{ID: 1}, true)})
			row := rows[0]
			if got := kafka.Error(row.ErrorCode); got != want || row.BaseOffset != -1 || row.LogStartOffset != -1 {
				t.Errorf("v%d, the coordinator says %v: %v at %d, log start %d; want %v at -1", version, c.code, got, row.BaseOffset, row.LogStartOffset, want)
			}
			// The same for the whole question.
			a.answer = func(txn.AddPartitions) txn.AddPartitionsReply { return txn.AddPartitionsReply{Code: c.code} }
			if got := a.putOne(version, record.Producer{ID: 1}); got != want {
				t.Errorf("v%d, the coordinator says %v to all: %v, want %v", version, c.code, got, want)
			}
		}
	}
}

// TestAProducerWhoseLastTransactionEndsIsAskedAboutAgain: the client of protocol 2 goes on before the markers are written.
func TestAProducerWhoseLastTransactionEndsIsAskedAboutAgain(t *testing.T) {
	a := newAsked(t)
	left := 3
	a.answer = func(txn.AddPartitions) txn.AddPartitionsReply {
		if left--; left >= 0 {
			return txn.AddPartitionsReply{Code: kafka.ConcurrentTransactions}
		}
		return txn.AddPartitionsReply{Codes: []kafka.Error{kafka.None}}
	}
	if got := a.putOne(12, record.Producer{ID: 1}); got != kafka.None {
		t.Errorf("%v, want it taken in the end", got)
	}
	if n := len(a.questions()); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
	left = 1
	if got := a.putOne(11, record.Producer{ID: 2}); got != kafka.NotEnoughReplicas || len(a.questions()) != 1 {
		t.Errorf("v11: %v, want NOT_ENOUGH_REPLICAS after one question", got)
	}
}

// TestAMarkerOvertakesTheAnswer: the coordinator has agreed, and ends the transaction before the batch is appended.
func TestAMarkerOvertakesTheAnswer(t *testing.T) {
	a := newAsked(t)
	for _, c := range []struct {
		version int16
		marker  replica.Marker
		want    kafka.Error
	}{
		{11, replica.Marker{ProducerID: 1, ProducerEpoch: 0, Protocol: 1}, kafka.InvalidTxnState},
		{12, replica.Marker{ProducerID: 1, ProducerEpoch: 1, Protocol: 2}, kafka.InvalidProducerEpoch},
	} {
		a.answer = func(txn.AddPartitions) txn.AddPartitionsReply {
			a.end(c.marker)
			return txn.AddPartitionsReply{Codes: []kafka.Error{kafka.None}}
		}
		if got := a.putOne(c.version, record.Producer{ID: 1}); got != c.want {
			t.Errorf("v%d: %v, want %v", c.version, got, c.want)
		}
	}
	producers, err := a.api.Replicas.Producers(kafka.TopicPartition{Topic: "t"})
	if err != nil || len(producers) != 1 || producers[0].TxnStartOffset != kafka.NoOffset {
		t.Errorf("%+v, %v; want one without a transaction", producers, err)
	}
}

// TestTheMarkerOfTheLastTransactionOvertakesTheAnswer: the client goes on with the epoch that the marker has, and the guard was given
// before the marker came.
func TestTheMarkerOfTheLastTransactionOvertakesTheAnswer(t *testing.T) {
	a := newAsked(t)
	if got := a.putOne(12, record.Producer{ID: 1}); got != kafka.None || len(a.questions()) != 1 {
		t.Fatalf("the last transaction: %v", got)
	}
	var ended sync.Once
	a.answer = func(txn.AddPartitions) txn.AddPartitionsReply {
		ended.Do(func() { a.end(replica.Marker{ProducerID: 1, ProducerEpoch: 1, Commit: true, Protocol: 2}) })
		return txn.AddPartitionsReply{Codes: []kafka.Error{kafka.None}}
	}
	if got := a.putOne(12, record.Producer{ID: 1, Epoch: 1}); got != kafka.None {
		t.Errorf("the next: %v, want it taken", got)
	}
	if n := len(a.questions()); n != 2 {
		t.Errorf("asked %d times, want 2: the first guard is void", n)
	}
}

// TestVerificationCanBeSwitchedOff: Kafka asks nobody for requests that do not add their partitions, and takes what comes.
func TestVerificationCanBeSwitchedOff(t *testing.T) {
	a := newAsked(t)
	a.say(kafka.TransactionAbortable)
	off, err := config.NewBroker(map[string]string{"node.id": "1", "transaction.partition.verification.enable": "false"})
	if err != nil {
		t.Fatal(err)
	}
	a.api.Config = off
	if got := a.putOne(11, record.Producer{ID: 1}); got != kafka.None || len(a.questions()) != 0 {
		t.Errorf("v11: %v; want it taken without a question", got)
	}
	if got := a.putOne(12, record.Producer{ID: 2}); got != kafka.TransactionAbortable || len(a.questions()) != 1 {
		t.Errorf("v12: %v, want it refused by the coordinator", got)
	}
}

// TestACoordinatorThatDoesNotAnswer keeps a connection for no longer than request.timeout.ms.
func TestACoordinatorThatDoesNotAnswer(t *testing.T) {
	a := newAsked(t)
	hasty, err := config.NewBroker(map[string]string{"node.id": "1", "request.timeout.ms": "20"})
	if err != nil {
		t.Fatal(err)
	}
	a.api.Config = hasty
	a.api.Transact = func(string, txn.Command, func(txn.Reply)) {}
	if got := a.putOne(12, record.Producer{ID: 1}); got != kafka.NotEnoughReplicas {
		t.Errorf("%v, want %v", got, kafka.NotEnoughReplicas)
	}
}

// TestRowsOfATransactionalRequest: each partition is answered for itself, except where the request as a whole is wrong.
func TestRowsOfATransactionalRequest(t *testing.T) {
	a := newAsked(t)
	want := func(what string, rows map[int32]kmsg.ProduceResponseTopicPartition, codes ...kafka.Error) {
		t.Helper()
		for i, code := range codes {
			if got := kafka.Error(rows[int32(i)].ErrorCode); got != code {
				t.Errorf("%s: partition %d: %v, want %v", what, i, got, code)
			}
		}
	}
	one, two := record.Producer{ID: 1}, record.Producer{ID: 2}
	a.say(kafka.None, kafka.TransactionAbortable)
	want("one partition was not added", a.put(11, new("tx"), map[int32][]byte{0: inTxn(one, true), 1: inTxn(one, true), 2: inTxn(two, false)}),
		kafka.None, kafka.TransactionAbortable, kafka.None)
	a.say()
	want("two producers", a.put(12, new("tx"), map[int32][]byte{0: inTxn(one, true), 1: inTxn(two, true), 2: batchOf("x")}),
		kafka.InvalidProducerIdMapping, kafka.InvalidProducerIdMapping, kafka.InvalidProducerIdMapping)
	want("no transactional id", a.put(12, nil, map[int32][]byte{0: batchOf("x"), 1: inTxn(one, true)}),
		kafka.TransactionalIdAuthorizationFailed, kafka.TransactionalIdAuthorizationFailed)
	want("partitions that are not there", a.put(9, new("tx"), map[int32][]byte{1: inTxn(one, true), 7: inTxn(one, true)}), kafka.None, kafka.None)
	if row := a.put(9, new("tx"), map[int32][]byte{7: inTxn(one, true)})[7]; kafka.Error(row.ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Errorf("partition 7: %v", kafka.Error(row.ErrorCode))
	}
	forged := record.EndTransaction(1, 0, record.Marker{Commit: true}, time.Now().UnixMilli())
	forged.SetBaseOffset(0)
	want("a marker from a client", a.put(12, new("tx"), map[int32][]byte{0: forged}), kafka.InvalidRecord)
}

// TestRule66WhatReadersAreToldByIsolation: of an aborted transaction, a committed one and one that is open, in each version of Fetch.
func TestRule66WhatReadersAreToldByIsolation(t *testing.T) {
	a := newAsked(t)
	topic, _ := a.api.Quorum.Image().Topic("t")
	one, two, three := record.Producer{ID: 1}, record.Producer{ID: 2}, record.Producer{ID: 3}
	for _, p := range []record.Producer{one, two} { // 0, 1
		if got := a.putOne(12, p); got != kafka.None {
			t.Fatal(got)
		}
	}
	a.end(replica.Marker{ProducerID: 2, ProducerEpoch: 1, CoordinatorEpoch: 6, Commit: true, Protocol: 2}) // 2
	a.end(replica.Marker{ProducerID: 1, ProducerEpoch: 1, CoordinatorEpoch: 6, Protocol: 2})               // 3
	if got := a.putOne(12, three); got != kafka.None {                                                     // 4
		t.Fatal(got)
	}
	for version := int16(4); version <= 18; version++ {
		for isolation := range int8(2) {
			req := fetchRequest(version, "t", topic.ID, 0, 0)
			req.IsolationLevel = isolation
			row := fetchedRow(a.call(req))
			wantEnd := []kafka.Offset{5, 4}[isolation]
			_, end := wholeBatches(t, row.RecordBatches)
			if row.ErrorCode != 0 || row.HighWatermark != 5 || row.LastStableOffset != 4 || end != wantEnd {
				t.Errorf("v%d, isolation %d: %v, up to %d, high watermark %d, last stable offset %d", version, isolation,
					kafka.Error(row.ErrorCode), end, row.HighWatermark, row.LastStableOffset)
			}
			aborted := row.AbortedTransactions
			if isolation == 0 && aborted != nil || isolation == 1 && (len(aborted) != 1 || aborted[0].ProducerID != 1 || aborted[0].FirstOffset != 0) {
				t.Errorf("v%d, isolation %d: aborted %+v", version, isolation, aborted)
			}
			behind := fetchRequest(version, "t", topic.ID, 0, 4)
			behind.IsolationLevel = isolation
			if row := fetchedRow(a.call(behind)); row.ErrorCode != 0 || (len(row.RecordBatches) == 0) != (isolation == 1) ||
				isolation == 1 && (row.AbortedTransactions == nil || len(row.AbortedTransactions) > 0) {
				t.Errorf("v%d, isolation %d, behind the last stable offset: %+v", version, isolation, row)
			}
		}
	}
	for version := int16(2); version <= 11; version++ {
		for isolation, want := range []int64{5, 4} {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID, req.IsolationLevel = version, -1, int8(isolation)
			row := kmsg.NewListOffsetsRequestTopic()
			row.Topic = "t"
			latest := kmsg.NewListOffsetsRequestTopicPartition()
			latest.Timestamp, latest.CurrentLeaderEpoch = -1, -1
			row.Partitions = append(row.Partitions, latest)
			req.Topics = append(req.Topics, row)
			if got := a.call(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.Offset != want {
				t.Errorf("ListOffsets v%d, isolation %d: %+v, want %d", version, isolation, got, want)
			}
		}
	}
	describe := kmsg.NewPtrDescribeProducersRequest()
	row := kmsg.NewDescribeProducersRequestTopic()
	row.Topic, row.Partitions = "t", []int32{0}
	describe.Topics = append(describe.Topics, row)
	var got []string
	for _, p := range a.call(describe).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers {
		got = append(got, fmt.Sprint(p.ProducerID, p.ProducerEpoch, p.LastSequence, p.CoordinatorEpoch, p.CurrentTxnStartOffset))
	}
	if want := []string{"1 1 -1 6 -1", "2 1 -1 6 -1", "3 0 0 -1 4"}; !slices.Equal(got, want) {
		t.Errorf("id, epoch, sequence, coordinator epoch and first offset of the open transaction: %q, want %q", got, want)
	}
}

// wholeBatches counts the batches of an answer, and tells where they end.
func wholeBatches(t *testing.T, b []byte) (n int, end kafka.Offset) {
	t.Helper()
	for ; len(b) > 0; n++ {
		batch, rest, err := record.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		end, b = batch.NextOffset(), rest
	}
	return n, end
}
