package compress

import (
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
	errSnappyFrame = errors.New("a block's length is beyond the payload")
	errSnappyRatio = errors.New("a block claims more than snappy can hold")
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

// snappyMemory is the largest block that the payload claims.
func snappyMemory(payload []byte) int64 {
	var s snappySource
	largest := 0
	if s.reset(payload, 0) != nil {
		return 0
	}
	for len(s.in) > 0 {
		packed, err := s.cut()
		if err != nil {
			break
		}
		if size, err := s2.DecodedLen(packed); err == nil && size <= snappyRatio*len(packed) {
			largest = max(largest, size)
		}
	}
	return int64(largest)
}
