// Package anomaly judges what clients saw of a transactional copy: every record of the input is to be in the output exactly once, in
// the order of its key, each transaction whole or not at all, and what readers and offsets show is never taken back. It is pure: a
// History goes in, what is wrong with it comes out.
package anomaly

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a way in which a history can be wrong.
type Kind string

const (
	Lost             Kind = "lost"               // a record of the input, or one of a transaction whose commit was acknowledged, is not in the output
	Duplicate        Kind = "duplicate"          // a record of the input is in the output more than once
	AbortedRead      Kind = "aborted read"       // a reader was given a record of a transaction that was aborted
	TornTransaction  Kind = "torn transaction"   // some but not all records of a transaction are in the output
	OffsetRegress    Kind = "offset regress"     // a group's committed offset went back
	StuckLastStable  Kind = "stuck last stable"  // the last stable offset stood still, below the high watermark, for too long
	NonmonotonicPoll Kind = "nonmonotonic poll"  // a reader was given an offset that is not above the one before
	OutOfOrder       Kind = "out of order"       // the output has the records of a key in another order than the input
	Disagreement     Kind = "readers disagree"   // two readers saw different records at one offset, or one did not see what another did
	NeverSent        Kind = "never sent"         // the output has a record that no copy wrote
	UncommittedInput Kind = "offsets and output" // the committed offsets of the group do not end where the input ends
)

// Finding is one thing that is wrong.
type Finding struct {
	Kind Kind
	What string
}

func (f Finding) String() string { return string(f.Kind) + ": " + f.What }

// Place is an offset of a partition.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (p Place) String() string { return fmt.Sprintf("%s-%d@%d", p.Topic, p.Partition, p.Offset) }

// Partition is a Place without the offset.
type Partition struct {
	Topic     string
	Partition int32
}

// Copied is the value of a record of the output: which record of its key it is, the transaction that wrote it, and how many records
// that transaction wrote in all, over all partitions. Its text is "N TRANSACTION COUNT".
type Copied struct {
	N           int
	Transaction string
	Count       int
}

// ParseCopied reads the value of a record of the output.
func ParseCopied(value string) (Copied, error) {
	words := strings.Fields(value)
	if len(words) != 3 {
		return Copied{}, fmt.Errorf("value %q is not a number, a transaction and a count", value)
	}
	n, err := strconv.Atoi(words[0])
	if err != nil {
		return Copied{}, fmt.Errorf("value %q: %w", value, err)
	}
	count, err := strconv.Atoi(words[2])
	if err != nil {
		return Copied{}, fmt.Errorf("value %q: %w", value, err)
	}
	return Copied{N: n, Transaction: words[1], Count: count}, nil
}

// Read is a record that a reader was given.
type Read struct {
	Place
	Key   string
	Value string
}

// Reader is what one read_committed reader was given, in order, in sessions: a new one begins when it was told again what it owns,
// and may begin anywhere.
type Reader struct {
	Name     string
	Sessions [][]Read
}

// OffsetSample is the committed offset of a group at a time, asked for with RequireStable.
type OffsetSample struct {
	Group string
	Place
}

// StableSample is what a broker said of a partition at a time.
type StableSample struct {
	At time.Time
	Partition
	LastStable, HighWatermark int64
}

// Copy is a job, or several of one group, that copies the input into an output topic.
type Copy struct {
	Group     string
	Output    string
	Committed []string // transactions whose commit was acknowledged
	Aborted   []string // transactions of which the job knows that they were aborted, or that it never meant to commit
}

// History is all that was seen.
type History struct {
	Input        map[string]int      // how many records each key has: 0 … n-1, acknowledged in that order
	InputEnds    map[Partition]int64 // of the input, when all was copied
	Copies       []Copy
	Readers      []Reader // each has read every output to its end
	Offsets      []OffsetSample
	Stable       []StableSample
	StableWithin time.Duration // how long a last stable offset may stand still below the high watermark
}

// Check returns all that is wrong with the history, the most of each kind once per thing that it is about.
func Check(h History) []Finding {
	c := check{History: h}
	for _, reader := range h.Readers {
		c.reader(reader)
	}
	c.agreement()
	for _, reader := range h.Readers {
		seen := reader.seen()
		places := sortedPlaces(seen)
		for _, copied := range h.Copies {
			c.output(copied, reader.Name, seen, places)
		}
	}
	for _, copied := range h.Copies {
		c.groupEnds(copied)
	}
	c.offsets()
	c.stable()
	slices.SortStableFunc(c.found, func(a, b Finding) int { return cmp.Compare(a.Kind, b.Kind) })
	return c.found
}

type check struct {
	History
	found []Finding
}

func (c *check) find(kind Kind, format string, args ...any) {
	c.found = append(c.found, Finding{kind, fmt.Sprintf(format, args...)})
}

// reader checks that what a reader was given went forward.
func (c *check) reader(r Reader) {
	for _, session := range r.Sessions {
		last := map[Partition]int64{}
		for _, read := range session {
			at := Partition{read.Topic, read.Partition}
			if before, ok := last[at]; ok && read.Offset <= before {
				c.find(NonmonotonicPoll, "%s was given %v after offset %d", r.Name, read.Place, before)
			}
			last[at] = read.Offset
		}
	}
}

// seen is what a reader saw at each place. What it saw in an earlier session counts too: it was shown.
func (r Reader) seen() map[Place]Read {
	all := map[Place]Read{}
	for _, session := range r.Sessions {
		for _, read := range session {
			all[read.Place] = read
		}
	}
	return all
}

// agreement checks that all readers saw the same, and each of them at any time.
func (c *check) agreement() {
	type first struct {
		read Read
		by   string
	}
	firsts := map[Place]first{}
	for _, r := range c.Readers {
		for _, session := range r.Sessions {
			for _, read := range session {
				was, ok := firsts[read.Place]
				if !ok {
					firsts[read.Place] = first{read, r.Name}
				} else if was.read != read {
					c.find(Disagreement, "at %v %s saw %q %q, and %s saw %q %q", read.Place, was.by, was.read.Key, was.read.Value, r.Name, read.Key, read.Value)
				}
			}
		}
	}
	places := sortedPlaces(firsts)
	for _, r := range c.Readers {
		seen := r.seen()
		missing := 0
		for _, at := range places {
			if _, ok := seen[at]; !ok {
				if missing++; missing == 1 {
					c.find(Disagreement, "%s did not see %v, which %s saw: %q", r.Name, at, firsts[at].by, firsts[at].read.Value)
				}
			}
		}
	}
}

// output checks what a reader saw of a copy against the input.
func (c *check) output(copied Copy, reader string, seen map[Place]Read, places []Place) {
	aborted := map[string]bool{}
	for _, transaction := range copied.Aborted {
		aborted[transaction] = true
	}
	type transaction struct{ seen, count int }
	transactions := map[string]transaction{}
	where := map[string]map[int][]Place{} // by key and number
	last := map[string]int{}              // by key: the number before
	for _, at := range places {
		if at.Topic != copied.Output {
			continue
		}
		read := seen[at]
		value, err := ParseCopied(read.Value)
		if err != nil || value.N < 0 || value.N >= c.Input[read.Key] {
			c.find(NeverSent, "%s saw at %v %q %q", reader, at, read.Key, read.Value)
			continue
		}
		if aborted[value.Transaction] {
			c.find(AbortedRead, "%s saw at %v record %d of key %s of transaction %s", reader, at, value.N, read.Key, value.Transaction)
			continue
		}
		t := transactions[value.Transaction]
		transactions[value.Transaction] = transaction{t.seen + 1, value.Count}
		if where[read.Key] == nil {
			where[read.Key] = map[int][]Place{}
		}
		before := where[read.Key][value.N]
		where[read.Key][value.N] = append(before, at)
		if previous, ok := last[read.Key]; ok && value.N < previous && len(before) == 0 {
			c.find(OutOfOrder, "%s saw at %v record %d of key %s after %d", reader, at, value.N, read.Key, previous)
		}
		last[read.Key] = value.N
	}
	for _, key := range slices.Sorted(maps.Keys(c.Input)) {
		for n := range c.Input[key] {
			switch places := where[key][n]; {
			case len(places) == 0:
				c.find(Lost, "%s did not see record %d of key %s in %s", reader, n, key, copied.Output)
			case len(places) > 1:
				c.find(Duplicate, "%s saw record %d of key %s at %v", reader, n, key, places)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(transactions)) {
		if t := transactions[name]; t.seen != t.count {
			c.find(TornTransaction, "%s saw %d of the %d records of transaction %s in %s", reader, t.seen, t.count, name, copied.Output)
		}
	}
	for _, name := range copied.Committed {
		if transactions[name].seen == 0 {
			c.find(Lost, "%s saw nothing of transaction %s in %s, whose commit was acknowledged", reader, name, copied.Output)
		}
	}
}

// groupEnds checks that the last committed offsets are the ends of the input: the offsets of a transaction count as its records do.
func (c *check) groupEnds(copied Copy) {
	last := map[Partition]int64{}
	for _, s := range c.Offsets {
		if s.Group == copied.Group {
			last[Partition{s.Topic, s.Partition}] = s.Offset
		}
	}
	for at, end := range c.InputEnds {
		if got := last[at]; got != end {
			c.find(UncommittedInput, "group %s ends at %d of %s-%d, which ends at %d", copied.Group, got, at.Topic, at.Partition, end)
		}
	}
}

// offsets checks that no committed offset went back.
func (c *check) offsets() {
	type of struct {
		group string
		Partition
	}
	last := map[of]int64{}
	for _, s := range c.Offsets {
		at := of{s.Group, Partition{s.Topic, s.Partition}}
		if before, ok := last[at]; ok && s.Offset < before {
			c.find(OffsetRegress, "group %s had %d committed of %s-%d, and then %d", s.Group, before, s.Topic, s.Partition, s.Offset)
		}
		last[at] = s.Offset
	}
}

// stable checks that no last stable offset stood still below the high watermark for longer than StableWithin.
func (c *check) stable() {
	since := map[Partition]StableSample{}
	told := map[Partition]bool{}
	for _, s := range c.Stable {
		was, ok := since[s.Partition]
		if ok && s.LastStable < was.LastStable {
			c.find(NonmonotonicPoll, "the last stable offset of %s-%d went from %d to %d", s.Topic, s.Partition.Partition, was.LastStable, s.LastStable)
		}
		if !ok || s.LastStable != was.LastStable || s.LastStable == s.HighWatermark {
			since[s.Partition], told[s.Partition] = s, false
			continue
		}
		if was.LastStable == was.HighWatermark { // what holds it up began between the two samples
			since[s.Partition] = s
			continue
		}
		if still := s.At.Sub(was.At); still > c.StableWithin && !told[s.Partition] {
			told[s.Partition] = true
			c.find(StuckLastStable, "%s-%d stood at %d for %v, below the high watermark %d", s.Topic, s.Partition.Partition, s.LastStable, still, s.HighWatermark)
		}
	}
}

func sortedPlaces[V any](m map[Place]V) []Place {
	return slices.SortedFunc(maps.Keys(m), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
}
