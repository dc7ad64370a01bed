package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage may gather before it is collected. Nobody minds a small heap that is twice what is in use; a large one, as of very many
// partitions, is garbage to a small part only, and all of what may gather counts as memory of the process.
const (
	garbageBytes      = 64 << 20
	garbagePercentMin = 25 // of what is in use: collecting looks at all of that
	garbagePercentMax = 100
	heapEvery         = 2 * time.Second
)

// paceCollector chooses how much garbage may gather, until ctx ends, unless GOGC says so.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(heapEvery)
	defer ticker.Stop()
	is := garbagePercentMax
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(live)
		if now := garbagePercent(live[0].Value.Uint64()); now != is {
			debug.SetGCPercent(now)
			is = now
		}
	}
}

func garbagePercent(live uint64) int {
	return int(min(max(garbageBytes*100/max(live, 1), garbagePercentMin), garbagePercentMax))
}
