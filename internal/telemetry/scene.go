package telemetry

import (
	"time"

	"github.com/raftsman/raftsman/internal/clientmetrics"
	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/otlp"
	"github.com/raftsman/raftsman/internal/replica"
)

// Limits of what gets series of its own.
const (
	partitionsMax = 10_000
	topicsMax     = 10_000
	groupsMax     = 1_000
	commitsMax    = 10_000
)

// groupsWait is how long a scrape waits for the coordinators, all groups together. What they have not told by then is left out.
const groupsWait = 2 * time.Second

type (
	dirScene       = replica.DirObservation
	partitionScene = replica.PartitionObservation
	forwardScene   = otlp.Metrics
)

// scene is what one scrape has seen.
type scene struct {
	started started
	from    *Sources
	image   *meta.Image
	seen    replica.Observation
	placed  placed
	groups  int // -1: not known
	commits []commit
	clients clientmetrics.Observation
}

// placed counts partitions by the metadata.
type placed struct{ leaderless, underReplicated, leaders, here int64 }

// commit is an offset that a group has stored.
type commit struct {
	group, topic string
	partition    int32
	offset, high kafka.Offset // high: kafka.NoOffset where it is not known
}

func look(from *Sources, since started) *scene {
	s := &scene{started: since, from: from, image: from.Image(), seen: from.Replicas.Observe(partitionsMax, topicsMax), groups: -1}
	for t := range s.image.Topics() {
		for i := range t.Partitions {
			s.placed.add(&t.Partitions[i], from.NodeID)
		}
	}
	s.lookAtGroups()
	if from.Clients != nil {
		s.clients = from.Clients()
	}
	return s
}

func (n *placed) add(p *meta.Partition, node kafka.NodeID) {
	n.leaderless += oneIf(p.Leader == kafka.NoNode)
	if p.Leader == node {
		n.leaders++
		n.underReplicated += oneIf(len(p.ISR) < len(p.Replicas))
	}
	for _, r := range p.Replicas {
		n.here += oneIf(r == node)
	}
}

// lookAtGroups asks the coordinators for all groups and what they have committed.
func (s *scene) lookAtGroups() {
	deadline := time.NewTimer(groupsWait)
	defer deadline.Stop()
	listed := make(chan []group.Listed, 1)
	s.from.Coord.List(func(groups []group.Listed, code kafka.Error) {
		if code == kafka.None {
			listed <- append([]group.Listed{}, groups...)
		} else {
			listed <- nil
		}
	})
	var groups []group.Listed
	select {
	case groups = <-listed:
	case <-deadline.C:
	}
	if groups == nil {
		return
	}
	s.groups = len(groups)
	groups = groups[:min(len(groups), groupsMax)]
	type stored struct {
		group string
		is    *group.FetchReply
	}
	replies := make(chan stored, len(groups))
	for _, g := range groups {
		s.from.Coord.Do(g.Group, &group.Fetch{}, func(r group.Reply) {
			is, _ := r.(*group.FetchReply)
			replies <- stored{g.Group, is}
		})
	}
	for range groups {
		select {
		case r := <-replies:
			s.take(r.group, r.is)
		case <-deadline.C:
			return
		}
	}
}

func (s *scene) take(name string, stored *group.FetchReply) {
	if stored == nil || stored.Code != kafka.None {
		return
	}
	for _, t := range stored.Topics {
		for _, p := range t.Partitions {
			if p.Offset < 0 || p.Code != kafka.None || len(s.commits) == commitsMax {
				continue
			}
			high, known := s.from.Replicas.HighWatermark(kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			if !known {
				high = kafka.NoOffset
			}
			s.commits = append(s.commits, commit{name, t.Topic, p.Partition, p.Offset, high})
		}
	}
}

func (s *scene) aliveBrokers() int64 {
	n := int64(0)
	for _, b := range s.image.Brokers() {
		n += oneIf(!b.Fenced)
	}
	return n
}

func (s *scene) partitionCount() int64 { return s.placed.here }

func (s *scene) leaderCount() int64 { return s.placed.leaders }

func (s *scene) cleaner() *replica.CleanerMetrics { return s.from.Replicas.CleanerMetrics() }
