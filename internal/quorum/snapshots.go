package quorum

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// snapshotMark is the newest snapshot: its end and when it was made.
type snapshotMark struct {
	end  kafka.Offset
	atMs int64
}

// snapshots writes snapshots beside the commands, in one goroutine, and removes what they make useless.
type snapshots struct {
	n    *Node
	due  chan struct{} // capacity 1: one more is due after the one being written
	quit chan struct{}
	done sync.WaitGroup

	mu sync.Mutex // serialises writing and removing; held across them, never by a command, and before the Node's mu
}

func (s *snapshots) init(n *Node) {
	s.n, s.due, s.quit = n, make(chan struct{}, 1), make(chan struct{})
}

func (s *snapshots) start() {
	if s.n.o.snapshotsByCaller {
		return
	}
	s.done.Go(func() {
		for {
			select {
			case <-s.quit:
				return
			case <-s.due:
				if err := s.n.Snapshot(); err != nil {
					s.n.o.Log.Error("metadata snapshot", "error", err)
				}
			}
		}
	})
}

func (s *snapshots) stop() {
	select {
	case <-s.quit:
	default:
		close(s.quit)
	}
	s.done.Wait()
}

// snapshotIfDue asks for a snapshot when enough was appended or enough time has passed since the last one.
func (n *Node) snapshotIfDue() {
	n.mu.Lock()
	sinceMs := n.o.Now().UnixMilli() - n.snapped.atMs
	due := n.unsnapped >= n.o.SnapshotBytes || n.o.SnapshotMs > 0 && sinceMs >= n.o.SnapshotMs && n.snapped.atMs > 0
	n.mu.Unlock()
	if due {
		n.wake(n.snapshots.due)
	}
}

// Snapshot writes the newest committed image into a snapshot, if there is anything new, and removes snapshots and segments that are
// kept for longer than metadata.max.retention.bytes and .ms want. A failure leaves all as it was: the log has everything.
func (n *Node) Snapshot() error {
	n.snapshots.mu.Lock()
	defer n.snapshots.mu.Unlock()
	source := n.snapshotSource()
	if !source.isNew {
		return n.clean()
	}
	nowMs := n.o.Now().UnixMilli()
	if err := writeSnapshot(n.o.FS, n.folder, source.id, source.image, source.membership, nowMs); err != nil {
		return err
	}
	n.written(source, nowMs)
	n.o.Log.Debug("metadata snapshot", "end", source.id.End, "epoch", source.id.Epoch)
	return n.clean()
}

// snapshotSource is what a snapshot is written from.
type snapshotSource struct {
	id         kraft.SnapshotID
	image      *meta.Image
	membership kraft.Membership
	bytes      int64 // since the last one
	isNew      bool  // there is none of it yet
}

func (n *Node) snapshotSource() snapshotSource {
	n.mu.Lock()
	defer n.mu.Unlock()
	image := n.taken
	if n.restored != nil {
		image = n.restored
	}
	id := kraft.SnapshotID{End: image.Offset() + 1, Epoch: image.Epoch()}
	newer := id.End > 0 && (len(n.known) == 0 || n.known[len(n.known)-1].End < id.End)
	return snapshotSource{id, image, n.member.MembershipBefore(id.End), n.unsnapped, newer}
}

// written tells the member of a new snapshot. One that was downloaded meanwhile may be newer.
func (n *Node) written(s snapshotSource, nowMs int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.known, s.id) {
		n.known = append(n.known, s.id)
		slices.SortFunc(n.known, compareSnapshots)
	}
	if n.known[len(n.known)-1] == s.id {
		n.unsnapped = max(n.unsnapped-s.bytes, 0)
		n.snapped = snapshotMark{s.id.End, nowMs}
	}
	n.member.Snapshotted()
}

// snapshotsKnown returns the whole snapshots, the oldest first.
func (n *Node) snapshotsKnown() []kraft.SnapshotID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.known)
}

// clean removes the oldest snapshot, and the log before the one that follows it, as long as they are too large together
// or too old. The newest snapshot always stays. It needs snapshots.mu.
func (n *Node) clean() error {
	for {
		known := n.snapshotsKnown()
		if len(known) < 2 {
			return nil
		}
		old, next := known[0], known[1]
		tooMuch, err := n.tooMuch(known)
		if err != nil || !tooMuch {
			return err
		}
		if err := n.dropBefore(next); err != nil {
			return err
		}
		if err := n.o.FS.Remove(filepath.Join(n.folder, snapshotName(old))); err != nil {
			return fmt.Errorf("remove old snapshot: %w", err)
		}
	}
}

func (n *Node) tooMuch(known []kraft.SnapshotID) (bool, error) {
	total := n.log.Size()
	for _, id := range known {
		e, err := n.o.FS.Stat(filepath.Join(n.folder, snapshotName(id)))
		if err != nil {
			return false, err
		}
		total += e.Size
	}
	if n.o.RetentionBytes >= 0 && total > n.o.RetentionBytes {
		return true, nil
	}
	if n.o.RetentionMs < 0 {
		return false, nil
	}
	headerMs, err := snapshotTime(n.o.FS, filepath.Join(n.folder, snapshotName(known[0])))
	return n.o.Now().UnixMilli()-headerMs > n.o.RetentionMs, err
}

// dropBefore moves the log's start to the snapshot and takes out the segments and the snapshots before it; their files go with the next
// Sweep, so that no command waits for the disk here.
func (n *Node) dropBefore(id kraft.SnapshotID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return n.failure
	}
	if err := n.log.SetStart(id.End); err != nil {
		return n.failLocked(err)
	}
	if _, err := n.log.Retain(n.o.Now(), n.highWatermark); err != nil {
		return n.failLocked(err)
	}
	n.known = slices.DeleteFunc(n.known, func(old kraft.SnapshotID) bool { return old.End < id.End })
	n.member.Snapshotted()
	return nil
}
