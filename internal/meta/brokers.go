package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// DecideRegister returns what makes a starting broker known: its registration, still fenced, which becomes its broker epoch
// and therefore must be appended at offset; the partitions that it leads from now on; and the end of its fencing. A partition
// without a leader is led if the broker is in sync or eligible, and has the log directory with its replica. After an unclean stop every partition that it led already
// gets a new leader epoch too: what its log lost must not stand under an epoch that readers have seen.
func DecideRegister(im *Image, reg Registration, offset kafka.Offset) []Entry {
	b := Broker{
		ID: reg.ID, Epoch: kafka.BrokerEpoch(offset), Incarnation: reg.Incarnation, Fenced: true, Rack: reg.Rack,
		Endpoints: reg.Endpoints, Features: reg.Features, LogDirs: reg.LogDirs,
	}
	if im.level() >= levelCordonedDirs {
		b.CordonedDirs = append([]kafka.UUID{}, reg.Cordoned...)
	}
	entries := []Entry{{Record: b.record(), Version: im.registerBrokerVersion()}}
	entries = append(entries, takeLeads(im, reg)...)
	unfence := &sysrecord.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: -1}
	return append(entries, Entry{Record: unfence})
}

// takeLeads returns the leader changes that a starting broker brings.
func takeLeads(im *Image, reg Registration) []Entry {
	version := im.partitionRecordVersion()
	var entries []Entry
	for t := range im.Topics() {
		for i := range t.Partitions {
			if change := t.Partitions[i].takeLead(im, reg); change != nil {
				change.TopicID, change.PartitionID = t.ID, int32(i)
				entries = append(entries, Entry{Record: change, Version: version})
			}
		}
	}
	return entries
}

func (p *Partition) takeLead(im *Image, reg Registration) *sysrecord.PartitionChangeRecord {
	if !p.online(reg.ID, reg.LogDirs) {
		change := sysrecord.NewPartitionChangeRecord()
		if p.loseReplica(im, reg.ID, change) {
			return change
		}
		return nil
	}
	leads := p.Leader == reg.ID
	if leads && !reg.Unclean || !leads && p.Leader != kafka.NoNode {
		return nil
	}
	if !leads && !slices.Contains(p.ISR, reg.ID) && !slices.Contains(p.ELR, reg.ID) {
		return nil
	}
	change := sysrecord.NewPartitionChangeRecord()
	change.Leader = reg.ID
	p.enterISR(reg.ID, change)
	return change
}

// DecideUnregister removes a broker that is not coming back. It leads nothing then: partitions that only it had in sync have
// no leader.
func DecideUnregister(im *Image, id kafka.NodeID) ([]Entry, error) {
	b, registered := im.Broker(id)
	if !registered {
		return nil, kafka.Refuse(kafka.BrokerIdNotRegistered, "no broker has the id %d", id)
	}
	entries := leave(im, id)
	return append(entries, Entry{Record: &sysrecord.UnregisterBrokerRecord{BrokerID: id, BrokerEpoch: b.Epoch}}), nil
}

// DecideFence takes a registered broker that is not there out of service: it stays registered, what it led is led by others in
// sync, and clients are not sent to it. Nothing is decided for one that is fenced already.
func DecideFence(im *Image, id kafka.NodeID) []Entry {
	b, registered := im.Broker(id)
	if !registered || b.Fenced {
		return nil
	}
	fence := &sysrecord.BrokerRegistrationChangeRecord{BrokerID: id, BrokerEpoch: b.Epoch, Fenced: 1}
	return append(leave(im, id), Entry{Record: fence})
}

// leave takes a broker out of the in-sync sets and hands its partitions to others in sync. The last one in sync stays in the
// set: it alone has everything.
func leave(im *Image, id kafka.NodeID) []Entry {
	version := im.partitionRecordVersion()
	var entries []Entry
	for t := range im.Topics() {
		for i := range t.Partitions {
			change := sysrecord.NewPartitionChangeRecord()
			change.TopicID, change.PartitionID = t.ID, int32(i)
			if t.Partitions[i].loseReplica(im, id, change) {
				entries = append(entries, Entry{Record: change, Version: version})
			}
		}
	}
	return entries
}

// bestLeader is the first replica in order of preference that is in sync and alive.
func bestLeader(im *Image, replicas, inSync []kafka.NodeID) kafka.NodeID {
	for _, id := range replicas {
		if slices.Contains(inSync, id) && im.Alive(id) {
			return id
		}
	}
	return kafka.NoNode
}

// DecideController returns the registration of this node as a controller, which Kafka expects to find from 3.7-IV0 on, or
// nothing below that level.
func DecideController(im *Image, id kafka.NodeID, incarnation kafka.UUID, endpoints []Endpoint) []Entry {
	if im.level() < levelControllers {
		return nil
	}
	r := sysrecord.NewRegisterControllerRecord()
	r.ControllerID, r.IncarnationID = id, incarnation
	for _, e := range endpoints {
		r.EndPoints = append(r.EndPoints, sysrecord.RegisterControllerRecordControllerEndpoint{
			Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: securityNumber(e.Security),
		})
	}
	for _, f := range SupportedFeatures() {
		r.Features = append(r.Features, sysrecord.RegisterControllerRecordControllerFeature{
			Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max,
		})
	}
	return []Entry{{Record: r}}
}

// DecideUnregisterController removes a controller's registration. The one that decides can't be removed.
func DecideUnregisterController(im *Image, id, active kafka.NodeID) ([]Entry, error) {
	switch _, registered := im.kept.get(keptControllers + number(int32(id))); {
	case !registered:
		return nil, kafka.Refuse(kafka.ControllerIdNotRegistered, "no controller has the id %d", id)
	case id == active:
		return nil, kafka.Refuse(kafka.InvalidRequest, "controller %d votes in the metadata quorum: it can't be unregistered", id)
	}
	return []Entry{{Record: &sysrecord.UnregisterControllerRecord{ControllerID: id}}}, nil
}

// ProducerIDBlock is how many producer ids a broker takes at once.
const ProducerIDBlock = 1000

// DecideProducerIDs hands the next block of producer ids to a broker: first is the block's first id.
func DecideProducerIDs(im *Image, id kafka.NodeID, epoch kafka.BrokerEpoch) (entries []Entry, first kafka.ProducerID, err error) {
	first = im.NextProducerID()
	if first > 1<<63-1-ProducerIDBlock {
		return nil, kafka.NoProducer, kafka.UnknownServerError
	}
	r := &sysrecord.ProducerIdsRecord{BrokerID: id, BrokerEpoch: epoch, NextProducerID: first + ProducerIDBlock}
	return []Entry{{Record: r}}, first, nil
}
