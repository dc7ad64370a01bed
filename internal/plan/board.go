package plan

import (
	"cmp"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// board is a cluster on which moves are tried. What brokers have is kept up with each change of a row.
type board struct {
	brokers []standing // by id
	rows    []*row     // by topic and number
}

// standing is a broker, and what it has by the rows.
type standing struct {
	Broker
	Load   Load
	topics map[string]int // replicas of each topic
	leads  map[string]int // partitions of each topic whose first replica it has
	index  int            // in board.brokers
}

// row is a partition, and where its replicas are to be.
type row struct {
	*Partition
	to []kafka.NodeID
}

// newBoard sorts what it is given. A partition without replicas is none.
func newBoard(c *Cluster) *board {
	b := &board{}
	for _, broker := range c.Brokers {
		b.brokers = append(b.brokers, standing{Broker: broker, Load: Load{ID: broker.ID}, topics: map[string]int{}, leads: map[string]int{}})
	}
	slices.SortFunc(b.brokers, func(x, y standing) int { return cmp.Compare(x.ID, y.ID) })
	for i := range b.brokers {
		b.brokers[i].index = i
	}
	for i := range c.Partitions {
		if p := &c.Partitions[i]; len(p.Replicas) > 0 {
			r := &row{p, p.Replicas}
			b.rows = append(b.rows, r)
			b.count(r, 1)
		}
	}
	slices.SortFunc(b.rows, func(x, y *row) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Number, y.Number))
	})
	return b
}

// of returns a broker, nil for one that is not registered.
func (b *board) of(id kafka.NodeID) *standing {
	i, found := slices.BinarySearchFunc(b.brokers, id, func(s standing, id kafka.NodeID) int { return cmp.Compare(s.ID, id) })
	if !found {
		return nil
	}
	return &b.brokers[i]
}

// retire has a broker lead nothing more.
func (b *board) retire(id kafka.NodeID) {
	if s := b.of(id); s != nil {
		s.Down = true
	}
}

// set gives a partition other replicas.
func (b *board) set(r *row, to []kafka.NodeID) {
	b.count(r, -1)
	r.to = to
	b.count(r, 1)
}

func (b *board) count(r *row, by int) {
	for i, id := range r.to {
		s := b.of(id)
		if s == nil {
			continue
		}
		s.Load.Replicas += by
		s.Load.Bytes += int64(by) * r.Bytes
		s.topics[r.Topic] += by
		if i == 0 {
			s.Load.Leads += by
			s.leads[r.Topic] += by
		}
	}
}

// canLead tells whether a replica can be the leader when all that is planned is done: one that is there already must be in sync.
func (b *board) canLead(r *row, id kafka.NodeID) bool {
	s := b.of(id)
	return s != nil && !s.Down && (slices.Contains(r.ISR, id) || !slices.Contains(r.Replicas, id))
}

// largestFirst returns the rows by size: what is large is given a place while there is most room to choose.
func (b *board) largestFirst() []*row {
	rows := slices.Clone(b.rows)
	slices.SortStableFunc(rows, func(x, y *row) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return rows
}

// moves returns what has changed, in the order of topics and numbers.
func (b *board) moves() (moves []Move) {
	for _, r := range b.rows {
		if !slices.Equal(r.to, r.Replicas) {
			moves = append(moves, r.move())
		}
	}
	return moves
}

func (r *row) move() Move {
	m := Move{Topic: r.Topic, Number: r.Number, From: r.Replicas, To: r.to}
	m.Bytes = int64(len(m.Adding())) * r.Bytes
	return m
}

func byPartition(x, y Move) int {
	return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Number, y.Number))
}
