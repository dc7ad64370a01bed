package replica

import (
	"errors"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/vfs"
)

// CleanerMetrics count what compaction does.
type CleanerMetrics struct {
	Cleanings                 metric.Counter // logs that were cleaned
	Failed                    metric.Counter // cleanings that ended with an error
	ReadBytes, WrittenBytes   metric.Counter
	ReadRecords, KeptRecords  metric.Counter
	Running                   metric.Gauge // cleanings that run now
	UncleanablePartitions     metric.Gauge // given up until the broker starts again, as their log is damaged
	DirtiestRatioPercent      metric.Gauge // of the dirtiest log, when a thread last looked
	LongestOverdueMs          metric.Gauge // by which a log was beyond max.compaction.lag.ms then
	CleaningMs                metric.Histogram
	ThrottledMs               metric.Counter
	OldSegments, NewSegments  metric.Counter
	OldSegmentBytes, NewBytes metric.Counter
}

// cleanerSettings are what the configuration says to the cleaner.
type cleanerSettings struct {
	threads        int
	backoff        time.Duration
	mapBytes       int64 // of each thread
	mapLoadFactor  float64
	bufferBytes    int     // of each thread
	bytesPerSecond float64 // of all threads, read and written
}

func readCleanerSettings(b *config.Broker) cleanerSettings {
	s := cleanerSettings{
		threads: b.Int("log.cleaner.threads"), backoff: b.Duration("log.cleaner.backoff.ms"),
		mapLoadFactor: b.Float("log.cleaner.io.buffer.load.factor"), bytesPerSecond: b.Float("log.cleaner.io.max.bytes.per.second"),
	}
	if !b.Bool("log.cleaner.enable") {
		s.threads = 0
	}
	share := int64(max(s.threads, 1))
	s.mapBytes = b.Int64("log.cleaner.dedupe.buffer.size") / share
	s.bufferBytes = int(b.Int64("log.cleaner.io.buffer.size") / share / 2) // one to read, one to write
	return s
}

// cleaner compacts the logs of topics with cleanup.policy=compact: its threads take the dirtiest log that is due, one after the
// other. What goes wrong with one log leaves the others alone.
type cleaner struct {
	m       *Manager
	metrics CleanerMetrics

	applied cleanerSettings // guarded by Manager.applyMu, as are quit and the start and end of threads
	quit    chan struct{}   // nil while there are no threads
	threads sync.WaitGroup

	mu   sync.Mutex // guards the rest; held while a thread chooses its log
	busy map[*replica]bool
	free time.Time // when the next byte may be read or written
}

// CleanerMetrics are the numbers of compaction.
func (m *Manager) CleanerMetrics() *CleanerMetrics { return &m.cleaner.metrics }

// configure starts the threads, and starts them anew when settings change.
func (c *cleaner) configure(s cleanerSettings) {
	if s == c.applied {
		return
	}
	c.close()
	c.applied = s
	if s.threads == 0 {
		return
	}
	c.quit = make(chan struct{})
	for range s.threads {
		c.threads.Go(func() { c.run(s, c.quit) })
	}
}

// close ends the threads. A log that is being cleaned stays as it is.
func (c *cleaner) close() {
	if c.quit == nil {
		return
	}
	close(c.quit)
	c.threads.Wait()
	c.quit = nil
}

// backoffMin keeps log.cleaner.backoff.ms=0 from burning a processor.
const backoffMin = 10 * time.Millisecond

func (c *cleaner) run(s cleanerSettings, quit <-chan struct{}) {
	for {
		wait := max(s.backoff, backoffMin)
		if p, found := c.take(c.m.now()); p != nil {
			cleaned := c.clean(p, found, s, quit)
			c.giveBack(p)
			if cleaned {
				wait = 0
			}
		}
		if !pause(wait, quit) {
			return
		}
	}
}

// pause is false once the threads are to end.
func pause(d time.Duration, quit <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-quit:
		return false
	case <-timer.C:
		return true
	}
}

// take chooses the dirtiest log of those that are due, and keeps other threads off it.
func (c *cleaner) take(now time.Time) (dirtiest *replica, found commitlog.Cleanable) {
	type failure struct {
		p   *replica
		err error
	}
	var failures []failure
	defer func() { // with mu free again
		for _, f := range failures {
			c.failed(f.p, f.err)
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	ratio, overdueMs := 0.0, int64(0)
	for p := range c.m.replicas() {
		if c.busy[p] || !p.compacts() || c.m.moves.of(p) != nil {
			continue
		}
		has, err := p.log.Cleanable(now, kafka.Offset(p.lastStable.Load()))
		if err != nil {
			failures = append(failures, failure{p, err})
			continue
		}
		ratio, overdueMs = max(ratio, has.Ratio()), max(overdueMs, has.OverdueMs)
		if has.Due(p.settings.Load().topic.DirtyRatioMin) && (dirtiest == nil || has.Ratio() > found.Ratio()) {
			dirtiest, found = p, has
		}
	}
	c.metrics.DirtiestRatioPercent.Set(int64(ratio * 100))
	c.metrics.LongestOverdueMs.Set(overdueMs)
	if dirtiest != nil {
		if c.busy == nil {
			c.busy = make(map[*replica]bool)
		}
		c.busy[dirtiest] = true
	}
	return dirtiest, found
}

func (c *cleaner) giveBack(p *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, p)
}

// compacts tells whether the partition is one for the cleaner.
func (p *replica) compacts() bool {
	return p.log != nil && p.serves() == nil && p.dir.recovered.Load() && p.settings.Load().topic.CleanupCompact && p.uncleanable.Load() == nil
}

// A step of cleaning reads and writes so many bytes between two looks at the throttle and at the partition.
const (
	cleanStepMax = 1 << 20
	cleanStepMin = 16 << 10
	stepsASecond = 20
)

// clean compacts one log, and tells whether it came to the end.
func (c *cleaner) clean(p *replica, found commitlog.Cleanable, s cleanerSettings, quit <-chan struct{}) bool {
	c.metrics.Running.Add(1)
	defer c.metrics.Running.Add(-1)
	began := c.m.now()
	p.mu.Lock()
	producers := p.log.Producers().Lasts()
	p.mu.Unlock()
	cleaning, err := p.log.Compact(found, commitlog.CompactOptions{
		MapBytes: s.mapBytes, MapLoadFactor: s.mapLoadFactor, BufferBytes: s.bufferBytes, Producers: producers,
	}, began)
	if err != nil {
		c.failed(p, err)
		return false
	}
	defer cleaning.Close()
	budget := max(cleanStepMin, int64(min(cleanStepMax, s.bytesPerSecond/stepsASecond)))
	for done := false; !done; {
		var used int64
		used, done, err = cleaning.Step(budget)
		if err != nil {
			c.failed(p, err)
			return false
		}
		if p.serves() != nil || !c.throttle(used, s.bytesPerSecond, quit) {
			return false
		}
	}
	c.cleaned(p, cleaning.Stats(), c.m.now().Sub(began))
	return true
}

// throttle waits until so many bytes are allowed. It is false once the threads are to end.
func (c *cleaner) throttle(bytes int64, perSecond float64, quit <-chan struct{}) bool {
	c.mu.Lock()
	now := c.m.now()
	if c.free.Before(now) {
		c.free = now
	}
	c.free = c.free.Add(time.Duration(float64(bytes) / perSecond * float64(time.Second)))
	wait := c.free.Sub(now)
	c.mu.Unlock()
	if wait < time.Millisecond {
		wait = 0
	}
	c.metrics.ThrottledMs.Add(wait.Milliseconds())
	return pause(wait, quit)
}

func (c *cleaner) cleaned(p *replica, s commitlog.CompactStats, took time.Duration) {
	p.cleanedMs.Store(c.m.now().UnixMilli())
	c.metrics.Cleanings.Inc()
	c.metrics.CleaningMs.Observe(took.Milliseconds())
	c.metrics.ReadBytes.Add(s.ReadBytes)
	c.metrics.WrittenBytes.Add(s.WrittenBytes)
	c.metrics.ReadRecords.Add(s.ReadRecords)
	c.metrics.KeptRecords.Add(s.KeptRecords)
	c.metrics.OldSegments.Add(int64(s.OldSegments))
	c.metrics.NewSegments.Add(int64(s.NewSegments))
	c.metrics.OldSegmentBytes.Add(s.OldSegmentBytes)
	c.metrics.NewBytes.Add(s.NewBytes)
	c.m.log.Info("compacted", "partition", p.tp.String(), "up to", int64(s.Cleaned), "records", s.ReadRecords, "kept", s.KeptRecords,
		"bytes", s.OldSegmentBytes, "now", s.NewBytes, "segments", s.OldSegments, "took", took.Round(time.Millisecond).String())
	if s.NoKeyRecords > 0 {
		c.m.log.Warn("compaction dropped records without a key: the topic had them before its cleanup.policy was compact",
			"partition", p.tp.String(), "records", s.NoKeyRecords)
	}
}

// failed decides what the end of a cleaning means. A log that can't be cleaned is not tried again before the broker starts anew. It
// is served on if it is as some broker wrote it, and only its records make no sense; but not if it is damaged.
func (c *cleaner) failed(p *replica, err error) {
	if errors.Is(err, commitlog.ErrCompactionStale) || errors.Is(err, commitlog.ErrClosed) {
		return // somebody truncated or deleted it
	}
	c.metrics.Failed.Inc()
	switch {
	case errors.Is(err, commitlog.ErrDiskFailed):
		p.dir.fail("compact "+p.tp.String(), err)
	case vfs.IsFull(err):
		p.dir.complain("compact", p, err)
	default:
		reason := err.Error()
		if p.uncleanable.CompareAndSwap(nil, &reason) {
			c.metrics.UncleanablePartitions.Add(1)
			c.m.log.Error("a partition can't be compacted and grows until that is mended; look at the file with `raftsman log dump`, then restart the broker",
				"partition", p.tp.String(), "reason", reason)
		}
		if damage, ok := isDamage(err); ok {
			p.damaged(damage)
		}
	}
}
