package replica

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/vfs"
)

// recovery opens, after a stop that was not in order, the logs that nobody has asked for yet, several at a time. So what is asked for
// is served at once, and how long that takes does not grow with the number of partitions. A log directory is recovered when all its
// logs are open and durable; until then its journal stays, as it says what was at the end of logs, and nothing of it is compacted or
// moved.
type recovery struct {
	m     *Manager
	begun bool    // guarded by Manager.applyMu
	due   []*slot // of the first Apply; run's alone once it has begun

	quit     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

const (
	// recoverAtOnce is how many logs are opened before what was found is flushed: together, as one flush of each costs more.
	recoverAtOnce = 256
	// recoverAgainAfter is how long it waits for what the system has run out of.
	recoverAgainAfter = time.Second
)

func (r *recovery) init(m *Manager) {
	r.m, r.quit, r.done = m, make(chan struct{}), make(chan struct{})
}

// begin begins, once, with the first image. The caller holds Manager.applyMu.
func (r *recovery) begin() {
	if r.begun {
		return
	}
	r.begun = true
	r.m.setStraysAside()
	if len(r.due) == 0 && r.end(nil) {
		close(r.done)
		return
	}
	go r.run(r.due)
	r.due = nil
}

// stop lets it end with the logs that are being opened. It may be called again.
func (r *recovery) stop() { r.stopOnce.Do(func() { close(r.quit) }) }

// close stops it and waits for its end, or for ctx.
func (r *recovery) close(ctx context.Context) {
	r.stop()
	r.m.applyMu.Lock()
	begun := r.begun
	r.m.applyMu.Unlock()
	if !begun {
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

func (r *recovery) run(due []*slot) {
	defer close(r.done)
	began, left := r.m.now(), due
	if len(due) > 0 {
		r.m.log.Info("recovering partitions after a stop that was not in order: each is served as soon as it is ready, or somebody asks", "partitions", len(due))
	}
	for {
		left = r.open(left)
		if r.stopping() {
			r.m.log.Warn("the broker stops before all partitions are recovered: the next start goes on with it", "left", len(left))
			return
		}
		if r.end(left) {
			break
		}
		pause(recoverAgainAfter, r.quit)
	}
	refused := 0
	for _, s := range due {
		if p := s.awakened(); p != nil && p.serves() != nil {
			refused++
		}
	}
	r.m.log.Info("partitions are recovered", "partitions", len(due), "of which not served", refused, "ms", r.m.now().Sub(began).Milliseconds())
}

// open opens logs, and returns those that sleep on, or were left because the node stops.
func (r *recovery) open(slots []*slot) (left []*slot) {
	ready, told := 0, r.m.now()
	for group := range slices.Chunk(slots, recoverAtOnce) {
		if r.stopping() {
			return append(left, slots[ready:]...)
		}
		r.prepare(group)
		for _, s := range group {
			_, err := s.replica()
			if err != nil || r.stopping() { // which shuts those that sleep, though nobody has opened them
				left = append(left, s)
			}
		}
		ready += len(group)
		if now := r.m.now(); now.Sub(told) >= tellEvery {
			told = now
			r.m.log.Info("recovering partitions", "ready", ready, "of", len(slots))
		}
	}
	return left
}

func (r *recovery) stopping() bool {
	select {
	case <-r.quit:
		return true
	default:
		return false
	}
}

// prepare opens the logs of a group and flushes them at once. If something goes wrong, the use of the partition tells.
func (r *recovery) prepare(group []*slot) {
	logs := make([]*commitlog.Log, len(group))
	several(len(group), func(i int) {
		if !r.stopping() {
			logs[i] = group[i].prepare()
		}
	})
	for _, d := range r.m.dirs {
		var found []*commitlog.Log
		for _, l := range logs {
			if l != nil && l.Dir() == d.disk && l.FlushedOffset() < l.EndOffset() {
				found = append(found, l)
			}
		}
		if len(found) > 0 {
			_ = d.disk.FlushAll(found)
		}
	}
}

// end ends the recovery of the log directories in which no log is left, and tells whether that is all of them.
func (r *recovery) end(left []*slot) (all bool) {
	all = true
	waits := make(map[*logDir]bool)
	for _, s := range left {
		waits[s.dir()] = true
	}
	for _, d := range r.m.allDirs {
		switch {
		case d.recovered.Load() || d.failed():
		case waits[d]:
			all = false
		default:
			all = d.endRecovery() && all
		}
	}
	return all
}

// endRecovery lets the journal go. It is false if that can be tried again.
func (d *logDir) endRecovery() bool {
	d.tell()
	err := d.disk.SyncRecovered()
	switch {
	case err == nil:
		d.recovered.Store(true)
	case vfs.IsFull(err):
		d.sayAtTimes("the system refused something: recovery waits for it, and nothing is compacted or moved", "the end of recovery", nil, err)
		return false
	default:
		d.fail("flush of what recovery found", err)
	}
	return true
}

// dir is the log directory that holds the partition.
func (s *slot) dir() *logDir {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep != nil {
		return s.asleep.dir
	}
	return s.awake.Load().dir
}
