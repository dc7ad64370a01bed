package compress

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// gzipPiece is how much the gzip source decodes at a time: its window again, so it stays in the processor's cache.
const gzipPiece = 32 << 10

type gzipSource struct {
	in      bytes.Reader
	decoder *gzip.Reader
	piece   []byte
}

func (s *gzipSource) reset(payload []byte, _ int64) error {
	s.in.Reset(payload)
	if s.decoder != nil {
		return s.decoder.Reset(&s.in)
	}
	decoder, err := gzip.NewReader(&s.in)
	if err != nil {
		return err
	}
	s.decoder, s.piece = decoder, make([]byte, gzipPiece)
	return nil
}

func (s *gzipSource) next(int64) ([]byte, error) {
	n, err := io.ReadFull(s.decoder, s.piece)
	if errors.Is(err, io.ErrUnexpectedEOF) && s.in.Len() == 0 {
		// ReadFull says so of a short last piece as well as of a torn stream: the decoder knows which.
		if _, again := s.decoder.Read(s.piece[n:]); errors.Is(again, io.EOF) {
			err = io.EOF
		}
	}
	return s.piece[:n], err
}

func (s *gzipSource) release()   { s.in.Reset(nil) }
func (s *gzipSource) keep() bool { return s.decoder != nil }

func (s *gzipSource) memory() int64 { return 0 }
