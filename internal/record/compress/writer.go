package compress

import (
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Writer compresses a stream and appends to a slice. It is not safe for concurrent use.
type Writer struct {
	out     appender
	encoder encoder
	pool    *sync.Pool
}

type encoder interface {
	Write(p []byte) (int, error)
	Close() error
}

// appender is the io.Writer at the end of every encoder.
type appender struct{ bytes []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.bytes = append(a.bytes, p...)
	return len(p), nil
}

// NewWriter returns a pooled writer that appends to dst.
func NewWriter(s Spec, dst []byte) *Writer {
	pool := writers.of(s)
	w, _ := pool.Get().(*Writer)
	if w == nil {
		w = &Writer{pool: pool}
		w.encoder = newEncoder(s)
	}
	w.out.bytes = dst
	switch e := w.encoder.(type) {
	case *gzip.Writer:
		e.Reset(&w.out)
	case *lz4.Writer:
		e.Reset(&w.out)
	case *zstd.Encoder:
		e.Reset(&w.out)
	case *snappyEncoder:
		w.out.bytes = appendXerialHeader(w.out.bytes)
		e.out = &w.out
	case *plainEncoder:
		e.out = &w.out
	}
	return w
}

// Write compresses p. Writing to memory does not fail, and the encoders fail for no other reason.
func (w *Writer) Write(p []byte) (int, error) { return w.encoder.Write(p) }

// Len returns how many bytes the slice has by now; more may be waiting in the encoder.
func (w *Writer) Len() int { return len(w.out.bytes) }

// Close ends the stream and returns the slice. The writer must not be used afterwards.
func (w *Writer) Close() ([]byte, error) {
	err := w.encoder.Close()
	bytes := w.out.bytes
	w.out.bytes = nil
	w.pool.Put(w)
	return bytes, err
}

// Append compresses src and appends it to dst.
func Append(dst, src []byte, s Spec) ([]byte, error) {
	w := NewWriter(s, dst)
	_, err := w.Write(src)
	dst, closeErr := w.Close()
	if err == nil {
		err = closeErr
	}
	return dst, err
}

// pools of writers: gzip and lz4 have a pool for each level, zstd for each of its four kinds of encoder.
type writerPools struct {
	plain, snappy sync.Pool
	gzip          [gzip.BestCompression + 1]sync.Pool
	lz4           [10]sync.Pool
	zstd          [zstd.SpeedBestCompression + 1]sync.Pool
}

var writers writerPools

func (p *writerPools) of(s Spec) *sync.Pool {
	switch s.Codec {
	case Gzip:
		return &p.gzip[gzipLevel(s.Level)]
	case Snappy:
		return &p.snappy
	case LZ4:
		return &p.lz4[lz4Level(s.Level)]
	case Zstd:
		return &p.zstd[zstdLevel(s.Level)]
	}
	return &p.plain
}

func newEncoder(s Spec) encoder {
	switch s.Codec {
	case Gzip:
		e, err := gzip.NewWriterLevel(nil, gzipLevel(s.Level))
		must(err)
		return e
	case Snappy:
		return new(snappyEncoder)
	case LZ4:
		e := lz4.NewWriter(nil)
		must(e.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(lz4Levels[lz4Level(s.Level)])))
		return e
	case Zstd:
		level := zstdLevel(s.Level)
		window := 2 << 20 // as Java's zstd has at its default level
		if level > zstd.SpeedDefault {
			window = 8 << 20
		}
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
		must(err)
		return e
	}
	return new(plainEncoder)
}

// must stops on an option that the encoder does not know: they are constants of this file.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func gzipLevel(level int) int {
	if level < 1 || level > gzip.BestCompression {
		return 6
	}
	return level
}

var lz4Levels = [10]lz4.CompressionLevel{
	lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9,
}

// lz4Level maps Kafka's levels 1 to 17 to ours: 9 is Kafka's default and means its fast compressor, so it is 0 here.
func lz4Level(level int) int {
	switch {
	case level < 1 || level == 9:
		return 0
	case level > 9:
		return 9
	}
	return level
}

func zstdLevel(level int) zstd.EncoderLevel {
	if level == 0 {
		return zstd.SpeedDefault
	}
	return zstd.EncoderLevelFromZstd(level)
}

type plainEncoder struct{ out *appender }

func (e *plainEncoder) Write(p []byte) (int, error) { return e.out.Write(p) }
func (e *plainEncoder) Close() error                { return nil }

// snappyEncoder gathers blocks of xerial's size.
type snappyEncoder struct {
	out   *appender
	block []byte
}

func (e *snappyEncoder) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), xerialBlock-len(e.block))
		e.block = append(e.block, p[:take]...)
		p = p[take:]
		if len(e.block) == xerialBlock {
			e.flush()
		}
	}
	return n, nil
}

func (e *snappyEncoder) flush() {
	e.out.bytes = appendSnappyBlock(e.out.bytes, e.block)
	e.block = e.block[:0]
}

func (e *snappyEncoder) Close() error {
	if len(e.block) > 0 {
		e.flush()
	}
	return nil
}
