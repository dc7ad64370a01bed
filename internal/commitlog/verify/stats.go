package verify

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Stats are numbers of a partition's log.
type Stats struct {
	Partition  string           `json:"partition"` // the folder's name
	Segments   int              `json:"segments"`
	Batches    int64            `json:"batches"`
	Records    int64            `json:"records"`
	Bytes      int64            `json:"bytes"`      // of all batches
	ValueBytes int64            `json:"valueBytes"` // of keys, values and headers, unpacked
	Codecs     map[string]int64 `json:"codecs"`     // batches of each codec
	MinMs      int64            `json:"minTimestampMs"`
	MaxMs      int64            `json:"maxTimestampMs"` // -1 without records that have one
}

// Ratio is how many bytes of keys, values and headers a byte on the disk holds; 0 of an empty log.
func (s Stats) Ratio() float64 {
	if s.Bytes == 0 {
		return 0
	}
	return float64(s.ValueBytes) / float64(s.Bytes)
}

// Count reads the segments of a partition's folder. The error names the file and byte where something is damaged; what was
// counted so far is returned with it. read counts bytes meanwhile.
func Count(fs vfs.FS, path string, read *atomic.Int64) (Stats, error) {
	s := Stats{Partition: filepath.Base(path), Codecs: make(map[string]int64), MinMs: -1, MaxMs: -1}
	entries, err := fs.ReadDir(path)
	if err != nil {
		return s, fmt.Errorf("list %s: %w", path, err)
	}
	for _, e := range entries {
		if _, ok := logName(e.Name); !ok || e.Dir {
			continue
		}
		s.Segments++
		for b, err := range commitlog.FileBatches(fs, filepath.Join(path, e.Name)) {
			if err == nil {
				read.Add(int64(len(b.Batch)))
				err = s.add(b.Batch)
			}
			var malformed *record.Malformed
			if errors.As(err, &malformed) {
				err = &commitlog.CorruptError{File: filepath.Join(path, e.Name), At: b.At, Reason: strings.TrimPrefix(err.Error(), "malformed batch: ")}
			}
			if err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

func (s *Stats) add(b record.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	const unpackedMax = 2 << 30
	s.Batches++
	s.Bytes += int64(len(b))
	s.Codecs[b.Codec().String()]++
	for r, err := range b.Records(unpackedMax) {
		if err != nil {
			return err
		}
		s.Records++
		s.ValueBytes += int64(len(r.Key) + len(r.Value))
		for _, h := range r.Headers {
			s.ValueBytes += int64(len(h.Key) + len(h.Value))
		}
		if s.MinMs < 0 || r.TimestampMs < s.MinMs {
			s.MinMs = r.TimestampMs
		}
		s.MaxMs = max(s.MaxMs, r.TimestampMs)
	}
	return nil
}
