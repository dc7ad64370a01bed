package replica

import (
	"slices"

	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Observation is what a Manager looks like at one moment, for metrics.
type Observation struct {
	Dirs       []DirObservation
	Partitions []PartitionObservation // awake and with an open log, by name; no more than were asked for
	LeftOut    int                    // partitions that would have been among them
	Topics     []TopicObservation     // of which something was asked, by name; no more than were asked for
	All        TrafficNow             // of all topics, deleted ones included
	Asleep     int
	Offline    int // that answer KAFKA_STORAGE_ERROR
	// WaitingFetches counts a fetch for each partition that it waits for, WaitingProduces appends, WaitingDeletes DeleteRecords.
	WaitingFetches, WaitingProduces, WaitingDeletes int64
}

// TopicObservation is one topic.
type TopicObservation struct {
	Name string
	TrafficNow
}

// DirObservation is one log directory.
type DirObservation struct {
	Path          string
	Offline       bool
	Cordoned      bool
	Recovered     bool  // no log in it waits for recovery
	Total, Usable int64 // bytes of its file system; -1 when not known
	Room          condition.Directory
	Partitions    int64
	Uncleanable   int // partitions that are not compacted any more
	Damaged       int
}

// PartitionObservation is one partition.
type PartitionObservation struct {
	kafka.TopicPartition
	Bytes      int64
	Start, End kafka.Offset
	High       kafka.Offset // high watermark
	Leads      bool         // this node leads it
	Segments   int
	MinISR     int // min.insync.replicas
}

// Observe looks at everything that is awake. It wakes nothing, takes no lock that an append waits for, and reads no file.
func (m *Manager) Observe(partitionsMax, topicsMax int) Observation {
	seen := Observation{WaitingProduces: m.parked.Value(), WaitingDeletes: m.deletions.Value()}
	for _, d := range m.dirs {
		o := DirObservation{
			Path: d.disk.Path(), Offline: d.failed(), Cordoned: d.shut.Load(), Recovered: d.recovered.Load(), Total: -1, Usable: -1, Partitions: d.count.Load(),
		}
		if !o.Offline {
			if total, usable, err := d.disk.Free(); err == nil {
				o.Total, o.Usable = total, usable
			}
		}
		o.Room = d.space.condition(o.Total)
		seen.Dirs = append(seen.Dirs, o)
	}
	seen.Offline = int(m.unmade.count.Load())
	topics, gone := m.topicsAndGone()
	seen.All = gone
	for _, t := range topics {
		if t.traffic == nil {
			continue
		}
		now := t.traffic.Now()
		seen.All.add(&now)
		if now != (TrafficNow{}) && len(seen.Topics) < topicsMax {
			seen.Topics = append(seen.Topics, TopicObservation{t.name, now})
		}
		for _, s := range t.slots {
			if s != nil {
				m.observe(s, &seen, partitionsMax)
			}
		}
	}
	return seen
}

// observe looks at a partition.
func (m *Manager) observe(s *slot, seen *Observation, partitionsMax int) {
	p := s.awakened()
	if p == nil {
		seen.Asleep++
		return
	}
	m.count(p, seen)
	switch {
	case p.log == nil || p.serves() != nil:
	case len(seen.Partitions) == partitionsMax:
		seen.LeftOut++
	default:
		seen.Partitions = append(seen.Partitions, p.observe())
	}
}

// count counts a partition that is awake.
func (m *Manager) count(p *replica, seen *Observation) {
	seen.WaitingFetches += int64(p.waiting.Load())
	if at := slices.Index(m.dirs, p.dir); at >= 0 {
		if p.uncleanable.Load() != nil {
			seen.Dirs[at].Uncleanable++
		}
		if p.damage.Load() != nil {
			seen.Dirs[at].Damaged++
		}
	}
	if kafka.Error(p.refusal.Load()) == kafka.KafkaStorageError {
		seen.Offline++
	}
}

// OfflineDirs are the log directories that failed.
func (m *Manager) OfflineDirs() []string {
	var paths []string
	for _, d := range m.allDirs {
		if d.failed() {
			paths = append(paths, d.disk.Path())
		}
	}
	return paths
}

// Readable returns the log's start and the high watermark of a partition, and false where this node does not know it. Of one that
// sleeps it knows no start, which is kafka.NoOffset then. It wakes nothing.
func (m *Manager) Readable(tp kafka.TopicPartition) (start, high kafka.Offset, known bool) {
	s := m.slot(tp)
	if s == nil {
		return kafka.NoOffset, kafka.NoOffset, false
	}
	p := s.awakened()
	if p == nil {
		high, known = s.highAtRest()
		return kafka.NoOffset, high, known
	}
	if !p.leads() || p.serves() != nil {
		return kafka.NoOffset, kafka.NoOffset, false
	}
	return p.log.StartOffset(), kafka.Offset(p.high.Load()), true
}

// slot returns where a partition of this node is found, or nil.
func (m *Manager) slot(tp kafka.TopicPartition) *slot {
	t := m.table.named(tp.Topic)
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.slots) {
		return nil
	}
	return t.slots[tp.Partition]
}

func (p *replica) leads() bool { return kafka.Epoch(p.epoch.Load()) != kafka.NoEpoch }

func (p *replica) observe() PartitionObservation {
	return PartitionObservation{
		TopicPartition: p.tp, Bytes: p.log.Size(), Start: p.log.StartOffset(), End: p.log.EndOffset(),
		High: kafka.Offset(p.high.Load()), Leads: p.leads(),
		Segments: p.log.SegmentCount(), MinISR: p.settings.Load().topic.MinISR,
	}
}

// FirstUnread tells when a record was made that a group has not read: the first one from an offset on, as its batch says, whose header
// alone is read. Between the batch's first and its latest time it is taken to lie where its offset lies. known is false while the
// partition sleeps or is not served, and where its records have no time. It wakes nothing and takes no lock, but may wait for the disk.
func (m *Manager) FirstUnread(tp kafka.TopicPartition, from kafka.Offset) (ms int64, known bool) {
	s := m.slot(tp)
	if s == nil {
		return 0, false
	}
	p := s.awakened()
	if p == nil || p.log == nil || p.serves() != nil {
		return 0, false
	}
	from = max(from, p.log.StartOffset())
	chunk, err := p.log.Read(from, kafka.Offset(p.high.Load()), 0, true)
	if err != nil || chunk.File == nil {
		return 0, false // whoever reads the records meets the error
	}
	defer chunk.Release()
	header := make(record.Batch, record.HeaderBytes)
	if n, _ := chunk.File.ReadAt(header, chunk.Pos); n < len(header) || header.Magic() != record.Magic {
		return 0, false
	}
	ms = header.BaseTimestampMs()
	latest, passed, of := header.MaxTimestampMs(), int64(from-header.BaseOffset()), int64(header.LastOffsetDelta())
	switch {
	case header.LogAppendTime():
		ms = latest
	case latest > ms && passed > 0 && of > 0:
		ms += int64(float64(latest-ms) * min(float64(passed)/float64(of), 1))
	}
	return ms, ms >= 0
}
