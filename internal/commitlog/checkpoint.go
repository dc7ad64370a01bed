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

// checkpointLines calls each with the fields of each entry's line, which it may not keep. At first it tells begin how many entries come.
func checkpointLines(content []byte, fields int, begin func(count int), each func(line string, entry []string) error) error {
	if len(content) == 0 {
		return nil
	}
	text, ok := strings.CutSuffix(string(content), "\n")
	if !ok {
		return fmt.Errorf("no newline at the end")
	}
	version, text, more := strings.Cut(text, "\n")
	if version != checkpointVersion {
		return fmt.Errorf("version %q, want %s", version, checkpointVersion)
	}
	if !more {
		return fmt.Errorf("no line with the number of entries")
	}
	said, text, more := strings.Cut(text, "\n")
	found := 0
	if more {
		found = strings.Count(text, "\n") + 1
	}
	count, err := strconv.Atoi(said)
	if err != nil || count != found {
		return fmt.Errorf("%d entries, the second line says %q", found, said)
	}
	begin(count)
	var entry []string
	for more {
		var line string
		line, text, more = strings.Cut(text, "\n")
		entry = slices.AppendSeq(entry[:0], strings.FieldsSeq(line))
		if len(entry) != fields {
			return fmt.Errorf("entry %q: want %d fields", line, fields)
		}
		if err := each(line, entry); err != nil {
			return err
		}
	}
	return nil
}

// ParseOffsets reads a directory's checkpoint file: recovery points, log starts, high watermarks, cleaned ends.
func ParseOffsets(content []byte) ([]PartitionOffset, error) {
	entries := []PartitionOffset{}
	topic := "" // shared by the lines that name it one after the other, and no part of the whole text
	begin := func(count int) { entries = make([]PartitionOffset, 0, count) }
	err := checkpointLines(content, 3, begin, func(line string, f []string) error {
		partition, err1 := strconv.ParseInt(f[1], 10, 32)
		offset, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return fmt.Errorf("entry %q: want topic, partition, offset", line)
		}
		if f[0] != topic {
			topic = strings.Clone(f[0])
		}
		tp := kafka.TopicPartition{Topic: topic, Partition: int32(partition)}
		entries = append(entries, PartitionOffset{tp, kafka.Offset(offset)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// formatOffsets is the inverse of ParseOffsets; the partitions are sorted.
func formatOffsets(sorted []kafka.TopicPartition, offsets map[kafka.TopicPartition]kafka.Offset) []byte {
	const lineBytes = 32 // about
	b := make([]byte, 0, lineBytes*(len(sorted)+1))
	b = append(b, checkpointVersion+"\n"...)
	b = append(strconv.AppendInt(b, int64(len(sorted)), 10), '\n')
	for _, tp := range sorted {
		b = append(append(b, tp.Topic...), ' ')
		b = append(strconv.AppendInt(b, int64(tp.Partition), 10), ' ')
		b = append(strconv.AppendInt(b, int64(offsets[tp]), 10), '\n')
	}
	return b
}

// ParseEpochs reads leader-epoch-checkpoint. Epochs and offsets grow from line to line.
func ParseEpochs(content []byte) ([]EpochStart, error) {
	entries := []EpochStart{}
	err := checkpointLines(content, 2, func(int) {}, func(line string, f []string) error {
		epoch, err1 := strconv.ParseInt(f[0], 10, 32)
		offset, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || offset < 0 {
			return fmt.Errorf("entry %q: want epoch, offset", line)
		}
		e := EpochStart{kafka.Epoch(epoch), kafka.Offset(offset)}
		if n := len(entries); n > 0 && (entries[n-1].Epoch >= e.Epoch || entries[n-1].Start >= e.Start) {
			return fmt.Errorf("entry %q does not follow %v", line, entries[n-1])
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, err
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
