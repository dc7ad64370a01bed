// Package partition holds the rules of one replica. As a leader: who may append, how far readers may read, which followers are in
// sync, when a produce is acknowledged and when a reader is woken. As a follower: from where it fetches, what it takes, where it
// cuts its log off. It knows no disk and no clock: the replica package tells it what was appended, how far the log is durable,
// what the other side said and what time it is, and it answers what that means.
package partition

import (
	"math"
	"slices"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Leadership is what the metadata says about a partition that this node leads.
type Leadership struct {
	Epoch          kafka.Epoch
	PartitionEpoch kafka.Epoch // counts changes of the metadata, among them those of the in-sync set
	Replicas       []kafka.NodeID
	ISR            []kafka.NodeID // this node included
}

// Brokers is what the metadata says of all brokers; a broker that is not in it is not registered. It is shared and never changes.
type Brokers map[kafka.NodeID]Broker

// Broker is what the metadata says of a broker.
type Broker struct {
	Epoch    kafka.BrokerEpoch
	Fenced   bool // nobody waits for its replicas
	Stopping bool // in controlled shutdown
}

// eligible tells whether the broker's replicas may come into the in-sync set (KIP-841).
func (b Broker) eligible() bool { return !b.Fenced && !b.Stopping }

// NoBrokerEpoch is that of a follower that does not tell it: it is not compared.
const NoBrokerEpoch kafka.BrokerEpoch = -1

// Config is what a leader goes by.
type Config struct {
	Self     kafka.NodeID
	MinISR   int   // min.insync.replicas
	LagMaxMs int64 // replica.lag.time.max.ms
	Brokers  Brokers
}

// Leader is the state of one led replica. Its owner's lock serialises all calls. Times are milliseconds of a clock that never
// goes back.
//
// Positions are end offsets, one past the last record: end is what was appended, stable what a power cut leaves, and the high
// watermark what every in-sync replica has stable. start ≤ high watermark ≤ end always holds.
type Leader struct {
	config      Config
	led         Leadership
	epochStart  kafka.Offset // the log's end when the epoch began
	start       kafka.Offset
	end, stable kafka.Offset
	high        kafka.Offset
	followers   []follower // of led.Replicas, without this node, in their order
	nowMs       int64      // the latest time that a call told

	pending   *pending // the change of the in-sync set that the controller is asked for
	asked     int64    // how many changes there were
	notBefore int64    // no change is asked for until then, as the last one was refused

	parked  queue
	deletes queue // DeleteRecords that wait for followers
}

// follower is what a replica elsewhere has told with its fetches.
type follower struct {
	id          kafka.NodeID
	end         kafka.Offset      // it has everything before on stable storage; kafka.NoOffset until it has fetched in this epoch
	start       kafka.Offset      // where its log begins; the same
	brokerEpoch kafka.BrokerEpoch // under which it has fetched
	leaderEnd   kafka.Offset      // what it could have had when it fetched last
	fetchedMs   int64             // when that was
	caughtUpMs  int64             // when it had everything last
}

// longAgo is when a follower was caught up of which that is not known.
const longAgo = math.MinInt64 / 2

// Positions are where a log stands when its replica begins to lead.
type Positions struct {
	Start, End    kafka.Offset
	Stable        kafka.Offset
	HighWatermark kafka.Offset
}

// NewLeader returns the rules of a node that leads from now on.
func NewLeader(c Config, led Leadership, at Positions, nowMs int64) *Leader {
	invariant.Check(at.Start <= at.End && at.Stable <= at.End, "log from %d to %d, stable to %d", at.Start, at.End, at.Stable)
	l := &Leader{
		config: c, start: at.Start, end: at.End, stable: at.Stable, nowMs: nowMs,
		high: min(max(at.HighWatermark, at.Start), at.End),
	}
	l.begin(led)
	l.advance()
	return l
}

// Lead takes over new metadata. A new epoch ends every wait of the old one with NOT_LEADER_OR_FOLLOWER, as what it waited
// for may since have been replaced; in the same epoch only the in-sync set changes. What is older than what is known, by an answer of
// the controller maybe, is passed over. It appends what is released to out.
func (l *Leader) Lead(led Leadership, nowMs int64, out []Release) []Release {
	if led.Epoch < l.led.Epoch || led.Epoch == l.led.Epoch && led.PartitionEpoch < l.led.PartitionEpoch {
		return out
	}
	l.nowMs = max(l.nowMs, nowMs)
	if led.Epoch > l.led.Epoch {
		out = l.Resign(kafka.NotLeaderOrFollower, out)
		l.begin(led)
	} else {
		l.commit(led)
	}
	l.advance()
	return l.release(out)
}

func (l *Leader) begin(led Leadership) {
	l.led = led
	l.epochStart = l.end
	l.pending, l.notBefore = nil, 0
	l.followers = l.followers[:0]
	l.trackReplicas()
}

// commit takes over a newer state of the same epoch. The change that was asked for is done, or came too late.
func (l *Leader) commit(led Leadership) {
	if l.pending != nil && led.PartitionEpoch > l.led.PartitionEpoch {
		l.pending = nil
	}
	l.led = led
	l.trackReplicas()
}

// trackReplicas keeps what is known of followers that stay, and begins anew with those that come. Who is in sync is taken to be
// caught up when the epoch begins: it has the whole lag time to prove it.
func (l *Leader) trackReplicas() {
	known := l.followers
	l.followers = nil
	for _, id := range l.led.Replicas {
		if id == l.config.Self {
			continue
		}
		f := follower{
			id: id, end: kafka.NoOffset, start: kafka.NoOffset, brokerEpoch: NoBrokerEpoch, leaderEnd: kafka.NoOffset, fetchedMs: longAgo, caughtUpMs: longAgo,
		}
		if i := slices.IndexFunc(known, func(k follower) bool { return k.id == id }); i >= 0 {
			f = known[i]
		} else if slices.Contains(l.led.ISR, id) {
			f.caughtUpMs = l.nowMs
		}
		l.followers = append(l.followers, f)
	}
}

// SetMinISR takes over a changed min.insync.replicas.
func (l *Leader) SetMinISR(replicas int, out []Release) []Release {
	l.config.MinISR = replicas
	l.advance()
	return l.release(out)
}

// SetBrokers takes over what has changed about brokers: who was fenced no longer holds the high watermark back while it is not in sync.
func (l *Leader) SetBrokers(brokers Brokers, nowMs int64, out []Release) []Release {
	l.config.Brokers, l.nowMs = brokers, max(l.nowMs, nowMs)
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

// ISR returns the in-sync set as the metadata, or the controller's last answer, has it. It must not be changed.
func (l *Leader) ISR() []kafka.NodeID { return l.led.ISR }

// Alone tells whether there are no other replicas: then nothing ever waits for a follower.
func (l *Leader) Alone() bool { return len(l.followers) == 0 }

// MinISR returns how many in-sync replicas acks=all needs: min.insync.replicas, but never more than there are replicas.
func (l *Leader) MinISR() int { return max(1, min(l.config.MinISR, len(l.led.Replicas))) }

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

// advance moves the high watermark to the lowest position of the replicas that hold it. It stands still while fewer are in sync
// than acks=all needs (KIP-966): what a consumer has read is then on enough disks to survive an election.
func (l *Leader) advance() {
	if len(l.led.ISR) < l.MinISR() {
		return
	}
	lowest := l.stable
	for i := range l.followers {
		if f := &l.followers[i]; f.end < lowest && l.holds(f) {
			lowest = f.end
		}
	}
	l.high = max(l.high, lowest)
}

// holds tells whether the high watermark may not pass a follower: it is in sync, or will be if the controller says so (KIP-497: of
// two sets that may be the committed one, the larger one counts), or is about to ask for it.
func (l *Leader) holds(f *follower) bool {
	return slices.Contains(l.led.ISR, f.id) || l.pending != nil && slices.Contains(l.pending.isr, f.id) ||
		l.caughtUp(f) && l.eligible(f)
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
