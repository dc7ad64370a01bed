package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// repeatWindow is for how long after the first signal others are taken for the same wish: GNU timeout signals its child and
// then the group that the child is in, a terminal signals everybody in it, and a wrapper hands on what it was sent as well.
const repeatWindow = 500 * time.Millisecond

// stopSignal is why a command's context ended.
type stopSignal struct {
	signal os.Signal
	at     time.Time
}

func (s *stopSignal) Error() string { return fmt.Sprintf("signal %v", s.signal) }

// stopSignals are what asks a command to end in order: Ctrl+C, whoever runs the services of a machine, and a terminal that is
// closed. nohup has that last one ignored, and is obeyed.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// untilStopped returns a context that ends with the first signal. What comes within the repeatWindow after it is let go by;
// then release is called, so that a later signal ends the process by itself.
func untilStopped(ctx context.Context, signals <-chan os.Signal, release func()) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		first := <-signals
		end(&stopSignal{signal: first, at: time.Now()})
		for over := time.After(repeatWindow); ; {
			select {
			case <-signals:
			case <-over:
				release()
				return
			}
		}
	}()
	return ctx
}

// repeats tells whether a signal that comes now is one with that which ended ctx.
func repeats(ctx context.Context) bool {
	first, ok := errors.AsType[*stopSignal](context.Cause(ctx))
	return ok && time.Since(first.at) < repeatWindow
}
