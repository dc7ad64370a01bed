package quorum

import (
	"errors"
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
		known := h.node.snapshots.known
		name := filepath.Join(h.node.folder, known[len(known)-1].String())
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
