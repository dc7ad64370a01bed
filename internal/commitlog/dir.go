package commitlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Dir is a log directory: one entry of log.dirs. It is safe for concurrent use, and so are calls for different partitions.
type Dir struct {
	fs     vfs.FS
	path   string
	random func([]byte)
	lock   io.Closer
	meta   MetaProperties

	clean         bool
	previousEpoch kafka.BrokerEpoch
	failed        atomic.Pointer[error]

	mu       sync.Mutex // guards all below; held for memory only
	logs     map[kafka.TopicPartition]*Log
	opened   map[kafka.TopicPartition]bool // by this process, and closed again; false if that was tried in vain
	trusted  map[kafka.TopicPartition]bool // closed in order by this process
	settling map[kafka.TopicPartition]*Log // closed since the last checkpoint
	noted    checkpoints                   // of logs that are not open; cleaned of all
	stale    map[kafka.TopicPartition]bool // what is noted of them may differ from the files
	doomed   []doomedFolder
	renamed  []doomedFolder // doomed, when that is durable
	notes    []string
	unclosed bool // a log could not be closed in order
	closed   bool
	halfMade map[kafka.TopicPartition]bool // Create made the folder, and the rest failed

	listed Listing // when it was opened; owned by who calls Listed

	journal journal
	files   openFiles
	config  atomic.Pointer[Config] // of the log that was given one last

	resumeBytes, briefBytes int64 // fixed

	checkpointMu sync.Mutex // serialises writing of checkpoint files; held across it
	onDisk       onDisk     // guarded by checkpointMu
}

// checkpoints are what the files of the same names should say.
type checkpoints struct {
	recovery, start, highWatermark, cleaned map[kafka.TopicPartition]kafka.Offset
}

// doomedFolder is a folder called -delete.
type doomedFolder struct {
	path     string
	delay    time.Duration
	removeAt time.Time // zero until Sweep sees it
}

// OpenDir opens a formatted directory: it locks it, reads what meta.properties and the checkpoint files say, and takes away the
// clean-shutdown marker. random fills a slice with random bytes, for the names of deleted folders. The error is vfs.ErrLocked while another process has it, ErrNotFormatted without meta.properties.
func OpenDir(fsys vfs.FS, path string, random func([]byte)) (*Dir, error) {
	if _, err := ReadMetaProperties(fsys, path); err != nil {
		return nil, err // before a lock file is left in a directory that is not ours
	}
	lock, err := fsys.Lock(filepath.Join(path, LockFile))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	d := &Dir{
		fs: fsys, path: path, random: random, lock: lock, previousEpoch: -1,
		logs: make(map[kafka.TopicPartition]*Log), trusted: make(map[kafka.TopicPartition]bool),
		opened:   make(map[kafka.TopicPartition]bool),
		stale:    make(map[kafka.TopicPartition]bool),
		settling: make(map[kafka.TopicPartition]*Log),
		halfMade: make(map[kafka.TopicPartition]bool),
		journal:  journal{size: journalBytes, after: journalAfter},
		files:    openFiles{max: OpenFilesMax}, resumeBytes: resumeBytes, briefBytes: briefBytesMax,
	}
	if err := d.open(); err != nil {
		lock.Close()
		return nil, err
	}
	return d, nil
}

func (d *Dir) open() (err error) {
	if d.meta, err = ReadMetaProperties(d.fs, d.path); err != nil {
		return err
	}
	if err := d.readCheckpoints(); err != nil {
		return err
	}
	if err := d.takeMarker(); err != nil {
		return err
	}
	entries, err := d.list()
	if err != nil {
		return err
	}
	d.listed = d.sort(entries)
	for _, e := range entries {
		if _, suffix := cutFolderSuffix(e.Name); e.Dir && suffix == folderDeleteSuffix {
			d.doomed = append(d.doomed, doomedFolder{path: filepath.Join(d.path, e.Name)})
		}
	}
	return nil
}

// takeMarker removes the clean-shutdown marker, durably: were it still there after a crash, what is torn would be trusted.
func (d *Dir) takeMarker() error {
	name := filepath.Join(d.path, CleanShutdownFile)
	content, err := vfs.ReadFile(d.fs, name)
	if vfs.IsNotExist(err) {
		return d.readJournal()
	}
	if err != nil {
		return err
	}
	d.clean = true
	if d.previousEpoch, err = ParseCleanShutdown(content); err != nil {
		d.note("%s: %v", name, err)
	}
	// What a journal says that is there although the stop was clean is all in the segments.
	if err := errors.Join(d.keepJournal(), d.dropJournal()); err != nil {
		return err
	}
	return d.removeDurably(name)
}

// ID is the directory's id (directory.id).
func (d *Dir) ID() kafka.UUID { return d.meta.ID }

// Meta is what meta.properties says.
func (d *Dir) Meta() MetaProperties { return d.meta }

// Path is the directory.
func (d *Dir) Path() string { return d.path }

// WasClean tells whether the directory was closed in order before it was opened.
func (d *Dir) WasClean() bool { return d.clean }

// PreviousBrokerEpoch is the broker epoch in the clean-shutdown marker, -1 without one.
func (d *Dir) PreviousBrokerEpoch() kafka.BrokerEpoch { return d.previousEpoch }

// Failed returns nil, or an error that is ErrDiskFailed and says why the directory takes no more writes.
func (d *Dir) Failed() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail takes the directory offline. The first reason stays.
func (d *Dir) fail(err error) error {
	failed := fmt.Errorf("%w: %w", ErrDiskFailed, err)
	d.failed.CompareAndSwap(nil, &failed)
	return d.Failed()
}

// failUntried is fail after a flush, unless there was no descriptor to begin it with: then it can be tried again.
func (d *Dir) failUntried(err error) error {
	if vfs.IsOutOfFiles(err) {
		return err
	}
	return d.fail(err)
}

// failUnlessFull is fail, but a full disk is no failure.
func (d *Dir) failUnlessFull(err error) error {
	if err == nil || vfs.IsFull(err) {
		return err
	}
	return d.fail(err)
}

// Free tells the size of the directory's file system and what is left of it.
func (d *Dir) Free() (total, usable int64, err error) { return d.fs.Free(d.path) }

// Notes are sentences for the operator about what was found and put right so far: torn tails, unreadable checkpoints, strange
// files. Each is returned once.
func (d *Dir) Notes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	notes := d.notes
	d.notes = nil
	return notes
}

func (d *Dir) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// shared returns a configuration that is equal to c: most logs of a directory have the same, and hold it together.
func (d *Dir) shared(c Config) *Config {
	if last := d.config.Load(); last != nil && *last == c {
		return last
	}
	d.config.Store(&c)
	return &c
}

// Listing is what a directory holds, by name.
type Listing struct {
	Partitions []kafka.TopicPartition // that have a folder; deleted, stray and future replicas are left out
	Futures    []kafka.TopicPartition // that have a future replica
}

// Partitions lists the folders of partitions.
func (d *Dir) Partitions() ([]kafka.TopicPartition, error) {
	entries, err := d.list()
	return d.sort(entries).Partitions, err
}

// Listed is what the directory held when it was opened, which is told once: reading long lists takes time.
func (d *Dir) Listed() (l Listing) {
	l, d.listed = d.listed, l
	return l
}

func (d *Dir) list() ([]vfs.Entry, error) {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.path, err)
	}
	return entries, nil
}

// sort tells folders by their names.
func (d *Dir) sort(entries []vfs.Entry) (l Listing) {
	topic := "" // shared by the folders of a topic
	for _, e := range entries {
		if !e.Dir {
			continue
		}
		if tp, ok := ParseFolder(e.Name); ok {
			if tp.Topic != topic {
				topic = strings.Clone(tp.Topic)
			}
			l.Partitions = append(l.Partitions, kafka.TopicPartition{Topic: topic, Partition: tp.Partition})
		} else if tp, ok := parseFuture(e.Name); ok {
			l.Futures = append(l.Futures, tp)
		} else if _, suffix := cutFolderSuffix(e.Name); suffix == "" {
			d.note("%s is not the folder of a partition", filepath.Join(d.path, e.Name))
		}
	}
	return l
}

// TopicID reads the partition.metadata of a partition's folder. It is zero if the file is missing or unreadable.
func (d *Dir) TopicID(tp kafka.TopicPartition) (kafka.TopicID, error) { return d.topicID(tp.String()) }

// topicID reads a folder's partition.metadata.
func (d *Dir) topicID(folder string) (kafka.TopicID, error) {
	name := filepath.Join(d.path, folder, PartitionMetadataFile)
	content, err := vfs.ReadFile(d.fs, name)
	if vfs.IsNotExist(err) {
		return kafka.TopicID{}, nil
	}
	if err != nil {
		return kafka.TopicID{}, err
	}
	id, err := ParsePartitionMetadata(content)
	if err != nil {
		d.note("%s: %v", name, err)
	}
	return id, nil
}

// Delete closes a partition's log, if it is open, and renames its folder to NAME.UUID-delete, durably. Sweep removes it.
func (d *Dir) Delete(tp kafka.TopicPartition) error {
	if err := d.Doom(tp); err != nil {
		return err
	}
	return d.SyncDoomed()
}

// Doom is Delete of one of many: the new names are durable, and Sweep finds the folders, after SyncDoomed.
func (d *Dir) Doom(tp kafka.TopicPartition) error {
	if err := d.Failed(); err != nil {
		return err
	}
	d.mu.Lock()
	l := d.logs[tp]
	if l != nil {
		delete(d.logs, tp)
		d.opened[tp] = true
	}
	delete(d.trusted, tp)
	delete(d.settling, tp)
	delete(d.halfMade, tp)
	d.forget(tp)
	d.mu.Unlock()
	doomed := doomedFolder{path: filepath.Join(d.path, asideFolder(tp, kafka.NewUUID(d.random), folderDeleteSuffix))}
	folder := filepath.Join(d.path, tp.String())
	if l != nil {
		folder = l.folder // also of a future replica
		l.closed.Store(true)
		l.flushMu.Lock() // a flush that runs ends before the files are renamed
		defer l.flushMu.Unlock()
		l.swapMu.Lock() // so does compaction
		defer l.swapMu.Unlock()
		l.deleted = true
		for _, s := range *l.segments.Load() {
			s.retire() // another partition may get the name
		}
		doomed.delay = time.Duration(l.config.Load().FileDeleteDelayMs) * time.Millisecond
	}
	d.checkpointMu.Lock() // so does a checkpoint
	defer d.checkpointMu.Unlock()
	err := d.fs.Rename(folder, doomed.path)
	if vfs.IsNotExist(err) {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("delete %s: %w", tp, err) // Windows, while someone reads: it goes at the next start
	}
	if err != nil {
		return d.failUnlessFull(fmt.Errorf("delete %s: %w", tp, err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renamed = append(d.renamed, doomed)
	return nil
}

// SyncDoomed makes durable what Doom has done, with one flush.
func (d *Dir) SyncDoomed() error {
	d.mu.Lock()
	renamed := d.renamed
	d.renamed = nil
	d.mu.Unlock()
	if len(renamed) == 0 {
		return nil
	}
	// Not durable without a descriptor: should a folder come back after a power cut, it belongs to no topic any more.
	if err := d.fs.SyncDir(d.path); err != nil && !vfs.IsOutOfFiles(err) {
		return d.fail(fmt.Errorf("delete %s: %w", renamed[0].path, err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doomed = append(d.doomed, renamed...)
	return nil
}

// SetAside renames the folder of a partition that is not open to NAME.UUID-stray, durably, and returns the new name. It is what
// Kafka does with folders that belong to no topic: what they hold is kept, and nobody opens it.
func (d *Dir) SetAside(tp kafka.TopicPartition) (folder string, err error) {
	if err := d.Failed(); err != nil {
		return "", err
	}
	d.mu.Lock()
	open := d.logs[tp] != nil
	d.mu.Unlock()
	if open {
		return "", fmt.Errorf("set %s aside: it is open", tp)
	}
	folder = asideFolder(tp, kafka.NewUUID(d.random), folderStraySuffix)
	if err := d.fs.Rename(filepath.Join(d.path, tp.String()), filepath.Join(d.path, folder)); err != nil {
		return "", fmt.Errorf("set %s aside: %w", tp, err)
	}
	// Without a descriptor it may have to be set aside again after a power cut.
	if err := d.fs.SyncDir(d.path); err != nil && !vfs.IsOutOfFiles(err) {
		return "", d.fail(fmt.Errorf("set %s aside: %w", tp, err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(tp)
	return folder, nil
}

// Log returns an open log.
func (d *Dir) Log(tp kafka.TopicPartition) (*Log, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.logs[tp]
	return l, ok
}

// release ends that a log is open.
func (d *Dir) release(l *Log, inOrder bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logs[l.partition] != l {
		return
	}
	delete(d.logs, l.partition)
	d.opened[l.partition] = true
	d.noteLog(l)
	d.settling[l.partition] = l
	d.unclosed = d.unclosed || !inOrder
	d.trusted[l.partition] = inOrder
}

func (d *Dir) openLogs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.logs))
}

// sortedByName is the order in which logs are locked. A log may come that was deleted, beside another one that has its name now.
func sortedByName(logs []*Log) []*Log {
	return slices.SortedFunc(slices.Values(logs), func(a, b *Log) int {
		return cmp.Or(a.partition.Compare(b.partition),
			bytes.Compare(a.topicID[:], b.topicID[:]), strings.Compare(a.folder, b.folder))
	})
}

// Sweep does what waits for its time: it renames the files of removed segments to .deleted, removes what was renamed
// file.delete.delay.ms ago, and closes files that nobody read or wrote since the last Sweep.
func (d *Dir) Sweep(now time.Time) error {
	if err := d.Failed(); err != nil {
		return err
	}
	_, err := d.SweepFolders(now) // first: with a full disk they may be all that makes room
	logs := sortedByName(slices.DeleteFunc(d.openLogs(), (*Log).atRest))
	full := false
	if slices.ContainsFunc(logs, (*Log).cutUnsaved) {
		_, unsaved := d.WriteSomeCheckpoints()
		if full = vfs.IsFull(unsaved); unsaved != nil && !full {
			return errors.Join(err, unsaved)
		}
	}
	for _, l := range logs {
		if !full && l.cutUnsaved() {
			continue // of very many logs this one is left to the next Sweep
		}
		if d.Failed() != nil {
			break
		}
		of := l.sweep(now)
		switch {
		case of == nil || errors.Is(of, ErrClosed):
		case isCorrupt(of):
			if !l.unsweepable.Swap(true) {
				d.note("%v: segments that retention took out of %s stay on the disk", of, l.partition)
			}
		default:
			err = errors.Join(err, l.writeError(of))
		}
	}
	return err
}

// sweepFoldersMax is how many folders are removed at a time.
const sweepFoldersMax = 128

// SweepFolders removes folders of deleted partitions whose time has come, some of them: more tells whether there are others.
func (d *Dir) SweepFolders(now time.Time) (more bool, err error) {
	if err := d.Failed(); err != nil {
		return false, err
	}
	d.mu.Lock()
	var due []doomedFolder
	kept := d.doomed[:0]
	for _, f := range d.doomed {
		if f.removeAt.IsZero() {
			f.removeAt = now.Add(f.delay)
		}
		switch {
		case now.Before(f.removeAt):
			kept = append(kept, f)
		case len(due) == sweepFoldersMax:
			more = true
			kept = append(kept, f)
		default:
			due = append(due, f)
		}
	}
	d.doomed = kept
	d.mu.Unlock()
	for i, f := range due {
		if err := d.fs.RemoveAll(f.path); err != nil {
			d.mu.Lock()
			d.doomed = append(d.doomed, due[i:]...)
			d.mu.Unlock()
			return false, d.failUnlessFull(fmt.Errorf("remove deleted partition: %w", err))
		}
	}
	return more, nil
}

// Close ends the use of the directory: it writes the checkpoints and, if clean, makes everything durable and leaves the
// clean-shutdown marker with the broker's epoch. The error says why the marker was not left: a log is still open, or one was
// not closed in order, or could not be opened, and must not be trusted at the next start.
func (d *Dir) Close(clean bool, epoch kafka.BrokerEpoch) error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return nil
	}
	err := d.Failed()
	if err == nil && clean {
		err = d.checkClean()
	}
	if err == nil && clean {
		err = d.leaveClean(epoch)
	}
	d.closeJournal()
	if unlock := d.lock.Close(); err == nil && unlock != nil {
		err = fmt.Errorf("unlock %s: %w", d.path, unlock)
	}
	return err
}

func (d *Dir) checkClean() error {
	found, err := d.Partitions()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.logs) > 0 || d.unclosed {
		return fmt.Errorf("close %s: %d logs are open, or one was not closed in order: no clean-shutdown marker is left", d.path, len(d.logs))
	}
	for _, tp := range found {
		if d.halfMade[tp] {
			continue // it holds nothing
		}
		if opened, tried := d.opened[tp]; tried && !opened || !tried && !d.clean {
			return fmt.Errorf("close %s: %s was not opened and may be torn: no clean-shutdown marker is left", d.path, tp)
		}
	}
	return nil
}

// leaveClean relies on it that every log that was closed had something for the checkpoint to make durable.
func (d *Dir) leaveClean(epoch kafka.BrokerEpoch) error {
	if err := d.WriteCheckpoints(); err != nil {
		return err
	}
	d.journal.round.Lock()
	defer d.journal.round.Unlock()
	if err := d.dropJournal(); err != nil {
		return d.failUnlessFull(err)
	}
	marker := fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, epoch)
	if err := vfs.Replace(d.fs, filepath.Join(d.path, CleanShutdownFile), marker); err != nil {
		return d.failUnlessFull(fmt.Errorf("write clean-shutdown marker: %w", err))
	}
	return nil
}
