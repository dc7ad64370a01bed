package replica

import "time"

// scrubPace decides when the scrub reads on: so many bytes a second, and a round so often. It has no clock of its own.
type scrubPace struct {
	perSecond float64
	every     time.Duration

	began time.Time // the round
	free  time.Time // when the next byte may be read
}

// firstScrub is when the first round begins at the latest: after a start the disk has other things to do.
const firstScrub = 10 * time.Minute

// untilFirst is how long after the start the first round begins.
func (s *scrubPace) untilFirst() time.Duration { return min(s.every, firstScrub) }

// begin notes that a round begins.
func (s *scrubPace) begin(now time.Time) { s.began, s.free = now, now }

// spend tells how long to wait after so many bytes were read. What was not used is lost: the disk was slower than allowed.
func (s *scrubPace) spend(now time.Time, bytes int64) time.Duration {
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(float64(bytes) / s.perSecond * float64(time.Second)))
	return s.free.Sub(now)
}

// untilNext is how long after the end of a round the next one begins.
func (s *scrubPace) untilNext(now time.Time) time.Duration { return max(s.every-now.Sub(s.began), 0) }

// stepBytes is how much to read between two looks at the pace.
func (s *scrubPace) stepBytes() int64 {
	const most, least, aSecond = 1 << 20, 16 << 10, 20
	return max(least, int64(min(most, s.perSecond/aSecond)))
}
