package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// lifecycle keeps this process's broker registered with the active controller, be that this node or another: it registers, sends
// heartbeats, and at the end asks to be let go.
type lifecycle struct {
	n   *Node
	due chan struct{} // capacity 1: the next round is to come at once

	mu           sync.Mutex // guards what follows; held for memory only, and taken behind the Node's mu
	registration meta.Registration
	registered   bool
	epoch        kafka.BrokerEpoch // under which the broker is registered, or was
	inService    bool              // it was unfenced once
	leaving      bool
	offline      []kafka.UUID // log directories that have failed
	cordoned     []kafka.UUID // those that take no new replicas; nil: as registered
	trouble      error        // why the last round came to nothing
	stranger     error        // that a controller has said it is of another cluster
	cancel       func()       // ends the round that is under way; nil between rounds

	ready chan struct{} // closed when inService becomes true
	gone  chan struct{} // closed when the controller has let the broker go
}

func (l *lifecycle) init(n *Node) {
	l.n, l.due, l.ready, l.gone = n, make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	l.epoch = meta.NoBrokerEpoch
}

// poke has the next round come at once.
func (l *lifecycle) poke() { l.n.wake(l.due) }

// turn has whoever leads now asked at once: who led before may not answer any more.
func (l *lifecycle) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
	l.poke()
}

// unfenced tells that the broker is registered and in service.
func (l *lifecycle) unfenced(epoch kafka.BrokerEpoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registered, l.epoch, l.trouble, l.stranger = true, epoch, nil, nil
	if !l.inService {
		l.inService = true
		close(l.ready)
	}
}

// wait returns when the broker is in service.
func (l *lifecycle) wait(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.n.quit:
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		return l.n.failure
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stranger != nil {
		return fmt.Errorf("register with the cluster: %w: %w", ctx.Err(), l.stranger)
	}
	if l.trouble == nil || errors.Is(l.trouble, kafka.NotController) {
		return fmt.Errorf("register with the cluster: %w: no active controller was found; a majority of the voters must be up and reach each other", ctx.Err())
	}
	return fmt.Errorf("register with the cluster: %w: %w", ctx.Err(), l.trouble)
}

// againMin and againMax bound how long a round waits that came to nothing, as while an election goes on.
const (
	againMin = 20 * time.Millisecond
	againMax = time.Second
)

// run is the broker's life until the node ends.
func (l *lifecycle) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	interval := time.Duration(l.n.o.HeartbeatMs) * time.Millisecond
	again := againMin
	for {
		select {
		case <-l.n.quit:
			return
		case <-timer.C:
		case <-l.due:
			again = againMin // something has changed
		}
		wait := interval
		settled, err := l.round()
		switch {
		case err != nil:
			wait, again = again, min(2*again, againMax)
		case settled:
			again = againMin
		default:
			wait, again = againMin, againMin
		}
		l.note(err)
		timer.Reset(wait)
	}
}

// note remembers what keeps the broker from being registered, and tells the operator of a refusal once.
func (l *lifecycle) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, kafka.NotController) && (l.trouble == nil || l.trouble.Error() != err.Error()) {
		l.n.o.Log.Warn("the active controller was not reached, or refused this broker", "error", err)
	}
	l.trouble = err
}

// refusedBy notes, and tells the operator of it once, that a controller is of another cluster.
func (l *lifecycle) refusedBy(controller kraft.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stranger != nil {
		return
	}
	l.stranger = fmt.Errorf("the controller at %s:%d is not of the cluster %s that this node's log directories are of: %w",
		controller.Endpoint.Host, controller.Endpoint.Port, l.n.o.ClusterID, kafka.InconsistentClusterId)
	l.n.o.Log.Error("this node gets into no cluster", "error", l.stranger)
}

// round registers the broker or sends a heartbeat. It tells whether the next one is due after the interval, and not at once.
func (l *lifecycle) round() (settled bool, err error) {
	ctx, cancel := context.WithTimeout(l.n.life, time.Duration(l.n.o.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	l.mu.Lock()
	registered, leaving, reg := l.registered, l.leaving, l.registration
	l.cancel = cancel
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.cancel = nil
		l.mu.Unlock()
	}()
	if registered {
		return l.heartbeat(ctx)
	}
	if leaving {
		return true, nil
	}
	epoch, err := l.n.registerBroker(ctx, reg)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registered, l.epoch = true, epoch
	return false, nil
}

// heartbeat says that the broker lives and how far it has got. It asks to be fenced until its own registration is published here: then all
// that it is to lead or follow is known to its watchers.
func (l *lifecycle) heartbeat(ctx context.Context) (settled bool, err error) {
	l.mu.Lock()
	h := meta.Heartbeat{
		Broker: l.n.o.NodeID, Epoch: l.epoch, MetadataOffset: l.n.Image().Offset(),
		WantShutDown: l.leaving, OfflineDirs: l.offline, CordonedDirs: l.cordoned,
	}
	l.mu.Unlock()
	own, published := l.n.Image().Broker(h.Broker)
	h.WantFence = !published || own.Epoch != h.Epoch
	result, err := l.n.sendHeartbeat(ctx, h)
	switch {
	case errors.Is(err, kafka.StaleBrokerEpoch) || errors.Is(err, kafka.BrokerIdNotRegistered):
		l.lost(h.Epoch)
		return false, nil
	case err != nil:
		return false, err
	}
	if result.ShouldShutDown {
		l.letGo()
		return true, nil
	}
	if result.Fenced {
		return true, nil // publishing pokes
	}
	l.unfenced(h.Epoch)
	return !h.WantShutDown, nil
}

// published has the next heartbeat sent at once where somebody waits for it: this broker's own registration is known here now, or another
// broker is about to stop and goes when all know who leads instead.
func (l *lifecycle) published(old, now *meta.Image) {
	if l.n.o.Transport == nil || l.n.o.ControllerOnly {
		return
	}
	for _, b := range now.Brokers() {
		before, known := old.Broker(b.ID)
		if own := b.ID == l.n.o.NodeID && (!known || before.Epoch != b.Epoch); own || b.InControlledShutdown && !(known && before.InControlledShutdown) {
			l.poke()
		}
	}
}

// lost has the broker register again: the controller knows nothing of the registration any more. Nothing that it acknowledged is lost.
func (l *lifecycle) lost(epoch kafka.BrokerEpoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != epoch || !l.registered {
		return
	}
	l.n.o.Log.Warn("the controller does not know this broker's registration any more: it registers again", "epoch", epoch)
	l.registered, l.registration.PreviousEpoch = false, epoch
	if l.leaving {
		closeOnce(l.gone)
	}
}

func (l *lifecycle) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	closeOnce(l.gone)
}

// Leave asks the active controller to let others lead what this broker leads, and returns when that is so. On a node that is alone, or the
// last of its quorum, it returns at once. The broker is not in service afterwards: Close follows.
func (n *Node) Leave(ctx context.Context) error {
	l := &n.broker
	l.mu.Lock()
	registered := l.registered
	l.leaving = true
	l.mu.Unlock()
	if !registered || n.o.Transport == nil || n.isOnlyBroker() {
		return nil
	}
	n.mu.Lock()
	n.stranded = make(chan struct{})
	n.mu.Unlock()
	l.poke()
	select {
	case <-l.gone:
		return nil
	case <-n.stranded:
		return nil
	case <-n.quit:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("controlled shutdown: %w", ctx.Err())
	}
}

// isOnlyBroker tells whether no other broker could take over what this one leads.
func (n *Node) isOnlyBroker() bool {
	return !slices.ContainsFunc(n.Image().Brokers(), func(b *meta.Broker) bool { return b.ID != n.o.NodeID && !b.Fenced })
}

// ReportDirs notes what this broker tells about its log directories.
func (n *Node) ReportDirs(ctx context.Context, report meta.DirReport) error {
	report.Broker = n.o.NodeID
	if n.o.Transport == nil {
		return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
			return meta.DecideDirReport(im, report, n.o.env()), nil
		})
	}
	epoch, changed := n.broker.noteDirs(report)
	if changed {
		n.broker.poke()
	}
	if len(report.Replicas) == 0 {
		return nil
	}
	if epoch == meta.NoBrokerEpoch {
		return kafka.StaleBrokerEpoch // not registered yet: it is reported again
	}
	return n.assignDirs(ctx, meta.AssignDirs{Broker: report.Broker, Epoch: epoch, Dirs: byDir(report.Replicas)})
}

// noteDirs has the next heartbeats tell of directories that have failed or take no new replicas.
func (l *lifecycle) noteDirs(report meta.DirReport) (epoch kafka.BrokerEpoch, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if report.Online != nil {
		offline := []kafka.UUID{}
		for _, dir := range l.registration.LogDirs {
			if !slices.Contains(report.Online, dir) {
				offline = append(offline, dir)
			}
		}
		changed = !slices.Equal(offline, l.offline)
		l.offline = offline
	}
	if report.Cordoned != nil {
		changed = changed || !slices.Equal(report.Cordoned, l.cordoned)
		l.cordoned = report.Cordoned
		l.registration.Cordoned = report.Cordoned
	}
	return l.epoch, changed
}

// byDir groups replicas by directory and topic, in the order in which they come.
func byDir(replicas []meta.ReplicaDir) (dirs []meta.DirAssignment) {
	for _, r := range replicas {
		at := slices.IndexFunc(dirs, func(d meta.DirAssignment) bool { return d.ID == r.Dir })
		if at < 0 {
			at = len(dirs)
			dirs = append(dirs, meta.DirAssignment{ID: r.Dir})
		}
		topics := &dirs[at].Topics
		if last := len(*topics) - 1; last < 0 || (*topics)[last].ID != r.Topic {
			*topics = append(*topics, meta.TopicIDPartitions{ID: r.Topic})
		}
		t := &(*topics)[len(*topics)-1]
		t.Partitions = append(t.Partitions, r.Partition)
	}
	return dirs
}

// controller returns the active controller to ask, which is another node, or kafka.NotController while none is known.
func (n *Node) controller() (kraft.Node, error) {
	leader, _, known := n.Leader()
	if !known || leader.ID == n.o.NodeID || n.o.Transport == nil {
		return kraft.Node{}, kafka.NotController // this node leads and is not active yet, or nobody leads
	}
	return leader, nil
}

func (n *Node) registerBroker(ctx context.Context, reg meta.Registration) (kafka.BrokerEpoch, error) {
	if n.IsActive() {
		return n.RegisterBroker(ctx, reg)
	}
	to, err := n.controller()
	if err != nil {
		return meta.NoBrokerEpoch, err
	}
	epoch, err := n.o.Transport.RegisterBroker(ctx, to, reg)
	if errors.Is(err, kafka.DuplicateBrokerRegistration) {
		err = fmt.Errorf("another broker with the id %d is registered, and alive as far as the controller knows; if it is this one before a restart, "+
			"its session has to end first: %w", reg.ID, err)
	}
	return epoch, err
}

func (n *Node) sendHeartbeat(ctx context.Context, h meta.Heartbeat) (meta.HeartbeatResult, error) {
	if n.IsActive() {
		return n.Heartbeat(ctx, h)
	}
	to, err := n.controller()
	if err != nil {
		return meta.HeartbeatResult{}, err
	}
	return n.o.Transport.Heartbeat(ctx, to, h)
}

// assignDirs succeeds when the controller took all of it, or knows nothing of a topic, which is deleted then.
func (n *Node) assignDirs(ctx context.Context, cmd meta.AssignDirs) error {
	result, err := n.sendAssignDirs(ctx, cmd)
	if err != nil {
		return err
	}
	for _, dir := range result.Dirs {
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				if p.Err != kafka.None && p.Err != kafka.UnknownTopicId && p.Err != kafka.UnknownTopicOrPartition {
					return p.Err
				}
			}
		}
	}
	return nil
}

func (n *Node) sendAssignDirs(ctx context.Context, cmd meta.AssignDirs) (meta.AssignDirsResult, error) {
	if n.IsActive() {
		return n.AssignDirs(ctx, cmd)
	}
	to, err := n.controller()
	if err != nil {
		return meta.AssignDirsResult{}, err
	}
	return n.o.Transport.AssignDirs(ctx, to, cmd)
}

// registerController tells the active controller of this one, which Kafka expects of each, once in a life of the process.
func (n *Node) registerController() {
	if n.o.controllerEndpoints() == nil {
		return
	}
	cmd := n.controllerRegistration(n.broker.registration)
	for again := againMin; ; again = min(2*again, againMax) {
		if err := n.sendRegisterController(cmd); err == nil || errors.Is(err, kafka.UnsupportedVersion) {
			return
		}
		select {
		case <-n.quit:
			return
		case <-time.After(again):
		}
	}
}

func (n *Node) controllerRegistration(reg meta.Registration) meta.RegisterController {
	return meta.RegisterController{ID: n.o.NodeID, Incarnation: reg.Incarnation, Endpoints: []meta.Endpoint{n.o.Controller}, Features: reg.Features}
}

func (n *Node) sendRegisterController(cmd meta.RegisterController) error {
	ctx, cancel := context.WithTimeout(n.life, time.Duration(n.o.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	if n.IsActive() {
		return n.RegisterController(ctx, cmd)
	}
	to, err := n.controller()
	if err != nil {
		return err
	}
	return n.o.Transport.RegisterController(ctx, to, cmd)
}
