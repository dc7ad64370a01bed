package plan

import (
	"cmp"
	"slices"
)

// Goal is how even a cluster is to be.
type Goal struct {
	Movable     func(*Partition) bool // nil: all
	LeadersOnly bool                  // nothing is copied
	Slack       float64               // share of the mean by which the fullest broker and the emptiest may differ, in bytes and in replicas
}

// Rebalance returns the moves after which brokers in service are alike: no two replicas of a partition are in a rack while another has
// none, bytes and replicas are even as far as the slack goes, and all lead alike.
func Rebalance(c *Cluster, g Goal) []Move {
	b := newBoard(c)
	var rows []*row
	for _, r := range b.rows {
		if g.Movable == nil || g.Movable(r.Partition) {
			rows = append(rows, r)
		}
	}
	if !g.LeadersOnly {
		b.spreadRacks(rows)
		for again := true; again; { // replicas that have changed places may have made room for the last of the bytes
			for b.shift(rows, b.bytes(g.Slack)) {
			}
			again = false
			for b.shift(rows, b.replicas(g.Slack)) {
				again = true
			}
		}
	}
	b.evenLeaders(rows)
	return b.moves()
}

// spreadRacks moves replicas out of racks that have two more than another one that could have it.
func (b *board) spreadRacks(rows []*row) {
	for _, r := range rows {
		for b.leaveRack(r) {
		}
	}
}

func (b *board) leaveRack(r *row) bool {
	to := b.choose(r, func(*standing) bool { return true })
	if to == nil {
		return false
	}
	var from *standing
	for _, id := range r.to {
		if s := b.of(id); s != nil && b.sharing(r.to, s) > b.sharing(r.to, to) && (from == nil || b.sharing(r.to, s) > b.sharing(r.to, from) ||
			b.sharing(r.to, s) == b.sharing(r.to, from) && s.Load.Bytes > from.Load.Bytes) {
			from = s
		}
	}
	if from == nil {
		return false
	}
	b.replace(r, from, to)
	return true
}

// replace moves one replica, which keeps its place in the order.
func (b *board) replace(r *row, from, to *standing) {
	next := slices.Clone(r.to)
	next[slices.Index(next, from.ID)] = to.ID
	b.set(r, next)
}

// measure is what is to be even.
type measure struct {
	of    func(*standing) int64
	slack int64 // two brokers that differ by no more are alike
	worth func(r *row, from, to *standing) bool
	rank  func(x, y *row, gap int64) int // the row that moves comes first
}

// bytes is the size of what brokers have. The largest replica that does not exchange their parts goes: few are moved, and none that
// will have to come back.
func (b *board) bytes(slack float64) measure {
	of := func(s *standing) int64 { return s.Load.Bytes }
	return measure{
		of: of, slack: b.share(slack, of),
		worth: func(r *row, from, to *standing) bool { return r.Bytes > 0 && r.Bytes < from.Load.Bytes-to.Load.Bytes },
		rank: func(x, y *row, gap int64) int {
			fits := func(r *row) bool { return r.Bytes <= gap/2 }
			if fits(x) && fits(y) {
				return cmp.Compare(y.Bytes, x.Bytes)
			}
			return cmp.Or(first(fits(x), fits(y)), cmp.Compare(x.Bytes, y.Bytes))
		},
	}
}

// replicas is how many there are. The smallest go, and none whose size makes bytes less even than they are and may be: so that it is never
// for bytes to move them back.
func (b *board) replicas(slack float64) measure {
	of := func(s *standing) int64 { return int64(s.Load.Replicas) }
	even := b.share(slack, func(s *standing) int64 { return s.Load.Bytes })
	return measure{
		of: of, slack: max(1, b.share(slack, of)),
		worth: func(r *row, from, to *standing) bool {
			least, most := b.extremes()
			return r.Bytes <= from.Load.Bytes-to.Load.Bytes || max(most, to.Load.Bytes+r.Bytes)-min(least, from.Load.Bytes-r.Bytes) <= even
		},
		rank: func(x, y *row, _ int64) int { return cmp.Compare(x.Bytes, y.Bytes) },
	}
}

// share is a part of what an open broker has in the mean.
func (b *board) share(part float64, of func(*standing) int64) int64 {
	sum, n := int64(0), int64(0)
	for i := range b.brokers {
		if s := &b.brokers[i]; s.open() {
			sum, n = sum+of(s), n+1
		}
	}
	if n == 0 {
		return 0
	}
	return int64(part * float64(sum) / float64(n))
}

// extremes returns the bytes of the open brokers that have least and most.
func (b *board) extremes() (least, most int64) {
	least = -1
	for i := range b.brokers {
		if s := &b.brokers[i]; s.open() {
			most = max(most, s.Load.Bytes)
			if least < 0 || s.Load.Bytes < least {
				least = s.Load.Bytes
			}
		}
	}
	return least, most
}

// shift moves one replica from a broker that has much to one that has little. Those that differ most are tried first.
func (b *board) shift(rows []*row, m measure) bool {
	givers, takers := b.inService(), b.inService()
	slices.SortStableFunc(givers, func(x, y *standing) int { return cmp.Compare(m.of(y), m.of(x)) })
	slices.SortStableFunc(takers, func(x, y *standing) int { return cmp.Compare(m.of(x), m.of(y)) })
	for _, from := range givers {
		for _, to := range takers {
			gap := m.of(from) - m.of(to)
			if gap <= m.slack {
				break
			}
			if !to.open() {
				continue
			}
			if r := b.rowFor(rows, from, to, m, gap); r != nil {
				b.replace(r, from, to)
				return true
			}
		}
	}
	return false
}

func (b *board) inService() (in []*standing) {
	for i := range b.brokers {
		if s := &b.brokers[i]; !s.Down {
			in = append(in, s)
		}
	}
	return in
}

// rowFor returns the row whose replica goes from one broker to another, nil for none: no rack is to have more of it than before.
func (b *board) rowFor(rows []*row, from, to *standing, m measure, gap int64) *row {
	var best *row
	for _, r := range rows {
		if !slices.Contains(r.to, from.ID) || slices.Contains(r.to, to.ID) || !m.worth(r, from, to) || b.sharing(without(r.to, from.ID), to) > b.sharing(r.to, from) {
			continue
		}
		if best == nil || cmp.Or(m.rank(r, best, gap), b.concentration(best, from, to)-b.concentration(r, from, to)) < 0 {
			best = r
		}
	}
	return best
}

// concentration is how many more replicas of the row's topic one broker has than another.
func (b *board) concentration(r *row, from, to *standing) int {
	return from.topics[r.Topic] - to.topics[r.Topic]
}
