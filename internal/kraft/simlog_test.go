package kraft

import (
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/raftsman/raftsman/internal/kafka"
)

// simBatch is a batch of a simulated log. Two batches are the same when they are equal in all of base, end, epoch and name.
type simBatch struct {
	base, end kafka.Offset
	epoch     kafka.Epoch
	name      int // of its content, unique in the world
	controls  []Control
}

func (b simBatch) same(other simBatch) bool {
	return b.base == other.base && b.end == other.end && b.epoch == other.epoch && b.name == other.name
}

func (b simBatch) told() Batch { return Batch{b.base, b.end, b.epoch, b.controls} }

// simLog is a metadata log in memory, with what a crash takes away.
type simLog struct {
	start   kafka.Offset
	batches []simBatch
	epochs  []EpochEnd // where epochs begin, in End
	durable int        // how many batches are flushed
	// old is what a truncation cut off that was flushed, at index oldAt: it is back after a crash, unless something is flushed before.
	old    []simBatch
	oldAt  int
	cuts   int // truncations so far: a flush that was under way then has flushed nothing
	snaps  []SnapshotID
	images map[SnapshotID]Membership
}

func (l *simLog) StartOffset() kafka.Offset { return l.start }

func (l *simLog) EndOffset() kafka.Offset { return l.endOf(len(l.batches)) }

func (l *simLog) FlushedOffset() kafka.Offset { return l.endOf(l.durable) }

func (l *simLog) endOf(batches int) kafka.Offset {
	if batches == 0 {
		return l.start
	}
	return l.batches[batches-1].end
}

func (l *simLog) LatestEpoch() kafka.Epoch {
	if len(l.batches) == 0 {
		return kafka.NoEpoch
	}
	return l.batches[len(l.batches)-1].epoch
}

func (l *simLog) EpochEnd(epoch kafka.Epoch) (kafka.Epoch, kafka.Offset) {
	n := len(l.epochs)
	switch {
	case n == 0 || epoch > l.epochs[n-1].Epoch:
		return kafka.NoEpoch, kafka.NoOffset
	case epoch == l.epochs[n-1].Epoch:
		return epoch, l.EndOffset()
	}
	next := sort.Search(n, func(i int) bool { return l.epochs[i].Epoch > epoch })
	if next == 0 {
		return epoch, l.epochs[0].End
	}
	return l.epochs[next-1].Epoch, l.epochs[next].End
}

func (l *simLog) Snapshots() (oldest, newest SnapshotID, ok bool) {
	if len(l.snaps) == 0 {
		return SnapshotID{}, SnapshotID{}, false
	}
	return l.snaps[0], l.snaps[len(l.snaps)-1], true
}

func (l *simLog) append(b simBatch) {
	if b.epoch > l.LatestEpoch() {
		l.epochs = append(l.epochs, EpochEnd{b.epoch, b.base})
	}
	l.batches = append(l.batches, b)
}

func (l *simLog) flush() {
	l.durable, l.old = len(l.batches), nil
}

// from returns the index of the batch that an offset is in, or where it would be.
func (l *simLog) from(offset kafka.Offset) int {
	return sort.Search(len(l.batches), func(i int) bool { return l.batches[i].end > offset })
}

func (l *simLog) truncate(end kafka.Offset) {
	n := l.from(end)
	if n < l.durable {
		old := slices.Clone(l.batches[n:l.durable])
		if l.old != nil { // what was cut off before stood behind
			old = append(old, l.old[min(max(l.durable-l.oldAt, 0), len(l.old)):]...)
		}
		l.old, l.oldAt, l.durable = old, n, n
	}
	l.batches = l.batches[:n:n]
	l.index()
	l.cuts++
}

// index finds the epochs anew.
func (l *simLog) index() {
	l.epochs = nil
	for _, b := range l.batches {
		if n := len(l.epochs); n == 0 || l.epochs[n-1].Epoch < b.epoch {
			l.epochs = append(l.epochs, EpochEnd{b.epoch, b.base})
		}
	}
}

// crash leaves what was flushed, and of the rest what chance has written already.
func (l *simLog) crash(random *rand.Rand) {
	if l.old != nil && random.IntN(2) == 0 {
		l.batches = append(l.batches[:l.oldAt:l.oldAt], l.old...)
	} else {
		l.batches = l.batches[:l.durable+random.IntN(len(l.batches)-l.durable+1)]
	}
	l.index()
	l.cuts++
	l.flush() // recovery flushes what it finds
}

// restore makes a downloaded snapshot the whole log.
func (l *simLog) restore(id SnapshotID, m Membership) {
	*l = simLog{start: id.End, snaps: []SnapshotID{id}, images: map[SnapshotID]Membership{id: m}, cuts: l.cuts + 1}
}

// snapshot adds one, and trims the log to the oldest that is kept.
func (l *simLog) snapshot(id SnapshotID, m Membership, keep int) {
	if l.images == nil {
		l.images = map[SnapshotID]Membership{}
	}
	l.snaps, l.images[id] = append(l.snaps, id), m
	if len(l.snaps) <= keep {
		return
	}
	l.snaps = l.snaps[len(l.snaps)-keep:]
	n := l.from(l.snaps[0].End)
	l.start = l.snaps[0].End
	l.batches = l.batches[n:]
	l.durable -= n
	l.old = nil
	l.index()
}

// history is what a start reads.
func (l *simLog) history(formatted *Membership) History {
	return l.historyOf(formatted, len(l.batches))
}

func (l *simLog) historyOf(formatted *Membership, count int) History {
	h := History{}
	if len(l.snaps) > 0 {
		newest := l.snaps[len(l.snaps)-1]
		h.Restore(newest, l.images[newest])
	} else if formatted != nil {
		h.Restore(SnapshotID{}, *formatted)
	}
	for _, b := range l.batches[:count] {
		if b.controls == nil {
			continue
		}
		if len(l.snaps) == 0 || b.base >= l.snaps[len(l.snaps)-1].End {
			h.Add(b.told())
		}
	}
	return h
}
