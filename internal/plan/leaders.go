package plan

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// evenLeaders lets other replicas be first, of the rows that may change, until no broker leads two partitions more than one that could take
// one of them, be it over others: a broker that leads too much hands one to the next, which hands another one on, and so forth. Each
// row that changes means an election, so the shortest way is taken. Where that is done, they take turns in the same topic too, as far as all
// can go on leading as much as they do: a topic may have most of the traffic.
func (b *board) evenLeaders(rows []*row) {
	for b.handOn(rows) || b.mixTopics(rows) {
	}
}

// mixTopics has one broker hand a partition to another, and mostly get one back, so that both lead less unlike parts of a topic.
func (b *board) mixTopics(rows []*row) bool {
	n := len(b.brokers)
	best := make([]*handover, n*n) // from one broker to another
	for _, r := range rows {
		from := b.of(r.to[0])
		if from == nil {
			continue
		}
		for _, id := range r.to[1:] {
			to := b.of(id)
			if to == nil || !b.canLead(r, id) {
				continue
			}
			if at := &best[from.index*n+to.index]; *at == nil || b.unlike(from, to, r) > b.unlike(from, to, (*at).row) {
				*at = &handover{r, id}
			}
		}
	}
	mixed := false
	for i := range n {
		for j := range n {
			mixed = b.exchange(&b.brokers[i], &b.brokers[j], best[i*n+j], best[j*n+i]) || mixed
		}
	}
	return mixed
}

// exchange hands one partition from one broker to another and the other back, or one alone where the first leads one more, if both lead
// less unlike parts of topics then. What was found before others were exchanged may be no good any more.
func (b *board) exchange(from, to *standing, give, take *handover) bool {
	stands := func(h *handover, by *standing) bool { return h != nil && h.row.to[0] == by.ID }
	switch {
	case !stands(give, from):
		return false
	case from.Load.Leads == to.Load.Leads+1 && b.unlike(from, to, give.row) > 1:
		b.lead(give.row, give.to)
		return true
	case !stands(take, to) || give.row.Topic == take.row.Topic || b.unlike(from, to, give.row)+b.unlike(to, from, take.row) <= 2:
		return false
	}
	b.lead(give.row, give.to)
	b.lead(take.row, take.to)
	return true
}

// unlike is how much more of the row's topic one broker leads than another.
func (b *board) unlike(from, to *standing, r *row) int {
	return from.leads[r.Topic] - to.leads[r.Topic]
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
