package kraft

import (
	"testing"
)

// TestPlantedBugsAreFound puts one bug after the other into the members: each breaks a check within 500 seeds, so the simulation looks
// where it should.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, test := range []struct {
		name string
		bugs plantedBugs
	}{
		{"a vote is given before it is remembered", plantedBugs{voteUnpersisted: true}},
		{"an old epoch's records are committed by count", plantedBugs{commitByCount: true}},
		{"a follower truncates to its high watermark", plantedBugs{truncateToHighWatermark: true}},
		{"an old leader is accepted", plantedBugs{acceptStale: true}},
		{"two changes of voters at once", plantedBugs{changeTwice: true}},
		{"a vote for a shorter log", plantedBugs{voteForShorter: true}},
		{"a follower reports what it has not flushed", plantedBugs{reportUnflushed: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			const seeds = 500
			for seed := range uint64(seeds) {
				if w := history(seed+1, test.bugs, false); w.check.failure != "" {
					t.Logf("seed %d: %s", seed+1, w.check.failure)
					return
				}
			}
			t.Errorf("not found in %d seeds", seeds)
		})
	}
}
