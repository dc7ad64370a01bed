package meta

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Whatever the brokers and racks: leaders are in service, replicas of a partition are on different brokers, as many racks as there are
// take part, each broker in service leads as often as the others of its rack, and without racks as often as all others.
func TestPlacementIsSpread(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(500) {
		random := rand.New(rand.NewPCG(seed+i, 0))
		im := NewImage("cluster")
		racks, living, n := map[kafka.NodeID]string{}, 0, 1+random.IntN(9)
		kinds := random.IntN(4) // of racks; 0 is none
		for id := range n {
			b := &Broker{ID: kafka.NodeID(id), Fenced: random.IntN(4) == 0}
			if kinds > 0 {
				rack := fmt.Sprint(random.IntN(kinds))
				b.Rack, racks[b.ID] = &rack, rack
			}
			if !b.Fenced {
				living++
			}
			im.brokers = append(im.brokers, b)
		}
		factor := 1 + random.IntN(n)
		rows, err := place(im, 4*max(1, living), factor, random)
		if (err != nil) != (living == 0) {
			t.Fatalf("seed %d: %d of %d brokers in service, factor %d: %v", seed+i, living, n, factor, err)
		}
		all := map[string]bool{}
		for _, rack := range racks {
			all[rack] = true
		}
		leads := map[kafka.NodeID]int{}
		for _, row := range rows {
			leads[row[0]]++
			used := map[string]bool{}
			for _, id := range row {
				used[racks[id]] = true
			}
			if !im.Alive(row[0]) || repeats(row) || len(row) != factor {
				t.Fatalf("seed %d: replicas %v, of %d brokers", seed+i, row, n)
			}
			if kinds > 0 && len(used) < min(factor, len(all)) {
				t.Fatalf("seed %d: %v are in %d racks, of %v", seed+i, row, len(used), racks)
			}
		}
		if kinds > 0 {
			continue
		}
		counts := []int{}
		for _, b := range im.brokers {
			if !b.Fenced {
				counts = append(counts, leads[b.ID])
			}
		}
		if len(counts) > 0 && slices.Max(counts) != slices.Min(counts) {
			t.Fatalf("seed %d: brokers lead %v", seed+i, counts)
		}
	}
}
