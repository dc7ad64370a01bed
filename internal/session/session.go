// Package session keeps fetch sessions (KIP-227): a consumer names its partitions once, then sends and gets only what changed.
// It decides alone: time and random numbers are arguments, and the caller's lock serialises all calls.
package session

import (
	"slices"

	"github.com/raftsman/raftsman/internal/chain"
	"github.com/raftsman/raftsman/internal/kafka"
)

// ID names a session on this broker. None (0) is "no session", in requests and answers alike.
type ID int32

// None is the id of a fetch without a session.
const None ID = 0

// The epochs of a request that have a meaning of their own. A session's requests count 1, 2, 3 …; after the largest comes 1.
const (
	EpochInitial int32 = 0  // a full request that wants a session
	EpochFinal   int32 = -1 // a full request that wants none, and closes the one that it names
)

// nextEpoch is the epoch that the request after this one must carry.
func nextEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return EpochFinal
	case epoch == 1<<31-1:
		return 1
	}
	return epoch + 1
}

// Key names a partition: by topic id from version 13 on, by name before. The other half may be empty.
type Key struct {
	Topic     string
	ID        kafka.TopicID
	Partition int32
}

// same tells whether two keys name the same partition: by id when one is given.
func (k Key) same() Key {
	if !k.ID.IsZero() {
		k.Topic = ""
	}
	return k
}

// Partition is what a fetch wants of one partition.
type Partition struct {
	Key
	CurrentLeaderEpoch kafka.Epoch
	FetchOffset        kafka.Offset
	LastFetchedEpoch   kafka.Epoch
	LogStart           kafka.Offset // of a follower
	MaxBytes           int32

	entry *entry // where the session keeps it
}

// Answer is what decides whether a partition must be in an incremental answer.
type Answer struct {
	Error         kafka.Error
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	Bytes         int  // of records
	Diverging     bool // the answer holds a diverging epoch
	Preferred     bool // the answer names a preferred read replica
}

// Session is what the broker remembers of one consumer's fetches.
type Session struct {
	id      ID
	epoch   int32 // of the request that must come next
	byID    bool  // topic ids are used
	replica bool  // a follower's
	index   map[Key]*entry
	order   chain.List[entry, *entry] // partitions with data move to the end, so that all have their turn

	createdMs, usedMs int64
	size              int // number of partitions when it was last touched
	weight            int // what its partitions count for in the cache's limit
	older, newer      *Session
}

// entry is a partition of a session, with what its consumer was told last.
type entry struct {
	Partition
	nameBytes           int // of the topic's name when it came
	toldHigh, toldStart kafka.Offset
	links               chain.Links[entry]
}

func (e *entry) Links() *chain.Links[entry] { return &e.links }

// Len returns the number of partitions.
func (s *Session) Len() int { return len(s.index) }

func (s *Session) set(p Partition) {
	if e, ok := s.index[p.same()]; ok {
		if p.Topic == "" {
			p.Topic = e.Topic
		}
		e.Partition = p
		return
	}
	e := &entry{Partition: p, nameBytes: len(p.Topic), toldHigh: kafka.NoOffset, toldStart: kafka.NoOffset}
	s.index[p.same()] = e
	s.order.Add(e)
	s.weight += e.weight()
}

// weight is what the partition counts for in the cache's limit. The names are the clients' and may be of topics that are not there.
func (e *entry) weight() int { return 1 + e.nameBytes/200 }

func (s *Session) forget(k Key) {
	if e, ok := s.index[k.same()]; ok {
		delete(s.index, k.same())
		s.order.Remove(e)
		s.weight -= e.weight()
	}
}

func (s *Session) partitions(out []Partition) []Partition {
	out = slices.Grow(out, len(s.index))
	for e := s.order.First(); e != nil; e = e.links.Next() {
		out = append(out, e.Partition)
		out[len(out)-1].entry = e
	}
	return out
}

// tell records what the consumer is told and returns whether the partition must be in the answer.
func (e *entry) tell(a Answer) bool {
	must := a.Bytes > 0 || a.Diverging || a.Preferred
	if a.HighWatermark != e.toldHigh {
		e.toldHigh, must = a.HighWatermark, true
	}
	if a.LogStart != e.toldStart {
		e.toldStart, must = a.LogStart, true
	}
	if a.Error != kafka.None {
		// What comes after the error is told again, even if the watermark has not moved.
		e.toldHigh, must = kafka.NoOffset, true
	}
	return must
}
