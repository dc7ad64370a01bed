package replica

import (
	"cmp"
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// placement is where a partition's log is, or is to be.
type placement struct {
	dir    *logDir
	exists bool
	lost   bool // its log directory is not there: its records must not be replaced by an empty log
}

// place chooses, and sets, the log directory of a partition: where it is found, else where the metadata puts it, else the one with the
// fewest partitions. Where the metadata puts it into a directory that is not there, it is made anew if others have its records.
func (m *Manager) place(p *replica, image *meta.Image) placement {
	if d, ok := m.found[p.tp]; ok {
		delete(m.found, p.tp)
		if is := m.assigned(p.tp, image); !meta.NamesDir(is) || is == d.disk.ID() || d.holds(p) {
			p.dir = d
			m.reportPlace(p, image)
			return placement{dir: d, exists: true}
		}
		// The topic was deleted and made anew while this node was away. Where the folder is in the right place, opening it tells.
		m.setAside(d, p.tp, "it is of another topic of that name")
	}
	if id := m.assigned(p.tp, image); meta.NamesDir(id) {
		for _, d := range m.dirs {
			if d.disk.ID() == id {
				return placement{dir: d}
			}
		}
		if has, _ := image.Partition(p.tp); !m.mayRefill(has) {
			m.log.Error("a partition answers KAFKA_STORAGE_ERROR: the log directory that holds it is none of log.dirs; "+
				"put the directory back, or delete the topic", "partition", p.tp.String(), "directory.id", id.String())
			return placement{dir: m.dirs[0], lost: true}
		}
		m.log.Info("a partition is copied anew from its leader, as the log directory that held it is none of log.dirs any more",
			"partition", p.tp.String(), "directory.id", id.String())
	}
	p.dir = m.emptiest()
	m.reportPlace(p, image)
	return placement{dir: p.dir}
}

// mayRefill tells whether an empty log may take the place of one whose directory is not there, as after a disk was emptied: others have
// all of its records, this node does not count as one that does, and it is not in a directory that only can't be read now.
func (m *Manager) mayRefill(has *meta.Partition) bool {
	safe := slices.Concat(has.ISR, has.ELR)
	return len(safe) > 0 && !slices.Contains(safe, m.node) && !slices.ContainsFunc(m.dirs, (*logDir).failed)
}

// holds tells whether the partition's folder is of its topic, or may be.
func (d *logDir) holds(p *replica) bool {
	id, err := d.disk.TopicID(p.tp)
	return err != nil || id.IsZero() || id.IsNear(p.id) // a damaged partition.metadata, too: opening the log tells
}

// assigned is the id of the directory in which the metadata has this node's replica.
func (m *Manager) assigned(tp kafka.TopicPartition, image *meta.Image) kafka.UUID {
	has, ok := image.Partition(tp)
	if !ok {
		return kafka.UUID{}
	}
	if i := slices.Index(has.Replicas, m.node); i >= 0 && i < len(has.Dirs) {
		return has.Dirs[i]
	}
	return kafka.UUID{}
}

// emptiest is the directory with the fewest partitions, one that takes new ones and has room if there is such a one.
func (m *Manager) emptiest() *logDir {
	return slices.MinFunc(m.dirs, func(a, b *logDir) int {
		return cmp.Or(cmp.Compare(a.reluctance(), b.reluctance()), cmp.Compare(a.count.Load(), b.count.Load()))
	})
}

// reluctance is 0 for a directory that takes new partitions, and more for one that should not.
func (d *logDir) reluctance() int {
	switch {
	case d.failed():
		return 3
	case d.shut.Load():
		return 2
	case shortage(d.space.level.Load()) > roomy:
		return 1
	}
	return 0
}

// dirReport is what the cluster is to be told about this node's directories.
type dirReport struct {
	mu     sync.Mutex // guards all below
	places []meta.ReplicaDir
	due    bool // directories failed, or were cordoned or the opposite
}

// reportPlace notes where a partition is, unless the metadata says so.
func (m *Manager) reportPlace(p *replica, image *meta.Image) {
	if is := m.assigned(p.tp, image); is == p.dir.disk.ID() || len(m.dirs) == 1 && !meta.NamesDir(is) {
		return
	}
	m.addReport(p, p.dir)
	m.tellReport()
}

// addReport notes where a partition is, or will be.
func (m *Manager) addReport(p *replica, d *logDir) {
	m.report.mu.Lock()
	defer m.report.mu.Unlock()
	m.report.places = append(m.report.places, meta.ReplicaDir{Topic: p.id, Partition: p.tp.Partition, Dir: d.disk.ID()})
}

// reportDirs notes that the state of directories has changed.
func (m *Manager) reportDirs() {
	m.report.mu.Lock()
	m.report.due = true
	m.report.mu.Unlock()
	m.tellReport()
}

func (m *Manager) tellReport() {
	if m.onDirReport != nil {
		m.onDirReport()
	}
}

// TakeDirReport returns what is to be told about this node's directories, once; false when there is nothing,
// or no directory is left.
func (m *Manager) TakeDirReport() (report meta.DirReport, ok bool) {
	m.report.mu.Lock()
	defer m.report.mu.Unlock()
	if !m.report.due && len(m.report.places) == 0 {
		return report, false
	}
	report = meta.DirReport{Broker: m.node, Online: []kafka.UUID{}, Cordoned: []kafka.UUID{}, Replicas: m.report.places}
	for _, d := range m.dirs {
		if !d.failed() {
			report.Online = append(report.Online, d.disk.ID())
		}
		if d.shut.Load() {
			report.Cordoned = append(report.Cordoned, d.disk.ID())
		}
	}
	m.report.places, m.report.due = nil, false
	return report, len(report.Online) > 0
}

// ReturnDirReport takes a report back that could not be told: it is part of the next one.
func (m *Manager) ReturnDirReport(report meta.DirReport) {
	m.report.mu.Lock()
	defer m.report.mu.Unlock()
	m.report.places, m.report.due = append(report.Replicas, m.report.places...), true
}

// cordon closes the directories to new partitions, and opens the others.
func (m *Manager) cordon(paths []string) {
	changed := false
	for _, d := range m.dirs {
		shut := slices.Contains(paths, d.disk.Path())
		changed = d.shut.Swap(shut) != shut || changed
	}
	if changed {
		m.log.Info("cordoned log directories take no new partitions", "directories", paths)
		m.reportDirs()
	}
}
