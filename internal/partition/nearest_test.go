package partition

import (
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestNearest: of the followers that are near and in sync the one that has most, then the one that was caught up last, then the larger id, as
// Kafka's comparator of replicas has it.
func TestNearest(t *testing.T) {
	l := NewLeader(Config{Self: 1, MinISR: 1, LagMaxMs: 1000, Brokers: Brokers{}},
		Leadership{Epoch: 1, Replicas: []kafka.NodeID{1, 2, 3, 4, 5}, ISR: []kafka.NodeID{1, 2, 3, 4}}, Positions{End: 10, Stable: 10}, 0)
	fetch := func(id kafka.NodeID, end kafka.Offset, nowMs int64) {
		t.Helper()
		if _, err := l.FollowerAt(Fetched{ID: id, Epoch: 1, BrokerEpoch: NoBrokerEpoch, End: end}, nowMs, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want kafka.NodeID, from kafka.Offset, ids ...kafka.NodeID) {
		t.Helper()
		if got := l.Nearest(from, func(id kafka.NodeID) bool { return slices.Contains(ids, id) }); got != want {
			t.Errorf("%s: node %d, want %d", what, got, want)
		}
	}
	want("nobody has fetched", kafka.NoNode, 0, 2, 3, 4, 5)
	fetch(3, 10, 10)
	fetch(2, 10, 20)
	fetch(4, 8, 30)
	fetch(5, 10, 30)
	want("the later of two that have all", 2, 0, 2, 3, 4)
	want("the one that has most", 3, 0, 3, 4)
	want("one that has the offset", 4, 8, 4)
	want("none has the offset", kafka.NoNode, 9, 4)
	want("not in sync", kafka.NoNode, 0, 5)
	want("none is near", kafka.NoNode, 0)
	fetch(2, 10, 40)
	fetch(3, 10, 40)
	want("two alike", 3, 0, 2, 3)
}
