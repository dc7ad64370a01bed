package txn

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// part is what a partition knows of producers: the rules by which one takes data and markers.
type part struct {
	producers map[kafka.ProducerID]seen
	open      map[kafka.ProducerID][]*transaction // what is written and has no marker
	guards    map[kafka.ProducerID]int            // of producers of which the coordinator is being asked
	written   map[*transaction]bool
}

// seen is the newest that a partition has of a producer.
type seen struct {
	epoch       kafka.ProducerEpoch
	coordinator int32
}

func newPart() *part {
	return &part{
		producers: map[kafka.ProducerID]seen{}, open: map[kafka.ProducerID][]*transaction{},
		guards: map[kafka.ProducerID]int{}, written: map[*transaction]bool{},
	}
}

// guard is what an append hands back when the coordinator has said yes; needed when the producer has nothing open in its epoch: it
// may be ahead of the marker of its last transaction.
func (p *part) guard(h *history, id ID) (guard int, needed bool) {
	if p.opened(id) {
		return 0, false
	}
	if p.guards[id.Producer] == 0 {
		h.guards++
		p.guards[id.Producer] = h.guards
	}
	return p.guards[id.Producer], true
}

// opened tells whether a transaction of the producer in this epoch is open.
func (p *part) opened(id ID) bool {
	return len(p.open[id.Producer]) > 0 && p.producers[id.Producer].epoch == id.Epoch
}

// append takes what a transaction writes; once.
func (p *part) append(h *history, tp kafka.TopicPartition, id ID, x *transaction, guard int) bool {
	known, there := p.producers[id.Producer]
	switch {
	case p.written[x]:
		return true
	case there && id.Epoch < known.epoch:
		return false
	case !p.opened(id) && (guard == 0 || p.guards[id.Producer] != guard):
		return false
	case len(p.open[id.Producer]) > 0 && id.Epoch != known.epoch:
		h.fail("%v is to write to %v, where epoch %d has a transaction open", id, tp, known.epoch)
	}
	h.say("transaction %d writes to %v as %v", x.n, tp, id)
	known.epoch = id.Epoch
	p.producers[id.Producer], p.written[x] = known, true
	if !slices.Contains(p.open[id.Producer], x) {
		p.open[id.Producer] = append(p.open[id.Producer], x)
	}
	delete(p.guards, id.Producer)
	return true
}

// mark takes a marker; false when it is one of the past.
func (p *part) mark(h *history, tp kafka.TopicPartition, m Marker) bool {
	known, there := p.producers[m.ID.Producer]
	open := p.open[m.ID.Producer]
	stale := m.ID.Epoch < known.epoch || m.Protocol >= 2 && m.ID.Epoch == known.epoch && len(open) > 0
	if there && (stale || m.CoordinatorEpoch < known.coordinator) {
		return false
	}
	h.say("marker in %v: %+v", tp, m)
	p.producers[m.ID.Producer] = seen{epoch: m.ID.Epoch, coordinator: m.CoordinatorEpoch}
	delete(p.open, m.ID.Producer)
	delete(p.guards, m.ID.Producer)
	for _, x := range open {
		if before, ended := x.outcome[tp]; ended && before != m.Commit {
			h.fail("%v has markers of both outcomes for transaction %d", tp, x.n)
		}
		x.outcome[tp] = m.Commit
		h.agree(x)
	}
	return true
}
