package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/partition"
)

// moves takes partitions from one log directory to another while they serve. One goroutine copies, a piece of each in turn, up
// to the high watermark into a future replica. When that has caught up, the metadata is told where the partition will be; when
// it says so, the partition's lock is held for the rest, the flush and the rename, and another replica takes its place. A crash
// before the rename leaves the old log, and the move begins anew at the start; one after it leaves both, of which the metadata
// names the new one.
type moves struct {
	m    *Manager
	rate atomic.Int64 // replica.alter.log.dirs.io.max.bytes.per.second

	paused atomic.Bool // the node stops: what is refused for that goes on after the start

	mu     sync.Mutex // guards active
	active []*move

	wake chan struct{} // holds one token while active may have grown
	quit chan struct{}
	done chan struct{}
}

// move is one partition on its way.
type move struct {
	p  *replica
	to *logDir

	mu       sync.Mutex // guards all below; taken after Manager.applyMu and before the replica's mu
	future   *commitlog.Log
	cuts     int32 // of p when the copy began
	reported bool  // the metadata was told where the partition will be
	over     bool
}

const (
	moveStepBytes = 1 << 20
	moveIdle      = 20 * time.Millisecond // between two looks at what has nothing to copy
	moveNoRoom    = time.Second
)

func (s *moves) start(m *Manager) {
	s.m, s.wake, s.quit, s.done = m, make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.run()
}

// close ends copying. What was copied is left for the next start, which begins anew.
func (s *moves) close() {
	close(s.quit)
	<-s.done
	for _, mv := range s.list() {
		mv.mu.Lock()
		if mv.future != nil {
			_ = mv.future.Close() // of no use but to close its directory in order
		}
		mv.over = true
		mv.mu.Unlock()
	}
}

func (s *moves) list() []*move {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.active)
}

// of returns the move of a partition, or nil.
func (s *moves) of(p *replica) *move {
	for _, mv := range s.list() {
		if mv.p == p {
			return mv
		}
	}
	return nil
}

// futures are the copies that are being made.
func (s *moves) futures() map[*replica]*commitlog.Log {
	found := map[*replica]*commitlog.Log{}
	for _, mv := range s.list() {
		mv.mu.Lock()
		if mv.future != nil {
			found[mv.p] = mv.future
		}
		mv.mu.Unlock()
	}
	return found
}

func (s *moves) add(p *replica, to *logDir) {
	s.mu.Lock()
	s.active = append(s.active, &move{p: p, to: to})
	s.mu.Unlock()
	s.m.log.Info("a partition moves to another log directory", "partition", p.tp.String(), "from", p.dir.disk.Path(), "to", to.disk.Path())
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *moves) remove(mv *move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = slices.DeleteFunc(s.active, func(other *move) bool { return other == mv })
}

func (s *moves) run() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	allowed := pace{rate: &s.rate, last: time.Now()}
	for {
		select {
		case <-s.quit:
			return
		case <-timer.C:
		case <-s.wake:
		}
		active := s.list()
		if len(active) == 0 {
			continue
		}
		pause, idle := allowed.wait(), moveNoRoom
		if pause > 0 {
			idle = 0
		}
		for i := 0; i < len(active) && pause == 0; i++ {
			copied, wait := s.step(active[i])
			idle = min(idle, wait)
			pause = allowed.spend(copied)
		}
		timer.Reset(max(pause, idle))
	}
}

// pace keeps to a number of bytes a second.
type pace struct {
	rate *atomic.Int64
	last time.Time
	debt float64 // bytes that were copied before their time
}

// wait returns how long to do nothing now: a second at most, as the rate may change.
func (p *pace) wait() time.Duration {
	now, rate := time.Now(), float64(max(p.rate.Load(), 1))
	p.debt = max(p.debt-now.Sub(p.last).Seconds()*rate, 0)
	p.last = now
	if p.debt < 1 {
		return 0
	}
	return time.Duration(min(p.debt/rate, 1) * float64(time.Second))
}

func (p *pace) spend(bytes int) time.Duration {
	p.debt += float64(bytes)
	return p.wait()
}

// step copies a piece, or ends the move if nothing is left. wait is how long to do nothing then.
func (s *moves) step(mv *move) (copied int, wait time.Duration) {
	if !mv.p.dir.recovered.Load() || !mv.to.recovered.Load() {
		return 0, moveIdle
	}
	copied, caughtUp, err := mv.copySome(s.m.now())
	switch {
	case errors.Is(err, errMoveOver):
		s.remove(mv)
		return 0, 0
	case errors.Is(err, kafka.KafkaStorageError) && !mv.to.failed():
		return 0, moveNoRoom
	case err != nil && s.paused.Load():
		return 0, moveIdle
	case err != nil:
		s.abandon(mv, err)
		return 0, 0
	case !caughtUp && copied == 0:
		return 0, moveIdle
	case !caughtUp:
		return copied, 0
	}
	if !mv.announced() {
		return 0, moveIdle
	}
	switch err := s.finish(mv); {
	case err != nil && s.paused.Load(): // stopped just now
		return 0, moveIdle
	case err != nil:
		s.abandon(mv, err)
	}
	return 0, 0
}

// unreadableError is what the log that moves can't be read for.
type unreadableError struct{ cause error }

func (e *unreadableError) Error() string { return "read the log that moves: " + e.cause.Error() }

var (
	errMoveOver = errors.New("the move is over")
	errCut      = errors.New("what was copied is not in the log any more")
)

// copySome copies up to moveStepBytes of what is below the high watermark.
func (mv *move) copySome(now time.Time) (copied int, caughtUp bool, err error) {
	mv.mu.Lock()
	defer mv.mu.Unlock()
	if mv.over {
		return 0, false, errMoveOver
	}
	if err := mv.p.serves(); err != nil {
		return 0, false, err
	}
	if mv.future == nil {
		if err := mv.begin(now); err != nil {
			return 0, false, mv.failed("begin", err)
		}
	}
	bound := kafka.Offset(mv.p.high.Load())
	copied, err = mv.copyTo(bound, moveStepBytes, now)
	if unreadable, ok := errors.AsType[*unreadableError](err); ok {
		return copied, false, mv.p.failedRead(unreadable.cause)
	}
	if err != nil || mv.future.EndOffset() < bound {
		return copied, false, err
	}
	if _, err := mv.future.Flush(); err != nil {
		return copied, false, mv.failed("flush", err)
	}
	return copied, true, nil
}

// begin makes the future replica. It begins with the batch that holds the log's start.
func (mv *move) begin(now time.Time) error {
	p := mv.p
	base := p.log.StartOffset()
	for b, err := range p.log.Batches(base) {
		if err != nil {
			return err
		}
		base = min(base, b.BaseOffset())
		break
	}
	mv.cuts = p.cuts.Load()
	future, err := mv.to.disk.CreateFuture(p.tp, p.id, base, p.settings.Load().log, now)
	mv.future = future
	return err
}

// copyTo copies batches that end at bound or before it, until size is reached.
func (mv *move) copyTo(bound kafka.Offset, size int, now time.Time) (copied int, err error) {
	p, from := mv.p, mv.future.EndOffset()
	if p.cuts.Load() != mv.cuts {
		return 0, errCut
	}
	if from >= bound {
		return 0, nil
	}
	for b, err := range p.log.Batches(max(from, p.log.StartOffset())) {
		switch {
		case errors.Is(err, kafka.OffsetOutOfRange): // retention was faster
			return copied, nil
		case err != nil:
			return copied, &unreadableError{err}
		case b.NextOffset() > bound || copied >= size:
			return copied, nil
		case b.BaseOffset() < mv.future.EndOffset(): // the batch that holds the start was copied
			continue
		case !mv.to.space.take(len(b), roomy):
			return copied, kafka.KafkaStorageError
		}
		if err := mv.future.AppendCopied(slices.Clone(b), now); err != nil {
			return copied, mv.failed("copy", err)
		}
		copied += len(b)
	}
	return copied, nil
}

// failed takes the directory that the partition moves to offline when its disk is at fault.
func (mv *move) failed(doing string, err error) error {
	if errors.Is(err, commitlog.ErrDiskFailed) && mv.to.disk.Failed() != nil {
		mv.to.fail(doing+" move of "+mv.p.tp.String(), err)
	}
	return err
}

// announced tells whether the metadata says that the partition is where it moves to. It is told so the first time.
func (mv *move) announced() bool {
	m := mv.p.m
	if m.onDirReport == nil {
		return true
	}
	mv.mu.Lock()
	first := !mv.reported
	mv.reported = true
	mv.mu.Unlock()
	if first {
		m.addReport(mv.p, mv.to)
		m.tellReport()
	}
	is := mv.p.assigned.Load()
	return is != nil && *is == mv.to.disk.ID()
}

// finish puts the future replica in the place of the partition's log.
func (s *moves) finish(mv *move) error {
	m, p := s.m, mv.p
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	mv.mu.Lock()
	defer mv.mu.Unlock()
	current, err := m.find(p.id, p.tp.Topic, p.tp.Partition)
	if mv.over || m.closed || err != nil || current != p {
		return errMoveOver
	}
	p.mu.Lock()
	next, err := mv.swap(m.now())
	p.mu.Unlock()
	if err != nil {
		return mv.failed("finish", err)
	}
	p.wakeAll()
	if mv.to.failed() { // it did not find next in the table
		next.refuse(kafka.KafkaStorageError)
	}
	m.expiry.add(next)
	answerReleased(next.settleMoved())
	next.tellFetcher()
	p.dir.count.Add(-1)
	mv.to.count.Add(1)
	mv.over = true
	s.remove(mv)
	mv.to.unsaved.Store(true)
	m.log.Info("a partition has moved to another log directory", "partition", p.tp.String(), "from", p.dir.disk.Path(), "to", mv.to.disk.Path())
	return nil
}

// swap copies the rest and lets another replica take the place of p. The caller holds the locks of Apply, the move and p: the
// partition takes nothing meanwhile, while its readers go on.
func (mv *move) swap(now time.Time) (*replica, error) {
	p := mv.p
	if err := p.serves(); err != nil {
		return nil, err
	}
	if p.cuts.Load() != mv.cuts {
		return nil, errCut
	}
	for end := p.log.EndOffset(); mv.future.EndOffset() < end; {
		copied, err := mv.copyTo(end, moveStepBytes, now)
		if err != nil {
			return nil, err
		}
		if copied == 0 {
			return nil, fmt.Errorf("copy of %s ends at %d, the log at %d", p.tp, mv.future.EndOffset(), end)
		}
	}
	log, err := mv.to.disk.Promote(mv.future, p.log, now)
	mv.future = nil
	if err != nil {
		return nil, err
	}
	next := &replica{m: p.m, dir: mv.to, log: log, tp: p.tp, id: p.id, core: p.core, follower: p.follower, traffic: p.traffic}
	next.followed.Store(p.followed.Load())
	next.settings.Store(p.settings.Load())
	next.assigned.Store(p.assigned.Load())
	next.uncleanable.Store(p.uncleanable.Load())
	next.cleanedMs.Store(p.cleanedMs.Load())
	log.Producers().TakeGuards(p.log.Producers())
	// Nothing is taken until the old folder has durably lost its name: a power cut would leave two, and who does not know from the
	// metadata where the partition is would go by the older one.
	next.mu.Lock()
	defer next.mu.Unlock()
	next.publish()
	next.countAnew()
	p.core, p.follower = nil, nil
	p.m.table.replace(p, next) // before p refuses: who is refused looks for the successor there
	p.moved.Store(true)
	p.refusal.CompareAndSwap(0, int32(kafka.NotLeaderOrFollower))
	p.publish()
	p.dir.remove(p.tp)
	return next, nil
}

// successor is the replica that took the place of p in another log directory, where p refuses a request for that reason.
func (p *replica) successor(refusal error) *replica {
	if !p.moved.Load() || !errors.Is(refusal, kafka.NotLeaderOrFollower) {
		return nil
	}
	next, err := p.m.find(p.id, p.tp.Topic, p.tp.Partition)
	if err != nil {
		return nil
	}
	return next
}

// settleMoved lets everything go that waited for the old log to be flushed: the new one is.
func (p *replica) settleMoved() (released []partition.Release) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.core != nil:
		released = p.core.Flushed(p.log.FlushedOffset(), nil)
	case p.follower != nil:
		p.follower.Flushed(p.log.FlushedOffset())
	}
	p.publish()
	p.countReadable()
	return released
}

// abandon ends a move without effect.
func (s *moves) abandon(mv *move, why error) {
	mv.mu.Lock()
	over, reported := mv.over, mv.reported
	mv.over = true
	err := error(nil)
	if !over {
		err = mv.to.disk.DropFuture(mv.p.tp)
	}
	mv.mu.Unlock()
	s.remove(mv)
	if over {
		return
	}
	if reported { // it stays where it is
		s.m.addReport(mv.p, mv.p.dir)
		s.m.tellReport()
	}
	if !errors.Is(why, errMoveOver) {
		s.m.log.Warn("a partition stays in its log directory", "partition", mv.p.tp.String(), "directory", mv.p.dir.disk.Path(),
			"to", mv.to.disk.Path(), "error", errors.Join(why, err))
	}
}

// MoveReplica begins to move a partition to another log directory, and ends its move to any other.
func (m *Manager) MoveReplica(tp kafka.TopicPartition, path string) error {
	if !commitlog.HoldsFuture(tp) {
		return kafka.InvalidTopicException
	}
	i := slices.IndexFunc(m.dirs, func(d *logDir) bool { return d.disk.Path() == path })
	if i < 0 {
		return kafka.LogDirNotFound
	}
	to := m.dirs[i]
	if to.failed() {
		return kafka.KafkaStorageError
	}
	m.applyMu.Lock() // so that the partition is not replaced meanwhile
	defer m.applyMu.Unlock()
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err != nil {
		return err
	}
	if err := p.serves(); err != nil {
		return err
	}
	if mv := m.moves.of(p); mv != nil {
		if mv.to == to {
			return nil
		}
		m.moves.abandon(mv, errMoveOver)
	}
	switch {
	case p.dir == to:
		return nil
	case to.shut.Load():
		return kafka.InvalidReplicaAssignment
	case slices.ContainsFunc(m.dirs, (*logDir).failed):
		return kafka.KafkaStorageError
	}
	m.moves.add(p, to)
	return nil
}

// resumeMoves begins anew what a restart cut short: where the start found a future replica.
func (c *change) resumeMoves() {
	for _, s := range c.opening {
		p := s.awakened()
		if p == nil {
			continue
		}
		to, ok := c.m.futures[p.tp]
		if !ok {
			continue
		}
		delete(c.m.futures, p.tp)
		if p.log != nil && to != p.dir && !to.failed() {
			c.m.moves.add(p, to)
		}
	}
}

// noteAssigned keeps where the metadata has the replica.
func (p *replica) noteAssigned(has *meta.Partition) {
	if at := slices.Index(has.Replicas, p.m.node); at >= 0 && at < len(has.Dirs) && meta.NamesDir(has.Dirs[at]) {
		p.assigned.Store(&has.Dirs[at])
	}
}
