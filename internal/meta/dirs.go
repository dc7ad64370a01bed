package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// unassignedDir stands for a replica whose broker has not told yet in which of its log directories it is, as in Kafka.
var unassignedDir = kafka.UUID{15: 1}

// NamesDir tells whether an id is a directory's: the zero id and a few more have meanings of their own.
func NamesDir(id kafka.UUID) bool {
	const reserved = 100
	return [15]byte(id[:15]) != [15]byte{} || id[15] >= reserved
}

// ReplicaDir tells in which log directory of a broker a replica is.
type ReplicaDir struct {
	Topic     kafka.TopicID
	Partition int32
	Dir       kafka.UUID
}

// DirReport is what a broker tells about its log directories.
type DirReport struct {
	Broker   kafka.NodeID
	Online   []kafka.UUID // those that work; nil: the same as before
	Cordoned []kafka.UUID // those that take no new replicas; nil: the same as before
	Replicas []ReplicaDir // of which the directory changed, or was not known
}

// DecideDirReport notes where replicas are, and which directories work. What lies in one that does not is led by others that are
// in sync, or by nobody: the last one in sync stays in the set, as it alone has everything. What the image says already makes no
// record.
func DecideDirReport(im *Image, report DirReport) []Entry {
	b, ok := im.Broker(report.Broker)
	if !ok || im.level() < levelDirectories {
		return nil
	}
	online := b.LogDirs
	entries := b.changeDirs(im, report)
	if len(entries) > 0 && report.Online != nil {
		online = report.Online
	}
	told := map[kafka.TopicID]map[int32]kafka.UUID{}
	for _, r := range report.Replicas {
		if told[r.Topic] == nil {
			told[r.Topic] = map[int32]kafka.UUID{}
		}
		told[r.Topic][r.Partition] = r.Dir
	}
	if len(online) < len(b.LogDirs) { // which concerns replicas that nobody tells of
		for t := range im.Topics() {
			entries = append(entries, dirChanges(im, t, b.ID, online, told[t.ID])...)
		}
		return entries
	}
	seen := map[kafka.TopicID]bool{}
	for _, r := range report.Replicas {
		if t, ok := im.TopicByID(r.Topic); ok && !seen[r.Topic] {
			seen[r.Topic] = true
			entries = append(entries, dirChanges(im, t, b.ID, online, told[r.Topic])...)
		}
	}
	return entries
}

// changeDirs is the change of the broker's registration, if there is any.
func (b *Broker) changeDirs(im *Image, report DirReport) []Entry {
	change := &sysrecord.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}
	version := int16(2)
	if report.Online != nil && !slices.Equal(report.Online, b.LogDirs) {
		change.LogDirs = report.Online
	}
	if report.Cordoned != nil && im.level() >= levelCordonedDirs && !slices.Equal(report.Cordoned, b.CordonedDirs) {
		change.CordonedLogDirs, version = report.Cordoned, 3
	}
	if change.LogDirs == nil && change.CordonedLogDirs == nil {
		return nil
	}
	return []Entry{{Record: change, Version: version}}
}

// dirChanges are the changes of a topic's partitions when a broker tells that its replicas are in these directories.
func dirChanges(im *Image, t *Topic, id kafka.NodeID, online []kafka.UUID, told map[int32]kafka.UUID) (entries []Entry) {
	for i := range t.Partitions {
		if change := t.Partitions[i].dirChange(im, id, online, told[int32(i)]); change != nil {
			change.TopicID, change.PartitionID = t.ID, int32(i)
			entries = append(entries, Entry{Record: change, Version: im.partitionRecordVersion()})
		}
	}
	return entries
}

// dirChange is the change of one partition; told is the zero id where nothing was told.
func (p *Partition) dirChange(im *Image, id kafka.NodeID, online []kafka.UUID, told kafka.UUID) *sysrecord.PartitionChangeRecord {
	at := slices.Index(p.Replicas, id)
	if at < 0 {
		return nil
	}
	change := sysrecord.NewPartitionChangeRecord()
	changed := false
	dir := p.Dirs[at]
	if !told.IsZero() && told != dir {
		dir, changed = told, true
		change.Directories = slices.Clone(p.Dirs)
		change.Directories[at] = told
	}
	switch {
	case NamesDir(dir) && !slices.Contains(online, dir):
		changed = p.loseReplica(im, id, change) || changed
	case changed && p.Leader == kafka.NoNode && slices.Contains(p.ISR, id) && im.Alive(id): // it was moved from one that does not work
		change.Leader = id
	}
	if !changed {
		return nil
	}
	return change
}

// loseReplica takes a broker's replica out of the in-sync set, unless it is the last one, and hands its leadership to another.
func (p *Partition) loseReplica(im *Image, id kafka.NodeID, change *sysrecord.PartitionChangeRecord) (changed bool) {
	others := slices.DeleteFunc(slices.Clone(p.ISR), func(other kafka.NodeID) bool { return other == id })
	if len(others) > 0 && len(others) < len(p.ISR) {
		change.ISR = others
	}
	if p.Leader == id {
		change.Leader = bestLeader(im, p.Replicas, others)
	}
	return change.ISR != nil || change.Leader != leaderUnchanged
}

// online tells whether the directory of a broker's replica, as far as it is known, is one that works.
func (p *Partition) online(id kafka.NodeID, dirs []kafka.UUID) bool {
	at := slices.Index(p.Replicas, id)
	return at < 0 || at >= len(p.Dirs) || !NamesDir(p.Dirs[at]) || slices.Contains(dirs, p.Dirs[at])
}

// ReplicaOnline tells whether a broker is alive and the log directory that holds its replica works.
func (im *Image) ReplicaOnline(p *Partition, id kafka.NodeID) bool {
	b, ok := im.Broker(id)
	return ok && !b.Fenced && p.online(id, b.LogDirs)
}
