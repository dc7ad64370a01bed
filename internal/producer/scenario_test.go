package producer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

var start = time.UnixMilli(1_700_000_000_000)

// send is one batch that a client sends, and the answer: a code, or the base offset.
type send struct {
	producer kafka.ProducerID // distinguishes the producers of a scenario
	epoch    kafka.ProducerEpoch
	first    kafka.Sequence
	count    int
	want     kafka.Error
	offset   kafka.Offset
	restart  bool // the broker is started again before
}

type scenario struct {
	name  string
	sends []send
	// better tells at which send Kafka answers otherwise, and worse: it remembers one batch after a restart, not five.
	better map[int]kafka.Error
}

// scenarios are checked against a real Kafka by the parity test of this package.
var scenarios = []scenario{
	{name: "batches in order", sends: []send{
		{first: 0, count: 3, offset: 0}, {first: 3, count: 1, offset: 3}, {first: 4, count: 10, offset: 4},
	}},
	{name: "rule 49: each of the last five batches sent again", sends: []send{
		{first: 0, count: 1, offset: 0},
		{first: 1, count: 2, offset: 1},
		{first: 3, count: 3, offset: 3},
		{first: 6, count: 4, offset: 6},
		{first: 10, count: 5, offset: 10},
		{first: 0, count: 1, offset: 0},
		{first: 1, count: 2, offset: 1},
		{first: 3, count: 3, offset: 3},
		{first: 6, count: 4, offset: 6},
		{first: 10, count: 5, offset: 10},
		{first: 15, count: 1, offset: 15},
	}},
	{name: "a batch before the last five", sends: []send{
		{first: 0, count: 1, offset: 0},
		{first: 1, count: 1, offset: 1},
		{first: 2, count: 1, offset: 2},
		{first: 3, count: 1, offset: 3},
		{first: 4, count: 1, offset: 4},
		{first: 5, count: 1, offset: 5},
		{first: 0, count: 1, want: kafka.OutOfOrderSequenceNumber},
		{first: 1, count: 1, offset: 1},
	}},
	{name: "a batch that shares some records with an earlier one", sends: []send{
		{first: 0, count: 4, offset: 0},
		{first: 0, count: 3, want: kafka.OutOfOrderSequenceNumber},
		{first: 2, count: 2, want: kafka.OutOfOrderSequenceNumber},
		{first: 2, count: 4, want: kafka.OutOfOrderSequenceNumber},
		{first: 4, count: 1, offset: 4},
	}},
	{name: "rule 50: a gap, and what follows it", sends: []send{
		{first: 0, count: 2, offset: 0},
		{first: 3, count: 1, want: kafka.OutOfOrderSequenceNumber},
		{first: 4, count: 1, want: kafka.OutOfOrderSequenceNumber},
		{first: 2, count: 1, offset: 2},
		{first: 3, count: 1, offset: 3},
	}},
	{name: "rule 51: the sequence wraps in a batch", sends: []send{
		{first: 2147483640, count: 20, offset: 0},
		{first: 12, count: 1, offset: 20},
		{first: 2147483640, count: 20, offset: 0},
		{first: 14, count: 1, want: kafka.OutOfOrderSequenceNumber},
		{first: 13, count: 1, offset: 21, restart: true},
	}},
	{name: "rule 51: the sequence wraps between batches", sends: []send{
		{first: math.MaxInt32 - 1, count: 2, offset: 0},
		{first: 0, count: 2, offset: 2},
		{first: math.MaxInt32 - 1, count: 2, offset: 0},
		{first: 1, count: 2, want: kafka.OutOfOrderSequenceNumber},
		{first: 2, count: 1, offset: 4},
	}},
	{name: "rule 53: a higher epoch starts at 0, a lower one is fenced", sends: []send{
		{epoch: 0, first: 0, count: 2, offset: 0},
		{epoch: 1, first: 0, count: 1, offset: 2},
		{epoch: 2, first: 7, count: 1, want: kafka.OutOfOrderSequenceNumber},
		{epoch: 0, first: 2, count: 1, want: kafka.InvalidProducerEpoch},
		{epoch: 0, first: 0, count: 2, want: kafka.InvalidProducerEpoch},
		{epoch: 1, first: 1, count: 1, offset: 3},
		{epoch: 5, first: 0, count: 1, offset: 4},
	}},
	{name: "a producer that is not known begins anywhere", sends: []send{
		{producer: 1, first: 500, count: 1, offset: 0},
		{producer: 2, epoch: 3, first: 77, count: 1, offset: 1},
		{producer: 1, first: 501, count: 1, offset: 2},
		{producer: 2, epoch: 3, first: 78, count: 1, offset: 3},
	}},
	{name: "rule 55: a restart between batches", sends: []send{
		{first: 0, count: 2, offset: 0},
		{first: 2, count: 2, offset: 2},
		{first: 2, count: 2, offset: 2, restart: true},
		{first: 5, count: 1, want: kafka.OutOfOrderSequenceNumber},
		{first: 4, count: 1, offset: 4},
	}},
	{name: "rule 49: the last five after a restart", sends: []send{
		{first: 0, count: 1, offset: 0},
		{first: 1, count: 1, offset: 1},
		{first: 2, count: 1, offset: 2},
		{first: 3, count: 1, offset: 3},
		{first: 4, count: 1, offset: 4},
		{first: 0, count: 1, offset: 0, restart: true},
		{first: 3, count: 1, offset: 3},
		{first: 4, count: 1, offset: 4},
		{first: 5, count: 1, offset: 5},
	}, better: map[int]kafka.Error{5: kafka.OutOfOrderSequenceNumber, 6: kafka.OutOfOrderSequenceNumber}},
}

// batchOf makes a batch at offset 0.
func batchOf(p record.Producer, count int, transactional bool, at time.Time) record.Batch {
	b := record.Builder{Producer: &p, Transactional: transactional}
	for i := range count {
		b.Add(nil, []byte(fmt.Sprint(i)), nil, at.UnixMilli())
	}
	return b.Build()
}

// partitionOf is what a partition does with a State.
type partitionOf struct {
	t     *testing.T
	state *State
	end   kafka.Offset
	now   time.Time
}

func newPartition(t *testing.T) *partitionOf {
	return &partitionOf{t: t, state: New(0), now: start}
}

// produce returns the base offset or the code.
func (p *partitionOf) produce(b record.Batch) (kafka.Offset, error) {
	p.t.Helper()
	verdict, err := p.state.Check(b, NoGuard)
	if err != nil {
		return -1, err
	}
	if verdict.Duplicate {
		return verdict.BaseOffset, nil
	}
	return p.append(b), nil
}

func (p *partitionOf) append(b record.Batch) kafka.Offset {
	b.SetBaseOffset(p.end)
	p.end = b.NextOffset()
	p.state.Apply(b, p.now)
	return b.BaseOffset()
}

func (p *partitionOf) restart() {
	p.t.Helper()
	state, err := Decode(p.state.Encode())
	if err != nil {
		p.t.Fatal(err)
	}
	p.state = state
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, s.run)
	}
}

func (s scenario) run(t *testing.T) {
	p := newPartition(t)
	for i, step := range s.sends {
		if step.restart {
			p.restart()
		}
		b := batchOf(record.Producer{ID: 100 + step.producer, Epoch: step.epoch, BaseSequence: step.first}, step.count, false, start)
		offset, err := p.produce(b)
		code, _ := kafka.Answer(err)
		if code != step.want || err == nil && offset != step.offset {
			t.Fatalf("send %d, epoch %d sequence %d: offset %d, %v; want %d, %v", i, step.epoch, step.first, offset, err, step.offset, step.want)
		}
	}
}
