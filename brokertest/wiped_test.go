package brokertest_test

import "testing"

// An emptied disk is filled again: the node joins the quorum anew and copies all replicas, also if it is killed on the way.
func TestAnEmptiedDiskIsFilledAgain(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 1)
	if lacks := w.inSync(patience); lacks != "" {
		t.Fatal(lacks)
	}
	for id := 1; id <= 2; id++ {
		w.cluster.Kill(id)
		w.cluster.Wipe(id)
		w.cluster.Restart(id)
		if id == 2 {
			w.cluster.Kill(id)
			w.cluster.Restart(id)
		}
		if lacks := w.inSync(patience / 2); lacks != "" {
			t.Fatalf("node %d, which was emptied: %s", id, lacks)
		}
	}
}
