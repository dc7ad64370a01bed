package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Of a heap that is small nobody minds that it is twice what is in use before garbage is collected. Of one with very many partitions half
// as much must do: so little of it is garbage that this costs next to nothing.
const (
	largeHeapBytes   = 128 << 20
	largeHeapPercent = 50
	usualHeapPercent = 100
	heapEvery        = 2 * time.Second
)

// paceCollector chooses how much garbage may gather, until ctx ends, unless GOGC says so.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(heapEvery)
	defer ticker.Stop()
	is := usualHeapPercent
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(live)
		if now := percentFor(live[0].Value.Uint64()); now != is {
			debug.SetGCPercent(now)
			is = now
		}
	}
}

func percentFor(live uint64) int {
	if live > largeHeapBytes {
		return largeHeapPercent
	}
	return usualHeapPercent
}
