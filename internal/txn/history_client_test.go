package txn

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// client is one incarnation of what uses a transactional id. It need not know that there is a later one.
type client struct {
	n        int
	txn      string
	protocol int16
	dead     bool

	id       ID
	expected ID // who it was, when it asks for its id again
	stage    stage
	op       int // the number of what it does now: answers to what it did before do not count
	begun    []*transaction
	commit   bool // how it ends the transaction
	asked    bool // it has sent what it wants now at least once
}

type stage uint8

const (
	initing stage = iota
	ready
	adding // protocol 0: partitions, before anything is written to them
	producing
	finishing
)

// current is the transaction that a client is in.
func (c *client) current() *transaction { return c.begun[len(c.begun)-1] }

// act lets a client that lives do its next thing, or again what it has no answer to; or there comes another one.
func (h *history) act() {
	var alive []*client
	for _, c := range h.clients {
		if !c.dead {
			alive = append(alive, c)
		}
	}
	if len(alive) == 0 || len(h.clients) < 12 && h.rand.IntN(25) == 0 {
		c := &client{n: len(h.clients), txn: []string{"a", "b"}[h.rand.IntN(2)], expected: NoID}
		if h.level >= 2 && h.rand.IntN(3) > 0 {
			c.protocol = 2
		}
		h.clients = append(h.clients, c)
		alive = append(alive, c)
	}
	c := alive[h.rand.IntN(len(alive))]
	if c.asked && h.rand.IntN(4) > 0 {
		return // it waits
	}
	c.asked = true
	op := c.op // as it is when this is sent
	switch c.stage {
	case initing:
		cmd := InitProducer{TimeoutMs: 30_000, Expected: c.expected, Fresh: kafka.NoProducer}
		h.send(c, func() { again := cmd; h.init(c, op, &again) })
	case ready:
		h.begin(c)
	case adding:
		cmd := AddPartitions{ID: c.id, Partitions: slices.Clone(c.current().wanted)}
		h.send(c, h.answering(c, &cmd, c.current(), func(kafka.Error) { h.next(c, producing) }))
	case producing:
		h.produce(c)
	case finishing:
		cmd, x := End{ID: c.id, Commit: c.commit, Protocol: c.protocol, Fresh: kafka.NoProducer}, c.current()
		h.send(c, func() { again := cmd; h.end(c, op, x, &again) })
	}
}

func (h *history) begin(c *client) {
	x := &transaction{n: c.n*1000 + len(c.begun), client: c, acked: map[kafka.TopicPartition]bool{}, outcome: map[kafka.TopicPartition]bool{}}
	for p := range int32(4) {
		if h.rand.IntN(2) == 0 {
			x.wanted = append(x.wanted, kafka.TopicPartition{Topic: "t", Partition: p})
		}
	}
	if len(x.wanted) == 0 {
		x.wanted = append(x.wanted, kafka.TopicPartition{Topic: "t"})
	}
	c.begun = append(c.begun, x)
	if c.protocol >= 2 {
		h.next(c, producing)
	} else {
		h.next(c, adding)
	}
}

// next brings a client to its next stage. What it has sent before may still arrive, but for clients of protocol 0: there nothing tells
// an old request of the same producer from a new one.
func (h *history) next(c *client, s stage) {
	c.stage, c.asked = s, false
	c.op++
	if c.protocol < 2 {
		h.network = slices.DeleteFunc(h.network, func(m message) bool { return m.from == c })
	}
}

func (h *history) send(c *client, deliver func()) {
	h.network = append(h.network, message{from: c, op: c.op, deliver: deliver})
}

// deliver lets a message arrive, perhaps not for the last time; or loses it.
func (h *history) deliver() {
	if len(h.network) == 0 {
		return
	}
	i := h.rand.IntN(len(h.network))
	m := h.network[i]
	if m.from == nil || h.rand.IntN(5) > 0 {
		h.network = slices.Delete(h.network, i, i+1)
	}
	if m.from != nil && h.rand.IntN(10) == 0 {
		return
	}
	m.deliver()
}

// retriable: the client comes again.
func retriable(code kafka.Error) bool {
	return code == kafka.ConcurrentTransactions || code == kafka.CoordinatorNotAvailable || code == kafka.NotCoordinator
}

// hears tells whether an answer reaches its client while it still waits for it.
func (h *history) hears(c *client, op int) bool { return !c.dead && c.op == op && h.rand.IntN(8) > 0 }

// gives notes who was told to have an id, heard or not.
func (h *history) gives(c *client, id ID) {
	if other := h.given[id]; other != nil && other != c {
		h.fail("client %d is told that it is %v, client %d was told so before", c.n, id, other.n)
	}
	if id.Epoch >= epochMax {
		h.fail("client %d is told that it is %v: nobody can fence it", c.n, id)
	}
	h.given[id] = c
}

func (h *history) init(c *client, op int, cmd *InitProducer) {
	h.handle(c.txn, cmd, nil, func(reply Reply) {
		r := reply.(*InitProducerReply)
		if r.Code == kafka.None {
			h.gives(c, r.ID)
		}
		switch {
		case !h.hears(c, op) || retriable(r.Code) || r.Code == kafka.UnknownServerError:
		case r.Code == kafka.None:
			c.id = r.ID
			h.next(c, ready)
		case r.Code == kafka.ProducerFenced && cmd.Expected != NoID:
			c.dead = true
		default:
			h.fail("client %d wants its id and hears %v", c.n, r.Code)
		}
	})
}

// answering asks about the partitions of a transaction and goes on when they are all in it.
func (h *history) answering(c *client, cmd *AddPartitions, x *transaction, then func(kafka.Error)) func() {
	op := c.op
	return func() {
		again := *cmd
		h.handle(c.txn, &again, x, func(reply Reply) {
			r := reply.(*AddPartitionsReply)
			code := r.Code
			for _, each := range r.Codes {
				code = max(code, each)
			}
			switch {
			case code == kafka.None && (cmd.VerifyOnly || cmd.Protocol >= 2):
				then(code) // it is not the client that has asked
			case !h.hears(c, op) || retriable(code):
			case code == kafka.None:
				then(code)
			default:
				h.giveUp(c, code)
			}
		})
	}
}

// giveUp is what a client does when its transaction cannot go on.
func (h *history) giveUp(c *client, code kafka.Error) {
	if code == kafka.ProducerFenced || code == kafka.InvalidProducerIdMapping {
		if c.dead = h.rand.IntN(2) == 0; !c.dead {
			c.expected = c.id
			h.next(c, initing)
		}
		return
	}
	c.commit = false
	h.next(c, finishing)
}

// produce writes to the next partition of the transaction: whoever has it asks the coordinator, and appends when it may.
func (h *history) produce(c *client) {
	x := c.current()
	for _, tp := range x.wanted {
		if x.acked[tp] {
			continue
		}
		if h.rand.IntN(30) == 0 {
			break // it changes its mind
		}
		id, op := c.id, c.op
		h.send(c, func() {
			guard, needed := h.parts[tp].guard(h, id)
			if !needed {
				h.write1(c, op, x, tp, id, guard)
				return
			}
			cmd := &AddPartitions{ID: id, Partitions: []kafka.TopicPartition{tp}, Protocol: c.protocol, VerifyOnly: c.protocol < 2}
			h.answering(c, cmd, x, func(kafka.Error) {
				// Between the answer and the append anything may happen.
				h.network = append(h.network, message{from: c, op: op, deliver: func() { h.write1(c, op, x, tp, id, guard) }})
			})()
		})
		return
	}
	c.commit = len(x.acked) == len(x.wanted) && h.rand.IntN(4) > 0
	h.next(c, finishing)
}

func (h *history) write1(c *client, op int, x *transaction, tp kafka.TopicPartition, id ID, guard int) {
	if h.parts[tp].append(h, tp, id, x, guard) && h.hears(c, op) {
		x.acked[tp], c.asked = true, false
	}
}

func (h *history) end(c *client, op int, x *transaction, cmd *End) {
	h.handle(c.txn, cmd, x, func(reply Reply) {
		r := reply.(*EndReply)
		if r.Code == kafka.None {
			if r.ID != NoID {
				h.gives(c, r.ID)
			}
			h.tell(x, cmd.Commit)
		}
		switch {
		case !h.hears(c, op) || retriable(r.Code):
		case r.Code == kafka.None:
			if cmd.Protocol >= 2 {
				c.id = r.ID
			}
			h.next(c, ready)
		case r.Code == kafka.UnknownServerError:
			h.fail("client %d ends a transaction and hears %v", c.n, r.Code)
		default:
			h.giveUp(c, kafka.ProducerFenced)
		}
	})
}

// tell notes what a client was told of its transaction.
func (h *history) tell(x *transaction, commit bool) {
	if x.told != nil && *x.told != commit {
		h.fail("client %d is told that transaction %d is committed (%v), and the opposite", x.client.n, x.n, commit)
	}
	if x.told == nil && commit {
		h.finished++
	}
	x.told = &commit
	h.agree(x)
}

// agree checks that a transaction has one outcome only.
func (h *history) agree(x *transaction) {
	outcomes := map[bool]bool{}
	for _, committed := range x.outcome {
		outcomes[committed] = true
	}
	if x.told != nil {
		outcomes[*x.told] = true
	}
	if len(outcomes) > 1 {
		h.fail("transaction %d of client %d is torn: committed %v, its client was told %v", x.n, x.client.n, x.outcome, x.told)
	}
}
