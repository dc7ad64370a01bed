package meta

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Register decides on a broker that starts. A new incarnation is fenced at first, leads nothing, and is in sync nowhere; its epoch is
// where the entries are appended. The same incarnation again keeps its epoch and state. What a broker may have lost, as it can't tell its
// previous epoch or comes without the log directory, it is not eligible for.
//
// DUPLICATE_BROKER_REGISTRATION: another process with that id is alive, as far as is known; INVALID_REGISTRATION: its log directories
// or features make no sense; UNSUPPORTED_VERSION: it does not support a feature's level; BROKER_ID_NOT_REGISTERED: it comes from
// ZooKeeper.
func (l *Liveness) Register(im *Image, reg Registration, end kafka.Offset, nowMs int64, env Env) ([]Entry, kafka.BrokerEpoch, error) {
	before, known := im.Broker(reg.ID)
	again := known && before.Incarnation == reg.Incarnation
	if known && !again && l.Valid(reg.ID, before.Epoch, nowMs) && !l.of(before, nowMs).gone && !before.isSucceededBy(reg) {
		return nil, 0, kafka.Refuse(kafka.DuplicateBrokerRegistration,
			"another broker with the id %d is registered; if this one was only restarted, it can register when the session of the one before is over", reg.ID)
	}
	if err := reg.check(im, env); err != nil {
		return nil, 0, err
	}
	if again {
		b := reg.broker(im, before.Epoch)
		b.Fenced, b.InControlledShutdown = before.Fenced, before.InControlledShutdown
		c := l.of(before, nowMs)
		c.heard(nowMs)
		c.registered = end
		return []Entry{{Record: b.record(), Version: im.registerBrokerVersion()}}, b.Epoch, nil
	}
	b := reg.broker(im, kafka.BrokerEpoch(end))
	kept := known && l.keptAll(before, reg)
	entries := leaveLosing(im, reg.ID, env, func(p *Partition) bool { return !kept || !p.online(reg.ID, reg.LogDirs) })
	entries = append(entries, Entry{Record: b.record(), Version: im.registerBrokerVersion()})
	c := l.begin(b.ID, b.Epoch, nowMs)
	c.registered = end + kafka.Offset(len(entries)) - 1
	if kept {
		c.before = reg.PreviousEpoch
	}
	return entries, b.Epoch, nil
}

// keptAll tells whether a broker has all that it acknowledged: it knows the epoch of its last registration, or the one before, if it died
// before it was answered: under the last one it has acknowledged nothing.
func (l *Liveness) keptAll(before *Broker, reg Registration) bool {
	c, ok := l.brokers[reg.ID]
	unknown := ok && c.epoch == before.Epoch && !c.answered && c.before != NoBrokerEpoch
	return reg.PreviousEpoch == before.Epoch || unknown && reg.PreviousEpoch == c.before
}

// isSucceededBy tells whether a registration is the broker's own next start: the log directories are locked and the addresses bound
// by one process only, so that the one before is no more. A copy of the directories elsewhere has another address.
func (b *Broker) isSucceededBy(reg Registration) bool {
	return len(b.LogDirs) > 0 && sameSet(b.LogDirs, reg.LogDirs) && len(b.Endpoints) > 0 && sameSet(b.Endpoints, reg.Endpoints)
}

func sameSet[T comparable](a, b []T) bool {
	among := func(others []T) func(T) bool { return func(v T) bool { return !slices.Contains(others, v) } }
	return !slices.ContainsFunc(a, among(b)) && !slices.ContainsFunc(b, among(a))
}

// check judges a registration by itself and against the others.
func (reg Registration) check(im *Image, env Env) error {
	if reg.Migrating {
		return kafka.Refuse(kafka.BrokerIdNotRegistered, "brokers that come from ZooKeeper can't register")
	}
	if im.level() >= levelDirectories {
		if err := reg.checkDirs(im); err != nil {
			return err
		}
	}
	return reg.checkFeatures(im, env.KRaft)
}

func (reg Registration) checkDirs(im *Image) error {
	refuse := func(format string, args ...any) error {
		return kafka.Refuse(kafka.InvalidRegistration, format, args...)
	}
	if len(reg.LogDirs) == 0 {
		return refuse("the registration names no log directory")
	}
	for i, dir := range reg.LogDirs {
		if !NamesDir(dir) {
			return refuse("%s is no log directory's id", dir)
		}
		if slices.Contains(reg.LogDirs[:i], dir) {
			return refuse("the registration names log directory %s twice", dir)
		}
	}
	for _, b := range im.Brokers() {
		for _, dir := range reg.LogDirs {
			if b.ID != reg.ID && slices.Contains(b.LogDirs, dir) {
				return refuse("log directory %s belongs to broker %d already", dir, b.ID)
			}
		}
	}
	return nil
}

// checkFeatures refuses a broker that could not work at the levels that are finalised. kraft is the quorum's own.
func (reg Registration) checkFeatures(im *Image, kraft int16) error {
	levels := maps.Clone(im.features)
	levels[MetadataVersion], levels[KRaftVersion] = im.level(), kraft
	for _, f := range reg.Features {
		if _, known := levels[f.Name]; !known {
			levels[f.Name] = 0
		}
	}
	if supported(reg.Features, MetadataVersion).Max == 0 {
		return kafka.Refuse(kafka.InvalidRegistration, "the registration does not tell which levels of metadata.version the broker supports")
	}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if f, level := supported(reg.Features, name), levels[name]; level < f.Min || level > f.Max {
			return kafka.Refuse(kafka.UnsupportedVersion,
				"the cluster is at level %d of %s, and the broker supports levels %d to %d", level, f.Name, f.Min, f.Max)
		}
	}
	return nil
}
