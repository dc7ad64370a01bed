package main

import (
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// outageHook tells when the brokers are gone and when they are back. The client itself goes on trying, in silence.
type outageHook struct {
	app *app
	mu  sync.Mutex // guards down
	// down is set between the first failed attempt and the next success.
	down bool
}

// OnBrokerConnect is called by the client for every attempt.
func (h *outageHook) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && !h.down:
		h.down = true
		h.app.note("no connection to the broker at %s:%d: trying again", meta.Host, meta.Port)
	case err == nil && h.down:
		h.down = false
		h.app.note("connected again")
	}
}
