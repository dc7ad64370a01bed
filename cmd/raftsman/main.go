// Command raftsman is the broker and its tools in one binary: `raftsman serve` runs a node, everything else is a client of
// any Kafka-compatible cluster.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals()...)
	ctx := untilStopped(context.Background(), signals, func() { signal.Stop(signals) })
	os.Exit(run(ctx, newApp(), os.Args[1:]))
}
