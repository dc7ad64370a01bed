package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// readOffsets reads where a group's offsets go from a file of Kafka's form: lines of topic,partition,offset, or of
// group,topic,partition,offset, of which those of other groups are passed over.
func readOffsets(path, group string) (map[topicPartition]int64, error) {
	text, err := readSmall(path)
	if err != nil {
		return nil, usagef("--from-file: %w", err)
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace, r.Comment = -1, true, '#'
	rows, err := r.ReadAll()
	if err != nil {
		return nil, usagef("--from-file %s: %w", path, err)
	}
	offsets := map[topicPartition]int64{}
	for i, row := range rows {
		if len(row) == 4 {
			if row[0] != group {
				continue
			}
			row = row[1:]
		}
		if len(row) != 3 {
			return nil, usagef("--from-file %s: line %d has %d fields: it is topic,partition,offset", path, i+1, len(row))
		}
		partition, err := strconv.ParseInt(row[1], 10, 32)
		offset, offsetErr := strconv.ParseInt(row[2], 10, 64)
		if errors.Join(err, offsetErr) != nil || partition < 0 || offset < 0 {
			return nil, usagef("--from-file %s: line %d: partition and offset are whole numbers from 0", path, i+1)
		}
		tp := topicPartition{row[0], int32(partition)}
		if _, twice := offsets[tp]; twice {
			return nil, usagef("--from-file %s: line %d: %s partition %d comes twice", path, i+1, tp.topic, partition)
		}
		offsets[tp] = offset
	}
	if len(offsets) == 0 {
		return nil, usagef("--from-file %s has no offset for group %s: `raftsman group reset %s --to-current --export` prints such a file", path, group, group)
	}
	return offsets, nil
}

// topics are the partitions that a file names.
func (t resetTarget) topics() map[string][]int32 {
	topics := map[string][]int32{}
	for tp := range t.file {
		topics[tp.topic] = append(topics[tp.topic], tp.partition)
	}
	return topics
}

// exportMoves prints where offsets would go as readOffsets, and Kafka's tools, read it.
func (a *app) exportMoves(moves []movedOffset) error {
	w := csv.NewWriter(a.out)
	for _, m := range moves {
		if err := w.Write([]string{m.Topic, fmt.Sprint(m.Partition), fmt.Sprint(m.To)}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
