package quorum

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

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

// Open reads the newest snapshot and the log behind it. Nothing is decided and no image is published before Start. The Node
// uses Options.Dir but does not close it.
func Open(o Options) (*Node, error) {
	o = o.withDefaults()
	n := &Node{o: o, folder: metadataFolder(o.Dir.Path()), damaged: make(map[string]bool)}
	n.image.Store(meta.NewImage(o.ClusterID))
	n.snapshots.init(n)
	if err := n.load(); err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	return n, nil
}

// load builds the tip and the quorum's core.
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
	p := &replay{update: meta.NewImage(n.o.ClusterID).Update()}
	image, from, err := n.loadSnapshot(ids, p)
	if err != nil {
		return err
	}
	if image, err = n.loadLog(from, image, p); err != nil {
		return err
	}
	n.tip = image
	n.openTransaction = p.update.InTransaction()
	if level := image.Features()[meta.MetadataVersion]; level > meta.LatestMetadataVersion {
		return fmt.Errorf("the cluster is at metadata.version %d, this build knows levels up to %d (%s)",
			level, meta.LatestMetadataVersion, meta.MetadataVersionName(meta.LatestMetadataVersion))
	}
	return n.openCore(p)
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
func (n *Node) loadSnapshot(ids []SnapshotID, p *replay) (*meta.Image, kafka.Offset, error) {
	image := meta.NewImage(n.o.ClusterID)
	n.snapshots.known = ids
	if start := n.log.StartOffset(); len(ids) == 0 && start > 0 {
		return nil, 0, &commitlog.CorruptError{File: n.folder, Reason: fmt.Sprintf("the log begins at offset %d, and the snapshot that goes before it is missing", start)}
	}
	if len(ids) == 0 {
		return image, 0, n.readBootstrapFile()
	}
	newest := ids[len(ids)-1]
	name := filepath.Join(n.folder, newest.String())
	if newest.End > n.log.EndOffset() || newest.End < n.log.StartOffset() {
		return nil, 0, &commitlog.CorruptError{File: name, Reason: fmt.Sprintf(
			"it ends at offset %d, outside of the metadata log, which goes from %d to %d", newest.End, n.log.StartOffset(), n.log.EndOffset())}
	}
	headerMs, err := readSnapshot(n.o.FS, name, p)
	if damage := (*commitlog.CorruptError)(nil); errors.As(err, &damage) && len(ids) > 1 && ids[len(ids)-2].End >= n.log.StartOffset() {
		n.o.Log.Error("the newest metadata snapshot is damaged: the one before it and the log behind that are read instead, and a new one is written; remove the file",
			"file", name, "byte", damage.At, "reason", damage.Reason)
		*p = replay{update: image.Update()}
		n.unsnapped = n.o.SnapshotBytes
		return n.loadSnapshot(ids[:len(ids)-1], p)
	}
	if err != nil {
		return nil, 0, err
	}
	n.snapped = snapshotMark{end: newest.End, atMs: headerMs}
	if newest.End > 0 {
		return p.update.Image(newest.End-1, newest.Epoch, headerMs), newest.End, nil
	}
	bootstrap := &replay{update: image.Update(), entries: &n.bootstrap}
	if _, err := readSnapshot(n.o.FS, name, bootstrap); err != nil {
		return nil, 0, err
	}
	p.update = image.Update()
	return image, 0, nil
}

// readBootstrapFile takes the first records from the root of the directory, as far as the log has none.
func (n *Node) readBootstrapFile() error {
	name := filepath.Join(n.o.Dir.Path(), bootstrapFile)
	p := &replay{update: meta.NewImage("").Update(), entries: &n.bootstrap}
	_, err := readSnapshot(n.o.FS, name, p)
	if vfs.IsNotExist(err) {
		return nil
	}
	return err
}

// loadLog applies the log from an offset on. All of it is committed: this node is the quorum.
func (n *Node) loadLog(from kafka.Offset, image *meta.Image, p *replay) (*meta.Image, error) {
	last, epoch, ms := image.Offset(), image.Epoch(), image.AppendMs()
	for b, err := range n.log.Batches(from) {
		if err != nil {
			return nil, err
		}
		if b.LastOffset() <= last {
			continue
		}
		if err := p.batch(b); err != nil {
			return nil, err
		}
		last, epoch, ms = b.LastOffset(), b.LeaderEpoch(), b.MaxTimestampMs()
		n.unsnapped += int64(len(b))
	}
	return p.update.Image(last, epoch, ms), nil
}

func (n *Node) openCore(p *replay) error {
	state, err := readState(n.o.FS, n.folder)
	if err != nil {
		return err
	}
	m := p.membership
	if m.Version == 0 {
		m.Voters = n.staticVoters()
	}
	n.core = kraft.New(n.o.NodeID, n.o.Dir.ID(), state, m, kraft.Log{End: n.log.EndOffset(), LatestEpoch: n.log.LatestEpoch()})
	n.membership.Store(&m)
	return nil
}

func (n *Node) staticVoters() []kraft.Voter {
	ids := n.o.StaticVoters
	if len(ids) == 0 {
		ids = []kafka.NodeID{n.o.NodeID}
	}
	var voters []kraft.Voter
	for _, id := range slices.Sorted(slices.Values(ids)) {
		voters = append(voters, kraft.Voter{ID: id})
	}
	return voters
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
