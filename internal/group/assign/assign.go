// Package assign decides which member of a consumer group reads which partition. It holds the two assignors that Kafka's broker
// has, uniform and range, and agrees with them to the partition: given the same group, in the same order, they choose the same.
//
// Racks play no part: the assignors of Kafka 4.4 are told them and do not look at them.
package assign

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Topic is partitions of one topic: none below 0, ascending, each once, at least one.
type Topic struct {
	ID         kafka.TopicID
	Partitions []int32
}

// Assignment is what one member has: by topic in the order of [CompareIDs], each once. It is not changed once made.
type Assignment []Topic

// Partitions returns the member's partitions of a topic.
func (a Assignment) Partitions(id kafka.TopicID) []int32 {
	i, ok := slices.BinarySearchFunc(a, id, func(t Topic, id kafka.TopicID) int { return CompareIDs(t.ID, id) })
	if !ok {
		return nil
	}
	return a[i].Partitions
}

// Has tells whether the member has the partition.
func (a Assignment) Has(id kafka.TopicID, partition int32) bool {
	_, ok := slices.BinarySearch(a.Partitions(id), partition)
	return ok
}

// Equal tells whether two members have the same.
func (a Assignment) Equal(b Assignment) bool {
	return slices.EqualFunc(a, b, func(x, y Topic) bool { return x.ID == y.ID && slices.Equal(x.Partitions, y.Partitions) })
}

// Count returns how many partitions the member has.
func (a Assignment) Count() int {
	n := 0
	for _, t := range a {
		n += len(t.Partitions)
	}
	return n
}

// CompareIDs orders topic ids as Kafka does: as two signed numbers of 64 bits.
func CompareIDs(a, b kafka.TopicID) int {
	for _, half := range [...]int{0, 8} {
		x, y := a[half:half+8], b[half:half+8]
		if order := cmp.Or(cmp.Compare(int8(x[0]), int8(y[0])), bytes.Compare(x[1:], y[1:])); order != 0 {
			return order
		}
	}
	return 0
}

// Member is a member that wants partitions.
type Member struct {
	ID         string
	InstanceID *string
	Topics     []kafka.TopicID // that it reads and that exist: ascending, each once
	Owned      Assignment      // what it was to have before
}

func (m *Member) reads(id kafka.TopicID) bool {
	_, ok := slices.BinarySearchFunc(m.Topics, id, CompareIDs)
	return ok
}

// Group is who wants partitions, and of what.
type Group struct {
	Members []Member // by id
	// Alike: all members read the same topics.
	Alike      bool
	Partitions func(kafka.TopicID) int32 // how many a topic has
}

// Assignor is a way to assign partitions: it returns one Assignment for each member, in their order.
type Assignor func(Group) []Assignment

// Names of the assignors.
const (
	UniformName = "uniform"
	RangeName   = "range"
)

// ByName returns the assignor of that name.
func ByName(name string) (Assignor, bool) {
	switch name {
	case UniformName:
		return Uniform, true
	case RangeName:
		return Range, true
	}
	return nil, false
}

// noOwner stands for a partition that nobody has yet.
const noOwner = -1

// owners is who gets each partition of each topic: members by their index.
type owners struct {
	topics []kafka.TopicID // ascending
	index  map[kafka.TopicID]int
	of     [][]int32 // by topic and partition
}

func (g *Group) noOwners(topics []kafka.TopicID) *owners {
	o := &owners{topics: topics, index: make(map[kafka.TopicID]int, len(topics)), of: make([][]int32, len(topics))}
	for i, id := range topics {
		o.index[id] = i
		o.of[i] = make([]int32, g.Partitions(id))
		for p := range o.of[i] {
			o.of[i][p] = noOwner
		}
	}
	return o
}

// free tells whether the partition exists and nobody has it.
func (o *owners) free(topic int, partition int32) bool {
	return int(partition) < len(o.of[topic]) && o.of[topic][partition] == noOwner
}

// assignments turns it round: what each of the members gets.
func (o *owners) assignments(members int) []Assignment {
	all := make([]Assignment, members)
	for i, id := range o.topics {
		for p, owner := range o.of[i] {
			if owner == noOwner {
				continue
			}
			a := all[owner]
			if n := len(a); n == 0 || a[n-1].ID != id {
				a = append(a, Topic{ID: id})
			}
			last := &a[len(a)-1]
			last.Partitions = append(last.Partitions, int32(p))
			all[owner] = a
		}
	}
	return all
}
