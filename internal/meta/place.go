package meta

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// place chooses the replicas of new partitions, by the rules of Kafka's striped placement. Racks take turns to have the first replica,
// and a partition's others go to the racks behind it, so that a rack has a second one only when all have one. Within a rack the
// brokers take turns too. The first replica is in service; fenced brokers come after those of their rack that are. When each broker in
// service has led once, racks and brokers are shuffled, so that other brokers follow it from then on.
func place(im *Image, partitions, factor int, random *rand.Rand) ([][]kafka.NodeID, error) {
	p := newPlacer(im, random)
	switch {
	case p.living == 0:
		return nil, kafka.Refuse(kafka.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): no broker that takes replicas is in service", factor)
	case p.all < factor:
		return nil, kafka.Refuse(kafka.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): each replica needs a broker of its own that takes replicas, and there are %d", factor, p.all)
	}
	rows := make([][]kafka.NodeID, partitions)
	for i := range rows {
		rows[i] = p.next(factor)
	}
	return rows, nil
}

// placer goes round the brokers that take new replicas.
type placer struct {
	random      *rand.Rand
	racks       []*rack
	all, living int // brokers, and those in service
	turn        int // of the rack that comes first next
	round       int // partitions so far
}

// rack is the brokers of one rack; those that tell of none are one too.
type rack struct{ living, fenced ring }

// ring is brokers that take turns: with each partition another one is first.
type ring struct {
	ids   []kafka.NodeID
	first int
	round int // for which partition
	taken int // how many it has by now
}

func newPlacer(im *Image, random *rand.Rand) *placer {
	p := &placer{random: random}
	named := map[string]*rack{}
	var unnamed *rack
	for _, b := range im.Brokers() {
		if b.InControlledShutdown || b.allCordoned() {
			continue
		}
		at := unnamed
		if b.Rack != nil {
			at = named[*b.Rack]
		}
		if at == nil {
			at = &rack{}
			if b.Rack == nil {
				unnamed = at
			} else {
				named[*b.Rack] = at
			}
		}
		p.all++
		if b.Fenced {
			at.fenced.ids = append(at.fenced.ids, b.ID)
			continue
		}
		p.living++
		at.living.ids = append(at.living.ids, b.ID)
	}
	if unnamed != nil {
		p.racks = append(p.racks, unnamed)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		p.racks = append(p.racks, named[name])
	}
	for _, r := range p.racks {
		for _, brokers := range []*ring{&r.living, &r.fenced} {
			if n := len(brokers.ids); n > 0 {
				brokers.first = random.IntN(n)
			}
		}
	}
	if n := len(p.racks); n > 0 {
		p.turn = random.IntN(n)
	}
	return p
}

func (b *Broker) allCordoned() bool {
	return len(b.LogDirs) > 0 && len(b.CordonedDirs) >= len(b.LogDirs)
}

// next returns the replicas of the next partition.
func (p *placer) next(factor int) []kafka.NodeID {
	if p.round > 0 && p.round%p.living == 0 && p.living > 1 {
		p.shuffle()
	}
	n := len(p.racks)
	first := p.turn % n
	id, ok := p.racks[first].living.next(p.round)
	for !ok {
		first = (first + 1) % n
		id, ok = p.racks[first].living.next(p.round)
	}
	replicas := []kafka.NodeID{id}
	had := false // the rack of the first replica has been passed over once
	for at := p.turn % n; len(replicas) < factor; at = (at + 1) % n {
		if at == first && !had {
			had = true
			continue
		}
		if id, ok := p.racks[at].next(p.round); ok {
			replicas = append(replicas, id)
		}
	}
	p.round++
	p.turn = p.turn%n + 1
	return replicas
}

func (p *placer) shuffle() {
	p.random.Shuffle(len(p.racks), func(i, j int) { p.racks[i], p.racks[j] = p.racks[j], p.racks[i] })
	for _, r := range p.racks {
		for _, ids := range [][]kafka.NodeID{r.living.ids, r.fenced.ids} {
			p.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
	}
}

// next returns a broker that the partition is not on yet, one in service rather than a fenced one.
func (r *rack) next(round int) (kafka.NodeID, bool) {
	if id, ok := r.living.next(round); ok {
		return id, true
	}
	return r.fenced.next(round)
}

func (r *ring) next(round int) (kafka.NodeID, bool) {
	n := len(r.ids)
	if n == 0 {
		return kafka.NoNode, false
	}
	if r.round != round {
		r.round, r.taken, r.first = round, 0, (r.first+1)%n
	}
	if r.taken == n {
		return kafka.NoNode, false
	}
	r.taken++
	return r.ids[(r.first+r.taken-1)%n], true
}
