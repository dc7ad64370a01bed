package replica

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/vfs"
)

// fetchOp is a fetch on its way. While it is parked it is linked into every partition that it reads, and whoever finds a
// reason to look again claims it: the flusher when enough became readable, the timer, or the end of a partition. Only who has
// claimed it touches anything but the atomics.
type fetchOp struct {
	m       *Manager
	req     FetchRequest
	targets []*replica // nil where there is none
	results []FetchResult
	readers []partition.Reader
	done    func([]FetchResult)

	state atomic.Int32
	bytes atomic.Int64 // readable, as far as known
	late  atomic.Bool  // the wait is over
	fed   bool         // the leader's rules know where the follower is
	timer *time.Timer  // made once; runs expire
	armed bool
}

const (
	fetchClaimed int32 = iota // somebody works on it
	fetchParking              // its owner is linking it in
	fetchPoked                // and must look again instead of parking it
	fetchParked
)

// Read collects what the request asks for and calls done, exactly once, when there are MinBytes or an error to tell, or
// MaxWaitMs is over, or this node stops. done gets one result for each partition, in their order, and must not keep the slice,
// only the chunks, which it must release. It may be called before Read returns, or later from any goroutine, and must not
// block.
func (m *Manager) Read(req *FetchRequest, done func([]FetchResult)) {
	op, ok := m.fetchOps.Get().(*fetchOp)
	if !ok {
		op = &fetchOp{m: m}
	}
	op.req, op.done = *req, done
	n := len(req.Partitions)
	op.targets, op.results, op.readers = growTo(op.targets, n), growTo(op.results, n), growTo(op.readers, n)
	for i := range req.Partitions {
		part := &req.Partitions[i]
		p, err := m.find(part.TopicID, part.Topic, part.Partition)
		if err != nil {
			code, _ := kafka.Answer(err)
			op.results[i] = failedFetch(code)
		} else {
			p.traffic.FetchRequests.Inc()
		}
		op.targets[i] = p
	}
	if op.collect() {
		op.answer()
		return
	}
	wait := time.Duration(req.MaxWaitMs) * time.Millisecond
	for i := range op.results {
		if throttled := op.results[i].wait; throttled > 0 { // then it gets something with its next fetch
			wait = min(wait, throttled)
		}
	}
	op.arm(wait)
	if !op.park() {
		op.resume()
	}
}

// collect reads every partition within the limits and tells whether the answer can go.
func (op *fetchOp) collect() bool {
	total, urgent := 0, false
	left := int(op.req.MaxBytes)
	for i := range op.results {
		r := &op.results[i]
		if p := op.targets[i]; p != nil {
			part := &op.req.Partitions[i]
			if total > 0 && p.dir.disk.Crowded() {
				// What is read keeps its file open until it was sent. The others come with the next fetch, in which those that had
				// their turn stand at the end.
				left, urgent = 0, true
			}
			// KIP-74: the first partition that has something gives at least one batch, whatever the limits.
			op.read(p, part, min(int(part.MaxBytes), left), total == 0, r)
			for next := p.successor(r.Err); next != nil; next = p.successor(r.Err) {
				p, op.targets[i] = next, next
				op.read(p, part, min(int(part.MaxBytes), left), total == 0, r)
			}
		}
		urgent = urgent || r.Err != kafka.None || r.Diverges || r.Preferred != kafka.NoNode
		total += r.Chunk.Len
		left -= r.Chunk.Len
	}
	op.fed = true
	return urgent || total >= int(op.req.MinBytes) || op.req.MaxWaitMs <= 0 || len(op.results) == 0 || op.late.Load()
}

// park links the fetch into its partitions. It returns false when something happened meanwhile: then the caller still owns it.
func (op *fetchOp) park() bool {
	var bytes int64
	for i := range op.results {
		r := &op.results[i]
		chunk := &r.Chunk
		op.readers[i] = partition.Reader{
			From: op.req.Partitions[i].Offset, Committed: op.req.Committed, Replica: op.req.isReplica(), Bytes: int64(chunk.Len),
			Most: int64(op.req.Partitions[i].MaxBytes), Ref: op,
			Stable: r.LastStable, Undecided: r.LastStable < r.HighWatermark,
		}
		bytes += int64(chunk.Len)
		chunk.Release()
		*chunk = commitlog.Chunk{}
	}
	op.bytes.Store(bytes)
	op.state.Store(fetchParking)
	for i, p := range op.targets {
		p.wait(&op.readers[i])
	}
	// What happened between collect and the links told nobody.
	for i, p := range op.targets {
		if op.req.isReplica() && op.results[i].LogStart < p.log.StartOffset() {
			op.late.Store(true) // as tellFollowers does
		}
		if op.results[i].seen != p.seenBy(&op.req) || p.changed(&op.req, &op.req.Partitions[i]) {
			op.state.Store(fetchClaimed)
			return false
		}
	}
	if !op.late.Load() && op.state.CompareAndSwap(fetchParking, fetchParked) {
		return true
	}
	op.state.Store(fetchClaimed)
	return false
}

// claim makes the caller the owner of a parked fetch. It returns false when somebody else is, who then looks again, if it
// was about to park.
func (op *fetchOp) claim() bool {
	op.state.CompareAndSwap(fetchParking, fetchPoked)
	return op.state.CompareAndSwap(fetchParked, fetchClaimed)
}

// grew counts bytes that became readable, and claims the fetch when they are enough.
func (op *fetchOp) grew(by int64) bool {
	return op.bytes.Add(by) >= int64(op.req.MinBytes) && op.claim()
}

// resume looks again after a claim, and answers or parks.
func (op *fetchOp) resume() {
	for {
		for i, p := range op.targets {
			p.stopWaiting(&op.readers[i])
		}
		if op.collect() {
			op.answer()
			return
		}
		if op.park() {
			return
		}
	}
}

// expire is what the timer runs.
func (op *fetchOp) expire() {
	op.late.Store(true)
	if op.claim() {
		op.resume()
	}
}

func (op *fetchOp) arm(wait time.Duration) {
	op.armed = true
	if op.timer == nil {
		op.timer = time.AfterFunc(wait, op.expire)
		return
	}
	op.timer.Reset(wait)
}

// answer ends the fetch. It is reused, unless its timer has fired and might still look at it.
func (op *fetchOp) answer() {
	reusable := !op.armed || op.timer.Stop()
	op.done(op.results)
	if !reusable {
		return
	}
	op.armed = false
	op.done, op.req = nil, FetchRequest{}
	clear(op.targets)
	clear(op.results)
	clear(op.readers)
	op.late.Store(false)
	op.fed = false
	op.m.fetchOps.Put(op)
}

// changed tells whether a fetch that was parked would now be refused.
func (p *replica) changed(req *FetchRequest, f *FetchPartition) bool {
	epoch, _ := p.epochFor(req)
	return p.refusal.Load() != 0 || epoch == kafka.NoEpoch || partition.CheckEpoch(f.CurrentLeaderEpoch, epoch) != nil
}

// epochFor is the leader epoch in which a request can be served: kafka.NoEpoch if this node does not lead, and the reader does not
// read from followers or this node does not follow either.
func (p *replica) epochFor(req *FetchRequest) (epoch kafka.Epoch, leads bool) {
	if epoch = kafka.Epoch(p.epoch.Load()); epoch != kafka.NoEpoch || !req.FromFollower || req.isReplica() {
		return epoch, true
	}
	return kafka.Epoch(p.following.Load()), false
}

// seenBy is the end of what a reader may see: what is committed, and a follower what is durable.
func (p *replica) seenBy(req *FetchRequest) kafka.Offset {
	if req.isReplica() {
		return p.stableEnd()
	}
	return kafka.Offset(p.high.Load())
}

// read fills r with what the reader may see from f.Offset on: no more than maxBytes of whole batches, but one if atLeastOne.
func (op *fetchOp) read(p *replica, f *FetchPartition, maxBytes int, atLeastOne bool, r *FetchResult) {
	if err := p.readInto(f, &op.req, maxBytes, atLeastOne, op.fed, r); err != nil {
		*r = failedFetch(p.failedRead(err))
		if r.Err == kafka.KafkaStorageError {
			p.traffic.FailedFetches.Inc()
		}
	}
}

func (p *replica) readInto(f *FetchPartition, req *FetchRequest, maxBytes int, atLeastOne, fed bool, r *FetchResult) error {
	if err := p.serves(); err != nil {
		return err
	}
	epoch, leads := p.epochFor(req)
	if epoch == kafka.NoEpoch {
		return kafka.NotLeaderOrFollower
	}
	if err := partition.CheckEpoch(f.CurrentLeaderEpoch, epoch); err != nil {
		return err
	}
	start, end := p.log.StartOffset(), p.log.EndOffset()
	*r = FetchResult{Preferred: kafka.NoNode}
	diverges, err := p.diverges(f, epoch, start, end, r)
	if req.isReplica() && !fed {
		if unknown := p.followerAt(req, f, !diverges && err == nil); unknown != nil {
			return unknown
		}
	}
	if err != nil {
		return err
	}
	p.tellEnds(start, r)
	if diverges {
		return nil
	}
	r.seen = r.HighWatermark
	bound := r.HighWatermark
	switch {
	case req.isReplica():
		r.seen = p.stableEnd()
		bound = r.seen
	case req.Committed:
		bound = r.LastStable
	}
	if leads && req.FromFollower && req.Rack != "" {
		if r.Preferred = p.preferredFor(req.Rack, f.Offset); r.Preferred != kafka.NoNode {
			return nil
		}
	}
	if f.Offset >= bound || maxBytes <= 0 && !atLeastOne {
		return nil
	}
	var counts bool
	if r.wait, counts = p.throttledAsLeader(req); r.wait > 0 {
		return nil
	}
	if req.Committed && !req.isReplica() {
		r.Chunk, r.Aborted, err = p.log.ReadCommitted(f.Offset, bound, max(maxBytes, 0), atLeastOne)
	} else {
		r.Chunk, err = p.log.Read(f.Offset, bound, max(maxBytes, 0), atLeastOne)
	}
	if counts {
		p.m.asLeader.spend(r.Chunk.Len)
	}
	return err
}

// tellEnds fills in what every answer without an error says.
func (p *replica) tellEnds(start kafka.Offset, r *FetchResult) {
	high := kafka.Offset(p.high.Load())
	r.HighWatermark, r.LastStable, r.LogStart, r.Traffic = high, p.decided(start, high), start, p.traffic
}

// diverges compares the reader's last fetched epoch with the leader's history (KIP-595): where it ends before the reader's
// offset, the reader has records that this log does not. The error is that of an offset that the log does not hold.
func (p *replica) diverges(f *FetchPartition, current kafka.Epoch, start, end kafka.Offset, r *FetchResult) (bool, error) {
	if f.LastFetchedEpoch == kafka.NoEpoch {
		return false, inRange(f.Offset, start, end)
	}
	shared, sharedEnd := current, end
	if f.LastFetchedEpoch != current {
		shared, sharedEnd = p.log.EpochEnd(f.LastFetchedEpoch)
	}
	if shared == kafka.NoEpoch || sharedEnd == kafka.NoOffset || f.Offset < start {
		return false, kafka.OffsetOutOfRange
	}
	if shared < f.LastFetchedEpoch || sharedEnd < f.Offset {
		r.Diverges, r.SharedEpoch, r.SharedEnd = true, shared, sharedEnd
		return true, nil
	}
	return false, inRange(f.Offset, start, end)
}

func inRange(offset, start, end kafka.Offset) error {
	if offset < start || offset > end {
		return kafka.OffsetOutOfRange
	}
	return nil
}

// failedRead turns the error of a read into the answer. Damage takes the partition out of use, a disk that does not read the whole
// directory; a system that is out of file descriptors for a moment neither.
func (p *replica) failedRead(err error) kafka.Error {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return code
	}
	damage, isDamaged := isDamage(err)
	switch {
	case errors.Is(err, commitlog.ErrClosed):
		return kafka.NotLeaderOrFollower
	case isDamaged:
		p.damaged(damage)
	case vfs.IsFull(err):
		p.dir.complain("read", p, err)
	default:
		p.dir.fail("read "+p.tp.String(), err)
	}
	return kafka.KafkaStorageError
}
