package commitlog

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Names of the files in a log directory and in a partition's folder, as Kafka has them.
const (
	MetaPropertiesFile     = "meta.properties"
	LockFile               = ".lock"
	CleanShutdownFile      = ".kafka_cleanshutdown"
	RecoveryPointFile      = "recovery-point-offset-checkpoint"
	LogStartFile           = "log-start-offset-checkpoint"
	HighWatermarkFile      = "replication-offset-checkpoint"
	JournalFile            = "raftsman.journal" // ours
	DamagedFile            = "raftsman.damaged" // ours, in a partition's folder
	CleanerFile            = "cleaner-offset-checkpoint"
	EpochsFile             = "leader-epoch-checkpoint"
	PartitionMetadataFile  = "partition.metadata"
	logSuffix              = ".log"
	indexSuffix            = ".index"
	timeIndexSuffix        = ".timeindex"
	txnIndexSuffix         = ".txnindex"
	snapshotSuffix         = ".snapshot"
	deletedSuffix          = ".deleted"
	cleanedSuffix          = ".cleaned"
	swapSuffix             = ".swap"
	tmpSuffix              = ".tmp"
	folderDeleteSuffix     = "-delete"
	folderFutureSuffix     = "-future"
	folderStraySuffix      = "-stray"
	folderNameMaxBytes     = 255
	offsetDigits           = 20
	uuidWithoutDashesBytes = 32
)

// offsetName is the name of a segment's file: 20 digits of its base offset and a suffix.
func offsetName(base kafka.Offset, suffix string) string {
	return fmt.Sprintf("%0*d%s", offsetDigits, int64(base), suffix)
}

// parseOffsetName reads the offset of a name that [offsetName] made.
func parseOffsetName(name, suffix string) (kafka.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != offsetDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	return kafka.Offset(n), err == nil
}

// ParseFolder reads topic and partition from the name of a partition's folder.
func ParseFolder(name string) (kafka.TopicPartition, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return kafka.TopicPartition{}, false
	}
	n, err := strconv.ParseUint(name[dash+1:], 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != name[dash+1:] {
		return kafka.TopicPartition{}, false
	}
	return kafka.TopicPartition{Topic: name[:dash], Partition: int32(n)}, true
}

// cutFolderSuffix splits NAME.UUID-SUFFIX, which folders are called that are deleted, stray or a future replica.
func cutFolderSuffix(name string) (folder, suffix string) {
	for _, s := range []string{folderDeleteSuffix, folderFutureSuffix, folderStraySuffix} {
		rest, ok := strings.CutSuffix(name, s)
		if !ok {
			continue
		}
		if dot := strings.LastIndexByte(rest, '.'); dot > 0 && len(rest)-dot-1 == uuidWithoutDashesBytes {
			return rest[:dot], s
		}
	}
	return name, ""
}

// asideFolder is what the folder of a partition is called that is deleted, stray or a future replica. The topic is shortened where
// the name would get too long: a future replica, whose name is read back, asks HoldsFuture before.
func asideFolder(tp kafka.TopicPartition, random kafka.UUID, suffix string) string {
	rest := fmt.Sprintf("-%d.%x%s", tp.Partition, random[:], suffix)
	return tp.Topic[:min(len(tp.Topic), folderNameMaxBytes-len(rest))] + rest
}
