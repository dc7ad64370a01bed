// Package record works on Kafka's record batches (magic 2) as bytes: it views, checks and stamps them in place, walks their
// records, builds them, and decides whether a produced batch may be stored.
package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// HeaderBytes is the length of a batch's header, and so of the smallest batch.
const HeaderBytes = 61

// Magic is the only format version that Kafka 4 writes.
const Magic = 2

// Where the fields of a batch's header lie. The CRC covers everything from the attributes on.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	prefixBytes = 12 // base offset and length: what the length does not count
)

// Bits of a batch's attributes.
const (
	codecMask          = 0x07
	bitLogAppendTime   = 0x08
	bitTransactional   = 0x10
	bitControl         = 0x20
	bitDeleteHorizon   = 0x40
	noTimestamp        = -1
	smallestBatchBytes = 14 // the least length of any magic that Kafka ever wrote, after the prefix
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is exactly one whole batch of magic 2, header included. It is a view: its methods read and write the bytes, and none
// checks more than Split did.
type Batch []byte

// ErrShort is returned by Split when the bytes end before the batch does.
var ErrShort = fmt.Errorf("the bytes end before the batch does")

// Malformed is a batch that cannot be one: a length, magic, count or checksum that no writer makes.
type Malformed struct {
	Reason string
}

func (e *Malformed) Error() string { return "malformed batch: " + e.Reason }

func malformed(format string, args ...any) error {
	return &Malformed{Reason: fmt.Sprintf(format, args...)}
}

// Split returns the first batch of b and what follows it. It returns ErrShort when b holds less than a whole batch, and a
// *Malformed when the length or magic is impossible, so that no more bytes would help.
func Split(b []byte) (Batch, []byte, error) {
	if len(b) < prefixBytes {
		return nil, b, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(b[posLength:]))
	if length < HeaderBytes-prefixBytes {
		return nil, b, malformed("length %d is less than a header's", length)
	}
	if len(b) <= posMagic {
		return nil, b, ErrShort
	}
	if magic := int8(b[posMagic]); magic != Magic {
		return nil, b, malformed("magic %d", magic)
	}
	size := prefixBytes + int64(length)
	if int64(len(b)) < size {
		return nil, b, ErrShort
	}
	return Batch(b[:size:size]), b[size:], nil
}

func (b Batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
func (b Batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) int16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }

// BaseOffset is the offset of the batch's first record when it was written; compaction may have removed that record.
func (b Batch) BaseOffset() kafka.Offset { return kafka.Offset(b.int64(posBaseOffset)) }

// LastOffset is the last offset that the batch stands for.
func (b Batch) LastOffset() kafka.Offset {
	return b.BaseOffset() + kafka.Offset(b.LastOffsetDelta())
}

// NextOffset is the offset of whatever follows the batch.
func (b Batch) NextOffset() kafka.Offset { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() kafka.Epoch { return kafka.Epoch(b.int32(posLeaderEpoch)) }

// Magic is the format version, which Split has found to be 2.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored checksum.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes are the flag bits as stored.
func (b Batch) Attributes() int16 { return b.int16(posAttributes) }

// Codec is how the records are compressed.
func (b Batch) Codec() compress.Codec { return compress.Codec(b.Attributes() & codecMask) }

// LogAppendTime tells whether every record's time is MaxTimestampMs, the broker's, rather than its own.
func (b Batch) LogAppendTime() bool { return b.Attributes()&bitLogAppendTime != 0 }

// IsTransactional tells whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&bitTransactional != 0 }

// IsControl tells whether the batch holds a control record, which is never shown to an application.
func (b Batch) IsControl() bool { return b.Attributes()&bitControl != 0 }

// HasDeleteHorizon tells whether the base timestamp is the time from which compaction may drop the tombstones (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&bitDeleteHorizon != 0 }

// LastOffsetDelta is the distance from the first offset to the last.
func (b Batch) LastOffsetDelta() int32 { return b.int32(posLastOffsetDelta) }

// BaseTimestampMs is what the records' timestamp deltas are added to.
func (b Batch) BaseTimestampMs() int64 { return b.int64(posBaseTimestamp) }

// MaxTimestampMs is the largest timestamp in the batch, or the append time.
func (b Batch) MaxTimestampMs() int64 { return b.int64(posMaxTimestamp) }

// ProducerID names the idempotent producer, or is kafka.NoProducer.
func (b Batch) ProducerID() kafka.ProducerID { return kafka.ProducerID(b.int64(posProducerID)) }

// ProducerEpoch is the producer's epoch.
func (b Batch) ProducerEpoch() kafka.ProducerEpoch {
	return kafka.ProducerEpoch(b.int16(posProducerEpoch))
}

// BaseSequence is the sequence of the first record, or negative without one.
func (b Batch) BaseSequence() kafka.Sequence { return kafka.Sequence(b.int32(posBaseSequence)) }

// LastSequence is the sequence of the last record; a batch may straddle the wrap from 2147483647 to 0.
func (b Batch) LastSequence() kafka.Sequence {
	first := b.BaseSequence()
	if first < 0 {
		return first
	}
	return AddSequence(first, b.LastOffsetDelta())
}

// AddSequence adds n, at least 0, to a sequence: 2147483647 is followed by 0.
func AddSequence(s kafka.Sequence, n int32) kafka.Sequence {
	return kafka.Sequence((uint32(s) + uint32(n)) & math.MaxInt32)
}

// Count is how many records the header says are in the batch; after compaction it may be less than the offsets span, or 0.
func (b Batch) Count() int32 { return b.int32(posCount) }

// SetBaseOffset moves the batch to another place in the log. The CRC does not cover the offset.
func (b Batch) SetBaseOffset(to kafka.Offset) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(to))
}

// SetLeaderEpoch stamps the epoch of the leader. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(to kafka.Epoch) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(to))
}

// SetMaxTimestamp sets the largest timestamp and whether it is the broker's append time. It redoes the CRC, and does nothing
// where both are so already.
func (b Batch) SetMaxTimestamp(ms int64, logAppendTime bool) {
	if b.MaxTimestampMs() == ms && b.LogAppendTime() == logAppendTime {
		return
	}
	attributes := b.Attributes() &^ bitLogAppendTime
	if logAppendTime {
		attributes |= bitLogAppendTime
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.stampCRC()
}

func (b Batch) computeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

func (b Batch) stampCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.computeCRC()) }

// CheckCRC compares the stored checksum with that of the bytes; the error is a *Malformed.
func (b Batch) CheckCRC() error {
	if stored, computed := b.CRC(), b.computeCRC(); stored != computed {
		return malformed("crc is %08x, the bytes have %08x", stored, computed)
	}
	return nil
}

// Check tells whether a stored batch is what some broker wrote: lengths, magic, codec, record count against offsets, CRC. It
// does not decompress and does not look into records; the error is a *Malformed.
func (b Batch) Check() error {
	if len(b) < HeaderBytes || int64(b.int32(posLength))+prefixBytes != int64(len(b)) {
		return malformed("length %d in %d bytes", b.length(), len(b))
	}
	if b.Magic() != Magic {
		return malformed("magic %d", b.Magic())
	}
	if err := b.CheckCRC(); err != nil {
		return err
	}
	if !b.Codec().Known() {
		return malformed("codec %d", b.Codec())
	}
	delta, count := b.LastOffsetDelta(), b.Count()
	if delta < 0 || count < 0 || int64(count) > int64(delta)+1 {
		return malformed("%d records in %d offsets", count, int64(delta)+1)
	}
	if base := b.BaseOffset(); base < 0 || base > math.MaxInt64-kafka.Offset(delta)-1 {
		return malformed("base offset %d", base)
	}
	return nil
}

func (b Batch) length() int64 {
	if len(b) < prefixBytes {
		return noTimestamp
	}
	return int64(b.int32(posLength))
}

// payload is the record section, compressed or not.
func (b Batch) payload() []byte { return b[HeaderBytes:] }
