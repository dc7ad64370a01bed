package brokertest_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// topic is one that lives as long as the test.
type topic struct {
	name       string
	id         [16]byte
	partitions atomic.Int32
	trims      bool // DeleteRecords
	expires    bool // retention
}

func (t *topic) place(index int32) place { return place{t.id, t.name, index} }

// chaosRecord is one record as sent, before it is known to the ledger.
type chaosRecord struct {
	id, key, value []byte
	headers        []record.Header
}

// makeRecord makes a record whose value begins with its name. What follows depends on nothing but the dice.
func (k *worker) makeRecord(id string) chaosRecord {
	size := k.r.IntN(100)
	if k.r.IntN(20) == 0 {
		size = 3000
	}
	r := chaosRecord{id: []byte(id)}
	r.value = append(append(r.value, id...), '|')
	r.value = append(r.value, bytes.Repeat([]byte{byte('a' + k.r.IntN(26))}, size)...)
	if k.r.IntN(2) == 0 {
		r.key = fmt.Appendf(nil, "key%d", k.r.IntN(10))
	}
	if k.r.IntN(4) == 0 {
		r.headers = []record.Header{{Key: "h", Value: []byte(id)}, {Key: "", Value: nil}}
	}
	return r
}

// recordHash is what makes two records the same.
func recordHash(key, value []byte, headers []record.Header) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %t %x %x", len(key), key == nil, key, value)
	for _, header := range headers {
		fmt.Fprintf(h, " %q %t %x", header.Key, header.Value == nil, header.Value)
	}
	return h.Sum64()
}

// nameOf is the name in a record's value.
func nameOf(value []byte) string {
	id, _, _ := strings.Cut(string(value), "|")
	return id
}

// batch is what a producer sends to one partition at once.
type batch struct {
	topic    *topic
	index    int32
	ids      []string
	count    int32
	sequence kafka.Sequence
	bytes    record.Batch
	tried    bool // was sent before: it may be in the log although it is refused now
}

// pen is a producer: its identity and where it is in each partition.
type pen struct {
	*worker
	acks       int16
	idempotent bool

	id        kafka.ProducerID
	epoch     kafka.ProducerEpoch
	fresh     bool // has an id and no gaps
	sequences map[place]kafka.Sequence
	numbers   map[place]int
}

// produce writes to topics until the workload is over. Batches are pipelined; what was not answered is sent again if the
// producer is idempotent.
func (k *worker) produce(topics []*topic, acks int16, idempotent bool) {
	p := &pen{worker: k, acks: acks, idempotent: idempotent, numbers: map[place]int{}}
	p.mayClose = acks == 0
	for p.running() {
		if !p.identify() {
			continue
		}
		var window []*batch
		t := topics[p.r.IntN(len(topics))]
		for range 1 + p.r.IntN(5) {
			window = append(window, p.batch(t, p.r.Int32N(t.partitions.Load())))
		}
		for len(window) > 0 && p.running() {
			window = p.deliver(window)
		}
		p.pause(8 * time.Millisecond)
	}
}

// identify gets a producer id if there is none without gaps.
func (p *pen) identify() bool {
	if !p.idempotent || p.fresh {
		return true
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = int16(p.r.IntN(5))
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, ok := p.ask(req)
	if !ok {
		return false
	}
	r := resp.(*kmsg.InitProducerIDResponse)
	if r.ErrorCode != 0 {
		p.unexpected("InitProducerId", r.ErrorCode)
		return false
	}
	p.id, p.epoch, p.fresh = kafka.ProducerID(r.ProducerID), kafka.ProducerEpoch(r.ProducerEpoch), true
	p.ledgerProducer()
	p.sequences = map[place]kafka.Sequence{}
	return true
}

// ledgerProducer checks that no producer id is handed out twice.
func (p *pen) ledgerProducer() {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	name := fmt.Sprintf("producer id %d epoch %d", p.id, p.epoch)
	if p.ledger.sent[name] != nil {
		p.ledger.fault("%s was handed out twice", name)
	}
	p.ledger.sent[name] = &sent{}
}

// unexpected reports an error code that is no consequence of the broker's ending.
func (k *worker) unexpected(what string, code int16) {
	k.Helper()
	k.unexpectedOf(k.life, what, code)
}

// unexpectedOf is unexpected for the answer of a broker that may not be the present one.
func (k *worker) unexpectedOf(l *life, what string, code int16) {
	k.Helper()
	if l != nil && !l.ending.Load() {
		k.fault("%s: %s: %v", k.name, what, kerr.ErrorForCode(code))
	}
}

func (p *pen) batch(t *topic, index int32) *batch {
	at := t.place(index)
	b := &batch{topic: t, index: index, count: 1 + p.r.Int32N(5)}
	builder := record.Builder{Compression: compress.Spec{Codec: compress.Codec(p.r.IntN(5))}}
	if p.idempotent {
		b.sequence = p.sequences[at]
		builder.Producer = &record.Producer{ID: p.id, Epoch: p.epoch, BaseSequence: b.sequence}
		p.sequences[at] = record.AddSequence(b.sequence, b.count)
	}
	for range b.count {
		number := p.numbers[at]
		p.numbers[at]++
		id := fmt.Sprintf("%s/%s/%d/%d", p.name, t.name, index, number)
		r := p.makeRecord(id)
		p.ledger.sending(id, sent{producer: p.name, number: number, hash: recordHash(r.key, r.value, r.headers)})
		builder.Add(r.key, r.value, r.headers, time.Now().UnixMilli()-p.r.Int64N(100))
		b.ids = append(b.ids, id)
	}
	b.bytes = builder.Build()
	return b
}

// deliver sends batches and returns those to be sent again.
func (p *pen) deliver(window []*batch) (again []*batch) {
	link := p.connected()
	if link == nil {
		return p.unknown(window)
	}
	life := p.life
	answers := make([]*asked, len(window))
	for i, b := range window {
		answers[i] = link.send(p.request(b)) // all on one connection: order is what makes sequences
	}
	if p.acks == 0 {
		return nil
	}
	disturbed := map[place]bool{} // a batch before this one was not accepted
	for i, b := range window {
		at := b.topic.place(b.index)
		code, offset, ok := p.outcome(answers[i])
		err := kerr.ErrorForCode(code)
		switch {
		case !ok || life.ending.Load() && kerr.IsRetriable(err):
			disturbed[at] = true
			again = append(again, b)
		case code == 0:
			p.ledger.acked(at, offset, b.ids...)
		case mayRefuse[code] || (disturbed[at] || !p.fresh) && code == kerr.OutOfOrderSequenceNumber.Code:
			disturbed[at] = true
			p.fresh = false
			if !b.tried {
				p.ledger.refused(b.ids...)
			}
		default:
			p.fault("%s: batch with sequence %d for partition %d of %s: %v", p.name, b.sequence, b.index, b.topic.name, err)
			p.fresh = false
		}
		b.tried = true
	}
	return p.unknown(again)
}

// unknown returns what to send again of batches whose fate is not known.
func (p *pen) unknown(batches []*batch) []*batch {
	if p.idempotent {
		return batches
	}
	return nil
}

// mayRefuse are the refusals that the administrators of the test provoke.
var mayRefuse = map[int16]bool{
	kerr.MessageTooLarge.Code: true, kerr.RecordListTooLarge.Code: true, kerr.NotEnoughReplicas.Code: true, kerr.InvalidTimestamp.Code: true,
}

func (p *pen) request(b *batch) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 7 + int16(p.r.IntN(7))
	req.Acks, req.TimeoutMillis = p.acks, 50_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = b.topic.name, b.topic.id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = b.index, slices.Clone(b.bytes)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// outcome waits for the answer about the one partition that was asked for.
func (k *worker) outcome(a *asked) (code int16, offset int64, ok bool) {
	resp, ok := k.wait(a)
	if !ok {
		return 0, 0, false
	}
	r := resp.(*kmsg.ProduceResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		k.fault("%s: answer to a Produce of one partition: %+v", k.name, r)
		return 0, 0, false
	}
	part := r.Topics[0].Partitions[0]
	return part.ErrorCode, part.BaseOffset, true
}
