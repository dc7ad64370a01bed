package partition

import "github.com/raftsman/raftsman/internal/kafka"

// Parked is a produce that was appended, or a DeleteRecords whose records are gone here, and that is not answered yet.
type Parked struct {
	Upto       kafka.Offset // its last offset + 1, or where logs are to begin
	DeadlineMs int64        // when REQUEST_TIMED_OUT is the answer, by the clock of Expire
	Ref        any          // the owner's request
	Index      int32        // of the partition in that request
	all        bool
}

// Release is the answer to a [Parked].
type Release struct {
	Ref   any
	Index int32
	Upto  kafka.Offset // of a DeleteRecords that has ended well the low watermark
	Err   error        // nil: the records are where the acks asked for, or gone from all live replicas
}

// queue holds what is parked, in the order in which it was. The offsets of produces with the same acks rise, except that a duplicate may wait for
// an earlier one.
type queue []Parked

// Park keeps a produce until the log is durable (acks=1) or the high watermark has passed it (acks=all). It returns false
// when that is so already: then the caller answers itself with the error.
func (l *Leader) Park(acks int16, p Parked) (bool, error) {
	p.all = acks == -1
	if l.reached(&p) {
		return false, l.outcome(&p)
	}
	l.parked = append(l.parked, p)
	return true, nil
}

// Waiting returns how many requests are parked.
func (l *Leader) Waiting() int { return len(l.parked) + len(l.deletes) }

func (l *Leader) reached(p *Parked) bool {
	if p.all {
		return l.high >= p.Upto
	}
	return l.stable >= p.Upto
}

// outcome is the answer to a parked produce that has got where it was to go. The in-sync set may have shrunk since the
// append: then acks=all has not got what it asked for.
func (l *Leader) outcome(p *Parked) error {
	if p.all && l.maximalISR() < l.MinISR() {
		return kafka.NotEnoughReplicasAfterAppend
	}
	return nil
}

func (l *Leader) release(out []Release) []Release {
	out = l.parked.take(out, l.reached, l.outcome)
	if len(l.deletes) > 0 {
		out = l.releaseDeletes(out)
	}
	return out
}

// Expire answers what is past its deadline with REQUEST_TIMED_OUT: what was appended stays in the log, and what was deleted is gone here.
// Where nothing is parked the memory for it goes.
func (l *Leader) Expire(nowMs int64, out []Release) []Release {
	late := func(p *Parked) bool { return nowMs >= p.DeadlineMs }
	timedOut := func(*Parked) error { return kafka.RequestTimedOut }
	for _, q := range []*queue{&l.parked, &l.deletes} {
		if out = q.take(out, late, timedOut); len(*q) == 0 {
			*q = nil
		}
	}
	return out
}

// Resign answers everything that is parked with why: the leadership, the disk or the partition is gone.
func (l *Leader) Resign(why error, out []Release) []Release {
	all := func(*Parked) bool { return true }
	answer := func(*Parked) error { return why }
	return l.EndDeletes(why, l.parked.take(out, all, answer))
}

// take moves what is due to out and keeps the rest in order.
func (q *queue) take(out []Release, due func(*Parked) bool, answer func(*Parked) error) []Release {
	kept := (*q)[:0]
	for i := range *q {
		p := &(*q)[i]
		if !due(p) {
			kept = append(kept, *p)
			continue
		}
		out = append(out, Release{Ref: p.Ref, Index: p.Index, Upto: p.Upto, Err: answer(p)})
	}
	clear((*q)[len(kept):])
	*q = kept
	return out
}
