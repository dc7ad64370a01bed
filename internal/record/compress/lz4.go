package compress

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/pierrec/lz4/v4"
)

// lz4Source reads one lz4 frame of independent blocks, the only kind that Kafka's Java client reads: whatever follows its end
// mark is passed over, and a frame that it would not read is refused, not kept for it to stumble over.
type lz4Source struct {
	in            []byte
	blockMax      int
	blockChecksum bool
	block         []byte
}

const (
	lz4Magic          = 0x184d2204
	lz4Uncompressed   = 1 << 31
	lz4KeptBlock      = 256 << 10
	lz4FlagVersion    = 0xc0
	lz4FlagIndep      = 0x20
	lz4FlagBlockSum   = 0x10
	lz4FlagSize       = 0x08
	lz4FlagReserved   = 0x02
	lz4FlagDictionary = 0x01
)

var (
	errLZ4Magic    = errors.New("no frame begins here")
	errLZ4Header   = errors.New("unsupported frame descriptor")
	errLZ4Checksum = errors.New("checksum of the frame descriptor or of a block does not match")
	errLZ4Block    = errors.New("a block is longer than the frame allows")
)

func (s *lz4Source) reset(payload []byte, _ int64) error {
	s.in = nil
	if len(payload) < 7 {
		return io.ErrUnexpectedEOF
	}
	if binary.LittleEndian.Uint32(payload) != lz4Magic {
		return errLZ4Magic
	}
	flags, size := payload[4], payload[5]
	if flags&lz4FlagVersion != 0x40 || flags&lz4FlagIndep == 0 || flags&(lz4FlagReserved|lz4FlagDictionary) != 0 ||
		size&0x8f != 0 || size < 0x40 {
		return errLZ4Header
	}
	end := 6
	if flags&lz4FlagSize != 0 {
		end += 8
	}
	if len(payload) <= end {
		return io.ErrUnexpectedEOF
	}
	if byte(xxh32(payload[4:end])>>8) != payload[end] {
		return errLZ4Checksum
	}
	s.blockMax = 1 << (8 + 2*(size>>4))
	s.blockChecksum = flags&lz4FlagBlockSum != 0
	s.in = payload[end+1:]
	return nil
}

func (s *lz4Source) next(int64) ([]byte, error) {
	if len(s.in) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	head := binary.LittleEndian.Uint32(s.in)
	if head == 0 { // the end mark; a checksum of the content may follow, which Kafka does not check either
		return nil, io.EOF
	}
	s.in = s.in[4:]
	size := int(head &^ lz4Uncompressed)
	if size > s.blockMax {
		return nil, errLZ4Block
	}
	whole := size
	if s.blockChecksum {
		whole += 4
	}
	if len(s.in) < whole {
		return nil, io.ErrUnexpectedEOF
	}
	packed := s.in[:size]
	if s.blockChecksum && xxh32(packed) != binary.LittleEndian.Uint32(s.in[size:]) {
		return nil, errLZ4Checksum
	}
	s.in = s.in[whole:]
	if head&lz4Uncompressed != 0 {
		return packed, nil
	}
	if cap(s.block) < s.blockMax {
		s.block = make([]byte, s.blockMax)
	}
	n, err := lz4.UncompressBlock(packed, s.block[:s.blockMax])
	if err != nil {
		return nil, err
	}
	return s.block[:n], nil
}

func (s *lz4Source) release() {
	s.in = nil
	if cap(s.block) > lz4KeptBlock {
		s.block = nil
	}
}

func (s *lz4Source) keep() bool { return true }

func (s *lz4Source) memory() int64 { return 0 }

// xxh32 is the 32-bit xxHash with seed 0, which lz4 frames use.
func xxh32(b []byte) uint32 {
	const (
		prime1 uint32 = 2654435761
		prime2 uint32 = 2246822519
		prime3 uint32 = 3266489917
		prime4 uint32 = 668265263
		prime5 uint32 = 374761393
	)
	rotate := func(x uint32, by int) uint32 { return x<<by | x>>(32-by) }
	total := uint32(len(b))
	hash := prime5
	if len(b) >= 16 {
		lanes := [4]uint32{prime1, prime2, 0, 0}
		lanes[0] += prime2
		lanes[3] -= prime1
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] = rotate(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*prime2, 13) * prime1
			}
		}
		hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18)
	}
	hash += total
	for ; len(b) >= 4; b = b[4:] {
		hash = rotate(hash+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		hash = rotate(hash+uint32(c)*prime5, 11) * prime1
	}
	hash ^= hash >> 15
	hash *= prime2
	hash ^= hash >> 13
	hash *= prime3
	return hash ^ hash>>16
}
