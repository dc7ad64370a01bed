package assign

import (
	"cmp"
	"slices"
)

// spread finds, among some members, who has fewest and who has most partitions, while partitions are given to the one and taken
// from the other. Both ends of the sorted list are levels: all members of a level had the same number when it was reached. A
// level is gone through once, then the next member or members are on it too.
type spread struct {
	sizes   []int // by member; the owner's, and changed by it
	members []int32

	low, lowCount, lowEnd      int // the next of members[:lowEnd]; what these had
	high, highCount, highStart int // the next of members[highStart:highEnd], downwards; what these had
	highEnd                    int
}

func (s *spread) size(i int) int { return s.sizes[s.members[i]] }

// begin starts with these members, at least one, and returns by how much they differ.
func (s *spread) begin(members []int32) int {
	s.members = append(s.members[:0], members...)
	slices.SortFunc(s.members, func(a, b int32) int { return cmp.Or(cmp.Compare(s.sizes[a], s.sizes[b]), cmp.Compare(a, b)) })
	last := len(s.members) - 1
	s.low, s.lowEnd, s.lowCount = 0, 0, s.size(0)-1
	s.high, s.highStart, s.highEnd, s.highCount = last, last+1, last+1, s.size(last)+1
	return s.size(last) - s.size(0)
}

// nextLeast returns who is to get the next partition.
func (s *spread) nextLeast() int32 {
	if s.low >= s.lowEnd {
		s.lowCount++
		for s.lowEnd < len(s.members) && s.size(s.lowEnd) == s.lowCount {
			s.lowEnd++
		}
		s.low = 0
	}
	s.low++
	return s.members[s.low-1]
}

// nextMost returns who is to give the next partition; false when nobody is left who could.
func (s *spread) nextMost() (int32, bool) {
	if s.high < s.highStart {
		s.highCount--
		if s.highEnd <= s.highStart && s.highStart > 0 {
			s.highCount = s.size(s.highStart - 1) // all above have nothing to give
		}
		for s.highStart > 0 && s.size(s.highStart-1) == s.highCount {
			s.highStart--
		}
		s.high = s.highEnd - 1
	}
	if s.high < 0 {
		return 0, false
	}
	s.high--
	return s.members[s.high+1], true
}

// passOver leaves out whom nextMost has returned last: it has nothing to give.
func (s *spread) passOver() {
	s.highEnd--
	s.members[s.high+1], s.members[s.highEnd] = s.members[s.highEnd], s.members[s.high+1]
}

// even tells whether those who have most and least differ by one at most.
func (s *spread) even() bool { return s.highCount-s.lowCount <= 1 }
