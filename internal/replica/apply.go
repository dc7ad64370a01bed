package replica

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/vfs"
)

const (
	// openersMax is how many logs are opened side by side: opening waits for the disk more than it computes.
	openersMax = 16
	// tellEvery is how often a long start says how far it has come.
	tellEvery = 2 * time.Second
)

// Apply brings the partitions of this node to what the metadata says: it creates, opens and deletes logs, takes over
// leaderships and settings. When it returns the partitions serve, or open their logs when somebody asks. Calls follow each other; old is
// the image of the call before, an empty one at first. It costs as much as differs between the two.
func (m *Manager) Apply(old, now *meta.Image) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if m.closed {
		return
	}
	m.look(now)
	if b, ok := now.Broker(m.node); ok {
		m.brokerEpoch.Store(int64(b.Epoch))
	}
	if !slices.Equal(old.Brokers(), now.Brokers()) {
		m.takeBrokers(now)
	}
	brokersChanged := m.settings.update(now, m.node)
	if brokersChanged {
		m.cordon(m.settings.cordoned())
		m.moves.rate.Store(m.settings.moveRate())
		asLeader, asFollower := m.settings.replicationRates()
		m.asLeader.rate.Store(asLeader)
		m.asFollower.rate.Store(asFollower)
	}
	next := change{m: m, image: now}
	for t := range meta.TopicChanges(old, now) {
		next.topic(t)
	}
	if brokersChanged {
		for t := range now.Topics() {
			next.configure(t.Name)
		}
	} else {
		for r := range meta.ConfigChanges(old, now) {
			if r.Type == meta.TopicResource {
				next.configure(r.Name)
			}
		}
	}
	next.delete() // before open: a topic made anew has the same folders
	next.open()
	m.recovery.begin()
	next.lead()
	next.publish()
	next.resumeMoves()
	if brokersChanged {
		m.cleaner.configure(readCleanerSettings(m.broker.With(config.Dynamic{Node: m.settings.dynamic})))
	}
}

// change is one Apply on its way.
type change struct {
	m       *Manager
	image   *meta.Image
	opening []*slot // of partitions that are new here: all sleep, until open
	gone    []*topic
	left    []*slot // of partitions that a reassignment has taken from this node
	touched []touched
}

// touched is a topic that is new or whose partitions changed; was is what it was, if it is not new.
type touched struct {
	*topic
	was *topic
}

// topic takes over that a topic is new, differs or is gone.
func (c *change) topic(differs meta.TopicChange) {
	t := differs.New
	known := (*topic)(nil)
	if differs.Old != nil {
		known, _ = c.m.table.topic(differs.Old.ID, "")
	}
	if known != nil && (t == nil || known.id != t.ID) {
		c.gone = append(c.gone, known)
		known = nil
	}
	if t == nil {
		return
	}
	next := &topic{name: t.Name, id: t.ID, image: t, slots: make([]*slot, len(t.Partitions))}
	if known != nil {
		copy(next.slots, known.slots)
		next.traffic = known.traffic
	}
	var s *settings
	for i := range t.Partitions {
		here := slices.Contains(t.Partitions[i].Replicas, c.m.node)
		if next.slots[i] != nil && !here {
			c.left = append(c.left, next.slots[i])
			next.slots[i] = nil
		}
		if at := next.slots[i]; at != nil && at.lost && c.m.mayRefill(&t.Partitions[i]) {
			c.m.fetchers.leave(at)
			at.awakened().dir.count.Add(-1)
			next.slots[i] = nil
		}
		if next.slots[i] != nil || !here {
			continue
		}
		if s == nil {
			s = c.m.settings.of(c.overrides(t.Name))
		}
		if next.traffic == nil {
			next.traffic = new(Traffic)
		}
		p := &replica{m: c.m, traffic: next.traffic, tp: kafka.TopicPartition{Topic: t.Name, Partition: int32(i)}, id: t.ID}
		p.settings.Store(s)
		p.epoch.Store(int32(kafka.NoEpoch))
		p.following.Store(int32(kafka.NoEpoch))
		next.slots[i] = &slot{asleep: p}
		c.opening = append(c.opening, next.slots[i])
	}
	c.touched = append(c.touched, touched{next, known})
}

// overrides are what a topic's configuration sets itself.
func (c *change) overrides(topic string) map[string]string {
	return c.image.Config(meta.Resource{Type: meta.TopicResource, Name: topic})
}

// open opens or creates the logs of new partitions, several at a time, but for those that can sleep.
func (c *change) open() {
	if len(c.opening) == 0 {
		return
	}
	places := make([]placement, len(c.opening))
	anew := map[*logDir][]kafka.TopicPartition{}
	for i, s := range c.opening {
		p := s.asleep
		places[i] = c.m.place(p, c.image)
		p.dir = places[i].dir
		p.dir.count.Add(1)
		s.missing, s.lost = !places[i].exists, places[i].lost
		if s.missing && !places[i].lost {
			anew[p.dir] = append(anew[p.dir], p.tp)
		}
	}
	for d, partitions := range anew {
		_ = d.disk.WillCreate(partitions) // who creates one meets the error again
	}
	var now []int
	for i, s := range c.opening {
		if places[i].exists && !c.m.recovery.begun && c.m.recovers(s, places[i]) {
			c.m.recovery.due = append(c.m.recovery.due, s)
		} else {
			now = append(now, i)
		}
	}
	var ready atomic.Int64
	open := func() {
		several(len(now), func(i int) {
			c.m.begin(c.opening[now[i]], places[now[i]])
			ready.Add(1)
		})
	}
	if len(now) < openersMax {
		open()
	} else {
		c.m.tellProgress(open, &ready, len(now))
	}
}

// recovers tells whether a log is left to recovery: the stop was not in order, and nothing hinders.
func (m *Manager) recovers(s *slot, at placement) bool {
	_, moves := m.futures[s.asleep.tp]
	return !at.dir.failed() && !at.dir.disk.WasClean() && !moves
}

// tellProgress runs open, and says from time to time how many of so many logs are open.
func (m *Manager) tellProgress(open func(), ready *atomic.Int64, of int) {
	done := make(chan struct{})
	go func() {
		open()
		close(done)
	}()
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			m.log.Info("opening partitions", "ready", ready.Load(), "of", of)
		}
	}
}

// several calls do for 0 to n-1, openersMax at a time.
func several(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(openersMax, n) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	workers.Wait()
}

// publish shows what was done.
func (c *change) publish() {
	for _, t := range c.gone {
		c.m.forget(t)
	}
	for _, t := range c.touched {
		c.m.table.add(t.topic)
	}
	// A directory that failed while its logs were opened did not find them in the table.
	for _, d := range c.m.dirs {
		for i := 0; i < len(c.opening) && d.failed(); i++ {
			c.opening[i].refuseIn(d, kafka.KafkaStorageError)
		}
	}
}

// delete takes deleted topics off the disk. Whoever waits for them is told.
func (c *change) delete() {
	for _, t := range c.gone {
		for _, s := range t.slots {
			if s != nil {
				c.m.fetchers.leave(s)
				s.shut(kafka.UnknownTopicOrPartition).remove(kafka.UnknownTopicOrPartition)
			}
		}
	}
	for _, s := range c.left {
		c.m.fetchers.leave(s)
		s.shut(kafka.NotLeaderOrFollower).remove(kafka.NotLeaderOrFollower)
	}
	for _, d := range c.m.dirs {
		if err := d.disk.SyncDoomed(); err != nil {
			d.fail("delete partitions", err)
		}
	}
}

// lead takes over the leaderships of topics that are new or have changed.
func (c *change) lead() {
	for _, t := range c.touched {
		for i, s := range t.slots {
			if s != nil {
				has, changed := &t.image.Partitions[i], t.changed(i)
				s.follow(has, changed)
				if changed {
					c.m.fetchers.follow(s, partKey{t.id, int32(i)}, has)
				}
			}
		}
	}
}

// changed tells whether the metadata says something else of a partition than before.
func (t *touched) changed(i int) bool {
	if t.was == nil || i >= len(t.was.slots) || t.was.slots[i] != t.slots[i] {
		return true
	}
	was, is := &t.was.image.Partitions[i], &t.image.Partitions[i]
	return was.PartitionEpoch != is.PartitionEpoch || was.LeaderEpoch != is.LeaderEpoch
}

// configure takes over changed settings of a topic that was there before.
func (c *change) configure(name string) {
	known := c.m.table.named(name)
	if t, ok := c.image.Topic(name); known == nil || !ok || known.id != t.ID {
		return
	}
	s := c.m.settings.of(c.overrides(name))
	for _, at := range known.slots {
		if at == nil || !at.configure(s) {
			continue
		}
		if p, err := at.replica(); err == nil && p.log != nil {
			p.configure(s)
		}
	}
}

// configure takes over changed settings.
func (p *replica) configure(s *settings) {
	p.settings.Store(s)
	p.mu.Lock()
	p.log.SetConfig(s.log)
	var released []partition.Release
	if p.core != nil {
		released = p.core.SetMinISR(s.topic.MinISR, nil)
		p.publish()
		p.countReadable()
	}
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll() // the high watermark may have moved
}

// begin opens or creates the log of a partition that is new here, or lets it sleep.
func (m *Manager) begin(s *slot, at placement) {
	_, moves := m.futures[s.asleep.tp]
	switch {
	case at.dir.failed() || at.lost:
		s.shut(kafka.KafkaStorageError)
	case at.exists && at.dir.disk.WasClean() && !moves && s.asleep.settings.Load().sleeps():
		// The first who asks opens it.
	default:
		switch p, _, err := s.open(); {
		case err != nil && p == nil:
			m.unmade.add(s)
		case err != nil:
			p.tellUnopened(err)
		}
	}
}

// look lists, once, what is on the disks.
func (m *Manager) look(image *meta.Image) {
	if m.found != nil {
		return
	}
	m.found, m.futures = map[kafka.TopicPartition]*logDir{}, map[kafka.TopicPartition]*logDir{}
	for _, d := range m.dirs {
		m.lookInto(d, image)
	}
}

func (m *Manager) lookInto(d *logDir, image *meta.Image) {
	listed := d.disk.Listed()
	for _, tp := range listed.Partitions {
		if tp.Topic == meta.ClusterMetadataTopic {
			continue // the quorum's
		}
		if other, twice := m.found[tp]; twice && m.assigned(tp, image) != d.disk.ID() {
			m.setAside(d, tp, "it has moved to "+other.disk.Path())
			continue
		} else if twice {
			m.setAside(other, tp, "it has moved to "+d.disk.Path())
		}
		m.found[tp] = d
	}
	for _, tp := range listed.Futures {
		m.futures[tp] = d
		switch err := d.disk.DropFuture(tp); {
		case vfs.IsFull(err): // who resumes the move drops it
			d.sayAtTimes("the system refused something: a move between log directories begins anew later", "drop what was copied of "+tp.String(), nil, err)
		case err != nil:
			d.fail("drop what was copied of "+tp.String(), err)
		}
	}
}

// setStraysAside renames the folders that belong to no partition of this node, as Kafka does: a topic was deleted just before
// the node ended, or the folders are of another node. Under their own names they would have to be recovered by nobody, and no
// stop could be clean.
func (m *Manager) setStraysAside() {
	for _, tp := range slices.SortedFunc(maps.Keys(m.found), kafka.TopicPartition.Compare) {
		d := m.found[tp]
		if d.failed() {
			continue
		}
		if m.setAside(d, tp, "it belongs to no topic that this node has") {
			delete(m.found, tp)
		}
	}
	m.found = maps.Clone(m.found) // which is small now
}

// setAside renames a partition's folder such that nobody opens it, if it can.
func (m *Manager) setAside(d *logDir, tp kafka.TopicPartition, why string) bool {
	folder, err := d.disk.SetAside(tp)
	switch {
	case err == nil:
		m.log.Warn("a partition's folder is set aside and may be removed: "+why, "directory", d.disk.Path(), "folder", tp.String(), "now", folder)
	case errors.Is(err, commitlog.ErrDiskFailed):
		d.fail("set "+tp.String()+" aside", err)
	default:
		m.log.Error("a partition's folder can't be renamed and is left alone: "+why, "directory", d.disk.Path(), "folder", tp.String(), "error", err)
	}
	return err == nil
}

// remove ends a partition whose topic was deleted, or that this node has no more, and takes its log off the disk.
func (p *replica) remove(why kafka.Error) {
	p.refuse(why)
	p.dir.count.Add(-1)
	if mv := p.m.moves.of(p); mv != nil {
		p.m.moves.abandon(mv, errMoveOver)
	}
	if p.uncleanable.Load() != nil {
		p.m.cleaner.metrics.UncleanablePartitions.Add(-1)
	}
	if p.damage.Load() != nil {
		p.m.damage.DamagedPartitions.Add(-1)
	}
	// Nothing takes the lock for a change any more, now that the partition refuses.
	p.dir.doom(p.tp)
}
