package commitlog

import (
	"sync"
	"sync/atomic"
)

// OpenFilesMax is how many segments of a directory have their files open, unless LimitFiles says otherwise.
const OpenFilesMax = 4096

// openFiles bounds how many segments of a directory have their files open. One more closes another that nobody uses just now,
// rather one that was not used since it was looked at before.
//
// Indexes, snapshots and checkpoints are not among them: their files are open only while they are read or written.
type openFiles struct {
	// mu guards all below, and slot of every segment; held for memory and a close. It is taken after a segment's mu; of other
	// segments then only if it is free.
	mu   sync.Mutex
	max  int
	open []*segment
	hand int // where to look next for one to close

	crowded atomic.Bool // twice as many are open as should be, as so many are in use
}

// tries is how many segments are looked at to close one; of these the first half may stay if they were used.
const tries = 32

// LimitFiles bounds how many segments have their files open, one at least: those that are read or written at the moment come on
// top.
func (d *Dir) LimitFiles(most int) {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	d.files.max = max(most, 1)
}

// add notes that a segment's file is open. The caller holds its mu.
func (o *openFiles) add(s *segment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shrink(o.max - 1)
	o.open = append(o.open, s)
	s.slot = int32(len(o.open))
	o.crowded.Store(len(o.open) >= 2*o.max)
}

// Crowded tells whether so many files are in use that who has something to read should give that back before it reads more.
func (d *Dir) Crowded() bool {
	o := &d.files
	if !o.crowded.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shrink(o.max)
	return o.crowded.Load()
}

// closeSome closes files until few enough are open for others to be opened. The caller holds a segment's mu.
func (o *openFiles) closeSome() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shrink(len(o.open) - tries/4)
}

// shrink closes files that nobody uses until no more than some are left, or it has looked at enough. It needs mu.
func (o *openFiles) shrink(most int) {
	for i := 0; i < tries && len(o.open) > max(most, 0); i++ {
		o.hand = (o.hand + 1) % len(o.open)
		o.closeUnused(o.open[o.hand], i >= tries/2)
	}
}

// closeUnused closes the file of a segment that nobody uses. It needs mu.
func (o *openFiles) closeUnused(s *segment, alsoRecent bool) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	switch {
	case s.file == nil || s.file.users > 0:
	case s.used && !alsoRecent:
		s.used = false
	default:
		// Errors of the kernel's own writing are told to files that were open then.
		s.unseen = s.unseen || s.synced.Load() < s.size.Load()
		s.file.File.Close() // what is not flushed yet SyncFS will flush
		s.file = nil
		o.drop(s)
	}
}

// remove notes that a segment's file is not open any more. The caller holds its mu.
func (o *openFiles) remove(s *segment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(s)
}

func (o *openFiles) drop(s *segment) {
	if s.slot == 0 {
		return
	}
	last := len(o.open) - 1
	o.open[s.slot-1] = o.open[last]
	o.open[s.slot-1].slot = s.slot
	o.open[last] = nil
	o.open, s.slot = o.open[:last], 0
	o.crowded.Store(last >= 2*o.max)
}
