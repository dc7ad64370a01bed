package compress

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdBlockMax    = 128 << 10 // no zstd block holds more
	zstdWholeMax    = 1 << 20   // a payload that can't hold more is decoded at once, without a window of its own
	zstdKeptWindow  = 8 << 20   // a decoder that has held a larger window is not kept
	zstdPiece       = 64 << 10
	zstdRLEBlock    = 1
	zstdPackedBlock = 2
)

var (
	errZstdHeader = errors.New("a frame's or a block's header is cut short")
	errZstdBlock  = errors.New("a block is longer than zstd allows")
	errZstdSize   = errors.New("a frame holds less than it declares")
)

// zstdSource decodes small payloads at once and streams large ones. Before either it walks the block headers, which cost
// nothing to read and bound what the payload can hold: a frame of a few bytes that declares a window of 128 MiB gets memory
// for what it holds, not for what it says.
type zstdSource struct {
	decoder *zstd.Decoder
	in      patchedReader
	payload []byte // set when it is to be decoded at once
	stream  bool
	window  uint64
	whole   []byte
	piece   []byte
}

func (s *zstdSource) reset(payload []byte, limit int64) error {
	s.stream, s.payload, s.window = false, nil, 0
	bound, err := s.survey(payload, limit)
	if err != nil {
		return err
	}
	if s.decoder == nil {
		s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(WindowMax))
		if err != nil {
			return err
		}
	}
	if bound <= zstdWholeMax {
		s.payload = payload
		if cap(s.whole) < int(bound) {
			s.whole = make([]byte, 0, bound)
		}
		return nil
	}
	s.stream = true
	if s.piece == nil {
		s.piece = make([]byte, zstdPiece)
	}
	return s.decoder.Reset(&s.in)
}

// survey walks the frames' and blocks' headers. It returns the most that the payload can hold, and notes the windows that
// exceed what their frames hold, or what of it the limit lets through, so that the decoder is told of smaller ones.
func (s *zstdSource) survey(payload []byte, limit int64) (bound int64, err error) {
	s.in.reset(payload)
	at := 0
	for at < len(payload) {
		var header zstd.Header
		if _, err := header.DecodeAndStrip(payload[at:]); err != nil {
			return 0, err
		}
		if header.Skippable {
			end := int64(at) + int64(header.HeaderSize) + int64(header.SkippableSize)
			if end > int64(len(payload)) {
				return 0, errZstdHeader
			}
			at = int(end)
			continue
		}
		window := header.WindowSize
		if header.SingleSegment {
			window = header.FrameContentSize
		}
		if window > WindowMax {
			return 0, fmt.Errorf("a window of %d bytes is declared, at most %d are allowed", window, WindowMax)
		}
		end, holds, err := surveyBlocks(payload, at+header.HeaderSize, int64(window))
		if err != nil {
			return 0, err
		}
		if header.HasFCS && int64(header.FrameContentSize) > holds {
			return 0, errZstdSize
		}
		if !header.SingleSegment {
			window = s.in.shrinkWindow(at, window, min(holds, limit))
		}
		s.window = max(s.window, window)
		if header.HasCheckSum {
			end += 4
		}
		if end > len(payload) {
			return 0, errZstdHeader
		}
		bound += holds
		at = end
	}
	return bound, nil
}

// surveyBlocks returns where the blocks from at on end, and the most that they hold.
func surveyBlocks(payload []byte, at int, window int64) (end int, holds int64, err error) {
	for last := false; !last; {
		if len(payload)-at < 3 {
			return 0, 0, errZstdHeader
		}
		header := uint32(payload[at]) | uint32(payload[at+1])<<8 | uint32(payload[at+2])<<16
		last = header&1 != 0
		size := int64(header >> 3)
		if size > zstdBlockMax {
			return 0, 0, errZstdBlock
		}
		at += 3
		switch header >> 1 & 3 {
		case zstdRLEBlock:
			holds += size
			at++
		case zstdPackedBlock:
			holds += min(zstdBlockMax, window)
			at += int(size)
		default:
			holds += size
			at += int(size)
		}
	}
	return at, holds, nil
}

func (s *zstdSource) next(limit int64) ([]byte, error) {
	if s.stream {
		n, err := s.decoder.Read(s.piece)
		return s.piece[:n], err
	}
	if len(s.payload) == 0 {
		return nil, io.EOF
	}
	whole, err := s.decoder.DecodeAll(s.payload, s.whole[:0])
	s.payload, s.whole = nil, whole
	if err != nil {
		return nil, err
	}
	return whole, io.EOF
}

func (s *zstdSource) release() {
	s.payload = nil
	s.in.reset(nil)
	if s.stream {
		// The only error is that of a closed decoder, and this one never is.
		_ = s.decoder.Reset(nil)
	}
}

func (s *zstdSource) keep() bool {
	return s.decoder != nil && cap(s.whole) <= 2*zstdWholeMax
}

func (s *zstdSource) memory() int64 {
	if !s.stream {
		return 0
	}
	return int64(s.window)
}

// patchedReader reads a borrowed payload in which some frames' window bytes are replaced.
type patchedReader struct {
	bytes.Reader
	at      int
	patches []windowPatch // by position
}

type windowPatch struct {
	at   int
	byte byte
}

func (p *patchedReader) reset(payload []byte) {
	p.Reader.Reset(payload)
	p.at, p.patches = 0, p.patches[:0]
}

// shrinkWindow tells the decoder of no larger window than the frame at the position can fill. It returns the window in force.
func (p *patchedReader) shrinkWindow(frame int, declared uint64, holds int64) uint64 {
	log := byte(17) // a smaller window would forbid blocks of the full size
	for int64(1)<<log < holds {
		log++
	}
	if window := uint64(1) << log; window < declared {
		p.patches = append(p.patches, windowPatch{at: frame + 5, byte: (log - 10) << 3})
		return window
	}
	return declared
}

// Read is the only method that the decoder calls: others would show the bytes unpatched.
func (p *patchedReader) Read(to []byte) (int, error) {
	n, err := p.Reader.Read(to)
	for len(p.patches) > 0 && p.patches[0].at < p.at+n {
		to[p.patches[0].at-p.at] = p.patches[0].byte
		p.patches = p.patches[1:]
	}
	p.at += n
	return n, err
}
