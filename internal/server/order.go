package server

import (
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/wire"
)

// unansweredMax is how many requests of one connection may wait for their answers.
const unansweredMax = 64

// slot is one request from its first byte until its answer was written. Slots are used again, with the reply function that is
// bound to them, so that a request allocates nothing.
type slot struct {
	conn     *conn
	req      wire.Request
	reply    func(*wire.Response) // answer, bound once
	frame    *wire.Frame
	lease    lease
	overlaps bool
	at       moments // answered is guarded by the connection's mu

	// Guarded by the connection's mu.
	state    slotState
	response *wire.Response
	next     *slot // in the order, or in the list of free slots
}

type slotState uint8

const (
	slotFree      slotState = iota
	slotHandling            // Handle has not returned: the reading goroutine looks for the answer then
	slotParked              // Handle has returned without an answer
	slotAnswered            // the answer is there, for whoever may write it
	slotAbandoned           // the connection ended first: the answer is dropped when it comes
)

// order is the line of a connection's unanswered requests. Whose turn it is to write: the reading goroutine, when its request
// is the only unanswered one; else the writer, which takes answered requests off the front.
type order struct {
	front, back *slot
	unanswered  int // in the line or being written
	free        *slot
	reader      sync.Cond // the reading goroutine waits for answers
	writer      sync.Cond // the writer waits for the front to be answered
	started     bool      // the writer
}

func (o *order) init(mu *sync.Mutex) { o.reader.L, o.writer.L = mu, mu }

func (o *order) push(s *slot) {
	if o.back == nil {
		o.front = s
	} else {
		o.back.next = s
	}
	o.back = s
	o.unanswered++
}

// takeAnswered takes the answered requests off the front of the line, at most n; they stay unanswered until written.
func (o *order) takeAnswered(n int) (first *slot, taken int) {
	first = o.front
	var last *slot
	for o.front != nil && o.front.state == slotAnswered && taken < n {
		last, o.front = o.front, o.front.next
		taken++
	}
	if last == nil {
		return nil, 0
	}
	last.next = nil
	if o.front == nil {
		o.back = nil
	}
	return first, taken
}

func (o *order) wakeAll() {
	o.reader.Broadcast()
	o.writer.Broadcast()
}

// awaitBelow waits until fewer than n requests are unanswered or the connection is closed.
func (o *order) awaitBelow(n int, closed *bool) {
	for o.unanswered >= n && !*closed {
		o.reader.Wait()
	}
}

// takeSlot returns a slot for the next request.
func (c *conn) takeSlot() *slot {
	if s := c.spare; s != nil {
		c.spare = nil
		return s
	}
	c.mu.Lock()
	s := c.order.free
	if s != nil {
		c.order.free, s.next = s.next, nil
	}
	c.mu.Unlock()
	if s == nil {
		s = &slot{conn: c}
		s.reply = s.answer
	}
	return s
}

// fill makes the slot's request out of its frame.
func (s *slot) fill(h *wire.Header) {
	s.req.Key, s.req.Version, s.req.CorrelationID = h.Key, h.Version, h.CorrelationID
	s.req.ClientID = s.conn.clientIDString(h.ClientID)
	s.req.Body, s.req.Frame, s.req.Peer = h.Body, s.frame, &s.conn.peer
	s.overlaps = s.conn.server.handler.Overlaps(h.Key)
}

// dropFrame gives the frame's memory back, and what the request holds of the budget.
func (s *slot) dropFrame() {
	s.dropBytes()
	s.lease.giveBack()
}

func (s *slot) dropBytes() {
	if s.frame != nil {
		s.frame.Release()
		s.frame, s.req.Frame, s.req.Body = nil, nil, nil
	}
}

// dropBody is dropFrame for a request that overlaps and that Handle has returned from. One that carries records has passed them on by
// then. Of another kind what was decoded of it may wait, and counts until it is answered: many of a connection may wait at a time.
func (s *slot) dropBody() {
	s.dropBytes()
	if s.conn.server.handler.Carries(s.req.Key) {
		s.lease.giveBack()
	}
}

// recycle makes a slot whose answer was written, or is not wanted any more, ready for another request.
func (s *slot) recycle() {
	if release := s.response.Release; release != nil {
		release()
	}
	s.dropFrame()
	s.response = nil
	s.req.Response() // resets it: an idle connection must not keep its last answer alive
}

// handle gives the request to the handler and sees to its answer. It returns false when the connection ends.
func (c *conn) handle(s *slot) bool {
	limit := 1
	if s.overlaps && c.inLine == s.req.Key {
		limit = unansweredMax
	}
	c.mu.Lock()
	c.order.awaitBelow(limit, &c.closed)
	if c.closed {
		c.mu.Unlock()
		s.dropFrame()
		return false
	}
	s.state, c.inLine = slotHandling, s.req.Key
	c.order.push(s)
	c.mu.Unlock()
	c.server.metrics.Keys[s.req.Key].Requests.Inc()
	s.at.begun = time.Since(s.req.Received)
	if !c.callHandler(s) {
		c.forsake(s)
		return false
	}
	if s.overlaps {
		s.dropBody() // an answer that is there already does not alias it
	}
	s.at.handled = time.Since(s.req.Received)
	c.mu.Lock()
	if s.response == nil && !c.park(s) {
		defer c.mu.Unlock()
		return s.overlaps && !c.closed
	}
	s.state = slotAnswered
	if c.order.unanswered > 1 {
		s.lease.settle()
		c.order.writer.Signal()
		c.mu.Unlock()
		return true
	}
	c.order.takeAnswered(1)
	c.mu.Unlock()
	ok := c.write(s, true)
	s.recycle()
	c.mu.Lock()
	c.order.unanswered--
	s.state = slotFree
	c.mu.Unlock()
	c.spare = s
	return ok
}

// park is called, with mu held, when Handle has returned without an answer. It returns true when the reading goroutine has
// waited and got it; false leaves the request in the line, to the writer if the connection goes on. A request of a client that sends
// small ones one at a time is waited for: that costs less than the writer, and what comes meanwhile can wait as long.
func (c *conn) park(s *slot) bool {
	s.state = slotParked
	if s.overlaps && c.order.unanswered == 1 && c.inEnd == c.inStart && !c.server.handler.Carries(s.req.Key) {
		s.overlaps = false
	}
	if s.overlaps {
		if !c.order.started {
			c.order.started = true
			c.writer.Go(c.writeAnswers)
		}
		return false
	}
	c.server.expire(&c.parked, c.server.config.ParkedCheck)
	for s.state == slotParked && !c.closed {
		c.order.reader.Wait()
	}
	c.parked.clear()
	return s.state == slotHandling && !c.closed
}

// callHandler returns false when the handler panicked.
func (c *conn) callHandler(s *slot) (ok bool) {
	defer c.contain(s)
	c.server.handler.Handle(&s.req, s.reply)
	return true
}

// forsake lets go of what a request holds whose handler panicked: an answer may never come. The buffer is left to the garbage
// collector, as the handler may have passed it on.
func (c *conn) forsake(s *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.frame = nil
	s.lease.giveBack()
}

// answer is the reply function of the slot's request.
func (s *slot) answer(r *wire.Response) {
	c := s.conn
	c.mu.Lock()
	invariant.Check(s.response == nil && s.state != slotFree, "a request was answered twice")
	s.response = r
	s.at.answered = time.Since(s.req.Received)
	switch s.state {
	case slotAbandoned:
		c.mu.Unlock()
		s.recycle()
		return
	case slotParked:
		if !s.overlaps {
			s.state = slotHandling // the writer, which may have just come to the front of the line, is not to take it
			c.order.reader.Signal()
			break
		}
		s.state = slotAnswered
		s.lease.settle()
		if c.order.front == s {
			c.order.writer.Signal()
		}
	} // slotHandling: the reading goroutine looks when Handle returns
	c.mu.Unlock()
}

// abandonAll lets go of the requests that are unanswered when the connection has ended. An answer that is still to come is
// dropped then.
func (c *conn) abandonAll() {
	c.mu.Lock()
	s := c.order.front
	c.order.front, c.order.back = nil, nil
	var answered []*slot
	for ; s != nil; s = s.next {
		s.state = slotAbandoned
		if s.response != nil {
			answered = append(answered, s)
		}
	}
	c.mu.Unlock()
	for _, s := range answered {
		s.recycle()
	}
}

// writeAnswers is the writer: it writes answers in request order, as many at a time as are there, until the connection closes.
func (c *conn) writeAnswers() {
	for {
		first, n := c.awaitAnswers()
		if n == 0 {
			return
		}
		ok := true
		for s := first; s != nil; s = s.next {
			ok = ok && c.write(s, s.next == nil)
			s.recycle()
		}
		c.mu.Lock()
		for s := first; s != nil; {
			next := s.next
			s.state, s.next, c.order.free = slotFree, c.order.free, s
			s = next
		}
		c.order.unanswered -= n
		c.order.reader.Signal()
		c.mu.Unlock()
		if !ok {
			c.close()
			return
		}
	}
}

// awaitAnswers returns answered requests from the front of the line, none when the connection has closed.
func (c *conn) awaitAnswers() (first *slot, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed {
		if first, n = c.order.takeAnswered(unansweredMax); n > 0 {
			return first, n
		}
		c.order.writer.Wait()
	}
	return nil, 0
}
