package api_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// begin makes a producer of a transactional id, or of the same the next one: when what the one before left open is aborted.
func (l *link) begin(id string) raw.Txn {
	l.Helper()
	for kind := range int8(2) { // of groups, and of transactions
		find := raw.At(4, kmsg.NewPtrFindCoordinatorRequest())
		find.CoordinatorType, find.CoordinatorKeys = kind, []string{id}
		raw.Until(l.Conn, find, "a coordinator", raw.Found)
	}
	r := raw.Until(l.Conn, raw.NewTxn(id).Init(4, 60_000), "a producer id", func(r *kmsg.InitProducerIDResponse) bool {
		return kafka.Error(r.ErrorCode) != kafka.ConcurrentTransactions
	})
	code(l, "begin "+id, r.ErrorCode, kafka.None)
	return raw.Txn{ID: id, Producer: r.ProducerID, Epoch: r.ProducerEpoch}
}

// init asks once.
func (l *link) init(version int16, t raw.Txn) *kmsg.InitProducerIDResponse {
	l.Helper()
	return l.Ask(t.Init(version, 60_000)).(*kmsg.InitProducerIDResponse)
}

// add returns the code of one partition, asked for until the transaction before is over.
func (l *link) add(version int16, t raw.Txn, topic string, partition int32) int16 {
	l.Helper()
	one := func(r *kmsg.AddPartitionsToTxnResponse) int16 {
		if version >= 4 {
			return r.Transactions[0].Topics[0].Partitions[0].ErrorCode
		}
		return r.Topics[0].Partitions[0].ErrorCode
	}
	return one(raw.Until(l.Conn, t.Add(version, raw.Partitions{Topic: topic, Numbers: []int32{partition}}), "an answer", func(r *kmsg.AddPartitionsToTxnResponse) bool {
		return kafka.Error(one(r)) != kafka.ConcurrentTransactions
	}))
}

// send produces one batch of a transaction to a partition of a topic.
func (l *link) send(version int16, t raw.Txn, base kafka.Sequence, count int, topic string, id [16]byte) kmsg.ProduceResponseTopicPartition {
	l.Helper()
	row := raw.ProduceRow{Topic: topic, Records: t.Batch(base, count)}
	if version >= 13 {
		row.Topic, row.ID = "", id
	}
	return l.Ask(t.Produce(version, row)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// finish asks until the coordinator is not busy, and returns the answer and the producer as it goes on.
func (l *link) finish(version int16, t raw.Txn, commit bool) (*kmsg.EndTxnResponse, raw.Txn) {
	l.Helper()
	r := raw.Until(l.Conn, t.End(version, commit), "an end", func(r *kmsg.EndTxnResponse) bool {
		return kafka.Error(r.ErrorCode) != kafka.ConcurrentTransactions
	})
	if r.ProducerID >= 0 {
		t.Producer, t.Epoch = r.ProducerID, r.ProducerEpoch
	}
	return r, t
}

// over waits until the markers of a transaction are written, and returns what the transactional id is then.
func (l *link) over(id string) kmsg.DescribeTransactionsResponseTransactionState {
	l.Helper()
	return raw.Until(l.Conn, raw.DescribeTransactions(id), "the end of "+id, func(r *kmsg.DescribeTransactionsResponse) bool {
		state := r.TransactionStates[0].State
		return state != "PrepareCommit" && state != "PrepareAbort" && state != "Ongoing"
	}).TransactionStates[0]
}

// read returns a partition's row of a Fetch from an offset on, at an isolation level.
func (l *link) read(topic string, offset int64, isolation int8) kmsg.FetchResponseTopicPartition {
	l.Helper()
	req := raw.Fetch(12, raw.FetchRow{Topic: topic, Offset: offset})
	req.IsolationLevel = isolation
	return l.Ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

// stable is the end of a partition for readers of an isolation level.
func (l *link) stable(topic string, isolation int8) int64 {
	l.Helper()
	req := raw.ListOffsets(7, raw.ListRow{Topic: topic, Timestamp: -1})
	req.IsolationLevel = isolation
	return l.Ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
}

// transactionLevel is the finalised level of transaction.version, -1 where it is not even supported.
func (l *link) transactionLevel() int16 {
	l.Helper()
	r := l.Ask(apiVersions(5)).(*kmsg.ApiVersionsResponse)
	level := int16(-1)
	for _, f := range r.SupportedFeatures {
		if f.Name == "transaction.version" && f.MinVersion == 0 && f.MaxVersion == 2 {
			level = 0
		}
	}
	for _, f := range r.FinalizedFeatures {
		if f.Name == "transaction.version" {
			level = f.MaxVersionLevel
		}
	}
	return level
}

// A new node has the newest transactions; one that was taken back keeps its level until it is told otherwise.
func TestRule08TransactionVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	if level := l.transactionLevel(); level != 2 {
		t.Errorf("a new node is at transaction.version %d, want 2", level)
	}
	set := func(kind int8, level string) {
		t.Helper()
		code(t, level, l.Ask(raw.UpdateFeatures(2, kind, level)).(*kmsg.UpdateFeaturesResponse).ErrorCode, kafka.None)
	}
	set(raw.SafeDowngrade, "transaction.version=1")
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	if level := l.transactionLevel(); level != 1 {
		t.Errorf("taken back to 1 and started again: transaction.version %d", level)
	}
	me := l.begin("tx")
	l.Create("t", 1)
	code(t, "add at level 1", l.add(3, me, "t", 0), kafka.None)
	r, _ := l.finish(4, me, true)
	code(t, "end at level 1", r.ErrorCode, kafka.None)
	l.over("tx")
	set(raw.SafeDowngrade, "transaction.version=0")
	if level := l.transactionLevel(); level != 0 {
		t.Errorf("taken back to 0: transaction.version %d", level)
	}
	set(raw.Upgrade, "transaction.version=2")
	if next, _ := l.finish(5, me, false); kafka.Error(next.ErrorCode) != kafka.None || next.ProducerEpoch != me.Epoch+1 {
		t.Errorf("back at level 2 an end gives %+v after %+v", next, me)
	}
}

// A producer whose place was taken is told so by a code that its version knows: older ones would ask for ever after an unknown one.
func TestRule56CodeOfFencing(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	old := l.begin("tx")
	l.begin("tx")
	known := func(version, from int16) kafka.Error {
		if version >= from {
			return kafka.ProducerFenced
		}
		return kafka.InvalidProducerEpoch
	}
	for version := int16(3); version <= 5; version++ {
		code(t, fmt.Sprint("InitProducerId v", version), l.init(version, old).ErrorCode, known(version, 4))
	}
	for version := range int16(6) {
		code(t, fmt.Sprint("AddPartitionsToTxn v", version), l.add(version, old, "t", 0), known(version, 2))
		for _, commit := range []bool{true, false} {
			r, _ := l.finish(version, old, commit)
			code(t, fmt.Sprint("EndTxn v", version), r.ErrorCode, known(version, 2))
		}
	}
	for version := range int16(5) {
		code(t, fmt.Sprint("AddOffsetsToTxn v", version), l.Ask(old.AddOffsets(version, "g")).(*kmsg.AddOffsetsToTxnResponse).ErrorCode, known(version, 2))
	}
	for version := int16(3); version <= 13; version++ {
		code(t, fmt.Sprint("Produce v", version), l.send(version, old, 0, 1, "t", topic).ErrorCode, kafka.InvalidProducerEpoch)
	}
	for version := range int16(7) {
		row := raw.CommitRow{Topic: "t"}
		if version >= 6 {
			row = raw.CommitRow{ID: topic}
		}
		r := l.Ask(old.CommitOffsets(version, "g", "", -1, row)).(*kmsg.TxnOffsetCommitResponse)
		code(t, fmt.Sprint("TxnOffsetCommit v", version), r.Topics[0].Partitions[0].ErrorCode, kafka.InvalidProducerEpoch)
	}
}

// Who takes a transactional id over aborts what was open, is asked to come again meanwhile, and gets an epoch that is two up.
func TestRule57TakeOverAborts(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	for version := range int16(6) {
		id := fmt.Sprint("tx", version)
		old := l.begin(id)
		code(t, "send", l.send(12, old, 0, 2, "t", topic).ErrorCode, kafka.None)
		code(t, fmt.Sprintf("v%d over an open transaction", version), l.init(version, raw.NewTxn(id)).ErrorCode, kafka.ConcurrentTransactions)
		if state := l.over(id); state.State != "CompleteAbort" {
			t.Errorf("v%d: the transaction ended in %s, want CompleteAbort", version, state.State)
		}
		if now := l.begin(id); now.Producer != old.Producer || now.Epoch != old.Epoch+2 {
			t.Errorf("v%d: %+v took the place of %+v, want the same producer id two epochs up", version, now, old)
		}
		if end, stable := l.stable("t", 0), l.stable("t", 1); end != stable {
			t.Errorf("v%d: the last stable offset is %d at the end %d", version, stable, end)
		}
	}
}

// An end whose answer was lost is asked for again and answered alike; the opposite is refused. With each end of protocol 2 the epoch
// rises.
func TestRule59EndAskedForAgain(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	for version := range int16(6) {
		for _, commit := range []bool{true, false} {
			at := fmt.Sprintf("v%d, commit %v", version, commit)
			me := l.begin(at)
			nothing, next := l.finish(version, me, commit)
			if version >= 5 && !commit {
				code(t, at+": abort of nothing", nothing.ErrorCode, kafka.None)
				if next.Epoch != me.Epoch+1 {
					t.Errorf("%s: an abort of nothing goes on as %+v after %+v", at, next, me)
				}
			} else {
				code(t, at+": nothing to end", nothing.ErrorCode, kafka.InvalidTxnState)
			}
			me = next
			code(t, at+": add", l.add(3, me, "t", 0), kafka.None)
			code(t, at+": send", l.send(11, me, 0, 1, "t", topic).ErrorCode, kafka.None)
			first, next := l.finish(version, me, commit)
			code(t, at, first.ErrorCode, kafka.None)
			again, _ := l.finish(version, me, commit)
			code(t, at+" again", again.ErrorCode, kafka.None)
			if again.ProducerID != first.ProducerID || again.ProducerEpoch != first.ProducerEpoch {
				t.Errorf("%s: answered %+v, and again %+v", at, first, again)
			}
			opposite, _ := l.finish(version, me, !commit)
			code(t, at+": the opposite", opposite.ErrorCode, kafka.InvalidTxnState)
			if bumped := version >= 5; bumped != (next.Epoch == me.Epoch+1) {
				t.Errorf("%s: %+v goes on as %+v", at, me, next)
			}
		}
	}
}

// A marker of no producer, or of no epoch, is not written, nor are those after it in the request, which is refused as a whole.
func TestMarkersOfNobody(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 2)
	good := func(partition int32) kmsg.WriteTxnMarkersRequestMarker {
		return raw.Txn{Producer: 5}.Marker(false, 0, 0, raw.Partitions{Topic: "t", Numbers: []int32{partition}})
	}
	for n, nobody := range []raw.Txn{{Producer: 6, Epoch: -1}, {Producer: -1}} {
		forged := nobody.Marker(false, 0, 0, raw.Partitions{Topic: "t", Numbers: []int32{0, 9}})
		r := l.Ask(raw.WriteMarkers(2, good(0), forged, good(1))).(*kmsg.WriteTxnMarkersResponse)
		if len(r.Markers) != 2 {
			t.Fatalf("%d rows, want one for each producer", len(r.Markers))
		}
		for _, m := range r.Markers {
			for _, p := range m.Topics[0].Partitions {
				code(t, "a row of a request with a forged marker", p.ErrorCode, kafka.UnknownServerError)
			}
		}
		ends := l.Ask(raw.ListOffsets(7, raw.ListRow{Topic: "t", Timestamp: -1}, raw.ListRow{Topic: "t", Partition: 1, Timestamp: -1})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions
		if before, after := ends[0].Offset, ends[1].Offset; before != int64(n)+1 || after != 0 {
			t.Errorf("%d records in the partition before, %d in the one after", before, after)
		}
	}
	twice := raw.Txn{Producer: 5}.Marker(false, 0, 0, raw.Partitions{Topic: "t", Numbers: []int32{1, 1}}, raw.Partitions{Topic: "t", Numbers: []int32{1}})
	for _, topic := range l.Ask(raw.WriteMarkers(2, twice)).(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics {
		for _, p := range topic.Partitions {
			code(t, "a partition that is named three times", p.ErrorCode, kafka.None)
		}
	}
	ends := l.Ask(raw.ListOffsets(7, raw.ListRow{Topic: "t", Partition: 1, Timestamp: -1})).(*kmsg.ListOffsetsResponse)
	if end := ends.Topics[0].Partitions[0].Offset; end != 1 {
		t.Errorf("%d markers in it, want 1", end)
	}
	alone := l.Ask(raw.WriteMarkers(2, raw.Txn{Producer: 5, Epoch: -1}.Marker(false, 0, 0, raw.Partitions{Topic: "nope", Numbers: []int32{0}}))).(*kmsg.WriteTxnMarkersResponse)
	code(t, "for no partition that is there", alone.Markers[0].Topics[0].Partitions[0].ErrorCode, kafka.UnknownTopicOrPartition)
}

// A marker that comes again, as from a coordinator that has died in between, is no error; one of an older epoch or of a coordinator that
// was replaced is.
func TestRule62MarkersSentAgain(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	l.begin("tx")
	me := l.begin("tx") // in epoch 1: there is one before
	code(t, "add", l.add(3, me, "t", 0), kafka.None)
	code(t, "send", l.send(11, me, 0, 1, "t", topic).ErrorCode, kafka.None)
	mark := func(what string, version int16, by raw.Txn, epoch int32, want kafka.Error) {
		t.Helper()
		r := l.Ask(raw.WriteMarkers(version, by.Marker(false, epoch, 0, raw.Partitions{Topic: "t", Numbers: []int32{0, 9}}))).(*kmsg.WriteTxnMarkersResponse)
		code(t, what, r.Markers[0].Topics[0].Partitions[0].ErrorCode, want)
		code(t, what+", unknown partition", r.Markers[0].Topics[0].Partitions[1].ErrorCode, kafka.UnknownTopicOrPartition)
	}
	for version := int16(1); version <= 2; version++ {
		mark("a marker", version, me, 3, kafka.None)
		mark("the marker again", version, me, 3, kafka.None)
		mark("of a coordinator before", version, me, 2, kafka.TransactionCoordinatorFenced)
		before := me
		before.Epoch--
		mark("of an epoch before", version, before, 3, kafka.InvalidProducerEpoch)
	}
	if end, stable := l.stable("t", 0), l.stable("t", 1); end != stable {
		t.Errorf("the last stable offset is %d at the end %d", stable, end)
	}
}

// What readers of committed records see ends where the first open transaction begins, also while that may still be aborted.
func TestRule63Rule64Rule65ReadCommitted(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1, "segment.ms", "9223372036854775807") // else a marker of today begins a segment after records of long ago
	me := l.begin("tx")
	var aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	for round := range 50 {
		start := l.stable("t", 0)
		code(t, "send", l.send(12, me, 0, 3, "t", topic).ErrorCode, kafka.None)
		if stable := l.stable("t", 1); stable != start {
			t.Fatalf("round %d: the last stable offset is %d, and a transaction is open from %d", round, stable, start)
		}
		if row := l.read("t", start, 1); len(row.RecordBatches) != 0 || row.LastStableOffset != start {
			t.Fatalf("round %d: read %d bytes of an open transaction, last stable offset %d", round, len(row.RecordBatches), row.LastStableOffset)
		}
		if row := l.read("t", start, 0); len(row.RecordBatches) == 0 {
			t.Fatalf("round %d: read_uncommitted sees nothing", round)
		}
		before := me
		_, me = l.finish(5, me, round%5 == 0)
		if round%5 != 0 {
			aborted = append(aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: before.Producer, FirstOffset: start})
		}
		l.over("tx")
		row := l.read("t", 0, 1)
		if len(row.AbortedTransactions) != len(aborted) || !slices.EqualFunc(row.AbortedTransactions, aborted, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
			return a.ProducerID == b.ProducerID && a.FirstOffset == b.FirstOffset
		}) {
			t.Fatalf("round %d: aborted %+v, want %+v", round, row.AbortedTransactions, aborted)
		}
	}
	if row := l.read("t", 0, 0); row.AbortedTransactions != nil {
		t.Errorf("read_uncommitted is told of %d aborted transactions", len(row.AbortedTransactions))
	}
}

// Records that come when their transaction is over, or that no transaction was told of, are refused by a code that the version knows;
// version 12 takes them into the transaction. The last stable offset goes on.
func TestRule67RecordsOutsideATransaction(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	for version := int16(3); version <= 13; version++ {
		me := l.begin(fmt.Sprint("tx", version))
		want := kafka.InvalidTxnState
		switch {
		case version >= 12:
			want = kafka.None
		case version == 11:
			want = kafka.TransactionAbortable
		}
		p := l.send(version, me, 0, 1, "t", topic)
		code(t, fmt.Sprintf("v%d, not added", version), p.ErrorCode, want)
		if version >= 12 {
			r, next := l.finish(5, me, true)
			code(t, "end", r.ErrorCode, kafka.None)
			l.over(me.ID)
			code(t, fmt.Sprintf("v%d, of the transaction before", version), l.send(version, me, 1, 1, "t", topic).ErrorCode, kafka.InvalidProducerEpoch)
			code(t, fmt.Sprintf("v%d, of the next", version), l.send(version, next, 0, 1, "t", topic).ErrorCode, kafka.None)
			l.finish(5, next, false)
			l.over(me.ID)
			continue
		}
		if p.BaseOffset != -1 {
			t.Errorf("v%d: refused with base offset %d", version, p.BaseOffset)
		}
		code(t, "add", l.add(3, me, "t", 0), kafka.None)
		code(t, fmt.Sprintf("v%d, added", version), l.send(version, me, 0, 1, "t", topic).ErrorCode, kafka.None)
		l.finish(4, me, true)
		l.over(me.ID)
		code(t, fmt.Sprintf("v%d, of the transaction before", version), l.send(version, me, 1, 1, "t", topic).ErrorCode, want)
	}
	if end, stable := l.stable("t", 0), l.stable("t", 1); end != stable {
		t.Errorf("the last stable offset is %d at the end %d", stable, end)
	}
}

// An open transaction shows in all three lists, and is gone from them when it is over.
func TestRule68TransactionsDescribed(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	l.produce(9, "t", raw.Values("plain"))
	me := l.begin("tx")
	code(t, "send", l.send(12, me, 0, 1, "t", topic).ErrorCode, kafka.None)
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	open := func() int64 {
		p := l.Ask(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers
		if len(p) != 1 || p[0].ProducerID != me.Producer {
			t.Fatalf("producers: %+v", p)
		}
		return p[0].CurrentTxnStartOffset
	}
	listed := func() (n int) {
		r := l.Ask(raw.ListTransactions(2, "Ongoing", "nonsense")).(*kmsg.ListTransactionsResponse)
		if !slices.Equal(r.UnknownStateFilters, []string{"nonsense"}) {
			t.Errorf("unknown filters: %q", r.UnknownStateFilters)
		}
		return len(r.TransactionStates)
	}
	describe := func() kmsg.DescribeTransactionsResponseTransactionState {
		r := l.Ask(raw.DescribeTransactions("tx", "unheard-of")).(*kmsg.DescribeTransactionsResponse)
		code(t, "unknown id", r.TransactionStates[1].ErrorCode, kafka.TransactionalIdNotFound)
		return r.TransactionStates[0]
	}
	if start, n, d := open(), listed(), describe(); start != 1 || n != 1 || d.State != "Ongoing" || d.ProducerID != me.Producer || d.TimeoutMillis != 60_000 ||
		time.Since(time.UnixMilli(d.StartTimestamp)).Abs() > time.Hour || len(d.Topics) != 1 || d.Topics[0].Topic != "t" {
		t.Errorf("open from %d, listed %d, described as %+v", start, n, d)
	}
	l.finish(5, me, true)
	l.over("tx")
	if start, n, d := open(), listed(), describe(); start != -1 || n != 0 || d.State != "CompleteCommit" || len(d.Topics) != 0 {
		t.Errorf("after the end: open from %d, listed %d, described as %+v", start, n, d)
	}
}

// A zombie of a group can't store offsets in a transaction, nor anybody in one that does not know of the group.
func TestRule69FencedTransactionalCommits(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	topic := l.Create("t", 1)
	l.begin("tx")
	joined := l.Ask(raw.Join(3, "g", "", "range")).(*kmsg.JoinGroupResponse)
	l.Ask(raw.Sync(3, "g", joined.MemberID, joined.Generation, joined.MemberID))
	for version := range int16(7) {
		me := l.begin(fmt.Sprint("tx", version))
		commit := func(what, member string, generation int32, instance *string, want kafka.Error) {
			t.Helper()
			row := raw.CommitRow{Topic: "t", Offset: 1}
			if version >= 6 {
				row.Topic, row.ID = "", topic
			}
			req := me.CommitOffsets(version, "g", member, generation, row)
			req.InstanceID = instance
			r := l.Ask(req).(*kmsg.TxnOffsetCommitResponse)
			code(t, fmt.Sprintf("v%d, %s", version, what), r.Topics[0].Partitions[0].ErrorCode, want)
		}
		switch {
		case version >= 5:
			commit("not added", joined.MemberID, joined.Generation, nil, kafka.None)
		case version == 4:
			commit("not added", joined.MemberID, joined.Generation, nil, kafka.TransactionAbortable)
		default:
			commit("not added", joined.MemberID, joined.Generation, nil, kafka.InvalidTxnState)
		}
		code(t, "add", l.Ask(me.AddOffsets(3, "g")).(*kmsg.AddOffsetsToTxnResponse).ErrorCode, kafka.None)
		commit("right", joined.MemberID, joined.Generation, nil, kafka.None)
		if version >= 3 {
			commit("another generation", joined.MemberID, joined.Generation+1, nil, kafka.IllegalGeneration)
			commit("a stranger", "stranger", joined.Generation, nil, kafka.UnknownMemberId)
			commit("an instance nobody is", joined.MemberID, joined.Generation, new("nobody"), kafka.UnknownMemberId)
		}
		l.finish(5, me, false)
		l.over(me.ID)
	}
	static := raw.Join(5, "s", "", "range")
	static.InstanceID = new("instance")
	first := l.Ask(static).(*kmsg.JoinGroupResponse)
	second := l.Ask(static).(*kmsg.JoinGroupResponse)
	me := l.begin("static")
	req := me.CommitOffsets(5, "s", first.MemberID, second.Generation, raw.CommitRow{Topic: "t"})
	req.InstanceID = new("instance")
	r := l.Ask(req).(*kmsg.TxnOffsetCommitResponse)
	code(t, "the member before", r.Topics[0].Partitions[0].ErrorCode, kafka.FencedInstanceId)
}

// Who asks for stable offsets only is told to wait while one is in an open transaction: until it commits, aborts or runs out of time,
// also when the broker was restarted in between.
func TestRule70StableOffsetsOnly(t *testing.T) {
	t.Parallel()
	dir, often := t.TempDir(), brokertest.Property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "50")
	b := brokertest.Start(t, brokertest.Dir(dir), often)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	store := func(offset int64, timeoutMs int32) raw.Txn {
		me := l.begin("tx")
		r := l.Ask(me.Init(4, timeoutMs)).(*kmsg.InitProducerIDResponse)
		me.Epoch = r.ProducerEpoch
		c := l.Ask(me.CommitOffsets(5, "g", "", -1, raw.CommitRow{Topic: "t", Offset: offset})).(*kmsg.TxnOffsetCommitResponse)
		code(t, "commit", c.Topics[0].Partitions[0].ErrorCode, kafka.None)
		return me
	}
	stable := func() (int64, kafka.Error) {
		req := raw.Offsets(7, "g", []raw.CommitRow{{Topic: "t"}})
		req.RequireStable = true
		p := l.Ask(req).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
		return p.Offset, kafka.Error(p.ErrorCode)
	}
	want := func(what string, offset int64, code kafka.Error) {
		t.Helper()
		if o, c := stable(); o != offset || c != code {
			t.Errorf("%s: offset %d, %v, want %d, %v", what, o, c, offset, code)
		}
	}
	l.begin("tx")
	want("nothing yet", -1, kafka.None)
	me := store(7, 60_000)
	want("open", -1, kafka.UnstableOffsetCommit)
	l.finish(5, me, true)
	l.over("tx")
	want("committed", 7, kafka.None)
	me = store(8, 60_000)
	want("open again", -1, kafka.UnstableOffsetCommit)
	l.finish(5, me, false)
	l.over("tx")
	want("aborted", 7, kafka.None)
	store(9, 2000)
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir), often).Addr())
	raw.Until(l.Conn, raw.Offsets(8, "g", []raw.CommitRow{{Topic: "t"}}), "the group", func(r *kmsg.OffsetFetchResponse) bool { return r.Groups[0].ErrorCode == 0 })
	want("open, and the coordinator has started anew", -1, kafka.UnstableOffsetCommit)
	l.over("tx")
	want("timed out", 7, kafka.None)
}

// A transaction that takes longer than it said is aborted, and its producer fenced.
func TestRuleH7ExpiredTransactions(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t, brokertest.Property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "50")).Addr())
	topic := l.Create("t", 1)
	l.begin("tx")
	r := l.Ask(raw.NewTxn("tx").Init(4, 200)).(*kmsg.InitProducerIDResponse)
	me := raw.Txn{ID: "tx", Producer: r.ProducerID, Epoch: r.ProducerEpoch}
	code(t, "send", l.send(12, me, 0, 1, "t", topic).ErrorCode, kafka.None)
	if state := l.over("tx"); state.State != "CompleteAbort" {
		t.Errorf("ended in %s, want CompleteAbort", state.State)
	}
	code(t, "send when it is over", l.send(12, me, 1, 1, "t", topic).ErrorCode, kafka.InvalidProducerEpoch)
	e, _ := l.finish(4, me, true)
	code(t, "commit when it is over", e.ErrorCode, kafka.ProducerFenced)
	if end, stable := l.stable("t", 0), l.stable("t", 1); end != stable {
		t.Errorf("the last stable offset is %d at the end %d", stable, end)
	}
}

// The end is answered when it is decided, not when the markers are written, and gives the producer its next epoch; in protocols below 2
// it keeps the one that it has.
func TestRuleH2EndBeforeTheMarkers(t *testing.T) {
	t.Parallel()
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	me := l.begin("tx")
	for round := range int16(20) {
		code(t, "send", raw.Until(l.Conn, me.Produce(12, raw.ProduceRow{Topic: "t", Records: me.Batch(0, 1)}), "the next transaction", func(r *kmsg.ProduceResponse) bool {
			return kafka.Error(r.Topics[0].Partitions[0].ErrorCode) != kafka.ConcurrentTransactions
		}).Topics[0].Partitions[0].ErrorCode, kafka.None)
		r := l.Ask(me.End(5, true)).(*kmsg.EndTxnResponse)
		code(t, "end", r.ErrorCode, kafka.None)
		if r.ProducerID != me.Producer || r.ProducerEpoch != me.Epoch+1 {
			t.Fatalf("round %d: %+v goes on as %+v", round, me, r)
		}
		me.Epoch = r.ProducerEpoch
	}
	l.over("tx")
}
