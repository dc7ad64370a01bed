package commitlog

import (
	"fmt"
	"iter"
	"os"

	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// FileBatches walks the batches of a .log or .checkpoint file, with their positions. It does not check CRCs; it ends with a
// *CorruptError where the bytes make no batch. A batch is valid until the next step.
func FileBatches(fs vfs.FS, name string) iter.Seq2[PositionedBatch, error] {
	return func(yield func(PositionedBatch, error) bool) {
		f, err := fs.Open(name, os.O_RDONLY)
		if err != nil {
			yield(PositionedBatch{}, err)
			return
		}
		defer f.Close()
		size, err := f.Size()
		if err != nil {
			yield(PositionedBatch{}, fmt.Errorf("size of %s: %w", name, err))
			return
		}
		w := newWalker(f, fileName(name), size, bodyAhead)
		defer w.done()
		for at := int64(0); at < size; {
			b, err := w.batch(at)
			if !yield(PositionedBatch{at, b}, err) || err != nil {
				return
			}
			at += int64(len(b))
		}
	}
}

// PositionedBatch is a batch and where it lies in its file.
type PositionedBatch struct {
	At int64
	record.Batch
}
