package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
)

// decision decides on the tip.
type decision func(tip *meta.Image) ([]meta.Entry, error)

// propose decides on the newest state, appends what was decided and returns when it is published. An error of decide is
// returned as it is, when all that it was decided on is published.
func (n *Node) propose(ctx context.Context, decide decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end, term, refused, err := n.decide(decide)
	if err != nil {
		return err
	}
	if err := n.commit(ctx, end, term); err != nil {
		return err
	}
	return refused
}

// decide appends what was decided. A panic of decide changes nothing.
func (n *Node) decide(decide decision) (end kafka.Offset, term kafka.Epoch, refused, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return 0, 0, nil, n.failure
	}
	if !n.active.Load() {
		return 0, 0, nil, kafka.NotController
	}
	entries, refused := decide(n.tip)
	if refused == nil && len(entries) > 0 {
		if err := n.appendInPartsLocked(entries); err != nil {
			return 0, 0, nil, err
		}
	}
	return n.log.EndOffset(), n.term, refused, nil
}

// batchEntriesMax bounds the batches in which large decisions are appended, as those that fence a broker with many partitions.
const batchEntriesMax = 10_000

// appendInPartsLocked appends entries in as many batches as they need. Nothing is published before all parts are: of a large topic each
// image has a copy of its own. A crash in between leaves the first parts: decisions of that size are such that they are made again.
func (n *Node) appendInPartsLocked(entries []meta.Entry) error {
	before := len(n.pending)
	for len(entries) > 0 {
		part := entries[:min(len(entries), batchEntriesMax)]
		if err := n.appendLocked(part); err != nil {
			return err
		}
		entries = entries[len(part):]
		n.mergePendingLocked(before)
	}
	return nil
}

// mergePendingLocked leaves the newest one of the images from an index on.
func (n *Node) mergePendingLocked(from int) {
	if len(n.pending) <= from+1 {
		return
	}
	newest := n.pending[len(n.pending)-1]
	for _, p := range n.pending[from : len(n.pending)-1] {
		newest.bytes += p.bytes
	}
	clear(n.pending[from:])
	n.pending = append(n.pending[:from], newest)
}

// appendLocked appends entries as one batch and moves the tip.
func (n *Node) appendLocked(entries []meta.Entry) error {
	defer invariant.NoPanic()
	nowMs := n.o.Now().UnixMilli()
	update := n.tip.Update()
	for _, e := range entries {
		err := update.Apply(e)
		invariant.Check(err == nil, "a decision contradicts the image: %v", err)
	}
	return n.appendBatchLocked(encode(entries, nowMs), update, nowMs)
}

// appendBatchLocked appends one batch of the active controller, after which update is the tip. The error is kafka.NotController when the
// member has given up by then, as after a pause of the process: nothing more can be appended.
func (n *Node) appendBatchLocked(batch record.Batch, update *meta.Update, nowMs int64) error {
	appended, err := n.log.Append(batch, n.term, n.o.Now())
	if err != nil {
		return n.failLocked(fmt.Errorf("append to the metadata log: %w", err))
	}
	n.tip = update.Image(appended.Last, n.term, nowMs)
	n.pending = append(n.pending, pendingImage{n.tip, int64(len(batch))})
	n.stepLocked(func(nowMs int64) kraft.Effects {
		return n.member.Appended(nowMs, kraft.Batch{Base: appended.Base, End: appended.Last + 1, Epoch: n.term})
	})
	if n.failure == nil && !n.active.Load() {
		return kafka.NotController
	}
	return n.failure
}

// failLocked ends the node's work if the disk's state is unknown. A full disk refuses the one command only.
func (n *Node) failLocked(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, commitlog.ErrDiskFailed) {
		return fmt.Errorf("%w: %w", kafka.KafkaStorageError, err)
	}
	return n.endLocked(err)
}

// endLocked ends the node's work. It returns why, which is the first error of its kind.
func (n *Node) endLocked(err error) error {
	if n.failure == nil {
		n.failure = err
		n.o.Log.Error("metadata log failed", "error", err)
		n.deactivateLocked()
		n.stopLocked()
		n.o.OnFailure(err)
	}
	return n.failure
}

// commit returns when all below end is committed and published, or kafka.NotController when the leadership of the term is over before
// that is known.
func (n *Node) commit(ctx context.Context, end kafka.Offset, term kafka.Epoch) error {
	if err := n.flush(end); err != nil {
		return err
	}
	for {
		moved, err := n.committed(end, term)
		if err != nil {
			return err
		}
		if moved == nil {
			return n.publish()
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// committed returns nil if all below end is committed, and else what to wait on before it is asked again.
func (n *Node) committed(end kafka.Offset, term kafka.Epoch) (moved <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.failure != nil:
		return nil, n.failure
	case n.term != term || !n.active.Load():
		return nil, kafka.NotController
	case n.highWatermark >= end:
		return nil, nil
	}
	if n.moved == nil {
		n.moved = make(chan struct{})
	}
	return n.moved, nil
}

// announceLocked wakes the commands that wait.
func (n *Node) announceLocked() {
	if n.moved != nil {
		close(n.moved)
		n.moved = nil
	}
}

// flush makes the log durable up to an offset at least, and tells the member.
func (n *Node) flush(end kafka.Offset) error {
	var failed error
	if n.log.FlushedOffset() < end {
		_, failed = n.log.Flush()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if failed != nil {
		if n.closed {
			return errClosed
		}
		return n.failLocked(fmt.Errorf("flush the metadata log: %w", failed))
	}
	if flushed := n.log.FlushedOffset(); n.failure == nil && n.told != flushed {
		n.told = flushed
		n.stepLocked(n.member.Flushed)
	}
	return n.failure
}
