package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
)

// bootstrapFile holds the first records of clusters that were formatted with controller.quorum.voters, in the root of the
// metadata log's directory.
const bootstrapFile = "bootstrap.checkpoint"

// Open reads the newest snapshot, and what the log behind it says of the quorum. Nothing is decided and no image is published before Start.
// The Node uses Options.Dir but does not close it.
func Open(o Options) (*Node, error) {
	o = o.withDefaults()
	n := &Node{
		o: o, folder: metadataFolder(o.Dir.Path()), began: time.Now(), answers: make(map[kraft.Ticket]chan<- answer), armed: math.MaxInt64,
		wakeLoop: make(chan struct{}, 1), wakeApply: make(chan struct{}, 1), wakeDuties: make(chan struct{}, 1), quit: make(chan struct{}),
		damaged: make(map[string]bool), warned: make(map[string]int64),
	}
	n.life, n.endLife = context.WithCancel(context.Background())
	n.image.Store(meta.NewImage(o.ClusterID))
	n.role.Store(&kraft.Role{Leader: kafka.NoNode})
	n.snapshots.init(n)
	n.broker.init(n)
	if err := n.load(); err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	return n, nil
}

// load builds the quorum's member, and the image of the newest snapshot. What is in the log behind it is applied when it is known to be
// committed.
func (n *Node) load() error {
	if err := n.openLog(); err != nil {
		return err
	}
	if err := removeUnfinished(n.o.FS, n.folder); err != nil {
		return err
	}
	ids, err := listSnapshots(n.o.FS, n.folder)
	if err != nil {
		return err
	}
	n.known = ids
	var history kraft.History
	if n.taken, err = n.loadSnapshot(ids, &history); err != nil {
		return err
	}
	if err := checkLevel(n.taken); err != nil {
		return err
	}
	if err := n.loadHistory(n.taken.Offset()+1, &history); err != nil {
		return err
	}
	// What a process left that was killed may be in the page cache alone.
	if _, err := n.log.Flush(); err != nil {
		return err
	}
	n.told = n.log.FlushedOffset()
	state, err := readState(n.o.FS, n.folder)
	if err != nil {
		return err
	}
	n.member = kraft.NewMember(n.o.member(), state, history, logView{n.log, n})
	n.noteMembershipLocked()
	return nil
}

func (n *Node) openLog() (err error) {
	_, err = n.o.FS.Stat(n.folder)
	open := n.o.Dir.Open
	if vfs.IsNotExist(err) {
		open = n.o.Dir.Create
	} else if err != nil {
		return err
	}
	if n.log, err = open(metadataPartition, kafka.MetadataTopicID, n.o.logConfig(), n.o.Now()); err != nil {
		return err
	}
	return n.refuseLostMetadata()
}

// refuseLostMetadata tells a new cluster, whose directories hold no partitions yet, from one whose metadata log was lost: there
// a new one would have all partitions deleted as unknown.
func (n *Node) refuseLostMetadata() error {
	if n.log.EndOffset() > 0 {
		return nil
	}
	dirs := n.o.LogDirs
	if !slices.Contains(dirs, n.o.Dir) {
		dirs = append(slices.Clone(dirs), n.o.Dir)
	}
	for _, dir := range dirs {
		found, err := dir.Partitions()
		if err != nil {
			return err
		}
		for _, tp := range found {
			if tp.Topic != metadataLog {
				return &commitlog.CorruptError{File: n.folder, Reason: fmt.Sprintf("the log is empty, though %s holds partitions, as %s", dir.Path(), tp)}
			}
		}
	}
	return nil
}

// loadSnapshot reads the newest snapshot. The one at offset 0 was written by the format command: its records are not part of
// the log's offsets but what the first leader appends, so only its voters count here.
func (n *Node) loadSnapshot(ids []kraft.SnapshotID, history *kraft.History) (*meta.Image, error) {
	empty := meta.NewImage(n.o.ClusterID)
	if start := n.log.StartOffset(); len(ids) == 0 && start > 0 {
		return nil, &commitlog.CorruptError{File: n.folder, Reason: fmt.Sprintf("the log begins at offset %d, and the snapshot that goes before it is missing", start)}
	}
	if len(ids) == 0 {
		return empty, n.readBootstrapFile()
	}
	newest := ids[len(ids)-1]
	name := filepath.Join(n.folder, snapshotName(newest))
	p := newReplay(empty)
	headerMs, err := readSnapshot(n.o.FS, name, &p)
	if damage := (*commitlog.CorruptError)(nil); errors.As(err, &damage) && len(ids) > 1 && ids[len(ids)-2].End >= n.log.StartOffset() {
		n.o.Log.Error("the newest metadata snapshot is damaged: the one before it and the log behind that are read instead, and a new one is written; remove the file",
			"file", name, "byte", damage.At, "reason", damage.Reason)
		n.unsnapped = n.o.SnapshotBytes
		n.known = ids[:len(ids)-1]
		return n.loadSnapshot(n.known, history)
	}
	if err != nil {
		return nil, err
	}
	if err := n.continues(newest, name, p.membership); err != nil {
		return nil, err
	}
	history.Restore(newest, p.membership)
	n.snapped = snapshotMark{end: newest.End, atMs: headerMs}
	if newest.End > 0 {
		return p.update.Image(newest.End-1, newest.Epoch, headerMs), nil
	}
	bootstrap := newReplay(empty)
	bootstrap.entries = &n.bootstrap
	if _, err := readSnapshot(n.o.FS, name, &bootstrap); err != nil {
		return nil, err
	}
	return empty, nil
}

// continues checks that the log goes on where the newest snapshot ends. One that was downloaded from a leader is there before the log is
// emptied for it: then that is done now.
func (n *Node) continues(newest kraft.SnapshotID, name string, m kraft.Membership) error {
	within := newest.End >= n.log.StartOffset() && newest.End <= n.log.EndOffset()
	if alone := len(m.Voters) == 1 && m.Voters[0].ID == n.o.NodeID; !alone { // from whom would it have been downloaded?
		replaces := newest.End > n.log.EndOffset()
		// A log that goes beyond it may be of a leader that did not commit what it wrote there.
		if within && newest.End > n.log.StartOffset() && n.log.EpochAt(newest.End-1) < newest.Epoch {
			epoch, err := n.recordEpoch(newest.End - 1)
			if err != nil {
				return err
			}
			replaces = epoch < newest.Epoch
		}
		if replaces {
			return n.log.Reset(newest.End)
		}
	}
	if within {
		return nil
	}
	return &commitlog.CorruptError{File: name, Reason: fmt.Sprintf(
		"it ends at offset %d, outside of the metadata log, which goes from %d to %d", newest.End, n.log.StartOffset(), n.log.EndOffset())}
}

// recordEpoch reads the epoch of a record in the log.
func (n *Node) recordEpoch(offset kafka.Offset) (kafka.Epoch, error) {
	for b, err := range n.log.Batches(offset) {
		if err != nil {
			return kafka.NoEpoch, err
		}
		return b.LeaderEpoch(), nil
	}
	return kafka.NoEpoch, kafka.OffsetOutOfRange
}

// readBootstrapFile takes the first records from the root of the directory, as far as the log has none.
func (n *Node) readBootstrapFile() error {
	name := filepath.Join(n.o.Dir.Path(), bootstrapFile)
	p := newReplay(meta.NewImage(n.o.ClusterID))
	p.entries = &n.bootstrap
	_, err := readSnapshot(n.o.FS, name, &p)
	if vfs.IsNotExist(err) {
		return nil
	}
	return err
}

// loadHistory reads what the log says of the quorum, from an offset on.
func (n *Node) loadHistory(from kafka.Offset, history *kraft.History) error {
	for b, err := range n.log.Batches(from) {
		if err != nil {
			return err
		}
		parsed, err := parseBatch(b)
		if err != nil {
			return err
		}
		history.Add(parsed)
	}
	return nil
}

// keepEntry decodes a bootstrap record.
func keepEntry(value []byte, into *[]meta.Entry) error {
	frame, err := sysrecord.ParseFrame(value)
	if err != nil {
		return err
	}
	r, err := frame.Record()
	if err != nil {
		return err
	}
	if r != nil {
		*into = append(*into, meta.Entry{Record: r, Version: frame.Version})
	}
	return nil
}
