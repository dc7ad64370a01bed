package meta

import (
	"maps"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// UpgradeType says whether a feature's level may fall, by Kafka's numbers.
type UpgradeType int8

// The upgrade types that are understood.
const (
	UpgradeOnly     UpgradeType = 1
	SafeDowngrade   UpgradeType = 2
	UnsafeDowngrade UpgradeType = 3
)

// FeatureUpdate wants a feature at a level; 0 takes it out of use.
type FeatureUpdate struct {
	Name  string
	Level int16
	Type  UpgradeType
}

// UpdateFeatures changes the levels of features, all or none. Of a feature that is named twice the last level counts.
type UpdateFeatures struct {
	Updates      []FeatureUpdate
	ValidateOnly bool
	KRaft        int16  // the quorum's kraft.version, which is not in the image
	MinISR       string // min.insync.replicas, which eligible leader replicas need cluster-wide
}

// DecideUpdateFeatures returns the records that change the levels, and whether the quorum's own version is to rise to 1: that is
// written by the quorum. The error names the feature for which all are refused.
func DecideUpdateFeatures(im *Image, cmd UpdateFeatures) (entries []Entry, raiseKRaft bool, refused error) {
	wanted := map[string]FeatureUpdate{}
	for _, u := range cmd.Updates {
		wanted[u.Name] = u
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		u := wanted[name]
		current := im.features[name]
		switch name {
		case KRaftVersion:
			current = cmd.KRaft
		case MetadataVersion:
			current = im.level()
		}
		if err := im.judgeFeature(u, current, wanted); err != nil {
			return nil, false, err
		}
		switch {
		case u.Level == current:
		case name == KRaftVersion:
			raiseKRaft = true
		default:
			entries = append(entries, Entry{Record: &sysrecord.FeatureLevelRecord{Name: name, FeatureLevel: u.Level}})
		}
		if name == ELRVersion && current == 0 && u.Level > 0 {
			entries = append(entries, im.settleMinISR(cmd.MinISR)...)
		}
	}
	if cmd.ValidateOnly {
		return nil, false, nil
	}
	return entries, raiseKRaft, nil
}

// judgeFeature tells why a feature can't be at a level.
func (im *Image) judgeFeature(u FeatureUpdate, current int16, wanted map[string]FeatureUpdate) error {
	refuse := func(format string, args ...any) error {
		text := append([]any{u.Name, u.Level}, args...)
		return kafka.Refuse(kafka.InvalidUpdateVersion, "The update failed for all features: %s can't be set to level %d: "+format, text...)
	}
	at := slices.IndexFunc(SupportedFeatures(), func(f FeatureRange) bool { return f.Name == u.Name })
	switch {
	case u.Type < UpgradeOnly || u.Type > UnsafeDowngrade:
		return refuse("upgrade type %d is none; 1 is an upgrade, 2 a safe and 3 an unsafe downgrade", u.Type)
	case u.Level < 0:
		return refuse("no level is below 0")
	case at < 0:
		return refuse("this node does not know the feature")
	}
	if f := SupportedFeatures()[at]; u.Level < f.Min || u.Level > f.Max {
		return refuse("this node supports levels %d to %d", f.Min, f.Max)
	}
	for _, c := range im.Controllers() {
		if f := supported(c.Features, u.Name); u.Level < f.Min || u.Level > f.Max {
			return refuse("controller %d supports levels %d to %d; unregister it if it is not coming back", c.ID, f.Min, f.Max)
		}
	}
	for _, b := range im.brokers {
		if f := supported(b.Features, u.Name); u.Level < f.Min || u.Level > f.Max {
			return refuse("broker %d supports levels %d to %d; unregister it if it is not coming back", b.ID, f.Min, f.Max)
		}
	}
	switch {
	case u.Level < current && u.Type == UpgradeOnly:
		return refuse("it is at %d, and a lower level takes a safe or unsafe downgrade", current)
	case u.Level > current && u.Type != UpgradeOnly:
		return refuse("it is at %d, and a downgrade can't raise it", current)
	case u.Level >= current:
	case u.Name == KRaftVersion:
		return refuse("the voters stand in the metadata log since it was raised to %d, and can't be taken out of it", current)
	case u.Name == MetadataVersion && changesMetadata(u.Level, current):
		return refuse("metadata of %s would be lost, which is not supported", MetadataVersionName(current))
	}
	if u.Name == ELRVersion && u.Level > 0 && im.wantedLevel(MetadataVersion, wanted) < levelEligibleLeaders {
		return refuse("it needs metadata.version %d (%s)", levelEligibleLeaders, MetadataVersionName(levelEligibleLeaders))
	}
	return nil
}

// wantedLevel is what a feature is at when all is as wanted.
func (im *Image) wantedLevel(name string, wanted map[string]FeatureUpdate) int16 {
	if u, ok := wanted[name]; ok {
		return u.Level
	}
	return im.features[name]
}

// supported returns the levels of a feature that a node has registered: 0 alone of one that it does not know.
func supported(features []FeatureRange, name string) FeatureRange {
	for _, f := range features {
		if f.Name == name {
			return f
		}
	}
	return FeatureRange{Name: name}
}

// metadataChanged are the levels of metadata.version that brought records or fields which the level before can't hold, as Kafka
// counts them.
var metadataChanged = [...]int16{8, 11, 13, 14, 15, 17, 23, 30, 32, 33}

// changesMetadata tells whether something may be lost on the way down from a level.
func changesMetadata(to, from int16) bool {
	return slices.ContainsFunc(metadataChanged[:], func(level int16) bool { return level > to && level <= from })
}

// settleMinISR makes min.insync.replicas the same for all brokers, as eligible leader replicas need it.
func (im *Image) settleMinISR(static string) (entries []Entry) {
	for r := range im.Resources(BrokerResource) {
		if _, set := im.Config(r)[minInsyncReplicas]; set && r.Name != "" {
			entries = append(entries, setConfig(r, minInsyncReplicas, nil))
		}
	}
	all := Resource{Type: BrokerResource}
	if _, set := im.Config(all)[minInsyncReplicas]; !set {
		entries = append(entries, setConfig(all, minInsyncReplicas, &static))
	}
	return entries
}
