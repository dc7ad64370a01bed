package verify

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/commitlog/dump"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// metadataTopic is the log whose last time index Kafka does not complete when it stops.
const metadataTopic = "__cluster_metadata"

// batch is what of a batch the other files are compared with.
type batch struct {
	file       string
	at         int64
	base, last kafka.Offset
	epoch      kafka.Epoch
	maxMs      int64 // the largest timestamp in the segment up to it
}

// segment is what was found in a .log file.
type segment struct {
	base    kafka.Offset
	name    string
	batches []batch
	aborted []commitlog.AbortedTxn
	whole   bool // nothing is damaged in it
}

// Partition checks the folder of a partition. Of the directory that holds it, only how far logs were flushed and compacted is read.
func (c *Checker) Partition(path string) error {
	tp, _ := commitlog.ParseFolder(filepath.Base(path))
	dir := filepath.Dir(path)
	var points checkpoints
	for _, f := range []struct {
		name string
		into *map[kafka.TopicPartition]kafka.Offset
	}{{commitlog.RecoveryPointFile, &points.recovery}, {commitlog.CleanerFile, &points.cleaned}, {commitlog.LogStartFile, &points.start}} {
		content, err := vfs.ReadFile(c.FS, filepath.Join(dir, f.name))
		if err != nil && !vfs.IsNotExist(err) {
			return err
		}
		if offsets, err := commitlog.ParseOffsets(content); err == nil {
			*f.into = byPartition(offsets)
		}
	}
	_, err := c.FS.Stat(filepath.Join(dir, commitlog.CleanShutdownFile))
	points.clean = err == nil
	_, err = c.partition(path, tp, points)
	return err
}

// partition checks a folder. Without a clean stop what lies behind the recovery point is for recovery to judge: it may be torn.
func (c *Checker) partition(path string, tp kafka.TopicPartition, points checkpoints) (span, error) {
	entries, err := c.FS.ReadDir(path)
	if err != nil {
		return span{}, fmt.Errorf("list %s: %w", path, err)
	}
	p := &partition{Checker: c, path: path, topic: tp.Topic, floor: 1<<63 - 1, producers: producer.New(1 << 30)}
	if c.Live || !points.clean {
		p.floor = points.recovery[tp]
	}
	_, p.gaps = points.cleaned[tp]
	names := make(map[string]bool)
	for _, e := range entries {
		names[e.Name] = !e.Dir
		if base, ok := logName(e.Name); ok && !e.Dir {
			p.segments = append(p.segments, &segment{base: base, name: filepath.Join(path, e.Name)})
		}
	}
	slices.SortFunc(p.segments, func(a, b *segment) int { return int(min(max(a.base-b.base, -1), 1)) })
	p.known = len(p.segments) > 0 && p.segments[0].base == 0
	if err := p.sides(entries); err != nil {
		return span{}, err
	}
	for i, s := range p.segments {
		if err := p.check(i, s, names); err != nil {
			return span{}, err
		}
	}
	closed := points.clean && !c.Live
	epochs, err := p.checkEpochs(points.start[tp], closed)
	if err != nil {
		return span{}, err
	}
	if closed && tp.Topic != metadataTopic && len(p.segments) > 0 { // that one's begin is in a snapshot
		if lost := commitlog.LostBegin(p.segments[0].name, p.segments[0].base, epochs, points.start[tp]); lost != nil {
			p.found(lost.File, 0, lost.Remedy, "%s", lost.Reason)
		}
	}
	return p.span(), nil
}

func logName(name string) (kafka.Offset, bool) {
	kind, base, err := dump.KindOf(name)
	return base, err == nil && kind == dump.Log && strings.HasSuffix(name, ".log")
}

// partition is a folder that is checked.
type partition struct {
	*Checker
	path      string
	topic     string
	floor     kafka.Offset // what lies below had been flushed
	gaps      bool         // the log is compacted: offsets are missing
	segments  []*segment
	next      kafka.Offset // the end of what was read
	hidden    bool         // damage hides where the log ends
	known     bool         // what producers did before the first segment
	producers *producer.State
}

// sides parses what is no segment and no index of one.
func (p *partition) sides(entries []vfs.Entry) error {
	for _, e := range entries {
		kind, base, err := dump.KindOf(e.Name)
		if e.Dir || err != nil || filepath.Ext(e.Name) == ".deleted" || filepath.Ext(e.Name) == ".cleaned" || filepath.Ext(e.Name) == ".tmp" {
			continue
		}
		name, remedy := filepath.Join(p.path, e.Name), remedyDerived
		switch kind {
		case dump.Partition, dump.QuorumState:
			remedy = remedyMeta
		case dump.Snapshot:
			if err := p.single(name, 0); err != nil {
				return err
			}
			continue
		case dump.Producers, dump.Epochs:
		default:
			continue
		}
		content, err := p.side(name, remedy)
		if err != nil {
			return err
		}
		if kind == dump.Producers && len(p.segments) > 0 && base == p.segments[0].base {
			if state, err := producer.Decode(content); err == nil {
				p.producers, p.known = state, true
			}
		}
	}
	return nil
}

// check reads a segment and compares its indexes with it.
func (p *partition) check(i int, s *segment, names map[string]bool) error {
	if i > 0 && s.base > p.next && !p.gaps && !p.hidden {
		p.found(s.name, 0, remedyRecords, "offsets %d to %d are missing before it", p.next, s.base-1)
	}
	limit := kafka.Offset(1<<63 - 1)
	if i+1 < len(p.segments) {
		limit = p.segments[i+1].base
	}
	p.next = s.base
	read, err := p.read(s.name, s.base, limit)
	if err != nil {
		return err
	}
	*s = read
	if !s.whole || p.floor < 1<<63-1 && limit >= p.floor {
		return nil // recovery makes the indexes anew
	}
	for _, suffix := range []string{".index", ".timeindex", ".txnindex"} {
		name := strings.TrimSuffix(s.name, ".log") + suffix
		if !names[filepath.Base(name)] {
			if suffix == ".txnindex" && len(s.aborted) > 0 && !p.gaps && p.known {
				p.found(name, 0, remedyDerived, "missing, but the segment has %d aborted transactions", len(s.aborted))
			} else if suffix == ".txnindex" {
				p.checkListed(name, s, nil)
			}
			continue // the others are made anew
		}
		content, err := p.side(name, map[bool]string{true: remedyDerived, false: remedyIndex}[suffix == ".txnindex"])
		if err != nil {
			return err
		}
		switch suffix {
		case ".index":
			p.checkIndex(name, s, content)
		case ".timeindex":
			p.checkTimes(name, s, content, p.topic == metadataTopic && i+1 == len(p.segments))
		default:
			p.checkAborted(name, s, content)
		}
	}
	return nil
}

// single checks a file of batches by itself: they may be those of a compacted log.
func (c *Checker) single(name string, base kafka.Offset) error {
	p := &partition{Checker: c, floor: 1<<63 - 1, gaps: true, next: base, producers: producer.New(1 << 30)}
	_, err := p.read(name, base, 1<<63-1)
	return err
}

// read checks the batches of a segment.
func (p *partition) read(name string, base, limit kafka.Offset) (segment, error) {
	s := segment{base: base, name: name, whole: true}
	p.Files++
	maxMs := int64(-1)
	for b, err := range commitlog.FileBatches(p.FS, name) {
		if corrupt := new(commitlog.CorruptError); errors.As(err, &corrupt) {
			if s.whole = false; p.next >= p.floor {
				return s, nil // torn: recovery cuts it off
			}
			p.hidden = true
			p.found(name, corrupt.At, remedyRecords, "%s", corrupt.Reason)
			return s, nil
		}
		if vfs.IsNotExist(err) && p.Live {
			return s, nil // retention took it
		}
		if err != nil {
			return s, err
		}
		p.Read.Add(int64(len(b.Batch)))
		if err := b.Check(); err != nil {
			if s.whole = false; p.next >= p.floor {
				return s, nil
			}
			p.hidden = true
			p.found(name, b.At, remedyRecords, "offsets %d to %d: %v", b.BaseOffset(), b.LastOffset(), err)
			continue
		}
		if at, reason := p.follows(&s, b, limit); reason != "" {
			s.whole, p.hidden = false, true
			p.found(name, at, remedyRecords, "%s", reason)
		}
		maxMs = max(maxMs, b.RecordsMaxTimestampMs())
		s.batches = append(s.batches, batch{name, b.At, b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), maxMs})
		if done, ok := p.producers.Apply(b.Batch, time.UnixMilli(maxMs)); ok && done.Aborted {
			s.aborted = append(s.aborted, commitlog.AbortedTxn{
				ProducerID: done.ProducerID, FirstOffset: done.FirstOffset, LastOffset: done.Marker, LastStable: done.LastStable,
			})
		}
		p.next = b.NextOffset()
	}
	return s, nil
}

// follows tells what is wrong with the offsets of a batch, and which batch is to blame: the one before if it left a gap.
func (p *partition) follows(s *segment, b commitlog.PositionedBatch, limit kafka.Offset) (int64, string) {
	switch n := len(s.batches); {
	case b.BaseOffset() < p.next && n > 1 && s.batches[n-1].base > s.batches[n-2].last+1:
		last := s.batches[n-1]
		return last.at, fmt.Sprintf("offsets %d to %d are followed by %d", last.base, last.last, b.BaseOffset())
	case b.BaseOffset() < p.next:
		return b.At, fmt.Sprintf("offset %d where %d is next", b.BaseOffset(), p.next)
	case b.LastOffset() >= limit:
		return b.At, fmt.Sprintf("offsets %d to %d, but the next segment begins with %d", b.BaseOffset(), b.LastOffset(), limit)
	case b.BaseOffset() > p.next && !p.gaps && !(n > 0 && !s.whole):
		return b.At, fmt.Sprintf("offsets %d to %d are missing before it", p.next, b.BaseOffset()-1)
	}
	return 0, ""
}

// checkEpochs compares the leader epochs of the batches with leader-epoch-checkpoint, and returns what that says. It is cut at the log's
// start, below which batches may still be there; of a log that was not closed in order the start may be known by it alone.
func (p *partition) checkEpochs(start kafka.Offset, closed bool) ([]commitlog.EpochStart, error) {
	name := filepath.Join(p.path, commitlog.EpochsFile)
	content, err := vfs.ReadFile(p.FS, name)
	if err != nil && !vfs.IsNotExist(err) {
		return nil, err
	}
	entries, parseErr := commitlog.ParseEpochs(content)
	if parseErr != nil || err != nil || len(entries) == 0 {
		return nil, nil //nolint:nilerr // told, or made anew
	}
	if !closed {
		start = max(start, entries[0].Start)
	}
	var runs []run
	for _, s := range p.segments {
		for _, b := range s.batches {
			if b.last >= p.floor || b.last < start {
				continue
			}
			if n := len(runs); n > 0 && runs[n-1].epoch == b.epoch {
				runs[n-1].batches++
				continue
			}
			at, line := epochAt(entries, max(b.base, entries[0].Start))
			runs = append(runs, run{batch: b, batches: 1, said: at, line: line})
		}
	}
	matching := slices.ContainsFunc(runs, func(r run) bool { return r.epoch == r.said })
	for _, r := range runs {
		switch {
		case r.epoch == r.said:
		case r.batches == 1 && matching:
			p.found(r.file, r.at, remedyRecords, "leader epoch %d of offset %d, but %s says %d", r.epoch, r.base, commitlog.EpochsFile, r.said)
		default:
			p.found(name, lineStart(content, r.line), remedyDerived, "leader epoch %d from offset %d on, but the records have %d", r.said, r.base, r.epoch)
		}
	}
	return entries, nil
}

// run is batches of one leader epoch one after the other, by the first of them.
type run struct {
	batch
	batches int
	said    kafka.Epoch // what the checkpoint says
	line    int
}

// epochAt finds an offset's epoch and in which line it is: the first entry is in line 2.
func epochAt(entries []commitlog.EpochStart, offset kafka.Offset) (kafka.Epoch, int) {
	i := len(entries) - 1
	for i > 0 && entries[i].Start > offset {
		i--
	}
	return entries[i].Epoch, i + 2
}

func lineStart(content []byte, line int) int64 {
	at := 0
	for range line {
		at += bytes.IndexByte(content[at:], '\n') + 1
	}
	return int64(at)
}

func (p *partition) span() span {
	if len(p.segments) == 0 {
		return span{}
	}
	return span{start: p.segments[0].base, end: p.next, valid: !p.hidden}
}
