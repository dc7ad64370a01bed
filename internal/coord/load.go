package coord

import (
	"errors"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// How loading tells of itself.
const (
	loadReportEvery = 5 * time.Second
	loadRetryAfter  = time.Second
)

var errClosing = errors.New("the coordinator is closing")

// reader is a machine that reads its log.
type reader interface {
	// record takes one record in, or says why it cannot be read.
	record(b record.Batch, key, value []byte) error
	marker(id kafka.ProducerID, commit bool)
	// size is how much it knows, for the log.
	size() int
}

// load reads the partition's log into a new machine and hands it to the shard.
func (s *executor[C, R]) load() {
	grace := time.AfterFunc(s.c.opts.LoadGrace, func() { s.post(event[C, R]{kind: graceEvent}) })
	defer grace.Stop()
	// Before it takes its turn: that may take until other nodes are back, and other loads have nothing to do with it.
	if err := s.c.opts.Partitions.AwaitCommitted(s.tp, s.ended, s.c.stop.Done()); err != nil {
		s.post(event[C, R]{kind: loadedEvent, err: err})
		return
	}
	select {
	case s.c.loads <- struct{}{}:
		defer func() { <-s.c.loads }()
	case <-s.c.stop.Done():
		return
	}
	l := loader{c: s.c, read: s.host.reader(), what: s.what, tp: s.tp, ended: s.ended, begun: s.c.opts.Now()}
	l.reported = l.begun
	err := s.c.opts.Partitions.Load(s.tp, l.batch)
	if err == nil {
		l.report(s.what + " loaded")
		s.metrics.Loads.Inc()
		s.metrics.LoadMicros.Observe(s.c.opts.Now().Sub(l.begun).Microseconds())
	}
	s.post(event[C, R]{kind: loadedEvent, read: l.read, err: err})
}

// loader replays batches.
type loader struct {
	c        *Coordinator
	read     reader
	what     string
	tp       kafka.TopicPartition
	ended    <-chan struct{} // when the shard has
	begun    time.Time
	reported time.Time

	records, bytes, damaged int64
}

func (l *loader) batch(b record.Batch) error {
	select {
	case <-l.ended:
		return errClosing
	case <-l.c.stop.Done():
		return errClosing
	default:
	}
	if now := l.c.opts.Now(); now.Sub(l.reported) >= loadReportEvery {
		l.reported = now
		l.report("loading " + l.what)
	}
	l.bytes += int64(len(b))
	if b.IsControl() {
		m, ok, err := b.Marker()
		if ok {
			l.read.marker(b.ProducerID(), m.Commit)
		}
		return err
	}
	for r, err := range b.Records(record.DecompressedMaxDefault) {
		if err != nil {
			return err
		}
		l.records++
		if r.Key == nil {
			l.skip(r, errors.New("it has no key"))
			continue
		}
		if err := l.read.record(b, r.Key, r.Value); err != nil {
			l.skip(r, err)
		}
	}
	return nil
}

// skip passes over a record that cannot be read: one bad record must not keep all else in the partition away.
func (l *loader) skip(r record.Record, err error) {
	if l.damaged++; l.damaged <= 10 {
		l.c.opts.Log.Error("a record of "+l.what+" cannot be read and is passed over", "partition", l.tp,
			"offset", r.Offset, "error", err)
	}
}

func (l *loader) report(what string) {
	took := l.c.opts.Now().Sub(l.begun)
	log := l.c.opts.Log.Debug
	if took >= loadReportEvery {
		log = l.c.opts.Log.Info
	}
	log(what, "partition", l.tp, "records", l.records, "bytes", l.bytes, l.what, l.read.size(), "took", took)
}

// loaded begins to serve.
func (s *executor[C, R]) loaded(e *event[C, R]) {
	if e.err != nil {
		if !errors.Is(e.err, errClosing) && !errors.Is(e.err, kafka.NotLeaderOrFollower) { // the leader has moved: the metadata tells, or has told
			s.c.opts.Log.Error("cannot load "+s.what+"; trying again", "partition", s.tp, "error", e.err)
		}
		s.refuseWaiting(kafka.CoordinatorLoadInProgress)
		time.AfterFunc(loadRetryAfter, func() { s.c.start(s.load) })
		return
	}
	s.state = active
	s.host.begin(e.read)
	waiting := s.waiting
	s.waiting = nil
	for i := range waiting {
		s.process(&waiting[i])
	}
}
