package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// shortage is how little room a log directory has left.
type shortage int32

const (
	roomy  shortage = iota
	low             // the reserve is touched: what clients produce is refused
	lowest          // little of it is left: coordinators are refused too; the metadata log and checkpoints have the rest
)

// Limits of the reserve.
const (
	// reserveBytesMax and reserveShare bound the reserve that is kept where raftsman.log.dir.reserve.bytes is -1.
	reserveBytesMax = 256 << 20
	reserveShare    = 20 // one part in so many of the file system
	// lowestShare is the part of the reserve that only the metadata log and the files beside the segments may use.
	lowestShare = 4
	// resumeShare is how much more than the reserve must be free before produces are taken again.
	resumeShare = 16
	// allowanceBytesMin is what may be appended at least before the file system is asked again.
	allowanceBytesMin = 64 << 10

	roomEvery  = 5 * time.Second // how often the file system is asked at least, as others write to it too
	shortEvery = time.Second     // and while there is no room
)

// space knows whether a log directory has room for more. The file system is asked on a timer, and when half of what was free
// above the reserve may have been used since it was asked last: not for each request.
type space struct {
	d       *logDir
	reserve int64 // what the configuration says; -1: by the file system's size
	sharers int64 // directories that may lie on the same file system

	allowance atomic.Int64 // bytes that may be appended before the file system is asked again
	level     atomic.Int32 // a shortage
	refused   atomic.Int64 // batches so far

	mu      sync.Mutex // guards unknown, and serialises measuring; held across one call of the file system
	unknown bool       // the file system did not answer the last time, which was logged
}

// reserveOf is the reserve on a file system of so many bytes.
func (s *space) reserveOf(total int64) int64 {
	if s.reserve >= 0 {
		return s.reserve
	}
	return min(reserveBytesMax, total/reserveShare)
}

// take asks for room for n bytes; most is the shortage up to which the caller may write.
func (s *space) take(n int, most shortage) bool {
	level := shortage(s.level.Load())
	if level <= most && s.allowance.Add(-int64(n)) < 0 {
		level = s.measure()
	}
	if level > most {
		s.refused.Add(1)
		return false
	}
	return true
}

// measure asks the file system, unless someone else does so right now, and says so when service ends or resumes.
func (s *space) measure() shortage {
	if !s.mu.TryLock() {
		return shortage(s.level.Load())
	}
	defer s.mu.Unlock()
	was := shortage(s.level.Load())
	total, usable, err := s.d.disk.Free()
	if err != nil {
		if !s.unknown {
			s.unknown = true
			s.d.m.log.Warn("the free space of a log directory is not known: no reserve is kept", "directory", s.d.disk.Path(), "error", err)
		}
		s.allowance.Store(allowanceBytesMin << 10)
		return was
	}
	s.unknown = false
	reserve := s.reserveOf(total)
	level := levelOf(usable, reserve, was)
	floor := reserve
	if level > roomy {
		floor = reserve / lowestShare
	}
	s.allowance.Store(max((usable-floor)/(2*s.sharers), allowanceBytesMin))
	s.level.Store(int32(level))
	if level != was {
		s.tell(was, level, usable, reserve)
	}
	return level
}

// levelOf has some play upwards, so that service does not come and go with every few bytes.
func levelOf(usable, reserve int64, was shortage) shortage {
	play := func(limit int64, below shortage) int64 {
		if was >= below {
			return limit + limit/resumeShare
		}
		return limit
	}
	switch {
	case usable < play(reserve/lowestShare, lowest):
		return lowest
	case usable < play(reserve, low):
		return low
	}
	return roomy
}

func (s *space) tell(was, now shortage, usable, reserve int64) {
	attrs := []any{"directory", s.d.disk.Path(), "free", usable, "reserve", reserve, "refused", s.refused.Load()}
	switch {
	case now == roomy:
		s.d.m.log.Info("log directory has room again: produces are taken", attrs...)
	case now == lowest:
		s.d.m.log.Error("log directory is all but full: produces and commits are refused with KAFKA_STORAGE_ERROR, which clients repeat; "+
			"delete topics or records, or make the file system larger", attrs...)
	case was == lowest:
		s.d.m.log.Warn("log directory has a little room again: commits are taken, produces are refused", attrs...)
	default:
		s.d.m.log.Error("log directory has only its reserve left: produces are refused with KAFKA_STORAGE_ERROR, which clients repeat; "+
			"reads, commits and deletes go on, and so do produces when there is room; "+
			"delete topics or records, shorten retention, or make the file system larger (raftsman.log.dir.reserve.bytes)", attrs...)
	}
}

// roomFor refuses what clients produce while the directory is short of room, and what this node's coordinators append when it is
// all but full: before a byte is written, so that the log stays as it is and nothing but space is missing to go on. Clients take
// the error for one that passes: they repeat the same batch until their delivery timeout.
func (p *replica) roomFor(n int, fromClient bool) error {
	most := low
	if fromClient {
		most = roomy
	}
	if p.dir.space.take(n, most) {
		return nil
	}
	return kafka.Refuse(kafka.KafkaStorageError, "log directory %s has only its reserve left; delete topics or records to make room",
		p.dir.disk.Path())
}

// watchSpace asks how much room there is, also where nothing is written: other programs use the file system too. Where it is
// short, retention does not wait for its turn.
func (b *background) watchSpace(now time.Time) {
	b.space.every = roomEvery
	for _, d := range b.m.dirs {
		if d.failed() || d.space.measure() == roomy {
			continue
		}
		b.space.every = shortEvery
		if now.Sub(d.retained) < sweepEvery {
			continue
		}
		d.retained = now
		b.retainSlots(now, func(p *replica) bool { return p.dir == d })
	}
}
