package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// noBound is the bound of a partition that is read for as long as it grows.
const noBound = math.MaxInt64

// startingPoint is where reading begins: one of its kinds.
type startingPoint struct {
	kind   startKind
	offset int64     // fromOffset, fromLast
	time   time.Time // fromTime
}

type startKind int

const (
	fromStart startKind = iota
	fromEnd
	fromOffset // this offset
	fromLast   // this many records before the end
	fromTime   // the first record that is not older
)

// parseFrom reads the value of --from.
func parseFrom(text string) (startingPoint, error) {
	switch text {
	case "start", "beginning", "earliest":
		return startingPoint{kind: fromStart}, nil
	case "end", "latest":
		return startingPoint{kind: fromEnd}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return startingPoint{}, usagef("--from %q is unknown: it is start, end, an offset, or -N for the last N records of each partition", text)
	case n < 0:
		return startingPoint{kind: fromLast, offset: -n}, nil
	}
	return startingPoint{kind: fromOffset, offset: n}, nil
}

// groupOffset is the point as a group's members begin with when nothing is committed.
func (s startingPoint) groupOffset() kgo.Offset {
	switch s.kind {
	case fromEnd:
		return kgo.NewOffset().AtEnd()
	case fromOffset:
		return kgo.NewOffset().At(s.offset)
	case fromLast:
		return kgo.NewOffset().AtEnd().Relative(-s.offset)
	case fromTime:
		return kgo.NewOffset().AfterMilli(s.time.UnixMilli())
	default:
		return kgo.NewOffset().AtStart()
	}
}

// span is what is read of one partition: from the first offset up to, and without, bound.
type span struct {
	from, bound int64
	end         int64 // of the partition when reading began
}

func (s span) empty() bool { return s.from >= s.bound }

// spans are the partitions to read, by topic.
type spans map[string]map[int32]span

func (s spans) set(topic string, partition int32, x span) {
	if s[topic] == nil {
		s[topic] = map[int32]span{}
	}
	s[topic][partition] = x
}

func (s spans) offsets() map[string]map[int32]kgo.Offset {
	offsets := map[string]map[int32]kgo.Offset{}
	for _, topic := range sortedKeys(s) {
		for _, partition := range sortedKeys(s[topic]) {
			if x := s[topic][partition]; !x.empty() {
				if offsets[topic] == nil {
					offsets[topic] = map[int32]kgo.Offset{}
				}
				offsets[topic][partition] = kgo.NewOffset().At(x.from)
			}
		}
	}
	return offsets
}

// planSpans asks the cluster where reading begins and ends in each partition. What lies outside of a partition is brought
// back into it.
func planSpans(ctx context.Context, adm *kadm.Client, o consumeOptions) (spans, error) {
	details, err := findTopics(ctx, adm, o.topics)
	if err != nil {
		return nil, err
	}
	starts, err := adm.ListStartOffsets(ctx, o.topics...)
	if err != nil {
		return nil, err
	}
	list := adm.ListEndOffsets
	if o.committed {
		list = adm.ListCommittedOffsets // the last stable offsets: nothing beyond will be shown
	}
	ends, err := list(ctx, o.topics...)
	if err != nil {
		return nil, err
	}
	since, err := offsetsAt(ctx, adm, o.from.time, o.topics)
	if err != nil {
		return nil, err
	}
	until, err := offsetsAt(ctx, adm, o.until, o.topics)
	if err != nil {
		return nil, err
	}
	plan := spans{}
	for _, d := range details.Sorted() {
		wanted := o.partitions
		if len(wanted) == 0 {
			wanted = d.Partitions.Numbers()
		}
		for _, partition := range wanted {
			if _, ok := d.Partitions[partition]; !ok {
				return nil, fmt.Errorf("%s has no partition %d: it has 0 to %d", d.Topic, partition, len(d.Partitions)-1)
			}
			x, err := o.span(d.Topic, partition, starts, ends, since, until)
			if err != nil {
				return nil, err
			}
			plan.set(d.Topic, partition, x)
		}
	}
	return plan, nil
}

func (o *consumeOptions) span(topic string, partition int32, starts, ends, since, until kadm.ListedOffsets) (span, error) {
	start, startOK := starts.Lookup(topic, partition)
	end, endOK := ends.Lookup(topic, partition)
	name := fmt.Sprintf("partition %d of %s", partition, topic)
	switch {
	case start.Err != nil:
		return span{}, refused(name, start.Err, "")
	case end.Err != nil:
		return span{}, refused(name, end.Err, "")
	case !startOK || !endOK:
		return span{}, fmt.Errorf("%s: the broker did not say where it begins and ends: try again", name)
	}
	x := span{bound: noBound, end: end.Offset}
	switch o.from.kind {
	case fromStart:
		x.from = start.Offset
	case fromEnd:
		x.from = end.Offset
	case fromOffset:
		x.from = o.from.offset
	case fromLast:
		x.from = end.Offset - o.from.offset
	case fromTime:
		x.from = listed(since, topic, partition)
	}
	x.from = max(start.Offset, min(x.from, end.Offset))
	if o.toEnd {
		x.bound = end.Offset
	}
	if !o.until.IsZero() {
		if at := listed(until, topic, partition); at >= 0 {
			x.bound = min(x.bound, at)
		}
	}
	return x, nil
}

// beyond tells whether an offset that was asked for lies behind the end of every partition.
func (s spans) beyond(from startingPoint) bool {
	if from.kind != fromOffset {
		return false
	}
	for _, partitions := range s {
		for _, x := range partitions {
			if from.offset <= x.end {
				return false
			}
		}
	}
	return true
}

// name names the partitions, where it is one only.
func (s spans) name() string {
	name, count := "", 0
	for _, topic := range sortedKeys(s) {
		for _, partition := range sortedKeys(s[topic]) {
			count++
			name = fmt.Sprintf("%s partition %d, which is %d", topic, partition, s[topic][partition].end)
		}
	}
	if count != 1 {
		return "every partition that is read"
	}
	return name
}

// offsetsAt returns the offsets of the first records that are not older than a time; without a time it asks nothing.
func offsetsAt(ctx context.Context, adm *kadm.Client, at time.Time, topics []string) (kadm.ListedOffsets, error) {
	if at.IsZero() {
		return nil, nil
	}
	return adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
}
