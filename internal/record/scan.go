package record

import (
	"errors"
	"io"

	"github.com/raftsman/raftsman/internal/record/compress"
)

// scanner reads the record section of a batch in memory that does not grow with it: plain bytes in place, and compressed ones
// piece by piece as the decoder gives them.
type scanner struct {
	buf    []byte // unread bytes of the current piece
	next   []byte // what follows buf in the piece, when buf is a carried record
	src    *compress.Reader
	failed error // of the decoder, or io.EOF
}

// open begins at the batch's first record. The scanner must be closed.
func (s *scanner) open(b Batch, maxDecompressed int64) error {
	codec := b.Codec()
	if codec == compress.None {
		*s = scanner{buf: b.payload(), failed: io.EOF}
		return nil
	}
	src, err := compress.NewReader(codec, b.payload(), maxDecompressed)
	if err != nil {
		return err
	}
	*s = scanner{src: src}
	return nil
}

func (s *scanner) close() {
	if s.src != nil {
		s.src.Close()
		s.src = nil
	}
}

// refill makes buf the next bytes, once it is empty. It returns false at the end and after an error.
func (s *scanner) refill() bool {
	if len(s.next) > 0 {
		s.buf, s.next = s.next, nil
		return true
	}
	if s.failed != nil {
		return false
	}
	piece, err := s.src.Next()
	if err != nil {
		s.failed = err
		return false
	}
	s.buf = piece
	return true
}

// end tells whether nothing is left.
func (s *scanner) end() bool { return len(s.buf) == 0 && !s.refill() }

// err is what went wrong where bytes were wanted and there were none: the decoder's error, or that the section is too short.
func (s *scanner) err() error {
	if s.failed == nil || errors.Is(s.failed, io.EOF) {
		return errRecordsEnd
	}
	return s.failed
}

func (s *scanner) byte() (byte, bool) {
	if len(s.buf) == 0 && !s.refill() {
		return 0, false
	}
	c := s.buf[0]
	s.buf = s.buf[1:]
	return c, true
}

// take returns the next n bytes in one piece, valid until the next call of any method. Memory grows with the bytes that come,
// not with n.
func (s *scanner) take(n int) ([]byte, bool) {
	if n <= len(s.buf) {
		taken := s.buf[:n:n]
		s.buf = s.buf[n:]
		return taken, true
	}
	if s.src == nil {
		s.buf = nil
		return nil, false
	}
	carry := append(s.src.Carry[:0], s.buf...)
	s.buf = nil
	for len(carry) < n {
		if !s.refill() {
			s.src.Carry = carry
			return nil, false
		}
		part := s.buf[:min(n-len(carry), len(s.buf))]
		carry = append(carry, part...)
		s.buf = s.buf[len(part):]
	}
	s.src.Carry = carry
	return carry[:n:n], true
}

// skip passes over n bytes.
func (s *scanner) skip(n int) bool {
	for n > len(s.buf) {
		n -= len(s.buf)
		s.buf = nil
		if !s.refill() {
			return false
		}
	}
	s.buf = s.buf[n:]
	return true
}

// varint reads a zigzag varint of at most 32 bits and counts its bytes.
func (s *scanner) varint() (value int32, size int, ok bool) {
	if len(s.buf) > 0 && s.buf[0] < 0x80 {
		c := s.buf[0]
		s.buf = s.buf[1:]
		return int32(c>>1) ^ -int32(c&1), 1, true
	}
	var u uint32
	for size < 5 {
		c, more := s.byte()
		if !more {
			return 0, size, false
		}
		u |= uint32(c&0x7f) << (7 * size)
		size++
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), size, true
		}
	}
	return 0, size, false
}

// varlong reads a zigzag varint of at most 64 bits and counts its bytes.
func (s *scanner) varlong() (value int64, size int, ok bool) {
	var u uint64
	for size < 10 {
		c, more := s.byte()
		if !more {
			return 0, size, false
		}
		u |= uint64(c&0x7f) << (7 * size)
		size++
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), size, true
		}
	}
	return 0, size, false
}

// quick reads the record at the front of b: its length, and the body as parse does, but only what admission asks of it. It
// returns n = 0 where the record is not whole, not sound, or has headers: those go the long way, which finds out.
//
// Nearly every record has no number that is longer than two bytes.
func quick(b []byte) (timestampDelta int64, offsetDelta int32, hasKey bool, n int) {
	const shortest = 10 // bytes of b and of the body that the first numbers are sure to find
	if len(b) < shortest {
		return quickLong(b)
	}
	u, at, long := short(b, 0)
	length := int(unzig(u))
	if long != 0 || length < shortest || length > len(b)-at {
		return quickLong(b)
	}
	body := b[at : at+length]
	delta, i, long := short(body, 1)
	offset, i, longOffset := short(body, i)
	key, i, longKey := short(body, i)
	i += int(max(unzig(key), 0))
	if i+2 > len(body) {
		return quickLong(b)
	}
	value, i, longValue := short(body, i)
	i += int(max(unzig(value), 0))
	if long|longOffset|longKey|longValue != 0 || i != len(body)-1 || body[i] != 0 {
		return quickLong(b)
	}
	return int64(unzig(delta)), unzig(offset), unzig(key) >= 0, at + length
}

// short reads a varint of one or two bytes at a place of b, which must have two bytes there, and returns where it ends. long
// is not 0 when it has more.
func short(b []byte, at int) (u uint32, end int, long uint32) {
	if u = uint32(b[at]); u < 0x80 {
		return u, at + 1, 0
	}
	second := uint32(b[at+1])
	return u&0x7f | second&0x7f<<7, at + 2, second & 0x80
}

func unzig(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }

// quickLong is quick for numbers of any length.
func quickLong(b []byte) (timestampDelta int64, offsetDelta int32, hasKey bool, n int) {
	length, at := zig(b, 0)
	if length < 6 || at > len(b) || int(length) > len(b)-at {
		return 0, 0, false, 0
	}
	body := b[at : at+int(length)]
	delta, i := zig64(body, 1)
	offsetDelta, i = zig(body, i)
	keySize, i := zig(body, i)
	valueSize, i := zig(body, i+int(max(keySize, 0)))
	headers, i := zig(body, i+int(max(valueSize, 0)))
	if headers != 0 || i != len(body) {
		return 0, 0, false, 0
	}
	return delta, offsetDelta, keySize >= 0, at + len(body)
}

// zig reads a zigzag varint at a place of b and returns where it ends: beyond b's end when there is none.
func zig(b []byte, at int) (int32, int) {
	if uint(at) < uint(len(b)) {
		b := b[at:]
		if b[0] < 0x80 {
			return int32(b[0]>>1) ^ -int32(b[0]&1), at + 1
		}
		if len(b) > 1 && b[1] < 0x80 {
			u := uint32(b[0]&0x7f) | uint32(b[1])<<7
			return int32(u>>1) ^ -int32(u&1), at + 2
		}
		if value, n := varint32(b); n > 0 {
			return value, at + n
		}
	}
	return 0, len(b) + 1
}

func zig64(b []byte, at int) (int64, int) {
	if uint(at) < uint(len(b)) {
		b := b[at:]
		if b[0] < 0x80 {
			return int64(b[0]>>1) ^ -int64(b[0]&1), at + 1
		}
		if value, n := varint64(b); n > 0 {
			return value, at + n
		}
	}
	return 0, len(b) + 1
}

// varint32 reads a zigzag varint at the front of b; it returns 0 for the length when there is none.
func varint32(b []byte) (value int32, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int32(b[0]>>1) ^ -int32(b[0]&1), 1
	}
	var u uint32
	for i := 0; i < len(b) && i < 5; i++ {
		u |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	return 0, 0
}

func varint64(b []byte) (value int64, size int) {
	var u uint64
	for i := 0; i < len(b) && i < 10; i++ {
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func varintBytes(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
