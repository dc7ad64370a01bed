package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/condition"
)

// compactionView is how far a partition of a compacted topic is compacted.
type compactionView struct {
	CleanedOffset int64   `json:"cleanedOffset"` // -1: it was never
	DirtyBytes    int64   `json:"dirtyBytes"`
	DirtyRatio    float64 `json:"dirtyRatio"`
	OverdueMs     int64   `json:"overdueMs,omitempty"`   // beyond max.compaction.lag.ms
	LastCleaned   string  `json:"lastCleaned,omitempty"` // since the broker started
}

// damageView is why a partition answers KAFKA_STORAGE_ERROR.
type damageView struct {
	File   string `json:"file"`
	Byte   int64  `json:"byte"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// dirCondition is a log directory that refuses what clients produce.
type dirCondition struct {
	Broker         int32  `json:"broker"`
	Path           string `json:"path"`
	UsableBytes    int64  `json:"usableBytes"`
	ReserveBytes   int64  `json:"reserveBytes"`
	RefusesCommits bool   `json:"refusesCommits,omitempty"`
}

// findConditions asks the brokers that lead partitions, or have them where nobody leads, how they are doing. Only Raftsman tells;
// any other broker passes over what asks for it, and nothing is shown.
func findConditions(ctx context.Context, cl *kgo.Client, views []topicView) error {
	asked := map[int32][]kmsg.DescribeLogDirsRequestTopic{}
	for i := range views {
		for broker, partitions := range holders(views[i].Partitions) {
			asked[broker] = append(asked[broker], kmsg.DescribeLogDirsRequestTopic{Topic: views[i].Topic, Partitions: partitions})
		}
	}
	for _, broker := range sortedKeys(asked) {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = asked[broker]
		req.UnknownTags.Set(condition.Tag, condition.Asks())
		answer, err := cl.Broker(int(broker)).RetriableRequest(ctx, req)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // sizes are missing then too
		}
		for _, dir := range answer.(*kmsg.DescribeLogDirsResponse).Dirs {
			takeConditions(views, broker, &dir)
		}
	}
	return nil
}

// holders are the partitions by the broker that is to tell about them.
func holders(partitions []partitionView) map[int32][]int32 {
	by := map[int32][]int32{}
	for _, p := range partitions {
		switch {
		case p.Leader >= 0:
			by[p.Leader] = append(by[p.Leader], p.Partition)
		case len(p.Replicas) > 0:
			by[p.Replicas[0]] = append(by[p.Replicas[0]], p.Partition)
		}
	}
	return by
}

func takeConditions(views []topicView, broker int32, dir *kmsg.DescribeLogDirsResponseDir) {
	is, err := condition.ReadDirectory(conditionOf(&dir.UnknownTags))
	short := err == nil && (is.RefusesProduces || is.RefusesCommits)
	for _, topic := range dir.Topics {
		i := slices.IndexFunc(views, func(v topicView) bool { return v.Topic == topic.Topic })
		if i < 0 {
			continue
		}
		if short {
			views[i].FullDirs = append(views[i].FullDirs, dirCondition{
				Broker: broker, Path: dir.Dir, UsableBytes: dir.UsableBytes, ReserveBytes: is.ReserveBytes, RefusesCommits: is.RefusesCommits,
			})
		}
		for _, row := range topic.Partitions {
			j := slices.IndexFunc(views[i].Partitions, func(p partitionView) bool { return p.Partition == row.Partition })
			is, err := condition.ReadPartition(conditionOf(&row.UnknownTags))
			if j >= 0 && err == nil {
				views[i].Partitions[j].take(&is)
			}
		}
	}
}

// conditionOf returns the content of our tag, or nil.
func conditionOf(tags *kmsg.Tags) (content []byte) {
	tags.Each(func(tag uint32, has []byte) {
		if tag == condition.Tag {
			content = has
		}
	})
	return content
}

func (v *partitionView) take(is *condition.Partition) {
	v.Uncleanable = is.Uncleanable
	if d := is.Damage; d != nil {
		v.Damage = &damageView{File: d.File, Byte: d.At, Reason: d.Reason, Remedy: d.Remedy}
	}
	if c := is.Compaction; c != nil {
		v.Compaction = &compactionView{CleanedOffset: int64(c.Cleaned), DirtyBytes: c.DirtyBytes, DirtyRatio: c.Ratio(), OverdueMs: c.OverdueMs}
		if c.CleanedMs >= 0 {
			v.Compaction.LastCleaned = formatTime(time.UnixMilli(c.CleanedMs))
		}
	}
}

// compactionTable shows how far the partitions are compacted, or is nil where none is.
func (v *topicView) compactionTable() *table {
	right := func(title string) column { return column{title: title, right: true} }
	t := newTable(right("PARTITION"), right("CLEANED TO"), right("DIRTY"), right("RATIO"), column{title: "LAST CLEANED"}, column{})
	for _, p := range v.Partitions {
		c := p.Compaction
		if c == nil && p.Uncleanable == "" {
			continue
		}
		cells := []cell{number(p.Partition), faint("-"), faint("-"), faint("-"), faint("-"), when(p.Uncleanable != "", alarm("uncleanable"), plain(""))}
		if c != nil {
			cells[1], cells[2], cells[3] = known(c.CleanedOffset), plain(formatBytes(c.DirtyBytes)), plain(formatPercent(c.DirtyRatio))
			if c.LastCleaned != "" {
				cells[4] = plain(c.LastCleaned)
			}
			if c.OverdueMs > 0 && p.Uncleanable == "" {
				cells[5] = caution("overdue by " + formatSpan(time.Duration(c.OverdueMs)*time.Millisecond))
			}
		}
		t.add(cells...)
	}
	if len(t.rows) == 0 {
		return nil
	}
	return t
}

// conditionHints says in words what is wrong with the partitions and the directories that they are in.
func (v *topicView) conditionHints(p paint) []string {
	var hints []string
	for i := range v.Partitions {
		is := &v.Partitions[i]
		if d := is.Damage; d != nil {
			hints = append(hints, p.red("!")+" "+printable(fmt.Sprintf("partition %d is damaged: file %s, byte %d: %s; it answers KAFKA_STORAGE_ERROR; remedy: %s",
				is.Partition, d.File, d.Byte, d.Reason, d.Remedy)))
		}
		if is.Uncleanable != "" {
			hints = append(hints, p.red("!")+" "+printable(fmt.Sprintf("partition %d is uncleanable: %s; it grows until that is mended and the broker was started again",
				is.Partition, is.Uncleanable)))
		}
	}
	for _, d := range v.FullDirs {
		refused := "produces are refused"
		if d.RefusesCommits {
			refused = "produces and commits are refused"
		}
		hints = append(hints, p.red("!")+" "+printable(fmt.Sprintf("log directory %s of broker %d has %s free of the %s that it keeps: %s until there is room; delete topics or records, or make the file system larger",
			d.Path, d.Broker, formatBytes(d.UsableBytes), formatBytes(d.ReserveBytes), refused)))
	}
	return hints
}
