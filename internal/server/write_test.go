package server

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/wire"
)

// osFile is a file as vfs gives it, with a descriptor for sendfile.
type osFile struct{ *os.File }

func (f osFile) Fd() (uintptr, bool) { return f.File.Fd(), true }

// plainFile has no descriptor.
type plainFile struct{ io.ReaderAt }

func (plainFile) Fd() (uintptr, bool) { return 0, false }

func randomFile(t testing.TB, n int) (osFile, []byte) {
	t.Helper()
	content := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(content)
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return osFile{f}, content
}

// mixtures are answers made of pieces of every size and kind.
func mixtures(file osFile, content []byte) [][]wire.Part {
	plain := plainFile{bytes.NewReader(content)}
	piece := func(f wire.File, pos, n int) wire.Part {
		return wire.Part{File: wire.FileRange{File: f, Pos: int64(pos), Len: n}}
	}
	return [][]wire.Part{
		nil,
		{{Bytes: content[:10]}},
		{{Bytes: content[:100_000]}},
		{{Bytes: content[:3_000_000]}},
		{piece(file, 5, 10)},
		{piece(file, 5, 100_000)},
		{piece(file, 5, 5_000_000)},
		{piece(plain, 5, 10)},
		{piece(plain, 5, 3_000_000)},
		{
			piece(file, 1, 200_000),
			{Bytes: content[:60]},
			piece(file, 300_000, 20),
			{Bytes: content[60:120]},
			piece(plain, 7, 50_000),
			{Bytes: content[:20_000]},
			{Bytes: content[:400_000]},
			piece(file, 99, 1_000_000),
			{Bytes: content[:1]},
		},
		{{Bytes: content[:400_000]}, {Bytes: content[:400_000]}, {Bytes: content[:60]}},
	}
}

func flat(t testing.TB, head []byte, parts []wire.Part) []byte {
	t.Helper()
	all := bytes.Clone(head)
	for _, p := range parts {
		if p.File.File == nil {
			all = append(all, p.Bytes...)
			continue
		}
		b := make([]byte, p.File.Len)
		if _, err := p.File.File.ReadAt(b, p.File.Pos); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestAnswersOfBytesAndFilesArriveWhole(t *testing.T) {
	file, content := randomFile(t, 6_000_000)
	answers := mixtures(file, content)
	var released atomic.Int64
	handle := func(req *wire.Request, reply func(*wire.Response)) {
		r := req.Response()
		r.Head = append(r.Head, "head"...)
		r.Parts = append(r.Parts, answers[req.CorrelationID-1]...)
		r.Release = func() { released.Add(1) }
		reply(r)
	}
	ts := start(t, Config{}, handle)
	memory := newMemoryListener()
	ts.Serve(Listener{Listener: memory, Name: "MEMORY"})
	for name, c := range map[string]*client{"tcp": dial(t, ts.addr), "pipe": newClient(t, memory.dial())} {
		for i, parts := range answers {
			c.send(c.frame(request(kmsg.Fetch, 12)))
			body := c.expect(int32(i + 1))
			if want := flat(t, []byte("\x00head"), parts); !bytes.Equal(body, want) {
				t.Fatalf("%s: answer %d: %d bytes, want %d, or they differ", name, i, len(body), len(want))
			}
		}
	}
	awaitTrue(t, "every answer is released", func() bool { return released.Load() == int64(2*len(answers)) })
}

// A client that reads nothing for a while gets everything in the end, through the socket's full buffer.
func TestSlowReaderGetsAllOfAFile(t *testing.T) {
	file, content := randomFile(t, 20_000_000)
	ts := start(t, Config{SendBufferBytes: 100 << 10, ReceiveBufferBytes: 100 << 10}, func(req *wire.Request, reply func(*wire.Response)) {
		r := req.Response()
		r.Parts = append(r.Parts, wire.Part{File: wire.FileRange{File: file, Len: len(content)}}, wire.Part{Bytes: []byte("tail")})
		reply(r)
	})
	c := dial(t, ts.addr)
	c.send(c.frame(request(kmsg.Fetch, 4)))
	if body := c.expect(1); !bytes.Equal(body, append(bytes.Clone(content), "tail"...)) {
		t.Fatalf("%d bytes, or they differ", len(body))
	}
}

// TestAnAnswerLongerThanItsLengthCanSay closes the connection that asked for it, and nothing else.
func TestAnAnswerLongerThanItsLengthCanSay(t *testing.T) {
	file, _ := randomFile(t, 10)
	var released atomic.Int64
	ts := start(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
		r := req.Response()
		for range 2 {
			r.Parts = append(r.Parts, wire.Part{File: wire.FileRange{File: file, Len: 3 << 29}})
		}
		r.Release = func() { released.Add(1) }
		reply(r)
	})
	other := dial(t, ts.addr)
	c := dial(t, ts.addr)
	c.send(c.frame(request(kmsg.Fetch, 12)))
	if n, err := c.Read(make([]byte, 10)); n > 0 || err == nil {
		t.Errorf("%d bytes came, %v; want none and the end", n, err)
	}
	other.send(other.frame(request(kmsg.Heartbeat, 0)))
	other.expect(1)
	awaitTrue(t, "the answer is released", func() bool { return released.Load() == 1 })
}

func TestShortFileClosesTheConnection(t *testing.T) {
	file, content := randomFile(t, 1_000_000)
	for _, f := range []wire.File{file, plainFile{bytes.NewReader(content)}} {
		for _, n := range []int{100, 100_000} {
			var released atomic.Int64
			ts := start(t, Config{}, func(req *wire.Request, reply func(*wire.Response)) {
				r := req.Response()
				r.Parts = append(r.Parts, wire.Part{File: wire.FileRange{File: f, Pos: int64(len(content) - n/2), Len: n}})
				r.Release = func() { released.Add(1) }
				reply(r)
			})
			c := dial(t, ts.addr)
			c.send(c.frame(request(kmsg.Fetch, 4)))
			if _, body, err := c.tryReceive(); err == nil {
				t.Errorf("a range of %d bytes that is half beyond the end arrived as %d bytes", n, len(body))
			}
			awaitTrue(t, "the answer is released", func() bool { return released.Load() == 1 })
		}
	}
}
