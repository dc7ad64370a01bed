package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

func TestScrubKeepsItsPace(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	s := scrubPace{perSecond: 1000, every: time.Hour}
	if got := s.untilFirst(); got != firstScrub {
		t.Errorf("the first round begins after %v, want %v", got, firstScrub)
	}
	s.begin(at)
	if got := s.spend(at, 500); got != 500*time.Millisecond {
		t.Errorf("after 500 bytes at 1,000 a second it waits %v", got)
	}
	if got := s.spend(at.Add(100*time.Millisecond), 500); got != 900*time.Millisecond {
		t.Errorf("after 500 more, 100 ms later, it waits %v, want 900ms", got)
	}
	if got := s.spend(at.Add(time.Minute), 500); got != 500*time.Millisecond {
		t.Errorf("after a minute of a slow disk it waits %v: what was not used must be lost", got)
	}
	if got := s.untilNext(at.Add(20 * time.Minute)); got != 40*time.Minute {
		t.Errorf("a round of 20 minutes is followed by %v, want 40m", got)
	}
	if got := s.untilNext(at.Add(2 * time.Hour)); got != 0 {
		t.Errorf("a round that took longer than the interval is followed by %v", got)
	}
	s.every = time.Minute
	if got := s.untilFirst(); got != time.Minute {
		t.Errorf("the first round begins after %v, want the interval", got)
	}
}

// TestScrubTakesADamagedPartitionOffline: that one alone, and says so once.
func TestScrubTakesADamagedPartitionOffline(t *testing.T) {
	w := newWorld(t, "raftsman.log.scrub.interval.ms=1", "raftsman.log.scrub.bytes.per.second=100000000")
	for _, topic := range []string{"damaged", "sound"} {
		w.topic(topic, 1, "internal.segment.bytes=500")
		w.rounds(topic, 10)
	}
	w.waitFor("a round", func() bool { return w.m.DamageMetrics().ScrubRounds.Value() > 1 })
	if n := w.m.DamageMetrics().ScrubbedBytes.Value(); n < 2000 {
		t.Errorf("two rounds read %d bytes", n)
	}
	w.flipBit("/data0/damaged-0/00000000000000000000.log", 100)
	w.waitFor("the damage", func() bool { return w.m.DamageMetrics().DamagedPartitions.Value() == 1 })
	if r := w.produce("damaged", 0, keyed("k", "v")); r.Err != kafka.KafkaStorageError {
		t.Errorf("a produce to the damaged partition: %v", r.Err)
	}
	w.mustProduce("sound", 0, keyed("k", "v"))
	rounds := w.m.DamageMetrics().ScrubRounds.Value()
	w.waitFor("another round", func() bool { return w.m.DamageMetrics().ScrubRounds.Value() > rounds+1 })
	if n := strings.Count(w.log.String(), "a partition is damaged"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, w.log)
	}
}
