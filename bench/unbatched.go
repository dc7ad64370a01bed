package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unbatchedRate is how many records a second all partitions get together.
const unbatchedRate = 2000

// unbatched measures what one record costs that comes alone: one Produce with one record and one Fetch that brings it, for both
// brokers. A client library would put several records into a request as soon as a broker is slow, and the slower one would look
// the better; so each partition has a producing and a consuming connection that speak the protocol themselves, and its next
// record is sent when it is due and the one before was acknowledged and consumed.
func unbatched(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
	ctx, cancel := ctxFor(ctx)
	defer cancel()
	topic, drop, err := newTopic(ctx, b, partitions, nil)
	if err != nil {
		return nil, err
	}
	defer drop()
	each := max(int(scale*8000)/partitions, 100)
	pairs := make([]*pair, partitions)
	for i := range pairs {
		if pairs[i], err = newPair(ctx, b, topic, int32(i)); err != nil {
			return nil, err
		}
		defer pairs[i].close()
		// The first record opens what the partition needs; a leader may still be about to begin.
		if err := retried(pairs[i].send); err != nil {
			return nil, err
		}
		if err := retried(pairs[i].receive); err != nil {
			return nil, err
		}
		pairs[i].fetches = 0
	}
	elapsed, used, err := metered(b, func() error {
		failed := make(chan error, len(pairs))
		for _, p := range pairs {
			go func() { failed <- p.run(each, partitions*time.Second/unbatchedRate) }()
		}
		var first error
		for range pairs {
			if err := <-failed; err != nil && first == nil {
				first = err
			}
		}
		return first
	})
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	fetches := 0
	for _, p := range pairs {
		took = append(took, p.took...)
		fetches += p.fetches
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	count := float64(len(took))
	return map[string]float64{
		cpu: float64(used.cpu.Microseconds()) / count, machine: float64(used.machine.Microseconds()) / count, "p50": at(0.5), "p99": at(0.99),
		"rate": count / elapsed.Seconds(), "fetches": float64(fetches) / count,
	}, nil
}

// pair is a producer and a consumer of one partition.
type pair struct {
	producer, consumer *session
	produce            *kmsg.ProduceRequest
	fetch              *kmsg.FetchRequest
	batch              []byte
	sequence           int32

	took    []time.Duration // from before the send until the record had come and was acknowledged, whichever was later
	fetches int
}

func newPair(ctx context.Context, b *broker, topic string, partition int32) (*pair, error) {
	p := new(pair)
	var err error
	if p.producer, err = dial(ctx, b); err != nil {
		return nil, err
	}
	if p.consumer, err = dial(ctx, b); err != nil {
		p.producer.close()
		return nil, err
	}
	id := kmsg.NewPtrInitProducerIDRequest()
	id.ProducerID, id.ProducerEpoch = -1, -1
	id.SetVersion(4)
	given := kmsg.NewPtrInitProducerIDResponse()
	err = retried(func() error {
		if err := p.producer.ask(id, given); err != nil {
			return err
		}
		return kerr.ErrorForCode(given.ErrorCode)
	})
	if err != nil {
		p.close()
		return nil, err
	}
	p.batch = oneRecord(given.ProducerID, given.ProducerEpoch, values(100)[0])

	toPartition := kmsg.NewProduceRequestTopicPartition()
	toPartition.Partition = partition
	toTopic := kmsg.NewProduceRequestTopic()
	toTopic.Topic, toTopic.Partitions = topic, append(toTopic.Partitions, toPartition)
	p.produce = kmsg.NewPtrProduceRequest()
	p.produce.SetVersion(11)
	p.produce.Acks, p.produce.TimeoutMillis = -1, 30_000
	p.produce.Topics = append(p.produce.Topics, toTopic)

	fromPartition := kmsg.NewFetchRequestTopicPartition()
	fromPartition.Partition, fromPartition.PartitionMaxBytes = partition, 1<<20
	fromTopic := kmsg.NewFetchRequestTopic()
	fromTopic.Topic, fromTopic.Partitions = topic, append(fromTopic.Partitions, fromPartition)
	p.fetch = kmsg.NewPtrFetchRequest()
	p.fetch.SetVersion(12)
	p.fetch.ReplicaID, p.fetch.MaxWaitMillis, p.fetch.MinBytes, p.fetch.MaxBytes = -1, 5000, 1, 50<<20
	p.fetch.SessionEpoch = -1
	p.fetch.Topics = append(p.fetch.Topics, fromTopic)
	return p, nil
}

func (p *pair) close() {
	p.producer.close()
	p.consumer.close()
}

// run sends count records, one every so often, each after the one before has arrived.
func (p *pair) run(count int, every time.Duration) error {
	arrived := make(chan error)
	ask := make(chan struct{})
	defer close(ask)
	go func() {
		for range ask {
			arrived <- p.receive()
		}
	}()
	began := time.Now()
	for i := range count {
		ask <- struct{}{} // the fetch waits at the broker before the record comes, as a consumer's does
		time.Sleep(time.Until(began.Add(time.Duration(i) * every)))
		sent := time.Now()
		if err := p.send(); err != nil {
			p.consumer.close()
			<-arrived
			return err
		}
		if err := <-arrived; err != nil {
			return err
		}
		p.took = append(p.took, time.Since(sent))
		if late := time.Since(began) - time.Duration(i+1)*every; late > 0 {
			began = began.Add(late) // what a slow broker missed is not sent in a burst
		}
	}
	return nil
}

func (p *pair) send() error {
	binary.BigEndian.PutUint32(p.batch[53:], uint32(p.sequence))
	binary.BigEndian.PutUint32(p.batch[17:], crc32.Checksum(p.batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	p.produce.Topics[0].Partitions[0].Records = p.batch
	response := kmsg.NewPtrProduceResponse()
	if err := p.producer.ask(p.produce, response); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode); err != nil {
		return err
	}
	p.sequence++
	return nil
}

// retried does something until it succeeds or there is no hope.
func retried(do func() error) error {
	for {
		err := do()
		if err == nil || !kerr.IsRetriable(err) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// receive fetches until a record has come.
func (p *pair) receive() error {
	from := &p.fetch.Topics[0].Partitions[0]
	for {
		response := kmsg.NewPtrFetchResponse()
		if err := p.consumer.ask(p.fetch, response); err != nil {
			return err
		}
		p.fetches++
		if len(response.Topics) == 0 {
			continue
		}
		got := &response.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return err
		}
		if len(got.RecordBatches) == 0 {
			continue
		}
		base, last := binary.BigEndian.Uint64(got.RecordBatches), binary.BigEndian.Uint32(got.RecordBatches[23:])
		if int64(base) != from.FetchOffset || last != 0 {
			return fmt.Errorf("fetched a batch of %d records at offset %d, want one record at %d", last+1, base, from.FetchOffset)
		}
		from.FetchOffset++
		return nil
	}
}

// oneRecord returns a batch of one record. Sequence and CRC are still to be set.
func oneRecord(producerID int64, epoch int16, value []byte) []byte {
	now := time.Now().UnixMilli()
	record := kbin.AppendVarint([]byte{0, 0, 0, 1}, int32(len(value))) // attributes, timestamp delta, offset delta, null key
	record = append(append(record, value...), 0)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: now, MaxTimestamp: now, ProducerID: producerID, ProducerEpoch: epoch,
		NumRecords: 1, Records: append(kbin.AppendVarint(nil, int32(len(record))), record...),
	}
	b := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	return b
}

// session is a connection on which one request is open at a time.
type session struct {
	conn      net.Conn
	reader    *bufio.Reader
	formatter *kmsg.RequestFormatter
	last      int32
	out, in   []byte
}

func dial(ctx context.Context, b *broker) (*session, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", b.node().addr())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return &session{conn: conn, reader: bufio.NewReader(conn), formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))}, nil
}

func (s *session) close() { _ = s.conn.Close() }

// ask sends a request and reads its response.
func (s *session) ask(request kmsg.Request, response kmsg.Response) error {
	s.last++
	s.out = s.formatter.AppendRequest(s.out[:0], request, s.last)
	if _, err := s.conn.Write(s.out); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(s.reader, head[:]); err != nil {
		return err
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != s.last {
		return fmt.Errorf("response to request %d, want %d", got, s.last)
	}
	s.in = slices.Grow(s.in[:0], int(binary.BigEndian.Uint32(head[:])))[:binary.BigEndian.Uint32(head[:])-4]
	if _, err := io.ReadFull(s.reader, s.in); err != nil {
		return err
	}
	response.SetVersion(request.GetVersion())
	body := s.in
	if response.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	return response.ReadFrom(body)
}
