package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/peer"
)

// deaths finds brokers whose process has ended, for the active controller. A process that ends closes its sockets: who hears of that dials
// the broker once more, and when that is refused or reset nobody is there. The session, which is long, remains for those that die silently.
type deaths struct {
	node   *Node
	ctx    context.Context // ends the looking
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	looking map[kafka.NodeID]bool
	stopped bool
}

const (
	// deathProbes is how often a broker is dialled that seems to be gone, and deathProbeAfter how long one waits before the next: a
	// process does not close all of its sockets at one instant.
	deathProbes     = 5
	deathProbeAfter = 60 * time.Millisecond
	deathProbeMax   = time.Second
	// silenceMax is how long a new active controller waits for the brokers to be heard of before it looks again for those that are not.
	silenceMax = 300 * time.Millisecond
)

func newDeaths(n *Node) *deaths {
	d := &deaths{node: n, looking: map[kafka.NodeID]bool{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// close ends the looking and waits for it.
func (d *deaths) close() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.cancel()
	d.wg.Wait()
}

// spawn runs fn unless the node stops.
func (d *deaths) spawn(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.wg.Go(fn)
	}
}

// disconnected is told of a broker whose last connection to this controller has ended.
func (d *deaths) disconnected(id kafka.NodeID, epoch kafka.BrokerEpoch) {
	d.spawn(func() { d.look(id, epoch, deathProbes) })
}

// apply watches for this node becoming the active controller: the broker that was it before may be gone, and others with it, and their
// connections were to others.
func (d *deaths) apply(old, now *meta.Image) {
	if self := d.node.config.NodeID(); now.Controller() == self && old.Controller() != self {
		d.spawn(d.lookForSilent)
	}
}

// lookForSilent dials all brokers once, and after a while those that were not heard of.
func (d *deaths) lookForSilent() {
	d.lookAt(1, func(kafka.NodeID) bool { return true })
	if d.sleep(silenceMax) {
		d.lookAt(deathProbes, func(id kafka.NodeID) bool { return !d.node.heartbeats.Heard(id) })
	}
}

func (d *deaths) lookAt(times int, which func(kafka.NodeID) bool) {
	var looks sync.WaitGroup
	for _, b := range d.node.quorum.Image().Brokers() {
		if b.ID != d.node.config.NodeID() && !b.Fenced && which(b.ID) {
			looks.Go(func() { d.look(b.ID, b.Epoch, times) })
		}
	}
	looks.Wait()
}

// look dials a broker that seems to be gone, some times, and tells the quorum when it is.
func (d *deaths) look(id kafka.NodeID, epoch kafka.BrokerEpoch, times int) {
	if !d.begin(id) {
		return
	}
	defer d.end(id)
	for i := range times {
		address, ok := d.node.brokerEndpoint(id)
		if !ok || !d.node.quorum.IsActive() {
			return
		}
		if d.refuses(address) {
			if err := d.node.quorum.BrokerDied(d.ctx, id, epoch); err != nil && !errors.Is(err, kafka.NotController) && d.ctx.Err() == nil {
				d.node.log.Warn("a broker whose process has ended is not fenced", "broker", id, "error", err)
			}
			return
		}
		if i < times-1 && !d.sleep(deathProbeAfter) {
			return
		}
	}
}

func (d *deaths) refuses(e peer.Endpoint) bool {
	ctx, cancel := context.WithTimeout(d.ctx, deathProbeMax)
	defer cancel()
	return peer.IsDead(peer.Probe(ctx, e.Address(), d.node.peerOptions()))
}

// begin tells whether nobody looks for that broker yet.
func (d *deaths) begin(id kafka.NodeID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looking[id] || d.stopped {
		return false
	}
	d.looking[id] = true
	return true
}

func (d *deaths) end(id kafka.NodeID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.looking, id)
}

// sleep returns false when the node stops.
func (d *deaths) sleep(wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-d.ctx.Done():
		return false
	}
}
