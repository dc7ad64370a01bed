package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// DecideStart makes a broker known that starts as a quorum of one, and puts it in service at once: its registration, still fenced,
// which becomes its broker epoch and therefore must be appended at end; what it leads from now on; and the end of its fencing. It
// leads on what it led, and what nobody leads if it has everything of it, each in a log directory that works. After an unclean stop every
// partition that it leads gets a new leader epoch: what its log lost must not stand under an epoch that readers have seen. What it may
// have lost for good (PreviousEpoch) is led by another in sync, if there is one.
func DecideStart(im *Image, reg Registration, end kafka.Offset, env Env) []Entry {
	b := reg.broker(im, kafka.BrokerEpoch(end))
	entries := []Entry{{Record: b.record(), Version: im.registerBrokerVersion()}}
	before, known := im.Broker(reg.ID)
	lossy := reg.Unclean && known && reg.PreviousEpoch != before.Epoch
	with := electionsOf(im, &env)
	with.coming = b
	for t := range im.Topics() {
		for i := range t.Partitions {
			if t.Partitions[i].concerns(reg) {
				entries = append(entries, with.change(t, int32(i)).takeLead(reg, lossy)...)
			}
		}
	}
	return append(entries, Entry{Record: fencing(b, -1)})
}

// concerns tells whether the start of a broker may change the partition: it leads it after an unclean stop, nobody leads it, or the
// broker's replica can't be served.
func (p *Partition) concerns(reg Registration) bool {
	has := slices.Contains(p.Replicas, reg.ID)
	return has && (p.Leader == reg.ID && reg.Unclean || p.Leader == kafka.NoNode || !p.online(reg.ID, reg.LogDirs))
}

// takeLead is what the start of a broker changes in one partition.
func (c *partitionChange) takeLead(reg Registration, lossy bool) []Entry {
	p := c.old
	others := without(p.ISR, reg.ID)
	switch {
	case !p.online(reg.ID, reg.LogDirs):
		c.isr = others
	case lossy && (slices.ContainsFunc(others, c.fit) || len(others) == 0 && slices.ContainsFunc(without(p.ELR, reg.ID), c.fit)):
		c.isr, c.lost = others, reg.ID
	case p.Leader == reg.ID:
		c.newEpoch = true
	}
	return c.entries()
}

// broker is what a registration makes known.
func (reg Registration) broker(im *Image, epoch kafka.BrokerEpoch) *Broker {
	b := &Broker{
		ID: reg.ID, Epoch: epoch, Incarnation: reg.Incarnation, Fenced: true, Rack: reg.Rack,
		Endpoints: reg.Endpoints, Features: reg.Features,
	}
	if im.level() >= levelDirectories {
		b.LogDirs = reg.LogDirs
	}
	if im.level() >= levelCordonedDirs {
		b.CordonedDirs = append([]kafka.UUID{}, reg.Cordoned...)
	}
	return b
}

// fencing is the record that fences a broker (1) or ends that (-1).
func fencing(b *Broker, fenced int8) *sysrecord.BrokerRegistrationChangeRecord {
	return &sysrecord.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: fenced}
}

// DecideUnregister removes a broker that is not coming back: it leads nothing then, and is in sync nowhere. It stays eligible where
// it is: nobody else may have what it has, if it does come back.
func DecideUnregister(im *Image, id kafka.NodeID, env Env) ([]Entry, error) {
	b, registered := im.Broker(id)
	if !registered {
		return nil, kafka.Refuse(kafka.BrokerIdNotRegistered, "no broker has the id %d", id)
	}
	entries := leave(im, id, env)
	return append(entries, Entry{Record: &sysrecord.UnregisterBrokerRecord{BrokerID: id, BrokerEpoch: b.Epoch}}), nil
}

// DecideFence takes a registered broker that is not there out of service: it stays registered, what it led is led by others in
// sync, and clients are not sent to it. Nothing is decided for one that is fenced already. The last record is what fences it, so that
// what a crash cuts short is done again.
func DecideFence(im *Image, id kafka.NodeID, env Env) []Entry {
	b, registered := im.Broker(id)
	if !registered || b.Fenced {
		return nil
	}
	return append(leave(im, id, env), Entry{Record: fencing(b, 1)})
}

// unfence puts a registered broker in service, and makes it lead what nobody leads and it has everything of.
func unfence(im *Image, b *Broker, env Env) []Entry {
	entries := []Entry{{Record: fencing(b, -1)}}
	with := electionsOf(im, &env)
	with.coming = b
	for t := range im.Topics() {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == kafka.NoNode {
				entries = append(entries, with.change(t, int32(i)).entries()...)
			}
		}
	}
	return entries
}

// leave takes a broker out of the in-sync sets and hands its partitions to others in sync.
func leave(im *Image, id kafka.NodeID, env Env) []Entry {
	return leaveLosing(im, id, env, func(*Partition) bool { return false })
}

// leaveLosing is leave for a broker that may have lost what it acknowledged of some partitions: of these it is not eligible any more
// either, where eligible leader replicas are kept (KIP-966).
func leaveLosing(im *Image, id kafka.NodeID, env Env, lost func(*Partition) bool) (entries []Entry) {
	with := electionsOf(im, &env)
	with.going = id
	for t := range im.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			among, eligible := p.Leader == id || slices.Contains(p.ISR, id), slices.Contains(p.ELR, id)
			if !among && !eligible {
				continue
			}
			lossy := lost(p)
			if !among && !lossy {
				continue
			}
			change := with.change(t, int32(i))
			if lossy {
				change.lost = id
			}
			entries = append(entries, change.leave(id)...)
		}
	}
	return entries
}

// leave takes a broker out of the in-sync set.
func (c *partitionChange) leave(id kafka.NodeID) []Entry {
	c.isr = without(c.isr, id)
	return c.entries()
}

// ProducerIDBlock is how many producer ids a broker takes at once.
const ProducerIDBlock = 1000

// DecideProducerIDs hands the next block of producer ids to a broker: first is the block's first id.
// STALE_BROKER_EPOCH: it is not registered under this epoch.
func DecideProducerIDs(im *Image, id kafka.NodeID, epoch kafka.BrokerEpoch) (entries []Entry, first kafka.ProducerID, err error) {
	if _, err := im.registered(id, epoch); err != nil {
		return nil, kafka.NoProducer, err
	}
	first = im.NextProducerID()
	if first > 1<<63-1-ProducerIDBlock {
		return nil, kafka.NoProducer, kafka.UnknownServerError
	}
	r := &sysrecord.ProducerIdsRecord{BrokerID: id, BrokerEpoch: epoch, NextProducerID: first + ProducerIDBlock}
	return []Entry{{Record: r}}, first, nil
}
