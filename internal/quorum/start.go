package quorum

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Start makes this node the leader of a new epoch and registers it as a broker: when it returns, everything of that is
// durable, the first image is published, and commands are taken. It makes the broker lead what it can lead, and fences all
// other brokers; with Registration.Unclean every partition that it leads got a new leader epoch. Registration's ID and Features are filled in.
//
// An error of type *kraft.NotAloneError says that the log belongs to a larger quorum.
func (n *Node) Start(ctx context.Context, reg meta.Registration) error {
	n.mu.Lock()
	err := n.startLocked(ctx, reg)
	end := n.log.EndOffset()
	n.mu.Unlock()
	if alone := (*kraft.NotAloneError)(nil); errors.As(err, &alone) && len(alone.Voters) == 1 && alone.Voters[0].ID == alone.ID {
		return fmt.Errorf("start metadata quorum: %w; directory.id in %s is not the one that it was: put %s there",
			err, filepath.Join(n.o.Dir.Path(), commitlog.MetaPropertiesFile), alone.Voters[0].Directory)
	}
	if err != nil {
		return fmt.Errorf("start metadata quorum: %w", err)
	}
	if err := n.commit(end); err != nil {
		return err
	}
	n.snapshots.start()
	return nil
}

func (n *Node) startLocked(ctx context.Context, reg meta.Registration) error {
	switch {
	case n.failure != nil:
		return n.failure
	case ctx.Err() != nil:
		return ctx.Err()
	}
	invariant.Check(!n.started, "a quorum node was started twice")
	state, err := n.core.Campaign()
	if err != nil {
		return err
	}
	if err := writeState(n.o.FS, n.folder, state, n.core.Membership()); err != nil {
		return n.failLocked(err)
	}
	if err := n.beginEpoch(); err != nil {
		return err
	}
	if err := n.register(reg); err != nil {
		return err
	}
	n.started = true
	return nil
}

// beginEpoch appends what each epoch begins with: the leader change; in an empty log or when the controller's address changed
// the voters; the end of a transaction that another controller left open; and in an empty log the bootstrap records.
func (n *Node) beginEpoch() error {
	controls := []control{leaderChange(n.o.NodeID, n.core.Membership())}
	if updated, changed := n.core.UpdateVoter(n.o.controllerEndpoints()); changed {
		n.setMembershipLocked(updated)
		controls = append(controls, membershipControls(updated)...)
	} else if n.log.EndOffset() == 0 {
		controls = append(controls, membershipControls(updated)...)
	}
	nowMs := n.o.Now().UnixMilli()
	batch := encodeControl(controls, nowMs)
	epoch := n.core.State().Epoch
	appended, err := n.log.Append(batch, epoch, n.o.Now())
	if err != nil {
		return n.failLocked(err)
	}
	tip := n.tip.Update().Image(appended.Last, epoch, nowMs).WithController(n.o.NodeID)
	n.appendedLocked(tip, int64(len(batch)))
	if n.openTransaction {
		if err := n.abortTransaction(); err != nil {
			return err
		}
	}
	if len(n.tip.Features()) > 0 {
		return nil
	}
	bootstrap := n.bootstrap
	if len(bootstrap) == 0 {
		bootstrap = meta.Bootstrap()
	}
	return n.appendLocked(meta.Activate(bootstrap, n.o.MinISR))
}

// abortTransaction ends what a controller before us began and did not finish: nothing of it counts.
func (n *Node) abortTransaction() error {
	abort := sysrecord.NewAbortTransactionRecord()
	abort.Reason = new("the controller that began it is gone")
	nowMs := n.o.Now().UnixMilli()
	batch := encode([]meta.Entry{{Record: abort}}, nowMs)
	epoch := n.core.State().Epoch
	appended, err := n.log.Append(batch, epoch, n.o.Now())
	if err != nil {
		return n.failLocked(err)
	}
	n.openTransaction = false
	n.appendedLocked(n.tip.Update().Image(appended.Last, epoch, nowMs), int64(len(batch)))
	return nil
}

// startBatchEntries bounds the batches in which the leader changes of a start are appended.
const startBatchEntries = 10_000

// register appends the registrations of this node. The broker's last record ends its fencing, so a crash in between leaves it
// fenced, and the next start does it all again.
func (n *Node) register(reg meta.Registration) error {
	reg.ID, reg.Features = n.o.NodeID, meta.SupportedFeatures()
	controller := meta.RegisterController{
		ID: n.o.NodeID, Incarnation: reg.Incarnation, Endpoints: []meta.Endpoint{n.o.Controller}, Features: reg.Features,
	}
	entries, _ := meta.DecideRegisterController(n.tip, controller) // refused at levels that have no place for it
	at := n.log.EndOffset() + kafka.Offset(len(entries))
	entries = append(entries, meta.DecideStart(n.tip, reg, at, n.o.env())...)
	n.brokerEpoch = kafka.BrokerEpoch(at)
	if err := n.appendInParts(entries); err != nil {
		return err
	}
	return n.fenceOthers()
}

// fenceOthers takes brokers out of service that the log knows from a larger cluster: alone there is nobody to send heartbeats. The
// last record of each is what fences it, so the next start ends what a crash cuts short.
func (n *Node) fenceOthers() error {
	for _, b := range n.tip.Brokers() {
		entries := meta.DecideFence(n.tip, b.ID, n.o.env())
		if b.ID == n.o.NodeID || len(entries) == 0 {
			continue
		}
		if err := n.appendInParts(entries); err != nil {
			return err
		}
		n.o.Log.Warn("a broker of a former cluster is fenced: it is no part of this one; what only it had in sync is led by nobody",
			"broker", b.ID, "partitions", len(entries)-1)
	}
	return nil
}

func (n *Node) appendInParts(entries []meta.Entry) error {
	for len(entries) > 0 {
		part := entries[:min(len(entries), startBatchEntries)]
		if err := n.appendLocked(part); err != nil {
			return err
		}
		n.pending = []*meta.Image{n.tip} // nothing is published before all parts are: of a large topic each image has a copy of its own
		entries = entries[len(part):]
	}
	return nil
}

// BrokerEpoch returns the epoch under which this node is registered as a broker since Start.
func (n *Node) BrokerEpoch() kafka.BrokerEpoch {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.brokerEpoch
}

// Membership returns the voters of the quorum and its kraft.version. One atomic load: each client that connects is told of it, also
// while the disk does not answer.
func (n *Node) Membership() kraft.Membership { return *n.membership.Load() }

func (n *Node) setMembershipLocked(m kraft.Membership) {
	n.core.SetMembership(m)
	n.membership.Store(&m)
}

// Close writes nothing but the log's own end: commands are refused from now on, and the metadata log is closed. The caller
// then closes Options.Dir.
func (n *Node) Close() error {
	n.snapshots.stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	if n.failure == nil {
		n.failure = errClosed
	}
	return n.log.Close()
}
