package quorum

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Identity is what a metadata log directory says about the node and the quorum that it belongs to.
type Identity struct {
	ClusterID  string
	NodeID     kafka.NodeID
	Directory  kafka.UUID
	Membership kraft.Membership // without voters under kraft.version 0: those stand in the configuration
}

// Inspect reads a metadata log directory without locking or changing it, also while a node uses it.
func Inspect(fs vfs.FS, path string) (Identity, error) {
	p, err := commitlog.ReadMetaProperties(fs, path)
	if err != nil {
		return Identity{}, err
	}
	folder := metadataFolder(path)
	found := new(newReplay(meta.NewImage(p.ClusterID)))
	ids, err := listSnapshots(fs, folder)
	if err != nil {
		return Identity{}, err
	}
	from := kafka.Offset(0)
	if len(ids) > 0 {
		newest := ids[len(ids)-1]
		from = newest.End
		if _, err := readSnapshot(fs, filepath.Join(folder, snapshotName(newest)), found); err != nil {
			return Identity{}, err
		}
	}
	if err := inspectLog(fs, folder, from, found); err != nil {
		return Identity{}, err
	}
	return Identity{p.ClusterID, p.NodeID, p.ID, found.membership}, nil
}

// inspectLog applies the control records of the log from an offset on, up to the first batch that is not whole.
func inspectLog(fs vfs.FS, folder string, from kafka.Offset, found *replay) error {
	entries, err := fs.ReadDir(folder)
	if err != nil {
		return err
	}
	var segments []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, ".log") {
			segments = append(segments, e.Name)
		}
	}
	slices.Sort(segments) // names are offsets of equal length
	for _, name := range segments {
		if err := inspectSegment(fs, filepath.Join(folder, name), from, found); err != nil {
			return err
		}
	}
	return nil
}

// batchLengthAt is where a batch says how many bytes follow.
const batchLengthAt = 8

func inspectSegment(fs vfs.FS, name string, from kafka.Offset, found *replay) error {
	file, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	head := make([]byte, record.HeaderBytes)
	for at := int64(0); at+record.HeaderBytes <= size; {
		if _, err := file.ReadAt(head, at); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		b := record.Batch(head)
		length := int64(int32(binary.BigEndian.Uint32(head[batchLengthAt:]))) + batchLengthAt + 4
		if length < record.HeaderBytes || at+length > size || b.Magic() != record.Magic {
			return nil
		}
		if b.IsControl() && b.LastOffset() >= from {
			whole := make(record.Batch, length)
			if _, err := file.ReadAt(whole, at); err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			if whole.CheckCRC() != nil {
				return nil
			}
			if err := found.batch(whole); err != nil {
				return err
			}
		}
		at += length
	}
	return nil
}
