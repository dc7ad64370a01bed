// Package server owns the sockets: it accepts, reads frames, hands each request to a [Handler] in order, and writes the answers
// in that order.
package server

import (
	"context"
	"net"

	"github.com/raftsman/raftsman/internal/wire"
)

// Handler answers requests.
type Handler interface {
	// Serves tells whether a request of that version can be handled; any other closes the connection. It must be true for
	// ApiVersions at every version.
	Serves(key, version int16) bool
	// Overlaps tells whether the next request may be handled before this one was answered.
	Overlaps(key int16) bool
	// Handle is called on the connection's goroutine, in request order. It calls reply exactly once, on any goroutine, then or
	// later; reply does not block. For keys that overlap req.Body must not be used after Handle returned, for all others not
	// after reply was called.
	Handle(req *wire.Request, reply func(*wire.Response))
}

// Listener is one address to serve.
type Listener struct {
	net.Listener
	Name string // of the listener in Kafka's configuration, as PLAINTEXT
}

// Server serves Kafka's protocol on any number of listeners.
type Server struct{}

// New returns a server that hands requests to h.
func New(c Config, h Handler) *Server { return &Server{} }

// Config is how a server behaves. The zero value of a field means its default.
type Config struct{}

// Serve accepts on the listeners until Shutdown, and returns at once.
func (s *Server) Serve(listeners ...Listener) {}

// Shutdown stops accepting and waits until every request read so far was answered; then it closes all connections. When ctx
// ends first they are closed at once and its error is returned.
func (s *Server) Shutdown(ctx context.Context) error { return nil }
