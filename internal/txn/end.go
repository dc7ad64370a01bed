package txn

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// end commits or aborts a transaction.
func (m *Machine) end(now time.Time, ticket Ticket, e *entry, cmd *End) Effects {
	var decided ending
	switch {
	case e == nil:
		decided.code = kafka.InvalidProducerIdMapping
	case cmd.Protocol < 2:
		decided = e.decide(cmd)
	default:
		decided = e.decideBumping(cmd)
	}
	switch {
	case decided.code != kafka.None:
		return reply(ticket, cmd.Fail(decided.code))
	case !decided.prepare:
		return reply(ticket, &EndReply{ID: decided.id})
	case cmd.Protocol > 0 && m.protocol == 0: // the log could not say so
		return reply(ticket, cmd.Fail(kafka.UnsupportedVersion))
	case cmd.Protocol >= 2 && e.value.ID.used() && cmd.Fresh == kafka.NoProducer:
		return Effects{NeedsID: true}
	}
	state, protocol, fresh := PrepareAbort, int16(0), kafka.NoProducer
	if cmd.Commit {
		state = PrepareCommit
	}
	if cmd.Protocol >= 2 {
		protocol, fresh = 2, cmd.Fresh
	}
	return m.prepare(now, e, preparation{state: state, protocol: protocol, next: fresh}, func(code kafka.Error) Effects {
		switch {
		case code == kafka.UnknownServerError:
			// The record is too large for the topic. Nothing is in doubt, and clients take this code for an end of which they know
			// nothing.
			code = kafka.CoordinatorNotAvailable
		case code == kafka.None && protocol == 2:
			return reply(ticket, &EndReply{ID: e.value.after()})
		case code == kafka.None:
			return reply(ticket, &EndReply{ID: NoID})
		}
		return reply(ticket, cmd.Fail(code))
	})
}

// ending is what comes of an End: a code, an answer at once, or a transaction to prepare.
type ending struct {
	code    kafka.Error
	id      ID
	prepare bool
}

// decide looks at an End of a client that keeps its epoch.
func (e *entry) decide(cmd *End) ending {
	if !e.known() {
		return ending{code: kafka.InvalidProducerIdMapping}
	}
	if code := e.owner(cmd.ID); code != kafka.None {
		return ending{code: code}
	}
	switch {
	case e.busy():
		return ending{code: kafka.ConcurrentTransactions}
	case e.value.State == Ongoing:
		return ending{prepare: true}
	case e.value.State == outcome(cmd.Commit): // the answer was lost
		return ending{id: NoID}
	}
	return ending{code: kafka.InvalidTxnState}
}

// decideBumping looks at an End of a client whose epoch goes up with each (KIP-890): at the epoch before, it comes again.
func (e *entry) decideBumping(cmd *End) ending {
	if e.pending || e.value.State.prepared() {
		return ending{code: kafka.ConcurrentTransactions}
	}
	again := e.endedBy(cmd.ID)
	code := e.owner(cmd.ID)
	if e.followed(cmd.ID) {
		code = kafka.ProducerFenced
	}
	switch {
	case code != kafka.None && !again:
		return ending{code: code}
	case again && e.value.State == outcome(cmd.Commit):
		return ending{id: e.value.ID}
	case again:
		return ending{code: kafka.InvalidTxnState}
	case e.value.State == Ongoing:
		return ending{prepare: true}
	case cmd.Commit:
		return ending{code: kafka.InvalidTxnState}
	}
	return ending{prepare: true} // an abort of nothing: its epoch is over all the same
}

// endedBy tells whether the last transaction was ended by this producer in the epoch before, which it may not know. The one in
// whose epoch the id was handed out to another is not it: that End has not bumped the epoch.
func (e *entry) endedBy(id ID) bool {
	v := e.value
	if v.State != CompleteCommit && v.State != CompleteAbort || v.Protocol < 2 || v.ID.Epoch == epochMax {
		return false
	}
	return v.ID.Producer == id.Producer && v.ID.Epoch == id.Epoch+1 || e.followed(id)
}

// followed tells whether the id went on under the present producer id when this one's epochs were used up.
func (e *entry) followed(id ID) bool {
	return e.value.Previous == id.Producer && id.Epoch == epochMax-1 && e.value.ID.Epoch == 0 && e.value.ID.Producer != id.Producer
}

// outcome is the state of a transaction that has been ended so.
func outcome(commit bool) State {
	if commit {
		return CompleteCommit
	}
	return CompleteAbort
}
