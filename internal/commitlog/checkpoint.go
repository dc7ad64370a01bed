package commitlog

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
)

// PartitionOffset is a line of a directory's checkpoint file.
type PartitionOffset struct {
	kafka.TopicPartition
	Offset kafka.Offset
}

// EpochStart is a line of leader-epoch-checkpoint: the first offset that a leader epoch wrote or could write.
type EpochStart struct {
	Epoch kafka.Epoch
	Start kafka.Offset
}

// The checkpoint files are text: a line with the version, 0, a line with the number of entries, and a line per entry. An empty
// file has no entries: Kafka makes such when it formats a directory.
const checkpointVersion = "0"

// checkpointLines returns the fields of each entry's line.
func checkpointLines(content []byte, fields int) ([][]string, error) {
	if len(content) == 0 {
		return nil, nil
	}
	text, ok := strings.CutSuffix(string(content), "\n")
	if !ok {
		return nil, fmt.Errorf("no newline at the end")
	}
	lines := strings.Split(text, "\n")
	if lines[0] != checkpointVersion {
		return nil, fmt.Errorf("version %q, want %s", lines[0], checkpointVersion)
	}
	if len(lines) < 2 {
		return nil, fmt.Errorf("no line with the number of entries")
	}
	count, err := strconv.Atoi(lines[1])
	if err != nil || count != len(lines)-2 {
		return nil, fmt.Errorf("%d entries, the second line says %q", len(lines)-2, lines[1])
	}
	entries := make([][]string, 0, count)
	for _, line := range lines[2:] {
		entry := strings.Fields(line)
		if len(entry) != fields {
			return nil, fmt.Errorf("entry %q: want %d fields", line, fields)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// ParseOffsets reads a directory's checkpoint file: recovery points, log starts, high watermarks, cleaned ends.
func ParseOffsets(content []byte) ([]PartitionOffset, error) {
	lines, err := checkpointLines(content, 3)
	if err != nil {
		return nil, err
	}
	entries := make([]PartitionOffset, 0, len(lines))
	for _, f := range lines {
		partition, err1 := strconv.ParseInt(f[1], 10, 32)
		offset, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, fmt.Errorf("entry %q: want topic, partition, offset", strings.Join(f, " "))
		}
		tp := kafka.TopicPartition{Topic: f[0], Partition: int32(partition)}
		entries = append(entries, PartitionOffset{tp, kafka.Offset(offset)})
	}
	return entries, nil
}

// formatOffsets is the inverse of ParseOffsets; entries are sorted by topic and partition.
func formatOffsets(offsets map[kafka.TopicPartition]kafka.Offset) []byte {
	entries := make([]PartitionOffset, 0, len(offsets))
	for tp, offset := range offsets {
		entries = append(entries, PartitionOffset{tp, offset})
	}
	slices.SortFunc(entries, func(a, b PartitionOffset) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%d\n", checkpointVersion, len(entries))
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %d %d\n", e.Topic, e.Partition, e.Offset)
	}
	return b.Bytes()
}

// ParseEpochs reads leader-epoch-checkpoint. Epochs and offsets grow from line to line.
func ParseEpochs(content []byte) ([]EpochStart, error) {
	lines, err := checkpointLines(content, 2)
	if err != nil {
		return nil, err
	}
	entries := make([]EpochStart, 0, len(lines))
	for _, f := range lines {
		epoch, err1 := strconv.ParseInt(f[0], 10, 32)
		offset, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || offset < 0 {
			return nil, fmt.Errorf("entry %q: want epoch, offset", strings.Join(f, " "))
		}
		e := EpochStart{kafka.Epoch(epoch), kafka.Offset(offset)}
		if n := len(entries); n > 0 && (entries[n-1].Epoch >= e.Epoch || entries[n-1].Start >= e.Start) {
			return nil, fmt.Errorf("entry %q does not follow %v", strings.Join(f, " "), entries[n-1])
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func formatEpochs(entries []EpochStart) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%d\n", checkpointVersion, len(entries))
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %d\n", e.Epoch, e.Start)
	}
	return b.Bytes()
}
