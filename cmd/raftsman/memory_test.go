package main

import "testing"

func TestLargeHeapsGatherLessGarbage(t *testing.T) {
	for _, c := range []struct {
		live    uint64
		percent int
	}{{0, 100}, {10 << 20, 100}, {64 << 20, 100}, {128 << 20, 50}, {256 << 20, 25}, {4 << 30, 25}} {
		if got := garbagePercent(c.live); got != c.percent {
			t.Errorf("with %d bytes in use %d %% of garbage may gather, want %d", c.live, got, c.percent)
		}
	}
}
