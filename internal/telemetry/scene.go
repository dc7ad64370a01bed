package telemetry

import (
	"strconv"
	"time"

	"github.com/raftsman/raftsman/internal/clientmetrics"
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

type (
	dirScene     = replica.DirObservation
	forwardScene = otlp.Metrics
)

// scene is what one scrape has seen.
type scene struct {
	started started
	from    *Sources
	image   *meta.Image
	seen    replica.Observation
	placed  placed
	places  []place // by name
	open    []open  // by name
	groups  groups
	txns    transactions
	numbers []string // the first whole numbers
	clients clientmetrics.Observation
}

// placed counts partitions by the metadata.
type placed struct{ leaderless, underReplicated, leaders, here, notPreferred int64 }

func look(from *Sources, since started, ages *unreadTimes) *scene {
	s := &scene{started: since, from: from, image: from.Image(), seen: from.Replicas.Observe(partitionsMax, topicsMax)}
	s.lookAtPartitions()
	s.groups.look(from)
	s.txns.look(from)
	ages.fill(s, time.Now())
	if from.Clients != nil {
		s.clients = from.Clients()
	}
	return s
}

func (n *placed) add(p *meta.Partition, node kafka.NodeID) {
	n.leaderless += oneIf(p.Leader == kafka.NoNode)
	n.notPreferred += oneIf(!preferred(p))
	if p.Leader == node {
		n.leaders++
		n.underReplicated += oneIf(len(p.ISR) < len(p.Replicas))
	}
	for _, r := range p.Replicas {
		n.here += oneIf(r == node)
	}
}

// preferred tells whether the first replica leads.
func preferred(p *meta.Partition) bool { return len(p.Replicas) > 0 && p.Replicas[0] == p.Leader }

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

// place is a partition of the cluster, as many as get series.
type place struct {
	has    *meta.Partition
	high   kafka.Offset // high watermark; kafka.NoOffset where it is not known
	labels []byte       // as the text has them
}

// lookAtPartitions finds what the series of partitions share, so that a line is little more than its name and value.
func (s *scene) lookAtPartitions() {
	text := make([]byte, 0, len(s.seen.Partitions)*labelBytes)
	labels := func(topic string, number int32) []byte {
		from := len(text)
		text = appendLabels(text, perPartition, topic, s.digits(number))
		return text[from:]
	}
	s.open = make([]open, len(s.seen.Partitions))
	for i := range s.seen.Partitions {
		p := &s.seen.Partitions[i]
		s.open[i] = open{PartitionObservation: p, labels: labels(p.Topic, p.Partition)}
	}
	s.places = make([]place, 0, min(partitionsMax, s.image.PartitionCount()))
	next := s.open // in the same order
	for t := range s.image.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			s.placed.add(p, s.from.NodeID)
			tp := kafka.TopicPartition{Topic: t.Name, Partition: int32(i)}
			for len(next) > 0 && before(next[0].TopicPartition, tp) {
				next = next[1:]
			}
			isOpen := len(next) > 0 && next[0].TopicPartition == tp
			if isOpen {
				next[0].spare = len(p.ISR) - max(1, min(next[0].MinISR, len(p.Replicas))) // never more than there are replicas
			}
			if len(s.places) == partitionsMax {
				continue
			}
			is := place{has: p, high: kafka.NoOffset}
			if isOpen && next[0].Leads {
				is.high, is.labels = next[0].High, next[0].labels
			} else {
				_, high, known := s.from.Replicas.Readable(tp)
				if is.labels = labels(t.Name, int32(i)); known {
					is.high = high
				}
			}
			s.places = append(s.places, is)
		}
	}
}

// labelBytes is about how long the labels of a partition are.
const labelBytes = 48

func before(a, b kafka.TopicPartition) bool {
	return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
}

// open is a partition that is open here.
type open struct {
	*replica.PartitionObservation
	labels []byte // as the text has them
	spare  int    // how many more replicas are in sync than acks=all needs
}

// digits writes a partition's number, which a scrape does many times.
func (s *scene) digits(n int32) string {
	if n >= partitionsMax {
		return digits(n)
	}
	for int(n) >= len(s.numbers) {
		s.numbers = append(s.numbers, digits(int32(len(s.numbers))))
	}
	return s.numbers[n]
}

func digits(n int32) string { return strconv.Itoa(int(n)) }

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
