package partition

import (
	"cmp"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Who is in sync is the controller's to write down and the leader's to find out. The leader asks for one change at a time
// (AlterPartition, KIP-497) and counts on neither outcome until it knows: the high watermark waits for whoever is in one of the two sets.

// refusedWaitMs is how long a leader waits before it asks again for what the controller refused: by then the metadata that it was
// refused for has come, or not yet.
const refusedWaitMs = 50

// pending is a change that the controller was asked for, or will be.
type pending struct {
	number int64
	isr    []kafka.NodeID
	sent   bool
}

// Alteration is a change of the in-sync set to ask the controller for.
type Alteration struct {
	Number         int64 // which one it is: handed back with the answer
	Epoch          kafka.Epoch
	PartitionEpoch kafka.Epoch
	ISR            []Member
}

// Member is a replica of an in-sync set that is asked for, with the broker epoch under which it has fetched; NoBrokerEpoch where that is
// not known, and for the leader itself.
type Member struct {
	ID    kafka.NodeID
	Epoch kafka.BrokerEpoch
}

// Altered is the controller's answer: an error, or the partition's state.
type Altered struct {
	Err            kafka.Error
	Epoch          kafka.Epoch
	PartitionEpoch kafka.Epoch
	ISR            []kafka.NodeID
}

// Fetched is what a follower tells with a fetch.
type Fetched struct {
	ID          kafka.NodeID
	Epoch       kafka.Epoch // the leader epoch in which it asks; kafka.NoEpoch: it does not say
	BrokerEpoch kafka.BrokerEpoch
	Start       kafka.Offset // where its log begins
	End         kafka.Offset // it has everything before on stable storage
}

// Follows tells whether who fetches is a follower. The error is what it is answered if not: it is no replica, asks in another epoch, or is
// an older start of its broker than the metadata knows (KIP-903).
func (l *Leader) Follows(at Fetched) error {
	_, err := l.followerOf(at)
	return err
}

func (l *Leader) followerOf(at Fetched) (*follower, error) {
	if err := CheckEpoch(at.Epoch, l.led.Epoch); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(l.followers, func(f follower) bool { return f.id == at.ID })
	if i < 0 {
		return nil, stranger(at)
	}
	if b, known := l.config.Brokers[at.ID]; known && at.BrokerEpoch != NoBrokerEpoch && at.BrokerEpoch < b.Epoch {
		return nil, kafka.NotLeaderOrFollower
	}
	return &l.followers[i], nil
}

// FollowerAt tells how far a follower is. It appends what that releases to out. The error is the one of Follows, or
// kafka.OffsetOutOfRange for one that is ahead of this log. Then nothing has changed.
func (l *Leader) FollowerAt(at Fetched, nowMs int64, out []Release) ([]Release, error) {
	f, err := l.followerOf(at)
	if err != nil {
		return out, err
	}
	if at.End > l.end {
		return out, kafka.OffsetOutOfRange
	}
	l.nowMs = max(l.nowMs, nowMs)
	switch {
	case at.End >= l.stable:
		f.caughtUpMs = l.nowMs
	case at.End >= f.leaderEnd: // it has by now all that there was when it asked last
		f.caughtUpMs = max(f.caughtUpMs, f.fetchedMs)
	}
	// The end may go back: the follower's disk was lost, or another one put in.
	f.end, f.start, f.brokerEpoch = at.End, at.Start, at.BrokerEpoch
	f.fetchedMs, f.leaderEnd = l.nowMs, l.stable
	l.grow(f)
	l.advance()
	return l.release(out), nil
}

// stranger is what somebody is answered who is no replica as far as this leader knows. Who names the leader epoch may know more.
func stranger(at Fetched) error {
	if at.Epoch != kafka.NoEpoch {
		return kafka.UnknownLeaderEpoch
	}
	return kafka.NotLeaderOrFollower
}

// grow asks for a follower to be in sync: it has all that may have been acknowledged, in this epoch or before.
func (l *Leader) grow(f *follower) {
	if l.pending != nil || l.nowMs < l.notBefore || slices.Contains(l.led.ISR, f.id) ||
		f.end < l.high || f.end < l.epochStart || !l.eligible(f) {
		return
	}
	l.ask(append(slices.Clone(l.led.ISR), f.id))
}

// CheckLag asks for those to leave the in-sync set that have not had everything for the lag time. It is to be called about twice in
// that time. It appends what is released to out: who is no longer about to be in sync does not hold the high watermark back.
func (l *Leader) CheckLag(nowMs int64, out []Release) []Release {
	l.nowMs = max(l.nowMs, nowMs)
	if l.pending == nil && l.nowMs >= l.notBefore {
		in := slices.DeleteFunc(slices.Clone(l.led.ISR), func(id kafka.NodeID) bool {
			i := slices.IndexFunc(l.followers, func(f follower) bool { return f.id == id })
			return i >= 0 && !l.caughtUp(&l.followers[i])
		})
		if len(in) < len(l.led.ISR) {
			l.ask(in)
		}
	}
	l.advance()
	return l.release(out)
}

// caughtUp tells whether a follower has everything that is stable here, or had it within the lag time.
func (l *Leader) caughtUp(f *follower) bool {
	return f.end >= l.stable || l.nowMs-f.caughtUpMs <= l.config.LagMaxMs
}

// eligible tells whether the controller would take a follower into the in-sync set: its broker is up, and has fetched since it was
// registered (KIP-903): one that came back with an empty disk has not what it had before.
func (l *Leader) eligible(f *follower) bool {
	b, known := l.config.Brokers[f.id]
	return known && b.eligible() && f.end != kafka.NoOffset && (f.brokerEpoch == NoBrokerEpoch || f.brokerEpoch == b.Epoch)
}

func (l *Leader) ask(isr []kafka.NodeID) {
	l.asked++
	l.pending = &pending{number: l.asked, isr: isr}
}

// Wants tells whether there is a change to ask the controller for.
func (l *Leader) Wants() bool { return l.pending != nil && !l.pending.sent }

// Due returns the change to ask the controller for, once.
func (l *Leader) Due() (Alteration, bool) {
	if !l.Wants() {
		return Alteration{}, false
	}
	l.pending.sent = true
	due := Alteration{Number: l.pending.number, Epoch: l.led.Epoch, PartitionEpoch: l.led.PartitionEpoch}
	for _, id := range l.pending.isr {
		m := Member{ID: id, Epoch: NoBrokerEpoch}
		if i := slices.IndexFunc(l.followers, func(f follower) bool { return f.id == id }); i >= 0 {
			m.Epoch = l.followers[i].brokerEpoch
		}
		due.ISR = append(due.ISR, m)
	}
	return due, true
}

// Answered takes over what the controller, or the way to it, said of a change. It appends what that releases to out. again means that
// the same change is to be asked for once more, later: AskAgain is called then.
func (l *Leader) Answered(number int64, answer Altered, nowMs int64, out []Release) (_ []Release, again bool) {
	if l.pending == nil || l.pending.number != number {
		return out, false // the metadata was faster
	}
	l.nowMs = max(l.nowMs, nowMs)
	switch answer.Err {
	case kafka.None:
		if answer.Epoch != l.led.Epoch || answer.PartitionEpoch < l.led.PartitionEpoch || l.shrinksTo(answer.ISR) {
			return out, false // the metadata will tell
		}
		led := l.led
		led.PartitionEpoch, led.ISR = answer.PartitionEpoch, answer.ISR
		l.pending = nil
		l.commit(led)
	case kafka.OperationNotAttempted, kafka.IneligibleReplica: // certainly not done
		l.pending = nil
		l.notBefore = l.nowMs + refusedWaitMs
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicId, kafka.FencedLeaderEpoch, kafka.InvalidUpdateVersion, kafka.InvalidRequest,
		kafka.NewLeaderElected:
		// The partition is not any more what this leader thinks. It may have been done all the same: both sets count until the metadata tells.
		return out, false
	default: // nobody knows whether it was done
		return out, true
	}
	l.advance()
	return l.release(out), false
}

// shrinksTo tells whether somebody leaves the in-sync set. The controller's answer alone does not settle that: if min.insync.replicas was raised
// before the change, who leaves is an eligible leader (KIP-966), and by the old value this leader would acknowledge what that one lacks. The
// metadata, in which both come in their order, is there moments later; until then the change counts as one that is asked for.
func (l *Leader) shrinksTo(isr []kafka.NodeID) bool {
	return slices.ContainsFunc(l.led.ISR, func(id kafka.NodeID) bool { return !slices.Contains(isr, id) })
}

// AskAgain has Due return a change once more, unless it is settled by now.
func (l *Leader) AskAgain(number int64) {
	if l.pending != nil && l.pending.number == number {
		l.pending.sent = false
	}
}

// maximalISR is how many replicas are in sync if the change that is asked for is made.
func (l *Leader) maximalISR() int {
	n := len(l.led.ISR)
	if l.pending != nil {
		n = max(n, len(l.pending.isr))
	}
	return n
}

// Nearest returns the follower from which a consumer can read on from an offset that is near it: one that is in sync and has the offset, of
// several the one that has most (KIP-392, as Kafka's RackAwareReplicaSelector). It is kafka.NoNode if there is none.
func (l *Leader) Nearest(from kafka.Offset, near func(kafka.NodeID) bool) kafka.NodeID {
	best := follower{id: kafka.NoNode}
	for _, f := range l.followers {
		if f.end < from || !slices.Contains(l.led.ISR, f.id) || !near(f.id) {
			continue
		}
		if best.id == kafka.NoNode || cmp.Or(cmp.Compare(f.end, best.end), cmp.Compare(f.caughtUpMs, best.caughtUpMs), cmp.Compare(f.id, best.id)) > 0 {
			best = f
		}
	}
	return best.id
}
