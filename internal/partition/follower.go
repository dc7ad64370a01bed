package partition

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// Follower is the state of one replica that follows a leader. Its owner's lock serialises all calls. Times are milliseconds of a
// clock that never goes back.
//
// What it tells the leader is what it has on stable storage, and it asks for nothing while something of its log is not: so one offset
// says both how far it is and where to read on, as Kafka's protocol has it.
type Follower struct {
	leader      kafka.NodeID
	epoch       kafka.Epoch
	start       kafka.Offset
	end, stable kafka.Offset
	high        kafka.Offset

	leaderHigh, leaderStart kafka.Offset // as the leader told last

	fenced   bool  // the leader knows a newer epoch: only newer metadata helps
	dueMs    int64 // it does not fetch before
	failures int   // one after the other
}

// Leading is whom a follower follows.
type Leading struct {
	Leader kafka.NodeID
	Epoch  kafka.Epoch
}

// NewFollower returns the rules of a replica that follows from now on.
func NewFollower(led Leading, at Positions) *Follower {
	invariant.Check(at.Start <= at.End && at.Stable <= at.End, "log from %d to %d, stable to %d", at.Start, at.End, at.Stable)
	return &Follower{
		leader: led.Leader, epoch: led.Epoch, start: at.Start, end: at.End, stable: at.Stable,
		high: min(max(at.HighWatermark, at.Start), at.Stable), leaderHigh: kafka.NoOffset, leaderStart: kafka.NoOffset,
	}
}

// Follow takes over new metadata: another leader, or another epoch of the same. What is older is passed over.
func (f *Follower) Follow(led Leading) {
	if led.Epoch <= f.epoch {
		return
	}
	f.leader, f.epoch = led.Leader, led.Epoch
	f.leaderHigh, f.leaderStart = kafka.NoOffset, kafka.NoOffset
	f.fenced, f.dueMs, f.failures = false, 0, 0
}

// Leader returns whom it follows.
func (f *Follower) Leader() kafka.NodeID { return f.leader }

// Epoch returns the leader epoch.
func (f *Follower) Epoch() kafka.Epoch { return f.epoch }

// End returns the log's end.
func (f *Follower) End() kafka.Offset { return f.end }

// StableEnd returns how far the log is durable.
func (f *Follower) StableEnd() kafka.Offset { return f.stable }

// HighWatermark returns the end of what is known to be committed and is on stable storage here.
func (f *Follower) HighWatermark() kafka.Offset { return f.high }

// CaughtUp tells whether it has all that the leader has said to be committed.
func (f *Follower) CaughtUp() bool { return f.leaderHigh != kafka.NoOffset && f.end >= f.leaderHigh }

// Start returns where the log is to begin, by what the leader told: not behind the high watermark.
func (f *Follower) Start() kafka.Offset { return max(f.start, min(f.leaderStart, f.high)) }

// Ready tells whether it may fetch now, from StableEnd on. If not, dueMs is when it may, or 0 if that is when something happens.
func (f *Follower) Ready(nowMs int64) (ready bool, dueMs int64) {
	switch {
	case f.fenced || f.stable < f.end:
		return false, 0
	case nowMs < f.dueMs:
		return false, f.dueMs
	}
	return true, 0
}

// Answer is what the leader said to a fetch, without its records.
type Answer struct {
	Epoch         kafka.Epoch // in which it was asked
	From          kafka.Offset
	Err           kafka.Error
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	Diverging     *EpochEnd // the leader's log is another one behind this
}

// EpochEnd is a leader epoch and where it ends.
type EpochEnd struct {
	Epoch kafka.Epoch
	End   kafka.Offset
}

// History tells the largest leader epoch of a log that is not above the asked one, and where it ends: kafka.NoEpoch if there is none.
type History func(asked kafka.Epoch) (kafka.Epoch, kafka.Offset)

// Step is what a follower does about an answer.
type Step uint8

const (
	Ignore     Step = iota // it is of another time
	TakeIn                 // append the records, if there are any
	Truncate               // cut the log off at To, then go on
	AskForEnds             // the offset is not in the leader's log: ask where that begins and ends, and tell RangeOf
	BackOff                // fetch again later
	Stop                   // fetch no more in this epoch
)

// To is where a log is cut off, or begins anew.
type To = kafka.Offset

// Answered decides what to do about an answer. nowMs and backoffMaxMs (replica.fetch.backoff.ms) say how long to wait after an error.
func (f *Follower) Answered(a Answer, history History, nowMs, backoffMaxMs int64) (Step, To) {
	if a.Epoch != f.epoch || a.From != f.stable || f.stable < f.end {
		return Ignore, 0
	}
	switch a.Err {
	case kafka.None:
	case kafka.OffsetOutOfRange:
		return AskForEnds, 0
	case kafka.FencedLeaderEpoch:
		f.fenced = true
		return Stop, 0
	default:
		f.Failed(nowMs, backoffMaxMs)
		return BackOff, 0
	}
	f.failures, f.dueMs = 0, 0
	if a.Diverging != nil {
		return Truncate, f.common(*a.Diverging, history)
	}
	f.leaderHigh, f.leaderStart = a.HighWatermark, a.LogStart
	f.advance()
	return TakeIn, 0
}

// common is the largest offset up to which the log may be the leader's, that has shared as the largest epoch that is not above this log's
// latest (KIP-101, KIP-279). Where this log does not have that epoch either, the next answer goes on from what is left.
func (f *Follower) common(shared EpochEnd, history History) kafka.Offset {
	epoch, end := history(shared.Epoch)
	switch epoch {
	case kafka.NoEpoch: // of no epoch up to the leader's is anything here
		end = shared.End
	case shared.Epoch:
		end = min(end, shared.End)
	}
	return min(end, f.end)
}

// RangeOf decides what to do where the leader's log is from start to end and does not hold the offset that was asked for: truncate, if the
// leader was elected uncleanly and has less; or begin anew at the leader's start, if that is behind this log's end.
func (f *Follower) RangeOf(epoch kafka.Epoch, start, end kafka.Offset) (step Step, to To, anew bool) {
	switch {
	case epoch != f.epoch || f.stable < f.end:
		return Ignore, 0, false
	case end < f.end:
		return Truncate, end, false
	case start > f.end:
		return Truncate, start, true
	}
	return TakeIn, 0, false
}

// Failed tells that a fetch came to nothing. The next one waits, longer each time.
func (f *Follower) Failed(nowMs, backoffMaxMs int64) {
	f.dueMs = nowMs + Backoff(f.failures, backoffMaxMs)
	f.failures++
}

// backoffMinMs is how long the first repetition waits: right after an election the leader may hear of it a moment later.
const backoffMinMs = 10

// Backoff is how long to wait after so many failures before, at most maxMs.
func Backoff(failures int, maxMs int64) int64 {
	return min(backoffMinMs<<min(failures, 20), max(maxMs, 0))
}

// Check tells what to do about the next batch of an answer: take it in, or pass it over as the log has it. overlaps means that it begins
// before the log and ends in it, as where the log's start lies within a batch: then an empty log begins with the batch.
func (f *Follower) Check(b record.Batch, latest kafka.Epoch) (take, overlaps bool, err error) {
	if b.NextOffset() <= f.end {
		return false, false, nil
	}
	if epoch := b.LeaderEpoch(); epoch > f.epoch || epoch < latest {
		return false, false, fmt.Errorf("batch at offset %d of leader epoch %d after one of %d, from a leader of epoch %d: %w",
			b.BaseOffset(), epoch, latest, f.epoch, kafka.CorruptMessage)
	}
	if b.BaseOffset() >= f.end {
		return true, false, nil
	}
	if f.start < f.end {
		return false, false, fmt.Errorf("batch of offsets %d to %d where the log ends at %d: %w",
			b.BaseOffset(), b.LastOffset(), f.end, kafka.CorruptMessage)
	}
	return true, true, nil
}

// Appended tells that the log's end is now end.
func (f *Follower) Appended(end kafka.Offset) {
	if end < f.end {
		invariant.Check(false, "append moved the end back from %d to %d", f.end, end)
	}
	f.end = end
}

// Flushed tells that everything before end is durable.
func (f *Follower) Flushed(end kafka.Offset) {
	if end > f.end {
		invariant.Check(false, "flushed to %d beyond the end %d", end, f.end)
	}
	if end > f.stable {
		f.stable = end
		f.advance()
	}
}

// StartMoved tells that the log now begins at start.
func (f *Follower) StartMoved(start kafka.Offset) {
	f.start = max(f.start, start)
	f.high = max(f.high, f.start)
}

// Cut tells that the log was truncated, or began anew, and is durable: it is from start to end now.
func (f *Follower) Cut(start, end kafka.Offset) {
	f.start, f.end, f.stable = start, end, end
	f.high = min(max(f.high, start), end)
}

// advance moves the high watermark to what the leader has told, as far as that is durable here.
func (f *Follower) advance() {
	f.high = max(f.high, min(f.leaderHigh, f.stable))
}
