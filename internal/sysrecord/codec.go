package sysrecord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Tag is a tagged field that this build does not know. It is written back as it was read.
type Tag struct {
	ID   uint32
	Body []byte
}

// ErrVersion is the cause of an error about a version that this build cannot read.
var ErrVersion = errors.New("unknown version")

// MalformedError says where the bytes of a record make no sense.
type MalformedError struct {
	Record string
	At     int
	Reason string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("malformed %s at byte %d: %s", e.Record, e.At, e.Reason)
}

func readRecord(v Record, src []byte, version int16) error {
	r := &reader{rest: src, record: v.RecordName(), total: len(src)}
	if lowest, highest := v.Versions(); version < lowest || version > highest {
		return fmt.Errorf("%s version %d, want %d to %d: %w", v.RecordName(), version, lowest, highest, ErrVersion)
	}
	v.read(r, version)
	return r.err()
}

// appendCount appends the length of an array, compact when flexible.
func appendCount(dst []byte, n int, null, flexible bool) []byte {
	switch {
	case flexible && null:
		return append(dst, 0)
	case flexible:
		return binary.AppendUvarint(dst, uint64(n)+1)
	case null:
		return appendInt32(dst, int32(-1))
	}
	return appendInt32(dst, int32(n))
}

func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		invariant.Check(len(s) <= math.MaxInt16, "string of %d bytes in a record", len(s))
		dst = appendInt16(dst, int16(len(s)))
	}
	return append(dst, s...)
}

func appendNullableString(dst []byte, s *string, flexible bool) []byte {
	switch {
	case s != nil:
		return appendString(dst, *s, flexible)
	case flexible:
		return append(dst, 0)
	}
	return appendInt16(dst, int16(-1))
}

func appendBytes(dst, b []byte, flexible bool) []byte {
	return append(appendCount(dst, len(b), false, flexible), b...)
}

func appendNullableBytes(dst, b []byte, flexible bool) []byte {
	return append(appendCount(dst, len(b), b == nil, flexible), b...)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendInt8[T ~int8](dst []byte, v T) []byte { return append(dst, byte(v)) }

func appendInt16[T ~int16](dst []byte, v T) []byte {
	return binary.BigEndian.AppendUint16(dst, uint16(v))
}

func appendUint16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }

func appendInt32[T ~int32](dst []byte, v T) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v))
}

func appendInt64[T ~int64](dst []byte, v T) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v))
}

func appendFloat64(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
}

// appendTags appends known and unknown tagged fields in the order of their ids; each list is sorted already.
func appendTags(dst []byte, known, unknown []Tag) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(known)+len(unknown)))
	for len(known) > 0 || len(unknown) > 0 {
		from := &known
		if len(known) == 0 || len(unknown) > 0 && unknown[0].ID < known[0].ID {
			from = &unknown
		}
		tag := (*from)[0]
		*from = (*from)[1:]
		dst = binary.AppendUvarint(dst, uint64(tag.ID))
		dst = binary.AppendUvarint(dst, uint64(len(tag.Body)))
		dst = append(dst, tag.Body...)
	}
	return dst
}

// reader takes a record apart. After the first fault it returns zero values, and err tells the fault.
type reader struct {
	rest   []byte
	record string
	total  int
	fault  *MalformedError

	keep bool // what keepTag asked for
}

func (r *reader) err() error {
	if r.fault == nil {
		return nil
	}
	return r.fault
}

func (r *reader) fail(reason string) {
	if r.fault == nil {
		r.fault = &MalformedError{Record: r.record, At: r.total - len(r.rest), Reason: reason}
	}
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail("ends too early")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) bool() bool { return r.int8() != 0 }

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) int16() int16 { return int16(r.uint16()) }

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) float64() float64 { return math.Float64frombits(uint64(r.int64())) }

func (r *reader) uuid() kafka.UUID {
	var u kafka.UUID
	copy(u[:], r.take(len(u)))
	return u
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > math.MaxUint32 {
		r.fail("varint")
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// length reads the length of an array or of bytes: -1 is null.
func (r *reader) length(flexible bool) int {
	if flexible {
		return int(r.uvarint()) - 1
	}
	return int(r.int32())
}

func (r *reader) nullableString(flexible bool) *string {
	var n int
	if flexible {
		n = int(r.uvarint()) - 1
	} else {
		n = int(r.int16())
	}
	if n == -1 {
		return nil
	}
	s := string(r.take(n))
	return &s
}

func (r *reader) string(flexible bool) string {
	s := r.nullableString(flexible)
	if s == nil {
		r.fail("null where a string must be")
		return ""
	}
	return *s
}

func (r *reader) nullableBytes(flexible bool) []byte {
	n := r.length(flexible)
	if n == -1 {
		return nil
	}
	return append([]byte{}, r.take(n)...)
}

func (r *reader) bytes(flexible bool) []byte {
	b := r.nullableBytes(flexible)
	if b == nil {
		r.fail("null where bytes must be")
	}
	return b
}

// present reads the mark before a nullable structure that is not a tagged field: there, null is 0.
func (r *reader) present() bool { return r.int8() >= 0 && r.fault == nil }

// readArray reads an array whose elements take at least elementBytes each, so that a claimed count is refused when the
// record cannot hold it.
func readArray[T any](r *reader, flexible, nullable bool, elementBytes int, read func(*T)) []T {
	n := r.length(flexible)
	switch {
	case n == -1 && nullable:
		return nil
	case n < 0 && r.fault == nil:
		r.fail("null or negative length where an array must be")
	case n > len(r.rest)/elementBytes:
		r.fail("array longer than the record")
	}
	if r.fault != nil {
		return nil
	}
	items := make([]T, 0, min(n, 128)) // grows with what was really read
	for ; n > 0 && r.fault == nil; n-- {
		var item T
		read(&item)
		items = append(items, item)
	}
	return items
}

// tags yields the id of each tagged field, with r set to its body, and puts those for which the loop calls keepTag into
// unknown.
func (r *reader) tags(unknown *[]Tag) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		count := r.uvarint()
		for last := int64(-1); count > 0 && r.fault == nil; count-- {
			id := r.uvarint()
			body := r.take(int(r.uvarint()))
			if int64(id) <= last {
				r.fail("tagged fields out of order")
			}
			if r.fault != nil {
				return
			}
			last = int64(id)
			after, total := r.rest, r.total
			r.rest, r.total, r.keep = body, total-len(after), false
			if !yield(id) {
				return
			}
			if r.fault != nil {
				return
			}
			if r.keep {
				*unknown = append(*unknown, Tag{ID: id, Body: append([]byte{}, body...)})
			}
			r.rest, r.total = after, total
		}
	}
}

func (r *reader) unknownTags(unknown *[]Tag) {
	for range r.tags(unknown) {
		r.keepTag()
	}
}

func (r *reader) keepTag() { r.keep = true }
