package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestADamagedSnapshotIsWrittenAnew while the node has in memory what it said: also where nothing was committed since, so that the new
// one has its name.
func TestADamagedSnapshotIsWrittenAnew(t *testing.T) {
	for _, more := range []bool{false, true} {
		h := newHost(t, vfs.NewMemory(), 9)
		var log strings.Builder
		h.options = func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }
		h.must(h.format())
		h.must(h.open())
		h.create("one", "two")
		h.must(h.node.Snapshot())
		if more {
			h.create("three")
		}
		before := describe(h.node.Image())
		known := h.node.known
		name := filepath.Join(h.node.folder, snapshotName(known[len(known)-1]))
		content, err := vfs.ReadFile(h.fs, name)
		h.must(err)
		if _, err := h.node.CheckSnapshot(); err != nil {
			t.Fatalf("a whole snapshot: %v", err)
		}
		for at := 0; at < len(content); at += 7 {
			content[at] ^= 1 << 2
			h.must(vfs.WriteFile(h.fs, name, content))
			if _, err := h.node.CheckSnapshot(); err == nil && !isOutsideCRC(content, at) {
				t.Errorf("byte %d of %d is damaged, and was not noticed", at, len(content))
			}
			content[at] ^= 1 << 2
		}
		h.must(vfs.WriteFile(h.fs, name, content[:len(content)-1]))
		for range 2 {
			_, err := h.node.CheckSnapshot()
			var corrupt *commitlog.CorruptError
			if errors.As(err, &corrupt) {
				h.node.Damaged(corrupt)
			}
		}
		if bytes, err := h.node.CheckSnapshot(); err != nil || bytes == 0 {
			t.Errorf("more %v: after it was told: %d bytes, %v", more, bytes, err)
		}
		if said := log.String(); strings.Count(said, "the metadata log is damaged") != 1 || !strings.Contains(said, name) {
			t.Errorf("more %v: the log says\n%s", more, said)
		}
		h.must(h.close())
		h.must(h.open())
		if after := describe(h.node.Image()); after != before {
			t.Errorf("more %v: after a restart got\n%s\nwant\n%s", more, after, before)
		}
	}
}

// TestLaterDamageIsToldToo: of a snapshot that was written anew, and of a segment behind one that was told.
func TestLaterDamageIsToldToo(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 11)
	var log strings.Builder
	h.options = func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	h.must(h.format())
	h.must(h.open())
	h.create("one")
	h.must(h.node.Snapshot())
	found := func(file string) {
		t.Helper()
		h.node.Damaged(&commitlog.CorruptError{File: file, Reason: "a test says so"})
		if _, err := h.node.CheckSnapshot(); err != nil {
			t.Errorf("after %s: %v", file, err)
		}
	}
	snapshot := func() string {
		known := h.node.known
		return filepath.Join(h.node.folder, snapshotName(known[len(known)-1]))
	}
	segment := func() string {
		segments := h.node.log.Segments()
		return filepath.Join(h.node.folder, fmt.Sprintf("%020d.log", segments[len(segments)-1].Base))
	}
	var files []string
	for i := range 3 {
		files = append(files, snapshot())
		h.must(vfs.WriteFile(h.fs, files[len(files)-1], []byte("damaged")))
		found(files[len(files)-1])
		files = append(files, segment())
		for range 3 { // rounds
			found(files[len(files)-1])
		}
		h.create(fmt.Sprint("later", i))
	}
	for _, file := range files {
		want := 0
		for _, f := range files {
			if f == file {
				want++
			}
		}
		if n := strings.Count(log.String(), file); n != want {
			t.Errorf("%s is told %d times, want %d", file, n, want)
		}
	}
	if n := strings.Count(log.String(), "the metadata log is damaged"); n != len(files) || strings.Contains(log.String(), "could not") {
		t.Errorf("%d kinds of damage are told %d times:\n%s", len(files), n, &log)
	}
	h.must(h.close())
}

// isOutsideCRC tells whether a byte is in the base offset or the leader epoch of a batch, which no checksum covers.
func isOutsideCRC(content []byte, at int) bool {
	begin := 0
	for {
		size := 12 + int(content[begin+8])<<24 + int(content[begin+9])<<16 + int(content[begin+10])<<8 + int(content[begin+11])
		if at < begin+size || begin+size >= len(content) {
			in := at - begin
			return in < 8 || in >= 12 && in < 16
		}
		begin += size
	}
}
