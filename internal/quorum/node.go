// Package quorum runs a replica of the metadata log, __cluster_metadata: it drives the quorum's machine (package kraft), applies what is
// committed and publishes the cluster's Image. On the node that leads the quorum it is the active controller: it decides commands. On
// a broker it keeps the broker registered.
package quorum

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
)

// Node is this process's replica of the metadata log: a voter or an observer. All methods are safe for concurrent use. Every command
// answers when what it decided, and all that was decided before, is committed, applied and published, and all watchers have
// returned.
//
// A command goes through three steps. Under mu it is decided on the tip, the image with all that was appended, and its records
// are appended in one batch. Then it is flushed, one flush for all that wait, here and on a majority of the voters. Then, under
// publishMu, the images that became committed are published in order.
type Node struct {
	o      Options
	folder string
	log    *commitlog.Log
	began  time.Time // of the member's clock

	image      atomic.Pointer[meta.Image]
	membership atomic.Pointer[kraft.Membership] // as member has it
	role       atomic.Pointer[kraft.Role]       // likewise
	active     atomic.Bool                      // commands are taken; changed with mu

	// mu guards what follows. It is held for memory and one write(2), and for the disk only where the quorum's rules let nothing happen
	// meanwhile: a new epoch's quorum-state, the cut of a log that diverges, the end of a snapshot's download. Never for Flush.
	mu            sync.Mutex
	member        *kraft.Member
	running       bool // between Start and Close
	closed        bool
	failure       error
	highWatermark kafka.Offset
	told          kafka.Offset  // the flushed end that the member knows
	armed         int64         // when the loop ticks next
	moved         chan struct{} // closed when a command's fate may be known; nil while none waits
	stranded      chan struct{} // closed when Leave need not wait for another leader any more; nil before Leave
	handedOver    chan struct{} // closed when Close need not; nil before Close
	refused       error         // what kept the last control records out of the log: a full disk
	unattended    kafka.Offset  // the end of what was appended without a command that waits for it

	answers  map[kraft.Ticket]chan<- answer // requests that wait in the member
	tickets  kraft.Ticket
	cuts     int                // of the log
	warned   map[string]int64   // when the member's warnings were logged
	download *download          // of a snapshot, or nil
	known    []kraft.SnapshotID // the whole snapshots, the oldest first

	taken     *meta.Image // the newest committed one, published or about to be
	restored  *meta.Image // of a snapshot that took the log's place and is not yet taken, or nil
	unsnapped int64       // bytes that were committed since the last snapshot
	snapped   snapshotMark
	bootstrap []meta.Entry // what a new cluster's log begins with

	// Of the active controller.
	term    kafka.Epoch    // of its leadership
	tip     *meta.Image    // with everything that was appended
	pending []pendingImage // appended and not committed
	live    *meta.Liveness

	publishMu sync.Mutex // serialises applying and publishing; held while watchers run, before mu
	watchers  []func(old, now *meta.Image)
	applier   *applier               // nil while this node is the active controller, and after it was
	gate      func(*meta.Image) bool // nothing is published before it lets an image through; nil when one was

	wakeLoop, wakeApply, wakeDuties chan struct{}   // capacity 1: one more round is due
	quit                            chan struct{}   // closed by Close, and when the node fails
	life                            context.Context //nolint:containedctx // of requests to other nodes: ends with the node
	endLife                         context.CancelFunc
	background                      sync.WaitGroup

	broker lifecycle
	ids    producerIDs

	snapshots snapshots
	damaged   map[string]bool // segments of which that was told; Damaged's alone
}

// pendingImage is an image that is appended, and how many bytes its batch has.
type pendingImage struct {
	*meta.Image
	bytes int64
}

var errClosed = errors.New("metadata log is closed")

// Image returns the newest published image. One atomic load.
func (n *Node) Image() *meta.Image { return n.image.Load() }

// Watch registers fn, to be called with each published image and its predecessor, one call at a time, in order, before the
// command that caused it returns. Several commands may be seen as one step. Image returns now only when all watchers have
// returned: what clients are told of is served already. Watchers are registered before Start, whose first call has an empty
// image as old; on a broker it is the first image that has the broker's own registration. A watcher must not call a command of the
// Node and must not block on something that does.
func (n *Node) Watch(fn func(old, now *meta.Image)) {
	n.publishMu.Lock()
	defer n.publishMu.Unlock()
	n.watchers = append(n.watchers, fn)
}

// Membership returns the voters of the quorum and its kraft.version. One atomic load: each client that connects is told of it, also
// while the disk does not answer.
func (n *Node) Membership() kraft.Membership { return *n.membership.Load() }

// Leader returns the node that leads the quorum, as far as this one knows, with an address of its controller listener, and the epoch. It
// takes commands as soon as it is the active controller, which may be a moment later.
func (n *Node) Leader() (leader kraft.Node, epoch kafka.Epoch, known bool) {
	r := n.role.Load()
	if r.Leader == kafka.NoNode {
		return kraft.Node{ID: kafka.NoNode}, r.Epoch, false
	}
	leader = kraft.Node{ID: r.Leader}
	if r.Leader == n.o.NodeID {
		leader.Endpoint = n.o.controllerEndpoints()[0]
		return leader, r.Epoch, true
	}
	if len(r.Endpoints) == 0 {
		return leader, r.Epoch, false
	}
	leader.Endpoint = r.Endpoints[0]
	return leader, r.Epoch, true
}

// IsActive tells whether this node is the active controller, which takes commands.
func (n *Node) IsActive() bool { return n.active.Load() }

// BrokerEpoch returns the epoch under which this node is registered as a broker since Start.
func (n *Node) BrokerEpoch() kafka.BrokerEpoch {
	n.broker.mu.Lock()
	defer n.broker.mu.Unlock()
	return n.broker.epoch
}
