package api_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// newProducer takes a producer id from the broker.
func (l *link) newProducer() kafka.ProducerID {
	l.Helper()
	resp := l.Ask(raw.At(5, kmsg.NewPtrInitProducerIDRequest())).(*kmsg.InitProducerIDResponse)
	if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 {
		l.Fatalf("producer id: %+v", resp)
	}
	return kafka.ProducerID(resp.ProducerID)
}

// The last five batches are known again, with their offsets, also after a restart and after a crash.
func TestRule49RepeatedBatches(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("t", 1)
	id := l.newProducer()
	bases := map[kafka.Sequence]int64{}
	for i := range kafka.Sequence(6) {
		row := l.produce(9, "t", raw.Sequenced(id, 0, i*2, 2))
		if row.ErrorCode != 0 {
			t.Fatalf("batch %d: %v", i, kafka.Error(row.ErrorCode))
		}
		bases[i] = row.BaseOffset
	}
	again := func(when string) {
		t.Helper()
		for version := int16(3); version <= 12; version++ {
			for i := kafka.Sequence(1); i < 6; i++ {
				if row := l.produce(version, "t", raw.Sequenced(id, 0, i*2, 2)); row.ErrorCode != 0 || row.BaseOffset != bases[i] {
					t.Errorf("%s, v%d: batch %d again: %v at %d, was at %d", when, version, i, kafka.Error(row.ErrorCode), row.BaseOffset, bases[i])
				}
			}
		}
		if got := l.end("t"); got != 12 {
			t.Errorf("%s: the log ends at %d, want 12", when, got)
		}
		if row := l.produce(9, "t", raw.Sequenced(id, 0, 0, 2)); row.ErrorCode == 0 {
			t.Errorf("%s: the sixth batch before is taken for new at %d", when, row.BaseOffset)
		}
	}
	again("at once")
	l = connect(t, brokertest.Start(t, brokertest.Dir(crashed(t, dir))).Addr())
	again("after a crash")
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	again("after a restart")
}

// Batches that are sent without waiting are taken in their order; only a true gap is out of order, and what follows it fails too.
func TestRule50GapInTheSequence(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	id := l.newProducer()
	pipeline := func(bases ...kafka.Sequence) (codes []kafka.Error) {
		t.Helper()
		first := l.Last + 1
		for _, base := range bases {
			l.Send(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Records: raw.Sequenced(id, 0, base, 1)}))
		}
		for i := range bases {
			req := raw.Produce(9, -1)
			resp := l.Answer(req, first+int32(i)).(*kmsg.ProduceResponse)
			codes = append(codes, kafka.Error(resp.Topics[0].Partitions[0].ErrorCode))
		}
		return codes
	}
	for round := range kafka.Sequence(40) {
		base := round * 5
		if got := pipeline(base, base+1, base+2, base+3, base+4); slices.ContainsFunc(got, func(c kafka.Error) bool { return c != kafka.None }) {
			t.Fatalf("round %d, five in flight: %v", round, got)
		}
	}
	gap := kafka.OutOfOrderSequenceNumber
	if got := pipeline(201, 202, 203); !slices.Equal(got, []kafka.Error{gap, gap, gap}) {
		t.Errorf("after a gap: %v", got)
	}
	if got := pipeline(200, 201, 203); !slices.Equal(got, []kafka.Error{kafka.None, kafka.None, gap}) {
		t.Errorf("filled, and another gap: %v", got)
	}
	cl := client(t, b, kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0))
	failed := make(chan error, 2000)
	for i := range 2000 {
		cl.Produce(t.Context(), kgo.StringRecord(fmt.Sprint(i)), func(_ *kgo.Record, err error) { failed <- err })
	}
	for range 2000 {
		if err := <-failed; err != nil {
			t.Fatalf("franz-go: %v", err)
		}
	}
}

// After the largest sequence comes 0, inside a batch or between two, and a restart in between changes nothing.
func TestRule51SequenceWraps(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("t", 1)
	id := l.newProducer()
	code(t, "across the wrap", l.produce(9, "t", raw.Sequenced(id, 0, 2147483640, 20)).ErrorCode, kafka.None)
	code(t, "after the wrap", l.produce(9, "t", raw.Sequenced(id, 0, 12, 1)).ErrorCode, kafka.None)
	if row := l.produce(9, "t", raw.Sequenced(id, 0, 2147483640, 20)); row.ErrorCode != 0 || row.BaseOffset != 0 {
		t.Errorf("across the wrap again: %+v", row)
	}
	other := l.newProducer()
	code(t, "up to the largest", l.produce(9, "t", raw.Sequenced(other, 0, math.MaxInt32, 1)).ErrorCode, kafka.None)
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	code(t, "after a restart", l.produce(9, "t", raw.Sequenced(id, 0, 13, 1)).ErrorCode, kafka.None)
	code(t, "0 after the largest", l.produce(9, "t", raw.Sequenced(other, 0, 0, 1)).ErrorCode, kafka.None)
	code(t, "-2^31", l.produce(9, "t", raw.Sequenced(other, 0, math.MinInt32, 1)).ErrorCode, kafka.InvalidRecord)
}

func TestRule52NegativeSequenceIsNoGap(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	for version := int16(3); version <= 12; version++ {
		id := l.newProducer()
		for _, base := range []kafka.Sequence{-5, -1, math.MinInt32} {
			code(t, fmt.Sprintf("v%d: sequence %d", version, base), l.produce(version, "t", raw.Sequenced(id, 0, base, 1)).ErrorCode, kafka.InvalidRecord)
		}
	}
	if end := l.end("t"); end != 0 {
		t.Errorf("%d records were kept", end)
	}
}

func TestRule53SequenceOfANewEpoch(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	for version := int16(3); version <= 12; version++ {
		id := l.newProducer()
		for _, s := range []struct {
			epoch kafka.ProducerEpoch
			base  kafka.Sequence
			want  kafka.Error
		}{
			{0, 0, kafka.None},
			{1, 0, kafka.None}, // bumped by the client
			{2, 7, kafka.OutOfOrderSequenceNumber},
			{0, 1, kafka.InvalidProducerEpoch},
			{1, 1, kafka.None},
			{5, 0, kafka.None},
			{1, 2, kafka.InvalidProducerEpoch},
		} {
			code(t, fmt.Sprintf("v%d: epoch %d, sequence %d", version, s.epoch, s.base), l.produce(version, "t", raw.Sequenced(id, s.epoch, s.base, 1)).ErrorCode, s.want)
		}
	}
}

// A topic made anew under its old name knows no producer, and one may start from 0 there.
func TestRule54SequenceDiesWithItsTopic(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.newProducer()
	for round := range 3 {
		l.Create("t", 1)
		for i := range kafka.Sequence(3) {
			if row := l.produce(9, "t", raw.Sequenced(id, 0, i, 1)); row.ErrorCode != 0 || row.BaseOffset != int64(i) {
				t.Errorf("round %d, sequence %d: %v at %d", round, i, kafka.Error(row.ErrorCode), row.BaseOffset)
			}
		}
		del := raw.At(5, kmsg.NewPtrDeleteTopicsRequest())
		del.TopicNames = []string{"t"}
		code(t, "delete", l.Ask(del).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, kafka.None)
	}
}

// An idempotent producer that sends everything again after each crash writes nothing twice and leaves nothing out.
func TestRule55SequencesSurviveACrash(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("t", 1, "segment.bytes", "1048576")
	id := l.newProducer()
	next := kafka.Sequence(0)
	for round := range 6 {
		for range 20 {
			code(t, fmt.Sprintf("round %d, sequence %d", round, next), l.produce(9, "t", raw.Sequenced(id, 0, next, 1)).ErrorCode, kafka.None)
			next++
		}
		if round%3 == 2 {
			b.Close()
		} else {
			dir = crashed(t, dir)
		}
		b = brokertest.Start(t, brokertest.Dir(dir))
		l = connect(t, b.Addr())
		for base := next - 5; base < next; base++ { // whose answers were lost
			code(t, fmt.Sprintf("round %d, sequence %d again", round, base), l.produce(9, "t", raw.Sequenced(id, 0, base, 1)).ErrorCode, kafka.None)
		}
		if end := l.end("t"); end != int64(next) {
			t.Fatalf("round %d: the log ends at %d, want %d", round, end, next)
		}
		if other := l.newProducer(); other == id {
			t.Fatalf("round %d: producer id %d was given away again", round, id)
		}
	}
	var got []kafka.Sequence
	for offset := int64(0); offset < int64(next); {
		for _, b := range whole(t, l.fetch("t", offset).RecordBatches) {
			got = append(got, b.BaseSequence())
			offset = int64(b.NextOffset())
		}
	}
	for i, s := range got {
		if s != kafka.Sequence(i) {
			t.Fatalf("batch %d has sequence %d", i, s)
		}
	}
}

// Where nothing was aborted read_uncommitted says null, read_committed an empty list, and both read everything.
func TestRule66AbortedListByIsolation(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.Create("t", 1)
	l.produce(9, "t", raw.Values("a", "b"))
	for version := int16(4); version <= 18; version++ {
		for isolation := range int8(2) {
			ask := raw.FetchRow{Topic: "t"}
			if version >= 13 {
				ask = raw.FetchRow{Topic: "", ID: id}
			}
			req := raw.Fetch(version, ask)
			req.IsolationLevel = isolation
			p := l.Ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.LastStableOffset != 2 || (p.AbortedTransactions == nil) != (isolation == 0) || len(p.AbortedTransactions) != 0 || len(p.RecordBatches) == 0 {
				t.Errorf("v%d, isolation %d: %+v", version, isolation, p)
			}
		}
	}
}

// The leader describes its producers, and the others' partitions it does not know.
func TestRule68ProducersDescribed(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 2)
	id := l.newProducer()
	l.produce(9, "t", raw.Sequenced(id, 3, 0, 4))
	req := kmsg.NewPtrDescribeProducersRequest()
	for topic, partitions := range map[string][]int32{"t": {0, 1, 7}, "nope": {0}} {
		row := kmsg.NewDescribeProducersRequestTopic()
		row.Topic, row.Partitions = topic, partitions
		req.Topics = append(req.Topics, row)
	}
	for _, topic := range l.Ask(req).(*kmsg.DescribeProducersResponse).Topics {
		for _, p := range topic.Partitions {
			switch at := fmt.Sprint(topic.Topic, p.Partition); at {
			case "t0":
				if len(p.ActiveProducers) != 1 {
					t.Fatalf("%s: %+v", at, p)
				}
				a := p.ActiveProducers[0]
				if kafka.ProducerID(a.ProducerID) != id || a.ProducerEpoch != 3 || a.LastSequence != 3 || a.CurrentTxnStartOffset != -1 || a.CoordinatorEpoch != -1 {
					t.Errorf("%s: %+v", at, a)
				}
			case "t1":
				if p.ErrorCode != 0 || len(p.ActiveProducers) != 0 {
					t.Errorf("%s: %+v", at, p)
				}
			default:
				code(t, at, p.ErrorCode, kafka.UnknownTopicOrPartition)
			}
		}
	}
}
