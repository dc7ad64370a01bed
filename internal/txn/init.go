package txn

import (
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// initProducer gives a transactional id to a client: with an epoch that nobody has had, so that all who had the id before are
// fenced. What they left open is aborted first, and the client asked to come again.
func (m *Machine) initProducer(now time.Time, ticket Ticket, id string, e *entry, cmd *InitProducer) Effects {
	switch {
	case cmd.TwoPhaseCommit && !m.cfg.TwoPhaseCommit:
		return reply(ticket, cmd.Fail(kafka.TransactionalIdAuthorizationFailed))
	case cmd.KeepPrepared: // Kafka 4.4 has the field, and nothing behind it
		return reply(ticket, cmd.Fail(kafka.UnsupportedVersion))
	case !cmd.TwoPhaseCommit && (cmd.TimeoutMs <= 0 || time.Duration(cmd.TimeoutMs)*time.Millisecond > m.cfg.TimeoutMax):
		return reply(ticket, cmd.Fail(kafka.InvalidTransactionTimeout))
	case e == nil && cmd.Fresh == kafka.NoProducer:
		return Effects{NeedsID: true}
	}
	if e == nil {
		e = &entry{id: id, last: NoID.Epoch}
		m.ids[id] = e
		v := &Value{ID: ID{Producer: cmd.Fresh}, Previous: cmd.Fresh, Next: kafka.NoProducer, UpdatedMs: now.UnixMilli()}
		return m.handOut(ticket, e, cmd, v, NoID.Epoch)
	}
	switch {
	case e.busy():
		return reply(ticket, cmd.Fail(kafka.ConcurrentTransactions))
	case cmd.Expected != NoID && !e.mayGoOn(cmd.Expected):
		return reply(ticket, cmd.Fail(kafka.ProducerFenced))
	case e.value.State == Ongoing:
		return m.takeOver(now, ticket, e, cmd)
	}

	v, current := e.next(now, Empty), e.value.ID
	anew := cmd.Expected == NoID || cmd.Expected.Epoch == current.Epoch
	// Else it may be that the answer to a bump was lost. Then no one has come between: a new client would have made last -1.
	again := !anew && cmd.Expected.Epoch == e.last
	switch {
	case anew && current.used() || again && current.Epoch == epochMax:
		if cmd.Fresh == kafka.NoProducer {
			return Effects{NeedsID: true}
		}
		v.ID = ID{Producer: cmd.Fresh}
	case anew:
		v.ID.Epoch++
	case !again:
		return reply(ticket, cmd.Fail(kafka.ProducerFenced))
	}
	return m.handOut(ticket, e, cmd, v, cmd.Expected.Epoch)
}

// handOut writes down who has the id from now on, and tells the client.
func (m *Machine) handOut(ticket Ticket, e *entry, cmd *InitProducer, v *Value, last kafka.ProducerEpoch) Effects {
	v.TimeoutMs, v.StartMs, v.Partitions = cmd.TimeoutMs, -1, nil
	if cmd.TwoPhaseCommit {
		v.TimeoutMs = twoPhase
	}
	invariant.Check(v.ID.Producer >= 0 && v.ID.Epoch >= 0 && v.ID.Epoch < epochMax, "%s: %v is nobody's to have", e.id, v.ID)
	return m.write(e, func() Effects {
		e.last = last
		return reply(ticket, &InitProducerReply{ID: v.ID, Ongoing: NoID})
	}, refusal(ticket, cmd), v)
}

// mayGoOn tells whether a client that has been who it says may have the id again (KIP-360): the producer id is its own, or was when
// its epochs ended, and the answer that told of the new one was lost.
func (e *entry) mayGoOn(expected ID) bool {
	return expected.Producer == e.value.ID.Producer || expected.Producer == e.value.Previous && expected.used()
}

// takeOver fences the client that has a transaction open, and aborts it.
func (m *Machine) takeOver(now time.Time, ticket Ticket, e *entry, cmd *InitProducer) Effects {
	if m.protocol >= 2 && e.value.ID.used() && cmd.Fresh == kafka.NoProducer {
		return Effects{NeedsID: true}
	}
	return m.fence(now, e, cmd.Fresh, func(code kafka.Error) Effects {
		if code == kafka.None {
			code = kafka.ConcurrentTransactions // until the markers are written
		}
		return reply(ticket, cmd.Fail(code))
	})
}

// fence aborts an open transaction from here: its producer's epoch is over. The epoch that fences goes to nobody. fresh is for when
// it is the last one, and may be NoProducer: then it is the next client that gets a new producer id.
func (m *Machine) fence(now time.Time, e *entry, fresh kafka.ProducerID, settled func(kafka.Error) Effects) Effects {
	p := preparation{state: PrepareAbort, fence: true, next: kafka.NoProducer}
	if m.protocol >= 2 {
		p.protocol, p.next = 2, fresh
	}
	return m.prepare(now, e, p, settled)
}

// refusal answers a command whose records could not be appended.
func refusal(ticket Ticket, cmd Command) func(kafka.Error) Effects {
	return func(code kafka.Error) Effects { return reply(ticket, cmd.Fail(code)) }
}
