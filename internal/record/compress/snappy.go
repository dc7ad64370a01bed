package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Java's snappy streams begin with this, then hold blocks that each follow their length.
var xerialMagic = [8]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderBytes = 16 // the magic, a version and the oldest version that can read it
	xerialBlock       = 32 << 10
	snappyRatio       = 64      // no block holds more for each of its bytes
	snappyKept        = 1 << 20 // a larger block buffer is not kept for the next payload
)

var (
	errSnappyFrame  = errors.New("a block's length is beyond the payload")
	errSnappyRepeat = errors.New("a copy without an offset, which only S2 has")
	errSnappyRatio  = errors.New("a block claims more than snappy can hold")
)

// snappySource reads xerial's framing, and a payload without its header as one raw block, which some clients write. A block
// is decoded as a whole: memory is the largest block's, and a raw block claims its size before it is decoded.
type snappySource struct {
	in    []byte
	raw   bool
	block []byte
}

func (s *snappySource) reset(payload []byte, _ int64) error {
	s.in, s.raw = payload, true
	if len(payload) >= xerialHeaderBytes && [8]byte(payload) == xerialMagic {
		s.in, s.raw = payload[xerialHeaderBytes:], false
	}
	return nil
}

func (s *snappySource) next(limit int64) ([]byte, error) {
	if len(s.in) == 0 {
		return nil, io.EOF
	}
	packed, err := s.cut()
	if err != nil {
		return nil, err
	}
	size, err := s2.DecodedLen(packed)
	if err != nil {
		return nil, err
	}
	if int64(size) > limit {
		return nil, &LimitError{Limit: limit}
	}
	// A copy of at most 64 bytes takes at least two: no honest block claims more, and no other is given memory.
	if size > snappyRatio*len(packed) {
		return nil, errSnappyRatio
	}
	if mayRepeat(packed) && repeats(packed) {
		return nil, errSnappyRepeat
	}
	if cap(s.block) < size {
		s.block = make([]byte, max(size, xerialBlock))
	}
	return s2.Decode(s.block[:cap(s.block)], packed)
}

// cut takes the next compressed block off the payload.
func (s *snappySource) cut() ([]byte, error) {
	if s.raw {
		packed := s.in
		s.in = nil
		return packed, nil
	}
	if len(s.in) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	length := int64(binary.BigEndian.Uint32(s.in))
	if length > int64(len(s.in)-4) {
		return nil, errSnappyFrame
	}
	packed := s.in[4 : 4+length]
	s.in = s.in[4+length:]
	return packed, nil
}

func (s *snappySource) release() {
	s.in = nil
	if cap(s.block) > snappyKept {
		s.block = nil
	}
}

func (s *snappySource) keep() bool { return true }

// memory is the largest block that the payload claims.
func (s *snappySource) memory() int64 {
	if len(s.in)*snappyRatio < largeBytes {
		return 0
	}
	walk, largest := snappySource{in: s.in, raw: s.raw}, 0
	for len(walk.in) > 0 {
		packed, err := walk.cut()
		if err != nil {
			break
		}
		if size, err := s2.DecodedLen(packed); err == nil && size <= snappyRatio*len(packed) {
			largest = max(largest, size)
		}
	}
	return int64(largest)
}

// mayRepeat tells whether the block has two bytes in a row that could be S2's repeat code. Our decoder reads S2, and would let a
// block pass that no snappy reader takes; few blocks have such bytes, so few are looked at in full.
func mayRepeat(block []byte) bool {
	for at := 1; at < len(block); at++ {
		zero := bytes.IndexByte(block[at:], 0)
		if zero < 0 {
			return false
		}
		at += zero
		if block[at-1]&0xe3 == snappyCopy1 {
			return true
		}
	}
	return false
}

// The low two bits of an element's first byte.
const (
	snappyLiteral = 0
	snappyCopy1   = 1
	snappyCopy2   = 2
)

// repeats walks the block's elements and tells whether one is a copy of offset 0. It says false of a block that is broken: the
// decoder will find out.
func repeats(block []byte) bool {
	_, at := binary.Uvarint(block)
	for at >= 0 && at < len(block) {
		tag := block[at]
		switch tag & 3 {
		case snappyLiteral:
			length := int(tag >> 2)
			at++
			if extra := length - 59; extra > 0 {
				length = 0
				for i := range extra {
					if at+i < len(block) {
						length |= int(block[at+i]) << (8 * i)
					}
				}
				at += extra
			}
			at += length + 1
		case snappyCopy1:
			if at+1 < len(block) && tag&0xe0 == 0 && block[at+1] == 0 {
				return true
			}
			at += 2
		case snappyCopy2:
			at += 3
		default:
			at += 5
		}
	}
	return false
}

// appendSnappyBlock compresses one block, at most xerialBlock long, and puts its length before it.
func appendSnappyBlock(dst, block []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(block)))
	packed := s2.EncodeSnappy(dst[at+4:cap(dst)], block)
	binary.BigEndian.PutUint32(dst[at:at+4], uint32(len(packed)))
	return dst[:at+4+len(packed)]
}

func appendXerialHeader(dst []byte) []byte {
	dst = append(dst, xerialMagic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	return binary.BigEndian.AppendUint32(dst, 1)
}
