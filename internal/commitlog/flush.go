package commitlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Flush makes durable what was written before the call, and returns the end that is durable now. It is safe beside Append and
// waits for a Flush or Truncate that runs. After an error nothing is known about the disk: the whole directory has failed, and
// Flush is not tried again; unless it is one of vfs.IsOutOfFiles, after which everything is as before.
func (l *Log) Flush() (kafka.Offset, error) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.closed.Load() {
		return l.FlushedOffset(), fmt.Errorf("%s: %w", l.partition, ErrClosed)
	}
	return l.flush()
}

// flush needs flushMu.
func (l *Log) flush() (kafka.Offset, error) {
	if err := l.dir.Failed(); err != nil {
		return l.FlushedOffset(), err
	}
	end := l.EndOffset()
	active := l.active()
	// Bytes that are not synced count as well: an append that was not published yet may have been taken into the journal, and
	// the journal may be about to forget it.
	if end <= kafka.Offset(l.settled.Load()) && active.synced.Load() >= active.size.Load() {
		return l.FlushedOffset(), nil
	}
	if err := l.syncSegments(); err != nil {
		return l.FlushedOffset(), l.dir.failUntried(err)
	}
	if err := l.syncNames(); err != nil {
		return l.FlushedOffset(), l.dir.failUntried(err)
	}
	l.setFlushed(end)
	return end, nil
}

// syncSegments flushes the active segment and those before it that hold anything behind the flushed end, or end there: recovery may
// have cut a torn end off, which must not come back between what is acknowledged.
func (l *Log) syncSegments() error {
	settled, segments := kafka.Offset(l.settled.Load()), *l.segments.Load()
	for i := len(segments) - 1; i >= 0; i-- {
		s := segments[i]
		size := s.size.Load()
		if s.synced.Load() != size {
			if err := s.sync(); err != nil {
				return err
			}
			s.synced.Store(size)
		}
		if s.base < settled {
			return nil
		}
	}
	return nil
}

func (s *segment) sync() error {
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer f.release()
	if s.takeUnseen() {
		err := s.fs.SyncFS(s.folder)
		if vfs.IsOutOfFiles(err) {
			s.setUnseen(true)
		}
		return err
	}
	return f.Sync()
}

// takeUnseen tells whether only SyncFS tells of all errors. The caller calls that, and after an error of it nothing is flushed any
// more, or setUnseen takes it back.
func (s *segment) takeUnseen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unseen := s.unseen
	s.unseen = false
	return unseen
}

func (s *segment) setUnseen(unseen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = unseen
}

// syncNames makes the names of new segments durable, and at first the folder and what it says about itself.
func (l *Log) syncNames() error {
	if !l.metadataSynced {
		if err := l.syncMetadata(); err != nil {
			return err
		}
	}
	version := l.folderVersion.Load()
	if version != l.folderSynced.Load() {
		if err := l.fs.SyncDir(l.folder); err != nil {
			return err
		}
		l.folderSynced.Store(version)
	}
	return nil
}

func (l *Log) syncMetadata() error {
	f, err := l.fs.Open(filepath.Join(l.folder, PartitionMetadataFile), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(filepath.Dir(l.folder)); err != nil {
		return err
	}
	l.metadataSynced = true
	return nil
}

// captured is what a log had written when a flush of the whole file system began.
type captured struct {
	log           *Log
	end           kafka.Offset
	folderVersion int32
	sizes         map[*segment]int64
	unseen        []*segment // of which SyncFS alone tells of all errors
}

// capture needs flushMu until settle.
func (l *Log) capture() captured {
	c := captured{log: l, end: l.EndOffset(), sizes: make(map[*segment]int64)}
	segments := *l.segments.Load()
	c.folderVersion = l.folderVersion.Load()
	for _, s := range segments {
		if size := s.size.Load(); size != s.synced.Load() {
			c.sizes[s] = size
			if s.takeUnseen() {
				c.unseen = append(c.unseen, s)
			}
		}
	}
	return c
}

// giveBack ends a flush that was not tried.
func (c captured) giveBack() {
	for _, s := range c.unseen {
		s.setUnseen(true)
	}
}

func (c captured) settle() {
	for s, size := range c.sizes {
		s.synced.Store(size)
	}
	c.log.metadataSynced = true
	c.log.folderSynced.Store(c.folderVersion)
	c.log.setFlushed(max(c.end, c.log.FlushedOffset()))
}

// FlushAll flushes the whole file system, and so the logs of the directory at once: from some number of them on that costs less than
// a Sync of each.
func (d *Dir) FlushAll(logs []*Log) error { return d.syncAll(logs) }

// SyncRecovered ends the recovery of the directory, once all its logs were opened or have failed to: it makes durable what they were
// opened with, as far as that is not flushed, and lets the journal go that was found. Until then no other is made. After an unclean stop
// what was found may be in the page cache only: of a log that is served before this, Flush comes first. An error that is one of
// vfs.IsFull changes nothing.
func (d *Dir) SyncRecovered() error {
	logs := d.openLogs()
	if !slices.ContainsFunc(logs, func(l *Log) bool { return l.FlushedOffset() < l.EndOffset() }) && d.clean {
		return nil
	}
	if err := d.syncAll(logs); err != nil {
		return err
	}
	d.journal.round.Lock() // the next journal is made when this one is gone
	defer d.journal.round.Unlock()
	if !d.recovering() {
		return nil // the journal that is there is this process's, and in use
	}
	if err := d.keepJournal(); err != nil {
		return d.failUnlessFull(err)
	}
	return d.failUnlessFull(d.dropJournal())
}

// syncAll locks the logs in the order of their names, so that two of its kind cannot wait for each other.
func (d *Dir) syncAll(logs []*Log) error {
	if err := d.Failed(); err != nil {
		return err
	}
	logs = sortedByName(logs)
	captures := make([]captured, 0, len(logs))
	for _, l := range logs {
		l.flushMu.Lock()
		defer l.flushMu.Unlock()
		captures = append(captures, l.capture())
	}
	if err := d.fs.SyncFS(d.path); err != nil {
		for _, c := range captures {
			c.giveBack()
		}
		return d.failUntried(fmt.Errorf("flush %s: %w", d.path, err))
	}
	for _, c := range captures {
		c.settle()
	}
	return nil
}
