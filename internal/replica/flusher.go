package replica

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Named limits of a group commit.
const (
	// flushersMax is how many files of a directory are flushed side by side: more only queue up in the device.
	flushersMax = 16
	// flushAllFrom is from how many files on one flush of the whole file system costs less than one of each.
	flushAllFrom = 24
	// flushAgainAfter is how long a flush waits for which the process had no file descriptor.
	flushAgainAfter = 50 * time.Millisecond
)

// FlushMetrics count the rounds of group commits.
type FlushMetrics struct {
	RoundMicros metric.Histogram // from when a round began until all that waited for it were told
}

// FlushMetrics are the numbers of group commits.
func (m *Manager) FlushMetrics() *FlushMetrics { return &m.flushes }

// flusher makes what was appended in one log directory durable. Whatever waits when a round begins is flushed in that round,
// with one Sync per log, and what comes meanwhile waits for the next: so under load one Sync serves many requests. It holds
// no partition's lock during a Sync.
type flusher struct {
	d *logDir

	mu    sync.Mutex // guards dirty
	dirty []*replica
	holds atomic.Int32 // appends that others follow at once: a round waits for them

	gathered gathered // the goroutine's own

	wake chan struct{} // holds one token while dirty may not be empty
	quit chan struct{}
	done chan struct{}
}

func newFlusher(d *logDir) *flusher {
	f := &flusher{d: d, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go f.run()
	return f
}

// add puts a replica on the list of the next round, unless it is there.
func (f *flusher) add(p *replica) {
	if p.queued.Load() || !p.queued.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	f.dirty = append(f.dirty, p)
	f.mu.Unlock()
	if f.holds.Load() == 0 {
		f.poke()
	}
}

func (f *flusher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// hold keeps rounds from beginning until release, which must follow soon: what is appended to several partitions meanwhile is flushed
// in one round. Else the first of them would often be flushed alone, and the others wait for that. The partitions must be awake already,
// as others would have to wait while one is opened.
func (m *Manager) hold() {
	for _, d := range m.dirs {
		d.flusher.holds.Add(1)
	}
}

// Together lets what is appended meanwhile, little to each of several partitions that are awake, be flushed in one round.
func (m *Manager) Together(appends func()) {
	m.hold()
	defer m.release()
	appends()
}

// release ends a hold, and lets a round begin also where others hold.
func (m *Manager) release() {
	for _, d := range m.dirs {
		f := d.flusher
		f.holds.Add(-1)
		f.mu.Lock()
		waiting := len(f.dirty) > 0
		f.mu.Unlock()
		if waiting {
			f.poke()
		}
	}
}

// close ends the flusher, after the round that runs and one for what waits.
func (f *flusher) close() {
	close(f.quit)
	<-f.done
}

func (f *flusher) run() {
	defer close(f.done)
	var round []*replica
	workers := make([]flushWorker, flushersMax)
	for {
		stopping := false
		select {
		case <-f.wake:
		case <-f.quit:
			stopping = true
		}
		f.mu.Lock()
		round, f.dirty = f.dirty, round[:0]
		f.mu.Unlock()
		f.flush(round, workers)
		clear(round)
		if stopping {
			return
		}
		f.retry(workers)
	}
}

// retry puts those on the list again whose flush could not begin, and waits: somebody must close a file first.
func (f *flusher) retry(workers []flushWorker) {
	later := 0
	for i := range workers {
		w := &workers[i]
		later += len(w.later)
		for _, p := range w.later {
			f.add(p)
		}
		clear(w.later)
		w.later = w.later[:0]
	}
	if later == 0 {
		return
	}
	timer := time.NewTimer(flushAgainAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.quit:
	}
}

// flushWorker is what one of the goroutines of a round reuses from round to round.
type flushWorker struct {
	released []partition.Release
	later    []*replica // whose flush could not begin
}

// postpone tells whether a flush failed for want of a file descriptor alone: nothing was tried, so it is tried again.
func (w *flushWorker) postpone(err error, round ...*replica) bool {
	if !vfs.IsOutOfFiles(err) {
		return false
	}
	w.later = append(w.later, round...)
	round[0].dir.sayAtTimes("the process has too many files open: acknowledgements wait until others are closed; raise its limit (ulimit -n)",
		"flush", round[0], err)
	return true
}

// gathered is what a round found of its replicas when it began; reused from round to round.
type gathered struct {
	totals []int64
	ends   []kafka.Offset
	logs   []*commitlog.Log
}

// gather looks at the replicas before they are flushed: what is appended from here on may not be covered.
func (g *gathered) gather(round []*replica) {
	g.totals, g.ends, g.logs = growTo(g.totals, len(round)), growTo(g.ends, len(round)), growTo(g.logs, len(round))
	for i, p := range round {
		g.totals[i], g.ends[i], g.logs[i] = p.appended.Load(), p.log.EndOffset(), p.log
	}
}

// flush makes every replica of the round durable, in the way that costs least: those with little to flush together, the others
// depending on how many they are.
func (f *flusher) flush(round []*replica, workers []flushWorker) {
	if len(round) == 0 {
		return
	}
	began := time.Now()
	defer func() { f.d.m.flushes.RoundMicros.Observe(time.Since(began).Microseconds()) }()
	round = f.flushSmall(round, &workers[0])
	switch n := len(round); {
	case n == 0:
	case n == 1:
		workers[0].flush(round[0])
	case n >= flushAllFrom:
		f.flushAll(round, &workers[0])
	default:
		var next atomic.Int32
		var others sync.WaitGroup
		work := func(w *flushWorker) {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				w.flush(round[i])
			}
		}
		for i := 1; i < min(n, flushersMax); i++ {
			others.Go(func() { work(&workers[i]) })
		}
		work(&workers[0])
		others.Wait()
	}
}

// flush makes one replica durable and tells it so. A failure is never tried again: what the kernel has dropped, a second
// Sync would not bring back. The directory goes offline.
func (w *flushWorker) flush(p *replica) {
	total := p.appended.Load()
	end, err := p.log.Flush()
	if err != nil {
		if !errors.Is(err, commitlog.ErrClosed) && !w.postpone(err, p) { // not because the partition was deleted
			p.dir.fail("flush "+p.tp.String(), err)
		}
		return
	}
	w.released = p.stable(end, total, w.released)
}

// flushSmall flushes the replicas together that have little to flush, and returns the others.
// The round is reused for them.
func (f *flusher) flushSmall(round []*replica, w *flushWorker) (others []*replica) {
	if len(round) == 0 {
		return nil
	}
	for _, p := range round {
		// From here on an append puts the replica on the list again: this round may not cover it. Only once in a round, or it would
		// be in the next one twice.
		p.queued.Store(false)
	}
	g := &f.gathered
	g.gather(round)
	defer clear(g.logs)
	if err := f.d.disk.FlushSmall(g.logs); err != nil {
		if !w.postpone(err, round...) {
			f.d.fail("flush of the journal", err)
		}
		return nil
	}
	others = round[:0]
	for i, p := range round {
		if end := p.log.FlushedOffset(); end >= g.ends[i] {
			w.released = p.stable(end, g.totals[i], w.released)
		} else {
			others = append(others, p)
		}
	}
	return others
}

// flushAll makes the whole round durable at once.
func (f *flusher) flushAll(round []*replica, w *flushWorker) {
	g := &f.gathered
	g.gather(round)
	defer clear(g.logs)
	if err := f.d.disk.FlushAll(g.logs); err != nil {
		if !w.postpone(err, round...) {
			f.d.fail("flush of all its files", err)
		}
		return
	}
	for i, p := range round {
		w.released = p.stable(p.log.FlushedOffset(), g.totals[i], w.released)
	}
}
