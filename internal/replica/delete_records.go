package replica

import (
	"errors"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/partition"
)

// deletion is a DeleteRecords that waits for followers.
type deletion struct {
	low    kafka.Offset // the low watermark when it began to wait
	done   func(low kafka.Offset, err error)
	parked *metric.Gauge
}

// finish answers it: with the low watermark, or why it is not where it was to get.
func (d *deletion) finish(low kafka.Offset, err error) {
	d.parked.Add(-1)
	switch {
	case errors.Is(err, kafka.RequestTimedOut):
		low = d.low
	case err != nil:
		low = kafka.NoOffset
	}
	d.done(low, err)
}

// DeleteRecords moves the start of the log up to an offset, -1 being the high watermark. It calls done, exactly once, when the start is on
// the disk here and the logs of all live followers begin there, too, with the low watermark: the lowest offset at which one of them begins. The
// error is kafka.RequestTimedOut, with the low watermark as it was, when that takes longer than timeoutMs; the records are gone here all the
// same. done may be called before DeleteRecords returns, or later from any goroutine, and must not block.
func (m *Manager) DeleteRecords(tp kafka.TopicPartition, to kafka.Offset, timeoutMs int32, done func(low kafka.Offset, err error)) {
	deadlineMs := m.upMs(m.now()) + int64(max(timeoutMs, 0))
	p, _, err := m.leading(tp, kafka.NoEpoch)
	if err == nil {
		err = p.deleteRecords(to, deadlineMs, done)
		for next := p.successor(err); next != nil; next = p.successor(err) {
			p = next
			err = p.deleteRecords(to, deadlineMs, done)
		}
	}
	if err != nil {
		done(kafka.NoOffset, err)
	}
}

// deleteRecords is DeleteRecords of one replica. After an error done is not called.
func (p *replica) deleteRecords(to kafka.Offset, deadlineMs int64, done func(kafka.Offset, error)) error {
	if topic := &p.settings.Load().topic; topic.CleanupCompact && !topic.CleanupDelete {
		return kafka.Refuse(kafka.PolicyViolation, "records of %s are not deleted: its cleanup.policy is compact alone", p.tp)
	}
	p.mu.Lock()
	upto, released, err := p.moveStart(to)
	p.mu.Unlock()
	answerReleased(released)
	if err != nil {
		return p.failedWrite("delete records of", err)
	}
	p.tellFollowers() // who have theirs to do while this node writes
	if err := p.dir.save(); err != nil {
		return p.failedWrite("delete records of", err)
	}
	return p.awaitFollowers(upto, deadlineMs, done)
}

// moveStart takes records off the beginning of the log, and returns up to where. The caller holds mu.
func (p *replica) moveStart(to kafka.Offset) (kafka.Offset, []partition.Release, error) {
	defer invariant.NoPanic()
	if err := p.serves(); err != nil {
		return 0, nil, err
	}
	if p.core == nil {
		return 0, nil, kafka.NotLeaderOrFollower
	}
	high := p.core.HighWatermark()
	if to == kafka.NoOffset {
		to = high
	}
	if to < 0 || to > high {
		return 0, nil, kafka.OffsetOutOfRange
	}
	if to <= p.log.StartOffset() {
		return to, nil, nil
	}
	if err := p.log.SetStart(to); err != nil {
		return 0, nil, err
	}
	p.dir.unsaved.Store(true)
	return to, p.core.StartMoved(to, nil), nil
}

// awaitFollowers has done called when the low watermark is at upto.
func (p *replica) awaitFollowers(upto kafka.Offset, deadlineMs int64, done func(kafka.Offset, error)) error {
	d := &deletion{done: done, parked: &p.m.deletions}
	p.mu.Lock()
	err := p.serves() // what is refused after this ends what is parked
	if err == nil && p.core == nil {
		err = kafka.NotLeaderOrFollower
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	low, parked := p.core.ParkDelete(partition.Parked{Upto: upto, DeadlineMs: deadlineMs, Ref: d})
	if parked {
		d.low = low
		d.parked.Add(1) // before it can end
	}
	p.mu.Unlock()
	if parked {
		p.m.expiry.add(p)
	} else {
		done(low, nil)
	}
	return nil
}

// tellFollowers answers the fetches of followers that wait: they learn where the log begins by now.
func (p *replica) tellFollowers() {
	if p.waiting.Load() == 0 {
		return
	}
	var ready []*fetchOp
	p.waitMu.Lock()
	p.readers.All(func(r *partition.Reader) {
		if op, ok := r.Ref.(*fetchOp); ok && r.Replica {
			op.late.Store(true) // also for who is looking again right now
			if op.claim() {
				ready = append(ready, op)
			}
		}
	})
	p.waitMu.Unlock()
	for _, op := range ready {
		op.resume()
	}
}
