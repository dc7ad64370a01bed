package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// resetFlags is the command line of `group reset`.
type resetFlags struct {
	topics             []string
	earliest, latest   bool
	current            bool
	toOffset, shiftBy  int64
	toDatetime, toSpan string
	file               string
	execute, export    bool
}

// resetTarget is where a group's offsets go.
type resetTarget struct {
	kind   resetKind
	offset int64 // resetOffset, resetShift
	time   time.Time
	file   map[topicPartition]int64 // resetFile
}

type resetKind int

const (
	resetEarliest resetKind = iota
	resetLatest
	resetCurrent
	resetOffset
	resetShift
	resetTime
	resetFile
)

func groupResetCommand(a *app) *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Move what a group committed: to start, end, an offset or a time",
		Long: `Move what a group committed, in all topics it has committed for or in those that -t names. Without --execute only
a preview is shown. The group must have no members while its offsets are moved.`,
		Example: `  raftsman group reset billing --to-earliest
  raftsman group reset billing -t orders --to-datetime 2026-01-02T15:04:05Z --execute
  raftsman group reset billing -t orders:0,3 --shift-by -100 --execute
  raftsman group reset billing --to-current --export > billing.csv
  raftsman group reset billing --from-file billing.csv --execute`,
		Args: wants(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			target, err := f.target(c.Flags().Changed, a.now())
			if err != nil {
				return err
			}
			if target.kind == resetFile {
				if target.file, err = readOffsets(f.file, args[0]); err != nil {
					return err
				}
			}
			if f.export && (f.execute || a.json()) {
				return usagef("--export only shows where the offsets would go, as CSV: leave out --execute and -o json")
			}
			topics, err := parseTopicPartitions(f.topics)
			if err != nil {
				return err
			}
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				return a.resetGroup(ctx, adm, args[0], topics, target, &f)
			})
		},
		ValidArgsFunction: a.completeGroups,
	}
	flags := c.Flags()
	flags.StringArrayVarP(&f.topics, "topic", "t", nil, "only this topic, or TOPIC:0,3 for some of its partitions (repeat)")
	flags.BoolVar(&f.earliest, "to-earliest", false, "to the first record there is")
	flags.BoolVar(&f.latest, "to-latest", false, "to the end: skip all there is")
	flags.BoolVar(&f.current, "to-current", false, "to where it is; brings offsets out of range back into it")
	flags.Int64Var(&f.toOffset, "to-offset", 0, "to this offset")
	flags.Int64Var(&f.shiftBy, "shift-by", 0, "so many records forward, or back with a minus")
	flags.StringVar(&f.toDatetime, "to-datetime", "", "to the first record not older than 2026-01-02T15:04:05Z")
	flags.StringVar(&f.toSpan, "by-duration", "", "to the first record not older than this long ago (10m, 7d)")
	flags.StringVar(&f.file, "from-file", "", "to what this file has: CSV with topic,partition,offset, as --export and Kafka's tools write it")
	flags.BoolVar(&f.export, "export", false, "print where the offsets would go as CSV, for --from-file")
	flags.BoolVar(&f.execute, "execute", false, "do it, do not only show it")
	return c
}

// resetTargets are the flags that say where to.
var resetTargets = [...]string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"}

func (f *resetFlags) target(given func(string) bool, now time.Time) (resetTarget, error) {
	var named []string
	for _, flag := range resetTargets {
		if given(flag) {
			named = append(named, "--"+flag)
		}
	}
	if len(named) != 1 {
		if len(named) == 0 {
			return resetTarget{}, usagef("where the offsets have to go is missing: one of --%s", strings.Join(resetTargets[:], ", --"))
		}
		return resetTarget{}, usagef("%s say different things: choose one", strings.Join(named, " and "))
	}
	switch {
	case given("to-offset"):
		if f.toOffset < 0 {
			return resetTarget{}, usagef("--to-offset %d is negative: --shift-by goes back", f.toOffset)
		}
		return resetTarget{kind: resetOffset, offset: f.toOffset}, nil
	case given("shift-by"):
		return resetTarget{kind: resetShift, offset: f.shiftBy}, nil
	case given("to-datetime"), given("by-duration"):
		at, err := parseWhen(f.toDatetime+f.toSpan, now)
		if err != nil {
			return resetTarget{}, usagef("%w", err)
		}
		return resetTarget{kind: resetTime, time: at}, nil
	case given("from-file"):
		return resetTarget{kind: resetFile}, nil
	case f.latest:
		return resetTarget{kind: resetLatest}, nil
	case f.current:
		return resetTarget{kind: resetCurrent}, nil
	}
	return resetTarget{kind: resetEarliest}, nil
}

// parseTopicPartitions reads TOPIC and TOPIC:0,3. A topic without partitions means all of them.
func parseTopicPartitions(texts []string) (map[string][]int32, error) {
	topics := map[string][]int32{}
	for _, text := range texts {
		topic, list, some := strings.Cut(text, ":")
		if topic == "" {
			return nil, usagef("%q names no topic", text)
		}
		if !some {
			topics[topic] = nil
			continue
		}
		for number := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(number, 10, 32)
			if err != nil || n < 0 {
				return nil, usagef("%q: %q is no partition; it is TOPIC or TOPIC:0,3", text, number)
			}
			topics[topic] = append(topics[topic], int32(n))
		}
	}
	return topics, nil
}

// movedOffset is one line of the preview. From is -1 where nothing was committed.
type movedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"` // afterwards

	asked int64 // what To would be if the partition went that far
}

func (a *app) resetGroup(ctx context.Context, adm *kadm.Client, group string, topics map[string][]int32, target resetTarget, f *resetFlags) error {
	busy, err := membersOf(ctx, adm, group)
	if err != nil {
		return err
	}
	if f.execute && busy != nil {
		return busy
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return refused("offsets of group "+group, err, "")
	}
	if len(topics) == 0 {
		topics = target.topics()
	}
	wanted, err := resetPartitions(ctx, adm, group, committed, topics)
	if err != nil {
		return err
	}
	moves, err := planReset(ctx, adm, committed, wanted, target)
	if err != nil {
		return err
	}
	if f.export {
		return a.exportMoves(moves)
	}
	if f.execute {
		if err := commitMoves(ctx, adm, group, moves); err != nil {
			return err
		}
	}
	if err := a.writeMoves(group, moves, f.execute); err != nil {
		return err
	}
	if target.kind == resetOffset || target.kind == resetShift || target.kind == resetFile {
		a.noteCutShort(moves)
	}
	if !f.execute {
		if busy != nil {
			a.note("%v", busy)
		}
		a.note("this is a preview, nothing is changed: add --execute to do it")
	}
	return nil
}

// noteCutShort tells which offsets lie outside of their partitions, so that its start or end was taken.
func (a *app) noteCutShort(moves []movedOffset) {
	for _, m := range moves {
		switch {
		case m.asked > m.End:
			a.note("%s partition %d: offset %d is beyond its end: %d is taken", m.Topic, m.Partition, m.asked, m.To)
		case m.asked < m.Start:
			a.note("%s partition %d: offset %d is before its start: %d is taken", m.Topic, m.Partition, m.asked, m.To)
		}
	}
}

// membersOf returns what to tell when a group has members: then nothing can be moved. A group that does not exist has none.
func membersOf(ctx context.Context, adm *kadm.Client, group string) (busy, err error) {
	v, _, err := describeGroup(ctx, adm, group)
	var missing *noGroupError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(v.Members) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(v.Members))
	for _, m := range v.Members {
		names = append(names, m.String())
	}
	return fmt.Errorf("group %s is in use: it has %s (%s); stop them before its offsets can be moved", group, plural(int64(len(names)), "member"), shorten(strings.Join(names, ", "), 80)), nil
}

// resetPartitions settles which partitions are meant: all that the group has committed for, or what was named.
func resetPartitions(ctx context.Context, adm *kadm.Client, group string, committed kadm.OffsetResponses, topics map[string][]int32) (kadm.TopicsSet, error) {
	wanted := kadm.TopicsSet{}
	if len(topics) == 0 {
		committed.Each(func(o kadm.OffsetResponse) {
			if o.At >= 0 {
				wanted.Add(o.Topic, o.Partition)
			}
		})
		if len(wanted) == 0 {
			return nil, fmt.Errorf("group %s has committed nothing: name topics with -t, or see `raftsman group list`", group)
		}
		return wanted, nil
	}
	details, err := findTopics(ctx, adm, sortedKeys(topics))
	if err != nil {
		return nil, err
	}
	return choosePartitions(details, topics)
}

// planReset computes where each partition goes. What lies outside of a partition is brought back into it.
func planReset(ctx context.Context, adm *kadm.Client, committed kadm.OffsetResponses, wanted kadm.TopicsSet, target resetTarget) ([]movedOffset, error) {
	topics := wanted.Topics()
	slices.Sort(topics)
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	atTime, err := offsetsAt(ctx, adm, target.time, topics)
	if err != nil {
		return nil, err
	}
	moves := []movedOffset{}
	for _, t := range wanted.Sorted() {
		for _, partition := range t.Partitions {
			m := movedOffset{
				Topic: t.Topic, Partition: partition, From: unknown,
				Start: listed(starts, t.Topic, partition), End: listed(ends, t.Topic, partition),
			}
			if m.Start < 0 || m.End < 0 {
				return nil, fmt.Errorf("%s partition %d: where it begins and ends is unknown, `raftsman topic describe %s` shows whether it has a leader", t.Topic, partition, t.Topic)
			}
			if o, ok := committed.Lookup(t.Topic, partition); ok && o.Err == nil {
				m.From = o.At
			}
			if m.asked = target.apply(m, listed(atTime, t.Topic, partition)); m.asked == unknown && target.kind == resetFile {
				return nil, fmt.Errorf("the file has no offset for %s partition %d: leave out -t, or add a line", t.Topic, partition)
			}
			m.To = max(m.Start, min(m.asked, m.End))
			m.Lag = m.End - m.To
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// apply returns where a partition's offset goes, maybe out of its range. Without a commit, shifting and staying count from
// the start.
func (t resetTarget) apply(m movedOffset, atTime int64) int64 {
	current := m.From
	if current < 0 {
		current = m.Start
	}
	switch t.kind {
	case resetLatest:
		return m.End
	case resetCurrent:
		return current
	case resetOffset:
		return t.offset
	case resetShift:
		return current + t.offset
	case resetFile:
		if offset, ok := t.file[topicPartition{m.Topic, m.Partition}]; ok {
			return offset
		}
		return unknown
	case resetTime:
		if atTime < 0 {
			return m.End
		}
		return atTime
	default:
		return m.Start
	}
}

func commitMoves(ctx context.Context, adm *kadm.Client, group string, moves []movedOffset) error {
	offsets := kadm.Offsets{}
	for _, m := range moves {
		offsets.AddOffset(m.Topic, m.Partition, m.To, -1)
	}
	results, err := adm.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return refused("reset group "+group, err, "")
	}
	var failed failures
	for _, r := range results.Sorted() {
		if r.Err != nil {
			failed = append(failed, refused(fmt.Sprintf("reset group %s in %s partition %d", group, r.Topic, r.Partition), r.Err, ""))
		}
	}
	if len(failed) > 0 {
		return failed[0] // they all have the same reason
	}
	return nil
}

func (a *app) writeMoves(group string, moves []movedOffset, executed bool) error {
	if a.json() {
		return a.writeJSON(map[string]any{"group": group, "executed": executed, "partitions": moves})
	}
	t := newTable(column{title: "TOPIC", flexible: true}, column{title: "PARTITION", right: true}, column{title: "FROM", right: true},
		column{title: "TO", right: true}, column{title: "CHANGE", right: true}, column{title: "START", right: true}, column{title: "END", right: true}, column{title: "LAG", right: true})
	for _, m := range moves {
		t.add(plain(m.Topic), number(m.Partition), known(m.From), strong(formatCount(m.To)), change(m), known(m.Start), known(m.End), known(m.Lag))
	}
	return t.write(a.out, a.paint(), a.width())
}

func change(m movedOffset) cell {
	switch {
	case m.From < 0:
		return faint("new")
	case m.To == m.From:
		return faint("0")
	case m.To > m.From:
		return caution("+" + formatCount(m.To-m.From))
	}
	return caution(formatCount(m.To - m.From))
}
