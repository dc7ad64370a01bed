package quorum

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Format makes the metadata log's directory of a new cluster with this node as its only voter, as `kafka-storage format
// --standalone` does.
func Format(fs vfs.FS, path string, p commitlog.MetaProperties, controller meta.Endpoint, now time.Time) error {
	voter := kraft.Voter{
		ID: p.NodeID, Directory: p.ID, MaxVersion: 1,
		Endpoints: []kraft.Endpoint{{Name: controller.Name, Host: controller.Host, Port: controller.Port}},
	}
	return FormatVoters(fs, path, p, []kraft.Voter{voter}, now)
}

// FormatVoters makes the metadata log's directory of one of the first voters of a new cluster, which are all formatted alike, as
// `kafka-storage format` does: the snapshot 0-0 with the feature levels, then meta.properties. The voters stand before the levels, with
// kraft.version 1; none are given where the configuration names them (controller.quorum.voters). After a crash in between the directory is still unformatted. A node that is to join a cluster has no such snapshot:
// its directory is made by commitlog.FormatDir alone.
func FormatVoters(fs vfs.FS, path string, p commitlog.MetaProperties, voters []kraft.Voter, now time.Time) error {
	folder := metadataFolder(path)
	if ids, err := listSnapshots(fs, folder); err != nil {
		return err
	} else if len(ids) > 0 && ids[len(ids)-1] != (kraft.SnapshotID{}) {
		return fmt.Errorf("format %s: it holds the snapshot %s of a metadata log already", path, snapshotName(ids[len(ids)-1]))
	}
	if err := fs.MkdirAll(folder); err != nil {
		return err
	}
	if err := fs.SyncDir(path); err != nil {
		return err
	}
	membership := kraft.Membership{Voters: voters}
	if len(voters) > 0 {
		membership.Version = 1
	}
	if err := writeBootstrap(fs, folder, membership, now.UnixMilli()); err != nil {
		return err
	}
	return commitlog.FormatDir(fs, path, p)
}

func writeBootstrap(fs vfs.FS, folder string, m kraft.Membership, nowMs int64) error {
	header := sysrecord.NewSnapshotHeaderRecord()
	header.LastContainedLogTimestamp = nowMs
	w, err := newSnapshotWriter(fs, filepath.Join(folder, snapshotName(kraft.SnapshotID{})), 0)
	if err != nil {
		return err
	}
	w.put(encodeControl(append([]control{{record.ControlSnapshotHeader, header}}, membershipControls(m)...), nowMs))
	w.put(encode(meta.Bootstrap(), nowMs))
	w.put(encodeControl([]control{{record.ControlSnapshotFooter, sysrecord.NewSnapshotFooterRecord()}}, nowMs))
	return w.finish()
}

func metadataFolder(path string) string {
	return filepath.Join(path, metadataPartition.String())
}

var metadataPartition = kafka.TopicPartition{Topic: metadataLog, Partition: 0}
