package replica

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/vfs"
)

// slot is where a partition of this node is found. It holds none at first: the partition sleeps, its log is not open, and the first
// who asks for the replica opens it. So a start does not grow with the number of partitions, nor, after a stop in order, do memory and
// the next stop with those that nobody uses; after any other stop recovery opens them all. There is no way to a replica but replica and
// awakened, and a replica whose log is not open refuses everything.
type slot struct {
	awake atomic.Pointer[replica] // nil while the partition sleeps; another one when it moved to another directory
	lost  bool                    // its log directory is not there; Apply's

	// mu guards all below, and is held while the log is opened. It comes after Apply's lock and before those of the replica and of
	// the directory's log; never is one slot's taken in another's.
	mu      sync.Mutex
	asleep  *replica        // who awake will be; nil from then on. Nobody else knows it
	has     *meta.Partition // what the metadata says, for when it wakes
	missing bool            // its folder is still to be made
	dueMs   int64           // until when retention has nothing to remove; 0 if that is not known
}

// replica returns the partition's replica, and opens its log first if it sleeps. An error passes: it sleeps on.
func (s *slot) replica() (*replica, error) {
	if p := s.awake.Load(); p != nil {
		return p, nil
	}
	return s.wake()
}

// awakened returns the replica, or nil while the partition sleeps.
func (s *slot) awakened() *replica { return s.awake.Load() }

func (s *slot) wake() (*replica, error) {
	p, opened, err := s.open()
	switch {
	case err != nil && p == nil:
		return nil, err
	case err != nil:
		p.tellUnopened(err)
	case opened:
		p.dir.tell()
	}
	return p, nil
}

// open ends the sleep, with a log or, after an error, without one. What is served has been flushed: recovery may have found it in the
// page cache alone. It sleeps on, and there is no replica, if the system has run out of something. The caller tells of
// the error: a directory that fails looks at all its slots.
func (s *slot) open() (p *replica, opened bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep == nil {
		return s.awake.Load(), false, nil
	}
	p = s.asleep
	err = p.open(!s.missing)
	if err == nil && p.log.FlushedOffset() < p.log.EndOffset() {
		_, err = p.log.Flush()
	}
	if vfs.IsFull(err) {
		p.dir.complain(s.opening(), p, err)
		return nil, false, kafka.KafkaStorageError
	}
	if err != nil {
		p.refusal.Store(int32(kafka.KafkaStorageError))
	}
	s.rouse()
	return p, err == nil, err
}

// opening is what is to be done to the log.
func (s *slot) opening() string {
	if s.missing {
		return "create"
	}
	return "open"
}

// prepare opens the log and lets the partition sleep on, so that what was found can be flushed together with that of others. It returns
// nil if there is no log to be flushed. An error comes again when the partition is woken, and is told then.
func (s *slot) prepare() *commitlog.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep == nil || s.asleep.open(!s.missing) != nil {
		return nil
	}
	return s.asleep.log
}

// rouse shows the replica. The caller holds mu.
func (s *slot) rouse() {
	p := s.asleep
	if s.has != nil && p.serves() == nil {
		p.follow(s.has)
	} else if s.has != nil {
		p.noteAssigned(s.has)
	}
	s.asleep, s.has = nil, nil
	s.awake.Store(p)
	p.takeBrokers() // Apply may have had newer ones since it began to lead, and not seen it
}

// shut ends the sleep without a log: the replica refuses everything with the code. One that is awake it only returns.
func (s *slot) shut(code kafka.Error) *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep != nil {
		s.asleep.refusal.Store(int32(code))
		s.rouse()
	}
	return s.awake.Load()
}

// refuseIn makes the partition refuse everything with the code if it is in a directory. It returns the replica then, else nil.
func (s *slot) refuseIn(d *logDir, code kafka.Error) *replica {
	s.mu.Lock()
	elsewhere := s.asleep != nil && s.asleep.dir != d
	s.mu.Unlock()
	if elsewhere {
		return nil
	}
	p := s.shut(code)
	if p.dir != d {
		return nil
	}
	p.refuse(code)
	return p
}

// follow takes over what the metadata says, when the partition wakes if it sleeps. If it has not changed, only the old image is let go.
func (s *slot) follow(has *meta.Partition, changed bool) {
	if !changed && s.awake.Load() != nil {
		return
	}
	s.mu.Lock()
	if s.asleep != nil {
		s.has = has
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.awake.Load().follow(has) // who woke it has taken over what came before
}

// configure takes over settings, and tells whether the partition is awake, or must wake for them: nothing compacts one that sleeps.
func (s *slot) configure(now *settings) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep == nil {
		return true
	}
	s.asleep.settings.Store(now)
	if s.asleep.log != nil {
		s.asleep.log.SetConfig(now.log)
	}
	s.dueMs = 0
	return !now.sleeps()
}

// sleeps tells whether a partition with these settings can.
func (s *settings) sleeps() bool { return !s.topic.CleanupCompact }

// retentionDue tells whether retention may have something to remove of a partition that sleeps, and whether that took a look into
// its folder, which is taken once.
func (s *slot) retentionDue(now time.Time, mayLook bool) (due, looked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.asleep; {
	case p == nil:
		return true, false
	case s.dueMs == 0 && !mayLook:
		return false, false
	case s.dueMs == 0:
		dueMs, err := p.dir.disk.RetentionDueMs(p.tp, p.settings.Load().log)
		if err != nil || dueMs == 0 {
			return true, true // opening it tells more
		}
		s.dueMs, looked = dueMs, true
	}
	return now.UnixMilli() > s.dueMs, looked
}

// usage tells where the partition is and how large. ok is false where that is not known.
func (s *slot) usage() (dir *logDir, u PartitionUsage, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asleep
	if p == nil {
		p = s.awake.Load()
		if p.log == nil {
			return nil, u, false
		}
		return p.dir, PartitionUsage{TopicPartition: p.tp, Bytes: p.log.Size()}, true
	}
	bytes, err := p.dir.disk.SizeAtRest(p.tp)
	return p.dir, PartitionUsage{TopicPartition: p.tp, Bytes: bytes}, err == nil
}

// highAtRest is the high watermark while the partition sleeps. It is not known before recovery has come to it, nor while its log is being
// opened: that waits for the disk.
func (s *slot) highAtRest() (kafka.Offset, bool) {
	if !s.mu.TryLock() {
		return kafka.NoOffset, false
	}
	defer s.mu.Unlock()
	if s.asleep == nil || !s.asleep.dir.recovered.Load() {
		return kafka.NoOffset, false
	}
	return s.asleep.dir.disk.HighWatermarkAtRest(s.asleep.tp)
}

// open opens or creates the log, unless it is open.
func (p *replica) open(exists bool) error {
	if p.log != nil {
		return nil
	}
	opens := p.dir.disk.Create
	if exists {
		opens = p.dir.disk.Open
	}
	log, err := opens(p.tp, p.id, p.settings.Load().log, p.m.now())
	if _, damaged := isDamage(err); damaged && exists && !p.dir.holds(p) {
		log, err = p.replaceFolder()
	}
	p.log = log
	return err
}

// replaceFolder creates the log where there is a folder of another topic: that was deleted, and made anew, while this node was away.
func (p *replica) replaceFolder() (*commitlog.Log, error) {
	aside, err := p.dir.disk.SetAside(p.tp)
	if err != nil {
		return nil, err
	}
	p.m.log.Warn("a partition's folder is set aside and may be removed: it is of another topic of that name",
		"directory", p.dir.disk.Path(), "folder", p.tp.String(), "now", aside)
	return p.dir.disk.Create(p.tp, p.id, p.settings.Load().log, p.m.now())
}

// tellUnopened tells that the partition answers KAFKA_STORAGE_ERROR from now on, as its log does not open; the others go on.
func (p *replica) tellUnopened(err error) {
	if errors.Is(err, commitlog.ErrDiskFailed) {
		p.dir.fail("open "+p.tp.String(), err)
		return
	}
	if damage, ok := isDamage(err); ok {
		p.tellDamage(damage)
		return
	}
	p.m.log.Error("a partition does not open and answers KAFKA_STORAGE_ERROR", "partition", p.tp.String(), "error", err)
}

// follow takes over what the metadata says.
func (p *replica) follow(has *meta.Partition) {
	p.noteAssigned(has)
	switch {
	case p.log == nil:
	case has.Leader == p.m.node:
		p.lead(partition.Leadership{Epoch: has.LeaderEpoch, PartitionEpoch: has.PartitionEpoch, Replicas: has.Replicas, ISR: has.ISR})
	case has.Leader == kafka.NoNode || p.m.fetchers.peers == nil:
		p.resign(kafka.NotLeaderOrFollower)
	default:
		p.followFrom(partition.Leading{Leader: has.Leader, Epoch: has.LeaderEpoch})
	}
}
