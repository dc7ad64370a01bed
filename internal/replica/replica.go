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
// Appends go through mu. Readers see what was published under it, in atomics, and never wait for it, as a write can stall for
// seconds. mu and waitMu are never held together, and neither during a Sync or a callback.
type replica struct {
	m   *Manager
	dir *logDir
	log *commitlog.Log
	tp  kafka.TopicPartition
	id  kafka.TopicID

	settings atomic.Pointer[settings]
	assigned atomic.Pointer[kafka.UUID] // the directory that the metadata names
	moved    atomic.Bool                // another replica, in another directory, has taken its place

	mu   sync.Mutex // guards core and every change to log; held for memory and one write
	core *partition.Leader

	refusal    atomic.Int32 // the kafka.Error that every request gets, 0 while it serves
	epoch      atomic.Int32 // leader epoch; kafka.NoEpoch while this node does not lead
	epochStart atomic.Int64 // the log's end when the epoch began
	high       atomic.Int64 // high watermark
	lastStable atomic.Int64 // all transactions below it are decided

	traffic *Traffic // of its topic

	appended atomic.Int64 // bytes appended since it was opened
	readable atomic.Int64 // of these, how many lie below the high watermark; may be a little less
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
	p.mu.Lock()
	var released []partition.Release
	end := p.log.EndOffset()
	if p.core == nil || led.Epoch > p.core.Epoch() {
		p.log.AssignEpoch(led.Epoch, end)
	}
	if p.core != nil {
		released = p.core.Lead(led, nil)
	} else {
		p.core = partition.NewLeader(p.m.node, led, p.settings.Load().topic.MinISR, partition.Positions{
			Start: p.log.StartOffset(), End: end, Stable: p.log.FlushedOffset(), HighWatermark: p.log.HighWatermark(),
		})
	}
	p.publish()
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
}

// resign ends the leadership: what is parked is answered with why.
func (p *replica) resign(why kafka.Error) {
	p.mu.Lock()
	var released []partition.Release
	if p.core != nil {
		released = p.core.Resign(why, nil)
		p.core = nil
		p.publish()
	}
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
}

// stopServing makes every request from now on, and the parked fetches, fail with the code; produces that are parked may still
// end well. The first refusal stays.
func (p *replica) stopServing(code kafka.Error) {
	p.refusal.CompareAndSwap(0, int32(code))
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
	return first
}

// publish shows readers what the rules say now. The caller holds mu.
func (p *replica) publish() {
	if p.core == nil {
		p.epoch.Store(int32(kafka.NoEpoch))
		return
	}
	high := p.core.HighWatermark()
	p.lastStable.Store(int64(p.log.Producers().LastStable(high)))
	p.high.Store(int64(high))
	p.log.NoteHighWatermark(high)
	p.epochStart.Store(int64(p.core.EpochStart()))
	p.epoch.Store(int32(p.core.Epoch()))
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
		}
	}
}

// stable tells that everything before end is durable, and at least total appended bytes with it. It answers the produces that
// waited for it and wakes the fetches. scratch is empty and returned for the next call.
func (p *replica) stable(end kafka.Offset, total int64, scratch []partition.Release) []partition.Release {
	p.mu.Lock()
	moved, grown := false, false
	if p.core != nil && !p.dir.failed() {
		before := p.core.HighWatermark()
		scratch = p.core.Flushed(end, scratch)
		if moved = p.core.HighWatermark() > before; moved {
			p.publish()
		}
		grown = p.countReadable(total)
	}
	p.mu.Unlock()
	if moved {
		p.dir.unsaved.Store(true)
	}
	answerReleased(scratch)
	if moved || grown {
		p.wakeReaders()
	}
	clear(scratch)
	return scratch[:0]
}

// countReadable notes how many of the appended bytes are readable by now. The caller holds mu and has published the high
// watermark before: a fetch that links itself in counts from here on, and sees by the watermark what it has missed.
func (p *replica) countReadable(total int64) (grown bool) {
	if grown = total > p.readable.Load(); grown {
		p.readable.Store(total)
	}
	return grown
}

// wakeReaders lets the fetches go for which enough became readable.
func (p *replica) wakeReaders() {
	if p.waiting.Load() == 0 {
		return
	}
	var few [8]*fetchOp
	ready := few[:0]
	p.waitMu.Lock()
	p.readers.Grown(kafka.Offset(p.high.Load()), kafka.Offset(p.lastStable.Load()), p.readable.Load(), func(r *partition.Reader, by int64) {
		if op := r.Ref.(*fetchOp); op.grew(by) {
			ready = append(ready, op)
		}
	})
	p.waitMu.Unlock()
	for _, op := range ready {
		op.resume()
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
		if op := r.Ref.(*fetchOp); op.claim() {
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
	p.readers.Add(r, p.readable.Load())
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
