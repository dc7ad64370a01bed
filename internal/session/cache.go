package session

import (
	"math/rand/v2"

	"github.com/raftsman/raftsman/internal/kafka"
)

// evictAfterMs is how long a session is safe from larger ones, and how long an unused one is kept when others need its place.
const evictAfterMs = 120_000

// The sessions may have partitionsPerSlot partitions on the average, of about 200 bytes each; and partitionsMin in any case, so
// that a few large ones do with few slots.
const (
	partitionsPerSlot = 200
	partitionsMin     = 20_000
)

// Cache holds the sessions of a broker, at most as many as max.incremental.fetch.session.cache.slots. A newcomer takes the
// place of one that was not used for two minutes, or else of the smallest that has had its two minutes, if that is smaller.
// Followers' sessions go before consumers'. All sessions together have a limited number of partitions: a session that would go
// beyond it does not come to be, or ends; its consumer fetches in full then, or begins anew.
type Cache struct {
	slots     int
	weight    int // of all sessions: their partitions, those with long names counted several times
	weightMax int
	random    *rand.Rand
	sessions  map[ID]*Session
	oldest    *Session // least recently used
	newest    *Session
	evicted   int64
}

// NewCache returns an empty cache. With 0 slots every fetch is a full one.
func NewCache(slots int, random *rand.Rand) *Cache {
	return &Cache{slots: slots, weightMax: max(slots*partitionsPerSlot, partitionsMin), random: random, sessions: map[ID]*Session{}}
}

// Len returns the number of sessions.
func (c *Cache) Len() int { return len(c.sessions) }

// Evicted returns how many sessions had to make place for others.
func (c *Cache) Evicted() int64 { return c.evicted }

// Request is what a fetch says of its session.
type Request struct {
	ID         ID
	Epoch      int32
	ByID       bool // version 13 and up: topics by id
	Follower   bool
	Partitions []Partition
	Forget     []Key
}

// Fetch is one request's way through the cache: [Cache.Begin] makes it, [Fetch.End] writes what was answered.
type Fetch struct {
	session *Session
	wanted  int32 // the session's epoch as Begin left it
	full    bool  // all partitions are answered
	open    bool  // a full request that wants a session
	request Request
}

// Begin finds what the request reads: it appends the list of all partitions to out. The error is one of the session codes;
// then there is nothing to read.
func (c *Cache) Begin(r Request, nowMs int64, out []Partition) (Fetch, []Partition, error) {
	if r.Epoch == EpochInitial || r.Epoch == EpochFinal {
		if s, ok := c.sessions[r.ID]; ok && r.ID != None {
			c.remove(s)
		}
		return Fetch{full: true, open: r.Epoch == EpochInitial, request: r}, append(out, r.Partitions...), nil
	}
	s, ok := c.sessions[r.ID]
	switch {
	case !ok:
		return Fetch{}, out, kafka.FetchSessionIdNotFound
	case s.epoch != r.Epoch:
		return Fetch{}, out, kafka.InvalidFetchSessionEpoch
	case s.byID != r.ByID:
		return Fetch{}, out, kafka.FetchSessionTopicIdError
	}
	c.weight -= s.weight
	for i := range r.Partitions {
		s.set(r.Partitions[i])
	}
	for _, k := range r.Forget {
		s.forget(k)
	}
	c.weight += s.weight
	if s.Len() == 0 {
		c.remove(s)
		return Fetch{full: true, request: r}, append(out, r.Partitions...), nil
	}
	if len(r.Partitions) > 0 && c.full() {
		c.evict(s)
		return Fetch{}, out, kafka.FetchSessionIdNotFound
	}
	c.touch(s, nowMs)
	s.epoch = nextEpoch(s.epoch)
	return Fetch{session: s, wanted: s.epoch}, s.partitions(out), nil
}

// End takes the answers to the very partitions that Begin listed, in that order, and returns the session id of the response. keep
// is called for each partition with whether it must be in the response. The error means that another request of the session
// overtook this one: then the response is that code alone.
func (c *Cache) End(f *Fetch, parts []Partition, answers []Answer, nowMs int64, keep func(i int, must bool)) (ID, error) {
	if f.full {
		id := None
		if f.open {
			id = c.create(f, parts, answers, nowMs)
		}
		for i := range parts {
			keep(i, true)
		}
		return id, nil
	}
	s := f.session
	if s.epoch != f.wanted {
		return s.id, kafka.InvalidFetchSessionEpoch
	}
	for i := range parts {
		e := parts[i].entry
		must := e.tell(answers[i])
		if must && answers[i].Bytes > 0 {
			// What had data moves to the end, so that every partition gets its turn.
			s.order.Remove(e)
			s.order.Add(e)
		}
		keep(i, must)
	}
	return s.id, nil
}

// Postpone takes the place of End for a fetch that is answered with nothing, as its client is to wait. A session goes on as if
// nothing had been there; a fetch that would open one has to ask again.
func (c *Cache) Postpone(f *Fetch) (ID, error) {
	switch {
	case f.full:
		return None, nil
	case f.session.epoch != f.wanted:
		return f.session.id, kafka.InvalidFetchSessionEpoch
	}
	return f.session.id, nil
}

// create opens a session for a full request, if there is or can be made place for one.
func (c *Cache) create(f *Fetch, parts []Partition, answers []Answer, nowMs int64) ID {
	if len(parts) == 0 || !c.makePlace(f.request.Follower, len(parts), nowMs) {
		return None
	}
	s := &Session{
		id: c.freshID(), epoch: nextEpoch(EpochInitial), byID: f.request.ByID, replica: f.request.Follower,
		index: make(map[Key]*entry, len(parts)), createdMs: nowMs,
	}
	for i := range parts {
		s.set(parts[i])
	}
	for i := range parts {
		s.index[parts[i].same()].tell(answers[i])
	}
	c.weight += s.weight
	for c.full() && c.oldest != nil && nowMs-c.oldest.usedMs > evictAfterMs {
		c.evict(c.oldest)
	}
	if c.full() {
		c.weight -= s.weight
		return None
	}
	c.sessions[s.id] = s
	c.touch(s, nowMs)
	return s.id
}

func (c *Cache) full() bool { return c.weight > c.weightMax }

func (c *Cache) freshID() ID {
	for {
		id := ID(c.random.Int32N(1<<31-1) + 1)
		if _, taken := c.sessions[id]; !taken {
			return id
		}
	}
}

func (c *Cache) touch(s *Session, nowMs int64) {
	c.unlink(s)
	s.usedMs, s.size = nowMs, s.Len()
	s.older = c.newest
	if c.newest != nil {
		c.newest.newer = s
	} else {
		c.oldest = s
	}
	c.newest = s
}

func (c *Cache) unlink(s *Session) {
	if s.older != nil {
		s.older.newer = s.newer
	} else if c.oldest == s {
		c.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else if c.newest == s {
		c.newest = s.older
	}
	s.older, s.newer = nil, nil
}

func (c *Cache) remove(s *Session) {
	c.unlink(s)
	c.weight -= s.weight
	delete(c.sessions, s.id)
}

// makePlace tells whether a session of size partitions may come in, after it has put another out if it had to.
func (c *Cache) makePlace(follower bool, size int, nowMs int64) bool {
	if len(c.sessions) < c.slots {
		return true
	}
	if c.oldest == nil {
		return false
	}
	if nowMs-c.oldest.usedMs > evictAfterMs {
		c.evict(c.oldest)
		return true
	}
	var least *Session
	for s := c.oldest; s != nil; s = s.newer {
		aged := nowMs-s.createdMs > evictAfterMs
		if !aged && (!follower || s.replica) {
			continue
		}
		if least == nil || s.worth(least.replica, least.size, least.id) < 0 {
			least = s
		}
	}
	if least == nil || least.worth(follower, size, None) > 0 {
		return false
	}
	c.evict(least)
	return true
}

func (c *Cache) evict(s *Session) {
	c.evicted++
	c.remove(s)
}

// worth compares a session with another's marks: a follower's is worth more, then one with more partitions.
func (s *Session) worth(replica bool, size int, id ID) int {
	switch {
	case s.replica != replica && s.replica:
		return 1
	case s.replica != replica:
		return -1
	case s.size != size:
		return s.size - size
	}
	return int(s.id) - int(id)
}
