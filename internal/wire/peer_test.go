package wire

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLongestMuteCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Peer
		if p.Muted() != 0 {
			t.Error("muted from the start")
		}
		p.Mute(3 * time.Second)
		p.Mute(time.Second)
		time.Sleep(2 * time.Second)
		if got := p.Muted(); got != time.Second {
			t.Errorf("muted for %v more, want 1s", got)
		}
		time.Sleep(time.Second)
		if got := p.Muted(); got > 0 {
			t.Errorf("muted for %v more, want no more", got)
		}
	})
}

// The clock of the wall may be set back by an hour: nobody is to be muted for that hour.
func TestAMuteDoesNotGoByTheWall(t *testing.T) {
	var p Peer
	p.Mute(time.Minute)
	if until := p.muted.Load().String(); !strings.Contains(until, " m=") {
		t.Errorf("muted until %s, which has no reading of the monotonic clock", until)
	}
}
