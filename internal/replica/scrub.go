package replica

import (
	"errors"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
)

// MetadataLog is the metadata log as the scrub needs it, which is not a partition of the Manager's.
type MetadataLog interface {
	Scrub() *commitlog.Scrub
	// CheckSnapshot reads the newest snapshot. The error is a *commitlog.CorruptError if it is damaged.
	CheckSnapshot() (bytes int64, err error)
	// Damaged is told what was found, in each round that finds it.
	Damaged(by *commitlog.CorruptError)
}

// scrubber reads the logs of all partitions, and the metadata log, again and again, at a bounded rate: records that the disk has
// damaged are found before somebody needs them, and are not served.
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
		if s.m.metadata != nil && !s.scrubMetadata(s.m.metadata) {
			return
		}
		for at := range s.m.slots() {
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
	ended, err := s.read(p.log.Scrub(), func() bool { return p.serves() == nil })
	if err != nil && !errors.Is(err, commitlog.ErrClosed) { // it has moved, or its topic was deleted
		_ = p.failedRead(err)
	}
	return !ended
}

// read goes through a log as long as that is wanted. It tells whether the scrubber is to end.
func (s *scrubber) read(reading *commitlog.Scrub, wanted func() bool) (ended bool, err error) {
	defer reading.Close()
	for done := false; !done && wanted(); {
		var used int64
		if used, done, err = reading.Step(s.pace.stepBytes()); err != nil {
			return false, err
		}
		s.m.damage.ScrubbedBytes.Add(used)
		if !s.rest(used) {
			return true, nil
		}
	}
	return false, nil
}

// scrubMetadata reads the metadata log and its newest snapshot, which counts the more if the log is damaged. It is false once the
// scrubber is to end.
func (s *scrubber) scrubMetadata(log MetadataLog) bool {
	ended, err := s.read(log.Scrub(), func() bool { return true })
	if ended {
		return false
	}
	s.tellMetadata(log, err)
	used, err := log.CheckSnapshot()
	s.m.damage.ScrubbedBytes.Add(used)
	s.tellMetadata(log, err)
	return s.rest(used)
}

func (s *scrubber) tellMetadata(log MetadataLog, err error) {
	if damage, ok := isDamage(err); ok {
		log.Damaged(damage)
	} else if err != nil && !errors.Is(err, commitlog.ErrClosed) {
		s.m.log.Warn("the scrub could not read the metadata log", "error", err)
	}
}

// rest waits as long as the pace wants.
func (s *scrubber) rest(used int64) bool {
	wait := s.pace.spend(s.m.now(), used)
	if wait < time.Millisecond {
		wait = 0
	}
	return pause(wait, s.quit)
}
