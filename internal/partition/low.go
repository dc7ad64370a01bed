package partition

import (
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Where a log begins is the leader's to say, and each follower's to follow: it learns of it with an answer to a fetch, and tells that it is
// there with the next one. DeleteRecords is over when the low watermark is where it was to get.

// LowWatermark returns the lowest offset at which the log of a live replica begins: what lies before is gone from all of them. It is
// kafka.NoOffset while one has not fetched in this epoch.
func (l *Leader) LowWatermark() kafka.Offset {
	low := l.start
	for i := range l.followers {
		f := &l.followers[i]
		if b, known := l.config.Brokers[f.id]; known && !b.Fenced {
			low = min(low, f.start)
		}
	}
	return low
}

// StartMoved tells that records before start are gone, by retention or DeleteRecords.
func (l *Leader) StartMoved(start kafka.Offset, out []Release) []Release {
	if start > l.end {
		invariant.Check(false, "start %d beyond the end %d", start, l.end)
	}
	l.start = max(l.start, start)
	l.high = max(l.high, l.start)
	return l.release(out)
}

// ParkDelete keeps a DeleteRecords until the low watermark is at p.Upto. It returns false when it is, and in any case the low watermark.
func (l *Leader) ParkDelete(p Parked) (low kafka.Offset, parked bool) {
	low = l.LowWatermark()
	if low >= p.Upto {
		return low, false
	}
	l.deletes = append(l.deletes, p)
	return low, true
}

// EndDeletes answers all DeleteRecords that wait with why: no follower will get anywhere here.
func (l *Leader) EndDeletes(why error, out []Release) []Release {
	return l.deletes.take(out, func(*Parked) bool { return true }, func(*Parked) error { return why })
}

// releaseDeletes answers what the low watermark has reached, with the low watermark as Upto.
func (l *Leader) releaseDeletes(out []Release) []Release {
	low, before := l.LowWatermark(), len(out)
	reached := func(p *Parked) bool { return low >= p.Upto }
	out = l.deletes.take(out, reached, func(*Parked) error { return nil })
	for i := range out[before:] {
		out[before+i].Upto = low
	}
	return out
}
