package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Liveness is what the active controller alone knows of brokers: who was heard of when, how far each has got in the metadata,
// and who is on the way out. Nothing of it is in the log. It begins anew with the leadership: all that are in service have a full
// session first, as nobody could be heard of. Not safe for concurrent use. Times are of one monotonic clock, in ms.
type Liveness struct {
	sessionMs int64
	brokers   map[kafka.NodeID]*contact
}

// contact is what is known of one registration of a broker.
type contact struct {
	epoch      kafka.BrokerEpoch
	heardMs    int64
	gone       bool              // its process has ended, or has leave to end
	before     kafka.BrokerEpoch // what the broker told of the registration before this one, if it has lost nothing since, or -1
	answered   bool              // it was heard of under this registration
	registered kafka.Offset      // of the registration's newest record, as far as it is known
	applied    kafka.Offset      // the newest metadata record that the broker has applied, or -1
	stopping   kafka.Offset      // the record that all others must have applied before it may stop, or -1
}

// NewLiveness returns what a controller knows when its leadership begins. sessionMs is broker.session.timeout.ms.
func NewLiveness(im *Image, sessionMs, nowMs int64) *Liveness {
	l := &Liveness{sessionMs: sessionMs, brokers: map[kafka.NodeID]*contact{}}
	for _, b := range im.Brokers() {
		if !b.Fenced {
			l.begin(b.ID, b.Epoch, nowMs)
		}
	}
	return l
}

func (l *Liveness) begin(id kafka.NodeID, epoch kafka.BrokerEpoch, nowMs int64) *contact {
	c := &contact{epoch: epoch, heardMs: nowMs, before: NoBrokerEpoch, registered: kafka.Offset(epoch), applied: kafka.NoOffset, stopping: kafka.NoOffset}
	l.brokers[id] = c
	return c
}

// of returns the contact with a registered broker: one of this registration that was not heard of yet begins now.
func (l *Liveness) of(b *Broker, nowMs int64) *contact {
	if c, ok := l.brokers[b.ID]; ok && c.epoch == b.Epoch {
		return c
	}
	return l.begin(b.ID, b.Epoch, nowMs)
}

// Valid tells whether a broker was heard of, under this epoch, within its session.
func (l *Liveness) Valid(id kafka.NodeID, epoch kafka.BrokerEpoch, nowMs int64) bool {
	c, ok := l.brokers[id]
	return ok && c.epoch == epoch && nowMs < c.heardMs+l.sessionMs
}

// Touch counts as a heartbeat of a broker that could not be looked at in time: the broker is alive.
func (l *Liveness) Touch(id kafka.NodeID, epoch kafka.BrokerEpoch, nowMs int64) {
	if c, ok := l.brokers[id]; ok && c.epoch == epoch {
		c.heard(nowMs)
	}
}

func (c *contact) heard(nowMs int64) {
	c.heardMs, c.gone, c.answered = max(c.heardMs, nowMs), false, true
}

// Died notes that a broker's process is no more: its connection was closed, and its address refuses another or resets it. It can
// register again at once. fence tells whether it is to be fenced now, and not first when its session is over: not if it is the only
// one in sync of a partition that has other replicas, as nobody gains by it, and an unclean election would follow a false alarm.
func (l *Liveness) Died(im *Image, id kafka.NodeID, epoch kafka.BrokerEpoch, nowMs int64) (fence bool) {
	b, err := im.registered(id, epoch)
	if err != nil {
		return false
	}
	l.of(b, nowMs).gone = true
	return !b.Fenced && !im.leadsAlone(id)
}

// leadsAlone tells whether a broker leads a partition with other replicas of which none could lead instead.
func (im *Image) leadsAlone(id kafka.NodeID) bool {
	with := electionsOf(im, &Env{})
	with.going = id
	for t := range im.Topics() {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Leader == id && len(p.Replicas) > 1 && !slices.ContainsFunc(p.ISR, with.change(t, int32(i)).fit) {
				return true
			}
		}
	}
	return false
}

// Expired returns a broker that is in service and whose session is over, the one that was silent longest, to be fenced next. One
// at a time: the next is to be decided on what came of the first.
func (l *Liveness) Expired(im *Image, nowMs int64) (id kafka.NodeID, due bool) {
	oldestMs := int64(0)
	for _, b := range im.Brokers() {
		if b.Fenced {
			continue
		}
		if c := l.of(b, nowMs); !l.Valid(b.ID, b.Epoch, nowMs) && (!due || c.heardMs < oldestMs) {
			id, oldestMs, due = b.ID, c.heardMs, true
		}
	}
	return id, due
}

// Deadline returns when Expired is to be asked next, and false if no broker is in service.
func (l *Liveness) Deadline(im *Image, nowMs int64) (atMs int64, some bool) {
	for _, b := range im.Brokers() {
		if b.Fenced {
			continue
		}
		if at := l.of(b, nowMs).heardMs + l.sessionMs; !some || at < atMs {
			atMs, some = at, true
		}
	}
	return atMs, some
}
