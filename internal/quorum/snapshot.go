package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
)

const (
	snapshotSuffix = ".checkpoint"
	partialSuffix  = ".part"
	deletedSuffix  = ".deleted" // Kafka's, before it removes one
)

// snapshotName is the name of a snapshot's file.
func snapshotName(id kraft.SnapshotID) string {
	return fmt.Sprintf("%020d-%010d%s", id.End, id.Epoch, snapshotSuffix)
}

// parseSnapshotName reads what snapshotName writes.
func parseSnapshotName(name string) (kraft.SnapshotID, bool) {
	base, isSnapshot := strings.CutSuffix(name, snapshotSuffix)
	var id kraft.SnapshotID
	if n, err := fmt.Sscanf(base, "%020d-%010d", &id.End, &id.Epoch); !isSnapshot || err != nil || n != 2 || snapshotName(id) != name {
		return kraft.SnapshotID{}, false
	}
	return id, true
}

func compareSnapshots(a, b kraft.SnapshotID) int {
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Epoch, b.Epoch))
}

// listSnapshots returns the whole snapshots in a folder, the oldest first.
func listSnapshots(fs vfs.FS, folder string) ([]kraft.SnapshotID, error) {
	entries, err := fs.ReadDir(folder)
	if vfs.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []kraft.SnapshotID
	for _, e := range entries {
		if id, ok := parseSnapshotName(e.Name); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareSnapshots)
	return ids, nil
}

// removeUnfinished removes what is left of snapshots that were not finished or are deleted.
func removeUnfinished(fs vfs.FS, folder string) error {
	entries, err := fs.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, snapshotSuffix+partialSuffix) && !strings.HasSuffix(e.Name, snapshotSuffix+deletedSuffix) {
			continue
		}
		if err := fs.Remove(filepath.Join(folder, e.Name)); err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("remove unfinished snapshot: %w", err)
		}
	}
	return nil
}

// readSnapshot applies a snapshot. It must end with its footer: a torn one was never renamed.
func readSnapshot(fs vfs.FS, name string, p *replay) (headerMs int64, err error) {
	content, err := vfs.ReadFile(fs, name)
	if err != nil {
		return 0, err
	}
	finished := false
	size := len(content)
	for rest := content; len(rest) > 0; {
		damaged := func(err error) error {
			return &commitlog.CorruptError{File: name, At: int64(size - len(rest)), Reason: err.Error()}
		}
		batch, behind, err := record.Split(rest)
		if err != nil {
			return 0, damaged(err)
		}
		if err := batch.Check(); err != nil {
			return 0, damaged(err)
		}
		if finished {
			return 0, damaged(errors.New("records behind the footer"))
		}
		if err := p.batch(batch); err != nil {
			return 0, damaged(err)
		}
		kind, value, isControl, err := batch.Control()
		switch {
		case err != nil:
			return 0, damaged(err)
		case isControl && kind == record.ControlSnapshotHeader:
			header := sysrecord.NewSnapshotHeaderRecord()
			if err := header.ReadFrom(value, 0); err != nil {
				return 0, damaged(err)
			}
			headerMs = header.LastContainedLogTimestamp
		case isControl && kind == record.ControlSnapshotFooter:
			finished = true
		}
		rest = behind
	}
	if !finished {
		return 0, &commitlog.CorruptError{File: name, At: int64(size), Reason: "no footer"}
	}
	return headerMs, nil
}

// snapshotTime returns the append time of the last record in a snapshot, from its header.
func snapshotTime(fs vfs.FS, name string) (int64, error) {
	file, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	head := make([]byte, headerReadMax)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	batch, _, err := record.Split(head[:n])
	if err != nil {
		return 0, &commitlog.CorruptError{File: name, Reason: err.Error()}
	}
	_, value, _, err := batch.Control()
	if err != nil {
		return 0, &commitlog.CorruptError{File: name, Reason: err.Error()}
	}
	header := sysrecord.NewSnapshotHeaderRecord()
	err = header.ReadFrom(value, 0)
	return header.LastContainedLogTimestamp, err
}

// headerReadMax is more than a header with many voters takes.
const headerReadMax = 64 << 10

// writeSnapshot writes all of the image into a new file, durably.
func writeSnapshot(fs vfs.FS, folder string, id kraft.SnapshotID, im *meta.Image, m kraft.Membership, nowMs int64) error {
	header := sysrecord.NewSnapshotHeaderRecord()
	header.LastContainedLogTimestamp = im.AppendMs()
	w, err := newSnapshotWriter(fs, filepath.Join(folder, snapshotName(id)), id.Epoch)
	if err != nil {
		return err
	}
	w.put(encodeControl(append([]control{{record.ControlSnapshotHeader, header}}, membershipControls(m)...), nowMs))
	b := record.Builder{}
	for value := range im.Snapshot() {
		if b.Count() > 0 && b.Len()+len(value) > batchBytesMax {
			w.put(b.Build())
		}
		b.Add(nil, value, nil, nowMs)
	}
	if b.Count() > 0 {
		w.put(b.Build())
	}
	w.put(encodeControl([]control{{record.ControlSnapshotFooter, sysrecord.NewSnapshotFooterRecord()}}, nowMs))
	return w.finish()
}

// snapshotWriter writes batches under a name that recovery removes until they are whole.
type snapshotWriter struct {
	fs   vfs.FS
	name string
	file vfs.File
	at   int64
	next kafka.Offset
	in   kafka.Epoch
	err  error
}

func newSnapshotWriter(fs vfs.FS, name string, epoch kafka.Epoch) (*snapshotWriter, error) {
	file, err := fs.Open(name+partialSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("create snapshot: %w", err)
	}
	return &snapshotWriter{fs: fs, name: name, file: file, in: epoch}, nil
}

// put stamps offsets, counted from 0 in every snapshot, and the epoch.
func (w *snapshotWriter) put(b record.Batch) {
	if w.err != nil {
		return
	}
	b.SetBaseOffset(w.next)
	b.SetLeaderEpoch(w.in)
	if _, w.err = w.file.WriteAt(b, w.at); w.err == nil {
		w.at += int64(len(b))
		w.next = b.NextOffset()
	}
}

func (w *snapshotWriter) finish() error {
	if w.err != nil {
		_ = w.file.Close()
		return fmt.Errorf("write snapshot %s: %w", w.name, w.err)
	}
	return finishSnapshot(w.fs, w.file, w.name)
}

// finishSnapshot makes a whole snapshot durable and gives it its name. It closes the file.
func finishSnapshot(fs vfs.FS, file vfs.File, name string) error {
	err := file.Sync()
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = fs.Rename(name+partialSuffix, name)
	}
	if err == nil {
		err = fs.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("write snapshot %s: %w", name, err)
	}
	return nil
}
