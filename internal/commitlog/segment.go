package commitlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// segment is a .log file with its indexes: batches from a base offset on, up to the base of the next segment. Only the last
// one, the active segment, is written to.
//
// Bytes below size are never changed. Readers need no lock but mu and index.mu, both held for memory only, except that mu is
// held while the file is opened.
type segment struct {
	*place
	base  kafka.Offset
	size  atomic.Int64 // bytes that hold whole batches, published after they are written
	index index
	txns  txnIndex
	tail  tail

	mu        sync.Mutex // guards all below; taken after index.mu and txns.mu
	file      *openFile  // nil while nobody has it open
	slot      int32      // of the file in dir.files, 0 for none. Guarded by their mu
	unseen    bool       // the file was closed before all was flushed: a Sync of it may not tell of all errors, SyncFS does
	used      bool       // since the last call of idle
	deleted   bool       // the files are called .deleted
	retired   bool       // the file is another segment's, or may be
	maxKnown  bool
	maxTime   TimeEntry // the largest timestamp, -1 while there is none, and the last offset of the first batch that has it
	firstMs   int64     // timestamp of the first batch, -1 if unknown or none
	createdMs int64

	mended atomic.Bool  // its indexes were damaged and are made anew, and nobody was told yet
	synced atomic.Int64 // how much of size is known to be durable
	// How much of size is in the journal, or was; 0 if none. Guarded by the log's flushMu.
	journaled int64

	// Of the active segment, owned by who appends.
	sinceIndex int   // bytes since the last index entry
	marked     int64 // size when leaveMark was last done
	jitterMs   int64 // how much earlier the segment rolls
	room       int64 // up to where takeRoom took room on the disk; 0 if it took none
}

// place is where the files of a log are: its segments share one.
type place struct {
	dir    *Dir
	fs     vfs.FS
	folder string
}

// openFile is a segment's file while someone needs it. It stays open without users until idle.
type openFile struct {
	vfs.File
	segment *segment
	users   int // guarded by segment.mu
}

func newSegment(at *place, base kafka.Offset) *segment {
	return &segment{place: at, base: base, maxTime: TimeEntry{-1, base}, firstMs: -1}
}

// name is the path of one of the segment's files, by its suffix.
func (s *segment) name(suffix string) string {
	return filepath.Join(s.folder, offsetName(s.base, suffix))
}

// errRetired is for a reader that found a segment in a list from before a truncation, or of a log that was deleted.
var errRetired = errors.New("segment was truncated or deleted")

// String is the path of the .log file.
func (s *segment) String() string { return s.name(logSuffix) }

// acquire opens the file or takes the one that is open. Each acquire needs one release.
func (s *segment) acquire() (*openFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return nil, errRetired
	}
	s.used = true
	if s.file == nil {
		name := s.name(logSuffix)
		if s.deleted {
			name += deletedSuffix
		}
		f, err := s.fs.Open(name, os.O_RDWR)
		if vfs.IsFull(err) { // the process has too many files open
			s.dir.files.closeSome()
			f, err = s.fs.Open(name, os.O_RDWR)
		}
		if err != nil {
			return nil, err
		}
		s.opened(f)
	}
	s.file.users++
	return s.file, nil
}

// opened takes over the file that was opened. It needs s.mu.
func (s *segment) opened(f vfs.File) {
	s.file = &openFile{File: f, segment: s}
	s.dir.files.add(s)
}

// release gives back what acquire gave. The file is closed if it is no longer the segment's.
func (f *openFile) release() {
	f.segment.mu.Lock()
	f.users--
	invariant.Check(f.users >= 0, "segment %d released more often than acquired", f.segment.base)
	unused := f.users == 0 && f.segment.file != f
	f.segment.mu.Unlock()
	if unused {
		f.File.Close() // read-only by now: nothing to lose
	}
}

// idle closes the file, and drops the index of a segment that is not active, if nobody needed them since the last call and
// nothing is to be flushed: errors of the kernel's own writing are told to descriptors that were open then.
func (s *segment) idle(active bool) {
	if s.closeIdle() && !active {
		s.index.unload()
		s.txns.unload()
	}
}

// closeIdle does so with the file, and tells whether nobody needed the segment.
func (s *segment) closeIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used || s.file != nil && s.file.users > 0 || s.synced.Load() < s.size.Load() {
		s.used = false
		return false
	}
	s.closeFile()
	return true
}

// closeFile needs s.mu. Who has the file acquired keeps it.
func (s *segment) closeFile() {
	if s.file == nil {
		return
	}
	f := s.file
	s.file = nil
	s.dir.files.remove(s)
	if f.users == 0 {
		f.File.Close() // flushed, or of no interest any more
	}
}

// markDeleted renames the files to .deleted. Readers that have the file keep it.
func (s *segment) markDeleted() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		name := s.name(suffix)
		if err := s.fs.Rename(name, name+deletedSuffix); err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("mark segment deleted: %w", err)
		}
	}
	s.deleted = true
	s.closeFile()
	return nil
}

// removeDeleted removes the files that markDeleted renamed.
func (s *segment) removeDeleted() error {
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix, logSuffix} {
		if err := s.fs.Remove(s.name(suffix) + deletedSuffix); err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("remove deleted segment: %w", err)
		}
	}
	return nil
}

// maxTimestamp returns the largest timestamp and the last offset of the first batch that has it. In a segment that was closed
// when the log was opened it is the last entry of the time index.
func (s *segment) maxTimestamp(next kafka.Offset) (TimeEntry, error) {
	s.mu.Lock()
	known, maxTime := s.maxKnown, s.maxTime
	s.mu.Unlock()
	if known {
		return maxTime, nil
	}
	if err := s.load(next); err != nil {
		return TimeEntry{}, err
	}
	if err := s.checkLastTime(); err != nil {
		return TimeEntry{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.index.lastTime(); ok && !s.maxKnown {
		s.maxTime = last
	}
	s.maxKnown = true
	return s.maxTime, nil
}

// saved tells whether the files of the indexes say what they should.
func (s *segment) saved() bool {
	s.txns.mu.Lock()
	defer s.txns.mu.Unlock()
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	x := &s.index
	return s.size.Load() > 0 && !s.txns.changed && len(x.times) > 0 && x.written.offsets == len(x.offsets) && x.written.times == len(x.times)
}

// noteBatch keeps the timestamps of a batch that is appended or found.
func (s *segment) noteBatch(maxMs int64, last kafka.Offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firstMs < 0 {
		s.firstMs = maxMs
	}
	if maxMs > s.maxTime.TimestampMs {
		s.maxTime = TimeEntry{maxMs, last}
	}
}

// tail remembers where the newest batches of the active segment end, so that readers near the end need not look for it.
type tail struct {
	mu    sync.Mutex // guards all below; held for memory only
	marks []mark     // a ring once it has tailMarks
	next  int        // where the ring goes on
}

// mark says that the batch that begins with Offset begins at Position, or will.
type mark struct {
	offset   kafka.Offset
	position int64
}

const tailMarks = 64

func (t *tail) add(m mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.marks) < tailMarks {
		t.marks = append(t.marks, m)
		return
	}
	t.marks[t.next] = m
	t.next = (t.next + 1) % tailMarks
}

// find returns the position of a remembered offset.
func (t *tail) find(offset kafka.Offset) (int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.marks {
		m := t.marks[(t.next+len(t.marks)-1-i)%len(t.marks)]
		if m.offset <= offset {
			return m.position, m.offset == offset
		}
	}
	return 0, false
}
