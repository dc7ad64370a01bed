package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeatsOfASignalAreOneWish: `timeout 5 raftsman serve` sends two signals, milliseconds apart.
func TestRepeatsOfASignalAreOneWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, released := make(chan os.Signal, 1), make(chan struct{})
		ctx := untilStopped(context.Background(), signals, func() { close(released) })
		if repeats(ctx) {
			t.Error("a signal repeats another before there was one")
		}
		signals <- syscall.SIGHUP
		<-ctx.Done()
		if got, want := context.Cause(ctx).Error(), "signal hangup"; got != want {
			t.Errorf("the context ended with %q, want %q", got, want)
		}
		time.Sleep(20 * time.Millisecond)
		signals <- syscall.SIGHUP
		synctest.Wait()
		if len(signals) > 0 || !repeats(ctx) {
			t.Error("the same signal after 20 ms is taken for another one")
		}
		select {
		case <-released:
			t.Error("after 20 ms, the next signal would end the process")
		default:
		}
		time.Sleep(repeatWindow)
		synctest.Wait()
		select {
		case <-released:
		default:
			t.Error("after the window, a signal would still not end the process")
		}
		if repeats(ctx) {
			t.Error("a signal after the window is taken for a repeat")
		}
	})
}
