package replica

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/record"
)

// partKey names a partition as a fetch does.
type partKey struct {
	topic kafka.TopicID
	index int32
}

func (p *replica) key() partKey { return partKey{p.id, p.tp.Partition} }

// followFrom takes over what the metadata says: another node leads, and this one follows it from now on, or still does.
func (p *replica) followFrom(led partition.Leading) {
	p.mu.Lock()
	released := p.resigned(kafka.NotLeaderOrFollower)
	if p.follower != nil {
		p.follower.Follow(led)
		p.publish()
	} else {
		p.follower = partition.NewFollower(led, p.positions())
		p.publish()
		p.countAnew()
	}
	p.mu.Unlock()
	answerReleased(released)
	p.wakeAll()
}

// nextFetch is what the partition's follower asks its leader for at this time. ready is false while it asks for nothing: until dueMs, or if that
// is 0 until tellFetcher is called.
func (p *replica) nextFetch(nowMs int64) (ask peer.FetchPartition, ready bool, dueMs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serves() != nil || p.follower == nil {
		return ask, false, 0
	}
	if ready, dueMs = p.follower.Ready(nowMs); !ready {
		return ask, false, dueMs
	}
	if !p.follower.CaughtUp() && p.settings.Load().followerThrottled.has(p.tp.Partition) {
		if wait := p.m.asFollower.wait(); wait > 0 {
			return ask, false, nowMs + wait.Milliseconds() + 1
		}
	}
	return peer.FetchPartition{
		Index: p.tp.Partition, CurrentLeaderEpoch: p.follower.Epoch(), Offset: p.follower.StableEnd(), LastFetchedEpoch: p.log.LatestEpoch(),
		LogStart: p.log.StartOffset(), MaxBytes: p.m.fetchers.settings.partitionBytes, Directory: p.dir.disk.ID(), HighWatermark: math.MaxInt64,
	}, true, 0
}

// tookIn is what came of an answer.
type tookIn struct {
	appended bool   // records, that are to be flushed
	changed  bool   // the next fetch is another one
	ask      bool   // the leader is to be asked where its log begins and ends
	err      error  // of the disk, or of what was in the answer
	doing    string // with err
}

// takeIn does what the leader's answer to a fetch asks for.
func (p *replica) takeIn(asked *peer.FetchPartition, row *peer.FetchedPartition, now time.Time) tookIn {
	p.mu.Lock()
	before := p.high.Load()
	t := p.take(asked, row, now)
	moved := p.high.Load() > before
	if moved {
		p.countReadable()
	}
	p.mu.Unlock()
	if moved {
		p.dir.unsaved.Store(true)
		p.wakeReaders()
	}
	return p.tookIn(t)
}

// tookIn ends what was done with mu held.
func (p *replica) tookIn(t tookIn) tookIn {
	if t.appended && !p.m.osDurability {
		p.dir.flusher.add(p)
	} else if t.appended {
		p.wakeReaders()
	}
	if t.err == nil {
		return t
	}
	if errors.Is(t.err, kafka.CorruptMessage) {
		p.dir.sayAtTimes("a leader has sent what can't be appended, and is asked again", "to follow", p, t.err)
		return t
	}
	_ = p.failedWrite(t.doing, t.err)
	return t
}

// take is takeIn with mu held.
func (p *replica) take(asked *peer.FetchPartition, row *peer.FetchedPartition, now time.Time) tookIn {
	if p.serves() != nil || p.follower == nil {
		return tookIn{}
	}
	answer := partition.Answer{
		Epoch: asked.CurrentLeaderEpoch, From: asked.Offset, Err: row.Error, HighWatermark: row.HighWatermark, LogStart: row.LogStart,
	}
	if d := row.Diverging; d != nil {
		answer.Diverging = &partition.EpochEnd{Epoch: d.Epoch, End: d.End}
	}
	nowMs := p.m.upMs(now)
	switch step, to := p.follower.Answered(answer, p.log.EpochEnd, nowMs, p.m.fetchers.settings.backoffMaxMs); step {
	case partition.TakeIn:
		t := p.appendFetched(row.Records, now)
		if p.settings.Load().followerThrottled.has(p.tp.Partition) {
			p.m.asFollower.spend(len(row.Records))
		}
		if p.moveStartAsFollower() {
			t.changed = true // the leader is told
		}
		p.publish()
		return t
	case partition.Truncate:
		return p.cut(to, false)
	case partition.AskForEnds:
		return tookIn{ask: true}
	}
	return tookIn{changed: true}
}

// appendFetched appends what the leader has sent: whole batches, and what the limits have left of one more. The caller holds mu.
func (p *replica) appendFetched(records []byte, now time.Time) (t tookIn) {
	for len(records) > 0 {
		b, rest, err := record.Split(records)
		if err != nil {
			if errors.Is(err, record.ErrShort) {
				return t
			}
			return p.refused(t, now, fmt.Errorf("%w: %w", kafka.CorruptMessage, err))
		}
		records = rest
		if err := b.Check(); err != nil {
			return p.refused(t, now, fmt.Errorf("%w: %w", kafka.CorruptMessage, err))
		}
		take, overlaps, err := p.follower.Check(b, p.log.LatestEpoch())
		if err != nil {
			return p.refused(t, now, err)
		}
		if !take {
			continue
		}
		if err := p.appendBatch(b, overlaps, now); err != nil {
			p.follower.Failed(p.m.upMs(now), p.m.fetchers.settings.backoffMaxMs)
			t.err, t.doing, t.changed = err, "append to", true
			return t
		}
		t.appended, t.changed = true, true
	}
	return t
}

// refused ends an answer of which something can't be taken in. The caller holds mu.
func (p *replica) refused(t tookIn, now time.Time, why error) tookIn {
	p.follower.Failed(p.m.upMs(now), p.m.fetchers.settings.backoffMaxMs)
	t.err, t.changed = why, true
	return t
}

// appendBatch appends one batch as the leader has it. The caller holds mu.
func (p *replica) appendBatch(b record.Batch, overlaps bool, now time.Time) error {
	if err := p.roomFor(len(b), true); err != nil {
		return err
	}
	start := p.log.StartOffset()
	if overlaps { // the leader's log begins within the batch, as this one
		if err := p.log.Reset(b.BaseOffset()); err != nil {
			return err
		}
		p.follower.Cut(b.BaseOffset(), b.BaseOffset())
	}
	if err := p.log.AppendCopied(b, now); err != nil {
		return err
	}
	p.follower.Appended(b.NextOffset())
	p.appended.Add(int64(len(b)))
	if overlaps {
		if err := p.log.SetStart(start); err != nil {
			return err
		}
		p.follower.StartMoved(start)
	}
	if p.m.osDurability {
		p.flushedAsFollower(b.NextOffset())
		p.countDurable(b.NextOffset(), p.appended.Load())
	}
	return nil
}

// flushedAsFollower tells the rules what is durable. The caller holds mu.
func (p *replica) flushedAsFollower(end kafka.Offset) (moved bool) {
	before := p.follower.HighWatermark()
	p.follower.Flushed(end)
	if moved = p.follower.HighWatermark() > before; moved {
		p.moveStartAsFollower()
		p.publish()
	}
	return moved
}

// moveStartAsFollower moves the log's start to where the leader's is, as far as that is committed here, and tells whether it has moved. The
// caller holds mu.
func (p *replica) moveStartAsFollower() bool {
	start := p.follower.Start()
	if start <= p.log.StartOffset() || p.log.SetStart(start) != nil {
		return false
	}
	p.follower.StartMoved(start)
	p.dir.unsaved.Store(true)
	return true
}

// cut truncates the log, or has it begin anew. The caller holds mu.
func (p *replica) cut(to kafka.Offset, anew bool) tookIn {
	high, end := p.follower.HighWatermark(), p.log.EndOffset()
	cut := (*commitlog.Log).Truncate
	if anew {
		cut = (*commitlog.Log).Reset
	}
	if err := cut(p.log, to); err != nil {
		return tookIn{err: err, doing: "truncate", changed: true}
	}
	p.follower.Cut(p.log.StartOffset(), p.log.EndOffset())
	p.publish()
	p.countAnew()
	p.dir.unsaved.Store(true)
	switch now := p.log.EndOffset(); {
	case anew:
		p.cuts.Add(1)
		p.m.log.Warn("a partition begins anew, as its leader has nothing that follows what was here", "partition", p.tp.String(),
			"leader", int32(p.follower.Leader()), "epoch", int32(p.follower.Epoch()), "end before", int64(end), "start", int64(now))
	case now < high:
		p.cuts.Add(1)
		p.m.log.Warn("committed records are cut off, as the leader was elected without them", "partition", p.tp.String(),
			"leader", int32(p.follower.Leader()), "epoch", int32(p.follower.Epoch()), "end before", int64(end), "committed", int64(high), "end", int64(now))
	case now < end:
		p.m.log.Info("records are cut off that the leader does not have", "partition", p.tp.String(),
			"leader", int32(p.follower.Leader()), "epoch", int32(p.follower.Epoch()), "end before", int64(end), "end", int64(now))
	}
	return tookIn{changed: true}
}

// rangeIs does what is to be done where the leader's log, in an epoch, is from start to end and does not hold what was asked for.
func (p *replica) rangeIs(epoch kafka.Epoch, start, end kafka.Offset, now time.Time) {
	p.mu.Lock()
	var t tookIn
	if p.serves() == nil && p.follower != nil {
		switch step, to, anew := p.follower.RangeOf(epoch, start, end); step {
		case partition.Truncate:
			t = p.cut(to, anew)
		case partition.TakeIn: // it holds it by now
			p.follower.Failed(p.m.upMs(now), p.m.fetchers.settings.backoffMaxMs)
		}
	}
	p.mu.Unlock()
	p.tookIn(t)
}

// rangeUnknown tells that the leader has not said where its log begins and ends.
func (p *replica) rangeUnknown(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.follower != nil {
		p.follower.Failed(p.m.upMs(now), p.m.fetchers.settings.backoffMaxMs)
	}
}

// tellLeader has the next fetch say where the log begins now. One that waits at the leader is not given up for that.
func (p *replica) tellLeader() {
	if f := p.followed.Load(); f != nil {
		f.fetcher.note(f)
	}
}

// tellFetcher tells who fetches for the partition that it may ask for something else now.
func (p *replica) tellFetcher() {
	if f := p.followed.Load(); f != nil {
		f.fetcher.changed(f)
	}
}
