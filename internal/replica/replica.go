package replica

import (
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
)

// replica is one partition on this node: its log, the rules of its leader, and who waits for it.
//
// Appends go through mu. Consumers see what was published under it, in atomics, and never wait for it, as a write can stall for
// seconds; but for one that may be sent to a replica in its rack. mu and waitMu are never held together, and neither during a Sync or a callback.
type replica struct {
	m   *Manager
	dir *logDir
	log *commitlog.Log
	tp  kafka.TopicPartition
	id  kafka.TopicID

	settings atomic.Pointer[settings]
	assigned atomic.Pointer[kafka.UUID] // the directory that the metadata names
	moved    atomic.Bool                // another replica, in another directory, has taken its place
	cuts     atomic.Int32               // how often committed records were cut off: after an unclean election

	mu       sync.Mutex          // guards the rules and every change to log; held for memory and one write
	core     *partition.Leader   // nil while this node does not lead
	follower *partition.Follower // nil while it does not follow
	behind   *behind             // nil until the high watermark has been behind what is durable here

	followed atomic.Pointer[followed] // who fetches for it; nil while nobody has
	altering atomic.Bool              // the alterer has it on its list

	refusal    atomic.Int32 // the kafka.Error that every request gets, 0 while it serves
	epoch      atomic.Int32 // leader epoch; kafka.NoEpoch while this node does not lead
	following  atomic.Int32 // leader epoch; kafka.NoEpoch while this node does not follow
	epochStart atomic.Int64 // the log's end when the epoch began
	high       atomic.Int64 // high watermark
	lastStable atomic.Int64 // all transactions below it are decided

	traffic *Traffic // of its topic

	appended atomic.Int64 // bytes appended since it was opened
	durable  atomic.Int64 // of these, how many are flushed; may be a little less
	readable atomic.Int64 // of these, how many lie below the high watermark; may be a little more or less
	queued   atomic.Bool  // the flusher has it on its list
	synced   atomic.Int64 // when it was last flushed, ms; only for flush.ms
	watched  atomic.Bool  // the expiry has it on its list

	uncleanable atomic.Pointer[string]                 // why it is not compacted any more
	cleanedMs   atomic.Int64                           // when it was compacted last; 0: not since the start
	damage      atomic.Pointer[commitlog.CorruptError] // why it is out of use; nil: no damage is known

	waitMu  sync.Mutex // guards readers
	readers partition.Readers
	waiting atomic.Int32 // number of readers
}

// serves returns the error that every request gets now, if any.
func (p *replica) serves() error {
	if code := kafka.Error(p.refusal.Load()); code != kafka.None {
		return code
	}
	return nil
}

// lead takes over what the metadata says: this node leads from now on, or still does.
func (p *replica) lead(led partition.Leadership) {
	nowMs := p.m.upMs(p.m.now())
	p.mu.Lock()
	var released []partition.Release
	end := p.log.EndOffset()
	if p.core == nil || led.Epoch > p.core.Epoch() {
		p.log.AssignEpoch(led.Epoch, end)
	}
	p.follower = nil
	anew := p.core == nil
	if !anew {
		released = p.core.Lead(led, nowMs, nil)
	} else {
		p.core = partition.NewLeader(partition.Config{
			Self: p.m.node, MinISR: p.settings.Load().topic.MinISR, LagMaxMs: p.m.lagMaxMs, Brokers: *p.m.brokers.Load(),
		}, led, p.positions(), nowMs)
	}
	p.publish()
	if anew {
		p.countAnew()
	} else {
		p.countReadable()
	}
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
	if p.log.FlushedOffset() < end && !p.m.osDurability {
		p.dir.flusher.add(p) // what was appended as a follower, or as a leader before, may be on its way to the disk: then nobody tells this leader
	}
}

// positions are where the log stands. The caller holds mu.
func (p *replica) positions() partition.Positions {
	return partition.Positions{
		Start: p.log.StartOffset(), End: p.log.EndOffset(), Stable: p.stableEnd(), HighWatermark: p.log.HighWatermark(),
	}
}

// stableEnd is the end of what is as durable as it is to be before it counts.
func (p *replica) stableEnd() kafka.Offset {
	if p.m.osDurability {
		return p.log.EndOffset()
	}
	return p.log.FlushedOffset()
}

// resign ends the leadership: what is parked is answered with why.
func (p *replica) resign(why kafka.Error) {
	p.mu.Lock()
	released := p.resigned(why)
	p.follower = nil
	p.publish()
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
}

// resigned ends the leadership, if there is one. The caller holds mu and publishes.
func (p *replica) resigned(why kafka.Error) (released []partition.Release) {
	if p.core != nil {
		released = p.core.Resign(why, nil)
		p.core = nil
	}
	return released
}

// stopServing makes every request from now on, the parked fetches, and what waits for those of followers, fail with the code; produces that
// are parked may still end well. The first refusal stays.
func (p *replica) stopServing(code kafka.Error) {
	p.refusal.CompareAndSwap(0, int32(code))
	p.mu.Lock()
	var released []partition.Release
	if p.core != nil {
		released = p.core.EndDeletes(code, nil)
	}
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
}

// refuse makes every request from now on, and all that are parked, fail with the code. It tells whether it is the first refusal.
func (p *replica) refuse(code kafka.Error) (first bool) {
	first = p.refusal.CompareAndSwap(0, int32(code))
	p.mu.Lock()
	var released []partition.Release
	if p.core != nil {
		released = p.core.Resign(code, nil)
	}
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
	p.tellFetcher()
	return first
}

// publish shows readers what the rules say now. The caller holds mu.
func (p *replica) publish() {
	switch {
	case p.core != nil:
		p.publishHigh(p.core.HighWatermark())
		p.epochStart.Store(int64(p.core.EpochStart()))
		p.following.Store(int32(kafka.NoEpoch))
		p.epoch.Store(int32(p.core.Epoch()))
	case p.follower != nil:
		p.epoch.Store(int32(kafka.NoEpoch))
		p.publishHigh(p.follower.HighWatermark())
		p.following.Store(int32(p.follower.Epoch()))
	default:
		p.epoch.Store(int32(kafka.NoEpoch))
		p.following.Store(int32(kafka.NoEpoch))
	}
}

func (p *replica) publishHigh(high kafka.Offset) {
	p.lastStable.Store(int64(p.log.Producers().LastStable(high)))
	p.high.Store(int64(high))
	p.log.NoteHighWatermark(high)
}

// decided is the last stable offset for a reader to whom the log begins at start and ends at high: records below it belong to no
// transaction, or to one that has ended. Where retention or DeleteRecords took the begin of an open one it is the log's start.
func (p *replica) decided(start, high kafka.Offset) kafka.Offset {
	return max(start, min(high, kafka.Offset(p.lastStable.Load())))
}

// answerReleased finishes the requests whose waits are over.
func answerReleased(released []partition.Release) {
	for i := range released {
		r := &released[i]
		switch ref := r.Ref.(type) {
		case *produceOp:
			ref.finish(int(r.Index), r.Err)
		case func(kafka.Offset, error):
			ref(r.Upto-1, r.Err)
		case *deletion:
			ref.finish(r.Upto, r.Err)
		}
	}
}

// stable tells that everything before end is durable, and at least total appended bytes with it. It answers the produces that
// waited for it and wakes the fetches. scratch is empty and returned for the next call.
func (p *replica) stable(end kafka.Offset, total int64, scratch []partition.Release) []partition.Release {
	p.mu.Lock()
	moved, grown, follows := false, false, false
	end = min(end, p.stableEnd()) // the log may have been cut off since
	switch {
	case p.dir.failed():
	case p.core != nil:
		before := p.core.HighWatermark()
		scratch = p.core.Flushed(end, scratch)
		if moved = p.core.HighWatermark() > before; moved {
			p.publish()
		}
		grown = p.countDurable(end, total)
	case p.follower != nil:
		moved = p.flushedAsFollower(end)
		follows = p.follower.StableEnd() == p.follower.End()
		grown = p.countDurable(end, total)
	}
	p.mu.Unlock()
	if moved {
		p.dir.unsaved.Store(true)
	}
	if follows {
		p.tellFetcher()
	}
	answerReleased(scratch)
	if moved || grown {
		p.wakeReaders()
	}
	clear(scratch)
	return scratch[:0]
}

// wakeReaders lets the fetches go for which enough became readable.
func (p *replica) wakeReaders() {
	if p.waiting.Load() == 0 {
		return
	}
	var few [8]*fetchOp
	ready := few[:0]
	p.waitMu.Lock()
	seen := partition.Seen{
		High: kafka.Offset(p.high.Load()), LastStable: kafka.Offset(p.lastStable.Load()), Bytes: p.readable.Load(),
		Durable: p.stableEnd(), DurableBytes: p.durable.Load(),
	}
	p.readers.Grown(seen, func(r *partition.Reader, by int64) {
		if op, ok := r.Ref.(*fetchOp); !ok {
			tellWatcher(r)
		} else if op.grew(by) {
			ready = append(ready, op)
		}
	})
	p.waitMu.Unlock()
	for _, op := range ready {
		op.resume()
	}
}

// watch has poked told when the high watermark has moved or something has ended, until the returned function is called. It has room for one
// token.
func (p *replica) watch(poked chan struct{}) (unwatch func()) {
	r := &partition.Reader{From: kafka.NoOffset, Ref: poked}
	p.wait(r)
	return func() { p.stopWaiting(r) }
}

func tellWatcher(r *partition.Reader) {
	select {
	case r.Ref.(chan struct{}) <- struct{}{}:
	default: // it has been told
	}
}

// wakeAll lets all fetches look again: they find out why they can not wait any longer.
func (p *replica) wakeAll() {
	if p.waiting.Load() == 0 {
		return
	}
	var ready []*fetchOp
	p.waitMu.Lock()
	p.readers.All(func(r *partition.Reader) {
		if op, ok := r.Ref.(*fetchOp); !ok {
			tellWatcher(r)
		} else if op.claim() {
			ready = append(ready, op)
		}
	})
	p.waitMu.Unlock()
	for _, op := range ready {
		op.resume()
	}
}

// wait links a parked fetch in.
func (p *replica) wait(r *partition.Reader) {
	p.waitMu.Lock()
	total := p.readable.Load()
	if r.Replica {
		total = p.durable.Load()
	}
	p.readers.Add(r, total)
	p.waiting.Add(1)
	p.waitMu.Unlock()
}

// stopWaiting unlinks it.
func (p *replica) stopWaiting(r *partition.Reader) {
	p.waitMu.Lock()
	p.readers.Remove(r)
	p.waiting.Add(-1)
	p.waitMu.Unlock()
}
