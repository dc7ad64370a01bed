package brokertest_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
)

// flow is how a producer speaks of its transactions: adding everything beforehand as before transaction.version 2, or by using it.
type flow struct {
	name                                    string
	init, add, produce, addOffsets, offsets int16 // versions; add 0: nothing is added beforehand
	end                                     int16
}

var flows = []flow{
	{name: "old", init: 4, add: 3, produce: 11, addOffsets: 3, offsets: 4, end: 4},
	{name: "new", init: 5, produce: 12, offsets: 5, end: 5},
}

// A transaction writes some records to each partition of its topic, and stores the offsets of the partitions of txnSource.
const (
	txnPartitions            = 3
	txnSource, txnSourceSize = "source", 2
	txnRecords               = 2
)

// txnProducer is a transactional id with its topic and group, and what is known of its transactions.
type txnProducer struct {
	*worker
	flow  flow
	id    string
	topic string
	group string
	txn   raw.Txn
	// timeoutMs is when its transactions are over at the latest.
	timeoutMs int32
	gone      func() bool // the broker is to die: what it answers from now on counts for nothing

	read     []int64                  // the next offset in each partition
	seen     map[string]map[int32]int // what committed readers have got: records of a transaction, by partition
	last     int                      // the transaction whose offsets are stored
	transact int                      // the transaction that is open, or was last

	commits      bool // what it is to come to
	acknowledged bool // and the coordinator has said that it does
}

func (w *world) newTxnProducer(f flow, id, topic string, gone func() bool) *txnProducer {
	return &txnProducer{
		worker: w.newWorker(id, w.ctx), flow: f, id: id, topic: topic, group: id + "-group", gone: gone, timeoutMs: 60_000,
		read: make([]int64, txnPartitions), seen: map[string]map[int32]int{}, last: -1,
	}
}

func (p *txnProducer) name(transaction int) string { return fmt.Sprintf("%s/%d", p.id, transaction) }

// retriable are the codes on which a client asks again.
var retriable = []int16{
	kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code, kerr.ConcurrentTransactions.Code,
	kerr.NotLeaderForPartition.Code, kerr.UnknownTopicOrPartition.Code, kerr.RequestTimedOut.Code, kerr.NotEnoughReplicas.Code,
}

// insist asks until the answer is as wanted. false: the broker is gone, or that was a fault.
func (p *txnProducer) insist(what string, req kmsg.Request, code func(kmsg.Response) int16) (kmsg.Response, bool) {
	late := time.Now().Add(patience)
	for {
		resp, ok := p.ask(req)
		switch {
		case p.gone():
			return nil, false
		case ok && code(resp) == 0:
			return resp, true
		case ok && !slices.Contains(retriable, code(resp)):
			p.fault("%s: %s: %v", p.name(p.transact), what, kerr.ErrorForCode(code(resp)))
			return nil, false
		case time.Now().After(late):
			p.fault("%s: %s: nothing in %v; at last %+v", p.name(p.transact), what, patience, resp)
			return nil, false
		}
		p.pause(3 * time.Millisecond)
	}
}

// find has the coordinators' topics created, as every client does.
func (p *txnProducer) find() bool {
	for kind, key := range []string{p.group, p.id} {
		req := raw.At(3, kmsg.NewPtrFindCoordinatorRequest())
		req.CoordinatorType, req.CoordinatorKey = int8(kind), key
		if _, ok := p.insist("FindCoordinator", req, func(r kmsg.Response) int16 { return r.(*kmsg.FindCoordinatorResponse).ErrorCode }); !ok {
			return false
		}
	}
	return true
}

func (p *txnProducer) begin() bool {
	p.transact++
	if p.transact == 1 && !p.find() {
		return false
	}
	p.txn = raw.NewTxn(p.id)
	resp, ok := p.insist("InitProducerId", p.txn.Init(p.flow.init, p.timeoutMs), func(r kmsg.Response) int16 {
		return r.(*kmsg.InitProducerIDResponse).ErrorCode
	})
	if ok {
		r := resp.(*kmsg.InitProducerIDResponse)
		p.txn.Producer, p.txn.Epoch = r.ProducerID, r.ProducerEpoch
	}
	return ok
}

// succeed lets a new producer take the transactional id: nobody has decided what becomes of the transaction.
func (p *txnProducer) succeed() {
	number := p.transact
	p.begin()
	p.transact = number
	if state := p.ended(); state != "Empty" {
		p.fault("%s: %s after a new producer has come", p.name(number), state)
	}
}

func (p *txnProducer) add() bool {
	if p.flow.add == 0 {
		return true
	}
	topic := raw.Partitions{Topic: p.topic}
	for i := range int32(txnPartitions) {
		topic.Numbers = append(topic.Numbers, i)
	}
	_, ok := p.insist("AddPartitionsToTxn", p.txn.Add(p.flow.add, topic), func(r kmsg.Response) int16 {
		return r.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
	})
	return ok
}

// produce writes to one partition after the other: a transaction may be torn at any of them.
func (p *txnProducer) produce() bool {
	for i := range int32(txnPartitions) {
		_, ok := p.insist("Produce", p.records(i), func(r kmsg.Response) int16 {
			code := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
			if code == kerr.DuplicateSequenceNumber.Code {
				return 0
			}
			return code
		})
		if !ok {
			return false
		}
	}
	return true
}

func (p *txnProducer) records(partition int32) *kmsg.ProduceRequest {
	return p.txn.Produce(p.flow.produce, raw.ProduceRow{Topic: p.topic, Partition: partition, Records: p.batch()})
}

func (p *txnProducer) batch() record.Batch {
	b := record.Builder{Transactional: true, Producer: &record.Producer{
		ID: kafka.ProducerID(p.txn.Producer), Epoch: kafka.ProducerEpoch(p.txn.Epoch),
	}}
	for range txnRecords {
		b.Add([]byte("k"), []byte(p.name(p.transact)), nil, time.Now().UnixMilli())
	}
	return b.Build()
}

func (p *txnProducer) addOffsets() bool {
	if p.flow.addOffsets == 0 {
		return true
	}
	_, ok := p.insist("AddOffsetsToTxn", p.txn.AddOffsets(p.flow.addOffsets, p.group), func(r kmsg.Response) int16 {
		return r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode
	})
	return ok
}

// offsets stores the number of the transaction as the offset of each partition of the source.
func (p *txnProducer) offsets() bool {
	var rows []raw.CommitRow
	for i := range int32(txnSourceSize) {
		rows = append(rows, raw.CommitRow{Topic: txnSource, Partition: i, Offset: int64(p.transact)})
	}
	_, ok := p.insist("TxnOffsetCommit", p.txn.CommitOffsets(p.flow.offsets, p.group, "", -1, rows...), func(r kmsg.Response) int16 {
		for _, partition := range r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions {
			if partition.ErrorCode != 0 {
				return partition.ErrorCode
			}
		}
		return 0
	})
	return ok
}

func (p *txnProducer) end(commit bool) bool {
	_, ok := p.insist("EndTxn", p.txn.End(p.flow.end, commit), func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode })
	return ok
}

// state is the state of the transactional id; empty when it is gone before it says.
func (p *txnProducer) state() string {
	resp, ok := p.insist("DescribeTransactions", raw.DescribeTransactions(p.id), func(r kmsg.Response) int16 {
		code := r.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].ErrorCode
		if code == kerr.TransactionalIDNotFound.Code {
			return 0
		}
		return code
	})
	if !ok {
		return ""
	}
	return resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State
}

// ended waits until what was decided is everywhere: nobody helps its coordinator. It returns the last state.
func (p *txnProducer) ended() string {
	return p.until("it is written everywhere", func(state string) bool { return !strings.HasPrefix(state, "Prepare") })
}

// until waits for a state of the transactional id.
func (p *txnProducer) until(what string, is func(state string) bool) string {
	late := time.Now().Add(patience)
	for {
		state := p.state()
		if is(state) || p.gone() {
			return state
		}
		if time.Now().After(late) {
			p.fault("%s: waiting until %s, it hangs in %s", p.name(p.transact), what, state)
			return state
		}
		p.pause(3 * time.Millisecond)
	}
}

// stable waits until nothing of the topic's partitions and of the group's offsets is open any more, and returns the ends.
func (p *txnProducer) stable() (ends []int64) {
	late := time.Now().Add(patience)
	for {
		highs, stables := p.latest(0), p.latest(1)
		if highs != nil && slices.Equal(highs, stables) {
			return highs
		}
		if time.Now().After(late) {
			p.fault("%s: the last stable offsets hang at %v, the ends are %v", p.name(p.transact), stables, highs)
			return highs
		}
		p.pause(3 * time.Millisecond)
	}
}

func (p *txnProducer) latest(isolation int8) (ends []int64) {
	var rows []raw.ListRow
	for i := range int32(txnPartitions) {
		rows = append(rows, raw.ListRow{Topic: p.topic, Partition: i, Timestamp: -1})
	}
	req := raw.ListOffsets(7, rows...)
	req.IsolationLevel = isolation
	resp, ok := p.insist("ListOffsets", req, func(r kmsg.Response) int16 {
		for _, partition := range r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			if partition.ErrorCode == kerr.OffsetNotAvailable.Code {
				return kerr.NotLeaderForPartition.Code
			}
			if partition.ErrorCode != 0 {
				return partition.ErrorCode
			}
		}
		return 0
	})
	if !ok {
		return nil
	}
	for _, partition := range resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		ends = append(ends, partition.Offset)
	}
	return ends
}

// readCommitted reads what a consumer of committed records gets, up to the ends.
func (p *txnProducer) readCommitted(ends []int64) {
	for i := range ends {
		for p.read[i] < ends[i] {
			req := raw.Fetch(11, raw.FetchRow{Topic: p.topic, Partition: int32(i), Offset: p.read[i]})
			req.IsolationLevel = 1
			resp, ok := p.insist("Fetch", req, func(r kmsg.Response) int16 { return r.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode })
			if !ok {
				return
			}
			partition := &resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if len(partition.RecordBatches) == 0 {
				p.fault("%s: nothing to read in partition %d at %d, the end is %d: %+v", p.id, i, p.read[i], ends[i], partition)
				return
			}
			p.take(int32(i), partition)
		}
	}
}

// take leaves out what is aborted, as clients do.
func (p *txnProducer) take(index int32, partition *kmsg.FetchResponseTopicPartition) {
	aborted := map[int64]bool{}
	list := slices.SortedFunc(slices.Values(partition.AbortedTransactions), func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	for bytes := partition.RecordBatches; len(bytes) > 0; {
		b, rest, err := record.Split(bytes)
		if err != nil {
			return // the last one may be cut off
		}
		bytes = rest
		for ; len(list) > 0 && list[0].FirstOffset <= int64(b.LastOffset()); list = list[1:] {
			aborted[list[0].ProducerID] = true
		}
		by := int64(b.ProducerID())
		marker, isMarker, err := b.Marker()
		switch {
		case err != nil:
			p.fault("%s: control batch at %d of partition %d: %v", p.id, b.BaseOffset(), index, err)
		case isMarker && !marker.Commit:
			delete(aborted, by)
		case isMarker, b.IsTransactional() && aborted[by]:
		default:
			for r, err := range b.Records(record.DecompressedMaxDefault) {
				if err != nil {
					p.fault("%s: batch at %d of partition %d: %v", p.id, b.BaseOffset(), index, err)
					return
				}
				if int64(r.Offset) < p.read[index] {
					continue
				}
				name := string(r.Value)
				if p.seen[name] == nil {
					p.seen[name] = map[int32]int{}
				}
				p.seen[name][index]++
			}
		}
		p.read[index] = max(p.read[index], int64(b.NextOffset()))
	}
}

// committedOffset is the offset that the group has stored in all partitions of the source, once nothing is pending.
func (p *txnProducer) committedOffset() int {
	var rows []raw.CommitRow
	for i := range int32(txnSourceSize) {
		rows = append(rows, raw.CommitRow{Topic: txnSource, Partition: i})
	}
	req := raw.Offsets(7, p.group, rows)
	req.RequireStable = true
	late := time.Now().Add(patience)
	for {
		resp, ok := p.insist("OffsetFetch", req, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetFetchResponse).ErrorCode })
		if !ok {
			return -1
		}
		stored, pending := map[int64]bool{}, false
		for _, t := range resp.(*kmsg.OffsetFetchResponse).Topics {
			for _, partition := range t.Partitions {
				stored[partition.Offset] = true
				pending = pending || partition.ErrorCode == kerr.UnstableOffsetCommit.Code
			}
		}
		switch {
		case !pending && len(stored) == 1:
			return int(slices.Collect(maps.Keys(stored))[0])
		case !pending:
			p.fault("%s: the group's offsets are torn: %+v", p.name(p.transact), resp)
			return -1
		case time.Now().After(late):
			p.fault("%s: the group's offsets are pending for ever: %+v", p.name(p.transact), resp)
			return -1
		}
		p.pause(3 * time.Millisecond)
	}
}

// fate is what became of the last transaction, for readers and for the group: all of it, or nothing.
func (p *txnProducer) fate() (committed bool) {
	p.readCommitted(p.stable())
	for name, partitions := range p.seen {
		for i := range int32(txnPartitions) {
			if partitions[i] != txnRecords {
				p.fault("%s is torn: records by partition %v, want %d in each", name, partitions, txnRecords)
			}
		}
	}
	_, committed = p.seen[p.name(p.transact)]
	if committed {
		p.last = p.transact
	}
	if got := p.committedOffset(); got != p.last {
		p.fault("%s: the group's offset is %d; the last transaction whose records are there is %d", p.name(p.transact), got, p.last)
	}
	return committed
}
