package plan

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// evenLeaders lets other replicas be first, of the rows that may change, until no broker leads two partitions more than one that could take
// one of them, be it over others: a broker that leads too much hands one to the next, which hands another one on, and so forth. Each
// row that changes means an election, so the shortest way is taken.
func (b *board) evenLeaders(rows []*row) {
	for b.handOn(rows) {
	}
}

// handOn takes one leadership away from a broker that leads more than others.
func (b *board) handOn(rows []*row) bool {
	led := make([][]*row, len(b.brokers)) // by each broker
	for _, r := range rows {
		if s := b.of(r.to[0]); s != nil {
			led[s.index] = append(led[s.index], r)
		}
	}
	from := make([]int, len(b.brokers))
	for i := range from {
		from[i] = i
	}
	slices.SortStableFunc(from, func(x, y int) int { return b.brokers[y].Load.Leads - b.brokers[x].Load.Leads })
	for _, i := range from {
		if path := b.shortestWay(i, led); path != nil {
			for _, step := range path {
				b.lead(step.row, step.to)
			}
			return true
		}
	}
	return false
}

// handover is that another replica of a row leads it.
type handover struct {
	row *row
	to  kafka.NodeID
}

// lead puts a replica first.
func (b *board) lead(r *row, id kafka.NodeID) { b.set(r, led(r.to, id)) }

// shortestWay looks for the nearest broker that leads at least two partitions less, by breadth.
func (b *board) shortestWay(from int, led [][]*row) []handover {
	reached := make([]*handover, len(b.brokers)) // how a broker was come to
	before := make([]int, len(b.brokers))
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, r := range led[at] {
			for _, id := range r.to[1:] {
				next := b.of(id)
				if next == nil || next.index == from || reached[next.index] != nil || !b.canLead(r, id) {
					continue
				}
				reached[next.index], before[next.index] = &handover{r, id}, at
				if next.Load.Leads <= b.brokers[from].Load.Leads-2 {
					return wayTo(next.index, from, reached, before)
				}
				queue = append(queue, next.index)
			}
		}
	}
	return nil
}

func wayTo(to, from int, reached []*handover, before []int) (path []handover) {
	for at := to; at != from; at = before[at] {
		path = append(path, *reached[at])
	}
	return path
}
