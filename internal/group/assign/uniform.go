package assign

import (
	"cmp"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Uniform gives all members as many partitions as the others, or one more, as far as what they read allows, and moves as few as
// it can from where they were.
func Uniform(g Group) []Assignment {
	if len(g.Members) == 0 {
		return nil
	}
	if g.Alike {
		return g.uniformAlike()
	}
	return g.uniformUnlike()
}

// slot is one partition of the topic with that index.
type slot struct {
	topic     int
	partition int32
}

// share is how many partitions a member may still take.
type share struct {
	member int
	left   int
}

// uniformAlike is Uniform where all members read the same. Everyone keeps what it had up to its share and gives back the rest;
// what is free then goes to those below their share, in order.
func (g *Group) uniformAlike() []Assignment {
	topics := g.Members[0].Topics
	if len(topics) == 0 {
		return make([]Assignment, len(g.Members))
	}
	o := g.noOwners(topics)
	total := 0
	for i := range o.of {
		total += len(o.of[i])
	}
	free := g.unowned(o)
	back, below := g.keepShares(o, total)
	free = append(free, back...)
	for _, s := range below {
		n := min(s.left, len(free))
		for _, f := range free[:n] {
			o.of[f.topic][f.partition] = int32(s.member)
		}
		free = free[n:]
	}
	return o.assignments(len(g.Members))
}

// unowned lists the partitions that no member had.
func (g *Group) unowned(o *owners) []slot {
	owned := make([][]bool, len(o.of))
	for i := range o.of {
		owned[i] = make([]bool, len(o.of[i]))
	}
	for i := range g.Members {
		for _, t := range g.Members[i].Owned {
			if at, ok := o.index[t.ID]; ok {
				for _, p := range t.Partitions {
					if int(p) < len(owned[at]) {
						owned[at][p] = true
					}
				}
			}
		}
	}
	var free []slot
	for topic := range owned {
		for p, taken := range owned[topic] {
			if !taken {
				free = append(free, slot{topic, int32(p)})
			}
		}
	}
	return free
}

// keepShares lets each member keep what it had, up to its share. It returns what they give back, and who is below its share. The
// shares that are larger by one go to those who have that much already, then to the last that are left.
func (g *Group) keepShares(o *owners, total int) (back []slot, below []share) {
	least, larger := total/len(g.Members), total%len(g.Members)
	for i := range g.Members {
		left := least
		mayHaveMore := larger > 0
		if mayHaveMore {
			left++
		}
		for _, t := range g.Members[i].Owned {
			topic, reads := o.index[t.ID]
			if !reads {
				continue
			}
			for _, p := range t.Partitions {
				switch {
				case !o.free(topic, p):
				case left > 0:
					o.of[topic][p] = int32(i)
					left--
				default:
					back = append(back, slot{topic, p})
				}
			}
		}
		if left > 0 && mayHaveMore && len(g.Members)-i > larger {
			left--
			mayHaveMore = false
		}
		if left > 0 {
			below = append(below, share{member: i, left: left})
		}
		if mayHaveMore {
			larger--
		}
	}
	return back, below
}

// balanceRoundsMax ends the rounds of moves between members that read different topics: each about halves what is left to even
// out.
const balanceRoundsMax = 16

// unlike is a group whose members read different topics.
type unlike struct {
	*owners
	readers [][]int32 // by topic: members, ascending
	sizes   []int     // by member: how many partitions it has
}

// uniformUnlike is Uniform where members read different topics. Everyone keeps what it had and still reads; what is free goes to
// whoever of its topic's readers has least; then partitions move from those who have most to those who have least, topic by
// topic, until nothing changes.
func (g *Group) uniformUnlike() []Assignment {
	reads := map[kafka.TopicID][]int32{}
	for i := range g.Members {
		for _, id := range g.Members[i].Topics {
			reads[id] = append(reads[id], int32(i))
		}
	}
	u := &unlike{owners: g.noOwners(slices.SortedFunc(maps.Keys(reads), CompareIDs)), sizes: make([]int, len(g.Members))}
	for _, id := range u.topics {
		u.readers = append(u.readers, reads[id])
	}
	u.keep(g)
	order := u.hardestFirst()
	s := spread{sizes: u.sizes}
	for _, topic := range order {
		u.handOut(topic, &s)
	}
	u.balance(order, &s)
	return u.assignments(len(g.Members))
}

func (u *unlike) keep(g *Group) {
	for i := range g.Members {
		for _, t := range g.Members[i].Owned {
			topic, known := u.index[t.ID]
			if !known || !g.Members[i].reads(t.ID) {
				continue
			}
			for _, p := range t.Partitions {
				if u.free(topic, p) {
					u.give(topic, p, int32(i))
				}
			}
		}
	}
}

func (u *unlike) give(topic int, partition, member int32) {
	if before := u.of[topic][partition]; before != noOwner {
		u.sizes[before]--
	}
	u.of[topic][partition] = member
	u.sizes[member]++
}

// hardestFirst orders topics by partitions for each reader, the most first; then those with fewer readers.
func (u *unlike) hardestFirst() []int {
	order := make([]int, len(u.topics))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := len(u.readers[a]), len(u.readers[b])
		return cmp.Or(
			cmp.Compare(float64(len(u.of[b]))/float64(y), float64(len(u.of[a]))/float64(x)),
			cmp.Compare(x, y),
			CompareIDs(u.topics[a], u.topics[b]),
		)
	})
	return order
}

// handOut gives what nobody has of a topic to its readers.
func (u *unlike) handOut(topic int, s *spread) {
	s.begin(u.readers[topic])
	for p, owner := range u.of[topic] {
		if owner == noOwner {
			u.give(topic, int32(p), s.nextLeast())
		}
	}
}

// balance moves partitions until a whole round over the topics has moved none.
func (u *unlike) balance(order []int, s *spread) {
	shared := slices.DeleteFunc(slices.Clone(order), func(topic int) bool { return len(u.readers[topic]) < 2 })
	last := noOwner // the last topic of which anything was moved
	for range balanceRoundsMax {
		for i, topic := range shared {
			if i == last {
				return
			}
			if u.balanceTopic(topic, s) || last == noOwner {
				last = i
			}
		}
	}
}

// balanceTopic moves partitions of one topic from its readers who have most to those who have least, as long as these differ by
// more than one. It tells whether any was moved.
func (u *unlike) balanceTopic(topic int, s *spread) (moved bool) {
	if s.begin(u.readers[topic]) <= 1 {
		return false
	}
	has := map[int32][]int32{} // by member: its partitions of the topic, ascending
	for p, owner := range u.of[topic] {
		has[owner] = append(has[owner], int32(p))
	}
	for !s.even() {
		most, ok := s.nextMost()
		for ok && len(has[most]) == 0 {
			s.passOver()
			most, ok = s.nextMost()
		}
		if !ok {
			return moved
		}
		mine := has[most]
		p := mine[len(mine)-1]
		has[most] = mine[:len(mine)-1]
		least := s.nextLeast()
		if s.even() {
			return moved
		}
		u.give(topic, p, least)
		moved = true
	}
	return moved
}
