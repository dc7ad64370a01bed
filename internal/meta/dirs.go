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
// in sync, or by nobody. What the image says already makes no record.
func DecideDirReport(im *Image, report DirReport, env Env) []Entry {
	b, ok := im.Broker(report.Broker)
	if !ok || im.level() < levelDirectories {
		return nil
	}
	online := b.LogDirs
	if report.Online != nil {
		online = report.Online
	}
	told := map[kafka.TopicID]map[int32]kafka.UUID{}
	var topics []*Topic
	for _, r := range report.Replicas {
		t, ok := im.TopicByID(r.Topic)
		if !ok {
			continue
		}
		if told[r.Topic] == nil {
			told[r.Topic] = map[int32]kafka.UUID{}
			topics = append(topics, t)
		}
		told[r.Topic][r.Partition] = r.Dir
	}
	if len(online) < len(b.LogDirs) { // which concerns replicas that nobody tells of
		topics = slices.Collect(im.Topics())
	}
	with := electionsOf(im, &env)
	var entries []Entry
	for _, t := range topics {
		for i := range t.Partitions {
			entries = append(entries, with.change(t, int32(i)).place(b, told[t.ID][int32(i)], online)...)
		}
	}
	return append(entries, b.changeDirs(im, online, report.Cordoned)...)
}

// dirsWithout returns the broker's log directories that have not failed.
func (b *Broker) dirsWithout(offline []kafka.UUID) []kafka.UUID {
	return slices.DeleteFunc(slices.Clone(b.LogDirs), func(dir kafka.UUID) bool { return slices.Contains(offline, dir) })
}

// loseDirs is what follows when a broker tells which of its log directories have failed so far.
func (b *Broker) loseDirs(im *Image, offline []kafka.UUID, env Env) (entries []Entry) {
	online := b.dirsWithout(offline)
	if len(online) == len(b.LogDirs) || im.level() < levelDirectories {
		return nil
	}
	with := electionsOf(im, &env)
	for t := range im.Topics() {
		for i := range t.Partitions {
			entries = append(entries, with.change(t, int32(i)).place(b, kafka.UUID{}, online)...)
		}
	}
	return append(entries, b.changeDirs(im, online, nil)...)
}

// changeDirs is the change of the broker's registration, if there is any. It stands behind what follows from it, so that what a crash
// cuts short is told again. A broker without any directory that works is on its way out: that can't be written.
func (b *Broker) changeDirs(im *Image, online, cordoned []kafka.UUID) []Entry {
	change := &sysrecord.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}
	version := int16(2)
	if len(online) > 0 && !slices.Equal(online, b.LogDirs) {
		change.LogDirs = online
	}
	if cordoned != nil && im.level() >= levelCordonedDirs && !slices.Equal(cordoned, b.CordonedDirs) {
		change.CordonedLogDirs, version = cordoned, 3
	}
	if change.LogDirs == nil && change.CordonedLogDirs == nil {
		return nil
	}
	return []Entry{{Record: change, Version: version}}
}

// place notes in which directory a broker's replica is, the zero id for the same as before, when these directories of the broker
// work.
func (c *partitionChange) place(b *Broker, told kafka.UUID, online []kafka.UUID) []Entry {
	if !slices.Contains(c.replicas, b.ID) {
		return nil
	}
	if !told.IsZero() {
		c.moved, c.movedTo = b.ID, told
	}
	failed := func(dir kafka.UUID) bool { return slices.Contains(b.LogDirs, dir) && !slices.Contains(online, dir) }
	switch dir := c.dirOf(b.ID); {
	case failed(dir), !dirOnline(dir, b.LogDirs):
		without := *c.elections
		without.going = b.ID
		c.elections = &without
		return c.leave(b.ID)
	case told.IsZero():
		return nil
	}
	return c.entries()
}

// DecideAssignDirs notes in which directories a broker's replicas are (KIP-858), and what follows for those in one that does not work.
// STALE_BROKER_EPOCH: it is not registered under this epoch; UNSUPPORTED_VERSION: below 3.7-IV2.
func DecideAssignDirs(im *Image, cmd AssignDirs, env Env) ([]Entry, AssignDirsResult, error) {
	if im.level() < levelDirectories {
		return nil, AssignDirsResult{}, kafka.Refuse(kafka.UnsupportedVersion, "log directories are not in the metadata below metadata.version 3.7-IV2")
	}
	b, err := im.registered(cmd.Broker, cmd.Epoch)
	if err != nil {
		return nil, AssignDirsResult{}, err
	}
	changes := changesOf(im, &env)
	var result AssignDirsResult
	for _, d := range cmd.Dirs {
		dir := DirAssignmentResult{ID: d.ID}
		for _, row := range d.Topics {
			topic := DirTopicResult{ID: row.ID}
			t, exists := im.TopicByID(row.ID)
			for _, n := range row.Partitions {
				r := DirPartitionResult{Index: n}
				switch p := changes.partition(t, n); {
				case !exists:
					r.Err = kafka.UnknownTopicId
				case p == nil:
					r.Err = kafka.UnknownTopicOrPartition
				case !slices.Contains(p.Replicas, b.ID):
					r.Err = kafka.NotLeaderOrFollower
				default:
					changes.take(changes.changeOf(t, n, p).place(b, d.ID, b.LogDirs))
				}
				topic.Partitions = append(topic.Partitions, r)
			}
			dir.Topics = append(dir.Topics, topic)
		}
		result.Dirs = append(result.Dirs, dir)
	}
	return changes.entries, result, nil
}

// lostDir stands for a directory that a broker knows no more, as in Kafka.
var lostDir = kafka.UUID{15: 2}

// dirOnline tells whether a directory is one of those that work, as far as it is known. A broker that has told of none is of a time
// before directories were in the metadata.
func dirOnline(dir kafka.UUID, online []kafka.UUID) bool {
	return dir != lostDir && (!NamesDir(dir) || len(online) == 0 || slices.Contains(online, dir))
}

// online tells whether the directory of a broker's replica, as far as it is known, is one that works.
func (p *Partition) online(id kafka.NodeID, dirs []kafka.UUID) bool {
	at := slices.Index(p.Replicas, id)
	return at < 0 || dirOnline(p.Dirs[at], dirs)
}

// ReplicaOnline tells whether a broker is alive and the log directory that holds its replica works.
func (im *Image) ReplicaOnline(p *Partition, id kafka.NodeID) bool {
	b, ok := im.Broker(id)
	return ok && !b.Fenced && p.online(id, b.LogDirs)
}
