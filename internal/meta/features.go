package meta

import "github.com/raftsman/raftsman/internal/sysrecord"

// Names of the features that Kafka 4.4 knows.
const (
	MetadataVersion    = "metadata.version"
	KRaftVersion       = "kraft.version"
	TransactionVersion = "transaction.version"
	GroupVersion       = "group.version"
	ELRVersion         = "eligible.leader.replicas.version"
	ShareVersion       = "share.version"
	StreamsVersion     = "streams.version"
)

// Levels of metadata.version: the oldest that is read, the newest that is written, and those from which something changed.
const (
	OldestMetadataVersion = 7  // 3.3-IV3
	LatestMetadataVersion = 33 // 4.4-IV2

	levelShrinkKeepsEpoch = 12 // 3.6-IV0: an in-sync set that shrinks leaves the leader its epoch
	levelTransactions     = 13 // 3.6-IV1: transactions in the metadata log
	levelControllers      = 15 // 3.7-IV0: RegisterControllerRecord
	levelDirectories      = 17 // 3.7-IV2: the log directory of each replica
	levelEligibleLeaders  = 23 // 4.0-IV1: ELR in partition records
	levelCordonedDirs     = 30 // 4.3-IV0
)

var metadataVersionNames = [...]string{
	"3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3",
	"3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
	"4.4-IV0", "4.4-IV1", "4.4-IV2",
}

// MetadataVersionName returns Kafka's name of a level, as 4.4-IV2, or "" for one that this build does not know.
func MetadataVersionName(level int16) string {
	if level < OldestMetadataVersion || level > LatestMetadataVersion {
		return ""
	}
	return metadataVersionNames[level-OldestMetadataVersion]
}

// SupportedFeatures returns the levels of each feature that this build can work with, as it registers them.
func SupportedFeatures() []FeatureRange {
	return []FeatureRange{
		{GroupVersion, 0, 1},
		{KRaftVersion, 0, 1},
		{MetadataVersion, OldestMetadataVersion, LatestMetadataVersion},
		{ShareVersion, 0, 2},
		{StreamsVersion, 0, 1},
		{TransactionVersion, 0, 2},
		{ELRVersion, 0, 1},
	}
}

// Bootstrap returns the records with which a new cluster's log begins, as Kafka 4.4's format command writes them.
func Bootstrap() []Entry {
	level := func(name string, level int16) Entry {
		return Entry{Record: &sysrecord.FeatureLevelRecord{Name: name, FeatureLevel: level}}
	}
	return []Entry{
		level(MetadataVersion, LatestMetadataVersion), level(ELRVersion, 1), level(GroupVersion, 1), level(ShareVersion, 2),
		level(StreamsVersion, 1), level(TransactionVersion, 2),
	}
}

// Activate turns bootstrap records into what the first controller appends to an empty log: in a transaction where the level
// knows it, and with what eligible leader replicas need (a cluster-wide min.insync.replicas).
func Activate(bootstrap []Entry, minISR string) []Entry {
	levels := map[string]int16{}
	for _, e := range bootstrap {
		if f, ok := e.Record.(*sysrecord.FeatureLevelRecord); ok {
			levels[f.Name] = f.FeatureLevel
		}
	}
	entries := bootstrap
	if levels[ELRVersion] > 0 {
		entries = append(entries[:len(entries):len(entries)], setConfig(Resource{Type: BrokerResource}, minInsyncReplicas, &minISR))
	}
	if levels[MetadataVersion] < levelTransactions {
		return entries
	}
	begin := sysrecord.NewBeginTransactionRecord()
	begin.Name = new("Bootstrap records")
	inside := append([]Entry{{Record: begin}}, entries...)
	return append(inside, Entry{Record: sysrecord.NewEndTransactionRecord()})
}

// level is the finalised metadata.version; an image without one reads as the oldest.
func (im *Image) level() int16 { return max(im.features[MetadataVersion], OldestMetadataVersion) }

func (im *Image) partitionRecordVersion() int16 {
	switch level := im.level(); {
	case level >= levelEligibleLeaders:
		return 2
	case level >= levelDirectories:
		return 1
	}
	return 0
}

func (im *Image) registerBrokerVersion() int16 {
	switch level := im.level(); {
	case level >= levelCordonedDirs:
		return 4
	case level >= levelDirectories:
		return 3
	case level > OldestMetadataVersion:
		return 2
	}
	return 1
}
