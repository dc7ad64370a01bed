package record

import (
	"encoding/binary"
	"math"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// Producer is what an idempotent producer stamps on a batch.
type Producer struct {
	ID           kafka.ProducerID
	Epoch        kafka.ProducerEpoch
	BaseSequence kafka.Sequence // -1 for control batches and offset commits
}

// Builder makes one batch. The exported fields are set before the first Add; the zero value makes plain batches. A Builder may
// be used again after Build.
type Builder struct {
	Compression   compress.Spec
	Producer      *Producer // nil: no producer id
	Transactional bool
	Control       bool
	// LogAppendTimeMs, when above 0, is the time of every record, and the batch says so.
	LogAppendTimeMs int64

	out    []byte // header and, uncompressed, the records
	writer *compress.Writer
	raw    []byte // records not yet compressed
	count  int32
	baseMs int64
	maxMs  int64

	lastBytes int // length of the batch before: what the next one probably has
}

// builderFlush is how many bytes of records are gathered before the encoder gets them.
const builderFlush = 64 << 10

// maxOverhead is what a record without headers has at most beside its key and value.
const maxOverhead = 32

// Add appends a record. A nil key, value or header value is null. The bytes are copied.
func (b *Builder) Add(key, value []byte, headers []Header, timestampMs int64) {
	timestampMs = b.begin(timestampMs, len(key)+len(value))
	delta := timestampMs - b.baseMs
	size := 1 + varintBytes(delta) + varintBytes(int64(b.count)) + fieldBytes(key) + fieldBytes(value) +
		varintBytes(int64(len(headers)))
	for i := range headers {
		size += varintBytes(int64(len(headers[i].Key))) + len(headers[i].Key) + fieldBytes(headers[i].Value)
	}
	dst := b.head(size, delta)
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for i := range headers {
		dst = appendVarint(dst, int64(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendField(dst, headers[i].Value)
	}
	b.end(dst)
}

// addBody appends a record from the bytes that follow the deltas in another's body: key, value and headers.
func (b *Builder) addBody(rest []byte, timestampMs int64) {
	timestampMs = b.begin(timestampMs, len(rest))
	delta := timestampMs - b.baseMs
	dst := b.head(1+varintBytes(delta)+varintBytes(int64(b.count))+len(rest), delta)
	b.end(append(dst, rest...))
}

// begin starts the batch with the first record, of about the size, and returns the record's time.
func (b *Builder) begin(timestampMs int64, size int) int64 {
	if b.LogAppendTimeMs > 0 {
		timestampMs = b.LogAppendTimeMs
	}
	if b.count == 0 {
		b.baseMs, b.maxMs = timestampMs, noTimestamp
		if cap(b.out) < HeaderBytes {
			b.out = make([]byte, 0, max(HeaderBytes+size+maxOverhead, b.lastBytes))
		}
		b.out = b.out[:HeaderBytes]
		clear(b.out)
		b.raw = b.raw[:0]
		if b.Compression.Codec != compress.None {
			b.writer = compress.NewWriter(b.Compression, b.out)
			b.out = nil
		}
	}
	b.maxMs = max(b.maxMs, timestampMs)
	return timestampMs
}

// head appends a record's length, attributes and deltas.
func (b *Builder) head(size int, timestampDelta int64) []byte {
	dst := b.out
	if b.writer != nil {
		dst = b.raw
	}
	dst = appendVarint(dst, int64(size))
	dst = append(dst, 0)
	dst = appendVarint(dst, timestampDelta)
	return appendVarint(dst, int64(b.count))
}

func (b *Builder) end(dst []byte) {
	b.count++
	if b.writer == nil {
		b.out = dst
		return
	}
	b.raw = dst
	if len(b.raw) >= builderFlush {
		b.flush()
	}
}

func (b *Builder) flush() {
	_, err := b.writer.Write(b.raw)
	invariant.Check(err == nil, "compress to memory: %v", err)
	b.raw = b.raw[:0]
}

// Count is how many records were added.
func (b *Builder) Count() int32 { return b.count }

// Len is the batch's length so far; of a compressed batch, what the encoder has given out and what waits for it.
func (b *Builder) Len() int {
	if b.count == 0 {
		return HeaderBytes
	}
	if b.writer != nil {
		return b.writer.Len() + len(b.raw)
	}
	return len(b.out)
}

// written is the batch's length as far as it is certain: without what an encoder may still make smaller.
func (b *Builder) written() int {
	if b.writer != nil {
		return b.writer.Len()
	}
	return len(b.out)
}

// Reset drops the records that were added and not built.
func (b *Builder) Reset() {
	b.count = 0
	if b.writer != nil {
		out, err := b.writer.Close()
		invariant.Check(err == nil, "compress to memory: %v", err)
		b.out, b.writer = out[:0], nil
	}
}

// Build returns the batch, at base offset 0 and without a leader epoch, and begins anew. The batch is the caller's. There must
// be a record in it: nothing writes empty batches but compaction.
func (b *Builder) Build() Batch {
	invariant.Check(b.count > 0, "a batch without records")
	if b.writer != nil {
		b.flush()
		out, err := b.writer.Close()
		invariant.Check(err == nil, "compress to memory: %v", err)
		b.out, b.writer = out, nil
	}
	attributes := uint16(b.Compression.Codec)
	if b.Transactional {
		attributes |= bitTransactional
	}
	if b.Control {
		attributes |= bitControl
	}
	if b.LogAppendTimeMs > 0 {
		attributes |= bitLogAppendTime
	}
	producer := Producer{ID: kafka.NoProducer, Epoch: -1, BaseSequence: -1}
	if b.Producer != nil {
		producer = *b.Producer
	}
	h := Batch(b.out)
	invariant.Check(len(h)-prefixBytes <= math.MaxInt32, "a batch of %d bytes", len(h))
	binary.BigEndian.PutUint32(h[posLength:], uint32(len(h)-prefixBytes))
	h[posMagic] = Magic
	h.SetLeaderEpoch(kafka.NoEpoch)
	binary.BigEndian.PutUint16(h[posAttributes:], attributes)
	binary.BigEndian.PutUint32(h[posLastOffsetDelta:], uint32(b.count-1))
	binary.BigEndian.PutUint64(h[posBaseTimestamp:], uint64(b.baseMs))
	binary.BigEndian.PutUint64(h[posMaxTimestamp:], uint64(b.maxMs))
	binary.BigEndian.PutUint64(h[posProducerID:], uint64(producer.ID))
	binary.BigEndian.PutUint16(h[posProducerEpoch:], uint16(producer.Epoch))
	binary.BigEndian.PutUint32(h[posBaseSequence:], uint32(producer.BaseSequence))
	binary.BigEndian.PutUint32(h[posCount:], uint32(b.count))
	h.stampCRC()
	b.lastBytes = len(h)
	b.out, b.count = nil, 0
	return h
}

func fieldBytes(b []byte) int {
	if b == nil {
		return 1
	}
	return varintBytes(int64(len(b))) + len(b)
}

func appendField(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}
