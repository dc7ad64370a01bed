package quorum

import (
	"fmt"
	"path/filepath"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Damage in the metadata log is found while the node has in memory all that it says. So it serves on, and writes that into a snapshot:
// the next start needs nothing of what came before.

// Scrub begins a reading of the metadata log, to be closed by the caller.
func (n *Node) Scrub() *commitlog.Scrub { return n.log.Scrub() }

// CheckSnapshot reads the newest snapshot and tells how large it is. The error is a *commitlog.CorruptError if it is damaged.
func (n *Node) CheckSnapshot() (bytes int64, err error) {
	n.snapshots.mu.Lock()
	defer n.snapshots.mu.Unlock()
	known := n.snapshotsKnown()
	if len(known) == 0 {
		return 0, nil
	}
	name := filepath.Join(n.folder, snapshotName(known[len(known)-1]))
	info, err := n.o.FS.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size, checkSnapshot(n.o.FS, name)
}

// checkSnapshot checks the batches of a snapshot, and that the last one is its footer.
func checkSnapshot(fs vfs.FS, name string) error {
	finished := false
	for b, err := range commitlog.FileBatches(fs, name) {
		if err != nil {
			return err
		}
		if err := b.Check(); err != nil {
			return &commitlog.CorruptError{File: name, At: b.At, Reason: err.Error()}
		}
		kind, _, isControl, err := b.Control()
		if err != nil {
			return &commitlog.CorruptError{File: name, At: b.At, Reason: err.Error()}
		}
		finished = isControl && kind == record.ControlSnapshotFooter
	}
	if !finished {
		return &commitlog.CorruptError{File: name, Reason: "it does not end with a footer"}
	}
	return nil
}

// Damaged tells the operator what was found damaged in the metadata log or its newest snapshot, of a segment once, and writes a snapshot
// that takes its place. One goroutine may call it.
func (n *Node) Damaged(by *commitlog.CorruptError) {
	if n.damaged[by.File] {
		return
	}
	remedy := "none: a new snapshot was written"
	isSegment := filepath.Ext(by.File) == ".log"
	if isSegment {
		remedy = "stop the broker, move the segment's files away, start it: all that they say is in the newest snapshot, which was written now"
	}
	switch err := n.renew(by.File); {
	case err != nil: // the next round tries again
		remedy = "copy the metadata log of another controller, or a backup, before the node is stopped"
		n.o.Log.Error("a snapshot in place of what is damaged could not be written", "error", err)
	case isSegment:
		n.damaged[by.File] = true // it stays, and each round finds it
	}
	n.o.Log.Error("the metadata log is damaged; this node serves on with what it has in memory",
		"file", by.File, "byte", by.At, "reason", by.Reason, "remedy", remedy)
}

// renew makes sure that a whole snapshot has all that was committed, and that the damaged segment is not the one that is written to.
func (n *Node) renew(damaged string) error {
	if err := n.leaveSegment(damaged); err != nil {
		return err
	}
	if err := n.Snapshot(); err != nil {
		return err
	}
	if _, err := n.CheckSnapshot(); err != nil {
		if err := n.replaceSnapshot(); err != nil {
			return err
		}
	}
	return n.checkCovered()
}

// checkCovered tells if the segments before the one that is written to hold something that no snapshot has: what was not committed
// when that was written.
func (n *Node) checkCovered() error {
	n.snapshots.mu.Lock()
	defer n.snapshots.mu.Unlock()
	segments, known := n.log.Segments(), n.snapshotsKnown()
	if base := segments[len(segments)-1].Base; len(known) == 0 || known[len(known)-1].End < base {
		return fmt.Errorf("not all up to offset %d is committed", base)
	}
	return nil
}

// leaveSegment begins a new segment if the log is written to a damaged one.
func (n *Node) leaveSegment(damaged string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return n.failure
	}
	return n.failLocked(n.log.Leave(damaged, n.o.Now()))
}

// replaceSnapshot writes the newest snapshot again, or one that is newer still.
func (n *Node) replaceSnapshot() error {
	n.snapshots.mu.Lock()
	defer n.snapshots.mu.Unlock()
	source, nowMs := n.snapshotSource(), n.o.Now().UnixMilli()
	if err := writeSnapshot(n.o.FS, n.folder, source.id, source.image, source.membership, nowMs); err != nil {
		return err
	}
	n.written(source, nowMs)
	return nil
}
