package commitlog

import (
	"fmt"
	"maps"
	"path/filepath"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// readCheckpoints reads the four files. One that cannot be read counts as empty: recovery then reads more than it had to, and
// logs begin with their first segment.
func (d *Dir) readCheckpoints() error {
	for _, f := range []struct {
		name string
		into *map[kafka.TopicPartition]kafka.Offset
	}{
		{RecoveryPointFile, &d.onDisk.recovery},
		{LogStartFile, &d.onDisk.start},
		{HighWatermarkFile, &d.onDisk.highWatermark},
		{CleanerFile, &d.onDisk.cleaned},
	} {
		*f.into = make(map[kafka.TopicPartition]kafka.Offset)
		content, err := vfs.ReadFile(d.fs, filepath.Join(d.path, f.name))
		if vfs.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		entries, err := ParseOffsets(content)
		if err != nil {
			d.note("%s: %v; it is taken as empty", filepath.Join(d.path, f.name), err)
			continue
		}
		for _, e := range entries {
			(*f.into)[e.TopicPartition] = e.Offset
		}
	}
	d.noted = d.onDisk.clone()
	return nil
}

func (c checkpoints) clone() checkpoints {
	return checkpoints{maps.Clone(c.recovery), maps.Clone(c.start), maps.Clone(c.highWatermark), maps.Clone(c.cleaned)}
}

// forget needs d.mu.
func (d *Dir) forget(tp kafka.TopicPartition) {
	delete(d.noted.recovery, tp)
	delete(d.noted.start, tp)
	delete(d.noted.highWatermark, tp)
	delete(d.noted.cleaned, tp)
}

// noteLog keeps what a log's checkpoints would say, for when it is not open any more. It needs d.mu.
func (d *Dir) noteLog(l *Log) {
	d.noted.recovery[l.partition] = kafka.Offset(l.settled.Load())
	d.noted.start[l.partition] = l.StartOffset()
	d.noted.highWatermark[l.partition] = l.HighWatermark()
}

// current is what the checkpoint files should say now, and the logs that have something to save first.
func (d *Dir) current() (checkpoints, []*Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	logs := make([]*Log, 0, len(d.logs)+len(d.settling))
	for _, l := range d.logs {
		d.noteLog(l)
		logs = append(logs, l)
	}
	for _, l := range d.settling {
		logs = append(logs, l)
	}
	c := d.noted.clone()
	// Kafka leaves out more: starts at the base of the first segment. But older segments may still be there.
	maps.DeleteFunc(c.start, func(_ kafka.TopicPartition, start kafka.Offset) bool { return start == 0 })
	return c, logs
}

// settled notes that what the logs had to save was saved.
func (d *Dir) settled(logs []*Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range logs {
		if d.settling[l.partition] == l {
			delete(d.settling, l.partition)
		}
	}
}

// WriteCheckpoints writes the recovery points, log starts and high watermarks of all logs, as far as they changed, durably.
// Recovery then reads no more than what was written since. Before, it makes durable what recovery will not make anew:
// leader epochs, and the indexes of segments that are complete.
func (d *Dir) WriteCheckpoints() error {
	if err := d.SettleJournal(); err != nil {
		return err
	}
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	// The order matters. Epochs are read after the recovery points, whose epochs they must hold, and before the starts, which
	// they may be cut at; they are written after the starts and before the recovery points.
	c, logs := d.current()
	recovery := c.recovery
	sides := collectSides(logs)
	c, _ = d.current()
	if err := d.writeStarts(c); err != nil {
		return d.failUnlessFull(err)
	}
	if err := d.saveSides(logs, sides); err != nil {
		return err
	}
	if err := d.writeOffsets(RecoveryPointFile, recovery, &d.onDisk.recovery); err != nil {
		return d.failUnlessFull(err)
	}
	for _, l := range logs {
		l.checkpointed.Store(int64(recovery[l.partition]))
	}
	d.settled(logs)
	return nil
}

// writeCheckpoints writes what was lowered. It needs checkpointMu. Recovery points come first: a log that begins earlier than
// before shows batches whose epochs are not in its file, and only recovery finds them again.
func (d *Dir) writeCheckpoints(c checkpoints) error {
	if err := d.writeOffsets(RecoveryPointFile, c.recovery, &d.onDisk.recovery); err != nil {
		return err
	}
	if err := d.writeStarts(c); err != nil {
		return err
	}
	return d.writeOffsets(CleanerFile, c.cleaned, &d.onDisk.cleaned)
}

func (d *Dir) writeStarts(c checkpoints) error {
	if err := d.writeOffsets(LogStartFile, c.start, &d.onDisk.start); err != nil {
		return err
	}
	return d.writeOffsets(HighWatermarkFile, c.highWatermark, &d.onDisk.highWatermark)
}

// writeOffsets writes a checkpoint file unless it says that already.
func (d *Dir) writeOffsets(file string, offsets map[kafka.TopicPartition]kafka.Offset, onDisk *map[kafka.TopicPartition]kafka.Offset) error {
	if maps.Equal(offsets, *onDisk) {
		return nil
	}
	if err := vfs.Replace(d.fs, filepath.Join(d.path, file), formatOffsets(offsets)); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	*onDisk = offsets
	return nil
}

// sides is what is to be saved of a log beside its segments.
type sides struct {
	log     *Log
	epochs  []EpochStart
	version int
}

// collectSides copies the epochs that changed.
func collectSides(logs []*Log) []sides {
	var found []sides
	for _, l := range sortedByName(logs) {
		if l.epochs.dirty() {
			entries, version := l.epochs.all()
			found = append(found, sides{l, entries, version})
		}
	}
	return found
}

// saveSides writes leader epochs, and makes them and the indexes durable. It needs checkpointMu. All that the logs hold is durable before
// the new epochs have their name: what was found in a journal does not count any more once the file tells of a newer epoch.
func (d *Dir) saveSides(logs []*Log, changed []sides) error {
	for _, s := range changed {
		if err := vfs.WriteFile(d.fs, s.log.epochsFile()+tmpSuffix, formatEpochs(s.epochs)); err != nil {
			return d.failUnlessFull(fmt.Errorf("write leader epochs: %w", err))
		}
	}
	unsynced := len(changed) > 0
	for _, l := range logs {
		unsynced = l.indexesUnsynced.Swap(false) || unsynced // what is written from now on is for the next checkpoint
	}
	if !unsynced {
		return nil
	}
	if err := d.fs.SyncFS(d.path); err != nil {
		for _, l := range logs {
			l.indexesUnsynced.Store(true) // of some that is not so: it costs a flush
		}
		return d.failUntried(fmt.Errorf("flush %s: %w", d.path, err))
	}
	return d.renameEpochs(changed)
}

// renameEpochs puts the new leader epochs in place, durably.
func (d *Dir) renameEpochs(changed []sides) error {
	if len(changed) == 0 {
		return nil
	}
	for _, s := range changed {
		if err := d.fs.Rename(s.log.epochsFile()+tmpSuffix, s.log.epochsFile()); err != nil {
			return d.failUnlessFull(fmt.Errorf("write leader epochs: %w", err))
		}
	}
	if err := d.fs.SyncFS(d.path); err != nil {
		return d.failUntried(fmt.Errorf("flush %s: %w", d.path, err))
	}
	for _, s := range changed {
		s.log.epochs.setSaved(s.version)
	}
	return nil
}

// lower makes sure that after a crash nothing of a log from an offset on is taken as flushed, and that it does not begin behind
// start, nor be clean beyond end. The caller has lowered the log's flushed offset.
func (d *Dir) lower(tp kafka.TopicPartition, recovery, start, end kafka.Offset) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	c := d.onDisk.clone()
	if c.recovery[tp] > recovery {
		c.recovery[tp] = recovery
	}
	if c.start[tp] > start {
		c.start[tp] = start
	}
	if c.cleaned[tp] > end {
		c.cleaned[tp] = end
	}
	d.mu.Lock()
	if d.noted.cleaned[tp] > end {
		d.noted.cleaned[tp] = end
	}
	d.mu.Unlock()
	return d.failUnlessFull(d.writeCheckpoints(c))
}

// dropCheckpoints makes sure that the files say nothing about a partition, as it is about to be created and what they say is
// about another one that had its name.
func (d *Dir) dropCheckpoints(tp kafka.TopicPartition) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	c := d.onDisk.clone()
	delete(c.recovery, tp)
	delete(c.start, tp)
	delete(c.highWatermark, tp)
	delete(c.cleaned, tp)
	return d.failUnlessFull(d.writeCheckpoints(c))
}

// cleanedOffset returns up to where a log was compacted, or kafka.NoOffset.
func (d *Dir) cleanedOffset(tp kafka.TopicPartition) kafka.Offset {
	d.mu.Lock()
	defer d.mu.Unlock()
	if offset, ok := d.noted.cleaned[tp]; ok {
		return offset
	}
	return kafka.NoOffset
}

// saveCleaned notes how far a log is compacted, unless it was truncated or deleted meanwhile.
func (d *Dir) saveCleaned(l *Log, offset kafka.Offset, cuts int64) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	if err := d.Failed(); err != nil {
		return err
	}
	d.mu.Lock()
	current := d.logs[l.partition] == l && l.cuts.Load() == cuts
	if current {
		d.noted.cleaned[l.partition] = offset
	}
	cleaned := maps.Clone(d.noted.cleaned)
	d.mu.Unlock()
	if !current {
		return nil
	}
	return d.failUnlessFull(d.writeOffsets(CleanerFile, cleaned, &d.onDisk.cleaned))
}

// checkpointBefore makes sure that after a crash nothing of a log below an offset is recovered, and that what lies before its start
// does not come back: compaction is about to leave out what that would need.
func (d *Dir) checkpointBefore(l *Log, end kafka.Offset) error {
	d.checkpointMu.Lock()
	covered := d.onDisk.recovery[l.partition] >= end && d.onDisk.start[l.partition] >= l.StartOffset() && !l.epochs.dirty()
	d.checkpointMu.Unlock()
	if covered {
		return nil
	}
	return d.WriteCheckpoints()
}
