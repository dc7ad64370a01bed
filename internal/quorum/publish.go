package quorum

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// publish applies what is committed and publishes it.
func (n *Node) publish() error {
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	for {
		now, err := n.takeCommitted()
		if err != nil || now == nil {
			return err
		}
		n.publishLocked(now)
	}
}

// publishLocked needs publishMu.
func (n *Node) publishLocked(now *meta.Image) {
	defer invariant.NoPanic()
	old := n.image.Load()
	for _, watch := range n.watchers {
		watch(old, now)
	}
	n.image.Store(now)
	n.broker.published(old, now)
	n.snapshotIfDue()
}

// takeCommitted returns the newest committed image, if it is to be published and is not yet, or nil. It needs publishMu.
func (n *Node) takeCommitted() (*meta.Image, error) {
	for {
		bound, reads, err := n.takePending()
		if err != nil {
			return nil, err
		}
		var failed error
		if reads {
			failed = n.apply(bound)
		}
		now, again, err := n.takeApplied(reads, failed)
		if !again {
			return now, err
		}
	}
}

// takePending takes what the active controller has in memory. Elsewhere it tells up to where the log is to be read.
func (n *Node) takePending() (bound kafka.Offset, reads bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return 0, false, n.failure
	}
	if n.restored != nil {
		n.taken, n.restored, n.applier = n.restored, nil, nil
	}
	if !n.active.Load() {
		if n.applier == nil {
			n.applier = newApplier(n.taken)
		}
		return n.highWatermark, n.applier.next < n.highWatermark, nil
	}
	for len(n.pending) > 0 && n.pending[0].Offset() < n.highWatermark {
		n.taken = n.pending[0].Image
		n.unsnapped += n.pending[0].bytes
		n.pending[0] = pendingImage{} // the array goes on to be used: it must not hold on to an image
		n.pending = n.pending[1:]
	}
	return 0, false, nil
}

// apply reads the log up to a bound.
func (n *Node) apply(bound kafka.Offset) error {
	a := n.applier
	for b, err := range n.log.Batches(a.next) {
		if err != nil {
			return err
		}
		if b.NextOffset() <= a.next {
			continue
		}
		if b.NextOffset() > bound {
			break
		}
		if err := a.batch(b); err != nil {
			return err
		}
	}
	return nil
}

// takeApplied takes what was applied; again tells that a snapshot has taken the log's place meanwhile, so that all is to be begun anew.
func (n *Node) takeApplied(applied bool, failed error) (now *meta.Image, again bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.restored != nil:
		return nil, true, nil
	case failed != nil && n.closed:
		return nil, false, errClosed
	case failed == nil && applied:
		failed = n.takeFromApplierLocked()
	}
	if failed != nil {
		return nil, false, n.endLocked(fmt.Errorf("apply the metadata log: %w", failed))
	}
	if n.taken.Offset() <= n.image.Load().Offset() || n.gate != nil && !n.gate(n.taken) {
		return nil, false, nil
	}
	n.gate = nil
	return n.taken, false, nil
}

func (n *Node) takeFromApplierLocked() error {
	image, bytes := n.applier.take()
	n.unsnapped += bytes
	if image.Offset() > n.taken.Offset() {
		n.taken = n.controlledLocked(image)
	}
	return checkLevel(n.taken)
}

// activate makes a leader the active controller, as soon as all that was appended before it led is committed and applied.
func (n *Node) activate() error {
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	role := n.member.Role()
	switch {
	case n.failure != nil || n.active.Load() || role.Kind != kraft.Leader || n.highWatermark <= role.EpochStart || n.restored != nil:
		return n.failure
	case n.applier == nil || n.applier.next != n.log.EndOffset():
		return nil // what the quorum says of itself is on its way
	}
	err := n.activateLocked(role.Epoch)
	if err != nil && n.failure == nil { // the disk is full: others may have room
		n.deactivateLocked()
		n.stepLocked(func(nowMs int64) kraft.Effects { return n.member.Resign(nowMs, role.Epoch) })
	}
	return err
}

// activateLocked begins the active controller's work with what is applied, which is all that the log holds. It needs publishMu. It ends a
// transaction that another controller left open, and writes the bootstrap records where the log has none.
func (n *Node) activateLocked(epoch kafka.Epoch) error {
	a := n.applier
	tip, bytes := a.take()
	n.applier, n.tip, n.term = nil, tip, epoch
	if tip.Offset() > n.taken.Offset() {
		n.pending = append(n.pending, pendingImage{tip, bytes})
	}
	n.live = meta.NewLiveness(tip, n.o.SessionMs, n.nowMs())
	n.active.Store(true)
	n.wake(n.wakeDuties)
	n.broker.poke()
	n.o.Log.Debug("this node is the active controller", "epoch", epoch)
	if a.update.InTransaction() {
		if err := n.abortTransactionLocked(a.update); err != nil {
			return err
		}
	}
	if len(n.tip.Features()) == 0 {
		bootstrap := n.bootstrap
		if len(bootstrap) == 0 {
			bootstrap = meta.Bootstrap()
		}
		if err := n.appendLocked(meta.Activate(bootstrap, n.o.MinISR)); err != nil {
			return err
		}
	}
	n.unattendedLocked()
	return nil
}

// abortTransactionLocked ends what a controller before us began and did not finish: nothing of it counts.
func (n *Node) abortTransactionLocked(update *meta.Update) error {
	abort := sysrecord.NewAbortTransactionRecord()
	abort.Reason = new("the controller that began it is gone")
	nowMs := n.o.Now().UnixMilli()
	entry := meta.Entry{Record: abort}
	if err := update.Apply(entry); err != nil {
		return err
	}
	return n.appendBatchLocked(encode([]meta.Entry{entry}, nowMs), update, nowMs)
}

// unattendedLocked has what is appended flushed and published though no command waits for it.
func (n *Node) unattendedLocked() {
	n.unattended = n.log.EndOffset()
	n.wake(n.wakeLoop)
}

// deactivateLocked ends the active controller's work. What it appended and is not committed may be committed by the next one all the same,
// and is found by reading.
func (n *Node) deactivateLocked() {
	if n.active.Swap(false) {
		n.tip, n.pending, n.live = nil, nil, nil
		n.announceLocked()
	}
}
