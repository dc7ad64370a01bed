package commitlog

import (
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
)

// epochs remembers at which offset each leader epoch begins. Epochs and starts both grow.
type epochs struct {
	mu      sync.Mutex // guards all below; held for memory only
	entries []EpochStart
	version int32 // counts changes
	saved   int32 // the version that the file holds
}

// assign notes that an epoch begins at an offset. What contradicts it is forgotten: later offsets, larger epochs.
func (e *epochs) assign(epoch kafka.Epoch, start kafka.Offset) {
	if epoch < 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.entries)
	if n > 0 && e.entries[n-1].Epoch == epoch && e.entries[n-1].Start <= start {
		return
	}
	for n > 0 && (e.entries[n-1].Epoch >= epoch || e.entries[n-1].Start >= start) {
		n--
	}
	e.entries = append(e.entries[:n], EpochStart{epoch, start})
	e.version++
}

// truncateEnd forgets epochs that begin at or after the log's new end.
func (e *epochs) truncateEnd(end kafka.Offset) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.entries)
	for n > 0 && e.entries[n-1].Start >= end {
		n--
	}
	if n < len(e.entries) {
		e.entries = e.entries[:n]
		e.version++
	}
}

// truncateStart forgets epochs that end before the log's new start; the one that the start lies in begins there from now on.
func (e *epochs) truncateStart(start kafka.Offset) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for n < len(e.entries) && e.entries[n].Start <= start {
		n++
	}
	if n == 0 || n == 1 && e.entries[0].Start == start {
		return
	}
	e.entries = slices.Clone(e.entries[n-1:])
	e.entries[0].Start = start
	e.version++
}

func (e *epochs) latest() kafka.Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.entries) == 0 {
		return kafka.NoEpoch
	}
	return e.entries[len(e.entries)-1].Epoch
}

// at returns the epoch in which an offset was written.
func (e *epochs) at(offset kafka.Offset) kafka.Epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.entries) - 1; i >= 0; i-- {
		if e.entries[i].Start <= offset {
			return e.entries[i].Epoch
		}
	}
	return kafka.NoEpoch
}

// end answers OffsetForLeaderEpoch: the largest epoch up to the asked one, and where the next epoch begins.
func (e *epochs) end(asked kafka.Epoch, logEnd kafka.Offset) (kafka.Epoch, kafka.Offset) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.entries)
	if asked < 0 || n == 0 || asked > e.entries[n-1].Epoch {
		return kafka.NoEpoch, kafka.NoOffset
	}
	if asked == e.entries[n-1].Epoch {
		return asked, logEnd
	}
	next := 0
	for e.entries[next].Epoch <= asked {
		next++
	}
	if next == 0 {
		return asked, e.entries[0].Start
	}
	return e.entries[next-1].Epoch, e.entries[next].Start
}

// all returns a copy, and the version to tell saved about.
func (e *epochs) all() (entries []EpochStart, version int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.entries), e.version
}

func (e *epochs) dirty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.version != e.saved
}

func (e *epochs) setSaved(version int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.saved = version
}
