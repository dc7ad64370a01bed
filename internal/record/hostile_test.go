package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// testNowMs is the broker's clock in tests; produced is the time of good records.
const (
	testNowMs = 1_700_000_000_000
	goodMs    = testNowMs - 1000
)

// topicKind is a topic that the cases are produced to: the same in these tests and at a real Kafka.
type topicKind struct {
	name    string
	configs map[string]string
	rules   func(*Rules)
}

var topicKinds = []topicKind{
	{"plain", nil, func(*Rules) {}},
	{"compacted", map[string]string{"cleanup.policy": "compact"}, func(r *Rules) { r.Compacted = true }},
	{"append-time", map[string]string{"message.timestamp.type": "LogAppendTime"}, func(r *Rules) { r.LogAppendTime = true }},
	{"narrow", map[string]string{"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "60000"}, func(r *Rules) {
		r.BeforeMaxMs, r.AfterMaxMs = 3_600_000, 60_000
	}},
	{"small", map[string]string{"max.message.bytes": "1000"}, func(r *Rules) { r.MaxBytes = 1000 }},
	{"gzip", map[string]string{"compression.type": "gzip"}, func(r *Rules) { r.Compression = &compress.Spec{Codec: compress.Gzip} }},
	{"uncompressed", map[string]string{"compression.type": "uncompressed", "max.message.bytes": "2000"}, func(r *Rules) {
		r.Compression, r.MaxBytes = &compress.Spec{}, 2000
	}},
	{"record-limit", map[string]string{"max.decompressed.message.bytes": "1000"}, func(r *Rules) { r.MaxRecordBytes = 1000 }},
}

func kindRules(name string) Rules {
	r := Rules{NowMs: testNowMs, MaxBytes: 1_048_588, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000}
	for _, kind := range topicKinds {
		if kind.name == name {
			kind.rules(&r)
			return r
		}
	}
	panic("no topic kind " + name)
}

// hostile is one partition's bytes of a Produce, and what Kafka 4.4 answers to them.
type hostile struct {
	name  string
	topic string // a topicKind; empty means plain
	blob  func(nowMs int64) []byte
	want  kafka.Error
	bad   []int32 // indexes of the records that are named
	// fumbled tells that Kafka answers UNKNOWN_SERVER_ERROR, out of an exception that it did not foresee.
	fumbled bool
	// better tells that Kafka stores a header that lies where ours does not.
	better bool
}

func (h hostile) kind() string {
	if h.topic == "" {
		return "plain"
	}
	return h.topic
}

// build makes a batch of three small records and lets change alter the builder before.
func build(nowMs int64, change ...func(*Builder)) Batch {
	var b Builder
	for _, c := range change {
		c(&b)
	}
	for i := range 3 {
		b.Add([]byte{'k', byte('0' + i)}, bytes.Repeat([]byte{'v'}, 20), nil, nowMs-1000+int64(i))
	}
	return b.Build()
}

func codec(c compress.Codec) func(*Builder) {
	return func(b *Builder) { b.Compression.Codec = c }
}

func producedBy(id kafka.ProducerID, epoch kafka.ProducerEpoch, sequence kafka.Sequence) func(*Builder) {
	return func(b *Builder) { b.Producer = &Producer{ID: id, Epoch: epoch, BaseSequence: sequence} }
}

// forge alters a good batch and redoes its CRC.
func forge(change func(Batch), with ...func(*Builder)) func(int64) []byte {
	return func(nowMs int64) []byte {
		b := build(nowMs, with...)
		change(b)
		b.stampCRC()
		return b
	}
}

func put16(at int, v int16) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
}

func put32(at int, v int32) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
}

func put64(at int, v int64) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
}

// handmade is a batch around a record section that no builder would write.
func handmade(nowMs int64, c compress.Codec, count int32, section []byte) Batch {
	b := build(nowMs)[:HeaderBytes:HeaderBytes]
	packed, err := compress.Append(nil, section, compress.Spec{Codec: c})
	if err != nil {
		panic(err)
	}
	return seal(append(b, packed...), c, count)
}

// seal makes header and payload fit.
func seal(b Batch, c compress.Codec, count int32) Batch {
	put32(posLength, int32(len(b)-prefixBytes))(b)
	put16(posAttributes, int16(c))(b)
	put32(posLastOffsetDelta, count-1)(b)
	put32(posCount, count)(b)
	b.stampCRC()
	return b
}

// rawRecord is a record with the given delta and whatever follows it, under an honest length.
func rawRecord(delta int32, rest ...byte) []byte {
	body := appendVarint([]byte{0, 0}, int64(delta))
	body = append(body, rest...)
	return append(appendVarint(nil, int64(len(body))), body...)
}

var (
	nullKV  = []byte{1, 1, 0}           // null key, null value, no headers
	smallKV = []byte{2, 'k', 2, 'v', 0} // k, v, no headers
	section = func(records ...[]byte) []byte { return bytes.Join(records, nil) }
)

// fumble tells which batches of a case Kafka trips over.
type fumble int

const (
	never fumble = iota
	plain
	compressed
)

// broken are record sections with something wrong, of two records as the header says; each is tried plain and compressed.
var broken = []struct {
	name    string
	section []byte
	want    kafka.Error
	fumbled fumble
}{
	{"one record less than the count", section(rawRecord(0, smallKV...)), kafka.InvalidRecord, never},
	{"one record more than the count", section(rawRecord(0, smallKV...), rawRecord(1, smallKV...), rawRecord(2, smallKV...)), kafka.InvalidRecord, never},
	{"a byte after the last record", section(rawRecord(0, smallKV...), rawRecord(1, smallKV...), []byte{0}), kafka.InvalidRecord, never},
	{"no records at all", nil, kafka.InvalidRecord, never},
	{"negative record length", section([]byte{1}, rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"record length beyond the batch", section(rawRecord(0, smallKV...), []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}), kafka.InvalidRecord, never},
	{"record length of six bytes", section(rawRecord(0, smallKV...), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01}), kafka.InvalidRecord, plain},
	{"key length beyond the record", section(rawRecord(0, 20, 'k', 2, 'v', 0), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"value length beyond the record", section(rawRecord(0, 2, 'k', 20, 'v', 0), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"value length of 2 GB", section(rawRecord(0, 2, 'k', 0xfe, 0xff, 0xff, 0xff, 0x0f, 'v', 0), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"bytes after the headers", section(rawRecord(0, 2, 'k', 2, 'v', 0, 9, 9), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"negative header count", section(rawRecord(0, 2, 'k', 2, 'v', 1), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"header count of a thousand million", section(rawRecord(0, 2, 'k', 2, 'v', 0x80, 0xa8, 0xd6, 0xb9, 0x07), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"header with a null key", section(rawRecord(0, 2, 'k', 2, 'v', 2, 1, 2, 'x'), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"header value beyond the record", section(rawRecord(0, 2, 'k', 2, 'v', 2, 2, 'h', 40, 'x'), rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"empty record body", section([]byte{0}, rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"record cut in its deltas", section([]byte{4, 0, 0}, rawRecord(1, smallKV...)), kafka.InvalidRecord, never},
	{"null key, value and header value", section(rawRecord(0, 1, 1, 2, 2, 'h', 1), rawRecord(1, nullKV...)), kafka.None, never},
	{"key length of -2", section(rawRecord(0, 3, 2, 'v', 0), rawRecord(1, smallKV...)), kafka.None, never},
	{"offset deltas out of order", section(rawRecord(1, smallKV...), rawRecord(0, smallKV...)), kafka.None, compressed},
	{"offset deltas with a gap", section(rawRecord(0, smallKV...), rawRecord(7, smallKV...)), kafka.None, compressed},
	{"offset deltas all 0", section(rawRecord(0, smallKV...), rawRecord(0, smallKV...)), kafka.None, compressed},
	{"negative offset delta", section(rawRecord(-3, smallKV...), rawRecord(1, smallKV...)), kafka.None, compressed},
	{"record attributes set", section(append([]byte{16, 0x7f}, rawRecord(0, smallKV...)[2:]...), rawRecord(1, smallKV...)), kafka.None, never},
}

// hostiles are the cases. A change here is checked against a real Kafka with the parity test of this package.
func hostiles() []hostile {
	cases := []hostile{
		{name: "a good batch", blob: func(ms int64) []byte { return build(ms) }},
		{name: "no bytes", blob: func(int64) []byte { return []byte{} }, want: kafka.InvalidRecord},
		{name: "eleven bytes", blob: func(int64) []byte { return make([]byte, 11) }, want: kafka.InvalidRecord},
		{name: "thirty zero bytes", blob: func(int64) []byte { return make([]byte, 30) }, want: kafka.CorruptMessage},
		{name: "the first half of a batch", blob: func(ms int64) []byte { return build(ms)[:70] }, want: kafka.InvalidRecord},
		{name: "a batch and half of another", blob: func(ms int64) []byte { return append(build(ms), build(ms)[:70]...) }},
		{name: "a batch and five bytes", blob: func(ms int64) []byte { return append(build(ms), 1, 2, 3, 4, 5) }},
		{name: "a batch and zeros", blob: func(ms int64) []byte { return append(build(ms), make([]byte, 100)...) }, want: kafka.CorruptMessage},
		{name: "two batches", blob: func(ms int64) []byte { return append(build(ms), build(ms)...) }, want: kafka.InvalidRecord},
		{name: "batch length -1", blob: forge(put32(posLength, -1)), want: kafka.CorruptMessage},
		{name: "batch length 0", blob: forge(put32(posLength, 0)), want: kafka.CorruptMessage},
		{name: "batch length 13", blob: forge(put32(posLength, 13)), want: kafka.CorruptMessage},
		{name: "batch length 30", blob: forge(put32(posLength, 30)), want: kafka.CorruptMessage},
		{name: "batch length 48", blob: forge(put32(posLength, 48)), want: kafka.CorruptMessage},
		{name: "batch length one too short", blob: func(ms int64) []byte {
			b := build(ms)
			put32(posLength, int32(len(b)-prefixBytes-1))(b)
			return b
		}, want: kafka.CorruptMessage},
		{name: "batch length one too long", blob: func(ms int64) []byte {
			b := build(ms)
			put32(posLength, int32(len(b)-prefixBytes+1))(b)
			return b
		}, want: kafka.InvalidRecord},
		{name: "batch length 2 GB", blob: forge(put32(posLength, math.MaxInt32)), want: kafka.InvalidRecord, fumbled: true},
		{name: "magic 0", blob: forge(func(b Batch) { b[posMagic] = 0 }), want: kafka.InvalidRecord},
		{name: "magic 1", blob: forge(func(b Batch) { b[posMagic] = 1 }), want: kafka.InvalidRecord},
		{name: "magic 3", blob: forge(func(b Batch) { b[posMagic] = 3 }), want: kafka.CorruptMessage},
		{name: "magic -1", blob: forge(func(b Batch) { b[posMagic] = 0xff }), want: kafka.CorruptMessage},
		{name: "a value byte flipped", blob: func(ms int64) []byte {
			b := build(ms)
			b[len(b)-5] ^= 1
			return b
		}, want: kafka.CorruptMessage},
		{name: "the leader epoch set", blob: forge(put32(posLeaderEpoch, 77))},
		{name: "base offset 5", blob: forge(put64(posBaseOffset, 5)), want: kafka.InvalidRecord},
		{name: "base offset -1", blob: forge(put64(posBaseOffset, -1)), want: kafka.InvalidRecord},
		{name: "last offset delta too large", blob: forge(put32(posLastOffsetDelta, 9)), want: kafka.InvalidRecord},
		{name: "last offset delta -1", blob: forge(put32(posLastOffsetDelta, -1)), want: kafka.InvalidRecord},
		{name: "count 0", blob: forge(put32(posCount, 0)), want: kafka.InvalidRecord},
		{name: "count -1", blob: forge(put32(posCount, -1)), want: kafka.InvalidRecord},
		{name: "count and delta of 2^31-1", blob: forge(func(b Batch) {
			put32(posCount, math.MaxInt32)(b)
			put32(posLastOffsetDelta, math.MaxInt32-1)(b)
		}), want: kafka.InvalidRecord},
		{name: "control bit", blob: forge(put16(posAttributes, bitControl)), want: kafka.InvalidRecord},
		{name: "transactional bit without a transactional id", blob: forge(put16(posAttributes, bitTransactional)), want: kafka.TransactionalIdAuthorizationFailed},
		{name: "transactional control batch without a transactional id", blob: forge(put16(posAttributes, bitTransactional|bitControl)), want: kafka.TransactionalIdAuthorizationFailed},
		{name: "unused attribute bits", blob: forge(put16(posAttributes, 0x7f80))},
		{name: "delete horizon bit", blob: forge(put16(posAttributes, bitDeleteHorizon))},
		{name: "negative sequence", blob: forge(func(Batch) {}, producedBy(4711, 0, -5)), want: kafka.InvalidRecord},
		{name: "sequence -1 with a producer id", blob: forge(func(Batch) {}, producedBy(4711, 0, -1)), want: kafka.InvalidRecord},
		{name: "negative epoch with a producer id", blob: forge(func(Batch) {}, producedBy(4712, -1, 0))},
		{name: "producer id -5", blob: forge(func(Batch) {}, producedBy(-5, 0, 0))},
		{name: "codec 5", blob: forge(put16(posAttributes, 5)), want: kafka.UnsupportedCompressionType, fumbled: true},
		{name: "codec 7", blob: forge(put16(posAttributes, 7)), want: kafka.UnsupportedCompressionType, fumbled: true},
		{name: "codec says gzip, bytes are plain", blob: forge(put16(posAttributes, 1)), want: kafka.InvalidRecord, fumbled: true},
		{name: "codec says snappy, bytes are plain", blob: forge(put16(posAttributes, 2)), want: kafka.InvalidRecord, fumbled: true},
		{name: "codec says lz4, bytes are plain", blob: forge(put16(posAttributes, 3)), want: kafka.InvalidRecord, fumbled: true},
		{name: "codec says zstd, bytes are plain", blob: forge(put16(posAttributes, 4)), want: kafka.InvalidRecord, fumbled: true},
		{name: "maximum timestamp too low", blob: forge(put64(posMaxTimestamp, 5))},
		{name: "maximum timestamp too high", blob: forge(put64(posMaxTimestamp, math.MaxInt64))},
		{name: "maximum timestamp too low, gzip", blob: forge(put64(posMaxTimestamp, 5), codec(compress.Gzip))},
		{name: "maximum timestamp -1", blob: forge(put64(posMaxTimestamp, -1))},
		{name: "timestamps of -1", blob: single([]byte("k"), []byte("v"), func(int64) int64 { return -1 })},
		{name: "timestamp below -1", blob: single([]byte("k"), []byte("v"), func(int64) int64 { return -5 })},
		{name: "base timestamp of the least value", blob: forge(put64(posBaseTimestamp, math.MinInt64)), want: kafka.InvalidTimestamp, bad: []int32{0, 1, 2}},

		{name: "null key", topic: "compacted", blob: single(nil, []byte("v"), nil), want: kafka.InvalidRecord, bad: []int32{0}},
		{name: "empty key", topic: "compacted", blob: single([]byte{}, []byte("v"), nil)},
		{name: "null value", topic: "compacted", blob: single([]byte("k"), nil, nil)},
		{name: "null keys among others", topic: "compacted", blob: mixedKeys(compress.None), want: kafka.InvalidRecord, bad: []int32{1, 3}},
		{name: "null keys among others, lz4", topic: "compacted", blob: mixedKeys(compress.LZ4), want: kafka.InvalidRecord, bad: []int32{1, 3}},

		{name: "a year old", blob: single([]byte("k"), []byte("v"), ago(365*24*3_600_000))},
		{name: "two hours ahead", blob: single([]byte("k"), []byte("v"), ago(-7_200_000)), want: kafka.InvalidTimestamp, bad: []int32{0}},
		{name: "two hours old", topic: "narrow", blob: single([]byte("k"), []byte("v"), ago(7_200_000)), want: kafka.InvalidTimestamp, bad: []int32{0}},
		{name: "ten minutes ahead", topic: "narrow", blob: single([]byte("k"), []byte("v"), ago(-600_000)), want: kafka.InvalidTimestamp, bad: []int32{0}},
		{name: "no timestamp", topic: "narrow", blob: single([]byte("k"), []byte("v"), func(int64) int64 { return -1 })},
		{name: "two hours old", topic: "append-time", blob: single([]byte("k"), []byte("v"), ago(7_200_000))},
		{name: "a good batch", topic: "append-time", blob: func(ms int64) []byte { return build(ms) }},
		{name: "a good batch, zstd", topic: "append-time", blob: func(ms int64) []byte { return build(ms, codec(compress.Zstd)) }},
		{name: "append time claimed", blob: forge(put16(posAttributes, bitLogAppendTime))},
		{name: "append time claimed, and a later one than any record's", blob: forge(func(b Batch) {
			put16(posAttributes, bitLogAppendTime)(b)
			put64(posMaxTimestamp, b.MaxTimestampMs()+500)(b)
		}), better: true},
		{name: "append time claimed, long ago", topic: "narrow", blob: forge(func(b Batch) {
			put16(posAttributes, bitLogAppendTime)(b)
			put64(posMaxTimestamp, 5)(b)
		}), want: kafka.InvalidTimestamp, bad: []int32{0, 1, 2}},
		{name: "append time claimed without a time", blob: forge(func(b Batch) {
			put16(posAttributes, bitLogAppendTime)(b)
			put64(posMaxTimestamp, -1)(b)
		}), want: kafka.InvalidTimestamp, bad: []int32{0, 1, 2}},
		{name: "append time claimed", topic: "append-time", blob: forge(put16(posAttributes, bitLogAppendTime)), want: kafka.InvalidTimestamp, bad: []int32{0, 1, 2}},

		{name: "a batch of 1100 bytes", topic: "small", blob: single([]byte("k"), random(1020), nil), want: kafka.MessageTooLarge},
		{name: "the same that compresses well", topic: "small", blob: func(ms int64) []byte {
			b := Builder{Compression: compress.Spec{Codec: compress.Gzip}}
			b.Add(nil, bytes.Repeat([]byte("x"), 2000), nil, ms)
			return b.Build()
		}},
		{name: "plain to a gzip topic", topic: "gzip", blob: func(ms int64) []byte { return build(ms) }},
		{name: "zstd to a gzip topic", topic: "gzip", blob: func(ms int64) []byte { return build(ms, codec(compress.Zstd)) }},
		{name: "gzip to an uncompressed topic", topic: "uncompressed", blob: func(ms int64) []byte { return build(ms, codec(compress.Gzip)) }},
		{name: "gzip that is too large when unpacked", topic: "uncompressed", blob: func(ms int64) []byte {
			b := Builder{Compression: compress.Spec{Codec: compress.Gzip}}
			b.Add(nil, bytes.Repeat([]byte("x"), 5000), nil, ms)
			return b.Build()
		}, want: kafka.MessageTooLarge},
		{name: "a compressed record over the limit", topic: "record-limit", blob: func(ms int64) []byte {
			b := Builder{Compression: compress.Spec{Codec: compress.Gzip}}
			b.Add(nil, bytes.Repeat([]byte("x"), 1200), nil, ms)
			return b.Build()
		}, want: kafka.InvalidRecord},
		{name: "a plain record over the limit", topic: "record-limit", blob: single(nil, random(1200), nil)},
	}
	for _, b := range broken {
		for _, c := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
			h := hostile{name: fmt.Sprintf("%s, %s", b.name, c), want: b.want, blob: func(ms int64) []byte {
				return handmade(ms, c, 2, b.section)
			}}
			h.fumbled = b.fumbled == plain && c == compress.None || b.fumbled == compressed && c != compress.None
			cases = append(cases, h)
		}
	}
	for _, c := range []compress.Codec{compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		cases = append(cases,
			hostile{name: fmt.Sprintf("%s cut short", c), want: kafka.InvalidRecord, fumbled: true, blob: func(ms int64) []byte {
				b := manyRecords(ms, c)
				return seal(b[:len(b)-20], c, b.Count())
			}},
			hostile{name: fmt.Sprintf("%s damaged in the middle", c), want: kafka.InvalidRecord, fumbled: c == compress.Snappy || c == compress.LZ4, blob: func(ms int64) []byte {
				b := manyRecords(ms, c)
				for i := range 16 {
					b[HeaderBytes+len(b.payload())/2+i] ^= 0x5a
				}
				return seal(b, c, b.Count())
			}})
	}
	return cases
}

// manyRecords is a batch that compresses, but not to nothing.
func manyRecords(nowMs int64, c compress.Codec) Batch {
	b := Builder{Compression: compress.Spec{Codec: c}}
	noise := random(4000)
	for i := range 100 {
		b.Add([]byte(fmt.Sprint(i)), noise[i*20:i*20+80], nil, nowMs)
	}
	return b.Build()
}

// random is noise that is the same every time.
func random(n int) []byte {
	out := make([]byte, n)
	x := uint32(2463534242)
	for i := range out {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		out[i] = byte(x)
	}
	return out
}

func single(key, value []byte, at func(nowMs int64) int64) func(int64) []byte {
	return func(nowMs int64) []byte {
		ms := nowMs - 1000
		if at != nil {
			ms = at(nowMs)
		}
		var b Builder
		b.Add(key, value, nil, ms)
		return b.Build()
	}
}

func ago(ms int64) func(int64) int64 { return func(nowMs int64) int64 { return nowMs - ms } }

func mixedKeys(c compress.Codec) func(int64) []byte {
	return func(nowMs int64) []byte {
		b := Builder{Compression: compress.Spec{Codec: c}}
		for i := range 5 {
			key := []byte(strings.Repeat("k", i+1))
			if i%2 == 1 {
				key = nil
			}
			b.Add(key, []byte("v"), nil, nowMs)
		}
		return b.Build()
	}
}
