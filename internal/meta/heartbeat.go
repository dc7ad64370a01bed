package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Heartbeat notes that a broker is alive and decides on what it wants. A fenced broker is put in service when it has applied its
// registration. One that wants to stop hands its partitions to others first; it may stop when it leads nothing and all the others that
// stay in service know that. What lies in its failed log directories is handed over too. The entries are to be appended at end.
// STALE_BROKER_EPOCH: it is not registered under this epoch, and must register anew.
func (l *Liveness) Heartbeat(im *Image, hb Heartbeat, end kafka.Offset, nowMs int64, env Env) ([]Entry, HeartbeatResult, error) {
	b, err := im.registered(hb.Broker, hb.Epoch)
	if err != nil {
		return nil, HeartbeatResult{}, err
	}
	c := l.of(b, nowMs)
	c.heard(nowMs)
	c.applied = hb.MetadataOffset
	result := HeartbeatResult{CaughtUp: hb.MetadataOffset >= c.registered}

	if len(b.LogDirs) > 0 && len(b.dirsWithout(hb.OfflineDirs)) == 0 {
		hb.WantFence = true // it has nothing left to serve from
	}
	entries := b.loseDirs(im, hb.OfflineDirs, env)
	if hb.CordonedDirs != nil {
		entries = append(entries, b.changeDirs(im, b.LogDirs, hb.CordonedDirs)...)
	}
	im = im.after(entries)
	b, _ = im.Broker(hb.Broker)

	next := l.next(im, b, hb, result.CaughtUp)
	if next != stopping {
		c.stopping = kafka.NoOffset
	}
	switch next {
	case inService:
		if b.Fenced {
			entries = append(entries, unfence(im, b, env)...)
		}
	case stopping:
		entries = append(entries, beginStopping(im, b, env)...)
		if c.stopping == kafka.NoOffset {
			c.stopping = end + kafka.Offset(len(entries)) - 1
		}
	default:
		entries = append(entries, DecideFence(im, b.ID, env)...)
		result.Fenced, result.ShouldShutDown = true, next == stopped
		c.gone = next == stopped // it is not in the way of its next start
	}
	return entries, result, nil
}

// brokerState is what a broker is after a heartbeat.
type brokerState int8

const (
	fenced brokerState = iota
	inService
	stopping // in controlled shutdown
	stopped  // fenced, with leave to end
)

// next tells what a broker is to be.
func (l *Liveness) next(im *Image, b *Broker, hb Heartbeat, caughtUp bool) brokerState {
	c := l.brokers[b.ID]
	switch {
	case b.Fenced && hb.WantShutDown:
		return stopped
	case b.Fenced && (hb.WantFence || !caughtUp):
		return fenced
	case b.Fenced:
		return inService
	case c.stopping != kafka.NoOffset: // there is no way back from it but another registration
		if im.leadsAny(b.ID) || l.lowestApplied(im) < c.stopping {
			return stopping
		}
		return stopped
	case hb.WantFence && !hb.WantShutDown:
		return fenced
	case hb.WantShutDown && !hb.WantFence && im.leadsAny(b.ID):
		return stopping
	case hb.WantShutDown:
		return stopped
	}
	return inService
}

// leadsAny tells whether a broker leads a partition.
func (im *Image) leadsAny(id kafka.NodeID) bool {
	for t := range im.Topics() {
		if slices.ContainsFunc(t.Partitions, func(p Partition) bool { return p.Leader == id }) {
			return true
		}
	}
	return false
}

// beginStopping takes a broker's leaderships away. It still serves until all know.
func beginStopping(im *Image, b *Broker, env Env) (entries []Entry) {
	if !b.InControlledShutdown {
		record := &sysrecord.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: 1}
		entries = append(entries, Entry{Record: record, Version: 1})
	}
	return append(entries, leave(im, b.ID, env)...)
}

// lowestApplied returns how far all that are in service and stay there have got in the metadata.
func (l *Liveness) lowestApplied(im *Image) kafka.Offset {
	lowest := kafka.Offset(1<<63 - 1)
	for _, b := range im.Brokers() {
		if c, ok := l.brokers[b.ID]; ok && c.epoch == b.Epoch && b.inService() {
			lowest = min(lowest, c.applied)
		}
	}
	return lowest
}
