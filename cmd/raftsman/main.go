// Command raftsman is the broker and its tools in one binary: `raftsman serve` runs a node, everything else is a client of
// any Kafka-compatible cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks a command to end in order; with the handler gone, a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, newApp(), os.Args[1:]))
}
