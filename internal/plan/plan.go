// Package plan decides which replicas of a cluster go where: when a broker is emptied, when partitions are to be elsewhere, when brokers have
// unlike loads. A plan copies as little as it can, keeps the replicas of a partition in unlike racks, and lets brokers lead alike. It knows
// of a cluster what any client is told.
package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Cluster is what a plan is made from.
type Cluster struct {
	Brokers    []Broker
	Partitions []Partition
}

// Broker is one that is registered.
type Broker struct {
	ID       kafka.NodeID
	Rack     string // those that tell of none are in one rack, ""
	Down     bool   // out of service: it is given nothing, and is not to lead
	Cordoned bool   // it takes no new replicas
}

// open tells whether the broker is given replicas.
func (b *Broker) open() bool { return !b.Down && !b.Cordoned }

// Partition is where the replicas of a partition are, or will be when what is under way is done.
type Partition struct {
	Topic    string
	Number   int32
	Replicas []kafka.NodeID // in order of preference
	ISR      []kafka.NodeID
	Leader   kafka.NodeID
	Bytes    int64 // of one replica; 0 where nobody tells
}

// Move is where the replicas of a partition are to go. From and To are the same where only an election is wanted: of the first of them.
type Move struct {
	Topic    string
	Number   int32
	From, To []kafka.NodeID
	Bytes    int64 // that are copied, for all replicas that are new
}

// Adding returns the brokers that get a replica.
func (m *Move) Adding() []kafka.NodeID {
	return slices.DeleteFunc(slices.Clone(m.To), func(id kafka.NodeID) bool { return slices.Contains(m.From, id) })
}

// Load is what a broker has.
type Load struct {
	ID       kafka.NodeID
	Replicas int
	Leads    int // partitions whose first replica it has
	Bytes    int64
}

// Loads returns what each broker has.
func (c *Cluster) Loads() []Load {
	b := newBoard(c)
	loads := make([]Load, len(b.brokers))
	for i := range b.brokers {
		loads[i] = b.brokers[i].Load
	}
	return loads
}

// After returns the cluster as it is when the moves are done.
func (c *Cluster) After(moves []Move) Cluster {
	b := newBoard(c)
	after := Cluster{Brokers: c.Brokers}
	for _, r := range b.rows {
		p := *r.Partition
		for i := range moves {
			if moves[i].Topic == p.Topic && moves[i].Number == p.Number {
				p.Replicas, p.ISR, p.Leader = moves[i].To, moves[i].To, moves[i].To[0]
			}
		}
		after.Partitions = append(after.Partitions, p)
	}
	return after
}

// ShortError is that a partition can't have the replicas that it is to have.
type ShortError struct {
	Topic        string
	Number       int32
	Wants, Finds int // replicas, and brokers to have them
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%s partition %d wants %d replicas, and finds %d brokers in service that take them", e.Topic, e.Number, e.Wants, e.Finds)
}

// Drain returns the moves after which a broker has no replicas. Each that it has goes to one other broker. A *ShortError tells that there
// are too few.
func Drain(c *Cluster, id kafka.NodeID) ([]Move, error) {
	b := newBoard(c)
	var moved []*row
	for _, r := range b.largestFirst() {
		if !slices.Contains(r.to, id) {
			continue
		}
		if err := b.settle(r, len(r.to), func(s *standing) bool { return s.ID != id }); err != nil {
			return nil, err
		}
		moved = append(moved, r)
	}
	b.evenLeaders(moved)
	return b.moves(), nil
}

// DrainLeaders returns the moves after which a broker leads nothing: it keeps its replicas, and is the last that is to lead. What has no
// other replica that is in sync and in service stays, and is returned by itself.
func DrainLeaders(c *Cluster, id kafka.NodeID) (moves []Move, stay []Partition) {
	b := newBoard(c)
	b.retire(id)
	var moved, elect []*row
	for _, r := range b.rows {
		leads, first := r.Leader == id, r.to[0] == id
		switch {
		case !leads && !first:
		case !slices.ContainsFunc(r.to, func(other kafka.NodeID) bool { return b.canLead(r, other) }):
			stay = append(stay, *r.Partition)
		case first:
			b.set(r, append(slices.Clone(r.to[1:]), id))
			moved = append(moved, r)
		case b.canLead(r, r.to[0]):
			elect = append(elect, r)
		default:
			moved = append(moved, r)
		}
	}
	for _, r := range moved {
		b.set(r, led(r.to, b.leastLeading(r)))
	}
	b.evenLeaders(moved)
	moves = b.moves()
	for _, r := range elect {
		moves = append(moves, r.move())
	}
	slices.SortFunc(moves, byPartition)
	return moves, stay
}

// Wish is where partitions are to be.
type Wish struct {
	Brokers []kafka.NodeID // on these only; nil: anywhere
	Factor  int            // so many replicas; 0: as many as there are
}

// Assign returns the moves after which the partitions that wanted chooses are as the wish says. Replicas stay where they may.
func Assign(c *Cluster, wanted func(*Partition) bool, w Wish) ([]Move, error) {
	b := newBoard(c)
	var moved []*row
	for _, r := range b.largestFirst() {
		if !wanted(r.Partition) {
			continue
		}
		factor := cmp.Or(w.Factor, len(r.to))
		if err := b.settle(r, factor, func(s *standing) bool { return w.Brokers == nil || slices.Contains(w.Brokers, s.ID) }); err != nil {
			return nil, err
		}
		if !slices.Equal(r.to, r.Replicas) {
			moved = append(moved, r)
		}
	}
	b.evenLeaders(moved)
	return b.moves(), nil
}

// settle gives the partition so many replicas on brokers that are allowed: of those that it has as many as may stay, and in their order.
func (b *board) settle(r *row, factor int, allowed func(*standing) bool) error {
	keep := slices.DeleteFunc(slices.Clone(r.to), func(id kafka.NodeID) bool {
		s := b.of(id)
		return s == nil || !allowed(s)
	})
	for len(keep) > factor {
		keep = without(keep, b.mostDispensable(r, keep))
	}
	b.set(r, keep)
	for len(r.to) < factor {
		s := b.choose(r, allowed)
		if s == nil {
			return &ShortError{r.Topic, r.Number, factor, len(r.to)}
		}
		b.set(r, append(slices.Clone(r.to), s.ID))
	}
	if r.to[0] != r.Replicas[0] {
		b.set(r, led(r.to, b.leastLeading(r)))
	}
	return nil
}

// choose returns the broker that gets a further replica, nil if there is none: one in a rack that has the fewest of the partition, with the
// least on it.
func (b *board) choose(r *row, allowed func(*standing) bool) *standing {
	var best *standing
	rank := func(s *standing) int {
		return cmp.Or(cmp.Compare(b.sharing(r.to, s), b.sharing(r.to, best)), cmp.Compare(s.Load.Bytes, best.Load.Bytes),
			cmp.Compare(s.topics[r.Topic], best.topics[r.Topic]), cmp.Compare(s.Load.Replicas, best.Load.Replicas))
	}
	for i := range b.brokers {
		s := &b.brokers[i]
		if s.open() && allowed(s) && !slices.Contains(r.to, s.ID) && (best == nil || rank(s) < 0) {
			best = s
		}
	}
	return best
}

// sharing counts the replicas in a broker's rack, without its own.
func (b *board) sharing(replicas []kafka.NodeID, s *standing) (n int) {
	for _, id := range replicas {
		if other := b.of(id); other != nil && other.ID != s.ID && other.Rack == s.Rack {
			n++
		}
	}
	return n
}

// mostDispensable returns the replica that goes when there are too many: one that is not in sync before one that is, any before the first
// in the order, one whose rack has more, one whose broker has more.
func (b *board) mostDispensable(r *row, keep []kafka.NodeID) kafka.NodeID {
	return slices.MinFunc(keep, func(x, y kafka.NodeID) int {
		sx, sy := b.of(x), b.of(y)
		return cmp.Or(first(!slices.Contains(r.ISR, x), !slices.Contains(r.ISR, y)), first(x != keep[0], y != keep[0]),
			cmp.Compare(b.sharing(keep, sy), b.sharing(keep, sx)), cmp.Compare(sy.Load.Bytes, sx.Load.Bytes), cmp.Compare(sy.Load.Replicas, sx.Load.Replicas))
	})
}

// first orders what is before what is not.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// leastLeading returns the replica whose broker leads least, of those that can lead.
func (b *board) leastLeading(r *row) kafka.NodeID {
	return slices.MinFunc(r.to, func(x, y kafka.NodeID) int {
		return cmp.Or(first(b.canLead(r, x), b.canLead(r, y)), cmp.Compare(b.ledBy(r, x), b.ledBy(r, y)))
	})
}

// ledBy returns how many other partitions a broker leads.
func (b *board) ledBy(r *row, id kafka.NodeID) int {
	n := b.of(id).Load.Leads
	if r.to[0] == id {
		n--
	}
	return n
}

// led returns the replicas with this one first; the others keep their order.
func led(replicas []kafka.NodeID, by kafka.NodeID) []kafka.NodeID {
	return append([]kafka.NodeID{by}, without(replicas, by)...)
}

func without(ids []kafka.NodeID, gone kafka.NodeID) []kafka.NodeID {
	return slices.DeleteFunc(slices.Clone(ids), func(id kafka.NodeID) bool { return id == gone })
}
