package test

import (
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
)

// endings are transactions that one broker leaves in every state when it is killed, and that the other finds. Each is of a transactional
// id and a group whose partitions of the internal topics no other has, and of a topic of its own, so that a power cut of the end of files
// brings back what was on the disk between the decision and its marks.
type endings struct {
	testing.TB
	k   kafkaHome
	all []*ending
}

// ending is one of them.
type ending struct {
	raw.Txn
	group, topic string
	flow         txnFlow
	decided      kgo.TransactionEndTry // or open
	open, cut    bool
	seen         []string // the values that readers of committed records are to see in each partition
}

// txnFlow is the versions of the requests of a transaction.
type txnFlow struct {
	name                        string
	produce, offsets, end, init int16
	addsPartitions              bool
}

// The flow up to Kafka 3, and that of transaction.version 2 (KIP-890), in which producing takes partitions into the transaction and each
// end begins a new epoch.
var txnFlows = []txnFlow{
	{name: "old", init: 4, produce: 11, offsets: 4, end: 4, addsPartitions: true},
	{name: "new", init: 5, produce: 12, offsets: 5, end: 5},
}

const (
	endPartitions      = 2  // of each topic of theirs
	internalPartitions = 50 // of __transaction_state and __consumer_offsets
)

// leave has the broker that runs now make transactions that are open, committed, aborted, and twice more committed and aborted, of
// which prepared takes the marks away again.
func (e *endings) leave(who string) {
	e.Helper()
	e.all = e.all[:0]
	adm := kadm.NewClient(crashClient(e, e.k.addr()))
	l := raw.Dial(e, e.k.addr())
	taken := map[string]bool{}
	for _, flow := range txnFlows {
		for _, kind := range []string{"open", "committed", "aborted", "prepared-commit", "prepared-abort"} {
			name := strings.Join([]string{who, flow.name, kind}, "-")
			x := &ending{flow: flow, topic: name, decided: kgo.TransactionEndTry(!strings.Contains(kind, "abort")), open: kind == "open", cut: strings.HasPrefix(kind, "prepared")}
			id := alone(name, "state ", taken)
			x.group = alone(name, "offsets ", taken)
			if resp := must(adm.CreateTopic(e.Context(), endPartitions, 1, nil, x.topic))(e); resp.Err != nil {
				e.Fatal(resp.Err)
			}
			x.Txn = l.Begin(id, 600_000)
			x.write(l, "first")
			x.commitOffsets(l)
			if !x.open {
				x.end(l)
			}
			e.all = append(e.all, x)
		}
	}
	for _, x := range e.all {
		if !x.open {
			e.await(adm, x, map[kgo.TransactionEndTry]string{kgo.TryCommit: "CompleteCommit", kgo.TryAbort: "CompleteAbort"}[x.decided])
		}
	}
}

// alone is the name, or one that begins so, that is in a partition of an internal topic where none of those before is.
func alone(name, kind string, taken map[string]bool) string {
	for n := 0; ; n++ {
		candidate := fmt.Sprint(name, "-", n)
		where := fmt.Sprint(kind, kafka.PartitionFor(candidate, internalPartitions))
		if !taken[where] {
			taken[where] = true
			return candidate
		}
	}
}

// write sends a record to each partition of the topic.
func (x *ending) write(l *raw.Conn, value string) {
	l.Helper()
	for p := range int32(endPartitions) {
		if x.flow.addsPartitions {
			raw.Until(l, x.Add(3, raw.Partitions{Topic: x.topic, Numbers: []int32{p}}), "in the transaction", func(r *kmsg.AddPartitionsToTxnResponse) bool {
				return r.Topics[0].Partitions[0].ErrorCode == 0
			})
		}
		b := record.Builder{Transactional: true, Producer: &record.Producer{
			ID: kafka.ProducerID(x.Producer), Epoch: kafka.ProducerEpoch(x.Epoch), BaseSequence: kafka.Sequence(len(x.seen)),
		}}
		b.Add(nil, []byte(value), nil, time.Now().UnixMilli())
		sent := raw.ProduceRow{Topic: x.topic, Partition: p, Records: b.Build()}
		raw.Until(l, x.Produce(x.flow.produce, sent), "an acknowledgement", func(r *kmsg.ProduceResponse) bool {
			return r.Topics[0].Partitions[0].ErrorCode == 0
		})
	}
	x.seen = append(x.seen, value)
}

func (x *ending) commitOffsets(l *raw.Conn) {
	l.Helper()
	find := raw.At(2, kmsg.NewPtrFindCoordinatorRequest())
	find.CoordinatorKey = x.group
	raw.Until(l, find, "a coordinator", func(r *kmsg.FindCoordinatorResponse) bool { return r.ErrorCode == 0 })
	if x.flow.addsPartitions {
		raw.Until(l, x.AddOffsets(3, x.group), "offsets in the transaction", func(r *kmsg.AddOffsetsToTxnResponse) bool { return r.ErrorCode == 0 })
	}
	row := raw.CommitRow{Topic: x.topic, Partition: 0, Offset: 1}
	raw.Until(l, x.CommitOffsets(x.flow.offsets, x.group, "", -1, row), "offsets", func(r *kmsg.TxnOffsetCommitResponse) bool {
		return r.Topics[0].Partitions[0].ErrorCode == 0
	})
}

func (x *ending) end(l *raw.Conn) {
	l.Helper()
	raw.Until(l, x.End(x.flow.end, bool(x.decided)), "the end", func(r *kmsg.EndTxnResponse) bool { return r.ErrorCode == 0 })
}

// await waits until the transactional id is in a state, and all its partitions have the mark.
func (e *endings) await(adm *kadm.Client, x *ending, state string) {
	e.Helper()
	eventually(e, atLast, x.ID+" is "+state, func() error {
		described, err := adm.DescribeTransactions(e.Context(), x.ID)
		if d := described[x.ID]; err != nil || d.Err != nil || d.State != state || len(d.Topics) > 0 {
			return fmt.Errorf("it is %+v, %v", d, err)
		}
		return nil
	})
}

// prepared takes away what the broker, which was killed, wrote after it had decided about some transactions: the record that they are
// complete, and their marks in partition 0 and among the offsets, but not that in partition 1.
func (e *endings) prepared() {
	e.Helper()
	for _, x := range e.all {
		if x.cut {
			e.cutLast(fmt.Sprint("__transaction_state-", kafka.PartitionFor(x.ID, internalPartitions)), false)
			e.cutLast(x.topic+"-0", true)
			e.cutLast(fmt.Sprint("__consumer_offsets-", kafka.PartitionFor(x.group, internalPartitions)), true)
		}
	}
}

// cutLast takes the last batch of a partition away, which must be a control batch or none.
func (e *endings) cutLast(partition string, control bool) {
	e.Helper()
	name := filepath.Join(e.k.root, "data", partition, "00000000000000000000.log")
	content := must(os.ReadFile(name))(e)
	last := 0
	for at := 0; at+61 <= len(content) && bigendian.BigEndian.Uint32(content[at+8:]) > 0; { // base offset, 8 bytes, and the length of what follows, 4
		last = at
		at += 12 + int(bigendian.BigEndian.Uint32(content[at+8:]))
	}
	if is := bigendian.BigEndian.Uint16(content[last+21:])&0x20 != 0; is != control || last == 0 {
		e.Fatalf("%s: the last batch, at %d, is a control batch: %v, want %v", partition, last, is, control)
	}
	if err := os.Truncate(name, int64(last)); err != nil {
		e.Fatal(err)
	}
}

// check holds that the broker that runs now brings each to its end: what was decided is told to all partitions, what is open stays so
// and goes on.
func (e *endings) check(who string) {
	e.Helper()
	cl := crashClient(e, e.k.addr())
	adm := kadm.NewClient(cl)
	l := raw.Dial(e, e.k.addr())
	for _, x := range e.all {
		if x.open {
			e.checkOpen(adm, x)
			x.write(l, "second, on "+who)
			x.end(l)
		}
		if x.decided == kgo.TryAbort {
			x.seen = nil
			e.await(adm, x, "CompleteAbort")
		} else {
			e.await(adm, x, "CompleteCommit")
		}
		e.checkRecords(adm, x, who)
		fetched := must(adm.FetchOffsets(e.Context(), x.group))(e)
		if o, ok := fetched.Lookup(x.topic, 0); (ok && o.At == 1) != (x.decided == kgo.TryCommit) {
			e.Errorf("%s: %s has the offset %+v, %v", who, x.group, o, ok)
		}
		next := raw.Until(l, raw.NewTxn(x.ID).Init(4, 60_000), "the next producer", func(r *kmsg.InitProducerIDResponse) bool { return r.ErrorCode == 0 })
		if next.ProducerID != x.Producer || next.ProducerEpoch <= x.Epoch {
			e.Errorf("%s: the next producer of %s is %d epoch %d, after %d epoch %d", who, x.ID, next.ProducerID, next.ProducerEpoch, x.Producer, x.Epoch)
		}
		late := l.Ask(x.End(x.flow.end, true)).(*kmsg.EndTxnResponse)
		if err := kerr.ErrorForCode(late.ErrorCode); !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
			e.Errorf("%s: the producer before of %s is told %v", who, x.ID, err)
		}
	}
}

// checkOpen holds that an open transaction is as its broker left it.
func (e *endings) checkOpen(adm *kadm.Client, x *ending) {
	e.Helper()
	described := must(adm.DescribeTransactions(e.Context(), x.ID))(e)[x.ID]
	if described.State != "Ongoing" || described.ProducerID != x.Producer || described.ProducerEpoch != x.Epoch || len(described.Topics[x.topic]) != endPartitions || len(described.Topics) != 2 {
		e.Errorf("%s is %+v, want it open in two partitions and those of offsets", x.ID, described)
	}
	for p, o := range must(adm.ListCommittedOffsets(e.Context(), x.topic))(e)[x.topic] {
		if o.Offset != 0 {
			e.Errorf("%s: the last stable offset of partition %d is %d, want 0", x.ID, p, o.Offset)
		}
	}
}

// checkRecords reads the topic as readers of committed records do, to its end.
func (e *endings) checkRecords(adm *kadm.Client, x *ending, who string) {
	e.Helper()
	stable, ends := must(adm.ListCommittedOffsets(e.Context(), x.topic))(e)[x.topic], must(adm.ListEndOffsets(e.Context(), x.topic))(e)[x.topic]
	for p := range int32(endPartitions) {
		if stable[p].Offset != ends[p].Offset {
			e.Errorf("%s: %s-%d is stable up to %d, and ends at %d", who, x.topic, p, stable[p].Offset, ends[p].Offset)
		}
		reader := crashClient(e, e.k.addr(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{x.topic: {p: kgo.NewOffset().At(0)}}))
		var values []string
		for next := int64(0); next < ends[p].Offset; {
			fetches := reader.PollFetches(e.Context())
			if err := fetches.Err(); err != nil {
				e.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if next = r.Offset + 1; !r.Attrs.IsControl() {
					values = append(values, string(r.Value))
				}
			})
		}
		reader.Close()
		if got, want := fmt.Sprint(values), fmt.Sprint(x.seen); got != want {
			e.Errorf("%s: readers of %s-%d see %s, want %s", who, x.topic, p, got, want)
		}
	}
}
