package quorum

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs"
)

// readRange returns the batches of the log from an offset on, as they stand in the file: up to a bound, and as many as maxBytes
// allows, but one at least. Nothing is left when from is the bound.
func (n *Node) readRange(from, bound kafka.Offset, maxBytes int) ([]byte, error) {
	chunk, err := n.log.Read(from, bound, maxBytes, true)
	if err != nil || chunk.File == nil {
		return nil, err
	}
	defer chunk.Release()
	content := make([]byte, chunk.Len)
	if _, err := chunk.File.ReadAt(content, chunk.Pos); err != nil {
		return nil, fmt.Errorf("read the metadata log at offset %d: %w", from, err) // it was cut meanwhile: the follower asks again
	}
	return content, nil
}

// readSnapshotRange returns a range of a snapshot's file and the file's size. The error is kafka.SnapshotNotFound or
// kafka.PositionOutOfRange where there is none such.
func readSnapshotRange(fs vfs.FS, folder string, id kraft.SnapshotID, position int64, maxBytes int) (content []byte, size int64, err error) {
	file, err := fs.Open(filepath.Join(folder, snapshotName(id)), os.O_RDONLY)
	if vfs.IsNotExist(err) {
		return nil, 0, kafka.SnapshotNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read snapshot: %w", err)
	}
	defer file.Close()
	if size, err = file.Size(); err != nil {
		return nil, 0, fmt.Errorf("read snapshot: %w", err)
	}
	if position < 0 || position >= size {
		return nil, 0, kafka.PositionOutOfRange
	}
	content = make([]byte, min(int64(max(maxBytes, 0)), size-position))
	if _, err := file.ReadAt(content, position); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read snapshot: %w", err)
	}
	return content, size, nil
}

// download is a snapshot on its way from the leader, in a file that recovery removes.
type download struct {
	id   kraft.SnapshotID
	name string
	file vfs.File
	at   int64 // how many bytes there are
}

func newDownload(fs vfs.FS, folder string, id kraft.SnapshotID) (*download, error) {
	name := filepath.Join(folder, snapshotName(id))
	file, err := fs.Open(name+partialSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("create snapshot: %w", err)
	}
	return &download{id: id, name: name, file: file}, nil
}

// write puts the next bytes behind what there is.
func (d *download) write(content []byte) error {
	if _, err := d.file.WriteAt(content, d.at); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	d.at += int64(len(content))
	return nil
}

// finish reads all of it, makes it durable and gives it its name. The error is a *commitlog.CorruptError if it is not whole; then, as after
// any other error, it is gone.
func (d *download) finish(fs vfs.FS, clusterID string) (p replay, image *meta.Image, headerMs int64, err error) {
	p = newReplay(meta.NewImage(clusterID))
	if headerMs, err = readSnapshot(fs, d.name+partialSuffix, &p); err == nil {
		image = p.update.Image(d.id.End-1, d.id.Epoch, headerMs)
		err = checkLevel(image)
	}
	if err != nil {
		d.abandon(fs)
		return p, nil, 0, err
	}
	if err = finishSnapshot(fs, d.file, d.name); err != nil {
		_ = fs.Remove(d.name + partialSuffix)
	}
	return p, image, headerMs, err
}

// abandon removes what there is of it.
func (d *download) abandon(fs vfs.FS) {
	_ = d.file.Close()
	_ = fs.Remove(d.name + partialSuffix)
}
