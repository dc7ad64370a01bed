package commitlog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Limits of the journal.
const (
	journalBytes = 4 << 20
	// journalReadBytes is how much of a file is read at the start. Entries that end what was said before may stand behind size,
	// but not so many.
	journalReadBytes = 2 * journalBytes
	// journalLogBytes is up to how many bytes of a log are written into the journal too: more cost less when they are flushed
	// where they are.
	journalLogBytes = 16 << 10
	// journalRoundBytes is how much is written at a time.
	journalRoundBytes = 512 << 10
	// journalPageBytes is how much is written at a time when the file is made.
	journalPageBytes = 4 << 10
	// journalAfter is from how many flushes on that it could have served the journal is made.
	journalAfter = 64
)

// journal makes small appends to many logs durable with one write and one Sync of one file, whose blocks the file system has
// already: so no Sync has to commit the file system's own journal. Segments are written before; what is in them and not yet on
// the disk is written into the journal a second time, and after a power cut taken from there. When the journal is full the
// segments are flushed, and it begins again at its front with a new lap: what is left of the lap before says nothing any more.
//
// A process that is killed, or stopped, leaves nothing in the journal that its segments do not have.
type journal struct {
	size  int64 // bytes of the file; fixed
	after int   // journalAfter; fixed

	round sync.Mutex // held for a whole round; taken before any flushMu
	tried int        // rounds before there was a file. Guarded by round
	none  bool       // there was no room for the file. Guarded by round
	buf   []byte     // reused. Guarded by mu

	mu    sync.Mutex // guards what follows, and is held across writes and Syncs of the file; taken after any flushMu
	file  vfs.File   // nil while there is none
	lap   uint64
	chain uint32 // CRC of the entry before
	at    int64  // where the next entry goes
	// failed tells that what stands at at is of no log, but may be read: nothing was written over what a full disk has left there.
	failed bool
	logs   map[*Log]bool // of which there is something in this lap

	found map[journaled][]journalEntry // what a power cut left, until SyncRecovered. Guarded by Dir.mu
	owed  map[journaled]bool           // which of found belongs to logs that did not open. Guarded by Dir.mu
}

// journaled names a log in the journal: by the topic's id, as another topic may get the name.
type journaled struct {
	topic     kafka.TopicID
	partition int32
}

func (d *Dir) journalName() string { return filepath.Join(d.path, JournalFile) }
func (d *Dir) keptName() string    { return d.journalName() + ".kept" }

// FlushSmall makes those logs durable of which little is to be flushed, all with one Sync. The others, whose FlushedOffset stays, are
// for Flush. It is safe beside everything else. An error is as of Flush.
func (d *Dir) FlushSmall(logs []*Log) error {
	if err := d.Failed(); err != nil {
		return err
	}
	j := &d.journal
	j.round.Lock()
	defer j.round.Unlock()
	if !j.open() && !d.makeJournal() {
		return d.Failed()
	}
	if j.full() {
		if err := d.settleJournal(); err != nil {
			return err
		}
	}
	logs = slices.Compact(sortedByName(logs))
	for _, l := range logs {
		l.flushMu.Lock()
		defer l.flushMu.Unlock()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = j.buf[:0]
	chain := j.chain
	var taken []taken
	for _, l := range logs {
		if t, ok := j.take(l, &chain); ok {
			taken = append(taken, t)
		}
	}
	if len(j.buf) > 0 {
		if err := d.writeJournal(chain); err != nil {
			return d.Failed() // or the disk is full
		}
	}
	for _, t := range taken {
		t.segment.journaled = t.size
		t.log.flushed.Store(int64(t.end))
		if t.written {
			j.logs[t.log] = true
		}
	}
	return nil
}

// SetJournal makes the journal of so many bytes, after so many flushes that it could have served: tests make it small and early.
// It comes before the first FlushSmall.
func (d *Dir) SetJournal(size int64, after int) { d.journal.size, d.journal.after = size, after }

// taken is what a round writes of a log.
type taken struct {
	log     *Log
	segment *segment
	size    int64
	end     kafka.Offset
	written bool // an entry, as a round before had not taken all
}

// take puts what is to be flushed of a log into the buffer. It needs mu and the log's flushMu. ok is false where that is too much,
// or more than bytes of the active segment must be flushed.
func (j *journal) take(l *Log, chain *uint32) (t taken, ok bool) {
	end := l.EndOffset()
	segments := *l.segments.Load()
	s := segments[len(segments)-1]
	if l.closed.Load() || !l.metadataSynced || l.folderVersion.Load() != l.folderSynced.Load() ||
		kafka.Offset(l.settled.Load()) < s.base {
		return t, false
	}
	size := s.size.Load()
	from := max(s.synced.Load(), s.journaled)
	if size == from {
		return taken{l, s, size, end, false}, true // a round before took what was appended beside it
	}
	if size-from > journalLogBytes || int64(len(j.buf))+journalHeaderBytes+size-from > j.roundBytes() {
		return t, false
	}
	at := len(j.buf)
	j.buf = appendJournalHeader(j.buf, j.lap, l.journaled(), journalBatches, l.FlushedOffset())
	body := len(j.buf)
	j.buf = append(j.buf, make([]byte, size-from)...)
	f, err := s.acquire()
	if err == nil {
		_, err = f.ReadAt(j.buf[body:], from)
		f.release()
	}
	if err != nil { // Flush tells
		j.buf = j.buf[:at]
		return t, false
	}
	*chain = sealJournalEntry(j.buf[at:], *chain)
	return taken{l, s, size, end, true}, true
}

func (l *Log) journaled() journaled { return journaled{l.topicID, l.partition.Partition} }

// writeJournal appends the buffer, durably. A disk that is full, as one that never writes in place can be, leaves the journal as it
// was. It needs the journal's mu.
func (d *Dir) writeJournal(chain uint32) error {
	j := &d.journal
	if _, err := j.file.WriteAt(j.buf, j.at); err != nil {
		j.failed = true
		return d.failUnlessFull(fmt.Errorf("write %s: %w", d.journalName(), err))
	}
	if err := j.file.Sync(); err != nil {
		return d.fail(fmt.Errorf("flush %s: %w", d.journalName(), err))
	}
	j.at += int64(len(j.buf))
	j.chain, j.failed = chain, false
	return nil
}

func (j *journal) open() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file != nil
}

// full tells whether a round may not find room.
func (j *journal) full() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at+j.roundBytes() > j.size
}

// roundBytes is how much is written at a time.
func (j *journal) roundBytes() int64 { return min(journalRoundBytes, j.size/2) }

// makeJournal makes the file, once that has proved worth it. It needs round.
func (d *Dir) makeJournal() bool {
	j := &d.journal
	if j.tried++; j.none || j.tried <= j.after || d.recovering() {
		return false
	}
	file, err := d.layJournal()
	if err != nil {
		j.none = true
		_ = d.failUnlessFull(fmt.Errorf("make the journal: %w", err))
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.file, j.logs = file, make(map[*Log]bool)
	j.begin(d.random)
	return true
}

// layJournal makes the file. It is written, not only reserved: else each Sync would have to commit what became of the reservation. A
// page at a time: a file system that keeps in memory what was written at once as one piece looks through the piece at each Sync.
func (d *Dir) layJournal() (file vfs.File, err error) {
	if file, err = d.fs.Open(d.journalName(), os.O_RDWR|os.O_CREATE|os.O_TRUNC); err != nil {
		return nil, err
	}
	var page [journalPageBytes]byte
	for at := int64(0); at < d.journal.size && err == nil; at += journalPageBytes {
		_, err = file.WriteAt(page[:min(journalPageBytes, d.journal.size-at)], at)
	}
	if err == nil {
		err = file.Sync() // nothing rests on it: a full disk is met here, not in a round
	}
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		file.Close()
		_ = d.fs.Remove(d.journalName())
		return nil, err
	}
	return file, nil
}

// begin begins a lap. Its number is by chance, so that none is met again. It needs mu.
func (j *journal) begin(random func([]byte)) {
	var lap [8]byte
	random(lap[:])
	j.lap, j.chain, j.at = binary.BigEndian.Uint64(lap[:]), 0, 0
	clear(j.logs)
}

// settleJournal flushes the segments of all that the journal holds, and begins it again. It needs round.
func (d *Dir) settleJournal() error {
	j := &d.journal
	j.mu.Lock()
	logs := slices.Collect(maps.Keys(j.logs))
	j.mu.Unlock()
	if err := d.settleLogs(logs); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.begin(d.random)
	}
	return nil
}

// settleAllFrom is from how many logs on, flushed one after the other, one flush of the whole file system is cheaper. The flusher's
// limit is higher, as it flushes several side by side.
const settleAllFrom = 16

// settleLogs flushes segments, also of logs that are about to be closed.
func (d *Dir) settleLogs(logs []*Log) error {
	if len(logs) >= settleAllFrom {
		return d.syncAll(logs)
	}
	for _, l := range sortedByName(logs) {
		if err := l.settle(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) settle() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.deleted {
		return nil
	}
	_, err := l.flush()
	return err
}

// SettleJournal flushes the segments of all that is durable in the journal only.
func (d *Dir) SettleJournal() error {
	if err := d.Failed(); err != nil {
		return err
	}
	d.journal.round.Lock()
	defer d.journal.round.Unlock()
	return d.settleJournal()
}

// settleFor makes sure that all before an offset is durable in the segments, and that the journal says nothing about it any more:
// what compaction takes away must not look as if it were missing.
func (l *Log) settleFor(end kafka.Offset) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.closed.Load() {
		return fmt.Errorf("%s: %w", l.partition, ErrClosed)
	}
	if err := l.leaveJournal(); err != nil || kafka.Offset(l.settled.Load()) >= end {
		return err
	}
	_, err := l.flush()
	return err
}

// leaveJournal makes durable in the segments what there is of the log, and ends that the journal says anything about it. It needs
// flushMu.
func (l *Log) leaveJournal() error {
	j := &l.dir.journal
	if !j.open() {
		return nil
	}
	if _, err := l.flush(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	told := j.of(l)
	if j.at > 0 && !j.failed && len(told) == 0 {
		return nil // nor does it; but as long as nothing is in this lap, the one before can be read
	}
	j.buf = appendJournalHeader(j.buf[:0], j.lap, l.journaled(), journalCut, l.FlushedOffset())
	if err := l.dir.writeJournal(sealJournalEntry(j.buf, j.chain)); err != nil {
		return err
	}
	for _, other := range told {
		delete(j.logs, other)
	}
	return nil
}

// of returns what the lap has of a log, under the log itself or one that was closed before it was opened again. It needs mu.
func (j *journal) of(l *Log) (told []*Log) {
	for other := range j.logs {
		if other.journaled() == l.journaled() {
			told = append(told, other)
		}
	}
	return told
}

// dropJournal removes the file when its entries are all in segments, or are of no use. It needs round, once the directory is in use.
func (d *Dir) dropJournal() error {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	d.journal.close()
	if _, err := d.fs.Stat(d.journalName()); vfs.IsNotExist(err) {
		return nil
	}
	return d.removeDurably(d.journalName())
}

func (d *Dir) closeJournal() {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	d.journal.close()
}

// close needs mu.
func (j *journal) close() {
	if j.file != nil {
		j.file.Close() // each write was synced
		j.file = nil
	}
}

// removeDurably removes a file such that it does not come back after a power cut.
func (d *Dir) removeDurably(name string) error {
	if err := d.fs.Remove(name); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Base(name), err)
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Base(name), err)
	}
	return nil
}
