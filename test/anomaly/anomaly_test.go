package anomaly

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// good is a history in which nothing is wrong: two keys, two partitions, three transactions, of which one was aborted, and two
// readers, one of which began again.
func good() History {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := func(partition int32, offset int64, key, value string) Read {
		return Read{Place{"out", partition, offset}, key, value}
	}
	a0, a1, a2 := out(0, 0, "a", "0 t1 2"), out(0, 5, "a", "1 t3 3"), out(0, 6, "a", "2 t3 3")
	b0, b1 := out(1, 0, "b", "0 t1 2"), out(1, 4, "b", "1 t3 3")
	committed := func(offsets ...int64) (all []OffsetSample) {
		for _, o := range offsets {
			all = append(all, OffsetSample{"g", Place{"in", 0, o}})
		}
		return all
	}
	stable := func(seconds int, last, high int64) StableSample {
		return StableSample{at.Add(time.Duration(seconds) * time.Second), Partition{"out", 0}, last, high}
	}
	return History{
		Input:     map[string]int{"a": 3, "b": 2},
		InputEnds: map[Partition]int64{{"in", 0}: 5},
		Copies:    []Copy{{Group: "g", Output: "out", Committed: []string{"t1", "t3"}, Aborted: []string{"t2"}}},
		Readers: []Reader{
			{"one", [][]Read{{a0, b0, a1, a2, b1}}},
			{"two", [][]Read{{b0, a0, a1}, {b0, b1, a0, a1, a2}}},
		},
		Offsets: committed(0, 2, 2, 5),
		Stable: []StableSample{
			stable(0, 0, 0), stable(60, 0, 3), stable(65, 0, 4), stable(69, 4, 4), stable(90, 4, 4), stable(120, 4, 6), stable(125, 7, 8), stable(130, 8, 8),
		},
		StableWithin: 10 * time.Second,
	}
}

func TestNothingIsWrongWithAGoodHistory(t *testing.T) {
	if found := Check(good()); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// TestEachAnomalyIsFound spoils the good history in one way after the other.
func TestEachAnomalyIsFound(t *testing.T) {
	second := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5+s, 0, time.UTC) }
	everywhere := func(h *History, change func([]Read) []Read) {
		for r := range h.Readers {
			for s := range h.Readers[r].Sessions {
				h.Readers[r].Sessions[s] = change(h.Readers[r].Sessions[s])
			}
		}
	}
	without := func(offset int64) func([]Read) []Read {
		return func(all []Read) []Read {
			return slices.DeleteFunc(all, func(r Read) bool { return r.Offset == offset })
		}
	}
	replaced := func(partition int32, offset int64, value string) func([]Read) []Read {
		return func(all []Read) []Read {
			for i, r := range all {
				if r.Partition == partition && r.Offset == offset {
					all[i].Value = value
				}
			}
			return all
		}
	}
	with := func(more ...Read) func([]Read) []Read {
		return func(all []Read) []Read { return append(all, more...) }
	}
	for _, spoilt := range []struct {
		name string
		do   func(*History)
		want []Kind
	}{
		{"a record is missing", func(h *History) { everywhere(h, without(4)) }, []Kind{Lost, TornTransaction}},
		{"the last record is missing, with its transaction", func(h *History) {
			everywhere(h, replaced(0, 5, "1 t4 1"))
			everywhere(h, without(6))
			everywhere(h, without(4))
		}, []Kind{Lost}},
		{"a whole transaction is missing", func(h *History) { h.Copies[0].Committed = append(h.Copies[0].Committed, "t9") }, []Kind{Lost}},
		{"a record is there twice", func(h *History) { everywhere(h, with(Read{Place{"out", 0, 9}, "a", "2 t5 1"})) }, []Kind{Duplicate}},
		{"a record is there twice, long after", func(h *History) { everywhere(h, with(Read{Place{"out", 0, 9}, "a", "0 t5 1"})) }, []Kind{Duplicate}},
		{"an aborted record is read", func(h *History) { everywhere(h, with(Read{Place{"out", 0, 9}, "a", "2 t2 1"})) }, []Kind{AbortedRead}},
		{"one reader reads an aborted record", func(h *History) {
			h.Readers[1].Sessions[0] = append(h.Readers[1].Sessions[0], Read{Place{"out", 0, 9}, "a", "2 t2 1"})
		}, []Kind{AbortedRead, Disagreement}},
		{"a transaction is half there", func(h *History) {
			everywhere(h, without(4))
			h.Input["b"] = 1
		}, []Kind{TornTransaction}},
		{"a transaction is more than whole", func(h *History) {
			everywhere(h, with(Read{Place{"out", 0, 9}, "a", "3 t3 3"}))
			h.Input["a"] = 4
		}, []Kind{TornTransaction}},
		{"an offset goes back", func(h *History) { h.Offsets[2].Offset = 1 }, []Kind{OffsetRegress}},
		{"an offset goes back to nothing", func(h *History) { h.Offsets[2].Offset = -1 }, []Kind{OffsetRegress}},
		{"the last stable offset is stuck", func(h *History) {
			h.Stable = append(h.Stable, StableSample{second(130), Partition{"out", 0}, 8, 9}, StableSample{second(141), Partition{"out", 0}, 8, 10})
		}, []Kind{StuckLastStable}},
		{"the last stable offset is stuck at the start", func(h *History) {
			for s := range 30 {
				h.Stable = append(h.Stable, StableSample{second(s), Partition{"out", 1}, 0, int64(s)})
			}
		}, []Kind{StuckLastStable}},
		{"the last stable offset goes back", func(h *History) {
			h.Stable = append(h.Stable, StableSample{second(131), Partition{"out", 0}, 7, 9})
		}, []Kind{NonmonotonicPoll}},
		{"a poll goes back", func(h *History) {
			s := h.Readers[0].Sessions
			s[0] = append(s[0], s[0][0])
		}, []Kind{NonmonotonicPoll}},
		{"a poll gives a record twice", func(h *History) {
			s := h.Readers[1].Sessions
			s[0] = append(s[0], s[0][len(s[0])-1])
		}, []Kind{NonmonotonicPoll}},
		{"two records of a key change places", func(h *History) {
			everywhere(h, replaced(0, 5, "2 t3 3"))
			everywhere(h, replaced(0, 6, "1 t3 3"))
		}, []Kind{OutOfOrder}},
		{"two readers saw different records", func(h *History) {
			h.Readers[1].Sessions[0][0].Value = "1 t3 3"
		}, []Kind{Disagreement}},
		{"a reader has not seen all", func(h *History) {
			h.Readers[0].Sessions[0] = without(4)(h.Readers[0].Sessions[0])
		}, []Kind{Disagreement, Lost, TornTransaction}},
		{"a record of nobody", func(h *History) { everywhere(h, with(Read{Place{"out", 1, 9}, "b", "7 t5 1"})) }, []Kind{NeverSent}},
		{"a value of nobody", func(h *History) { everywhere(h, with(Read{Place{"out", 1, 9}, "b", "?"})) }, []Kind{NeverSent}},
		{"the offsets stop too early", func(h *History) { h.Offsets = h.Offsets[:3] }, []Kind{UncommittedInput}},
	} {
		t.Run(spoilt.name, func(t *testing.T) {
			h := good()
			spoilt.do(&h)
			var kinds []Kind
			found := Check(h)
			for _, f := range found {
				kinds = append(kinds, f.Kind)
			}
			slices.Sort(kinds)
			kinds = slices.Compact(kinds)
			slices.Sort(spoilt.want)
			if fmt.Sprint(kinds) != fmt.Sprint(spoilt.want) {
				t.Errorf("found %q, want %q:\n%v", kinds, spoilt.want, found)
			}
		})
	}
}
