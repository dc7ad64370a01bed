package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	stdgzip "compress/gzip"
)

var codecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// text compresses about as records do.
func text(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `{"order":%d,"customer":"c-%d","total":%d}`, i, i*7919%10007, i*i%99991)
	}
	return b.Bytes()[:n]
}

var sizes = []int{0, 1, 100, 32 << 10, 32<<10 + 1, 64 << 10, 64<<10 + 1, 300_000, 3 << 20}

func TestRoundTrip(t *testing.T) {
	for _, c := range codecs {
		for _, level := range []int{0, 1, 9, 22} {
			for _, n := range sizes {
				if level > 1 && n > 1<<20 {
					continue // slow, and nothing new
				}
				src := text(n)
				packed, err := Append([]byte("before"), src, Spec{Codec: c, Level: level})
				if err != nil {
					t.Fatalf("%s level %d, %d bytes: %v", c, level, n, err)
				}
				packed, ok := bytes.CutPrefix(packed, []byte("before"))
				if !ok {
					t.Fatalf("%s level %d, %d bytes: what was there before is gone", c, level, n)
				}
				got, err := Decompress(nil, c, packed, int64(n))
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%s level %d: %d bytes came back as %d, %v", c, level, n, len(got), err)
				}
			}
		}
	}
}

func TestReadsInPiecesAndStopsAtTheLimit(t *testing.T) {
	for _, c := range codecs {
		src := text(3 << 20)
		packed, err := Append(nil, src, Spec{Codec: c})
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(c, packed, int64(len(src)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %d bytes came back as %d, %v", c, len(src), len(got), err)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after the end: %v, want %v", c, err, io.EOF)
		}
		r.Close()
		for _, limit := range []int64{0, 1, 1000, int64(len(src)) - 1} {
			got, err := Decompress(nil, c, packed, limit)
			if limitErr, ok := errors.AsType[*LimitError](err); !ok || limitErr.Limit != limit {
				t.Errorf("%s limited to %d: %v, want a LimitError", c, limit, err)
			}
			if int64(len(got)) > limit {
				t.Errorf("%s limited to %d gave %d bytes", c, limit, len(got))
			}
		}
	}
}

// TestFranzGoAgrees exchanges payloads with another client's codecs, both ways.
func TestFranzGoAgrees(t *testing.T) {
	theirs := map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	}
	decompressor := kgo.DefaultDecompressor()
	for _, c := range codecs[1:] {
		compressor, err := kgo.DefaultCompressor(theirs[c])
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range sizes[1:] {
			src := text(n)
			packed, as := compressor.Compress(new(bytes.Buffer), src)
			if Codec(as) != c {
				continue // it found the payload not worth compressing
			}
			if got, err := Decompress(nil, c, packed, int64(n)); err != nil || !bytes.Equal(got, src) {
				t.Errorf("%s, %d bytes of theirs came as %d, %v", c, n, len(got), err)
			}
			packed, err := Append(nil, src, Spec{Codec: c})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := decompressor.Decompress(packed, kgo.CompressionCodecType(c)); err != nil || !bytes.Equal(got, src) {
				t.Errorf("%s, %d bytes of ours came as %d, %v", c, n, len(got), err)
			}
		}
	}
}

func TestGzipOfSeveralMembers(t *testing.T) {
	var b bytes.Buffer
	for _, part := range []string{"one,", "", "two"} {
		w := stdgzip.NewWriter(&b)
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Decompress(nil, Gzip, b.Bytes(), 100); err != nil || string(got) != "one,two" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSnappyAsOneRawBlock(t *testing.T) {
	for _, n := range []int{1, 10, 100_000, 3 << 20} {
		src := text(n)
		if got, err := Decompress(nil, Snappy, s2.EncodeSnappy(nil, src), int64(n)); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%d bytes came as %d, %v", n, len(got), err)
		}
	}
}

// TestSnappyRefusesS2: what only S2 readers understand must not be stored for others to find.
func TestSnappyRefusesS2(t *testing.T) {
	// 13 bytes: the literal "ab", a copy of 4 from 2 back, then S2's repeat code for 7 more.
	block := []byte{13, 1 << 2, 'a', 'b', 0<<2 | snappyCopy1, 2, 3<<2 | snappyCopy1, 0}
	if got, err := s2.Decode(nil, block); err != nil || len(got) != 13 {
		t.Fatalf("the test's own block: %d bytes, %v", len(got), err)
	}
	if got, err := Decompress(nil, Snappy, block, 100); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%d bytes, %v; want %v", len(got), err, ErrCorrupt)
	}
	zeros := bytes.Repeat([]byte{1, 0, 5, 0}, 20_000)
	if got, err := Decompress(nil, Snappy, s2.EncodeSnappy(nil, zeros), 1<<20); err != nil || !bytes.Equal(got, zeros) {
		t.Errorf("bytes that look like the code: %d of %d, %v", len(got), len(zeros), err)
	}
}

func TestZstdOfSeveralFrames(t *testing.T) {
	src := text(700_000)
	one, err := Append(nil, src, Spec{Codec: Zstd})
	if err != nil {
		t.Fatal(err)
	}
	skippable := append([]byte{0x52, 0x2a, 0x4d, 0x18, 5, 0, 0, 0}, "ahoy!"...)
	for _, frames := range [][][]byte{{one, skippable}, {skippable, one, one}, {one, skippable, one, one, one, skippable}} {
		payload := bytes.Join(frames, nil)
		want := bytes.Count(payload, []byte{0x28, 0xb5, 0x2f, 0xfd}) * len(src)
		if got, err := Decompress(nil, Zstd, payload, int64(want)); err != nil || len(got) != want {
			t.Errorf("%d frames: %d bytes, %v; want %d", len(frames), len(got), err, want)
		}
	}
}

// zstdFrame makes a frame by hand: a window and blocks.
func zstdFrame(windowLog byte, blocks ...[]byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (windowLog - 10) << 3}
	return append(b, bytes.Join(blocks, nil)...)
}

func zstdBlock(kind, size uint32, last bool, content ...byte) []byte {
	h := kind<<1 | size<<3
	if last {
		h |= 1
	}
	return append([]byte{byte(h), byte(h >> 8), byte(h >> 16)}, content...)
}

// TestZstdWindowOfJavasHighestLevel: a window of 128 MiB is honest, and one more is not.
func TestZstdWindowOfJavasHighestLevel(t *testing.T) {
	src := text(9 << 20)
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(128<<20), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(src); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var h zstd.Header
	if err := h.Decode(b.Bytes()); err != nil || h.WindowSize != 128<<20 {
		t.Fatalf("the test's own frame has a window of %d, %v", h.WindowSize, err)
	}
	if got, err := Decompress(nil, Zstd, b.Bytes(), int64(len(src))); err != nil || !bytes.Equal(got, src) {
		t.Errorf("%d bytes came as %d, %v", len(src), len(got), err)
	}
	beyond := zstdFrame(28, zstdBlock(0, 3, true, 'a', 'b', 'c'))
	if _, err := Decompress(nil, Zstd, beyond, 100); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a window of 256 MiB: %v, want %v", err, ErrCorrupt)
	}
}

func TestLZ4FramesThatKafkaReads(t *testing.T) {
	src := text(200_000)
	write := func(options ...lz4.Option) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(src); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, packed := range map[string][]byte{
		"64 KiB blocks":     write(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)),
		"4 MiB blocks":      write(lz4.BlockSizeOption(lz4.Block4Mb)),
		"content checksum":  write(lz4.ChecksumOption(true)),
		"block checksums":   write(lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb)),
		"content size":      write(lz4.SizeOption(uint64(len(src)))),
		"bytes after frame": append(write(), "whatever"...),
	} {
		if got, err := Decompress(nil, LZ4, packed, int64(len(src))); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %d bytes came as %d, %v", name, len(src), len(got), err)
		}
	}
	good := write(lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb))
	for name, change := range map[string]func([]byte){
		"dependent blocks": func(b []byte) { b[4] &^= lz4FlagIndep; b[6] = byte(xxh32(b[4:6]) >> 8) },
		"header checksum":  func(b []byte) { b[6]++ },
		"block checksum":   func(b []byte) { b[11+binary.LittleEndian.Uint32(b[7:])]++ },
		"version":          func(b []byte) { b[4] |= 0x80; b[6] = byte(xxh32(b[4:6]) >> 8) },
		"block size":       func(b []byte) { b[5] = 0x30; b[6] = byte(xxh32(b[4:6]) >> 8) },
		"magic":            func(b []byte) { b[0]++ },
		"block too long":   func(b []byte) { binary.LittleEndian.PutUint32(b[7:], 65537) },
	} {
		bad := bytes.Clone(good)
		change(bad)
		if _, err := Decompress(nil, LZ4, bad, int64(len(src))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want %v", name, err, ErrCorrupt)
		}
	}
}

// TestXXH32 compares with published values of the hash.
func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
}

func TestCorruptPayloads(t *testing.T) {
	src := text(100_000)
	for _, c := range codecs[1:] {
		good, err := Append(nil, src, Spec{Codec: c})
		if err != nil {
			t.Fatal(err)
		}
		bad := map[string][]byte{
			"plain text":  src,
			"cut in half": good[:len(good)/2],
			"cut by one":  good[:len(good)-1],
			"zeros":       make([]byte, 100),
			"ones":        bytes.Repeat([]byte{0xff}, 100),
		}
		if c == LZ4 {
			delete(bad, "cut by one") // the same check, but the end mark is four bytes
			bad["without its end mark"] = good[:len(good)-4]
		}
		for name, payload := range bad {
			got, err := Decompress(nil, c, payload, 1<<30)
			if c == Snappy && name == "zeros" && err == nil && len(got) == 0 {
				continue // a raw block of no bytes, if you like
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %s: %d bytes, %v; want %v", c, name, len(got), err, ErrCorrupt)
			}
			// The decoder that met it serves the next payload.
			if got, err := Decompress(nil, c, good, 1<<30); err != nil || !bytes.Equal(got, src) {
				t.Fatalf("%s, after %s: %d bytes, %v", c, name, len(got), err)
			}
		}
	}
	if _, err := NewReader(5, nil, 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("codec 5: %v", err)
	}
}

// bomb is a payload that unpacks to at least n bytes of zeros.
func bomb(t testing.TB, c Codec, n int) []byte {
	t.Helper()
	const part = 1 << 20
	zeros := make([]byte, part)
	one, err := Append(nil, zeros, Spec{Codec: c})
	if err != nil {
		t.Fatal(err)
	}
	switch c {
	case Snappy:
		return append(appendXerialHeader(nil), bytes.Repeat(one[xerialHeaderBytes:], n/part)...)
	case LZ4:
		return append(bytes.Clone(one[:7]), append(bytes.Repeat(one[7:len(one)-4], n/part), 0, 0, 0, 0)...)
	case Zstd:
		return append(zstdFrame(27, bytes.Repeat(zstdBlock(zstdRLEBlock, zstdBlockMax, false, 0), n/zstdBlockMax)),
			zstdBlock(0, 0, true)...)
	}
	return bytes.Repeat(one, n/part)
}

// allocated is how much f allocates in all, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBombsStopAtTheLimit: a gigabyte in a few bytes costs no more memory than the decoder's own. zstd is allowed the window
// that the frame declares and fills.
func TestBombsStopAtTheLimit(t *testing.T) {
	for _, c := range codecs[1:] {
		payload := bomb(t, c, 1<<30)
		most := uint64(2 << 20)
		if c == Zstd {
			most += 32 << 20 // of the 128 MiB that the frame declares, what the limit lets it fill
		}
		used := allocated(func() {
			r, err := NewReader(c, payload, 32<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for err == nil {
				_, err = r.Next()
			}
			if _, ok := errors.AsType[*LimitError](err); !ok {
				t.Errorf("%s: %v, want a LimitError", c, err)
			}
		})
		t.Logf("%s: a payload of %d bytes, %d allocated", c, len(payload), used)
		if used > most {
			t.Errorf("%s: %d bytes allocated, at most %d expected", c, used, most)
		}
	}
}

// TestClaimsGetNoMemory: what is only said is not allocated.
func TestClaimsGetNoMemory(t *testing.T) {
	claims := map[string]struct {
		codec   Codec
		payload []byte
	}{
		"zstd frame of one byte with a window of 128 MiB": {Zstd, zstdFrame(27, zstdBlock(zstdRLEBlock, 1, true, 'x'))},
		"zstd frame of 2 MiB with a window of 128 MiB": {Zstd, zstdFrame(27,
			append(bytes.Repeat(zstdBlock(zstdRLEBlock, zstdBlockMax, false, 0), 16), zstdBlock(0, 0, true)...))},
		"zstd content size of 100 MiB in one byte": {Zstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 6}, zstdBlock(zstdRLEBlock, 1, true, 'x')...)},
		"snappy block that claims 200 MiB":         {Snappy, []byte{0x80, 0x80, 0x80, 0x64, 0, 'x'}},
		"snappy chunk of 2 GB":                     {Snappy, append(appendXerialHeader(nil), 0x7f, 0xff, 0xff, 0xff, 1, 2, 3)},
		"lz4 block of 2 GB":                        {LZ4, []byte{4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 0xff, 0xff, 0xff, 0x7f, 0, 0}},
	}
	for name, claim := range claims {
		if _, err := Decompress(nil, claim.codec, claim.payload, 1); err == nil && !strings.Contains(name, "one byte") {
			t.Errorf("%s: no error", name)
		}
		var err error
		used := allocated(func() { _, err = Decompress(make([]byte, 0, 1024), claim.codec, claim.payload, 256<<20) })
		if used > 12<<20 {
			t.Errorf("%s: %d bytes allocated (%v)", name, used, err)
		}
	}
}

func TestLargeReadersAreTold(t *testing.T) {
	small, err := Append(nil, text(1000), Spec{Codec: Zstd})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		codec   Codec
		payload []byte
		held    int64
	}{
		{"gzip", Gzip, bomb(t, Gzip, 1<<30), 0},
		{"a small zstd frame", Zstd, small, 0},
		{"a zstd bomb", Zstd, bomb(t, Zstd, 1<<30), WindowMax},
		{"a raw snappy block", Snappy, s2.EncodeSnappy(nil, text(500_000)), 0},
		{"a large raw snappy block", Snappy, s2.EncodeSnappy(nil, text(20_000_000)), 20_000_000},
		{"xerial blocks", Snappy, bomb(t, Snappy, 100<<20), 0},
	} {
		r, err := NewReader(c.codec, c.payload, 256<<20)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.held != c.held || large.used != c.held {
			t.Errorf("%s: counted with %d bytes, %d in use; want %d", c.name, r.held, large.used, c.held)
		}
		r.Close()
		if large.used != 0 {
			t.Errorf("%s: %d bytes in use after Close", c.name, large.used)
		}
	}
}

// TestLargeReadersWaitForEachOther: however many want a window of 128 MiB, one has it at a time, and all get it.
func TestLargeReadersWaitForEachOther(t *testing.T) {
	payload := bomb(t, Zstd, 200<<20)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector may have a window that waits for the next reader
	var holding atomic.Int64
	used := allocated(func() {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				r, err := NewReader(Zstd, payload, 256<<20)
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Close()
				if n := holding.Add(r.held); n != WindowMax {
					t.Errorf("readers hold %d bytes, want one window of %d", n, WindowMax)
				}
				defer holding.Add(-r.held)
				if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	if used > 3*WindowMax {
		t.Errorf("%d bytes allocated for eight windows of %d, one after the other", used, WindowMax)
	}
	t.Logf("%d bytes allocated", used)
}

func TestGateLetsInWhatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10)
		g.enter(25) // nobody is there
		var in atomic.Int32
		for range 3 {
			go func() {
				g.enter(4)
				in.Add(1)
			}()
		}
		synctest.Wait()
		if n := in.Load(); n != 0 {
			t.Errorf("%d are in beside one that takes all", n)
		}
		g.leave(25)
		synctest.Wait()
		if n := in.Load(); n != 2 {
			t.Errorf("%d of 4 bytes are in, want 2 in 10 bytes", n)
		}
		g.leave(4)
		synctest.Wait()
		if n := in.Load(); n != 3 {
			t.Errorf("%d have been in, want all 3", n)
		}
	})
}

func TestNamesOfCodecs(t *testing.T) {
	for _, c := range codecs {
		if got, ok := Parse(c.String()); !ok || got != c {
			t.Errorf("%s is read as %s, %v", c, got, ok)
		}
	}
	if c, ok := Parse("uncompressed"); c != None || !ok {
		t.Errorf("uncompressed is read as %s, %v", c, ok)
	}
	if _, ok := Parse("producer"); ok {
		t.Error("producer is read as a codec")
	}
}

// FuzzReader: whatever the bytes are, a reader ends, in bounds, with one of its errors.
func FuzzReader(f *testing.F) {
	for _, c := range codecs {
		for _, n := range []int{0, 10, 2000} {
			packed, err := Append(nil, text(n), Spec{Codec: c})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(int8(c), packed)
			f.Add(int8(c), packed[:len(packed)/2])
		}
	}
	f.Add(int8(Zstd), zstdFrame(27, zstdBlock(zstdRLEBlock, zstdBlockMax, false, 0), zstdBlock(zstdRLEBlock, 9, true, 1)))
	f.Add(int8(Zstd), zstdFrame(31, zstdBlock(zstdPackedBlock, 9, true, 1, 2, 3, 4, 5, 6, 7, 8, 9)))
	f.Add(int8(Snappy), []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Add(int8(Snappy), s2.EncodeSnappy(nil, text(1000)))
	f.Fuzz(func(t *testing.T, codec int8, payload []byte) {
		const limit = 1 << 20
		c := Codec(codec)
		got, err := Decompress(nil, c, payload, limit)
		if len(got) > limit {
			t.Fatalf("%s gave %d bytes", c, len(got))
		}
		if _, limited := errors.AsType[*LimitError](err); err != nil && !limited && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: an error of another kind: %v", c, err)
		}
		if err != nil || !c.Known() {
			return
		}
		packed, err := Append(nil, got, Spec{Codec: c})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decompress(nil, c, packed, limit); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s: %d bytes come back as %d, %v", c, len(got), len(again), err)
		}
	})
}
