package meta

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/raftsman/raftsman/internal/kafka"
)

// WantedFactor is how many replicas the partitions of a topic are to have when there are enough brokers, and its min.insync.replicas
// then; 0 is as it is.
type WantedFactor struct {
	Topic  string
	Factor int
	MinISR int
}

// DecideRaiseFactors gives topics that were made when there were fewer brokers the replicas that they are to have, as far as brokers in
// service go round: a partition with too few is reassigned to the brokers that it is on and others, those of other racks and with
// the fewest replicas of the topic first. The replica that comes first, and is to lead, is the one that does so least. What is on its way
// already, or has enough, stays. A smaller min.insync.replicas follows when no partition would refuse records by it. Due when a broker
// comes into service, and now and then.
func DecideRaiseFactors(im *Image, wanted []WantedFactor, env Env) []Entry {
	changes := changesOf(im, &env)
	var settings []Entry
	for _, w := range wanted {
		t, exists := im.Topic(w.Topic)
		if !exists {
			continue
		}
		spread := newSpread(im, t)
		factor := min(w.Factor, len(spread.brokers))
		for i := range t.Partitions {
			if p := &t.Partitions[i]; len(p.Replicas) < factor && !p.Reassigning() && len(changes.entries) < requestRecordsMax {
				change := changes.change(t, int32(i))
				change.moveTo(spread.extend(p.Replicas, factor))
				changes.take(change.entries())
			}
		}
		short := func(p Partition) bool {
			return p.Reassigning() || len(p.Replicas) < w.Factor || len(p.ISR) < w.MinISR
		}
		if w.MinISR > im.minISR(t.Name, &env) && !slices.ContainsFunc(t.Partitions, short) {
			value := strconv.Itoa(w.MinISR)
			settings = append(settings, setConfig(Resource{TopicResource, t.Name}, minInsyncReplicas, &value))
		}
	}
	return append(changes.entries, settings...)
}

// spread counts, of the brokers that take replicas, what they have of a topic.
type spread struct {
	im       *Image
	brokers  []*Broker
	replicas map[kafka.NodeID]int
	first    map[kafka.NodeID]int
}

func newSpread(im *Image, t *Topic) *spread {
	s := &spread{im: im, replicas: map[kafka.NodeID]int{}, first: map[kafka.NodeID]int{}}
	for _, b := range im.Brokers() {
		if b.inService() && !b.allCordoned() {
			s.brokers = append(s.brokers, b)
		}
	}
	for _, p := range t.Partitions {
		s.count(p.Replicas, 1)
	}
	return s
}

func (s *spread) count(replicas []kafka.NodeID, by int) {
	for i, id := range replicas {
		s.replicas[id] += by
		if i == 0 {
			s.first[id] += by
		}
	}
}

// extend returns factor replicas: those that there are, and others.
func (s *spread) extend(replicas []kafka.NodeID, factor int) []kafka.NodeID {
	s.count(replicas, -1)
	next := slices.Clone(replicas)
	for len(next) < factor {
		fresh := slices.DeleteFunc(slices.Clone(s.brokers), func(b *Broker) bool { return slices.Contains(next, b.ID) })
		if len(fresh) == 0 {
			break
		}
		next = append(next, slices.MinFunc(fresh, func(a, b *Broker) int {
			return cmp.Or(
				cmp.Compare(s.sharing(next, a), s.sharing(next, b)), cmp.Compare(s.replicas[a.ID], s.replicas[b.ID]), cmp.Compare(a.ID, b.ID))
		}).ID)
	}
	lead := slices.Index(next, slices.MinFunc(next, func(a, b kafka.NodeID) int { return cmp.Compare(s.first[a], s.first[b]) }))
	next[0], next[lead] = next[lead], next[0]
	s.count(next, 1)
	return next
}

// sharing counts the replicas in a broker's rack.
func (s *spread) sharing(replicas []kafka.NodeID, b *Broker) (n int) {
	for _, id := range replicas {
		if other, ok := s.im.Broker(id); ok && b.Rack != nil && other.Rack != nil && *b.Rack == *other.Rack {
			n++
		}
	}
	return n
}
