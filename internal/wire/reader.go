package wire

import (
	"encoding/binary"
	"math"
)

// reader takes primitive values off the front of src. Once something was missing, bad is set and every value is zero.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) fail() { r.src, r.bad = nil, true }

// span returns the next n bytes, without spare capacity, or nil when they are not there.
func (r *reader) span(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.fail()
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) int8() int8 {
	if len(r.src) < 1 {
		r.fail()
		return 0
	}
	v := int8(r.src[0])
	r.src = r.src[1:]
	return v
}

func (r *reader) int16() int16 {
	if len(r.src) < 2 {
		r.fail()
		return 0
	}
	v := int16(binary.BigEndian.Uint16(r.src))
	r.src = r.src[2:]
	return v
}

func (r *reader) int32() int32 {
	if len(r.src) < 4 {
		r.fail()
		return 0
	}
	v := int32(binary.BigEndian.Uint32(r.src))
	r.src = r.src[4:]
	return v
}

func (r *reader) int64() int64 {
	if len(r.src) < 8 {
		r.fail()
		return 0
	}
	v := int64(binary.BigEndian.Uint64(r.src))
	r.src = r.src[8:]
	return v
}

func (r *reader) uuid() (id [16]byte) {
	copy(id[:], r.span(len(id)))
	return id
}

// uvarint reads at most five bytes, as Kafka does for lengths and tags.
func (r *reader) uvarint() uint32 {
	if len(r.src) > 0 && r.src[0] < 0x80 {
		v := uint32(r.src[0])
		r.src = r.src[1:]
		return v
	}
	var v uint32
	for i, b := range r.src {
		if i == 5 || i == 4 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.src = r.src[i+1:]
			return v
		}
	}
	r.fail()
	return 0
}

// length reads the length of bytes or an array: -1 is null.
func (r *reader) length(flexible bool) int {
	if flexible {
		return int(r.uvarint()) - 1
	}
	return int(r.int32())
}

// stringLength reads the length of a string: -1 is null. A compact string could be longer than any other; Kafka takes none that
// is, and what it is copied into, as a record of a group, has no room for it.
func (r *reader) stringLength(flexible bool) int {
	if !flexible {
		return int(r.int16())
	}
	n := int(r.uvarint()) - 1
	if n > math.MaxInt16 {
		r.fail()
		return 0
	}
	return n
}

// string returns the bytes of a string that must not be null.
func (r *reader) string(flexible bool) []byte { return r.span(r.stringLength(flexible)) }

// nullableString returns nil for null, and never nil for an empty string.
func (r *reader) nullableString(flexible bool) []byte {
	n := r.stringLength(flexible)
	if n < 0 { // Kafka takes every negative length for null
		return nil
	}
	return r.span(n)
}

// nullableBytes returns nil for null, and never nil for no bytes.
func (r *reader) nullableBytes(flexible bool) []byte {
	n := r.length(flexible)
	if n < 0 {
		return nil
	}
	return r.span(n)
}

// count reads the length of an array that must not be null, each of whose elements takes at least elementBytesMin.
func (r *reader) count(flexible bool, elementBytesMin int) int {
	n := r.length(flexible)
	if n < 0 || n > len(r.src)/elementBytesMin {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) skipTags() {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		r.span(int(r.uvarint()))
	}
}

// tagsIf skips the tags that flexible versions have.
func (r *reader) tagsIf(flexible bool) {
	if flexible {
		r.skipTags()
	}
}

// tag reads one tagged field of the many that a preceding uvarint announced.
func (r *reader) tag() (tag uint32, content reader) {
	tag = r.uvarint()
	return tag, reader{src: r.span(int(r.uvarint()))}
}

// ends fails r when too little was in a field of its.
func (r *reader) ends(content *reader) {
	if content.bad {
		r.fail()
	}
}
