package commitlog

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// checkpointFile is what one of the four files says.
type checkpointFile struct {
	name    string
	offsets map[kafka.TopicPartition]kafka.Offset
	sorted  []kafka.TopicPartition // the keys of offsets in the order of the file; nil if they have changed since it was written
}

// onDisk is what the files say.
type onDisk struct{ recovery, start, highWatermark, cleaned checkpointFile }

func (o *onDisk) files() [4]*checkpointFile {
	return [...]*checkpointFile{&o.recovery, &o.start, &o.highWatermark, &o.cleaned}
}

// says is what the file says about a partition: kafka.NoOffset if nothing.
func (f *checkpointFile) says(tp kafka.TopicPartition) kafka.Offset {
	if offset, ok := f.offsets[tp]; ok {
		return offset
	}
	return kafka.NoOffset
}

// set changes what is said about partitions, and returns what was.
func (f *checkpointFile) set(to []PartitionOffset) (was []PartitionOffset) {
	was = make([]PartitionOffset, 0, len(to))
	for _, p := range to {
		before := f.says(p.TopicPartition)
		was = append(was, PartitionOffset{p.TopicPartition, before})
		if p.Offset == kafka.NoOffset {
			delete(f.offsets, p.TopicPartition)
		} else {
			f.offsets[p.TopicPartition] = p.Offset
		}
		if before == kafka.NoOffset || p.Offset == kafka.NoOffset {
			f.sorted = nil
		}
	}
	return was
}

func (f *checkpointFile) format() []byte {
	if f.sorted == nil {
		f.sorted = slices.SortedFunc(maps.Keys(f.offsets), kafka.TopicPartition.Compare)
	}
	return formatOffsets(f.sorted, f.offsets)
}

// readCheckpoints reads the four files. One that cannot be read counts as empty: recovery then reads more than it had to, and
// logs begin with their first segment.
func (d *Dir) readCheckpoints() error {
	d.onDisk.recovery.name, d.onDisk.start.name = RecoveryPointFile, LogStartFile
	d.onDisk.highWatermark.name, d.onDisk.cleaned.name = HighWatermarkFile, CleanerFile
	for _, f := range d.onDisk.files() {
		f.offsets = make(map[kafka.TopicPartition]kafka.Offset)
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
		f.offsets = make(map[kafka.TopicPartition]kafka.Offset, len(entries))
		for _, e := range entries {
			f.offsets[e.TopicPartition] = e.Offset
		}
	}
	d.noted = checkpoints{
		maps.Clone(d.onDisk.recovery.offsets), maps.Clone(d.onDisk.start.offsets),
		maps.Clone(d.onDisk.highWatermark.offsets), maps.Clone(d.onDisk.cleaned.offsets),
	}
	return nil
}

// forget needs d.mu.
func (d *Dir) forget(tp kafka.TopicPartition) {
	delete(d.noted.recovery, tp)
	delete(d.noted.start, tp)
	delete(d.noted.highWatermark, tp)
	delete(d.noted.cleaned, tp)
	d.stale[tp] = true
}

// noteLog keeps what a log's checkpoints would say, for when it is not open any more. It needs d.mu.
func (d *Dir) noteLog(l *Log) {
	d.noted.recovery[l.partition] = kafka.Offset(l.settled.Load())
	d.noted.start[l.partition] = l.StartOffset()
	d.noted.highWatermark[l.partition] = l.HighWatermark()
	d.stale[l.partition] = true
}

// checkpoint is one WriteCheckpoints on its way.
type checkpoint struct {
	closed   map[kafka.TopicPartition]bool // what was said of them has changed since the last one, and they are not open
	settling []*Log                        // closed since then
	recovery []PartitionOffset             // recovery points that differ from the file
	epochs   []*Log                        // whose leader epochs are to be written
	later    map[kafka.TopicPartition]bool // whose leader epochs are left to another one: so are their recovery points
	indexes  []*Log                        // whose indexes are to be flushed
}

// begin looks at every open log, and at others only if something has changed. It takes the leader epochs of so many. It needs checkpointMu.
func (d *Dir) begin(epochsMax int) checkpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := checkpoint{closed: d.stale}
	d.stale = make(map[kafka.TopicPartition]bool)
	c.recovery = d.behind(&d.onDisk.recovery, c.closed, d.noted.recovery, func(l *Log) kafka.Offset { return kafka.Offset(l.settled.Load()) })
	look := func(l *Log) { // behind the recovery points, which must not tell of more than is saved
		if l.epochs.dirty() {
			c.epochs = append(c.epochs, l)
		}
		if l.indexesUnsynced.Load() {
			c.indexes = append(c.indexes, l)
		}
	}
	for _, l := range d.logs {
		look(l)
	}
	for _, l := range d.settling {
		c.settling = append(c.settling, l)
		look(l)
	}
	c.epochs = sortedByName(c.epochs)
	if len(c.epochs) > epochsMax {
		d.leave(&c, c.epochs[epochsMax:])
		c.epochs = c.epochs[:epochsMax]
	}
	return c
}

// leave leaves logs to the next checkpoint. It needs d.mu.
func (d *Dir) leave(c *checkpoint, logs []*Log) {
	c.later = make(map[kafka.TopicPartition]bool, len(logs))
	for _, l := range logs {
		c.later[l.partition] = true
		if c.closed[l.partition] {
			d.stale[l.partition] = true
		}
	}
	c.recovery = slices.DeleteFunc(c.recovery, func(p PartitionOffset) bool { return c.later[p.TopicPartition] })
	c.settling = slices.DeleteFunc(c.settling, func(l *Log) bool { return c.later[l.partition] })
}

// behind returns what a file should say other than it does, of logs that are open, and of partitions that are not, from what is noted of
// them. It needs d.mu and checkpointMu.
func (d *Dir) behind(
	f *checkpointFile, closed map[kafka.TopicPartition]bool, noted map[kafka.TopicPartition]kafka.Offset, of func(*Log) kafka.Offset,
) (to []PartitionOffset) {
	for tp, l := range d.logs {
		if now := of(l); now != f.says(tp) {
			to = append(to, PartitionOffset{tp, now})
		}
	}
	for tp := range closed {
		if d.logs[tp] != nil {
			continue
		}
		now, ok := noted[tp]
		if !ok {
			now = kafka.NoOffset
		}
		if now != f.says(tp) {
			to = append(to, PartitionOffset{tp, now})
		}
	}
	return to
}

// ended notes that what was to be saved was saved, or failed to be.
func (d *Dir) ended(c checkpoint, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		maps.Copy(d.stale, c.closed)
		return err
	}
	for _, l := range c.settling {
		if d.settling[l.partition] == l {
			delete(d.settling, l.partition)
		}
	}
	return nil
}

// WriteCheckpoints writes the recovery points, log starts and high watermarks of all logs, as far as they changed, durably.
// Recovery then reads no more than what was written since. Before, it makes durable what recovery will not make anew:
// leader epochs, and the indexes of segments that are complete.
func (d *Dir) WriteCheckpoints() error {
	_, err := d.writeSome(math.MaxInt)
	return err
}

// someEpochs is of how many logs the leader epochs are written at a time.
const someEpochs = 4_000

// WriteSomeCheckpoints is WriteCheckpoints in bounded time: more tells whether it left out logs, whose leader epochs have changed.
func (d *Dir) WriteSomeCheckpoints() (more bool, err error) { return d.writeSome(someEpochs) }

func (d *Dir) writeSome(epochsMax int) (more bool, err error) {
	if err := d.SettleJournal(); err != nil {
		return false, err
	}
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	c := d.begin(epochsMax)
	return len(c.later) > 0, d.ended(c, d.write(c))
}

// write does it in an order that matters. Epochs are read after the recovery points, whose epochs they must hold, and before the starts,
// which they may be cut at; they are written after the starts and before the recovery points.
func (d *Dir) write(c checkpoint) error {
	sides := collectSides(c.epochs)
	starts, highWatermarks := d.starts(c)
	err := d.change(&d.onDisk.start, starts)
	if err == nil {
		err = d.change(&d.onDisk.highWatermark, highWatermarks)
	}
	if err != nil {
		return d.failUnlessFull(err)
	}
	if err := d.saveSides(c.indexes, sides); err != nil {
		return err
	}
	if err := d.change(&d.onDisk.recovery, c.recovery); err != nil {
		return d.failUnlessFull(err)
	}
	d.noteCheckpointed(c.recovery)
	return d.failUnlessFull(d.change(&d.onDisk.cleaned, d.forgotten(c)))
}

// noteCheckpointed tells logs that are open of their new recovery points.
func (d *Dir) noteCheckpointed(points []PartitionOffset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range points {
		if l := d.logs[p.TopicPartition]; l != nil {
			l.checkpointed.Store(int64(p.Offset))
		}
	}
}

// forgotten are the partitions that the file may tell of as compacted, and that are not there any more.
func (d *Dir) forgotten(c checkpoint) (to []PartitionOffset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for tp := range c.closed {
		if _, ok := d.noted.cleaned[tp]; !ok {
			to = append(to, PartitionOffset{tp, kafka.NoOffset})
		}
	}
	return to
}

// starts are the log starts and high watermarks that differ from the files. Kafka leaves out more: starts at the base of the first
// segment. But older segments may still be there.
func (d *Dir) starts(c checkpoint) (starts, highWatermarks []PartitionOffset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	starts = d.behind(&d.onDisk.start, c.closed, d.noted.start, (*Log).StartOffset)
	for i := range starts {
		if starts[i].Offset == 0 {
			starts[i].Offset = kafka.NoOffset
		}
	}
	return starts, d.behind(&d.onDisk.highWatermark, c.closed, d.noted.highWatermark, (*Log).HighWatermark)
}

// change writes a checkpoint file with other offsets of some partitions, kafka.NoOffset to leave them out, unless it says that already.
// After an error it counts as unchanged. It needs checkpointMu.
func (d *Dir) change(f *checkpointFile, to []PartitionOffset) error {
	to = slices.DeleteFunc(to, func(p PartitionOffset) bool { return p.Offset == f.says(p.TopicPartition) })
	if len(to) == 0 {
		return nil
	}
	was := f.set(to)
	if err := vfs.Replace(d.fs, filepath.Join(d.path, f.name), f.format()); err != nil {
		f.set(was)
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// sides is what is to be saved of a log beside its segments.
type sides struct {
	log     *Log
	epochs  []EpochStart
	version int32
}

// collectSides copies the epochs of logs.
func collectSides(logs []*Log) []sides {
	found := make([]sides, 0, len(logs))
	for _, l := range logs {
		entries, version := l.epochs.all()
		found = append(found, sides{l, entries, version})
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
	d.mu.Lock()
	if d.noted.cleaned[tp] > end {
		d.noted.cleaned[tp] = end
	}
	d.mu.Unlock()
	// Recovery points come first: a log that begins earlier than before shows batches whose epochs are not in its file, and only recovery
	// finds them again.
	for _, file := range []struct {
		*checkpointFile
		most kafka.Offset
	}{{&d.onDisk.recovery, recovery}, {&d.onDisk.start, start}, {&d.onDisk.cleaned, end}} {
		if file.says(tp) <= file.most {
			continue
		}
		if err := d.change(file.checkpointFile, []PartitionOffset{{tp, file.most}}); err != nil {
			return d.failUnlessFull(err)
		}
		if file.checkpointFile == &d.onDisk.recovery {
			d.noteCheckpointed([]PartitionOffset{{tp, file.most}})
		}
	}
	return nil
}

// WillCreate does at once for many partitions what Create would do for each alone before it makes the folder.
func (d *Dir) WillCreate(partitions []kafka.TopicPartition) error {
	if err := d.Failed(); err != nil {
		return err
	}
	return d.dropCheckpoints(partitions...)
}

// dropCheckpoints makes sure that the files say nothing about partitions, as they are about to be created and what the files say is
// about others that had their names.
func (d *Dir) dropCheckpoints(partitions ...kafka.TopicPartition) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	for _, f := range d.onDisk.files() {
		var told []PartitionOffset
		for _, tp := range partitions {
			if f.says(tp) != kafka.NoOffset {
				told = append(told, PartitionOffset{tp, kafka.NoOffset})
			}
		}
		if err := d.change(f, told); err != nil {
			return d.failUnlessFull(err)
		}
	}
	return nil
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
func (d *Dir) saveCleaned(l *Log, offset kafka.Offset, cuts int32) error {
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
	d.mu.Unlock()
	if !current {
		return nil
	}
	return d.failUnlessFull(d.change(&d.onDisk.cleaned, []PartitionOffset{{l.partition, offset}}))
}

// checkpointBefore makes sure that after a crash nothing of a log below an offset is recovered, and that what lies before its start
// does not come back: compaction is about to leave out what that would need.
func (d *Dir) checkpointBefore(l *Log, end kafka.Offset) error {
	d.checkpointMu.Lock()
	covered := d.onDisk.recovery.says(l.partition) >= end && max(d.onDisk.start.says(l.partition), 0) >= l.StartOffset() && !l.epochs.dirty()
	d.checkpointMu.Unlock()
	if covered {
		return nil
	}
	return d.WriteCheckpoints()
}
