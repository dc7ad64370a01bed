package replica

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/record"
)

// produceOp is a produce on its way: one result for each of its partitions, and a count of those that are not known yet.
type produceOp struct {
	results []ProduceResult
	open    atomic.Int32
	done    func([]ProduceResult)
	parked  *metric.Gauge
}

// keptResultsMax is up to how many results a produceOp is kept to be used again: larger requests are rare, and take much memory.
const keptResultsMax = 4096

var produceOps = sync.Pool{New: func() any { return new(produceOp) }}

// finish records how a parked partition ended; the last one answers the request.
func (op *produceOp) finish(i int, err error) {
	if err != nil {
		code, message := kafka.Answer(err)
		failed := failedProduce(code)
		failed.Message = message
		op.results[i] = failed
	}
	op.parked.Add(-1)
	op.settled()
}

func (op *produceOp) settled() {
	if op.open.Add(-1) > 0 {
		return
	}
	op.done(op.results)
	op.done = nil
	clear(op.results)
	if cap(op.results) <= keptResultsMax {
		produceOps.Put(op)
	}
}

// Produce appends to every partition in turn and calls done, exactly once, when each has got as far as the acks ask for: with
// acks=0 when it is appended, with 1 when it is durable on this node, with -1 when the high watermark has passed it. done gets
// one result for each partition, in their order, and must not keep the slice; it may be called before Produce returns, or
// later from any goroutine, and must not block. The request's records may be reused when Produce has returned.
func (m *Manager) Produce(req *ProduceRequest, done func([]ProduceResult)) {
	op := produceOps.Get().(*produceOp)
	op.done, op.parked = done, &m.parked
	op.results = growTo(op.results, len(req.Partitions))
	if req.little() {
		for i := range req.Partitions { // not while others are held up
			part := &req.Partitions[i]
			_, _ = m.find(part.TopicID, part.Topic, part.Partition)
		}
		m.hold()
		defer m.release()
	}
	// One more than there are partitions, so that the answer does not leave before the last one was appended.
	op.open.Store(int32(len(req.Partitions)) + 1)
	for i := range req.Partitions {
		part := &req.Partitions[i]
		p, err := m.find(part.TopicID, part.Topic, part.Partition)
		if err == nil {
			p.traffic.ProduceRequests.Inc()
			var parked bool
			parked, err = p.produce(op, i, req, part)
			for next := p.successor(err); next != nil; next = p.successor(err) {
				p = next
				parked, err = p.produce(op, i, req, part)
			}
			if parked {
				continue
			}
		}
		if err != nil {
			op.results[i] = p.refusedProduce(err, part.Records)
		}
		op.settled()
	}
	op.settled()
}

// littleBytes is up to how much appending takes less time than one flush more.
const littleBytes = 64 << 10

// little tells whether it is several partitions that a request appends to, and next to nothing to each.
func (req *ProduceRequest) little() bool {
	if n := len(req.Partitions); n < 2 || n > flushAllFrom {
		return false
	}
	bytes := 0
	for i := range req.Partitions {
		bytes += len(req.Partitions[i].Records)
	}
	return bytes <= littleBytes
}

// refusedProduce is the result of records that were not taken.
func (p *replica) refusedProduce(err error, records []byte) ProduceResult {
	code, message := kafka.Answer(err)
	result := failedProduce(code)
	result.Message = message
	if invalid, ok := errors.AsType[*record.Invalid](err); ok {
		result.Err, result.Message, result.Records = invalid.Code, invalid.Message, invalid.Records
	}
	if p != nil {
		p.traffic.produceFailed(result.Err, records)
	}
	if p != nil && p.log != nil && tellsLogStart(result.Err, records) {
		result.LogStart = p.log.StartOffset()
	}
	return result
}

// tellsLogStart tells whether Kafka answers with the log's start beside the error: when the log itself refused, but not when the
// request was refused before, or the bytes were not one batch.
func tellsLogStart(code kafka.Error, records []byte) bool {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicId, kafka.NotLeaderOrFollower, kafka.MessageTooLarge,
		kafka.RecordListTooLarge, kafka.CorruptMessage, kafka.KafkaStorageError, kafka.InvalidRequiredAcks,
		kafka.TransactionalIdAuthorizationFailed:
		return false
	case kafka.InvalidRecord:
		batch, rest, err := record.Split(records)
		return err == nil && len(rest) == 0 && batch.Magic() == record.Magic
	}
	return true
}

// produce appends what a client sent. When parked is true, the op's finish is called for i once it has got where it is to go;
// else it has, or the error says why not.
func (p *replica) produce(op *produceOp, i int, req *ProduceRequest, part *ProducePartition) (parked bool, err error) {
	if err := p.serves(); err != nil {
		return false, err
	}
	if req.Acks < -1 || req.Acks > 1 {
		return false, kafka.InvalidRequiredAcks
	}
	now := p.m.now()
	rules := p.settings.Load().rules
	rules.NowMs, rules.TransactionalRequest = now.UnixMilli(), req.Transactional
	admitted, err := record.Admit(part.Records, rules)
	if err == nil {
		err = p.fitsSegment(admitted.Batch)
	}
	if err != nil {
		return false, err
	}
	result := &op.results[i]
	*result = ProduceResult{AppendTimeMs: admitted.LogAppendTimeMs, LogStart: p.log.StartOffset()}
	deadlineMs := p.m.upMs(now) + int64(max(req.TimeoutMs, 0))

	p.mu.Lock()
	at, err := p.append(admitted.Batch, req.Acks, writer{kind: byClient, guard: part.Guard}, now)
	if err != nil {
		p.mu.Unlock()
		return false, p.failedWrite("append to", err)
	}
	result.BaseOffset = at.base
	if at.duplicate {
		result.AppendTimeMs = at.timeMs
	}
	if req.Acks != 0 {
		op.parked.Add(1) // before it can end
		parked, err = p.core.Park(req.Acks, partition.Parked{Upto: at.end, DeadlineMs: deadlineMs, Ref: op, Index: int32(i)})
		if !parked {
			op.parked.Add(-1)
		}
	}
	released := p.settle()
	p.mu.Unlock()

	p.written(released)
	if parked {
		p.m.expiry.add(p)
	}
	return parked, err
}
