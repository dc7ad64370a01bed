package record

import (
	"errors"
	"io"
	"iter"
	"math"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Record is one record of a batch. Null and empty are different: a nil key, value or header value is null.
type Record struct {
	Offset      kafka.Offset
	TimestampMs int64
	Key, Value  []byte
	Headers     []Header
}

// Header is a key and a value that an application adds to a record. The key is never null.
type Header struct {
	Key   string
	Value []byte
}

var (
	errRecordsEnd  = &Malformed{Reason: "the records end early"}
	errRecordsMore = &Malformed{Reason: "bytes follow the last record"}
	errRecord      = &Malformed{Reason: "a record's lengths contradict each other"}
)

// Records walks the batch. Compressed batches are streamed, and end with a *compress.LimitError beyond maxDecompressed bytes.
// What a record holds is valid until the next step, header keys excepted. An error is yielded once, as the last step; bytes
// after the last record, and a count that is not met, are such errors.
func (b Batch) Records(maxDecompressed int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var headers []Header
		b.fields(maxDecompressed, func(f *fields, r Record, err error) bool {
			if err == nil {
				headers = f.readHeaders(headers[:0])
				if len(headers) > 0 {
					r.Headers = headers
				}
			}
			return yield(r, err)
		})
	}
}

// Bare is Records without the headers of the records: nothing is allocated for them.
func (b Batch) Bare(maxDecompressed int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		b.fields(maxDecompressed, func(_ *fields, r Record, err error) bool { return yield(r, err) })
	}
}

// fields calls yield with each record, without its headers, until it returns false.
func (b Batch) fields(maxDecompressed int64, yield func(*fields, Record, error) bool) {
	var s scanner
	if err := s.open(b, maxDecompressed); err != nil {
		yield(nil, Record{}, err)
		return
	}
	defer s.close()
	base, firstMs := b.BaseOffset(), b.BaseTimestampMs()
	appendTime, appendMs := b.LogAppendTime(), b.MaxTimestampMs()
	for range b.Count() {
		body, err := s.body()
		if err != nil {
			yield(nil, Record{}, err)
			return
		}
		f, err := parse(body)
		if err != nil {
			yield(nil, Record{}, err)
			return
		}
		r := Record{
			Offset: base + kafka.Offset(f.offsetDelta), TimestampMs: firstMs + f.timestampDelta,
			Key: f.key, Value: f.value,
		}
		if appendTime {
			r.TimestampMs = appendMs
		}
		if !yield(&f, r, nil) {
			return
		}
	}
	if !s.end() {
		yield(nil, Record{}, errRecordsMore)
	} else if s.src != nil && !errors.Is(s.failed, io.EOF) {
		yield(nil, Record{}, s.err())
	}
}

// body returns the next record without its length.
func (s *scanner) body() ([]byte, error) {
	length, _, ok := s.varint()
	if !ok {
		return nil, s.err()
	}
	if length < 0 {
		return nil, errRecord
	}
	body, ok := s.take(int(length))
	if !ok {
		return nil, s.err()
	}
	return body, nil
}

// fields are the parts of a record's body, none copied.
type fields struct {
	timestampDelta int64
	offsetDelta    int32
	key, value     []byte
	headerCount    int32
	headers        []byte
	afterDeltas    int // where the key's length lies in the body
}

// parse reads a record's body: every length in it must stay inside it, and together they must fill it. It does not allocate.
func parse(body []byte) (fields, error) {
	var f fields
	if len(body) < 6 { // attributes, four lengths or deltas, and the header count
		return f, errRecord
	}
	at := 1 // past the attributes, which mean nothing
	delta, n := varint64(body[at:])
	if n == 0 {
		return f, errRecord
	}
	f.timestampDelta = delta
	at += n
	offset, n := varint32(body[at:])
	if n == 0 {
		return f, errRecord
	}
	f.offsetDelta = offset
	at += n
	f.afterDeltas = at
	var ok bool
	if f.key, at, ok = bytesAt(body, at); !ok {
		return f, errRecord
	}
	if f.value, at, ok = bytesAt(body, at); !ok {
		return f, errRecord
	}
	count, n := varint32(body[at:])
	at += n
	if n == 0 || count < 0 || int(count) > (len(body)-at)/2 {
		return f, errRecord
	}
	f.headerCount, f.headers = count, body[at:]
	for range count {
		size, n := varint32(body[at:])
		at += n
		if n == 0 || size < 0 || int(size) > len(body)-at {
			return f, errRecord
		}
		at += int(size)
		if _, at, ok = bytesAt(body, at); !ok {
			return f, errRecord
		}
	}
	if at != len(body) {
		return f, errRecord
	}
	return f, nil
}

// bytesAt reads a length and that many bytes; a negative length is null.
func bytesAt(body []byte, at int) (value []byte, end int, ok bool) {
	size, n := varint32(body[at:])
	at += n
	if n == 0 || int(size) > len(body)-at {
		return nil, at, false
	}
	if size < 0 {
		return nil, at, true
	}
	end = at + int(size)
	return body[at:end:end], end, true
}

// readHeaders appends the headers, which parse has found to be whole.
func (f *fields) readHeaders(dst []Header) []Header {
	b := f.headers
	for range f.headerCount {
		size, n := varint32(b)
		key := string(b[n : n+int(size)])
		value, end, _ := bytesAt(b, n+int(size))
		b = b[end:]
		dst = append(dst, Header{Key: key, Value: value})
	}
	return dst
}

// OffsetForTime returns the first record whose timestamp is at least ms, with its timestamp: what ListOffsets answers from the
// batch that holds it. ok is false when no record is as late.
func (b Batch) OffsetForTime(ms, maxDecompressed int64) (offset kafka.Offset, timestampMs int64, ok bool, err error) {
	if b.LogAppendTime() {
		if b.MaxTimestampMs() < ms {
			return kafka.NoOffset, noTimestamp, false, nil
		}
		for r, err := range b.Records(maxDecompressed) {
			return r.Offset, r.TimestampMs, err == nil, err
		}
		return kafka.NoOffset, noTimestamp, false, nil
	}
	for r, err := range b.Records(maxDecompressed) {
		if err != nil {
			return kafka.NoOffset, noTimestamp, false, err
		}
		if r.TimestampMs >= ms {
			return r.Offset, r.TimestampMs, true, nil
		}
	}
	return kafka.NoOffset, noTimestamp, false, nil
}

// OffsetOfMaxTimestamp returns the first record that has the largest timestamp of the batch.
func (b Batch) OffsetOfMaxTimestamp(maxDecompressed int64) (offset kafka.Offset, timestampMs int64, err error) {
	if b.LogAppendTime() {
		return b.LastOffset(), b.MaxTimestampMs(), nil
	}
	offset, timestampMs = kafka.NoOffset, math.MinInt64
	for r, err := range b.Records(maxDecompressed) {
		if err != nil {
			return kafka.NoOffset, noTimestamp, err
		}
		if r.TimestampMs > timestampMs {
			offset, timestampMs = r.Offset, r.TimestampMs
		}
	}
	if offset == kafka.NoOffset {
		timestampMs = noTimestamp
	}
	return offset, timestampMs, nil
}
