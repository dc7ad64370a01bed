package test

import (
	enc "encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawConn is a connection on which a test says what no client would.
type rawConn struct {
	net.Conn
	t    testing.TB
	next int32 // correlation id
}

func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, atLast)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawConn{Conn: c, t: t}
}

// frame is the request with its length and header in front.
func (c *rawConn) frame(req kmsg.Request) []byte {
	c.next++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, c.next)
}

func (c *rawConn) send(req kmsg.Request) {
	c.t.Helper()
	if _, err := c.Write(c.frame(req)); err != nil {
		c.t.Fatalf("send %s: %v", kmsg.NameForKey(req.Key()), err)
	}
}

// ask sends the request and waits for its answer.
func ask[R kmsg.Response](c *rawConn, req kmsg.Request, limit time.Duration) R {
	c.t.Helper()
	c.send(req)
	resp, err := receive[R](c, req, limit)
	if err != nil {
		c.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

// receive reads the answer of a request that was sent.
func receive[R kmsg.Response](c *rawConn, req kmsg.Request, limit time.Duration) (resp R, err error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return resp, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return resp, err
	}
	body := make([]byte, enc.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return resp, err
	}
	skip := 4
	answer := req.ResponseKind()
	if answer.IsFlexible() && answer.Key() != int16(kmsg.ApiVersions) {
		if body[skip] != 0 {
			return resp, fmt.Errorf("tags in the response header: %x", body[:skip+1])
		}
		skip++
	}
	if err := answer.ReadFrom(body[skip:]); err != nil {
		return resp, err
	}
	return answer.(R), nil
}

// batch is a batch of records as a client makes it.
func batch(values ...string) []byte {
	var records []byte
	for i, v := range values {
		records = appendRecord(records, i, v)
	}
	return seal(newBatch(len(values), records))
}

// newBatch is a batch of so many records that are encoded already, whose fields may be changed before it is sealed.
func newBatch(count int, records []byte) *kmsg.RecordBatch {
	now := time.Now().UnixMilli()
	return &kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(count - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(count), Records: records,
	}
}

func appendRecord(dst []byte, offsetDelta int, value string) []byte {
	body := []byte{0, 0} // attributes, time
	body = enc.AppendVarint(body, int64(offsetDelta))
	body = enc.AppendVarint(body, -1) // no key
	body = enc.AppendVarint(body, int64(len(value)))
	body = append(append(body, value...), 0) // no headers
	return append(enc.AppendVarint(dst, int64(len(body))), body...)
}

// seal encodes a batch with the right length and checksum.
func seal(b *kmsg.RecordBatch) []byte {
	raw := b.AppendTo(nil)
	enc.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	enc.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func produceRequest(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, records
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.Partitions = topic, append(to.Partitions, part)
	req.Topics = append(req.Topics, to)
	return req
}

// snappyBlock is a block of snappy.
func snappyBlock(b []byte) []byte { return snappy.Encode(nil, b) }
