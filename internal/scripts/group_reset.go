package scripts

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetTargets are the options that say where offsets go.
var resetTargets = []string{"to-datetime", "by-duration", "to-latest", "to-current", "to-earliest", "to-offset", "shift-by", "from-file"}

// reset is where offsets go, in one group.
type reset struct {
	target string // one of resetTargets
	number int64  // to-offset, shift-by
	time   time.Time
	file   map[string]map[string]map[int32]int64 // from-file: group ("" for all), topic, partition
}

func (c *call) resetOffsets(ctx context.Context) error {
	if !c.opts.has("dry-run") && !c.opts.has("execute") {
		c.say("WARN: this only shows what would be done: add --execute to do it, or --dry-run to not be told.")
	}
	r, err := c.readReset()
	if err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	groups, err := c.groups(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"}}
	for _, group := range groups {
		moves, err := c.resetGroup(ctx, group, r)
		var code *kerr.Error
		if errors.As(err, &code) {
			c.print("\nError: Executing consumer group command failed due to %s\n", sentence(err, saidBy(err)))
			return nil
		}
		if err != nil {
			return err
		}
		rows = append(rows, moves...)
	}
	if c.opts.has("export") {
		return c.exportOffsets(rows[1:], len(groups) == 1 && !c.opts.has("all-groups"))
	}
	c.print("\n")
	c.columns(rows)
	return nil
}

func (c *call) readReset() (*reset, error) {
	var chosen []string
	for _, target := range resetTargets {
		if c.opts.has(target) {
			chosen = append(chosen, target)
		}
	}
	switch {
	case !c.opts.has("group") && !c.opts.has("all-groups"):
		return nil, usagef("Option [reset-offsets] takes one of these options: [all-groups], [group]")
	case len(chosen) == 0:
		return nil, usagef("Option '[reset-offsets]' requires one of the following scenarios: [[%s]]", strings.Join(resetTargets, "], ["))
	case len(chosen) > 1:
		return nil, usagef(`Option "[%s]" can't be used with option "[%s]"`, earlier(c.args, chosen[0], chosen[1]), later(c.args, chosen[0], chosen[1]))
	case !c.opts.has("topic") && !c.opts.has("all-topics") && chosen[0] != "from-file":
		return nil, usagef("One of the reset scopes should be defined: --all-topics, --topic.")
	}
	r := &reset{target: chosen[0]}
	var err error
	switch text := c.opts.value(r.target); r.target {
	case "to-offset", "shift-by":
		if r.number, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = usagef("Cannot parse argument '%s' of option %s", text, r.target)
		}
	case "to-datetime":
		r.time, err = parseDateTime(text)
	case "by-duration":
		var span time.Duration
		span, err = parseDuration(text)
		r.time = c.env.Now().Add(-span)
	case "from-file":
		r.file, err = readOffsets(text)
	}
	return r, err
}

// earlier and later say in which order two options came.
func earlier(args []string, x, y string) string {
	if slices.Index(args, "--"+x) <= slices.Index(args, "--"+y) {
		return x
	}
	return y
}

func later(args []string, x, y string) string {
	if earlier(args, x, y) == x {
		return y
	}
	return x
}

// parseDateTime reads YYYY-MM-DDThh:mm:ss.sss with or without a zone; without one it is UTC.
func parseDateTime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999Z07:00", "2006-01-02T15:04:05.999Z0700", "2006-01-02T15:04:05.999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%q is no time: it is 2026-01-02T15:04:05.000Z, say", text)
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// parseDuration reads a duration of ISO 8601: P1DT2H3M4.5S.
func parseDuration(text string) (time.Duration, error) {
	parts := isoDuration.FindStringSubmatch(strings.ToUpper(text))
	if parts == nil || strings.HasSuffix(text, "T") || len(text) < 3 {
		return 0, usagef("%q is no duration: it is P7D or PT1H30M, say", text)
	}
	var span time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(parts[i+1], 64)
		if err != nil || n*float64(unit) > float64(1<<62) {
			return 0, usagef("%q is too long", text)
		}
		span += time.Duration(n * float64(unit))
	}
	return span, nil
}

// readOffsets reads lines of topic,partition,offset or group,topic,partition,offset.
func readOffsets(path string) (map[string]map[string]map[int32]int64, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	offsets := map[string]map[string]map[int32]int64{}
	for i, row := range rows {
		if len(row) == 3 {
			row = slices.Insert(row, 0, "")
		}
		if len(row) != 4 {
			return nil, fmt.Errorf("%s: line %d is not topic,partition,offset", path, i+1)
		}
		partition, err := strconv.ParseInt(row[2], 10, 32)
		offset, err2 := strconv.ParseInt(row[3], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, err)
		}
		if offsets[row[0]] == nil {
			offsets[row[0]] = map[string]map[int32]int64{}
		}
		if offsets[row[0]][row[1]] == nil {
			offsets[row[0]][row[1]] = map[int32]int64{}
		}
		offsets[row[0]][row[1]][int32(partition)] = offset
	}
	return offsets, nil
}

// resetGroup moves a group, or says where it would go, and returns rows of group, topic, partition and offset.
func (c *call) resetGroup(ctx context.Context, group string, r *reset) ([][]string, error) {
	if g, err := c.describe(ctx, group); err == nil && g.state != "Empty" {
		c.print("\nError: Assignments can only be reset if the group '%s' is inactive, but the current state is %s.\n", group, g.state)
		return nil, nil
	} else if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, err
	}
	committed, err := c.adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets := r.file[group]
	if offsets == nil {
		offsets = r.file[""]
	}
	wanted := kadm.TopicsSet{}
	switch {
	case r.target == "from-file":
		for topic, partitions := range offsets {
			for p := range partitions {
				wanted.Add(topic, p)
			}
		}
	case c.opts.has("all-topics"):
		committed.Each(func(o kadm.OffsetResponse) {
			if o.At >= 0 {
				wanted.Add(o.Topic, o.Partition)
			}
		})
	default:
		if wanted, err = c.partitionsNamed(ctx, c.opts["topic"]); err != nil {
			return nil, err
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	moves, err := c.newOffsets(ctx, wanted, committed, r, offsets)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			rows = append(rows, []string{group, t.Topic, fmt.Sprint(p), fmt.Sprint(moves[t.Topic][p].At)})
		}
	}
	if !c.opts.has("execute") {
		return rows, nil
	}
	results, err := c.adm.CommitOffsets(ctx, group, moves)
	if err != nil {
		return nil, err
	}
	for _, o := range results.Sorted() {
		if o.Err != nil {
			return nil, o.Err
		}
	}
	return rows, nil
}

// newOffsets computes where partitions go. What lies outside of a partition is brought back into it.
func (c *call) newOffsets(ctx context.Context, wanted kadm.TopicsSet, committed kadm.OffsetResponses, r *reset, file map[string]map[int32]int64) (kadm.Offsets, error) {
	topics := wanted.Topics()
	starts, err := c.adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := c.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var times kadm.ListedOffsets
	if !r.time.IsZero() {
		if times, err = offsetsAt(ctx, c.cl, wanted, r.time.UnixMilli()); err != nil {
			return nil, err
		}
	}
	moves := kadm.Offsets{}
	for _, t := range wanted.Sorted() {
		for _, p := range t.Partitions {
			start, end := endOf(starts, t.Topic, p), endOf(ends, t.Topic, p)
			if start < 0 || end < 0 {
				return nil, kerr.UnknownTopicOrPartition
			}
			current := int64(-1)
			if o, ok := committed.Lookup(t.Topic, p); ok {
				current = o.At
			}
			to := end
			switch r.target {
			case "to-earliest":
				to = start
			case "to-offset":
				to = r.number
			case "shift-by":
				if current < 0 {
					return nil, fmt.Errorf("Cannot shift offset for partition %s-%d since there is no current committed offset", t.Topic, p)
				}
				to = current + r.number
			case "to-current":
				if current >= 0 {
					to = current
				}
			case "from-file":
				to = file[t.Topic][p]
			case "to-datetime", "by-duration":
				if to = endOf(times, t.Topic, p); to < 0 {
					c.print("\nWarn: Partition %d from topic %s is empty. Falling back to latest known offset.\n", p, t.Topic)
					to = end
				}
			}
			moves.AddOffset(t.Topic, p, max(start, min(to, end)), -1)
		}
	}
	return moves, nil
}

func (c *call) exportOffsets(rows [][]string, single bool) error {
	w := csv.NewWriter(c.out)
	for _, row := range rows {
		if single {
			row = row[1:]
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	c.print("\n")
	return w.Error()
}
