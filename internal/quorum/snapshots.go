package quorum

import (
	"fmt"
	"path/filepath"
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

	mu    sync.Mutex   // serialises writing and removing; held across them, never by a command
	known []SnapshotID // the oldest first. Guarded by mu
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
	if !due {
		return
	}
	select {
	case n.snapshots.due <- struct{}{}:
	default:
	}
}

// Snapshot writes the published image into a snapshot, if there is anything new, and removes snapshots and segments that are
// kept for longer than metadata.max.retention.bytes and .ms want. A failure leaves all as it was: the log has everything.
func (n *Node) Snapshot() error {
	n.snapshots.mu.Lock()
	defer n.snapshots.mu.Unlock()
	image, membership, bytes := n.snapshotSource()
	id := SnapshotID{image.Offset() + 1, image.Epoch()}
	if known := n.snapshots.known; len(known) > 0 && known[len(known)-1].End >= id.End {
		return n.cleanLocked()
	}
	nowMs := n.o.Now().UnixMilli()
	if err := writeSnapshot(n.o.FS, n.folder, id, image, membership, nowMs); err != nil {
		return err
	}
	n.snapshots.known = append(n.snapshots.known, id)
	n.mu.Lock()
	n.unsnapped -= bytes
	n.snapped = snapshotMark{id.End, nowMs}
	n.mu.Unlock()
	n.o.Log.Debug("metadata snapshot", "end", id.End, "epoch", id.Epoch)
	return n.cleanLocked()
}

func (n *Node) snapshotSource() (*meta.Image, kraft.Membership, int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.image.Load(), n.core.Membership(), n.unsnapped
}

// cleanLocked removes the oldest snapshot, and the log before the one that follows it, as long as they are too large together
// or too old. The newest snapshot always stays.
func (n *Node) cleanLocked() error {
	for len(n.snapshots.known) > 1 {
		old, next := n.snapshots.known[0], n.snapshots.known[1]
		tooMuch, err := n.tooMuch(old)
		if err != nil || !tooMuch {
			return err
		}
		if err := n.dropBefore(next); err != nil {
			return err
		}
		if err := n.o.FS.Remove(filepath.Join(n.folder, old.String())); err != nil {
			return fmt.Errorf("remove old snapshot: %w", err)
		}
		n.snapshots.known = n.snapshots.known[1:]
	}
	return nil
}

func (n *Node) tooMuch(oldest SnapshotID) (bool, error) {
	total := n.log.Size()
	for _, id := range n.snapshots.known {
		e, err := n.o.FS.Stat(filepath.Join(n.folder, id.String()))
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
	headerMs, err := snapshotTime(n.o.FS, filepath.Join(n.folder, oldest.String()))
	return n.o.Now().UnixMilli()-headerMs > n.o.RetentionMs, err
}

// dropBefore moves the log's start to the snapshot and takes out the segments before it; their files go with the next Sweep, so
// that no command waits for the disk here.
func (n *Node) dropBefore(id SnapshotID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return n.failure
	}
	if err := n.log.SetStart(id.End); err != nil {
		return n.failLocked(err)
	}
	_, err := n.log.Retain(n.o.Now(), n.core.HighWatermark())
	return n.failLocked(err)
}
