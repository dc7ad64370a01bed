// Package dump shows what the files of a log directory say, one entry after the other, for `raftsman log dump`.
package dump

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Options say how much is shown.
type Options struct {
	Deep            bool  // also the records in batches
	DecompressedMax int64 // of one batch; 0 means 256 MiB
}

// Entry is something that a file says: one of the types of this package, which also encode as JSON.
type Entry interface {
	// Text is a line, or several with their ends between them.
	Text() string
}

// Kind is what a file is for.
type Kind string

// The kinds of files, and which names they have.
const (
	Log           Kind = "log"            // *.log
	Snapshot      Kind = "snapshot"       // *.checkpoint: a metadata snapshot
	OffsetIndex   Kind = "offset index"   // *.index
	TimeIndex     Kind = "time index"     // *.timeindex
	TxnIndex      Kind = "txn index"      // *.txnindex
	Producers     Kind = "producers"      // *.snapshot
	Epochs        Kind = "leader epochs"  // leader-epoch-checkpoint
	Checkpoint    Kind = "checkpoint"     // recovery-point-offset-checkpoint and its like
	Meta          Kind = "directory"      // meta.properties
	Partition     Kind = "partition"      // partition.metadata
	CleanShutdown Kind = "clean shutdown" // .kafka_cleanshutdown
	QuorumState   Kind = "quorum state"   // quorum-state
	Journal       Kind = "journal"        // raftsman.journal
	Damaged       Kind = "damage"         // raftsman.damaged
)

// ErrUnknown is returned for a file that is none of a log directory's.
var ErrUnknown = errors.New("not a file of a log directory: want .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, " +
	"leader-epoch-checkpoint, partition.metadata, meta.properties, quorum-state, raftsman.journal, raftsman.damaged or one of the *-offset-checkpoint files")

// KindOf tells the kind by the name, and the offset that the name begins with. Files about to be removed or put in place are
// what they were or will be.
func KindOf(name string) (Kind, kafka.Offset, error) {
	base := filepath.Base(name)
	for _, suffix := range []string{".deleted", ".cleaned", ".swap", ".tmp", ".part"} {
		base = strings.TrimSuffix(base, suffix)
	}
	switch base {
	case commitlog.EpochsFile:
		return Epochs, 0, nil
	case commitlog.RecoveryPointFile, commitlog.LogStartFile, commitlog.HighWatermarkFile, commitlog.CleanerFile:
		return Checkpoint, 0, nil
	case commitlog.MetaPropertiesFile:
		return Meta, 0, nil
	case commitlog.PartitionMetadataFile:
		return Partition, 0, nil
	case commitlog.CleanShutdownFile:
		return CleanShutdown, 0, nil
	case commitlog.JournalFile, commitlog.JournalFile + ".kept":
		return Journal, 0, nil
	case commitlog.DamagedFile:
		return Damaged, 0, nil
	case "quorum-state":
		return QuorumState, 0, nil
	case "bootstrap.checkpoint":
		return Snapshot, 0, nil
	}
	digits, _, _ := strings.Cut(base, ".")
	digits, _, _ = strings.Cut(digits, "-")
	offset, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	kinds := map[string]Kind{
		".log": Log, ".checkpoint": Snapshot, ".index": OffsetIndex, ".timeindex": TimeIndex, ".txnindex": TxnIndex, ".snapshot": Producers,
	}
	kind, ok := kinds[filepath.Ext(base)]
	if !ok {
		return "", 0, fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	return kind, kafka.Offset(offset), nil
}

// Entries are what a file says. After an error nothing more comes: what could be read was yielded before.
func Entries(fs vfs.FS, name string, o Options) (Kind, iter.Seq2[Entry, error], error) {
	kind, base, err := KindOf(name)
	if err != nil {
		return "", nil, err
	}
	if kind == Log || kind == Snapshot {
		return kind, batches(fs, name, o), nil
	}
	content, err := vfs.ReadFile(fs, name)
	if err != nil {
		return "", nil, err
	}
	return kind, func(yield func(Entry, error) bool) {
		entries, err := parse(kind, base, content)
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", name, err))
		}
	}, nil
}

func parse(kind Kind, base kafka.Offset, content []byte) ([]Entry, error) {
	switch kind {
	case OffsetIndex:
		entries, err := commitlog.ParseIndex(content, base)
		return convert(entries, func(e commitlog.IndexEntry) Entry { return Index(e) }), err
	case TimeIndex:
		entries, err := commitlog.ParseTimeIndex(content, base)
		return convert(entries, func(e commitlog.TimeEntry) Entry { return newTime(e) }), err
	case TxnIndex:
		entries, err := commitlog.ParseTxnIndex(content)
		return convert(entries, func(e commitlog.AbortedTxn) Entry { return Aborted(e) }), err
	case Epochs:
		entries, err := commitlog.ParseEpochs(content)
		return convert(entries, func(e commitlog.EpochStart) Entry { return Epoch(e) }), err
	case Checkpoint:
		entries, err := commitlog.ParseOffsets(content)
		return convert(entries, func(e commitlog.PartitionOffset) Entry {
			return Offset{e.Topic, e.TopicPartition.Partition, e.Offset}
		}), err
	case Producers:
		state, err := producer.Decode(content)
		if err != nil {
			return nil, err
		}
		return convert(state.Producers(), newProducer), nil
	case Journal:
		return journal(content)
	case Meta:
		p, err := commitlog.ParseMetaProperties(content)
		return one(Directory{p.ClusterID, p.NodeID, p.ID.String()}, err)
	case Partition:
		id, err := commitlog.ParsePartitionMetadata(content)
		return one(Topic{id.String()}, err)
	case CleanShutdown:
		epoch, err := commitlog.ParseCleanShutdown(content)
		return one(Clean{epoch}, err)
	default:
		return one(Raw{string(content)}, nil)
	}
}

func convert[T any](from []T, f func(T) Entry) []Entry {
	entries := make([]Entry, 0, len(from))
	for _, e := range from {
		entries = append(entries, f(e))
	}
	return entries
}

func one(e Entry, err error) ([]Entry, error) {
	if err != nil {
		return nil, err
	}
	return []Entry{e}, nil
}

// Text writes a file's name and kind, and then its entries as lines.
func Text(w io.Writer, fs vfs.FS, name string, o Options) error {
	kind, entries, err := Entries(fs, name, o)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s (%s)\n", name, kind)
	for e, err := range entries {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		fmt.Fprintln(out, e.Text())
	}
	return out.Flush()
}

// line is what JSON writes.
type line struct {
	File  string `json:"file"`
	Kind  Kind   `json:"kind"`
	Entry Entry  `json:"entry"`
}

// JSON writes an object per entry and line: the file, its kind and the entry.
func JSON(w io.Writer, fs vfs.FS, name string, o Options) error {
	kind, entries, err := Entries(fs, name, o)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for e, err := range entries {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if err := encoder.Encode(line{name, kind, e}); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return out.Flush()
}
