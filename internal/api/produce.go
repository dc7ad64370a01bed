package api

import (
	"slices"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/wire"
)

// adminClientID is the client id with which Kafka's own tools may write to internal topics.
const adminClientID = "__admin_client"

// produceByID is the first version of Produce that names topics by id.
const produceByID = 13

// zstdFrom is the first version of Produce whose clients all know zstd.
const zstdFrom = 7

// produceCall is one Produce on its way. It is used again when the answer has left, so that a request allocates nothing.
type produceCall struct {
	a    *API
	call call
	req  wire.ProduceRequest
	resp wire.ProduceResponse
	rows []wire.ProducedPartition // back the Partitions of all topics in resp
	wait int32                    // milliseconds that the client is to wait for its bytes

	ask    replica.ProduceRequest
	askFor []int // the row of each partition in ask
	done   func([]replica.ProduceResult)
}

var produceCalls sync.Pool

// keptPartitionsMax is up to how many partitions a request is kept to be used again: larger ones are rare, and take much memory.
const keptPartitionsMax = 4096

// newProduceCall returns one that was used before, or makes one: its callbacks are bound once.
func newProduceCall() *produceCall {
	if p, ok := produceCalls.Get().(*produceCall); ok {
		return p
	}
	p := new(produceCall)
	p.done = p.finish
	return p
}

// produce appends records (key 0). With acks=0 there is no answer, and an error closes the connection. Partitions are answered
// one by one: an error in one does not touch the others.
func (a *API) produce(c call) {
	p := newProduceCall()
	p.a, p.call = a, c
	if err := p.req.Decode(c.Version, c.Body, &c.Peer.Names); err != nil {
		p.release()
		c.close()
		return
	}
	// Now, not when it is answered: the next one would be read meanwhile.
	if p.wait = a.Quotas.record(quota.ProduceBytes, c.who(), float64(c.bytes())); p.wait > 0 {
		c.Peer.Mute(time.Duration(p.wait) * time.Millisecond)
	}
	p.prepare()
	switch {
	case p.req.TransactionalID != nil:
		p.verify()
	case p.transactional():
		p.refuseAll(kafka.TransactionalIdAuthorizationFailed)
	}
	a.Replicas.Produce(&p.ask, p.done)
}

// prepare makes a row for each partition and the list of those that the replicas are asked to append to.
func (p *produceCall) prepare() {
	image := p.a.Quorum.Image()
	partitions := 0
	for i := range p.req.Topics {
		partitions += len(p.req.Topics[i].Partitions)
	}
	p.rows, p.askFor = slices.Grow(p.rows, partitions), slices.Grow(p.askFor, partitions)
	p.ask = replica.ProduceRequest{
		Acks: p.req.Acks, TimeoutMs: p.req.TimeoutMs, Transactional: p.req.TransactionalID != nil,
		Partitions: slices.Grow(p.ask.Partitions, partitions),
	}
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		name := t.Name
		if !t.ID.IsZero() {
			if known, ok := image.TopicByID(t.ID); ok {
				name = known.Name
			}
		}
		refusal := p.refuseTopic(name)
		for j := range t.Partitions {
			part := &t.Partitions[j]
			p.rows = append(p.rows, wire.FailedProduce(part.Index, kafka.None))
			row := &p.rows[len(p.rows)-1]
			err := refusal
			if err == nil && p.call.Version < zstdFrom {
				err = refuseZstd(image, t, part)
			}
			if err != nil {
				row.Err, row.ErrorMessage = answerOf(err)
				continue
			}
			p.askFor = append(p.askFor, len(p.rows)-1)
			p.ask.Partitions = append(p.ask.Partitions, replica.ProducePartition{
				Topic: t.Name, TopicID: t.ID, Partition: part.Index, Records: part.Records,
			})
		}
	}
}

// refuseTopic returns why nothing may be appended to the topic.
func (p *produceCall) refuseTopic(name string) error {
	if meta.IsInternalTopic(name) && (p.call.ClientID == nil || *p.call.ClientID != adminClientID) {
		return kafka.InvalidTopicException
	}
	return nil
}

// refuseZstd returns why the partition does not get records that an old client sent, if they are in zstd, which such clients do not all
// read.
func refuseZstd(image *meta.Image, t *wire.ProduceTopic, part *wire.ProducePartition) error {
	topic, known := image.Topic(t.Name)
	if !known || part.Index < 0 || int(part.Index) >= len(topic.Partitions) {
		return kafka.UnknownTopicOrPartition
	}
	batch, _, err := record.Split(part.Records)
	if err == nil && batch.Codec() == compress.Zstd { // what else is wrong with them the log says
		return kafka.UnsupportedCompressionType
	}
	return nil
}

// finish is called with the replicas' results, on any goroutine.
func (p *produceCall) finish(results []replica.ProduceResult) {
	for i := range results {
		row := &p.rows[p.askFor[i]]
		fillProduced(row, &results[i])
		if row.Err == kafka.UnknownTopicId && p.call.Version < produceByID { // a topic without a name
			row.Err = kafka.UnknownTopicOrPartition
		}
	}
	failed := false
	rest := p.rows
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		n := len(t.Partitions)
		p.resp.Topics = append(p.resp.Topics, wire.ProducedTopic{Name: t.Name, ID: t.ID, Partitions: rest[:n:n]})
		for j := range rest[:n] {
			if code := rest[j].Err; code != kafka.None {
				failed = true
				p.tellLeader(t, &rest[j])
			}
		}
		rest = rest[n:]
	}
	c := p.call
	switch {
	case p.req.Acks != 0:
		p.resp.ThrottleMs = max(p.wait, c.throttle(0))
		resp := c.Response()
		resp.Head = p.resp.AppendTo(resp.Head[:0], c.Version)
		p.release()
		c.reply(resp)
	case failed:
		p.release()
		c.close()
	default:
		p.release()
		c.silence()
	}
}

func fillProduced(row *wire.ProducedPartition, r *replica.ProduceResult) {
	row.Err = r.Err
	row.BaseOffset, row.LogAppendTimeMs, row.LogStartOffset = r.BaseOffset, r.AppendTimeMs, r.LogStart
	if r.Err == kafka.None {
		return
	}
	if r.Message != "" {
		row.ErrorMessage = &r.Message
	}
	for i := range r.Records {
		row.RecordErrors = append(row.RecordErrors, wire.RecordError{BatchIndex: r.Records[i].Index, Message: &r.Records[i].Message})
	}
}

// tellLeader names the leader in a row whose client asked the wrong node (KIP-951).
func (p *produceCall) tellLeader(t *wire.ProduceTopic, row *wire.ProducedPartition) {
	if p.call.Version < 10 || row.Err != kafka.NotLeaderOrFollower {
		return
	}
	row.CurrentLeader, p.resp.Endpoints = p.a.currentLeader(p.call.Peer.Listener, t.Name, t.ID, row.Index, p.resp.Endpoints)
}

// release lets go of everything that belongs to the request.
func (p *produceCall) release() {
	p.a, p.call, p.wait = nil, call{}, 0
	p.req.Reset()
	clear(p.rows)
	clear(p.ask.Partitions)
	clear(p.resp.Topics)
	p.rows, p.askFor = p.rows[:0], p.askFor[:0]
	p.ask.Partitions = p.ask.Partitions[:0]
	p.resp = wire.ProduceResponse{Topics: p.resp.Topics[:0]}
	if cap(p.rows) <= keptPartitionsMax {
		produceCalls.Put(p)
	}
}
