package commitlog

import (
	"fmt"
	"maps"
	"path/filepath"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// readCheckpoints reads the three files. One that cannot be read counts as empty: recovery then reads more than it had to, and
// logs begin with their first segment.
func (d *Dir) readCheckpoints() error {
	for _, f := range []struct {
		name string
		into *map[kafka.TopicPartition]kafka.Offset
	}{
		{RecoveryPointFile, &d.onDisk.recovery},
		{LogStartFile, &d.onDisk.start},
		{HighWatermarkFile, &d.onDisk.highWatermark},
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
	return checkpoints{maps.Clone(c.recovery), maps.Clone(c.start), maps.Clone(c.highWatermark)}
}

// forget needs d.mu.
func (d *Dir) forget(tp kafka.TopicPartition) {
	delete(d.noted.recovery, tp)
	delete(d.noted.start, tp)
	delete(d.noted.highWatermark, tp)
}

// noteLog keeps what a log's checkpoints would say, for when it is not open any more. It needs d.mu.
func (d *Dir) noteLog(l *Log) {
	d.noted.recovery[l.partition] = l.FlushedOffset()
	d.noted.start[l.partition] = l.StartOffset()
	d.noted.highWatermark[l.partition] = l.HighWatermark()
}

// current is what the checkpoint files should say now.
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
	clear(d.settling)
	c := d.noted.clone()
	// Kafka leaves out more: starts at the base of the first segment. But older segments may still be there.
	maps.DeleteFunc(c.start, func(_ kafka.TopicPartition, start kafka.Offset) bool { return start == 0 })
	return c, logs
}

// WriteCheckpoints writes the recovery points, log starts and high watermarks of all logs, as far as they changed, durably.
// Recovery then reads no more than what was written since. Before, it makes durable what recovery will not make anew:
// leader epochs, and the indexes of segments that are complete.
func (d *Dir) WriteCheckpoints() error {
	if err := d.Failed(); err != nil {
		return err
	}
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	c, logs := d.current()
	if err := d.saveSides(logs); err != nil {
		return err
	}
	return d.failUnlessFull(d.writeCheckpoints(c))
}

// writeCheckpoints needs checkpointMu.
func (d *Dir) writeCheckpoints(c checkpoints) error {
	for _, f := range []struct {
		name string
		to   map[kafka.TopicPartition]kafka.Offset
		disk *map[kafka.TopicPartition]kafka.Offset
	}{
		{LogStartFile, c.start, &d.onDisk.start},
		{HighWatermarkFile, c.highWatermark, &d.onDisk.highWatermark},
		{RecoveryPointFile, c.recovery, &d.onDisk.recovery},
	} {
		if maps.Equal(f.to, *f.disk) {
			continue
		}
		if err := vfs.Replace(d.fs, filepath.Join(d.path, f.name), formatOffsets(f.to)); err != nil {
			return fmt.Errorf("write checkpoint: %w", err)
		}
		*f.disk = f.to
	}
	return nil
}

// sides is what lies beside a log's segments and was written since the last checkpoint.
type sides struct {
	log    *Log
	epochs int // version of the epochs that was written to the temporary file
}

// saveSides writes the epochs of logs whose epochs changed, and makes them and the indexes durable. It needs checkpointMu.
func (d *Dir) saveSides(logs []*Log) error {
	var written []sides
	unsynced := false
	for _, l := range sortedByName(logs) {
		unsynced = unsynced || l.indexesUnsynced.Load()
		if !l.epochs.dirty() {
			continue
		}
		entries, version := l.epochs.all()
		if err := vfs.WriteFile(d.fs, l.epochsFile()+tmpSuffix, formatEpochs(entries)); err != nil {
			return d.failUnlessFull(fmt.Errorf("write leader epochs: %w", err))
		}
		written = append(written, sides{log: l, epochs: version})
	}
	if !unsynced && len(written) == 0 {
		return nil
	}
	for _, l := range logs {
		l.indexesUnsynced.Store(false) // what is written from now on is for the next checkpoint
	}
	if err := d.fs.SyncFS(d.path); err != nil {
		return d.fail(fmt.Errorf("flush %s: %w", d.path, err))
	}
	return d.renameEpochs(written)
}

// renameEpochs puts the new leader epochs in place, durably.
func (d *Dir) renameEpochs(written []sides) error {
	if len(written) == 0 {
		return nil
	}
	for _, s := range written {
		if err := d.fs.Rename(s.log.epochsFile()+tmpSuffix, s.log.epochsFile()); err != nil {
			return d.failUnlessFull(fmt.Errorf("write leader epochs: %w", err))
		}
	}
	if err := d.fs.SyncFS(d.path); err != nil {
		return d.fail(fmt.Errorf("flush %s: %w", d.path, err))
	}
	for _, s := range written {
		s.log.epochs.setSaved(s.epochs)
	}
	return nil
}

// lower makes sure that after a crash nothing of a log from an offset on is taken as flushed, and that it does not begin behind
// start. The caller has lowered the log's flushed offset.
func (d *Dir) lower(tp kafka.TopicPartition, recovery, start kafka.Offset) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	c := d.onDisk.clone()
	if c.recovery[tp] > recovery {
		c.recovery[tp] = recovery
	}
	if c.start[tp] > start {
		c.start[tp] = start
	}
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
	return d.failUnlessFull(d.writeCheckpoints(c))
}
