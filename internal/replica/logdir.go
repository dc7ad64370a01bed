package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// logDir is one log directory with its flusher.
type logDir struct {
	m       *Manager
	disk    *commitlog.Dir
	flusher *flusher
	space   space
	count   atomic.Int64 // partitions in it
	offline atomic.Bool
	shut    atomic.Bool // cordoned: it takes no new partitions
	unsaved atomic.Bool // its checkpoint files are behind

	// recovered: it was closed in order, or all its logs are open and durable since.
	recovered atomic.Bool

	complainedMs atomic.Int64 // when the last refusal was logged
	retained     time.Time    // when retention ran for want of room; the background's
}

// complainEveryMs keeps producers that are refused from filling the log.
const complainEveryMs = 10_000

// complain logs that something was refused, as by a full disk, unless that was said a moment ago.
func (d *logDir) complain(doing string, p *replica, cause error) {
	if vfs.IsOutOfFiles(cause) {
		d.sayAtTimes(fmt.Sprintf("the process has too many files open, %d at most: what needs one more is answered KAFKA_STORAGE_ERROR until others are closed; "+
			"raise its limit (ulimit -n)", vfs.OpenFilesMax()), doing, p, cause)
		return
	}
	d.sayAtTimes("the system refused something, which was answered KAFKA_STORAGE_ERROR; the log goes on when there is room again", doing, p, cause)
}

// sayAtTimes is complain with another text, and p may be nil.
func (d *logDir) sayAtTimes(text, doing string, p *replica, cause error) {
	nowMs := d.m.now().UnixMilli()
	last := d.complainedMs.Load()
	if nowMs-last >= complainEveryMs && d.complainedMs.CompareAndSwap(last, nowMs) {
		if p != nil {
			doing += " " + p.tp.String()
		}
		d.m.log.Error(text, "directory", d.disk.Path(), "refused", doing, "error", cause)
	}
}

func newLogDir(m *Manager, disk *commitlog.Dir) *logDir {
	d := &logDir{m: m, disk: disk}
	d.recovered.Store(disk.WasClean())
	d.space = space{d: d, reserve: m.broker.Int64("raftsman.log.dir.reserve.bytes"), sharers: int64(len(m.broker.LogDirs()) + 1)}
	d.flusher = newFlusher(d)
	return d
}

func (d *logDir) failed() bool { return d.offline.Load() }

// fail takes the directory offline: after a write or a Sync that failed nobody knows what is on the disk, so nothing more
// is written to it and what was not durable is never acknowledged. All its partitions answer KAFKA_STORAGE_ERROR.
func (d *logDir) fail(doing string, cause error) {
	if d.offline.Swap(true) {
		return
	}
	d.m.log.Error("log directory is offline: check the disk, then restart the broker; nothing that was not on the disk has been acknowledged",
		"directory", d.disk.Path(), "failed", doing, "error", cause)
	for s := range d.m.slots() {
		if p := s.refuseIn(d, kafka.KafkaStorageError); p != nil {
			d.m.addReport(p, d)
		}
	}
	d.m.reportDirs()
	left := 0
	for _, other := range d.m.dirs {
		if !other.failed() {
			left++
		}
	}
	if d.m.onDirFailure != nil {
		d.m.onDirFailure(d.disk.Path(), left, cause)
	}
}

// changed tells whether the checkpoint files may be behind. Of the metadata log's own directory nobody tells.
func (d *logDir) changed() bool { return d.unsaved.Load() || !slices.Contains(d.m.dirs, d) }

// save writes the checkpoint files.
func (d *logDir) save() error {
	d.unsaved.Store(false)
	err := d.disk.WriteCheckpoints()
	if err != nil {
		d.unsaved.Store(true)
	}
	return err
}

// saveSome writes them as far as that takes little time. more tells whether something is left.
func (d *logDir) saveSome() (more bool, err error) {
	d.unsaved.Store(false)
	more, err = d.disk.WriteSomeCheckpoints()
	if more || err != nil {
		d.unsaved.Store(true)
	}
	return more && err == nil, err
}

// remove takes the folder of a partition away, durably.
func (d *logDir) remove(tp kafka.TopicPartition) {
	d.doom(tp)
	if err := d.disk.SyncDoomed(); err != nil {
		d.fail("delete "+tp.String(), err)
	}
}

// doom takes the folder of a deleted partition away, durably once SyncDoomed has returned.
func (d *logDir) doom(tp kafka.TopicPartition) {
	err := d.disk.Doom(tp)
	switch {
	case err == nil || d.failed():
	case errors.Is(err, commitlog.ErrDiskFailed):
		d.fail("delete "+tp.String(), err)
	default:
		d.m.log.Error("the folder of a deleted partition is still there; remove it while the broker is stopped",
			"directory", d.disk.Path(), "folder", tp.String(), "error", err)
	}
}

// tell logs what opening found and put right.
func (d *logDir) tell() {
	for _, note := range d.disk.Notes() {
		d.m.log.Warn(note, "directory", d.disk.Path())
	}
}
