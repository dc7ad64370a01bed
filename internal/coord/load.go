package coord

import (
	"errors"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// How loading tells of itself.
const (
	loadReportEvery = 5 * time.Second
	loadRetryAfter  = time.Second
)

var errClosing = errors.New("the coordinator is closing")

// load reads the partition's log into a new machine and hands it to the shard.
func (s *shard) load() {
	grace := time.AfterFunc(s.c.opts.LoadGrace, func() { s.post(event{kind: graceEvent}) })
	defer grace.Stop()
	select {
	case s.c.loads <- struct{}{}:
		defer func() { <-s.c.loads }()
	case <-s.c.stop.Done():
		return
	}
	l := loader{shard: s, machine: group.New(s.c.opts.Group, s.c.opts.Random), begun: s.c.opts.Now()}
	l.reported = l.begun
	err := s.c.opts.Partitions.Load(s.tp, l.batch)
	if err == nil {
		l.report("groups loaded")
		s.c.metrics.Loads.Inc()
		s.c.metrics.LoadMicros.Observe(s.c.opts.Now().Sub(l.begun).Microseconds())
	}
	s.post(event{kind: loadedEvent, machine: l.machine, err: err})
}

// loader replays batches.
type loader struct {
	shard    *shard
	machine  *group.Machine
	begun    time.Time
	reported time.Time

	records, bytes, damaged int64
}

func (l *loader) batch(b record.Batch) error {
	select {
	case <-l.shard.ended:
		return errClosing
	case <-l.shard.c.stop.Done():
		return errClosing
	default:
	}
	if now := l.shard.c.opts.Now(); now.Sub(l.reported) >= loadReportEvery {
		l.reported = now
		l.report("loading groups")
	}
	l.bytes += int64(len(b))
	if b.IsControl() {
		m, ok, err := b.Marker()
		if ok {
			l.machine.EndTransaction(b.ProducerID(), m.Commit)
		}
		return err
	}
	for r, err := range b.Records(record.DecompressedMaxDefault) {
		if err != nil {
			return err
		}
		l.records++
		l.record(b, r)
	}
	return nil
}

func (l *loader) record(b record.Batch, r record.Record) {
	if r.Key == nil {
		l.skip(r, errors.New("it has no key"))
		return
	}
	decoded, err := group.Decode(r.Key, r.Value)
	switch {
	case err != nil:
		l.skip(r, err)
	case decoded == nil:
	case b.IsTransactional():
		l.machine.ApplyOpen(b.ProducerID(), decoded)
	default:
		l.machine.Apply(decoded)
	}
}

// skip passes over a record that cannot be read: one bad record must not keep all groups of the partition away.
func (l *loader) skip(r record.Record, err error) {
	if l.damaged++; l.damaged <= 10 {
		l.shard.c.opts.Log.Error("a record of a group cannot be read and is passed over", "partition", l.shard.tp,
			"offset", r.Offset, "error", err)
	}
}

func (l *loader) report(what string) {
	took := l.shard.c.opts.Now().Sub(l.begun)
	log := l.shard.c.opts.Log.Debug
	if took >= loadReportEvery {
		log = l.shard.c.opts.Log.Info
	}
	log(what, "partition", l.shard.tp, "records", l.records, "bytes", l.bytes, "groups", l.machine.Groups(), "took", took)
}

// loaded begins to serve.
func (s *shard) loaded(e *event) {
	if e.err != nil {
		if !errors.Is(e.err, errClosing) {
			s.c.opts.Log.Error("cannot load groups; trying again", "partition", s.tp, "error", e.err)
		}
		s.refuseEarly(kafka.CoordinatorLoadInProgress)
		time.AfterFunc(loadRetryAfter, func() { s.c.start(s.load) })
		return
	}
	s.state, s.machine = active, e.machine
	s.learned = nil
	s.learn()
	s.carryOut(s.machine.Loaded(s.c.opts.Now()))
	early := s.early
	s.early = nil
	for i := range early {
		s.process(&early[i])
	}
}

// refuseEarly tells those who wait for the load to come again.
func (s *shard) refuseEarly(code kafka.Error) {
	early := s.early
	s.early = nil
	for i := range early {
		switch e := &early[i]; e.kind {
		case commandEvent:
			e.reply(e.cmd.Fail(code))
		case listEvent:
			e.list(nil, code)
		default:
			s.early = append(s.early, *e)
		}
	}
}
