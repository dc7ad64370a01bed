package api

import (
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Heartbeats knows on which connection each broker was heard of last. A process that dies closes its sockets: who watches them knows of it
// long before the session is over.
type Heartbeats struct {
	gone func(kafka.NodeID, kafka.BrokerEpoch)

	mu    sync.Mutex // guards what follows; held for memory only
	heard map[uint64]heardBroker
	last  map[kafka.NodeID]uint64 // the connection
}

type heardBroker struct {
	id    kafka.NodeID
	epoch kafka.BrokerEpoch
}

// NewHeartbeats returns one that has heard of nobody. gone is told, on the connection's goroutine, of a broker whose last connection has
// ended; it must not block.
func NewHeartbeats(gone func(kafka.NodeID, kafka.BrokerEpoch)) *Heartbeats {
	return &Heartbeats{gone: gone, heard: map[uint64]heardBroker{}, last: map[kafka.NodeID]uint64{}}
}

// heardOn notes a heartbeat.
func (h *Heartbeats) heardOn(conn uint64, id kafka.NodeID, epoch kafka.BrokerEpoch) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[conn], h.last[id] = heardBroker{id, epoch}, conn
}

// Heard tells whether a connection is open on which the broker was heard of.
func (h *Heartbeats) Heard(id kafka.NodeID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.last[id]
	return known
}

// Disconnected is told of each connection to the controllers' listener that has ended.
func (h *Heartbeats) Disconnected(conn uint64) {
	h.mu.Lock()
	broker, known := h.heard[conn]
	delete(h.heard, conn)
	last := known && h.last[broker.id] == conn
	if last {
		delete(h.last, broker.id)
	}
	h.mu.Unlock()
	if last {
		h.gone(broker.id, broker.epoch)
	}
}
