package replica

import (
	"slices"

	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Observation is what a Manager looks like at one moment, for metrics.
type Observation struct {
	Dirs       []DirObservation
	Partitions []PartitionObservation // awake and with an open log, by name; no more than were asked for
	LeftOut    int                    // partitions that would have been among them
	Topics     map[string]int64       // bytes appended to each topic since the start; no more topics than were asked for
	Asleep     int
	Offline    int // that answer KAFKA_STORAGE_ERROR
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
	Segments   int
}

// Observe looks at everything that is awake. It wakes nothing, takes no lock that an append waits for, and reads no file.
func (m *Manager) Observe(partitionsMax, topicsMax int) Observation {
	seen := Observation{Topics: map[string]int64{}}
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
	for s := range m.slots() {
		p := s.awakened()
		if p == nil {
			seen.Asleep++
			continue
		}
		m.observe(p, &seen, topicsMax)
		switch {
		case p.log == nil || p.serves() != nil:
		case len(seen.Partitions) == partitionsMax:
			seen.LeftOut++
		default:
			seen.Partitions = append(seen.Partitions, p.observe())
		}
	}
	return seen
}

// observe counts a partition.
func (m *Manager) observe(p *replica, seen *Observation, topicsMax int) {
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
	if _, known := seen.Topics[p.tp.Topic]; known || len(seen.Topics) < topicsMax {
		seen.Topics[p.tp.Topic] += p.appendedBefore + p.appended.Load()
	}
}

// HighWatermark returns the high watermark of a partition, and false where this node does not know it. It wakes nothing.
func (m *Manager) HighWatermark(tp kafka.TopicPartition) (kafka.Offset, bool) {
	t := m.table.named(tp.Topic)
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.slots) || t.slots[tp.Partition] == nil {
		return kafka.NoOffset, false
	}
	s := t.slots[tp.Partition]
	if p := s.awakened(); p != nil {
		return kafka.Offset(p.high.Load()), p.leads() && p.serves() == nil
	}
	return s.highAtRest()
}

func (p *replica) leads() bool { return kafka.Epoch(p.epoch.Load()) != kafka.NoEpoch }

func (p *replica) observe() PartitionObservation {
	return PartitionObservation{
		TopicPartition: p.tp, Bytes: p.log.Size(), Start: p.log.StartOffset(), End: p.log.EndOffset(),
		Segments: len(p.log.Segments()),
	}
}
