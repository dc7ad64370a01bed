package meta

import (
	"fmt"
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Entry is one metadata record and the version in which it is written.
type Entry struct {
	Record  sysrecord.Record
	Version int16
}

// Update builds the next image from records. It changes in place only what itself has made, so the image that it began with
// stays as it is. An Update that returned an error is of no further use.
type Update struct {
	im     *Image
	by     *edit
	topics map[kafka.TopicID]*Topic // made by this update and not yet shared
	saved  *Image                   // the image at the begin of an open transaction
}

// Update begins a change of the image.
func (im *Image) Update() *Update {
	changed := *im
	u := &Update{im: &changed}
	u.begin()
	return u
}

// begin makes everything so far shared.
func (u *Update) begin() { u.by, u.topics = &edit{}, map[kafka.TopicID]*Topic{} }

// Image returns the result: all records applied up to offset, the last one appended under epoch at appendMs. Of an open
// transaction nothing is seen. The Update can be used further.
func (u *Update) Image(offset kafka.Offset, epoch kafka.Epoch, appendMs int64) *Image {
	result := u.im
	if u.saved != nil {
		result = u.saved
	}
	shared := *result
	shared.offset, shared.epoch, shared.appendMs = offset, epoch, appendMs
	kept := *u.im
	u.im = &kept
	u.begin()
	return &shared
}

// InTransaction tells whether a transaction was begun and neither ended nor aborted.
func (u *Update) InTransaction() bool { return u.saved != nil }

// SetController says which node is the active controller from now on. It is not part of the log's metadata, and no transaction takes it back.
func (u *Update) SetController(id kafka.NodeID) {
	u.im.controller = id
	if u.saved != nil {
		u.saved.controller = id
	}
}

// ApplyFrame applies a record as it stands in the log. A kind that this build does not know is kept for snapshots.
func (u *Update) ApplyFrame(f sysrecord.Frame) error {
	record, err := f.Record()
	if err != nil {
		return err
	}
	if record == nil {
		u.im.unknown = append(slices.Clip(u.im.unknown), sysrecord.AppendFrame(nil, f))
		return nil
	}
	return u.Apply(Entry{Record: record, Version: f.Version})
}

// Apply applies one record. An error means that the log contradicts itself.
func (u *Update) Apply(e Entry) error {
	switch r := e.Record.(type) {
	case *sysrecord.TopicRecord:
		return u.addTopic(r)
	case *sysrecord.PartitionRecord:
		return u.addPartition(r)
	case *sysrecord.PartitionChangeRecord:
		return u.changePartition(r)
	case *sysrecord.RemoveTopicRecord:
		return u.removeTopic(r.TopicID)
	case *sysrecord.ClearElrRecord:
		return u.clearELR(r.TopicName)
	case *sysrecord.ConfigRecord:
		u.setConfig(r)
	case *sysrecord.FeatureLevelRecord:
		u.setFeature(r)
	case *sysrecord.ProducerIdsRecord:
		u.im.producerID = producerBlock{known: true, broker: r.BrokerID, epoch: r.BrokerEpoch, next: r.NextProducerID}
	case *sysrecord.RegisterBrokerRecord:
		u.registerBroker(r)
	case *sysrecord.UnregisterBrokerRecord:
		return u.removeBroker(r)
	case *sysrecord.BrokerRegistrationChangeRecord:
		return u.changeBroker(r.BrokerID, r.BrokerEpoch, r)
	case *sysrecord.FenceBrokerRecord:
		return u.changeBroker(r.ID, kafka.BrokerEpoch(r.Epoch), &sysrecord.BrokerRegistrationChangeRecord{Fenced: 1})
	case *sysrecord.UnfenceBrokerRecord:
		return u.changeBroker(r.ID, kafka.BrokerEpoch(r.Epoch), &sysrecord.BrokerRegistrationChangeRecord{Fenced: -1})
	case *sysrecord.BeginTransactionRecord, *sysrecord.EndTransactionRecord, *sysrecord.AbortTransactionRecord:
		return u.transaction(e.Record)
	case *sysrecord.NoOpRecord:
	default:
		return u.keep(e)
	}
	return nil
}

func (u *Update) transaction(r sysrecord.Record) error {
	_, begins := r.(*sysrecord.BeginTransactionRecord)
	switch {
	case begins && u.saved != nil:
		return fmt.Errorf("a metadata transaction begins inside another")
	case !begins && u.saved == nil:
		return fmt.Errorf("%s without a transaction", r.RecordName())
	case begins:
		saved := *u.im
		u.saved = &saved
		u.begin()
		return nil
	}
	if _, aborted := r.(*sysrecord.AbortTransactionRecord); aborted {
		u.im = u.saved
		u.begin()
	}
	u.saved = nil
	return nil
}

// topic returns the topic for a change in place.
func (u *Update) topic(id kafka.TopicID) (*Topic, error) {
	if t, ok := u.topics[id]; ok {
		return t, nil
	}
	shared, ok := u.im.topicIDs.get(id)
	if !ok {
		return nil, fmt.Errorf("no topic has the id %s", id)
	}
	mine := &Topic{Name: shared.Name, ID: shared.ID, Partitions: slices.Clone(shared.Partitions)}
	u.putTopic(mine)
	return mine, nil
}

func (u *Update) putTopic(t *Topic) {
	u.topics[t.ID] = t
	u.im.topics.set(u.by, t.Name, t)
	u.im.topicIDs.set(u.by, t.ID, t)
}

func (u *Update) addTopic(r *sysrecord.TopicRecord) error {
	if _, taken := u.im.topics.get(r.Name); taken {
		return fmt.Errorf("topic %s is created twice", r.Name)
	}
	u.putTopic(&Topic{Name: r.Name, ID: r.TopicID})
	u.countCollision(r.Name, 1)
	return nil
}

func (u *Update) countCollision(name string, by int) {
	key := collisionKey(name)
	names, _ := u.im.collisions.get(key)
	if by > 0 {
		u.im.collisions.set(u.by, key, append(slices.Clip(names), name))
		return
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
	if len(names) == 0 {
		u.im.collisions.remove(u.by, key)
		return
	}
	u.im.collisions.set(u.by, key, names)
}

func (u *Update) removeTopic(id kafka.TopicID) error {
	t, ok := u.im.topicIDs.get(id)
	if !ok {
		return fmt.Errorf("no topic has the id %s", id)
	}
	delete(u.topics, id)
	u.im.topics.remove(u.by, t.Name)
	u.im.topicIDs.remove(u.by, id)
	u.im.configs.remove(u.by, Resource{TopicResource, t.Name})
	u.im.partitions -= len(t.Partitions)
	u.countCollision(t.Name, -1)
	return nil
}

func (u *Update) addPartition(r *sysrecord.PartitionRecord) error {
	t, err := u.topic(r.TopicID)
	if err != nil {
		return err
	}
	p := Partition{
		Replicas: r.Replicas, ISR: r.ISR, ELR: r.EligibleLeaderReplicas, LastELR: r.LastKnownELR,
		Removing: r.RemovingReplicas, Adding: r.AddingReplicas, Dirs: dirsFor(r.Replicas, r.Directories),
		Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, Recovering: r.LeaderRecoveryState == 1,
	}
	switch n := int(r.PartitionID); {
	case n == len(t.Partitions):
		t.Partitions = append(t.Partitions, p)
		u.im.partitions++
	case n >= 0 && n < len(t.Partitions):
		t.Partitions[n] = p
	default:
		return fmt.Errorf("partition %d of topic %s after %d others", n, t.Name, len(t.Partitions))
	}
	return nil
}

// dirsFor returns one directory per replica, as records before the directories' time have none.
func dirsFor(replicas []kafka.NodeID, dirs []kafka.UUID) []kafka.UUID {
	if len(dirs) == len(replicas) {
		return dirs
	}
	return make([]kafka.UUID, len(replicas))
}

const leaderUnchanged kafka.NodeID = -2

func (u *Update) changePartition(r *sysrecord.PartitionChangeRecord) error {
	t, err := u.topic(r.TopicID)
	if err != nil {
		return err
	}
	if r.PartitionID < 0 || int(r.PartitionID) >= len(t.Partitions) {
		return fmt.Errorf("topic %s has no partition %d", t.Name, r.PartitionID)
	}
	t.Partitions[r.PartitionID].change(r)
	return nil
}

// change applies a record.
func (p *Partition) change(r *sysrecord.PartitionChangeRecord) {
	replace(&p.Replicas, r.Replicas)
	replace(&p.ISR, r.ISR)
	replace(&p.ELR, r.EligibleLeaderReplicas)
	replace(&p.LastELR, r.LastKnownELR)
	replace(&p.Removing, r.RemovingReplicas)
	replace(&p.Adding, r.AddingReplicas)
	replace(&p.Dirs, r.Directories)
	p.Dirs = dirsFor(p.Replicas, p.Dirs)
	if r.Leader != leaderUnchanged {
		p.Leader = r.Leader
		p.LeaderEpoch++
	}
	if r.LeaderRecoveryState >= 0 {
		p.Recovering = r.LeaderRecoveryState == 1
	}
	p.PartitionEpoch++
}

func replace[T any](old *[]T, now []T) {
	if now != nil {
		*old = now
	}
}

// clearELR forgets the eligible leader replicas of a topic, or of all when name is empty.
func (u *Update) clearELR(name string) error {
	var ids []kafka.TopicID
	for t := range u.im.Topics() {
		if (name == "" || t.Name == name) && slices.ContainsFunc(t.Partitions, func(p Partition) bool { return len(p.ELR)+len(p.LastELR) > 0 }) {
			ids = append(ids, t.ID)
		}
	}
	for _, id := range ids {
		t, err := u.topic(id)
		if err != nil {
			return err
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if len(p.ELR)+len(p.LastELR) > 0 {
				p.ELR, p.LastELR = nil, nil
				p.PartitionEpoch++
			}
		}
	}
	return nil
}

func (u *Update) setConfig(r *sysrecord.ConfigRecord) {
	resource := Resource{ResourceType(r.ResourceType), r.ResourceName}
	values := maps.Clone(u.im.Config(resource))
	switch {
	case r.Value == nil:
		delete(values, r.Name)
	case values == nil:
		values = map[string]string{r.Name: *r.Value}
	default:
		values[r.Name] = *r.Value
	}
	if len(values) == 0 {
		u.im.configs.remove(u.by, resource)
		return
	}
	u.im.configs.set(u.by, resource, values)
}

func (u *Update) setFeature(r *sysrecord.FeatureLevelRecord) {
	u.im.features = maps.Clone(u.im.features)
	if r.FeatureLevel == 0 {
		delete(u.im.features, r.Name)
		return
	}
	u.im.features[r.Name] = r.FeatureLevel
}
