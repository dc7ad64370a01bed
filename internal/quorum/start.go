package quorum

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// NotAloneError refuses to start a node that can reach no other where the quorum is not this node alone.
type NotAloneError struct {
	ID        kafka.NodeID
	Directory kafka.UUID
	Voters    []kraft.Voter
}

func (e *NotAloneError) Error() string {
	names := make([]string, len(e.Voters))
	for i, v := range e.Voters {
		names[i] = v.String()
	}
	return fmt.Sprintf("the metadata quorum is [%s], not this node alone (%d-%s): it cannot lead it", strings.Join(names, ", "), e.ID, e.Directory)
}

// Start makes the node a member of its quorum and, on a broker, registers it. Registration's ID and Features are filled in.
//
// A quorum of one leads at once: when Start returns, the registration is durable, the first image is published, and commands are
// taken. It makes the broker lead what it can lead; with Registration.Unclean every partition that it leads got a new leader epoch. Where
// there is no Transport all other brokers are fenced.
//
// In a larger quorum Start returns when the active controller knows the broker, the broker has applied and published that, and is in
// service; on a node that is a controller only at once. ctx bounds that.
func (n *Node) Start(ctx context.Context, reg meta.Registration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	reg.ID, reg.Features = n.o.NodeID, meta.SupportedFeatures()
	n.broker.registration = reg
	leads, end, err := n.startMember(reg)
	if err != nil {
		return fmt.Errorf("start metadata quorum: %w", err)
	}
	if leads {
		if err := n.flush(end); err != nil {
			return err
		}
		if err := n.publish(); err != nil {
			return err
		}
	}
	n.startBackground()
	if leads || n.o.ControllerOnly {
		return nil
	}
	return n.broker.wait(ctx)
}

// checkVoters refuses a quorum that can't be: one of which this node was the only voter, in another directory; and any other but one that is
// this node alone, where no other can be reached.
func (n *Node) checkVoters() error {
	m, own := n.member.Membership(), n.o.Dir.ID()
	sole := len(m.Voters) == 1 && m.Voters[0].ID == n.o.NodeID
	switch {
	case sole && (m.Version == 0 || m.Voters[0].Directory == own):
		return nil
	case sole:
		return fmt.Errorf("%w; directory.id in %s is not the one that it was: put %s there",
			&NotAloneError{n.o.NodeID, own, m.Voters}, filepath.Join(n.o.Dir.Path(), commitlog.MetaPropertiesFile), m.Voters[0].Directory)
	case n.o.Transport == nil:
		return &NotAloneError{n.o.NodeID, own, m.Voters}
	}
	return nil
}

// startMember tells whether the node leads, which a quorum of one does at once. Then all that the log holds will be committed, as nobody
// else votes, and the first commands are decided on that: one flush is enough for them and for the epoch's begin.
func (n *Node) startMember(reg meta.Registration) (leads bool, end kafka.Offset, err error) {
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	invariant.Check(!n.running, "a quorum node was started twice")
	if n.failure != nil {
		return false, 0, n.failure
	}
	if err := n.checkVoters(); err != nil {
		return false, 0, err
	}
	if !n.o.ControllerOnly {
		n.gate = func(im *meta.Image) bool {
			b, registered := im.Broker(n.o.NodeID)
			return registered && b.Incarnation == reg.Incarnation
		}
	}
	n.running = true
	n.stepLocked(n.member.Start)
	switch {
	case n.failure != nil:
		return false, 0, n.failure
	case n.refused != nil:
		return false, 0, n.failLocked(n.refused)
	case n.member.Role().Kind != kraft.Leader:
		return false, 0, nil
	}
	n.applier = newApplier(n.taken)
	if err := n.apply(n.log.EndOffset()); err != nil {
		return false, 0, err
	}
	if err := n.activateLocked(n.member.Role().Epoch); err != nil {
		return false, 0, err
	}
	if err := checkLevel(n.tip); err != nil {
		return false, 0, err
	}
	if !n.o.ControllerOnly {
		if err := n.registerAloneLocked(reg); err != nil {
			return false, 0, err
		}
	}
	n.mergePendingLocked(0)
	return true, n.log.EndOffset(), nil
}

// registerAloneLocked appends the registrations of this node. The broker's last record ends its fencing, so a crash in between leaves it
// fenced, and the next start does it all again.
func (n *Node) registerAloneLocked(reg meta.Registration) error {
	entries, _ := meta.DecideRegisterController(n.tip, n.controllerRegistration(reg)) // refused at levels that have no place for it
	at := n.log.EndOffset() + kafka.Offset(len(entries))
	entries = append(entries, meta.DecideStart(n.tip, reg, at, n.o.env())...)
	if err := n.appendInPartsLocked(entries); err != nil {
		return err
	}
	n.broker.unfenced(kafka.BrokerEpoch(at))
	if n.o.Transport != nil {
		return nil
	}
	return n.fenceOthersLocked()
}

// fenceOthersLocked takes brokers out of service that the log knows from a larger cluster: alone there is nobody to send heartbeats. The
// last record of each is what fences it, so the next start ends what a crash cuts short.
func (n *Node) fenceOthersLocked() error {
	for _, b := range n.tip.Brokers() {
		entries := meta.DecideFence(n.tip, b.ID, n.o.env())
		if b.ID == n.o.NodeID || len(entries) == 0 {
			continue
		}
		if err := n.appendInPartsLocked(entries); err != nil {
			return err
		}
		n.o.Log.Warn("a broker of a former cluster is fenced: it is no part of this one; what only it had in sync is led by nobody",
			"broker", b.ID, "partitions", len(entries)-1)
	}
	return nil
}

func (n *Node) startBackground() {
	n.snapshots.start()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.failure != nil {
		return
	}
	n.background.Go(n.loop)
	n.background.Go(n.applyLoop)
	if n.o.Transport == nil {
		return
	}
	n.background.Go(n.duties)
	n.background.Go(n.registerController)
	if !n.o.ControllerOnly {
		n.background.Go(n.broker.run)
	}
}

// Kill ends the node as a crash would, as far as that is possible beside it: nothing leaves and nothing is written any more. It is for tests.
func (n *Node) Kill() {
	n.mu.Lock()
	n.closed = true
	if n.failure == nil {
		n.failure = errClosed
		n.deactivateLocked()
	}
	n.stopLocked()
	n.mu.Unlock()
	n.snapshots.stop()
	n.background.Wait()
}

// Close hands the leadership over, if there is somebody to take it, and writes nothing but the log's own end: commands are refused from now
// on, and the metadata log is closed. The caller then closes Options.Dir.
func (n *Node) Close() error {
	n.handOver()
	n.snapshots.stop()
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	if n.failure == nil {
		n.failure = errClosed
		n.deactivateLocked()
	}
	n.stopLocked()
	n.announceLocked()
	n.mu.Unlock()
	n.background.Wait()
	if n.download != nil {
		n.download.abandon(n.o.FS)
	}
	return n.log.Close()
}

// stopLocked ends the goroutines.
func (n *Node) stopLocked() {
	select {
	case <-n.quit:
	default:
		close(n.quit)
		n.endLife()
	}
}

// handOver waits until another node leads, or none could, or the member has waited long enough.
func (n *Node) handOver() {
	n.mu.Lock()
	if !n.running || n.failure != nil || n.handedOver != nil {
		n.mu.Unlock()
		return
	}
	done := make(chan struct{})
	n.handedOver = done
	n.stepLocked(n.member.Shutdown)
	n.mu.Unlock()
	select {
	case <-done:
	case <-n.quit:
	}
}
