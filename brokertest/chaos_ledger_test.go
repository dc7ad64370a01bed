package brokertest_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ledger is the checker: it is told what clients sent, what they were told and what they read, and knows what must hold. It
// shares nothing with the workload but the names of records.
type ledger struct {
	fault func(format string, args ...any)

	mu     sync.Mutex // guards everything, also what the maps lead to
	sent   map[string]*sent
	parts  map[place]*story
	groups map[string]*groupStory
}

// place is one partition of one topic in its life from create to delete.
type place struct {
	topic [16]byte
	name  string
	index int32
}

func (p place) String() string { return fmt.Sprintf("%s-%d", p.name, p.index) }

// sent is a record on its way.
type sent struct {
	producer string
	number   int // of this producer in this partition, in the order of sending
	hash     uint64
	repeats  bool // may be in the log more than once
	refused  bool // the producer was told that it is not in the log
	acked    bool
}

// story is all that is known of one partition.
type story struct {
	facts map[int64]fact
	at    map[string]int64 // where each record is
	known marks
	asked int64 // the greatest offset up to which somebody wanted records deleted
	kept  int64 // the greatest log start that DeleteRecords promised
	// expires says that retention takes records away.
	expires bool
}

// fact is what is known of an offset.
type fact struct {
	id    string
	hash  uint64
	epoch int32 // -1 and the next 0: not read yet
	ms    int64
}

// marks only ever grow.
type marks struct {
	high, start int64
	epoch       int32
	crashes     int // when they were known
}

func newLedger(fault func(string, ...any)) *ledger {
	return &ledger{fault: fault, sent: map[string]*sent{}, parts: map[place]*story{}, groups: map[string]*groupStory{}}
}

func (l *ledger) story(p place) *story {
	s := l.parts[p]
	if s == nil {
		s = &story{facts: map[int64]fact{}, at: map[string]int64{}}
		l.parts[p] = s
	}
	return s
}

// sending is told before a record leaves.
func (l *ledger) sending(id string, s sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent[id] != nil {
		l.fault("test: record %s is sent twice", id)
	}
	l.sent[id] = &s
}

// acked is told that records are in the log, from an offset on.
func (l *ledger) acked(p place, offset int64, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < 0 {
		l.fault("record %s acknowledged at offset %d", ids[0], offset)
		return
	}
	for i, id := range ids {
		s := l.sent[id]
		s.acked = true
		l.learn(p, offset+int64(i), fact{id: id, hash: s.hash, epoch: -1}, "an acknowledgement")
	}
}

// refused is told that records are not in the log and never will be.
func (l *ledger) refused(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.sent[id].refused = true
		for p, s := range l.parts {
			if at, ok := s.at[id]; ok {
				l.fault("record %s was refused, and is at offset %d of %s", id, at, p)
			}
		}
	}
}

// read is told what a reader got.
func (l *ledger) read(who string, p place, offset int64, f fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sent[f.id]
	switch {
	case s == nil:
		l.fault("%s: offset %d of %s holds %q, which nobody sent", who, offset, p, f.id)
		return
	case s.hash != f.hash:
		l.fault("%s: record %s at offset %d of %s is not as it was sent", who, f.id, offset, p)
	case s.refused:
		l.fault("%s: record %s at offset %d of %s was refused", who, f.id, offset, p)
	}
	l.learn(p, offset, f, who)
}

// learn adds a fact, which must agree with all others.
func (l *ledger) learn(p place, offset int64, f fact, who string) {
	s := l.story(p)
	known, ok := s.facts[offset]
	switch {
	case !ok:
	case known.id != f.id:
		l.fault("%s: offset %d of %s is record %s, and was %s before", who, offset, p, f.id, known.id)
		return
	case known.epoch >= 0 && f.epoch >= 0 && known != f:
		l.fault("%s: offset %d of %s is %+v, and was %+v before", who, offset, p, f, known)
		return
	case known.epoch >= 0:
		f = known
	}
	if at, ok := s.at[f.id]; ok && at != offset && !l.sent[f.id].repeats {
		l.fault("%s: record %s is at offsets %d and %d of %s", who, f.id, at, offset, p)
	}
	s.facts[offset] = f
	s.at[f.id] = offset
	// What is acknowledged or read is on the disk, and readable.
	s.known.high = max(s.known.high, offset+1)
	s.known.epoch = max(s.known.epoch, f.epoch)
}

// marks are what must not be undercut by an answer to a request that is sent after this call.
func (l *ledger) marks(p place) marks {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.story(p).known
}

// told is told the marks of an answer; before is what marks returned when its request was sent. Negative ones were not in it.
func (l *ledger) told(who string, p place, before, now marks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.story(p)
	if now.high >= 0 && now.high < before.high {
		l.fault("%s: high watermark of %s is %d after %d", who, p, now.high, before.high)
	}
	sameDisk := before.crashes == s.known.crashes
	if now.start >= 0 && now.start < before.start && sameDisk {
		l.fault("%s: log start of %s is %d after %d", who, p, now.start, before.start)
	}
	if now.start > s.asked && !s.expires {
		l.fault("%s: log start of %s is %d, though nobody wanted more than the records before %d deleted", who, p, now.start, s.asked)
	}
	if now.epoch >= 0 && now.epoch < before.epoch {
		l.fault("%s: leader epoch of %s is %d after %d", who, p, now.epoch, before.epoch)
	}
	s.known.high, s.known.epoch = max(s.known.high, now.high), max(s.known.epoch, now.epoch)
	if sameDisk {
		s.known.start = max(s.known.start, now.start)
	}
}

// deleting is told before records are deleted; expiring, that they may go at any time.
func (l *ledger) deleting(p place, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.story(p)
	s.asked = max(s.asked, to)
}

func (l *ledger) expiring(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.story(p).expires = true
}

// mayLackStart tells whether a reader may find the log's start above where it was.
func (l *ledger) mayLackStart(p place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.story(p)
	return s.expires || s.asked > 0
}

// promised is told what DeleteRecords answered.
func (l *ledger) promised(p place, start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.story(p)
	s.kept = max(s.kept, start)
}

// crashed is told of a power cut or a kill. What retention had removed may be back, as nothing about that was flushed; what
// DeleteRecords promised stays.
func (l *ledger) crashed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.parts {
		s.known.crashes++
		s.known.start = s.kept
	}
}

// finish is told the start and the end of a partition when nobody writes any more and a reader has told all between.
func (l *ledger) finish(p place, start, end int64) (records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.story(p)
	if start > s.asked && !s.expires {
		l.fault("%s begins at %d, and only records before %d were to be deleted", p, start, s.asked)
	}
	last := map[string]int{}
	epoch := int32(-1)
	offsets := slices.Sorted(maps.Keys(s.facts))
	for _, offset := range offsets {
		f := s.facts[offset]
		if offset >= end {
			l.fault("record %s of %s was at offset %d, and the log ends at %d", f.id, p, offset, end)
			continue
		}
		if offset >= start && f.epoch < 0 {
			l.fault("record %s was acknowledged at offset %d of %s, and nobody could read it", f.id, offset, p)
		}
		if f.epoch >= 0 && f.epoch < epoch {
			l.fault("offset %d of %s has leader epoch %d after %d", offset, p, f.epoch, epoch)
		}
		epoch = max(epoch, f.epoch)
		from := l.sent[f.id]
		if number, ok := last[from.producer]; ok && number >= from.number && !from.repeats {
			l.fault("record %d of producer %s is at offset %d of %s, behind its record %d", from.number, from.producer, offset, p, number)
		}
		last[from.producer] = from.number
	}
	for offset := start; offset < end; offset++ {
		if _, ok := s.facts[offset]; !ok {
			l.fault("offset %d of %s was not read, between %d and %d", offset, p, start, end)
			break
		}
	}
	return len(offsets)
}

// acknowledged counts records.
func (l *ledger) acknowledged() (acked, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sent {
		if s.acked {
			acked++
		}
	}
	return acked, len(l.sent)
}
