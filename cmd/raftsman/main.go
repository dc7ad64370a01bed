// Command raftsman is the broker and its tools in one binary: `raftsman serve` runs a node, everything else is a client of
// any Kafka-compatible cluster. Called by the name of one of Kafka's scripts it does what that does.
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
	a := newApp()
	if code, is := asScript(ctx, a, os.Args[0], os.Args[1:]); is {
		os.Exit(code)
	}
	os.Exit(run(ctx, a, os.Args[1:]))
}
