// Package peer is how this node talks to the other nodes of its cluster: connections to brokers and controllers, and the calls
// that go over them. Its types are those of kafka, kraft and meta, and its own where replicas fetch; the wire's stay inside.
//
// A [Client] has one connection at a time. Requests on it are pipelined, and answered in their order, as every Kafka server does:
// a fetch that waits for records keeps what was sent after it waiting. So each fetcher has a client of its own, and short calls
// another one.
//
// Every error of a call that was not answered is an [*Error]. What the other node answered, its code included, is no error of a
// call: it stands in the answer.
package peer

import (
	"errors"
	"fmt"
)

// Endpoint is where another node listens.
type Endpoint struct {
	Host     string
	Port     uint16
	Security string // PLAINTEXT, the only one that is spoken; empty means the same
}

// Error says that a call got no answer.
type Error struct {
	Address string // host:port
	Doing   string // as "dial" or "Fetch"
	Err     error

	dead bool
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Doing, e.Address, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Dead tells that nobody serves the address: a connection to it was refused or reset while it was made. A process that ends
// closes its sockets, so that whoever asks again learns of it at once and not by a timeout. Other packages ask for this by
// interface{ Dead() bool }, or [IsDead].
func (e *Error) Dead() bool { return e.dead }

// IsDead tells whether err says that nobody serves the address.
func IsDead(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.dead
}

var (
	// ErrClosed says that the client was closed on this side.
	ErrClosed = errors.New("connection closed here")
	// ErrGone says that the other side has closed the connection while a call was on its way: it may or may not have been done.
	ErrGone = errors.New("connection closed by the other side")
	// ErrBackoff says that a connection failed a moment ago and is not tried again yet.
	ErrBackoff = errors.New("waiting before the next attempt to connect")
	// ErrUnsupported says that the other node does not serve the API at a version that holds what was to be said.
	ErrUnsupported = errors.New("not served by the other node")
)
