package replica

import (
	"errors"
	"math"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
)

// appended is where an append, or the original of a duplicate, has its place in the log.
type appended struct {
	base, end kafka.Offset
	duplicate bool
	timeMs    int64 // of a duplicate's original
}

// writer says who appends a batch, as which rules it must keep depends on that.
type writer struct {
	kind  author
	guard producer.Guard // of a client, and of a group's offsets
	// Of a marker: what its batch does not say, or only in its record.
	coordinatorEpoch int32
	protocol         int16
}

type author uint8

const (
	byNode       author = iota // this node's own: believed
	byClient                   // with sequences
	byTxnOffsets               // a group's, which a producer commits in its transaction
	byMarker                   // a marker
)

// check looks at a batch before it is appended.
func (w writer) check(producers *producer.State, b record.Batch) (producer.Verdict, error) {
	switch w.kind {
	case byClient:
		return producers.Check(b, w.guard)
	case byTxnOffsets:
		return producer.Verdict{}, producers.CheckOffsets(b, w.guard)
	case byMarker:
		return producer.Verdict{}, producers.CheckMarker(b.ProducerID(), b.ProducerEpoch(), w.coordinatorEpoch, w.protocol)
	}
	return producer.Verdict{}, nil
}

// append puts one batch at the end of the log. The caller holds mu.
func (p *replica) append(b record.Batch, acks int16, by writer, now time.Time) (appended, error) {
	defer invariant.NoPanic()
	if err := p.serves(); err != nil {
		return appended{}, err
	}
	if p.core == nil {
		return appended{}, kafka.NotLeaderOrFollower
	}
	if err := p.core.Admit(acks); err != nil {
		return appended{}, err
	}
	verdict, err := by.check(p.log.Producers(), b)
	if err != nil {
		return appended{}, err
	}
	if verdict.Duplicate {
		return appended{base: verdict.BaseOffset, end: verdict.LastOffset + 1, duplicate: true, timeMs: verdict.AppendTimeMs}, nil
	}
	if err := p.roomFor(len(b), by.kind == byClient); err != nil {
		return appended{}, err
	}
	if _, err := p.log.Append(b, p.core.Epoch(), now); err != nil {
		return appended{}, err
	}
	if done, ok := p.log.Producers().Apply(b, now); ok {
		p.log.NoteCompleted(done)
	}
	p.core.Appended(b.NextOffset())
	p.appended.Add(int64(len(b)))
	p.traffic.MessagesIn.Add(int64(b.LastOffsetDelta()) + 1)
	p.traffic.BytesIn.Add(int64(len(b)))
	return appended{base: b.BaseOffset(), end: b.NextOffset()}, nil
}

// BatchBytesMax is the largest batch that Append takes for a partition now. For one that is not here any will do, as Append says
// why it takes none.
func (m *Manager) BatchBytesMax(tp kafka.TopicPartition) int {
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err != nil {
		return math.MaxInt
	}
	s := p.settings.Load()
	return min(s.rules.MaxBytes, s.log.SegmentBytes)
}

// fitsSegment refuses what is larger than a whole segment may be.
func (p *replica) fitsSegment(b record.Batch) error {
	if most := p.settings.Load().log.SegmentBytes; len(b) > most {
		return kafka.Refuse(kafka.RecordListTooLarge, "a batch of %d bytes: segments of %s have %d at most (segment.bytes)",
			len(b), p.tp.Topic, most)
	}
	return nil
}

// written is called after a critical section that appended: it sees to it that the records become durable.
func (p *replica) written(released []partition.Release) {
	if !p.m.osDurability {
		p.dir.flusher.add(p)
		return
	}
	p.wakeReaders()
	answerReleased(released)
	if int64(p.log.EndOffset()-p.log.FlushedOffset()) >= p.settings.Load().topic.FlushMessages {
		p.dir.flusher.add(p)
	}
}

// settle moves the high watermark at once where durability is the operating system's. The caller holds mu.
func (p *replica) settle() []partition.Release {
	if !p.m.osDurability {
		return nil
	}
	released := p.core.Flushed(p.core.End(), nil)
	p.publish()
	p.countDurable(p.core.End(), p.appended.Load())
	return released
}

// failedWrite turns the error of a write into the client's, and takes the directory offline when the disk is at fault.
func (p *replica) failedWrite(doing string, err error) error {
	if _, ok := errors.AsType[kafka.Error](err); ok {
		return err
	}
	damage, isDamaged := isDamage(err)
	switch {
	case errors.Is(err, commitlog.ErrClosed):
		return kafka.NotLeaderOrFollower
	case isDamaged:
		p.damaged(damage)
	case errors.Is(err, commitlog.ErrDiskFailed):
		p.dir.fail(doing+" "+p.tp.String(), err)
	default:
		p.dir.complain(doing, p, err)
		p.dir.space.measure() // others need not fail the same way
	}
	return kafka.KafkaStorageError
}

// Append writes a batch of this node's own, as a coordinator does, and calls done, exactly once, when it is committed (the high
// watermark has passed it in the leader epoch in which it was written) or has failed. done may be called before Append
// returns, or later from any goroutine, and must not block. The batch may be reused when Append has returned.
func (m *Manager) Append(tp kafka.TopicPartition, batch record.Batch, done func(last kafka.Offset, err error)) {
	m.commit(tp, batch, writer{kind: byNode}, done)
}

func (m *Manager) commit(tp kafka.TopicPartition, batch record.Batch, by writer, done func(last kafka.Offset, err error)) {
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err == nil {
		p.traffic.ProduceRequests.Inc()
		err = p.commit(batch, by, done)
		for next := p.successor(err); next != nil; next = p.successor(err) {
			p = next
			err = p.commit(batch, by, done)
		}
	}
	if err != nil {
		done(kafka.NoOffset, err)
	}
}

// commit appends the batch and parks done; an error means that done was not parked and is not called.
func (p *replica) commit(batch record.Batch, by writer, done func(kafka.Offset, error)) error {
	if err := p.serves(); err != nil {
		return err
	}
	if by.kind != byMarker { // a marker is smaller than any limit that makes sense, and a transaction must end
		if most := p.settings.Load().rules.MaxBytes; len(batch) > most {
			return kafka.Refuse(kafka.MessageTooLarge, "a batch of %d bytes: %s takes %d (max.message.bytes)", len(batch), p.tp.Topic, most)
		}
	}
	if err := p.fitsSegment(batch); err != nil {
		return err
	}
	p.mu.Lock()
	at, err := p.append(batch, -1, by, p.m.now())
	if err != nil {
		p.mu.Unlock()
		return p.failedWrite("append to", err)
	}
	parked, err := p.core.Park(-1, partition.Parked{Upto: at.end, DeadlineMs: math.MaxInt64, Ref: done})
	released := p.settle()
	p.mu.Unlock()
	p.written(released)
	if !parked && err == nil {
		done(at.end-1, nil)
	}
	return err
}

// AwaitCommitted makes durable what a partition holds that this node leads, and waits until the high watermark is where its epoch began: what
// Load hands out then is what every later leader has. It gives up when one of the channels is closed; the error is kafka.NotLeaderOrFollower
// then.
func (m *Manager) AwaitCommitted(tp kafka.TopicPartition, ended, stop <-chan struct{}) error {
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err != nil {
		return err
	}
	if err := p.flushAll(); err != nil {
		return err
	}
	return p.epochCommitted(ended, stop)
}

// Load hands every batch of a partition to each, from the start of the log to its end: all of it durable, as nothing that a power cut
// could take away may be told of. Of a partition that has other replicas AwaitCommitted comes first.
func (m *Manager) Load(tp kafka.TopicPartition, each func(record.Batch) error) error {
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err != nil {
		return err
	}
	if err := p.flushAll(); err != nil {
		return err
	}
	for batch, err := range p.log.Batches(p.log.StartOffset()) {
		if err != nil {
			return p.failedRead(err)
		}
		if err := each(batch); err != nil {
			return err
		}
	}
	return nil
}

// flushAll makes durable what the log holds.
func (p *replica) flushAll() error {
	if err := p.serves(); err != nil || p.m.osDurability {
		return err
	}
	total := p.appended.Load()
	end, err := p.log.Flush()
	if err != nil {
		return p.failedWrite("flush", err)
	}
	p.stable(end, total, nil)
	return nil
}

// epochCommitted waits until the high watermark is where the epoch began in which this node leads.
func (p *replica) epochCommitted(ended, stop <-chan struct{}) error {
	poked := make(chan struct{}, 1)
	defer p.watch(poked)()
	epoch := p.epoch.Load()
	for {
		switch err := p.serves(); {
		case err != nil:
			return err
		case epoch == int32(kafka.NoEpoch) || p.epoch.Load() != epoch:
			return kafka.NotLeaderOrFollower
		case p.high.Load() >= p.epochStart.Load():
			return nil
		}
		select {
		case <-poked:
		case <-ended:
			return kafka.NotLeaderOrFollower
		case <-stop:
			return kafka.NotLeaderOrFollower
		}
	}
}

// Leads tells whether this node leads the partition, and in which epoch.
func (m *Manager) Leads(tp kafka.TopicPartition) (kafka.Epoch, bool) {
	p, err := m.find(kafka.TopicID{}, tp.Topic, tp.Partition)
	if err != nil || p.serves() != nil {
		return kafka.NoEpoch, false
	}
	epoch := kafka.Epoch(p.epoch.Load())
	return epoch, epoch != kafka.NoEpoch
}
