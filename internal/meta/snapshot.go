package meta

import (
	"iter"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Snapshot yields the values of the records that make up the image, in the order in which Kafka writes them: features,
// brokers, controllers, topics, configurations, quotas, producer ids, access rules, credentials, tokens. A yielded slice is
// valid until the next step.
func (im *Image) Snapshot() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		w := &snapshotWriter{yield: yield, more: true}
		im.writeFeatures(w)
		im.writeBrokers(w)
		im.writeKept(w, keptControllers)
		im.writeTopics(w)
		im.writeConfigs(w)
		im.writeQuotas(w)
		im.writeKept(w, keptQuotas)
		im.writeProducerIDs(w)
		im.writeKept(w, keptACLs)
		im.writeKept(w, keptSCRAM)
		im.writeKept(w, keptTokens)
		im.writeKept(w, keptMigration)
		for _, raw := range im.unknown {
			w.more = w.more && yield(raw)
		}
	}
}

type snapshotWriter struct {
	yield  func([]byte) bool
	more   bool
	buffer []byte
}

func (w *snapshotWriter) put(r sysrecord.Record, version int16) bool {
	if w.more {
		w.buffer = sysrecord.AppendMetadata(w.buffer[:0], r, version)
		w.more = w.yield(w.buffer)
	}
	return w.more
}

func (im *Image) writeKept(w *snapshotWriter, prefix string) {
	im.keptFrom(prefix, func(f sysrecord.Frame) bool {
		if w.more {
			w.buffer = sysrecord.AppendFrame(w.buffer[:0], f)
			w.more = w.yield(w.buffer)
		}
		return w.more
	})
}

// writeFeatures begins with metadata.version, which says how to read the rest.
func (im *Image) writeFeatures(w *snapshotWriter) {
	if level, ok := im.features[MetadataVersion]; ok {
		w.put(&sysrecord.FeatureLevelRecord{Name: MetadataVersion, FeatureLevel: level}, 0)
	}
	for _, name := range im.FeatureNames() {
		if name != MetadataVersion {
			w.put(&sysrecord.FeatureLevelRecord{Name: name, FeatureLevel: im.features[name]}, 0)
		}
	}
}

func (im *Image) writeBrokers(w *snapshotWriter) {
	for _, b := range im.brokers {
		w.put(b.record(), im.registerBrokerVersion())
	}
}

func (b *Broker) record() *sysrecord.RegisterBrokerRecord {
	r := sysrecord.NewRegisterBrokerRecord()
	r.BrokerID, r.BrokerEpoch, r.IncarnationID = b.ID, b.Epoch, b.Incarnation
	r.Fenced, r.InControlledShutdown, r.IsMigratingZkBroker = b.Fenced, b.InControlledShutdown, b.migrating
	r.Rack, r.LogDirs, r.CordonedLogDirs = b.Rack, b.LogDirs, b.CordonedDirs
	for _, e := range b.Endpoints {
		r.EndPoints = append(r.EndPoints, sysrecord.RegisterBrokerRecordBrokerEndpoint{
			Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: securityNumber(e.Security),
		})
	}
	for _, f := range b.Features {
		r.Features = append(r.Features, sysrecord.RegisterBrokerRecordBrokerFeature{
			Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max,
		})
	}
	return r
}

func (im *Image) writeTopics(w *snapshotWriter) {
	version := im.partitionRecordVersion()
	for t := range im.Topics() {
		if !w.put(&sysrecord.TopicRecord{Name: t.Name, TopicID: t.ID}, 0) {
			return
		}
		for i := range t.Partitions {
			if !w.put(t.Partitions[i].record(t.ID, int32(i)), version) {
				return
			}
		}
	}
}

func (p *Partition) record(topic [16]byte, number int32) *sysrecord.PartitionRecord {
	r := sysrecord.NewPartitionRecord()
	r.PartitionID, r.TopicID = number, topic
	r.Replicas, r.ISR, r.RemovingReplicas, r.AddingReplicas = p.Replicas, p.ISR, p.Removing, p.Adding
	r.Leader, r.LeaderEpoch, r.PartitionEpoch = p.Leader, p.LeaderEpoch, p.PartitionEpoch
	r.Directories = p.Dirs
	if p.Recovering {
		r.LeaderRecoveryState = 1
	}
	if len(p.ELR) > 0 {
		r.EligibleLeaderReplicas = p.ELR
	}
	if len(p.LastELR) > 0 {
		r.LastKnownELR = p.LastELR
	}
	return r
}

func (im *Image) writeConfigs(w *snapshotWriter) {
	im.configs.all(func(resource Resource, values map[string]string) bool {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !w.put(setConfig(resource, name, new(values[name])).Record, 0) {
				return false
			}
		}
		return true
	})
}

func (im *Image) writeProducerIDs(w *snapshotWriter) {
	if im.producerID.known {
		w.put(&sysrecord.ProducerIdsRecord{BrokerID: im.producerID.broker, BrokerEpoch: im.producerID.epoch, NextProducerID: im.producerID.next}, 0)
	}
}

// setConfig is the record that sets one configuration entry, or removes it when value is nil.
func setConfig(r Resource, name string, value *string) Entry {
	return Entry{Record: &sysrecord.ConfigRecord{ResourceType: int8(r.Type), ResourceName: r.Name, Name: name, Value: value}}
}
