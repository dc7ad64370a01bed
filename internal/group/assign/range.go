package assign

import (
	"cmp"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Range gives each member a run of neighbouring partitions of every topic that it reads. Members that read the same topics get
// the same numbers of each, so that what belongs together under one key comes to one member. It does not look at what members
// had before: static members come first, by instance id, and get the same again as long as none comes or goes.
func Range(g Group) []Assignment {
	readers := map[kafka.TopicID]int32{}
	for i := range g.Members {
		for _, id := range g.Members[i].Topics {
			readers[id]++
		}
	}
	all := make([]Assignment, len(g.Members))
	begun := make(map[kafka.TopicID]run, len(readers))
	for _, i := range g.inRangeOrder() {
		for _, id := range g.Members[i].Topics {
			r, ok := begun[id]
			if !ok {
				r = run{each: g.Partitions(id) / readers[id], extra: g.Partitions(id) % readers[id]}
			}
			if partitions := r.next(); len(partitions) > 0 {
				all[i] = append(all[i], Topic{ID: id, Partitions: partitions})
			}
			begun[id] = r
		}
	}
	return all
}

// run cuts the partitions of a topic into pieces: the first ones are longer by one, until there is nothing left over.
type run struct{ from, each, extra int32 }

func (r *run) next() []int32 {
	n := r.each
	if r.extra > 0 {
		n++
		r.extra--
	}
	partitions := make([]int32, n)
	for i := range partitions {
		partitions[i] = r.from + int32(i)
	}
	r.from += n
	return partitions
}

// inRangeOrder lists the members by their index: static ones by instance id, then the others by member id.
func (g *Group) inRangeOrder() []int {
	order := make([]int, len(g.Members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &g.Members[i], &g.Members[j]
		switch {
		case a.InstanceID != nil && b.InstanceID != nil:
			return cmp.Compare(*a.InstanceID, *b.InstanceID)
		case a.InstanceID != nil:
			return -1
		case b.InstanceID != nil:
			return 1
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return order
}
