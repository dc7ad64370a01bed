package replica

import (
	"errors"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
)

// scrubber reads the logs of all partitions, again and again, at a bounded rate: records that the disk has damaged are found
// before somebody needs them, and are not served.
type scrubber struct {
	m    *Manager
	pace scrubPace
	quit chan struct{} // nil if it is off
	done chan struct{}
}

func (s *scrubber) start(m *Manager) {
	s.m = m
	s.pace = scrubPace{
		perSecond: float64(m.broker.Int64("raftsman.log.scrub.bytes.per.second")),
		every:     m.broker.Duration("raftsman.log.scrub.interval.ms"),
	}
	if s.pace.perSecond == 0 {
		return
	}
	s.quit, s.done = make(chan struct{}), make(chan struct{})
	go s.run()
}

// close ends it, within one step.
func (s *scrubber) close() {
	if s.quit == nil {
		return
	}
	close(s.quit)
	<-s.done
}

func (s *scrubber) run() {
	defer close(s.done)
	wait := s.pace.untilFirst()
	for pause(max(wait, time.Millisecond), s.quit) {
		s.pace.begin(s.m.now())
		for _, at := range s.m.slots() {
			p, err := at.replica() // also of partitions that nobody has asked for: damage is found in time there too
			if err == nil && !s.scrub(p) {
				return
			}
		}
		s.m.damage.ScrubRounds.Inc()
		wait = s.pace.untilNext(s.m.now())
	}
}

// scrub reads one partition. It is false once the scrubber is to end.
func (s *scrubber) scrub(p *replica) bool {
	if p.serves() != nil || p.log == nil {
		return true
	}
	reading := p.log.Scrub()
	defer reading.Close()
	for done := false; !done && p.serves() == nil; {
		used, ended, err := reading.Step(s.pace.stepBytes())
		if err != nil {
			if !errors.Is(err, commitlog.ErrClosed) { // it has moved, or its topic was deleted
				_ = p.failedRead(err)
			}
			return true
		}
		s.m.damage.ScrubbedBytes.Add(used)
		if !s.rest(used) {
			return false
		}
		done = ended
	}
	return true
}

// rest waits as long as the pace wants.
func (s *scrubber) rest(used int64) bool {
	wait := s.pace.spend(s.m.now(), used)
	if wait < time.Millisecond {
		wait = 0
	}
	return pause(wait, s.quit)
}
