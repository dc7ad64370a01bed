// Package quorum runs the metadata quorum: it persists __cluster_metadata, applies what is committed and publishes the
// cluster's Image. Today the quorum has one voter, this node.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// Node is this process's member of the metadata quorum. All methods are safe for concurrent use. Every command answers when
// what it decided, and all that was decided before, is flushed, applied and published, and all watchers have returned.
//
// A command goes through three steps. Under mu it is decided on the tip, the image with all that was appended, and its records
// are appended in one batch. Then it is flushed, one flush for all that wait. Then, under publishMu, the images that became
// committed are published in order.
type Node struct {
	o      Options
	folder string
	log    *commitlog.Log

	image      atomic.Pointer[meta.Image]
	membership atomic.Pointer[kraft.Membership] // as core has it

	mu        sync.Mutex // guards what follows; held for memory and one write(2), never for Flush
	core      *kraft.Core
	tip       *meta.Image   // with everything that was appended
	pending   []*meta.Image // appended and not published
	bootstrap []meta.Entry  // what a new cluster's log begins with
	// openTransaction tells that the log ends inside a transaction of another controller.
	openTransaction bool
	brokerEpoch     kafka.BrokerEpoch
	unsnapped       int64 // bytes appended since the last snapshot
	snapped         snapshotMark
	started, closed bool
	failure         error

	publishMu sync.Mutex // serialises publishing; held while watchers run
	watchers  []func(old, now *meta.Image)

	ids producerIDs

	snapshots snapshots
	damaged   map[string]bool // segments of which that was told; Damaged's alone
}

var errClosed = errors.New("metadata log is closed")

// Image returns the newest published image. One atomic load.
func (n *Node) Image() *meta.Image { return n.image.Load() }

// Watch registers fn, to be called with each published image and its predecessor, one call at a time, in order, before the
// command that caused it returns. Several commands may be seen as one step. Image returns now only when all watchers have
// returned: what clients are told of is served already. Watchers are registered before Start, whose first call has an empty
// image as old. A watcher must not call a command of the Node and must not block on something that does.
func (n *Node) Watch(fn func(old, now *meta.Image)) {
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	n.watchers = append(n.watchers, fn)
}

// CreateTopics creates topics.
func (n *Node) CreateTopics(ctx context.Context, cmd meta.CreateTopics) (results []meta.TopicResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideCreateTopics(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// DeleteTopics deletes topics.
func (n *Node) DeleteTopics(ctx context.Context, cmd meta.DeleteTopics) (results []meta.DeleteResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideDeleteTopics(im, cmd)
		return entries, nil
	})
	return results, err
}

// CreatePartitions grows topics.
func (n *Node) CreatePartitions(ctx context.Context, cmd meta.CreatePartitions) (results []meta.GrowthResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideCreatePartitions(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// AlterConfigs changes configurations.
func (n *Node) AlterConfigs(ctx context.Context, cmd meta.AlterConfigs) (results []meta.ConfigResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideAlterConfigs(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// AlterQuotas changes client quotas. There is one result for each change, nil or why it was refused.
func (n *Node) AlterQuotas(ctx context.Context, cmd meta.AlterQuotas) (results []error, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideAlterQuotas(im, cmd)
		return entries, nil
	})
	return results, err
}

// ElectLeaders elects leaders. The error of a wrong request is a *kafka.Refusal.
func (n *Node) ElectLeaders(ctx context.Context, cmd meta.ElectLeaders) (results []meta.ElectionResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, results, refused = meta.DecideElectLeaders(im, cmd, n.o.env())
		return entries, refused
	})
	return results, err
}

// Reassign changes on which brokers partitions are. There is one result for each, nil or why it was refused.
func (n *Node) Reassign(ctx context.Context, cmd meta.Reassign) (results []error, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, _ error) {
		entries, results = meta.DecideReassign(im, cmd, n.o.env())
		return entries, nil
	})
	return results, err
}

// UnregisterController removes a controller that is not coming back.
func (n *Node) UnregisterController(ctx context.Context, id kafka.NodeID) error {
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideUnregisterController(im, id, n.o.NodeID)
	})
}

// UnregisterBroker removes a broker that is not coming back.
func (n *Node) UnregisterBroker(ctx context.Context, id kafka.NodeID) error {
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideUnregister(im, id, n.o.env())
	})
}

// ReportDirs notes what this node tells about its log directories.
func (n *Node) ReportDirs(ctx context.Context, report meta.DirReport) error {
	report.Broker = n.o.NodeID
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideDirReport(im, report, n.o.env()), nil
	})
}

// propose decides on the newest state, appends what was decided and returns when it is published. An error of decide is
// returned as it is, when all that it was decided on is published.
func (n *Node) propose(ctx context.Context, decide func(*meta.Image) ([]meta.Entry, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end, refused, err := n.decide(decide)
	if err != nil {
		return err
	}
	if err := n.commit(end); err != nil {
		return err
	}
	return refused
}

// decide appends what was decided. A panic of decide changes nothing.
func (n *Node) decide(decide func(*meta.Image) ([]meta.Entry, error)) (end kafka.Offset, refused, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return 0, nil, n.failure
	}
	if !n.started {
		return 0, nil, kafka.NotController
	}
	entries, refused := decide(n.tip)
	if refused == nil && len(entries) > 0 {
		if err := n.appendLocked(entries); err != nil {
			return 0, nil, err
		}
	}
	return n.log.EndOffset(), refused, nil
}

// appendLocked appends entries as one batch and moves the tip.
func (n *Node) appendLocked(entries []meta.Entry) error {
	defer invariant.NoPanic()
	nowMs := n.o.Now().UnixMilli()
	batch := encode(entries, nowMs)
	update := n.tip.Update()
	for _, e := range entries {
		err := update.Apply(e)
		invariant.Check(err == nil, "a decision contradicts the image: %v", err)
	}
	epoch := n.core.State().Epoch
	appended, err := n.log.Append(batch, epoch, n.o.Now())
	if err != nil {
		return n.failLocked(fmt.Errorf("append to the metadata log: %w", err))
	}
	n.appendedLocked(update.Image(appended.Last, epoch, nowMs), int64(len(batch)))
	return nil
}

func (n *Node) appendedLocked(tip *meta.Image, size int64) {
	n.core.Appended(n.log.EndOffset())
	n.tip = tip
	n.pending = append(n.pending, tip)
	n.unsnapped += size
}

// failLocked ends the node's work if the disk's state is unknown. A full disk refuses the one command only.
func (n *Node) failLocked(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, commitlog.ErrDiskFailed) {
		return fmt.Errorf("%w: %w", kafka.KafkaStorageError, err)
	}
	if n.failure == nil {
		n.failure = err
		n.o.Log.Error("metadata log failed", "error", err)
		n.o.OnFailure(err)
	}
	return n.failure
}

// commit flushes up to end and publishes what is committed then.
func (n *Node) commit(end kafka.Offset) error {
	flushed := n.log.FlushedOffset()
	if flushed < end {
		var err error
		if flushed, err = n.log.Flush(); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.failLocked(fmt.Errorf("flush the metadata log: %w", err))
		}
	}
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	now := n.committed(flushed)
	if now != nil {
		n.publishLocked(now)
	}
	return nil
}

// committed takes the newest committed image that is not published yet, or nil.
func (n *Node) committed(flushed kafka.Offset) (newest *meta.Image) {
	n.mu.Lock()
	defer n.mu.Unlock()
	highWatermark := n.core.Flushed(flushed)
	n.log.NoteHighWatermark(highWatermark)
	for len(n.pending) > 0 && n.pending[0].Offset() < highWatermark {
		newest, n.pending[0] = n.pending[0], nil // the array goes on to be used: it must not hold on to an image
		n.pending = n.pending[1:]
	}
	return newest
}

// publishLocked needs publishMu.
func (n *Node) publishLocked(now *meta.Image) {
	defer invariant.NoPanic()
	old := n.image.Load()
	for _, watch := range n.watchers {
		watch(old, now)
	}
	n.image.Store(now)
	n.snapshotIfDue()
}
