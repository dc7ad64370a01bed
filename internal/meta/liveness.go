package meta

import "github.com/raftsman/raftsman/internal/kafka"

// Liveness is what the active controller alone knows of brokers: who was heard of when, how far each has got in the metadata,
// and who is on the way out. Nothing of it is in the log. It begins anew with the leadership: all that are in service have a full
// session first, as nobody could be heard of. Not safe for concurrent use. Times are of one monotonic clock, in ms.
type Liveness struct {
	sessionMs int64
	brokers   map[kafka.NodeID]*contact
}

// contact is what is known of one registration of a broker.
type contact struct {
	epoch   kafka.BrokerEpoch
	heardMs int64
	gone    bool // its process has ended, or has leave to end
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
	c := &contact{epoch: epoch, heardMs: nowMs}
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
		c.heardMs, c.gone = max(c.heardMs, nowMs), false
	}
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
