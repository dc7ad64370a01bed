// Package partition holds the rules of one replica that leads a partition: who may append, how far readers may read, when a
// produce is acknowledged and when a reader is woken. It knows no disk and no clock: the replica package tells it what was
// appended, how far the log is durable and where the followers are, and it answers what that means.
package partition

import (
	"slices"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Leadership is what the metadata says about a partition that this node leads.
type Leadership struct {
	Epoch    kafka.Epoch
	Replicas []kafka.NodeID
	ISR      []kafka.NodeID // this node included
}

// Leader is the state of one led replica. Its owner's lock serialises all calls.
//
// Positions are end offsets, one past the last record: end is what was appended, stable what a power cut leaves, and the high
// watermark what every in-sync replica has stable. start ≤ high watermark ≤ end always holds.
type Leader struct {
	self        kafka.NodeID
	minISR      int32
	led         Leadership
	epochStart  kafka.Offset // the log's end when the epoch began
	start       kafka.Offset
	end, stable kafka.Offset
	high        kafka.Offset
	followers   []follower // of led.Replicas, without this node, in their order

	parked queue
}

// follower is what a replica elsewhere has told with its fetches.
type follower struct {
	id  kafka.NodeID
	end kafka.Offset // it has everything before; kafka.NoOffset until it has fetched in this epoch
}

// Positions are where a log stands when its replica begins to lead.
type Positions struct {
	Start, End    kafka.Offset
	Stable        kafka.Offset
	HighWatermark kafka.Offset
}

// NewLeader returns the rules of node self leading from at on.
func NewLeader(self kafka.NodeID, led Leadership, minISR int, at Positions) *Leader {
	invariant.Check(at.Start <= at.End && at.Stable <= at.End, "log from %d to %d, stable to %d", at.Start, at.End, at.Stable)
	l := &Leader{
		self: self, minISR: int32(minISR), start: at.Start, end: at.End, stable: at.Stable,
		high: min(max(at.HighWatermark, at.Start), at.End),
	}
	l.begin(led)
	l.advance()
	return l
}

// Lead takes over new metadata. A new epoch ends every wait of the old one with NOT_LEADER_OR_FOLLOWER, as what it waited
// for may since have been replaced; in the same epoch only the in-sync set changes. It appends what is released to out.
func (l *Leader) Lead(led Leadership, out []Release) []Release {
	if led.Epoch < l.led.Epoch {
		return out
	}
	if led.Epoch > l.led.Epoch {
		out = l.Resign(kafka.NotLeaderOrFollower, out)
		l.begin(led)
	} else {
		l.led = led
		l.trackReplicas()
	}
	l.advance()
	return l.release(out)
}

func (l *Leader) begin(led Leadership) {
	l.led = led
	l.epochStart = l.end
	l.followers = l.followers[:0]
	l.trackReplicas()
}

// trackReplicas keeps what is known of followers that stay, and begins anew with those that come.
func (l *Leader) trackReplicas() {
	known := l.followers
	l.followers = nil
	for _, id := range l.led.Replicas {
		if id == l.self {
			continue
		}
		f := follower{id: id, end: kafka.NoOffset}
		if i := slices.IndexFunc(known, func(k follower) bool { return k.id == id }); i >= 0 {
			f = known[i]
		}
		l.followers = append(l.followers, f)
	}
}

// SetMinISR takes over a changed min.insync.replicas.
func (l *Leader) SetMinISR(replicas int, out []Release) []Release {
	l.minISR = int32(replicas)
	l.advance()
	return l.release(out)
}

// Epoch returns the leader epoch.
func (l *Leader) Epoch() kafka.Epoch { return l.led.Epoch }

// EpochStart returns the log's end when the epoch began: until the high watermark is there, it may be lower than what an
// earlier leader has told.
func (l *Leader) EpochStart() kafka.Offset { return l.epochStart }

// HighWatermark returns the end of what every in-sync replica has on stable storage.
func (l *Leader) HighWatermark() kafka.Offset { return l.high }

// End returns the log's end.
func (l *Leader) End() kafka.Offset { return l.end }

// StableEnd returns how far the log is durable on this node.
func (l *Leader) StableEnd() kafka.Offset { return l.stable }

// MinISR returns how many in-sync replicas acks=all needs: min.insync.replicas, but never more than there are replicas.
func (l *Leader) MinISR() int { return max(1, min(int(l.minISR), len(l.led.Replicas))) }

// Admit tells whether a produce with these acks may append now. Internal appends are acks=all.
func (l *Leader) Admit(acks int16) error {
	switch acks {
	case 0, 1:
		return nil
	case -1:
		if len(l.led.ISR) < l.MinISR() {
			return kafka.NotEnoughReplicas
		}
		return nil
	}
	return kafka.InvalidRequiredAcks
}

// Appended tells that the log's end is now end.
func (l *Leader) Appended(end kafka.Offset) {
	if end < l.end { // asked here, as the arguments of Check would be allocated for every append
		invariant.Check(false, "append moved the end back from %d to %d", l.end, end)
	}
	l.end = end
}

// Flushed tells that everything before end is durable on this node. It appends what that releases to out.
func (l *Leader) Flushed(end kafka.Offset, out []Release) []Release {
	if end > l.end {
		invariant.Check(false, "flushed to %d beyond the end %d", end, l.end)
	}
	if end <= l.stable {
		return out
	}
	l.stable = end
	l.advance()
	return l.release(out)
}

// FollowerAt tells that a follower has everything before end, in the leader epoch in which it asked. It appends what that
// releases to out; an unknown replica or an old epoch changes nothing.
func (l *Leader) FollowerAt(id kafka.NodeID, epoch kafka.Epoch, end kafka.Offset, out []Release) []Release {
	i := slices.IndexFunc(l.followers, func(f follower) bool { return f.id == id })
	if i < 0 || epoch != l.led.Epoch || end > l.end || end <= l.followers[i].end {
		return out
	}
	l.followers[i].end = end
	l.advance()
	return l.release(out)
}

// StartMoved tells that records before start are gone, by retention or DeleteRecords.
func (l *Leader) StartMoved(start kafka.Offset, out []Release) []Release {
	invariant.Check(start <= l.end, "start %d beyond the end %d", start, l.end)
	l.start = max(l.start, start)
	l.high = max(l.high, l.start)
	return l.release(out)
}

// advance moves the high watermark to the lowest position of the in-sync replicas. It stands still while fewer are in sync
// than acks=all needs (KIP-966): what a consumer has read is then on enough disks to survive an election.
func (l *Leader) advance() {
	if len(l.led.ISR) < l.MinISR() {
		return
	}
	lowest := l.stable
	for _, f := range l.followers {
		if slices.Contains(l.led.ISR, f.id) {
			lowest = min(lowest, f.end)
		}
	}
	l.high = max(l.high, lowest)
}

// CheckEpoch compares the leader epoch that a client knows with the leader's own (KIP-320); kafka.NoEpoch is no check.
func CheckEpoch(asked, current kafka.Epoch) error {
	switch {
	case asked == kafka.NoEpoch || asked == current:
		return nil
	case asked < current:
		return kafka.FencedLeaderEpoch
	}
	return kafka.UnknownLeaderEpoch
}
