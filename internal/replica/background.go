package replica

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
)

// background is what happens to partitions without a request: the watch on free space, retention, deletion of files, checkpoints, expiry of producers,
// and flush.ms. One goroutine does it all, one duty after the other.
type background struct {
	m                                      *Manager
	duties                                 []duty
	space, retention, folders, checkpoints *duty // those that come back sooner at times
	quit                                   chan struct{}
	done                                   chan struct{}
}

// duty is something to do every so often.
type duty struct {
	every time.Duration
	next  time.Time
	do    func(now time.Time)
}

const (
	// sweepEvery is how often files are deleted that were renamed to .deleted long enough ago.
	sweepEvery = 10 * time.Second
	// sweepAgainAfter is how soon the next folders are, where there are more of them than are removed at a time: other duties come first.
	sweepAgainAfter = 20 * time.Millisecond
)

func (b *background) start(m *Manager, byCaller bool) {
	b.m, b.quit, b.done = m, make(chan struct{}), make(chan struct{})
	ms := func(name string) time.Duration { return time.Duration(m.broker.Int64(name)) * time.Millisecond }
	b.duties = []duty{
		{every: roomEvery, do: b.watchSpace},
		{every: b.retainEvery(), do: b.retainOften},
		{every: sweepEvery, do: b.sweep},
		{every: sweepEvery, do: b.sweepFolders},
		{every: roomEvery, do: b.make},
		{every: b.checkpointEvery(), do: b.checkpoint},
		{every: ms("producer.id.expiration.check.interval.ms"), do: b.expireProducers},
	}
	if m.alterer.ask != nil {
		b.duties = append(b.duties, duty{every: time.Duration(m.lagMaxMs) * time.Millisecond / 2, do: func(time.Time) { m.checkLag() }})
	}
	if m.osDurability {
		b.duties = append(b.duties, duty{every: ms("log.flush.scheduler.interval.ms"), do: b.flushAged})
	}
	b.space, b.retention, b.folders, b.checkpoints = &b.duties[0], &b.duties[1], &b.duties[3], &b.duties[5]
	now := m.now()
	for i := range b.duties {
		b.duties[i].next = now.Add(b.duties[i].every)
	}
	if byCaller {
		close(b.done)
		return
	}
	go b.run()
}

func (b *background) run() {
	defer close(b.done)
	timer := time.NewTimer(b.wait(b.m.now()))
	defer timer.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-timer.C:
		}
		b.tick(b.m.now())
		timer.Reset(b.wait(b.m.now()))
	}
}

// wait returns how long it is until the next duty.
func (b *background) wait(now time.Time) time.Duration {
	first := b.duties[0].next
	for _, d := range b.duties[1:] {
		if d.next.Before(first) {
			first = d.next
		}
	}
	return max(first.Sub(now), time.Millisecond)
}

// tick does what is due.
func (b *background) tick(now time.Time) {
	for i := range b.duties {
		if d := &b.duties[i]; !now.Before(d.next) {
			d.do(now)
			d.next = now.Add(max(d.every, time.Millisecond))
		}
	}
}

func (b *background) close() {
	close(b.quit)
	<-b.done
}

// retainOften is retain, and comes back soon for what was left.
func (b *background) retainOften(now time.Time) {
	b.retention.every = b.retainEvery()
	if !b.retain(now) {
		b.retention.every = min(b.retention.every, sweepEvery)
	}
}

func (b *background) retainEvery() time.Duration {
	return time.Duration(b.m.broker.Int64("log.retention.check.interval.ms")) * time.Millisecond
}

// looksMax is how many folders of partitions that sleep retention looks into at a time.
const looksMax = 10_000

// retain removes segments that are too old or too many. A partition that sleeps wakes if it may have some. It is false if there are
// partitions that it has not looked at.
func (b *background) retain(now time.Time) bool {
	return b.retainSlots(now, func(*replica) bool { return true })
}

func (b *background) retainSlots(now time.Time, which func(*replica) bool) bool {
	looks := 0
	for s := range b.m.slots() {
		if s.awakened() == nil {
			due, looked := s.retentionDue(now, looks < looksMax)
			if looked {
				looks++
			}
			if !due {
				continue
			}
		}
		if p, err := s.replica(); err == nil && which(p) {
			p.retain(now)
		}
	}
	return looks < looksMax
}

func (p *replica) retain(now time.Time) {
	p.mu.Lock()
	if p.serves() != nil || p.core == nil && p.follower == nil {
		p.mu.Unlock()
		return
	}
	before := p.log.StartOffset()
	removed, err := p.log.Retain(now, kafka.Offset(p.high.Load()))
	var released []partition.Release
	follows := false
	if start := p.log.StartOffset(); start > before {
		if p.core != nil {
			released = p.core.StartMoved(start, nil)
		} else {
			p.follower.StartMoved(start)
			follows = true
		}
		p.dir.unsaved.Store(true)
	}
	p.mu.Unlock()
	answerReleased(released)
	if follows {
		p.tellLeader()
	}
	if err != nil {
		_ = p.failedWrite("remove old records of", err)
		return
	}
	if removed > 0 {
		p.m.log.Info("retention removed records", "partition", p.tp.String(), "bytes", removed, "start", int64(p.log.StartOffset()))
	}
}

// sweepFolders deletes folders of deleted partitions whose time has come, some at a time: many of them take long.
func (b *background) sweepFolders(now time.Time) {
	b.folders.every = sweepEvery
	for _, d := range b.m.allDirs {
		if more, err := d.disk.SweepFolders(now); more && err == nil { // which sweep tells of
			b.folders.every = sweepAgainAfter
		}
	}
}

// sweep deletes the files and folders whose time has come.
func (b *background) sweep(now time.Time) {
	for _, d := range b.m.allDirs {
		if d.failed() {
			continue
		}
		if err := d.disk.Sweep(now); err != nil {
			b.m.log.Warn("deleted files are still on the disk", "directory", d.disk.Path(), "error", err)
		}
		d.tell()
	}
}

// checkpoint writes the checkpoint files of the directories in which something has changed. Where that takes long it comes back soon.
func (b *background) checkpoint(time.Time) {
	b.checkpoints.every = b.checkpointEvery()
	for _, d := range b.m.allDirs {
		if d.failed() || !d.changed() {
			continue
		}
		more, err := d.saveSome()
		if err != nil {
			b.m.log.Error("checkpoints were not written: a restart after a crash will take longer", "directory", d.disk.Path(), "error", err)
		}
		if more {
			b.checkpoints.every = sweepAgainAfter
		}
	}
}

func (b *background) checkpointEvery() time.Duration {
	return time.Duration(min(b.m.broker.Int64("log.flush.offset.checkpoint.interval.ms"),
		b.m.broker.Int64("replica.high.watermark.checkpoint.interval.ms"))) * time.Millisecond
}

func (b *background) expireProducers(now time.Time) {
	for p := range b.m.replicas() {
		p.mu.Lock()
		if p.serves() == nil {
			p.log.Producers().Expire(now, p.settings.Load().log.ProducerIDExpiration)
		}
		p.mu.Unlock()
	}
}

// flushAged flushes what flush.ms says, where durability is the operating system's.
func (b *background) flushAged(now time.Time) {
	nowMs := now.UnixMilli()
	for p := range b.m.replicas() {
		if p.serves() != nil || p.log.FlushedOffset() == p.log.EndOffset() {
			p.synced.Store(nowMs)
			continue
		}
		if nowMs-p.synced.Load() >= p.settings.Load().topic.FlushMs {
			p.synced.Store(nowMs)
			p.dir.flusher.add(p)
		}
	}
}

// slots goes through those of all partitions on this node, in the order of their names.
func (m *Manager) slots() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for _, t := range m.topics() {
			for _, s := range t.slots {
				if s != nil && !yield(s) {
					return
				}
			}
		}
	}
}

// replicas goes through all that are awake, in the order of their names.
func (m *Manager) replicas() iter.Seq[*replica] {
	return func(yield func(*replica) bool) {
		for s := range m.slots() {
			if p := s.awakened(); p != nil && !yield(p) {
				return
			}
		}
	}
}

// topics returns all topics, in the order of their names.
func (m *Manager) topics() []*topic {
	var all []*topic
	for _, t := range m.table.byName.Range {
		all = append(all, t.(*topic))
	}
	slices.SortFunc(all, func(a, b *topic) int { return strings.Compare(a.name, b.name) })
	return all
}

// expireEvery is how exactly the timeouts of produces are kept.
const expireEvery = 50 * time.Millisecond

// expiry answers produces whose time is over. Its one timer runs only while some are parked.
type expiry struct {
	m *Manager

	mu    sync.Mutex // guards the rest
	watch []*replica // in which a produce may be parked
	armed bool
}

// add is called when a produce was parked in p.
func (e *expiry) add(p *replica) {
	if p.watched.Load() || !p.watched.CompareAndSwap(false, true) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watch = append(e.watch, p)
	e.arm()
}

// arm starts the timer unless it runs. The caller holds mu.
func (e *expiry) arm() {
	if !e.armed && len(e.watch) > 0 {
		e.armed = true
		time.AfterFunc(expireEvery, e.sweep)
	}
}

func (e *expiry) sweep() {
	e.mu.Lock()
	watch := e.watch
	e.watch, e.armed = nil, false
	e.mu.Unlock()
	nowMs := e.m.upMs(e.m.now())
	var released []partition.Release
	kept := watch[:0]
	for _, p := range watch {
		// A produce that parks after this is added again.
		p.watched.Store(false)
		p.mu.Lock()
		waiting := 0
		if p.core != nil {
			released = p.core.Expire(nowMs, released)
			waiting = p.core.Waiting()
		}
		p.mu.Unlock()
		if waiting > 0 && p.watched.CompareAndSwap(false, true) {
			kept = append(kept, p)
		}
	}
	answerReleased(released)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watch = append(e.watch, kept...)
	e.arm()
}
