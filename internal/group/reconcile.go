package group

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/group/assign"
	"github.com/raftsman/raftsman/internal/kafka"
)

// held is partitions that a member has: by topic in the order of [assign.CompareIDs], each once. It is not changed once made.
type held []heldTopic

// heldTopic is partitions of one topic, ascending, at least one, each with the epoch at which the member got it.
type heldTopic struct {
	id         kafka.TopicID
	partitions []int32
	epochs     []int32
}

func (h held) topic(id kafka.TopicID) (heldTopic, bool) {
	i, ok := slices.BinarySearchFunc(h, id, func(t heldTopic, id kafka.TopicID) int { return assign.CompareIDs(t.id, id) })
	if !ok {
		return heldTopic{}, false
	}
	return h[i], true
}

// since is the epoch at which the member got the partition.
func (h held) since(id kafka.TopicID, partition int32) (int32, bool) {
	t, _ := h.topic(id)
	i, ok := slices.BinarySearch(t.partitions, partition)
	if !ok {
		return 0, false
	}
	return t.epochs[i], true
}

func (h held) has(id kafka.TopicID, partition int32) bool {
	_, ok := h.since(id, partition)
	return ok
}

func (h held) equal(o held) bool {
	return slices.EqualFunc(h, o, func(a, b heldTopic) bool {
		return a.id == b.id && slices.Equal(a.partitions, b.partitions) && slices.Equal(a.epochs, b.epochs)
	})
}

// add appends a partition: topics and partitions come in order.
func (h *held) add(id kafka.TopicID, partition, epoch int32) {
	if n := len(*h); n == 0 || (*h)[n-1].id != id {
		*h = append(*h, heldTopic{id: id})
	}
	last := &(*h)[len(*h)-1]
	last.partitions, last.epochs = append(last.partitions, partition), append(last.epochs, epoch)
}

// union is what either has; what both have, with the epoch of the second.
func (h held) union(o held) held {
	switch {
	case len(h) == 0:
		return o
	case len(o) == 0:
		return h
	}
	all := map[kafka.TopicID]map[int32]int32{}
	for _, each := range [...]held{h, o} {
		for _, t := range each {
			if all[t.id] == nil {
				all[t.id] = map[int32]int32{}
			}
			for i, p := range t.partitions {
				all[t.id][p] = t.epochs[i]
			}
		}
	}
	return heldFrom(all)
}

func heldFrom(epochs map[kafka.TopicID]map[int32]int32) held {
	var h held
	for _, id := range slices.SortedFunc(maps.Keys(epochs), assign.CompareIDs) {
		for _, p := range slices.Sorted(maps.Keys(epochs[id])) {
			h.add(id, p, epochs[id][p])
		}
	}
	return h
}

// at returns the same partitions as had from another epoch on.
func (h held) at(epoch int32) held {
	var all held
	for _, t := range h {
		for _, p := range t.partitions {
			all.add(t.id, p, epoch)
		}
	}
	return all
}

func (h held) assignment() assign.Assignment {
	a := make(assign.Assignment, len(h))
	for i, t := range h {
		a[i] = assign.Topic{ID: t.id, Partitions: t.partitions}
	}
	return a
}

// reconciliation leads one member to its target, a step at a time: it gives back what it is not to have, then it comes to the
// target's epoch and gets what nobody else has; the rest as the others give it back.
type reconciliation struct {
	member      *memberPlace
	targetEpoch int32
	target      assign.Assignment
	reads       func(kafka.TopicID) bool             // it reads the topic, by what it says now
	owned       func(id kafka.TopicID, p int32) bool // somebody has the partition
	has         assign.Assignment                    // what the client says that it has
	hasKnown    bool                                 // it says so
	changed     bool                                 // what it reads has just changed
}

// next is where the member stands after a step, or where it stood when it cannot go on.
func (r *reconciliation) next() memberPlace {
	switch m := r.member; {
	case m.state == memberUnrevoked && r.stillHas(m.revoking), m.state == memberStable && m.epoch == r.targetEpoch:
		if r.changed {
			return r.dropUnread()
		}
		return *m
	}
	return r.step()
}

// stillHas tells whether the client may still work on one of the partitions: it has said so, or nothing.
func (r *reconciliation) stillHas(revoking held) bool {
	if !r.hasKnown {
		return true
	}
	for _, t := range r.has {
		for _, p := range t.Partitions {
			if revoking.has(t.ID, p) {
				return true
			}
		}
	}
	return false
}

// dropUnread takes away topics that the member reads no more, before there is a new target.
func (r *reconciliation) dropUnread() memberPlace {
	place := *r.member
	var keep, drop held
	for _, t := range place.assigned {
		if r.reads(t.id) {
			keep = append(keep, t)
		} else {
			drop = append(drop, t)
		}
	}
	if len(drop) == 0 {
		return place
	}
	place.previous, place.assigned = place.epoch, keep
	if revoking := r.member.revoking.union(drop); r.stillHas(revoking) {
		place.state, place.revoking = memberUnrevoked, revoking
	}
	return place
}

// step computes what the member keeps, has to give back and may get.
func (r *reconciliation) step() memberPlace {
	var keep, drop held
	for _, t := range r.member.assigned {
		for i, p := range t.partitions {
			if r.reads(t.id) && r.target.Has(t.id, p) {
				keep.add(t.id, p, t.epochs[i])
			} else {
				drop.add(t.id, p, t.epochs[i])
			}
		}
	}
	if len(drop) > 0 && r.stillHas(drop) {
		return memberPlace{
			epoch: r.member.epoch, previous: r.member.epoch, state: memberUnrevoked, assigned: keep, revoking: drop,
		}
	}
	var get held
	state := memberStable
	for _, t := range r.target {
		if !r.reads(t.ID) {
			continue
		}
		for _, p := range t.Partitions {
			switch {
			case keep.has(t.ID, p):
			case r.owned(t.ID, p) && !r.member.revoking.has(t.ID, p):
				state = memberUnreleased
			default:
				get.add(t.ID, p, r.targetEpoch)
			}
		}
	}
	return memberPlace{epoch: r.targetEpoch, previous: r.member.epoch, state: state, assigned: keep.union(get)}
}
