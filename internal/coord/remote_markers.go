package coord

import (
	"context"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/peer"
)

// Brokers are other brokers, which lead what this one does not.
type Brokers interface {
	// WriteMarkers has a broker write markers, each of another producer, and returns a code for each partition of each.
	WriteMarkers(ctx context.Context, to kafka.NodeID, markers []peer.Marker) ([][]kafka.Error, error)
}

// remoteMarkers sends markers to the brokers that lead the partitions: to each broker one request at a time, so that the order of what one
// partition gets is kept, and in it all that has come meanwhile.
type remoteMarkers struct {
	c *Coordinator

	mu   sync.Mutex // guards what follows; held for memory only
	due  map[kafka.NodeID][]*remoteMarker
	busy map[kafka.NodeID]bool // somebody sends to it
}

type remoteMarker struct {
	*pendingMarker
	done func(error)
}

// remoteRequestMax is how many markers go in one request.
const remoteRequestMax = 1000

func (r *remoteMarkers) open(c *Coordinator) {
	r.c, r.due, r.busy = c, map[kafka.NodeID][]*remoteMarker{}, map[kafka.NodeID]bool{}
}

// leaderElsewhere returns the other broker that leads the marker's partition, if one does.
func (c *Coordinator) leaderElsewhere(p *pendingMarker, im *meta.Image) (kafka.NodeID, bool) {
	if c.opts.Brokers == nil || !p.anywhere {
		return kafka.NoNode, false
	}
	leader := topicIn(im, p.tp.Topic).Partitions[p.tp.Partition].Leader
	return leader, leader != kafka.NoNode && leader != c.opts.NodeID
}

// send begins to send a marker to a broker.
func (r *remoteMarkers) send(to kafka.NodeID, m *remoteMarker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due[to] = append(r.due[to], m)
	if !r.busy[to] {
		r.busy[to] = r.c.start(func() { r.work(to) })
	}
}

// work sends what is due to a broker until nothing is.
func (r *remoteMarkers) work(to kafka.NodeID) {
	for {
		some := r.take(to)
		if len(some) == 0 {
			return
		}
		requests := make([]peer.Marker, len(some))
		for i, m := range some {
			requests[i] = peer.Marker{
				ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit, Protocol: m.Protocol,
				Partitions: []kafka.TopicPartition{m.tp},
			}
		}
		codes, err := r.c.opts.Brokers.WriteMarkers(r.c.stop, to, requests)
		for i, m := range some {
			switch {
			case err != nil:
				m.done(kafka.NotLeaderOrFollower)
			case codes[i][0] != kafka.None:
				m.done(codes[i][0])
			default:
				m.done(nil)
			}
		}
	}
}

// take returns what goes in the next request: of each producer one marker, as the answer tells them apart by producer alone.
func (r *remoteMarkers) take(to kafka.NodeID) (some []*remoteMarker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []*remoteMarker
	type row struct {
		producer  kafka.ProducerID
		partition kafka.TopicPartition
	}
	taken, epochs := map[row]bool{}, map[kafka.ProducerID]kafka.ProducerEpoch{}
	for _, m := range r.due[to] {
		at := row{m.ProducerID, m.tp}
		epoch, known := epochs[m.ProducerID]
		if !m.sender.goesOn() {
			continue
		}
		if taken[at] || known && epoch != m.ProducerEpoch || len(some) == remoteRequestMax {
			rest = append(rest, m)
			epochs[m.ProducerID] = -1 // what follows must not pass it
			continue
		}
		taken[at] = true
		if !known {
			epochs[m.ProducerID] = m.ProducerEpoch
		}
		some = append(some, m)
	}
	r.due[to] = rest
	if len(some) == 0 {
		delete(r.due, to)
		delete(r.busy, to)
	}
	return some
}
