package meta

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// place chooses the replicas of new partitions. Brokers stand in a ring in which the racks take turns; each partition's first
// replica is the next living broker of the ring, and the others follow it at a distance that changes with every round, in
// racks that the partition is not in yet as long as there are such racks. So leaders and followers are spread evenly, and a
// broker's or a rack's failure hits as few replicas of one partition as possible.
func place(im *Image, partitions, factor int, random *rand.Rand) ([][]kafka.NodeID, error) {
	ring := placementRing(im, random)
	living := slices.DeleteFunc(slices.Clone(ring), func(b *Broker) bool { return b.Fenced || b.InControlledShutdown })
	switch {
	case len(ring) < factor:
		return nil, kafka.Refuse(kafka.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): each replica needs a broker of its own that takes replicas, and there are %d", factor, len(ring))
	case len(living) == 0:
		return nil, kafka.Refuse(kafka.InvalidReplicationFactor, "no broker is alive to take a partition")
	}
	start := random.IntN(len(living))
	rows := make([][]kafka.NodeID, partitions)
	for i := range rows {
		first := living[(start+i)%len(living)]
		rows[i] = replicasFrom(ring, first, i/len(living), factor)
	}
	return rows, nil
}

// placementRing returns the brokers that take new replicas, racks taking turns, in a random order within each rack.
func placementRing(im *Image, random *rand.Rand) []*Broker {
	racks := map[string][]*Broker{}
	for _, b := range im.Brokers() {
		if b.allCordoned() {
			continue
		}
		rack := ""
		if b.Rack != nil {
			rack = *b.Rack
		}
		racks[rack] = append(racks[rack], b)
	}
	var queues [][]*Broker
	for _, rack := range slices.Sorted(maps.Keys(racks)) {
		random.Shuffle(len(racks[rack]), func(i, j int) { racks[rack][i], racks[rack][j] = racks[rack][j], racks[rack][i] })
		queues = append(queues, racks[rack])
	}
	var ring []*Broker
	for turn := 0; ; turn++ {
		before := len(ring)
		for _, queue := range queues {
			if turn < len(queue) {
				ring = append(ring, queue[turn])
			}
		}
		if len(ring) == before {
			return ring
		}
	}
}

func (b *Broker) allCordoned() bool {
	return len(b.LogDirs) > 0 && len(b.CordonedDirs) >= len(b.LogDirs)
}

// replicasFrom takes first and factor-1 others of the ring, beginning round places behind it.
func replicasFrom(ring []*Broker, first *Broker, round, factor int) []kafka.NodeID {
	replicas := []kafka.NodeID{first.ID}
	racks := []*string{first.Rack}
	at := slices.Index(ring, first)
	for _, newRackOnly := range []bool{true, false} {
		for step := range ring {
			if len(replicas) == factor {
				return replicas
			}
			b := ring[(at+1+(round+step)%max(1, len(ring)-1))%len(ring)]
			if slices.Contains(replicas, b.ID) || newRackOnly && b.Rack != nil && hasRack(racks, b.Rack) {
				continue
			}
			replicas, racks = append(replicas, b.ID), append(racks, b.Rack)
		}
	}
	return replicas
}

func hasRack(racks []*string, rack *string) bool {
	return slices.ContainsFunc(racks, func(r *string) bool { return r != nil && *r == *rack })
}
