// What this looks for is no race, and it takes minutes with the detector.

//go:build !race

package commitlog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEverySyncIsNeeded takes out one call of Sync, SyncDir or SyncFS after the other: the crash test must then fail. A call that
// it does not miss is either not needed or not tested.
func TestEverySyncIsNeeded(t *testing.T) {
	const seeds = 6000
	for _, site := range syncSites(t) {
		if saysThatNothingRestsOnIt(t, site) {
			continue
		}
		t.Run(site, func(t *testing.T) {
			for seed := range uint64(seeds) {
				if err := crash(seed, 5, 60, site, randomCut); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("without the call the crash test passes %d seeds", seeds)
		})
	}
}

// saysThatNothingRestsOnIt tells whether the line of a call says so: such a call is there for another reason, which it gives.
func saysThatNothingRestsOnIt(t *testing.T, site string) bool {
	t.Helper()
	file, number, _ := strings.Cut(filepath.Join("..", site), ":")
	n, err := strconv.Atoi(number)
	content, readErr := os.ReadFile(file)
	if err = errors.Join(err, readErr); err != nil {
		t.Fatalf("%s: %v", site, err)
	}
	return strings.Contains(strings.Split(string(content), "\n")[n-1], "// nothing rests on it: ")
}

// syncSites runs programs until no new call site is found.
func syncSites(t *testing.T) []string {
	t.Helper()
	var sites []string
	for seed := range uint64(40) {
		c := newCrasher(seed, "")
		for range 3 {
			c.disk.CutAt(150 + c.rand.IntN(300))
			c.choose()
			if err := c.live(60); err != nil {
				reportSeed(t, seed, err)
			}
			c.disk.Restart()
		}
		sites = append(sites, c.disk.Sites()...)
	}
	slices.Sort(sites)
	return slices.Compact(sites)
}
