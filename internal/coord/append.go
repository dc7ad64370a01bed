package coord

import (
	"errors"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// staging is offset commits that are decided but not appended yet: they go to the log as one batch.
type staging struct {
	batch   record.Builder
	effects []group.Effects
	scratch []byte
	fields  []field // of the records that scratch holds
	bytes   int     // that these take in a batch, at most
}

// field is where in scratch a record's key begins, its value, and where it ends.
type field struct {
	key, value, end int
	gone            bool // the value is null
}

// recordOverhead bounds what a record takes in a batch beside its key and value.
const recordOverhead = 32

// encode writes records down, for add, as long as they fit into a batch of their own of so many bytes, and returns how many do.
func (g *staging) encode(records []group.Record, limit int) (n int) {
	g.scratch, g.fields, g.bytes = g.scratch[:0], g.fields[:0], 0
	for _, r := range records {
		f := field{key: len(g.scratch)}
		key := group.AppendKey(g.scratch, r)
		f.value = len(key)
		all, ok := group.AppendValue(key, r)
		f.end, f.gone = len(all), !ok
		if g.bytes+len(all)-f.key+recordOverhead+record.HeaderBytes > limit {
			break
		}
		g.bytes += len(all) - f.key + recordOverhead
		g.scratch, g.fields = all, append(g.fields, f)
	}
	return len(g.fields)
}

// add appends the first n records that were encoded last to the batch.
func (g *staging) add(n int, nowMs int64) {
	for _, f := range g.fields[:n] {
		value := g.scratch[f.value:f.end]
		if f.gone {
			value = nil
		}
		g.batch.Add(g.scratch[f.key:f.value], value, nil, nowMs)
	}
}

// gather carries out the effects of an offset commit, with others of its kind.
func (s *shard) gather(e group.Effects) {
	for _, sent := range e.Replies {
		s.answer(sent)
	}
	if len(e.Records) == 0 {
		return
	}
	limit := s.c.opts.Partitions.BatchBytesMax(s.tp)
	if s.staged.encode(e.Records, limit) < len(e.Records) {
		s.settle(e, kafka.MessageTooLarge)
		return
	}
	if s.staged.batch.Len()+s.staged.bytes > limit {
		s.flush()
		if s.state != active {
			return
		}
	}
	s.staged.add(len(e.Records), s.c.opts.Now().UnixMilli())
	s.staged.effects = append(s.staged.effects, e)
}

// flush appends the offset commits that have gathered.
func (s *shard) flush() {
	if s.state != active || len(s.staged.effects) == 0 {
		return
	}
	effects := s.staged.effects
	refused, ok := s.append(s.staged.batch.Build())
	if !ok {
		return
	}
	if refused == kafka.None {
		s.c.metrics.CommitBatches.Inc()
		s.c.metrics.Commits.Add(int64(len(effects)))
	}
	for _, e := range effects {
		if refused == kafka.None {
			s.apply(e.Records)
		}
		s.settle(e, refused)
	}
	clear(effects)
	s.staged.effects = effects[:0]
}

// carryOut appends what effects want appended, applies it, and lets the machine finish.
func (s *shard) carryOut(e group.Effects) {
	for _, sent := range e.Replies {
		s.answer(sent)
	}
	s.doAside(e.Aside)
	rest := e.Records
	if len(rest) == 0 {
		return
	}
	limit := s.c.opts.Partitions.BatchBytesMax(s.tp)
	for len(rest) > 0 {
		n := s.staged.encode(rest, limit)
		if n == 0 || n < len(rest) && !e.Separable {
			s.settle(e, kafka.MessageTooLarge)
			return
		}
		s.staged.add(n, s.c.opts.Now().UnixMilli())
		refused, ok := s.append(s.staged.batch.Build())
		if !ok {
			return
		}
		if refused != kafka.None {
			s.settle(e, refused)
			return
		}
		s.apply(rest[:n])
		rest = rest[n:]
	}
	s.settle(e, kafka.None)
}

func (s *shard) apply(records []group.Record) {
	for _, r := range records {
		s.machine.Apply(r)
	}
}

// settle ends effects: their records are applied, or were refused.
func (s *shard) settle(e group.Effects, refused kafka.Error) {
	if refused != kafka.None {
		refused = codeFor(nil, refused)
	}
	after := s.machine.Settle(s.c.opts.Now(), e, refused)
	for _, sent := range after.Replies {
		s.answer(sent)
	}
	s.doAside(after.Aside)
}

// append appends one batch. refused is why not a byte of it was written: then nothing has changed. When ok is false the shard
// has ended: it is not known what was written.
func (s *shard) append(batch record.Batch) (refused kafka.Error, ok bool) {
	s.lastSeq++
	seq := s.lastSeq
	s.c.opts.Partitions.Append(s.tp, batch, func(_ kafka.Offset, err error) {
		s.postAsync(event{kind: appendedEvent, seq: seq, err: err})
	})
	s.mu.Lock()
	err, known := s.outcome[seq]
	delete(s.outcome, seq)
	s.mu.Unlock()
	switch {
	case !known:
		return kafka.None, true
	case err == nil:
		s.committed(seq)
		return kafka.None, true
	case s.unwritten(err):
		s.lastSeq--
		code, _ := kafka.Answer(err)
		return code, true
	}
	s.fail(err)
	return kafka.None, false
}

// unwritten tells whether an error that Append reported before it returned says that nothing was written. A disk error does
// when the partition is led on: then the disk was full, and the log is as it was.
func (s *shard) unwritten(err error) bool {
	for _, code := range []kafka.Error{
		kafka.NotEnoughReplicas, kafka.MessageTooLarge, kafka.RecordListTooLarge, kafka.UnknownTopicOrPartition, kafka.PolicyViolation,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	epoch, leads := s.c.opts.Partitions.Leads(s.tp)
	return errors.Is(err, kafka.KafkaStorageError) && leads && epoch == s.epoch
}
