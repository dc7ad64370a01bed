package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
)

// recovery opens, after a stop that was not in order, the logs that nobody has asked for yet, several at a time. So what is asked for
// is served at once, and how long that takes does not grow with the number of partitions. When all are open, what was found is made
// durable at once, and the journals have served; until then nothing is compacted or moved: a journal says what was at the end of logs.
type recovery struct {
	m     *Manager
	begun bool    // guarded by Manager.applyMu
	due   []*slot // not changed once it has begun
	over  atomic.Bool

	quit     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

const (
	// recoverAtOnce is how many logs are opened before what was found is flushed: together, as one flush of each costs more.
	recoverAtOnce = 256
	// recoverAgainAfter is how long it waits for logs that do not open because the system has run out of something.
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
	if len(r.due) == 0 {
		r.end()
		close(r.done)
		return
	}
	go r.run()
}

// stop lets it end with the logs that are being opened. It may be called again.
func (r *recovery) stop() { r.stopOnce.Do(func() { close(r.quit) }) }

// close stops it, waits for its end, and tells whether nothing is left to it.
func (r *recovery) close() bool {
	r.stop()
	r.m.applyMu.Lock()
	begun := r.begun
	r.m.applyMu.Unlock()
	if !begun {
		return true
	}
	<-r.done
	return r.over.Load()
}

func (r *recovery) run() {
	defer close(r.done)
	began, left := r.m.now(), r.due
	r.m.log.Info("recovering partitions after a stop that was not in order: each is served as soon as it is ready, or somebody asks", "partitions", len(left))
	for {
		if left = r.open(left); len(left) == 0 {
			break
		}
		if !pause(recoverAgainAfter, r.quit) {
			return
		}
	}
	r.end()
	r.m.log.Info("all partitions are recovered", "partitions", len(r.due), "ms", r.m.now().Sub(began).Milliseconds())
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

// prepare opens the logs of a group and flushes them at once. What goes wrong is told when they are used.
func (r *recovery) prepare(group []*slot) {
	logs := make([]*commitlog.Log, len(group))
	several(len(group), func(i int) { logs[i] = group[i].prepare() })
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

// end makes durable, once, what recovery found.
func (r *recovery) end() {
	for _, d := range r.m.allDirs {
		d.tell()
		if d.failed() {
			continue
		}
		if err := d.disk.SyncRecovered(); err != nil {
			d.fail("flush of what recovery found", err)
		}
	}
	r.over.Store(true)
}
